"""One GPU for many processes at the same time: CUDA's multi-process service (MPS).

Without it, processes on one GPU take turns. With it, their kernels run side by side.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import torch

from torch_ctree.data.errors import in_one_line
from torch_ctree.training.errors import TrainingError

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS, VISIBLE = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_VISIBLE_DEVICES"
SHARE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
TIMES = 2
"""A process may use so many times its share of the GPU: with all of it, each would often be in the others' way."""
IN_PARTS = "32-true", "32-exact"
"""The precisions of training whose products have been seen to be right with a part of a GPU too. In 16 bits, on an
H200 with cuBLAS 13.0, many kernels then leave parts of their answer unwritten (benchmarks/results/products.json)."""
PATIENCE = 60
"""Seconds for a program that should take one."""

# Asks the driver for a context on the first GPU. A service may start, and then refuse everybody.
PROBE = """
import ctypes
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
for error in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)):
    if error:
        raise SystemExit(f"CUDA error {error}")
"""

# Waits for its input to end, as it does when the process that holds the other end ends, however that comes about.
CARETAKER = f"""
cat
echo quit | {CONTROL}
rm -rf "$0"
"""


class _RefusedError(Exception):
    """Why there is no service, in a few words."""


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """This process's environment variables, and those of the processes it starts, for a while."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def has_gpu() -> bool:
    """Whether there is a GPU; asking does not make this process one that computes on it."""
    with environment({"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}):
        return torch.cuda.is_available()


@contextmanager
def shared_gpu(tell: Callable[[str], None], processes: int, precisions: Collection[str]) -> Iterator[dict[str, str]]:
    """Let so many processes share the GPU for a while → the environment variables that they need.

    A service that the environment already names is used, and left alone. Where there is no GPU, nothing happens.

    tell: gets a line where a GPU cannot be shared, so that processes take turns on it
    precisions: of what they train; each gets a part of the GPU if that is right in all of them
    """
    with ExitStack() as stack:
        variables = {}
        if has_gpu():
            try:
                service = {} if os.environ.get(PIPES) else stack.enter_context(_service())
                variables = service | _share(processes, precisions)
            except _RefusedError as refused:
                tell(f"the GPU cannot be shared: {refused}; the runs take turns on it, which is slower")
        yield variables


def check_part(precision: str) -> None:
    """Refuse a precision whose products cannot be trusted in this process: see ``IN_PARTS``."""
    part = os.environ.get(SHARE, "")
    if precision not in IN_PARTS and part.replace(".", "", 1).isdecimal() and float(part) < 100:
        raise TrainingError(
            f"trainer.precision: got {precision} with {SHARE}={part}, whose products cannot be "
            f"trusted with a part of a GPU; expected {' or '.join(IN_PARTS)}, or that variable unset"
        )


def _share(processes: int, precisions: Collection[str]) -> dict[str, str]:
    """How much of the GPU each of them may use, unless the environment says it already."""
    percentage = max(1, 100 * TIMES // processes)
    if percentage >= 100 or os.environ.get(SHARE) or any(precision not in IN_PARTS for precision in precisions):
        return {}
    return {SHARE: str(percentage)}


@contextmanager
def _service() -> Iterator[dict[str, str]]:
    """A service of our own, tried out → what its clients need to know; at the end it is stopped."""
    folder = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))  # for sockets, whose paths must be short
    variables = {PIPES: str(folder), LOGS: str(folder)}
    try:
        _call([CONTROL, "-d"], variables, folder, f"{CONTROL} failed")
        caretaker = subprocess.Popen(
            ["/bin/sh", "-c", CARETAKER, str(folder)],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not for it
        )
        try:
            variables |= _renumbered()
            _call([sys.executable, "-c", PROBE], variables, folder, "its service does not answer")
            yield variables
        finally:
            with suppress(subprocess.TimeoutExpired):
                caretaker.communicate(timeout=PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _renumbered() -> dict[str, str]:
    """The service offers the GPUs that are visible to it, and counts them from 0."""
    if not os.environ.get(VISIBLE):
        return {}
    return {VISIBLE: ",".join(map(str, range(torch.cuda.device_count())))}


def _call(command: list[str], variables: Mapping[str, str], folder: Path, failure: str) -> None:
    """Run a program that may leave another behind: its output goes to a file, since a pipe would stay open.

    failure: what to call it
    """
    said, env = folder / "said", {**os.environ, **variables}
    try:
        with said.open("wb") as output:
            subprocess.run(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=PATIENCE,
                start_new_session=True,
                check=True,
            )
    except FileNotFoundError:
        raise _RefusedError(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        why = said.read_text(errors="replace").strip() or f"status {error.returncode}"
        raise _RefusedError(in_one_line(f"{failure} ({why})", 200)) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _RefusedError(in_one_line(f"{failure} ({error})", 200)) from None
