"""Every run of a table: trained, tested, and written down, on this machine or on a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from torch_ctree.circumstances import circumstances, date_now
from torch_ctree.data import Task, data_folder
from torch_ctree.data.errors import count, in_one_line
from torch_ctree.evaluation import Evaluation, Prediction, evaluate, keep
from torch_ctree.experiments.beside import of_row
from torch_ctree.experiments.results import Entry, Result, read_result, write_result
from torch_ctree.experiments.scoring import answered, scored
from torch_ctree.experiments.tables import TABLES, Row, Table
from torch_ctree.models import Seq2Seq
from torch_ctree.training import TrainConfig, TrainingError, build, merged, preset, read
from torch_ctree.training.configuration import CONFIG, OF_NO_INTEREST, differences
from torch_ctree.training.pool import Outcome, Several, Tell, Watcher
from torch_ctree.training.together import board, default_at_once, side_by_side, telling
from torch_ctree.viewing.report import write_run_report


@dataclass(frozen=True)
class Plan:
    """What the runs of a sweep have in common.

    results: the folder of result files
    runs: the folder of runs
    root: the folder with data files
    command: what started the sweep, for the results
    commit: of the sources, for the results
    deadline: when its time is over, as ``time.time`` has it
    precision: of training, in place of the presets' own
    """

    results: Path
    runs: Path
    root: str | None
    command: str
    commit: str
    deadline: float | None = None
    precision: str | None = None


@dataclass(frozen=True)
class Job:
    """What a process needs to know of a run."""

    config: TrainConfig
    folder: Path
    """Of the run."""
    path: Path
    """Of the result, on the machine that the sweep was started on."""
    known: Result
    """What is known of the result before the run: which run it is, and how it was started."""
    deadline: float | None = None
    """When its time is over, as ``time.time`` has it."""

    @property
    def is_late(self) -> bool:
        """Whether its time is over."""
        return self.deadline is not None and time.time() >= self.deadline


# --- what there is to do ----------------------------------------------------------------------------------------------


def entries_of(table: Table, rows: Sequence[Row], splits: Sequence[str], seeds: Sequence[int]) -> list[Entry]:
    """Some runs of a table; all first seeds before the second ones, so that any part of them is spread well."""
    return [Entry(table, row, split, seed) for seed in seeds for row in rows for split in splits]


def jobs_of(entries: Sequence[Entry], plan: Plan) -> list[Job]:
    """What is still to do of them, in their order."""
    return [job for entry in entries if not _is_done(job := _job(entry, plan))]


def _job(entry: Entry, plan: Plan) -> Job:
    name = entry.row.presets[entry.split]
    trainer = {} if plan.precision is None else {"precision": plan.precision}
    changes = {"seed": entry.seed, "data": {"root": plan.root}, "trainer": trainer}
    config = build(merged(read(preset(name)), changes))
    config = replace(config, data=config.data.absolute())
    known = {
        "task": entry.table.task,
        "row": entry.row.name,
        "split": entry.split,
        "seed": entry.seed,
        "command": plan.command,
        "commit": plan.commit,
        "preset": name,
        "settings": asdict(replace(config, data=replace(config.data, root=None))),  # whoever reads it has another
    }
    return Job(config, (plan.runs / entry.place).resolve(), entry.path(plan.results), known, plan.deadline)


def _is_done(job: Job) -> bool:
    """Whether its result is there; what was made with other settings is left alone, and said."""
    result: Result = read_result(job.path) if job.path.exists() else {}
    if "metrics" in result:
        _check_same(job.path, result["settings"], job.config, "--results", "data.root")  # which may have moved
        return True
    if (job.folder / CONFIG).exists():
        _check_same(job.folder, read(job.folder / CONFIG), job.config, "--runs")
    return False


def _check_same(path: Path, made: dict[str, Any], now: TrainConfig, flag: str, *may_differ: str) -> None:
    mend = f"move it away, or name another folder ({flag})"
    try:
        found = differences(build(made), now)
    except TrainingError as error:  # of another version
        raise TrainingError(f"{path}: {error}; {mend}") from error
    for name, then, here in found:
        if name not in (*OF_NO_INTEREST, *may_differ):
            raise TrainingError(f"{path}: made with {name} {then!r}, and its row now has {here!r}; {mend}")


# --- a run ------------------------------------------------------------------------------------------------------------


def work(job: Job, tell: Tell) -> Result | None:
    """Train, or go on with training, and test → the result; none where the time was over before."""
    from torch_ctree.experiments.clock import Clock, TimeIsOverError  # noqa: PLC0415
    from torch_ctree.training.running import train  # noqa: PLC0415  (Lightning takes seconds to import)

    if job.is_late:
        return None
    clock = Clock(job.folder, job.deadline)
    try:
        finished = train(job.config, job.folder, (job.folder / CONFIG).exists(), telling(tell), [clock])
    except TimeIsOverError:
        tell("stopped: the time is over; it goes on from here")
        return None
    tell("testing")
    device = torch.device("cuda" if job.config.trainer.may_use_gpu and torch.cuda.is_available() else "cpu")
    model, task = Seq2Seq.from_pretrained(job.folder).to(device).eval(), job.config.data.load()
    answers = answered(model, task, job.config.trainer.tf32)
    evaluations = {name: evaluate(some, task) for name, some in answers.items()}
    metrics, examples = scored(answers, evaluations, job.known["task"] == "scan")
    _keep(job, answers, evaluations, tell)
    return {
        **job.known,
        **_where(device, job),
        "seconds": clock.seconds,
        "origin": origin_of(task, job.config.data.root),
        "parameters": model.parameter_count,
        "epochs": finished.epochs,
        "attempts": finished.attempts,
        "best_epoch": finished.best["epoch"],
        "validation_accuracy": finished.best["validation_accuracy"],
        "metrics": metrics,
        "examples": examples,
    }


def _keep(
    job: Job, answers: Mapping[str, Sequence[Prediction]], evaluations: Mapping[str, Evaluation], tell: Tell
) -> None:
    """Answers, numbers and the report go into the folder of the run; where they cannot, that is said."""
    table = TABLES[job.known["task"]]
    row = next(row for row in table.rows if row.name == job.known["row"])
    try:
        keep(job.folder, [one for some in answers.values() for one in some], evaluations)
        write_run_report(job.folder, of_row(table, row, job.known["split"]))
    except Exception as error:  # whatever it is, hours of training are worth more
        tell(f"no report: {in_one_line(error)}")


def origin_of(task: Task, root: str | None) -> str:
    """Where its pairs come from, without the data folder: whoever reads it has another."""
    return task.origin.replace(f"{data_folder(root)}{os.sep}", "")


def _where(device: torch.device, job: Job) -> dict[str, Any]:
    """Of this process; the command is that of the process that started it."""
    return circumstances(device, job.known["commit"]) | {"command": job.known["command"]}


# --- all of them ------------------------------------------------------------------------------------------------------


class Writer(Watcher):
    """Writes every result down as soon as it is there; of a run that failed, why."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs

    def ended(self, n: int, outcome: Outcome[Job, Result | None]) -> None:
        """With a result, with an error, or with neither where the time was over."""
        job = self.jobs[n]
        if outcome.error is not None and not _is_done(job):  # which it may be where two sweeps do the same
            write_result(job.path, _failed(job, outcome))
        elif outcome.result is not None:
            write_result(job.path, outcome.result)


