"""A whole row of the paper's Table 1: every split, every seed, trained and tested, with the time it all takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torch_ctree.benchmarking.training import count_right, settings
from torch_ctree.data import Encoded
from torch_ctree.devices import in_tf32
from torch_ctree.models import Seq2Seq
from torch_ctree.training.pool import Outcome, Tell, Watcher, run_together
from torch_ctree.training.sharing import shared_gpu

PRESETS = ("paper-scan-simple", "paper-scan-jump", "paper-scan-turn-left", "paper-scan-length")


class Entry(NamedTuple):
    """One run."""

    preset: str
    seed: int
    folder: str
    root: str | None
    precision: str


def _train_and_test(entry: Entry, tell: Tell) -> dict[str, Any]:
    from rich.console import Console  # noqa: PLC0415

    from torch_ctree.training.running import train  # noqa: PLC0415  (Lightning takes seconds to import)

    config = settings(entry.seed, entry.root, entry.preset, entry.precision)
    folder = Path(entry.folder) / f"{entry.preset}-{entry.seed}"
    start = time.perf_counter()
    finished = train(config, folder, console=Console(quiet=True))
    trained = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Seq2Seq.from_pretrained(folder).to(device).eval()
    pairs = Encoded.of(config.data.load().test, model.source, model.target)
    with in_tf32(device, config.trainer.tf32), torch.no_grad():
        right = count_right(model, pairs, 1000 if device.type == "cuda" else 100)
    return {
        "preset": entry.preset,
        "seed": entry.seed,
        "epochs": finished.epochs,
        "best_epoch": finished.best["epoch"],
        "validation_accuracy": finished.best["validation_accuracy"],
        "test_exact_match": right / len(pairs),
        "training_s": trained - start,
        "testing_s": time.perf_counter() - trained,
    }


class _Say(Watcher):
    """A line for each run that has ended."""

    def __init__(self, tell: Tell) -> None:
        self.tell, self.began = tell, time.perf_counter()

    def ended(self, n: int, outcome: Outcome[Any, Any]) -> None:
        """What came out."""
        entry, found = outcome.job, outcome.result
        said = f"failed: {outcome.error}"
        if found is not None:
            said = f"{found['epochs']} epochs, test {found['test_exact_match']:.2%}, {found['training_s']:.0f} s"
        self.tell(f"{time.perf_counter() - self.began:5.0f} s  {entry.preset} {entry.seed}: {said}")


def row(
    presets: Sequence[str], seeds: int, at_once: int, folder: Path, root: str | None, precision: str, tell: Tell
) -> dict[str, Any]:
    """All runs → their results, and the minutes from the first import to the last test."""
    start = time.perf_counter()
    entries = [Entry(name, seed, str(folder), root, precision) for name in presets for seed in range(seeds)]
    with shared_gpu(tell, min(at_once, len(entries)), [precision]) as variables:
        outcomes = run_together(_train_and_test, entries, at_once, variables, _Say(tell))
    minutes = (time.perf_counter() - start) / 60
    runs = [
        outcome.result or {"preset": entry.preset, "seed": entry.seed, "error": outcome.error}
        for entry, outcome in zip(entries, outcomes, strict=True)
    ]
    return {"value": minutes, "at_once": at_once, "precision": precision, "runs": runs}
