"""With a program that passes for CUDA's; it writes down how it is called."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.training.runs import settings
from torch_ctree.training import running, sharing
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.sharing import LOGS, PIPES, SHARE, VISIBLE, check_part, shared_gpu

SCRIPT = f"""#!/bin/sh
if [ "$1" = -d ]; then asked=start; else read asked; fi
echo "$asked ${PIPES} ${LOGS} ${{{VISIBLE}-all}}" >> "$CALLS"
[ -z "$FAILS" ] || {{ echo "An instance of this daemon"; echo "is already running"; exit 1; }} >&2
if [ "$asked" = start ]; then touch "${PIPES}/control"; sleep 0.5 & fi
"""


@pytest.fixture
def calls(tmp_path, monkeypatch) -> Path:
    """The calls of the program, on a machine that has one and a GPU."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / sharing.CONTROL
    program.write_text(SCRIPT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    for name in (PIPES, LOGS, VISIBLE, SHARE, "FAILS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(sharing, "PROBE", f"import os; assert os.path.exists(os.environ['{PIPES}'] + '/control')")
    (tmp_path / "calls").touch()
    return tmp_path / "calls"


def refuse(line: str) -> None:
    raise AssertionError(line)


def test_a_service_for_a_while(calls):
    before = dict(os.environ)
    with shared_gpu(refuse, 2, ["32-true"]) as variables:
        folder = Path(variables[PIPES])
        assert set(variables) == {PIPES, LOGS}
        assert (folder / "control").exists()
        assert folder.stat().st_mode & 0o077 == 0  # nobody else's
        assert len(str(folder)) < 40  # the path of a socket has room for about 100
        assert calls.read_text() == f"start {folder} {variables[LOGS]} all\n"
        assert dict(os.environ) == before
    assert calls.read_text().splitlines()[1:] == [f"quit {folder} {variables[LOGS]} all"]
    assert not folder.exists()


def test_it_ends_with_an_error(calls):
    with pytest.raises(KeyboardInterrupt), shared_gpu(refuse, 2, ["32-true"]) as variables:
        raise KeyboardInterrupt
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["start", "quit"]
    assert not Path(variables[PIPES]).exists()


def test_it_ends_with_a_process_that_is_killed(calls):
    program = (
        "import sys, time, torch; from torch_ctree.training import sharing; torch.cuda.is_available = lambda: True\n"
        "sharing.PROBE = ''\n"
        "with sharing.shared_gpu(print, 2, []) as variables: print(*variables.values(), flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    folder = Path(process.stdout.readline().split()[0])
    assert folder.exists()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    end = time.monotonic() + 10
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert not folder.exists()
    assert calls.read_text().splitlines()[-1].startswith("quit ")


def test_gpus_count_from_0_for_its_clients(calls, monkeypatch):
    monkeypatch.setenv(VISIBLE, "3,5")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with shared_gpu(refuse, 2, ["32-true"]) as variables:
        assert variables[VISIBLE] == "0,1"
    assert [line.split()[-1] for line in calls.read_text().splitlines()] == ["3,5", "3,5"]


def refused(folder: Path) -> str:
    """The one line that is said; no folder is left."""
    said: list[str] = []
    before = set(folder.glob("mps-*"))
    with shared_gpu(said.append, 10, ["32-true"]) as variables:
        assert variables == {}
    assert set(folder.glob("mps-*")) == before
    (line,) = said
    why = line.removeprefix("the GPU cannot be shared: ").removesuffix("; the runs take turns on it, which is slower")
    assert len(why) < len(line) - 50
    return why


def test_a_service_that_does_not_start(calls, monkeypatch, tmp_path):
    monkeypatch.setattr(sharing.tempfile, "mkdtemp", made_in(tmp_path))
    monkeypatch.setenv("FAILS", "1")
    assert refused(tmp_path) == f"{sharing.CONTROL} failed (An instance of this daemon is already running)"
    assert len(calls.read_text().splitlines()) == 1
    monkeypatch.setenv("PATH", "/nowhere")
    assert refused(tmp_path) == f"{sharing.CONTROL} is not installed"
    monkeypatch.setattr(sharing, "CONTROL", str(tmp_path / "calls"))
    assert "Permission denied" in refused(tmp_path)


def test_a_service_that_does_not_answer(calls, monkeypatch, tmp_path):
    monkeypatch.setattr(sharing.tempfile, "mkdtemp", made_in(tmp_path))
    monkeypatch.setattr(sharing, "PROBE", "raise SystemExit('CUDA error 805')")
    assert refused(tmp_path) == "its service does not answer (CUDA error 805)"
    assert [line.split()[0] for line in calls.read_text().splitlines()] == ["start", "quit"]


def made_in(folder: Path):
    """mkdtemp, but there."""

    def make(prefix: str, dir: str) -> str:
        made = folder / f"{prefix}x"
        made.mkdir()
        return str(made)

    return make


def test_somebody_elses_service(calls, monkeypatch, tmp_path):
    monkeypatch.setenv(PIPES, str(tmp_path))
    with shared_gpu(refuse, 2, ["32-true"]) as variables:
        assert variables == {}
    assert calls.read_text() == ""


@pytest.mark.parametrize(("processes", "share"), [(1, None), (2, None), (3, "66"), (4, "50"), (10, "20"), (400, "1")])
def test_how_much_of_the_gpu(calls, monkeypatch, tmp_path, processes, share):
    with shared_gpu(refuse, processes, ["32-true"]) as variables:
        assert variables.get(SHARE) == share
    monkeypatch.setenv(SHARE, "50")  # whoever knows better
    with shared_gpu(refuse, processes, ["32-true"]) as variables:
        assert SHARE not in variables
    monkeypatch.delenv(SHARE)
    monkeypatch.setenv(PIPES, str(tmp_path))  # somebody else's service
    with shared_gpu(refuse, processes, ["32-true"]) as variables:
        assert variables == ({} if share is None else {SHARE: share})


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_in_16_bits_all_of_the_gpu_for_each(calls, precision):
    """With a part of it, cuBLAS gets products wrong."""
    with shared_gpu(refuse, 10, ["32-true", precision]) as variables:
        assert PIPES in variables
        assert SHARE not in variables


@pytest.mark.parametrize(("precision", "part"), [("bf16-mixed", "30"), ("16-mixed", "99.5")])
def test_a_precision_that_cannot_be_trusted_with_a_part_of_a_gpu(monkeypatch, tmp_path, precision, part):
    monkeypatch.setenv(SHARE, part)
    monkeypatch.setattr(running, "_on_gpu", lambda trainer: True)
    config = settings(tmp_path, trainer={"precision": precision})
    with pytest.raises(TrainingError, match=f"^trainer.precision: got {precision} with {SHARE}={part}, .*$"):
        running.train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("precision", "part"), [("bf16-mixed", "100"), ("bf16-mixed", ""), ("32-true", "30"), ("32-exact", "20")]
)
def test_one_that_can(monkeypatch, precision, part):
    monkeypatch.setenv(SHARE, part)
    check_part(precision)


def test_no_gpu(calls, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with shared_gpu(refuse, 2, ["32-true"]) as variables:
        assert variables == {}
    assert calls.read_text() == ""


def test_asking_for_a_gpu_does_not_begin_with_it(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: asked.append(dict(os.environ)) or True)
    monkeypatch.delenv("PYTORCH_NVML_BASED_CUDA_CHECK", raising=False)
    assert sharing.has_gpu()
    assert asked[0]["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"
    assert "PYTORCH_NVML_BASED_CUDA_CHECK" not in os.environ