def _failed(job: Job, outcome: Outcome[Job, Result | None]) -> Result:
    """The process that could say more is gone."""
    return {**job.known, "date": date_now(), "hardware": None, "seconds": outcome.seconds, "error": outcome.error}


def sweep(
    jobs: Sequence[Job], console: Console, *, at_once: int | None, ray: str | None, gpus_each: float | None
) -> list[Outcome[Job, Result | None]]:
    """Do all jobs, on this machine or on a Ray cluster → what became of each, in their order.

    at_once: so many on this machine; by default as many as go well together
    ray: the address of a cluster
    gpus_each: the part of a GPU that a run gets there
    """
    if all(job.is_late for job in jobs):
        return [Outcome(job, None, None, 0.0) for job in jobs]
    side = min(at_once or default_at_once(jobs[0].config), len(jobs))
    jobs = [replace(job, known=job.known | {"at_once": None if ray else side}) for job in jobs]
    names = [f"{job.known['row']}, {job.known['split']}-{job.known['seed']}" for job in jobs]
    with board(names, _summary, console) as shown:
        watcher = Several(Writer(jobs), shown)
        if ray is None:
            return side_by_side(work, jobs, side, shown.tell, watcher)
        from torch_ctree.experiments.cluster import run_on_ray  # noqa: PLC0415  (Ray may not be installed)

        return run_on_ray(work, jobs, ray, gpus_each=gpus_each, watcher=watcher)


def _summary(result: Result | None) -> str:
    """Nothing, of a run that was stopped."""
    if result is None:
        return ""
    return f"{count(result['epochs'], 'epoch')}, exact match {result['metrics']['exact_match']:.2%} on the test set"
