"""Training steps at the paper's settings for SCAN: one run, what Lightning adds, ten runs at once, and evaluation."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from torch_ctree.benchmarking.timing import quantiles, timed, wait
from torch_ctree.data import Batches, Encoded
from torch_ctree.devices import in_tf32
from torch_ctree.models import Seq2Seq
from torch_ctree.training import TrainConfig, build, merged, preset, read
from torch_ctree.training.graphs import Optimiser, Steps, adam, settle
from torch_ctree.training.pool import Tell, run_together
from torch_ctree.training.preparation import Prepared, prepare
from torch_ctree.training.sharing import SHARE, shared_gpu

PRESET = "paper-scan-simple"
STEPS = 100
"""That are timed."""
PATIENCE = 180
"""Seconds to wait for other runs to begin."""


def settings(seed: int, root: str | None, name: str = PRESET, precision: str = "32-true") -> TrainConfig:
    """A run of the paper's table."""
    trainer = {"trainer": {"precision": precision}, "data": {"root": root}, "seed": seed}
    return build(merged(read(preset(name)), trainer))


def prepared_run(config: TrainConfig, device: torch.device) -> tuple[Prepared, Seq2Seq]:
    """Its data, and its model on a device."""
    from torch_ctree.training.running import make_model  # noqa: PLC0415  (Lightning takes seconds to import)

    prepared = prepare(config, config.data.load())
    return prepared, make_model(prepared, config.seed).to(device)


class _Going:
    """The steps of a run, warmed up; as many as are asked for."""

    def __init__(self, config: TrainConfig, device: torch.device) -> None:
        prepared, model = prepared_run(config, device)
        optimiser = adam(model, config.optimisation, fast=True)
        settle(optimiser, device)
        assert isinstance(optimiser, Optimiser)
        batches = Batches(prepared.train, batch_size=config.optimisation.batch_size, seed=config.seed)
        self.steps = Steps(model.train(), optimiser, batches, config.optimisation.gradient_norm)
        self.epoch, self.at = 0, 0
        self.device, self.mixed = device, config.trainer.precision == "bf16-mixed"
        self.steps.begin(0, 0)
        for _ in range(5):
            self.go_on()
        wait(device)

    def go_on(self) -> None:
        """One step."""
        if self.at == len(self.steps.shapes):
            self.epoch, self.at = self.epoch + 1, 0
            self.steps.begin(self.epoch, 0)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.mixed):
            self.steps(self.at)
        self.at += 1

    def check(self) -> None:
        """How fast it is says nothing where the losses are no numbers."""
        losses = self.steps.losses[self.steps.first : self.at]
        if not bool(losses.isfinite().all()):
            raise RuntimeError("the losses are not numbers")


def step(device: torch.device, root: str | None, precision: str = "32-true") -> dict[str, Any]:
    """A whole training step: batch, forward, backward, clipping, optimiser."""
    with in_tf32(device):
        going = _Going(settings(0, root, precision=precision), device)
        repeats = STEPS if device.type == "cuda" else 5
        found = []
        for _ in range(repeats):
            start = time.perf_counter()
            going.go_on()
            wait(device)
            found.append(time.perf_counter() - start)
        start = time.perf_counter()
        for _ in range(repeats):
            going.go_on()
        wait(device)
        together = (time.perf_counter() - start) / repeats
        going.check()
    return quantiles(found) | {"value": 1e3 * together, "one_by_one_ms": quantiles(found)["median_ms"]}


