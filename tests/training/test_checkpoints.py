"""Wherever a run is killed, and whatever the disk does: going on gives what an uninterrupted run would have given."""

import os
import pickle
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.processes import start
from tests.training.runs import command, flags, go_on, killed_before_renaming, outcome, settings, train
from torch_ctree.training import TrainingError
from torch_ctree.training.checkpoints import LAST, METRICS, NEW, PREVIOUS, newest

MODEL = ["config.json", "source.json", "target.json", "model.safetensors"]
FIRST, LATER = [NEW, LAST], [NEW, PREVIOUS, LAST]
RENAMED = ["config.yaml", *FIRST, *LATER, *MODEL, *LATER, METRICS, *2 * LATER, *MODEL, *LATER, METRICS]
"""The files of a run of two epochs of five steps, the second one better, in the order they get their names."""
DEADLY = [*range(7), 9, 13, *range(23, 28)]
"""Before which of them to be killed: all of the beginning, and some of each kind later."""


def state(path: Path) -> Any:
    return (stat.st_ino, stat.st_mtime_ns) if path.exists() and (stat := path.stat()) else None


def wait_until(condition: Any, process: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition() and process.is_alive():
        assert time.monotonic() < end
        time.sleep(0.002)


# --- killed -----------------------------------------------------------------------------------------------------------


def test_killed_again_and_again(tmp_path, place, uninterrupted):
    folder, config, kills = tmp_path / "run", settings(place), 0
    for delay in (0, 0, 0.02, 0.06, 0.15):
        awaited = folder / (LAST if kills else "config.yaml")  # the first time, before there is a checkpoint
        before, process = state(awaited), start(go_on, config, folder)
        wait_until(lambda: state(awaited) != before, process)  # noqa: B023
        time.sleep(delay)
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
    go_on(config, folder)
    assert kills >= 3
    assert outcome(folder) == uninterrupted


@pytest.fixture(scope="module")
def two_epochs(place, tmp_path_factory):
    """What an uninterrupted run leaves after two epochs, and the files in the order they got their names."""
    folder, names, replace = tmp_path_factory.mktemp("two") / "run", [], os.replace
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", lambda old, new: (names.append(Path(new).name), replace(old, new)))
        train(settings(place, optimisation={"max_epochs": 2}), folder)
    assert names == RENAMED
    return outcome(folder)


@pytest.mark.parametrize("n", DEADLY, ids=[f"{n}-{RENAMED[n]}" for n in DEADLY])
def test_killed_before_a_file_gets_its_name(tmp_path, place, two_epochs, n):
    """Between any two steps of what is written, the unfinished file still there."""
    folder, config = tmp_path / "run", settings(place, optimisation={"max_epochs": 2})
    process = start(killed_before_renaming, config, folder, n)
    process.join(600)
    assert process.exitcode == -signal.SIGKILL
    unfinished = [path.name.rpartition(".")[0] for path in folder.glob(".*")]
    assert unfinished == ([] if RENAMED[n] in (LAST, PREVIOUS) else [f".{RENAMED[n]}"])
    go_on(config, folder)
    assert outcome(folder) == two_epochs
    assert not (folder / NEW).exists()
    assert not list(folder.glob(".*"))


def test_lost_metrics_come_back(tmp_path, place, uninterrupted):
    folder = tmp_path / "run"
    train(settings(place, optimisation={"max_epochs": 2}), folder)
    (folder / METRICS).unlink()
    train(settings(place), folder, resume=True)
    assert outcome(folder) == uninterrupted
    (folder / METRICS).unlink()
    train(settings(place), folder, resume=True)  # there is nothing else left to do
    assert outcome(folder) == uninterrupted


# --- damaged ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def half(tmp_path, place):
    """A run that has done two epochs of three."""
    train(settings(place, optimisation={"max_epochs": 2}), tmp_path / "run")
    return tmp_path / "run"


def test_a_truncated_checkpoint(half, place, uninterrupted):
    whole = (half / LAST).read_bytes()
    previous = (half / PREVIOUS).read_bytes()
    for cut in (0, 1, 4, 100, 5000, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        (half / LAST).write_bytes(whole[:cut])
        said = []
        path, content = newest(half, said.append)
        assert path == half / PREVIOUS
        assert len(said) == 1
        assert said[0].startswith(f"{half / LAST}: a damaged checkpoint (")
        assert said[0].endswith("); going on from previous.ckpt, after step 9")
        assert content["global_step"] == 9
        assert "\n" not in said[0]
    _, said = train(settings(place), half, resume=True)
    assert said.splitlines()[0].startswith(f"{half / LAST}: a damaged checkpoint (")
    assert outcome(half) == uninterrupted
    assert previous != (half / PREVIOUS).read_bytes()


def test_killed_while_a_damaged_checkpoint_is_replaced(half, place, uninterrupted):
    """The damaged one is then the previous one; the new one has not got its name."""
    (half / PREVIOUS).write_bytes(b"damaged")
    (half / LAST).rename(half / NEW)
    _, said = train(settings(place), half, resume=True)
    assert "a damaged checkpoint" not in said
    assert outcome(half) == uninterrupted


@pytest.mark.parametrize("content", [b"", b"damaged", b"PK\x03\x04", b"\x80\x02.", bytes(range(256)) * 40])
def test_no_whole_checkpoint(half, place, content):
    for name in (LAST, PREVIOUS):
        (half / name).write_bytes(content)
    with pytest.raises(
        TrainingError, match=rf"^{half / LAST}: a damaged checkpoint \(.*\), and no earlier one"
    ) as told:
        train(settings(place), half, resume=True)
    assert "\n" not in str(told.value)


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("save", [torch.save, lambda thing, path: path.write_bytes(pickle.dumps(thing))])
def test_no_code_is_run(half, place, uninterrupted, save):
    exploded = half.parent / "exploded"
    save({"torch_ctree": Bomb(exploded)}, half / LAST)
    _, said = train(settings(place), half, resume=True)
    assert said.splitlines()[0].startswith(f"{half / LAST}: a damaged checkpoint (")
    assert not exploded.exists()
    assert outcome(half) == uninterrupted


@pytest.mark.parametrize("content", [{"state_dict": {}, "global_step": 3}, [1, 2], torch.zeros(3), 7])
def test_a_checkpoint_of_something_else(half, content):
    for name in (LAST, PREVIOUS):
        torch.save(content, half / name)
    with pytest.raises(TrainingError, match=r"a damaged checkpoint \(not a checkpoint of torch-ctree\)"):
        newest(half, print)


# --- a full disk ------------------------------------------------------------------------------------------------------


def test_a_full_disk(tmp_path, place, uninterrupted):
    folder, output = tmp_path / "run", tmp_path / "said"
    config = settings(place, optimisation={"checkpoint_steps": 100})  # so that the model is written first
    arguments = ["train", "--run", str(folder)]
    for most, name in ((500, "config.yaml"), (10_000, "model.safetensors"), (50_000, NEW)):
        began = ["--resume"] if (folder / "config.yaml").exists() else flags(config)
        process = start(command, [*arguments, *began], output, most)
        process.join(600)
        assert process.exitcode == 2
        *_, said = output.read_text().splitlines()
        assert said.startswith(f"ctree: {folder / name}: cannot be written: File too large")
        if name != "config.yaml":
            assert said.endswith(f"make room, then go on with 'ctree train --resume --run {folder}'")
        assert not (folder / NEW).exists()
    process = start(command, [*arguments, "--resume"], output)
    process.join(600)
    assert process.exitcode == 0
    assert outcome(folder) == uninterrupted


def test_a_disk_that_fills_up_later(half, place, uninterrupted):
    kept = {name: (half / name).read_bytes() for name in (LAST, PREVIOUS, METRICS, "model.safetensors")}
    output = half.parent / "said"
    process = start(command, ["train", "--run", str(half), "--resume", "--optimisation.max_epochs=3"], output, 50_000)
    process.join(600)
    assert process.exitcode == 2
    assert f"{half / NEW}: cannot be written: File too large" in output.read_text().splitlines()[-1]
    assert "Traceback" not in output.read_text()
    assert kept == {name: (half / name).read_bytes() for name in kept}
    train(settings(place), half, resume=True)
    assert outcome(half) == uninterrupted
