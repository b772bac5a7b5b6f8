"""Two processes train as one does; dropout apart, which is drawn for each."""

import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import start
from tests.training.runs import command, flags, settings, train
from torch_ctree.training import TrainConfig, merged
from torch_ctree.viewing.report import REPORT

ALONE = {"dropout": 0.0, "attention_dropout": 0.0}
# 40 pairs: batches of three, and one of a single pair, of which one process gets none. With a small eps, Adam makes
# much of gradients that are nothing but rounding.
CONFIG: dict[str, Any] = {
    "model": ALONE,
    "optimisation": {"batch_size": 3, "eps": 1e-2, "max_epochs": 2, "checkpoint_steps": 3},
}
TOGETHER = ["--trainer.devices=2", "--trainer.accelerator=cpu"]


def started(*arguments: str) -> subprocess.Popen:
    """``ctree train``, which starts the second process itself."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "torch_ctree", "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )


def both(place: Path, *arguments: str) -> tuple[list[int | None], list[list[str]]]:
    """Two processes that somebody else has started: their status, and what each says."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outputs = [place / f"said by {rank}" for rank in range(2)]
    processes = [start(helped, rank, port, ["train", *arguments, *TOGETHER], outputs[rank]) for rank in range(2)]
    for process in processes:
        process.join(600)
    return [process.exitcode for process in processes], [output.read_text().splitlines() for output in outputs]


def helped(rank: int, port: int, arguments: list[str], output: Path) -> None:
    os.environ.update(LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    command(arguments, output)


def of(epochs: int, place: Path) -> TrainConfig:
    return settings(place, **merged(CONFIG, {"optimisation": {"max_epochs": epochs}}))


def metrics(folder: Path) -> list[list[float]]:
    with open(folder / "metrics.csv", newline="") as file:
        return [[float(value) for value in row.values()] for row in csv.DictReader(file)]


@pytest.fixture(scope="module")
def alone(place, tmp_path_factory):
    """The run of one process."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    _, said = train(settings(place, **CONFIG), folder)
    assert 0 < metrics(folder)[-1][4] < 1  # else accuracy would tell little
    return folder, said.splitlines()


def assert_same(folder: Path, alone: Path) -> None:
    rows, expected = metrics(folder), metrics(alone)
    assert len(rows) == len(expected)
    for row, other in zip(rows, expected, strict=True):
        assert row == pytest.approx(other, rel=1e-5)
        assert row[4] == other[4]  # accuracy: every pair of the 13 once
    names = {path.name for path in folder.iterdir()}
    assert names | {REPORT} == {path.name for path in alone.iterdir()} | {REPORT}  # that is the command's
    assert len(list((folder / "tensorboard").glob("events*"))) <= 2  # one a run


def test_two_processes(tmp_path, place, alone):
    folder = tmp_path / "run"
    process = started(*flags(settings(place, **CONFIG)), *TOGETHER, "--run", str(folder))
    said = process.communicate(timeout=120)[0].splitlines()
    assert process.returncode == 0
    assert_same(folder, alone[0])
    assert len(list((folder / "tensorboard").glob("events*"))) == 1
    # Nothing but what one process says, and once.
    assert [line.split()[:2] for line in said[3:5]] == [["epoch", "1"], ["epoch", "2"]]
    assert (said[0], said[2]) == (alone[1][0], alone[1][2])
    assert said[5].startswith("best: epoch 2, ")
    assert said[6] == f"report: {folder / REPORT}"
    assert said[7].startswith("next: ")
    assert len(said) == 8


def test_interrupted(tmp_path, place):
    """Within an epoch, of which each process has seen a part. Ctrl-C goes to both of them."""
    folder = tmp_path / "run"
    process = started(*flags(of(500, place)), *TOGETHER, "--run", str(folder))
    end = time.monotonic() + 60
    while not (folder / "last.ckpt").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=600)[0].splitlines()  # until both have closed their output
    assert process.returncode == 130
    *epochs, last = said[3:]
    assert {line.split()[0] for line in epochs} <= {"epoch"}
    assert last == f"stopped; go on with: ctree train --resume --run {folder}"
    status, said = both(tmp_path, "--resume", "--run", str(folder), f"--optimisation.max_epochs={len(epochs) + 1}")
    assert status == [0, 0]
    assert said[0][-3].startswith("best: ")
    assert said[1] == []
    train(of(len(epochs) + 1, place), tmp_path / "alone")
    assert_same(folder, tmp_path / "alone")


def test_what_is_wrong_is_said_once(tmp_path, place):
    folder = tmp_path / "run"
    wild = ["--optimisation.lr=1e30", "--optimisation.gradient_norm=1e30"]
    status, said = both(tmp_path, *flags(settings(place, **CONFIG)), *wild, "--run", str(folder))
    assert status[0] == 2
    assert said[0][3].startswith(
        "ctree: epoch 1: the training loss is not a number any more; train anew with another --run and a lower"
    )
    assert [len(lines) for lines in said] == [4, 0]


def test_a_damaged_checkpoint_is_said_once(tmp_path, place, alone):
    """And one process goes on with what two have begun, two with what one has."""
    folder = tmp_path / "run"
    status, _ = both(tmp_path, *flags(of(1, place)), "--run", str(folder))
    assert status == [0, 0]
    (folder / "last.ckpt").write_bytes(b"")  # the one before it is of the epoch's middle
    one = shutil.copytree(folder, tmp_path / "one")
    train(settings(place, **CONFIG), one, resume=True)
    assert_same(one, alone[0])
    status, said = both(tmp_path, "--resume", "--run", str(folder), "--optimisation.max_epochs=2")
    assert status == [0, 0]
    assert [sum("a damaged checkpoint" in line for line in lines) for lines in said] == [1, 0]
    assert_same(folder, alone[0])
