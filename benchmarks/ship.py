"""Make a run the model that ships: ``python benchmarks/ship.py runs/example-0``, after training and testing it.

    ctree train example
    ctree evaluate runs/example-0
    python benchmarks/ship.py runs/example-0

With CTREE_DATA naming no folder with the official files of SCAN: the split is then the one that seed 0 draws, which
everyone has.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from pathlib import Path
from typing import Any

import torch

from torch_ctree import Seq2Seq, training
from torch_ctree.circumstances import circumstances
from torch_ctree.data.disk import write
from torch_ctree.evaluation import Prediction, is_exact, read_predictions, write_predictions
from torch_ctree.models.pretrained import FILES, SHIPPED, WEIGHTS
from torch_ctree.training import TrainConfig
from torch_ctree.training.checkpoints import METRICS
from torch_ctree.training.configuration import CONFIG

EVALUATION, PREDICTIONS = "evaluation.json", "predictions.jsonl"
WRONG, RIGHT = 12, 36
"""Test pairs that are kept, at most."""
MOST = 5_000_000
"""Bytes of weights."""


def kept(predictions: list[Prediction]) -> list[Prediction]:
    """Some that are wrong and some that are right, of all lengths."""
    ordered = sorted(predictions, key=lambda prediction: (len(prediction.target.split()), prediction.row))
    wrong = [prediction for prediction in ordered if not is_exact(prediction)]
    right = [prediction for prediction in ordered if is_exact(prediction)]
    return sorted(spread(wrong, WRONG) + spread(right, RIGHT), key=lambda prediction: prediction.row)


def spread(rows: list[Prediction], most: int) -> list[Prediction]:
    """So many, evenly from first to last."""
    return [rows[n * len(rows) // most] for n in range(most)] if len(rows) > most else rows


def about(run: Path, config: TrainConfig, predictions: list[Prediction], commit: str | None) -> str:
    """What the folder says of itself."""
    test = json.loads((run / EVALUATION).read_text())["test"]
    epochs = list(csv.DictReader((run / METRICS).read_text().splitlines()))
    best = max(epochs, key=lambda row: (float(row["validation_accuracy"]), -float(row["validation_loss"])))
    model, made = Seq2Seq.from_pretrained(run), circumstances(torch.device("cpu"), commit)
    beside = ", ".join(f"{kind} {share:.1%}" for kind, share in test["baselines"].items())
    rows: dict[str, Any] = {
        "model": f"OM-CTree + LA, width {config.model.width}, depth {config.model.depth}: "
        f"{model.parameter_count:,} parameters in float32, {(run / WEIGHTS).stat().st_size / 1e6:.2f} MB",
        "made by": "`ctree train example`, `ctree evaluate runs/example-0`, `python benchmarks/ship.py runs/example-0`",
        "seed": config.seed,
        "commit": f"`{made['commit']}`",
        "hardware": made["hardware"],
        "versions": ", ".join(f"{name} {version}" for name, version in made["versions"].items() if version),
        "epochs": f"{len(epochs)}; the best is number {best['epoch']}, "
        f"with {float(best['validation_accuracy']):.2%} of the validation set right",
        "test set": f"{test['pairs']:,} pairs",
        "exact match": f"{test['exact_match']:.2%}",
        "first word": f"{test['first_word']:.2%}",
        "token accuracy": f"{test['token_accuracy']:.2%}",
        "tree F1": f"{test['tree_f1']['sentence_f1']:.1%} ({beside})",
    }
    wrong = sum(not is_exact(prediction) for prediction in predictions)
    of_them = f"{min(wrong, WRONG)} of the {wrong} that are wrong" if wrong else "none is wrong"
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    return (
        f"# example\n\nThe model that ships with torch-ctree: SCAN commands in, actions out, with trees.\n\n"
        f"| | |\n|---|---|\n{table}\n\n"
        f"Trained and tested on the split of SCAN simple that seed {config.data.seed} draws, not on the official one. "
        f"Chosen by its validation set; the test set was looked at once. `{PREDICTIONS}` has "
        f"{len(kept(predictions))} of its pairs, of all lengths; {of_them}.\n"
    )


def main() -> None:
    """Copy what is needed, and say where it comes from."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--commit", help="what it was trained at, where that is not the checkout's")
    run, commit = (given := parser.parse_args()).run, given.commit
    config, predictions = training.build(training.read(run / CONFIG)), read_predictions(run / PREDICTIONS)
    assert config.data.root is None, f"{run}: trained with --data.root; what ships has no path of a machine in it"
    assert (run / WEIGHTS).stat().st_size < MOST, f"{run}: more than {MOST:,} bytes"
    SHIPPED.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, CONFIG, METRICS, EVALUATION):
        shutil.copyfile(run / name, SHIPPED / name)
    write_predictions(SHIPPED / PREDICTIONS, kept(predictions))
    write(SHIPPED / "README.md", about(run, config, predictions, commit))
    print(f"{SHIPPED}: {sum(file.stat().st_size for file in SHIPPED.iterdir()):,} bytes")


if __name__ == "__main__":
    main()