def profile(device: torch.device, root: str | None) -> dict[str, Any]:
    """Where the time of a step goes: the kernels of its graph."""
    from torch._C._autograd import DeviceType  # noqa: PLC0415
    from torch.profiler import ProfilerActivity  # noqa: PLC0415
    from torch.profiler import profile as record  # noqa: PLC0415

    with in_tf32(device):
        going = _Going(settings(0, root), device)
        with record(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
            going.go_on()
            wait(device)
    times: dict[str, list[float]] = {}
    for event in seen.events() or []:
        if event.device_type == DeviceType.CUDA:
            times.setdefault(event.name, []).append(event.device_time)
    found = sorted(times.items(), key=lambda entry: -sum(entry[1]))
    return {
        "value": sum(map(sum, times.values())) / 1e3,
        "kernels": [{"name": name, "count": len(each), "us": sum(each)} for name, each in found],
        "count": sum(map(len, times.values())),
    }


def lightning(device: torch.device, root: str | None) -> dict[str, Any]:
    """An epoch of ``ctree train``, with Lightning around the steps, beside the same steps in a bare loop."""
    import lightning.pytorch as pl  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    from torch_ctree.training.running import train  # noqa: PLC0415

    times: list[float] = []

    class Clock(pl.Callback):
        """Takes the time of the steps of each epoch."""

        def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            wait(device)
            self.began = time.perf_counter()

        def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            wait(device)
            times.append((time.perf_counter() - self.began) / trainer.num_training_batches)

    config = settings(0, root)
    config = replace(config, optimisation=replace(config.optimisation, max_epochs=4))
    with tempfile.TemporaryDirectory() as folder:
        train(config, Path(folder) / "run", console=Console(quiet=True), callbacks=[Clock()])
    with_it = statistics.median(times[1:])  # the first one warms up
    alone = step(device, root)["value"]
    return {"value": 1e3 * with_it, "bare_ms": alone, "added_share": 1e3 * with_it / alone - 1}


# --- many at once -----------------------------------------------------------------------------------------------------


class Seed(NamedTuple):
    """One of several runs that begin together."""

    seed: int
    of: int
    folder: str
    """Where they tell one another that they are ready."""
    root: str | None
    precision: str


def _one_of_several(job: Seed, tell: Tell) -> float:
    """Seconds for ``STEPS`` steps while the others do the same."""
    device = torch.device("cuda")
    with in_tf32(device):
        going = _Going(settings(job.seed, job.root, precision=job.precision), device)
        folder = Path(job.folder)
        (folder / str(job.seed)).touch()
        given_up = time.monotonic() + PATIENCE
        while len(list(folder.iterdir())) < job.of:
            if time.monotonic() > given_up:
                raise RuntimeError(f"the other runs have not begun within {PATIENCE} s")
            going.go_on()  # keeps the GPU warm, and waits
            wait(device)
        start = time.perf_counter()
        for _ in range(STEPS):
            going.go_on()
        wait(device)
        found = time.perf_counter() - start
        for _ in range(STEPS // 2):  # so that the last one is not measured alone
            going.go_on()
        wait(device)
        going.check()
    return found


def seeds_in_processes(seeds: int, root: str | None, tell: Tell, precision: str = "32-true") -> dict[str, Any]:
    """Ten runs in ten processes that share the GPU: the time of a step of each, over how many there are."""
    with tempfile.TemporaryDirectory() as folder, shared_gpu(tell, seeds, [precision]) as variables:
        jobs = [Seed(n, seeds, folder, root, precision) for n in range(seeds)]
        outcomes = run_together(_one_of_several, jobs, seeds, variables)
    if failed := [outcome.error for outcome in outcomes if outcome.error]:
        raise RuntimeError(failed[0])
    times = [outcome.result / STEPS for outcome in outcomes if outcome.result is not None]
    return {
        "value": 1e3 * max(times) / seeds,
        "seeds": seeds,
        "slowest_step_ms": 1e3 * max(times),
        "shared": bool(variables),
        "percentage_of_gpu_each": float(variables.get(SHARE) or os.environ.get(SHARE, "100")),
    }


def seeds_on_streams(seeds: int, device: torch.device, root: str | None, precision: str = "32-true") -> dict[str, Any]:
    """Ten runs in one process, each on a stream of its own."""
    with in_tf32(device):
        runs = [
            (_Going(settings(n, root, precision=precision), device), torch.cuda.Stream(device)) for n in range(seeds)
        ]

        def all_of_them() -> None:
            for going, stream in runs:
                with torch.cuda.stream(stream):
                    going.go_on()

        for _ in range(5):
            all_of_them()
        wait(device)
        start = time.perf_counter()
        for _ in range(STEPS):
            all_of_them()
        wait(device)
        taken = time.perf_counter() - start
        for going, _ in runs:
            going.check()
    return {"value": 1e3 * taken / STEPS / seeds}


# --- evaluation -------------------------------------------------------------------------------------------------------


def count_right(model: Seq2Seq, pairs: Encoded, batch_size: int) -> int:
    """How many answers are just right."""
    batches = Batches(pairs, batch_size=batch_size, bucketed=True, shuffle=False).epoch(0)
    right = [model.check(batch.to(model.device))[0].sum() for batch in batches]
    return int(torch.stack(right).sum())


def evaluation(device: torch.device, root: str | None, batch_size: int = 1000) -> dict[str, Any]:
    """Exact decoding and scoring of SCAN LENGTH's validation and test sets, from token ids to the number right."""
    config = settings(0, root, "paper-scan-length")
    prepared, model = prepared_run(config, device)
    model.eval()
    test = Encoded.of(config.data.load().test, prepared.source, prepared.target)
    sets = (prepared.validation, test) if device.type == "cuda" else (prepared.validation,)
    with in_tf32(device), torch.no_grad():
        found = timed(lambda: [count_right(model, pairs, batch_size) for pairs in sets], device)
    return found | {"value": found["median_ms"] / 1e3, "sentences": sum(map(len, sets))}
