"""A row of Table 1, and what is said of it."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.experiments.tiny import result, small_here
from torch_ctree.benchmarking import row
from torch_ctree.experiments.results import write_result
from torch_ctree.experiments.sweep import Plan
from torch_ctree.training import TrainingError
from torch_ctree.training.pool import Outcome

PLAN = Plan(Path("results"), Path("runs"), None, "ctree bench --row", "abc", precision="bf16-mixed")


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch) -> Path:
    return small_here(tmp_path, monkeypatch)


def test_every_seed_of_every_split():
    jobs = row.row_jobs(2, PLAN)
    assert [(job.known["preset"], job.config.seed) for job in jobs] == [
        (f"paper-scan-{split}", seed) for split in ("simple", "jump", "turn-left", "length") for seed in (0, 1)
    ]
    assert {job.config.trainer.precision for job in jobs} == {"bf16-mixed"}


def test_what_is_done_already_would_take_no_time():
    *_, last = row.row_jobs(1, PLAN)
    write_result(last.path, result(row="OM-CTree + LA"))
    for plan in (PLAN, replace(PLAN, precision="32-true")):
        with pytest.raises(TrainingError, match=rf"^{last.path}: there is a result already, and the time is that of "):
            row.row_jobs(2, plan)


def test_what_is_said_of_runs(monkeypatch):
    done = result(value=0.25, best_epoch=2, validation_accuracy=0.75)
    first, *others = row.row_jobs(1, PLAN)
    outcomes = [Outcome(first, done, None, 70.0), *(Outcome(job, None, "the process died", 1.0) for job in others)]
    monkeypatch.setattr(row, "sweep", lambda *what, **how: outcomes)
    found = row.timed_row([first, *others], 3, Console())
    assert (found["at_once"], found["precision"], len(found["runs"])) == (3, "bf16-mixed", 4)
    assert found["runs"][0] == {
        "preset": "paper-scan-simple",
        "seed": 0,
        "epochs": 3,
        "best_epoch": 2,
        "validation_accuracy": 0.75,
        "seconds": 61.0,
        "test_exact_match": 0.25,
    }
    assert found["runs"][1] == {"preset": "paper-scan-jump", "seed": 0, "error": "the process died"}
