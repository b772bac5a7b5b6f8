"""Runs that are stopped when their time is over."""

import time

import pytest
from rich.console import Console

from tests.training.runs import outcome, settings, train
from torch_ctree.experiments.clock import Clock, TimeIsOverError
from torch_ctree.training.running import train as run

QUIET = Console(quiet=True)


class Steps(Clock):
    """Time is over after so many steps."""

    def __init__(self, folder, steps):
        super().__init__(folder, time.time() + 1e6)
        self.steps = steps

    state_key = "Clock"  # pyright: ignore[reportAssignmentType]

    def on_train_batch_end(self, *arguments):
        self.steps -= 1
        if not self.steps:
            self.deadline = 0.0
        super().on_train_batch_end(*arguments)


@pytest.mark.parametrize("steps", [1, 3, 5, 6])  # an epoch has five, and a checkpoint after two and four
def test_it_goes_on_as_if_nothing_had_happened(tmp_path, steps):
    config, folder = settings(tmp_path), tmp_path / "run"
    train(config, tmp_path / "alone")
    with pytest.raises(TimeIsOverError):
        run(config, folder, console=QUIET, callbacks=[Steps(folder, steps)])
    assert (folder / "last.ckpt").exists()
    assert (folder / "metrics.csv").exists() == (steps >= 5)
    assert run(config, folder, True, QUIET, [Clock(folder)]).epochs == 3
    assert outcome(folder) == outcome(tmp_path / "alone")


def test_seconds_of_all_parts(tmp_path):
    config, folder = settings(tmp_path), tmp_path / "run"
    first = Steps(folder, 3)
    first.began -= 1000  # it took long
    with pytest.raises(TimeIsOverError):
        run(config, folder, console=QUIET, callbacks=[first])
    second = Clock(folder)
    run(config, folder, True, QUIET, [second])
    assert 1000 < second.seconds < 1200
    third = Clock(folder)
    run(config, folder, True, QUIET, [third])  # nothing is left to do
    assert 1000 < third.seconds < 1200


def test_a_run_that_never_had_a_clock(tmp_path):
    config, folder = settings(tmp_path), tmp_path / "run"
    train(config, folder)
    clock = Clock(folder)
    run(config, folder, True, QUIET, [clock])
    assert clock.seconds < 1000


def test_in_time(tmp_path):
    config, folder = settings(tmp_path), tmp_path / "run"
    assert run(config, folder, console=QUIET, callbacks=[Clock(folder, time.time() + 1e6)]).epochs == 3
