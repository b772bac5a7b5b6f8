"""A row of the paper's Table 1, trained and tested as ``ctree reproduce`` does it, and the time that it all takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from torch_ctree.experiments import TABLES, Result
from torch_ctree.experiments.sweep import Job, Plan, entries_of, jobs_of, sweep
from torch_ctree.training import TrainingError
from torch_ctree.training.pool import Outcome

TABLE = TABLES["scan"]
ROW = next(row for row in TABLE.own if row.name == "OM-CTree + LA")
SPLITS = ("simple", "jump", "turn-left", "length")
TOLD = ("epochs", "best_epoch", "validation_accuracy", "seconds")
"""What is said of a run as its result has it."""


def row_jobs(seeds: int, plan: Plan) -> list[Job]:
    """All runs, one split after the other; where one is done already, the time of the others would say nothing."""
    entries = [entry for split in SPLITS for entry in entries_of(TABLE, [ROW], [split], range(seeds))]
    if taken := [path for entry in entries if (path := entry.path(plan.results)).exists()]:
        more = f" (and {len(taken) - 1} more)" if len(taken) > 1 else ""
        raise TrainingError(
            f"{taken[0]}: there is a result already{more}, and the time is that of all runs; "
            "name another folder (--results)"
        )
    jobs = jobs_of(entries, plan)
    jobs[0].config.data.load()  # what is wrong with all of them is said before any begins
    return jobs


def timed_row(jobs: Sequence[Job], at_once: int, console: Console) -> dict[str, Any]:
    """Their results, and the minutes from the first import to the last test."""
    start = time.perf_counter()
    outcomes = sweep(jobs, console, at_once=at_once, ray=None, gpus_each=None)
    minutes = (time.perf_counter() - start) / 60
    precision = jobs[0].config.trainer.precision
    return {"value": minutes, "at_once": at_once, "precision": precision, "runs": [_told(one) for one in outcomes]}


def _told(outcome: Outcome[Job, Result | None]) -> dict[str, Any]:
    """A run in a few numbers; of one that failed, why."""
    known = {name: outcome.job.known[name] for name in ("preset", "seed")}
    result = outcome.result
    if result is None:
        return known | {"error": outcome.error}
    found = {name: result[name] for name in TOLD}
    return known | found | {"test_exact_match": result["metrics"]["exact_match"]}
