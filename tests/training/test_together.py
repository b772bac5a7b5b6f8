"""Processes side by side. Each takes seconds to start: as much as possible is asked of each."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.training.jobs import work
from tests.training.runs import flags, outcome, settings, train
from torch_ctree.cli import main
from torch_ctree.training import TrainConfig, TrainingError, together
from torch_ctree.training.together import DIED, Outcome, Run, Watcher, default_at_once, run_together, train_together

MANY = "--optimisation.max_epochs=5000"

# --- any work ---------------------------------------------------------------------------------------------------------


class Recorder(Watcher):
    def __init__(self) -> None:
        self.events: list[tuple[int, str]] = []

    def begun(self, n: int) -> None:
        self.events.append((n, "begun"))

    def said(self, n: int, line: str) -> None:
        self.events.append((n, f"said: {line}"))

    def warned(self, n: int, line: str) -> None:
        self.events.append((n, f"warned: {line}"))

    def ended(self, n: int, outcome: Outcome[Any, Any]) -> None:
        self.events.append((n, f"ended: {outcome.error}"))


def test_a_job_that_fails_costs_only_itself():
    jobs = ["die", 1, 2, 3, "raise", "cannot be sent"]
    recorder = Recorder()
    outcomes = run_together(work, jobs, 2, {"SAID": "so"}, recorder)
    assert active_children() == []
    assert "SAID" not in os.environ
    assert [outcome.job for outcome in outcomes] == jobs
    *first, unsent = [outcome.error for outcome in outcomes]
    assert first == [DIED, None, None, None, "width: got 7; expected 8"]
    assert unsent is not None
    assert "lambda" in unsent
    results: list[Any] = [outcome.result for outcome in outcomes if outcome.error is None]
    assert len({pid for pid, _, _ in results}) <= 2 < len(results)  # a process does several jobs
    assert os.getpid() not in {pid for pid, _, _ in results}
    assert {said for _, said, _ in results} == {"so"}
    assert {threads for _, _, threads in results} <= set(range(1, together.cores() // 2 + 1)) | {1}
    assert all(outcome.seconds >= 0.1 for outcome in outcomes[1:4])
    told = ["begun", "said: 1 begins", "said: half a line, and the rest", "warned: careful", "ended: None"]
    assert [event for n, event in recorder.events if n == 1] == told


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TrainingError("width: got 7;\nexpected 8"), "width: got 7; expected 8"),
        (KeyError("x"), "KeyError: 'x'"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_errors_in_one_line(error, said):
    assert together._message(error) == said


def test_nothing_to_do():
    assert run_together(work, [], 3) == []


# --- ends -------------------------------------------------------------------------------------------------------------


def until(condition: Callable[[], Any]) -> Any:
    end = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_their_parent(tmp_path, how):
    """Even those that would not hear of it, and even where their parent had no time to tell them."""
    program = f"from tests.training import jobs; jobs.parent(jobs.Path({str(tmp_path)!r}))"
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    begun = [tmp_path / name for name in ("deaf", "attentive")]
    until(lambda: all(place.exists() and place.read_text() for place in begun) or process.poll() is not None)
    process.send_signal(how)
    said = process.communicate(timeout=300)[1]
    pids = [int(place.read_text()) for place in begun]
    assert process.returncode == -how
    assert not (tmp_path / "late").exists()
    if how == signal.SIGINT:
        assert all(map(is_gone, pids))  # at once
        assert (tmp_path / "interrupted").exists()
        assert said.count("Traceback") == 1  # the parent's
    until(lambda: all(map(is_gone, pids)))


# --- training ---------------------------------------------------------------------------------------------------------


def test_side_by_side_as_alone(tmp_path, place, uninterrupted, monkeypatch):
    """To the last bit, also in a process that has done something else before, and beside a run that fails."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as alone
    config, wild = settings(place), {"lr": 1e30, "gradient_norm": 1e30}
    runs = [
        Run(replace(config, seed=1), tmp_path / "1"),
        Run(config, tmp_path / "0"),
        Run(replace(config, seed=1), tmp_path / "again"),
        Run(settings(place, optimisation=wild), tmp_path / "wild"),
    ]
    train(runs[0].config, tmp_path / "alone")
    said = StringIO()
    outcomes = train_together(runs, 2, Console(file=said, width=80))
    assert outcome(tmp_path / "0") == uninterrupted
    assert outcome(tmp_path / "1") == outcome(tmp_path / "again") == outcome(tmp_path / "alone")
    *others, error = [outcome.error or "" for outcome in outcomes]
    assert others == ["", "", ""]
    assert error.startswith("epoch 1: the loss is not a number any more; train anew")
    assert outcomes[1].result is not None
    assert set(outcomes[1].result) >= {"epoch", "validation_accuracy"}
    lines = said.getvalue().splitlines()
    assert [line.split()[:3] for line in lines if line.startswith("1: epoch")] == [
        ["1:", "epoch", str(n)] for n in (1, 2, 3)
    ]
    assert sum(line.startswith("1: done: best epoch ") for line in lines) == 1
    assert any(line.startswith(f"wild: failed: {error}; ") for line in lines)


