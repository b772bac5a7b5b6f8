import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress

from tests.training.runs import SMALL, settings
from torch_ctree.training import progress
from torch_ctree.training.module import Training
from torch_ctree.training.progress import _clock
from torch_ctree.training.running import train


class Stop(Exception):  # noqa: N818
    pass


@pytest.fixture
def shown(monkeypatch):
    """What the bar shows, on a machine that takes just two seconds a step."""
    clock, seen = [1000.0], []
    step, update = Training.training_step, Progress.update

    def slow_step(self: Training, *arguments: Any) -> Any:
        clock[0] += 2
        return step(self, *arguments)

    def seen_update(self: Progress, task: Any, **values: Any) -> None:
        update(self, task, **values)
        self.refresh()
        if "total" in values:
            seen.append((values["completed"], values["total"], values["now"]))

    monkeypatch.setattr(Training, "training_step", slow_step)
    monkeypatch.setattr(Progress, "update", seen_update)
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    return seen


def say(place: Path, folder: Path, terminal: bool, resume: bool = False) -> str:
    file = StringIO()
    train(settings(place), folder, resume, Console(file=file, force_terminal=terminal, width=160, highlight=False))
    return file.getvalue()


def test_the_bar(tmp_path, place, shown):
    said = say(place, tmp_path / "run", terminal=True)
    assert [(done, whole) for done, whole, _ in shown] == [(n + 1, 15) for n in range(15)]
    for done, whole, text in shown:
        accuracy = "" if done <= 5 else r"  accuracy \d+\.\d\d%"  # known after an epoch
        left = 2 * (whole - done)
        assert re.fullmatch(rf"loss \d\.\d{{4}}{accuracy}  4 pairs/s  about 0:{left:02} left", text)
    assert "about 0:20 left" in said
    assert "epoch 2" in said
    assert "validating" in said
    assert "33%" in said


def test_the_bar_of_a_run_that_goes_on(tmp_path, place, shown, monkeypatch):
    batch_end = progress.ProgressLine.on_train_batch_end

    def stop(self: Any, trainer: Any, *arguments: Any) -> None:
        batch_end(self, trainer, *arguments)
        if trainer.global_step == 8:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(progress.ProgressLine, "on_train_batch_end", stop)
        with pytest.raises(Stop):
            say(place, tmp_path / "run", terminal=True)
    before = len(shown)
    said = say(place, tmp_path / "run", terminal=True, resume=True)
    assert SMALL["optimisation"]["checkpoint_steps"] == 2  # there is one after the second step of the second epoch
    assert [done for done, _, _ in shown[before:]] == list(range(8, 16))
    for done, whole, text in shown[before:]:
        assert text.endswith(f"about 0:{2 * (whole - done):02} left")
    assert "epoch 1" not in said


def test_the_terminal_is_left_as_it_was(tmp_path, place, monkeypatch):
    def fail(self: Any, *arguments: Any) -> None:
        raise Stop

    monkeypatch.setattr(Training, "training_step", fail)
    file = StringIO()
    with pytest.raises(Stop):
        train(settings(place), tmp_path / "run", False, Console(file=file, force_terminal=True))
    assert file.getvalue().rfind("\x1b[?25h") > file.getvalue().rfind("\x1b[?25l") >= 0  # the cursor is shown again


def test_one_line_an_epoch(tmp_path, place, shown):
    lines = say(place, tmp_path / "run", terminal=False).splitlines()
    assert shown == []
    assert len(lines) == 6
    for epoch, line in enumerate(lines[3:], 1):
        assert re.fullmatch(
            rf"epoch   {epoch}   loss \d\.\d{{4}}   validation: loss \d\.\d{{4}}, accuracy +\d+\.\d\d%   4 pairs/s",
            line,
        )


def test_the_clock():
    assert [_clock(seconds) for seconds in (0, 0.4, 59.6, 61, 3599, 3600, 100_000)] == [
        "0:00",
        "0:00",
        "1:00",
        "1:01",
        "59:59",
        "1:00:00",
        "27:46:40",
    ]
