"""Processes side by side. Each takes seconds to start: as much as possible is asked of each."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from tests.processes import from_one
from tests.training.jobs import until
from tests.training.runs import flags, outcome, settings, train
from torch_ctree.cli import main
from torch_ctree.training import TrainConfig, TrainingError, pool, together
from torch_ctree.training.pool import Outcome
from torch_ctree.training.together import SHOWN, Board, Log, Run, default_at_once, train_together

MANY = "--optimisation.max_epochs=5000"


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
    assert error.startswith("epoch 1: the training loss is not a number any more; train anew")
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

    monkeypatch.setattr(pool, "SPAWN", from_one())
    done = max((metrics.read_text().count("\n") for metrics in tmp_path.glob("*/metrics.csv")), default=1)
    main([*command, "--seeds=0,2", "--at-once=1", "--resume", f"--optimisation.max_epochs={done + 1}"])
    end = capsys.readouterr().out.splitlines()[-6:]
    assert [line.split()[0] for line in end] == ["seed", "0", "2", "validation", "reports:", "next:"]
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


@pytest.mark.parametrize(("at_once", "shared"), [(1, False), (2, True), (10, True)])
def test_a_gpu_is_shared_where_there_are_several(monkeypatch, tmp_path, at_once, shared):
    def run(work, jobs, at_once, variables, watcher):
        return variables

    monkeypatch.setattr(together, "has_gpu", lambda: True)
    monkeypatch.setattr(together, "shared_gpu", lambda tell, *of: together.nullcontext({"PIPE": of}))
    monkeypatch.setattr(together, "run_together", run)
    runs = [Run(TrainConfig(), tmp_path / "a"), Run(TrainConfig(), tmp_path / "b")]
    assert train_together(runs, at_once, Console(quiet=True)) == ({"PIPE": (2, ["32-true"] * 2)} if shared else {})


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


def test_of_many_runs_the_table_shows_those_in_training():
    said: list[str] = []
    watcher = Board([f"run-{n}" for n in range(SHOWN + 3)], lambda result: result, said.append)
    for n in range(4):
        watcher.begun(n)
    for n, (result, error) in enumerate([("well", None), ("", None), (None, "badly")]):
        watcher.ended(n, Outcome(n, result, error, 1.0))
    shown = Console(file=StringIO(), width=80)
    shown.print(watcher)
    _, row, last = shown.file.getvalue().splitlines()  # pyright: ignore[reportAttributeAccessIssue]
    assert row.split() == ["run-3", "training"]
    assert last == f"1 done, 1 stopped, 1 failed, 1 training, {SHOWN - 1} waiting"
    assert said == ["run-2: failed: badly; 1 s"]


def test_of_a_run_that_was_stopped_nothing_is_said():
    said: list[str] = []
    watcher = Log(["a", "b"], lambda result: result or "", said.append)
    watcher.ended(0, Outcome(0, None, None, 1.0))
    watcher.ended(1, Outcome(1, "well", None, 1.0))
    assert said == ["b: done: well; 1 s"]