def test_ctrl_c_and_going_on(tmp_path, place, capsys, monkeypatch):
    """As a terminal sends it: to every process at the same time."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = ["train", *flags(settings(place)), "--run", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "torch_ctree", *command, "--seeds=0-2", "--at-once=2", MANY],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    runs = [tmp_path / f"pairs-{seed}" for seed in range(3)]
    until(lambda: all((run / "last.ckpt").exists() for run in runs[:2]) or process.poll() is not None)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=300)[0].splitlines()
    assert process.returncode == 130
    assert said[-1] == "stopped; go on with the same command and --resume"
    assert not [line for line in said if "Traceback" in line or "Error" in line or "Interrupt" in line]
    with pytest.raises(ProcessLookupError):
        until(lambda: os.killpg(process.pid, 0))  # it has no processes
    assert not runs[2].exists()

    done = max((metrics.read_text().count("\n") for metrics in tmp_path.glob("*/metrics.csv")), default=1)
    main([*command, "--seeds=0,2", "--at-once=1", "--resume", f"--optimisation.max_epochs={done + 1}"])
    end = capsys.readouterr().out.splitlines()[-5:]
    assert [line.split()[0] for line in end] == ["seed", "0", "2", "validation", "next:"]
    for seed in (0, 2):  # one that goes on, and one that begins
        config = settings(place, seed=seed, optimisation={"max_epochs": done + 1})
        train(config, tmp_path / f"alone-{seed}")
        assert outcome(runs[seed]) == outcome(tmp_path / f"alone-{seed}")


def test_one_device_each(tmp_path):
    config = settings(tmp_path, trainer={"devices": 2})
    with pytest.raises(TrainingError, match=r"^trainer\.devices: got 2; expected 1 where many runs go side by side$"):
        train_together([Run(config, tmp_path / "run")], 2)


@pytest.mark.parametrize(
    ("accelerator", "gpu", "expected"),
    [("auto", False, 3), ("auto", True, 10), ("gpu", True, 10), ("cpu", True, 3)],
)
def test_how_many_at_once(monkeypatch, accelerator, gpu, expected):
    monkeypatch.setattr(together, "cores", lambda: 3)
    monkeypatch.setattr(together, "has_gpu", lambda: gpu)
    config = TrainConfig()
    assert default_at_once(replace(config, trainer=replace(config.trainer, accelerator=accelerator))) == expected


@pytest.mark.parametrize(("at_once", "shared"), [(1, False), (2, True)])
def test_a_gpu_is_shared_where_there_are_several(monkeypatch, tmp_path, at_once, shared):
    def run(work, jobs, at_once, variables, watcher):
        return variables

    monkeypatch.setattr(together, "has_gpu", lambda: True)
    monkeypatch.setattr(together, "shared_gpu", lambda tell: together.nullcontext({"PIPE": "here"}))
    monkeypatch.setattr(together, "run_together", run)
    runs = [Run(TrainConfig(), tmp_path / "a"), Run(TrainConfig(), tmp_path / "b")]
    assert train_together(runs, at_once, Console(quiet=True)) == ({"PIPE": "here"} if shared else {})


def test_the_table(monkeypatch, tmp_path):
    """On a terminal: what each run said last; a failure stays, and so does a warning, once."""
    screens = []

    def run(work, jobs, at_once, variables, watcher):
        def screen() -> None:
            shown = Console(file=StringIO(), width=60)
            shown.print(watcher)
            screens.append([line.split(maxsplit=2) for line in shown.file.getvalue().splitlines()[1:]])  # pyright: ignore

        screen()
        watcher.begun(0)
        watcher.begun(1)
        watcher.said(0, "epoch   1   loss 2.3")
        watcher.said(0, "epoch   2   loss 2.1, and more than there is room for in a line")
        watcher.warned(0, "slow")
        watcher.warned(1, "slow")
        watcher.ended(1, Outcome(jobs[1], None, "out of [memory]", 61.0))
        screen()
        watcher.ended(0, Outcome(jobs[0], {"epoch": 2, "validation_accuracy": 0.5}, None, 61.0))
        screen()

    monkeypatch.setattr(together, "run_together", run)
    config, said = settings(tmp_path), StringIO()
    runs = [Run(config, tmp_path / name) for name in ("run-0", "run-1", "run-2")]
    train_together(runs, 2, Console(file=said, force_terminal=True, width=60))
    assert screens[0] == [["run-0", "waiting"], ["run-1", "waiting"], ["run-2", "waiting"]]
    assert [row[:2] for row in screens[1]] == [["run-0", "training"], ["run-1", "failed"], ["run-2", "waiting"]]
    assert screens[1][0][2].startswith("epoch   2   loss 2.1, and more")
    assert screens[1][0][2].endswith("…")
    assert screens[2][0][1] == "done"
    assert said.getvalue().count("run-0: slow") == 1
    assert "run-1: slow" not in said.getvalue()
    assert "run-1: failed: out of [memory]; 61 s" in said.getvalue()
