"""Every run of a table: trained, tested, and written down, on this machine or on a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from rich.console import Console

from torch_ctree.circumstances import circumstances, date_now
from torch_ctree.data import Task, data_folder
from torch_ctree.data.distilling import DISTILLED
from torch_ctree.data.errors import count, in_one_line
from torch_ctree.data.multi30k import GET
from torch_ctree.evaluation import Evaluation, Prediction, evaluate, keep
from torch_ctree.evaluation.teaching import write_answers
from torch_ctree.experiments.beside import of_row
from torch_ctree.experiments.results import Entry, Result, read_result, write_result
from torch_ctree.experiments.scoring import answered, at_a_time, scored
from torch_ctree.experiments.tables import TABLES, Row, Table, slug
from torch_ctree.models import Seq2Seq
from torch_ctree.models.pretrained import WEIGHTS
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
class Teacher:
    """Another run of the table, whose answers to the training sources one learns from."""

    row: str
    name: str
    """Row, split and seed."""
    folder: Path
    """Of the run."""
    path: Path
    """Of its result."""

    @property
    def is_done(self) -> bool:
        """Whether its result is there."""
        return self.path.exists() and "metrics" in read_result(self.path)


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
    teacher: Teacher | None = None
    """Of whose answers it learns."""

    @property
    def is_late(self) -> bool:
        """Whether its time is over."""
        return self.deadline is not None and time.time() >= self.deadline


# --- what there is to do ----------------------------------------------------------------------------------------------


def entries_of(table: Table, rows: Sequence[Row], splits: Sequence[str], seeds: Sequence[int]) -> list[Entry]:
    """Some runs of a table; all first seeds before the second ones, so that any part of them is spread well."""
    return [Entry(table, row, split, seed) for seed in seeds for row in rows for split in splits]


def jobs_of(entries: Sequence[Entry], plan: Plan) -> list[Job]:
    """What is still to do of them, in their order; those that learn from others come last."""
    jobs = [job for entry in entries if not _is_done(job := _job(entry, plan))]
    coming = {job.folder for job in jobs}
    for job in jobs:
        if job.teacher and not job.teacher.is_done and job.teacher.folder not in coming:
            both = ",".join(slug(name) for name in (job.teacher.row, job.known["row"]))
            raise TrainingError(
                f"{job.known['row']}: learns from the answers of {job.teacher.name}, of which there is no result; "
                f"train that first, or both: --rows {both}"
            )
    return sorted(jobs, key=lambda job: job.teacher is not None)


def check(jobs: Sequence[Job]) -> None:
    """Whether the data are there; what is wrong with them is said before any begins."""
    for job in jobs[:1]:
        task, table = job.config.data.load(), TABLES[job.known["task"]]
        if task.written is None and any(column.metric[-1] == "bleu_written" for column in table.columns):
            raise TrainingError(f"{data_folder(job.config.data.root)}: no files of the form raw; {GET}")


def _job(entry: Entry, plan: Plan) -> Job:
    name = entry.row.presets[entry.split]
    trainer = {} if plan.precision is None else {"precision": plan.precision}
    teacher = _teacher(entry, plan)
    data = {"root": plan.root} | ({} if teacher is None else {"distilled": str(teacher.folder / DISTILLED)})
    config = build(merged(read(preset(name)), {"seed": entry.seed, "data": data, "trainer": trainer}))
    config = replace(config, data=config.data.absolute())
    elsewhere = {"root": None, "distilled": teacher and teacher.name}  # whoever reads it has other folders
    known = {
        "task": entry.table.task,
        "row": entry.row.name,
        "split": entry.split,
        "seed": entry.seed,
        "command": plan.command,
        "commit": plan.commit,
        "preset": name,
        "settings": asdict(replace(config, data=replace(config.data, **elsewhere))),
    }
    return Job(config, (plan.runs / entry.place).resolve(), entry.path(plan.results), known, plan.deadline, teacher)


def _teacher(entry: Entry, plan: Plan) -> Teacher | None:
    """The run of the teaching row with the same split and seed."""
    if entry.row.teacher is None:
        return None
    taught_by = replace(entry, row=entry.table.row(entry.row.teacher))
    row = taught_by.row.name
    return Teacher(
        row, f"{row}, {entry.split}-{entry.seed}", (plan.runs / taught_by.place).resolve(), taught_by.path(plan.results)
    )


def _is_done(job: Job) -> bool:
    """Whether its result is there; what was made with other settings is left alone, and said."""
    result: Result = read_result(job.path) if job.path.exists() else {}
    if "metrics" in result:
        moved = "data.root", "data.distilled"
        _check_same(job.path, result["settings"], job.config, "--results", *moved)
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
    if job.teacher is not None:
        _ask(job, job.teacher, tell)
        if job.is_late:
            return None
    clock = Clock(job.folder, job.deadline)
    try:
        finished = train(job.config, job.folder, (job.folder / CONFIG).exists(), telling(tell), [clock])
    except TimeIsOverError:
        tell("stopped: the time is over; it goes on from here")
        return None
    tell("testing")
    device = _device(job)
    model, task = Seq2Seq.from_pretrained(job.folder).to(device).eval(), job.config.data.load()
    answers = answered(model, task, job.config.trainer.tf32)
    evaluations = {name: evaluate(some, task, job.config.is_tokenised) for name, some in answers.items()}
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


def _ask(job: Job, teacher: Teacher, tell: Tell) -> None:
    """Let the teacher answer, unless it has: for all that learn from it."""
    path = teacher.folder / DISTILLED
    if not (path.exists() or (teacher.folder / WEIGHTS).exists()):
        raise TrainingError(
            f"{teacher.folder}: the model of its teacher, {teacher.name}, is not here; bring it back, or remove "
            f"{teacher.path}, and it is trained anew"
        )
    with FileLock(teacher.folder / f"{DISTILLED}.lock"):
        if not path.exists():
            tell(f"{teacher.name}, its teacher, answers")
            model = Seq2Seq.from_pretrained(teacher.folder).to(_device(job)).eval()
            train, tf32 = job.config.data.load().train, job.config.trainer.tf32
            write_answers(model, train, path, batch_size=at_a_time(model), tf32=tf32)


def _device(job: Job) -> torch.device:
    return torch.device("cuda" if job.config.trainer.may_use_gpu and torch.cuda.is_available() else "cpu")


def _keep(
    job: Job, answers: Mapping[str, Sequence[Prediction]], evaluations: Mapping[str, Evaluation], tell: Tell
) -> None:
    """Answers, numbers and the report go into the folder of the run; where they cannot, that is said."""
    try:
        table = TABLES[job.known["task"]]
        row = table.row(job.known["row"])
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
    """Do all jobs, on this machine or on a Ray cluster → what became of each, those that learn from others last.

    at_once: so many on this machine; by default as many as go well together
    ray: the address of a cluster
    gpus_each: the part of a GPU that a run gets there
    """
    found: list[Outcome[Job, Result | None]] = []
    for is_student in (False, True):  # who teaches comes first
        some = [job for job in jobs if (job.teacher is not None) == is_student]
        ready = [job for job in some if job.teacher is None or job.teacher.is_done]
        found += [_untaught(job, console) for job in some if job not in ready]
        found += _swept(ready, console, at_once, ray, gpus_each)
    return found


def _untaught(job: Job, console: Console) -> Outcome[Job, Result | None]:
    """A run that cannot begin: the time was over before its teacher was done, or its teacher failed."""
    if job.is_late or job.teacher is None:
        return Outcome(job, None, None, 0.0)
    error = f"no result of its teacher, {job.teacher.name}"
    console.print(f"{job.known['row']}, {job.known['split']}-{job.config.seed}: {error}", markup=False, soft_wrap=True)
    return Outcome(job, None, error, 0.0)


def _swept(
    jobs: Sequence[Job], console: Console, at_once: int | None, ray: str | None, gpus_each: float | None
) -> list[Outcome[Job, Result | None]]:
    """The same, of jobs that none of the others has to wait for."""
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
    found, by_bleu = result["metrics"], TABLES[result["task"]].columns[0].metric == ("bleu",)
    good = f"BLEU {found['bleu']:.2f}" if by_bleu else f"exact match {found['exact_match']:.2%}"
    return f"{count(result['epochs'], 'epoch')}, {good} on the test set"
