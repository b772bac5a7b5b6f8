"""What can run where."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import torch


def triton_runs(device: torch.device) -> bool:
    """Whether Triton kernels can run on a device's tensors; where a GPU has to do without, that is said once.

    On a CPU they run in Triton's interpreter, where the environment asks for it (TRITON_INTERPRET=1): for tests, since
    it is very slow.
    """
    if device.type == "cpu":
        return interpreting() and _is_installed()
    if device.type != "cuda":
        return False
    if missing := _missing(torch.device("cuda", device.index if device.index is not None else 0)):
        _say(missing)
    return not missing


def interpreting() -> bool:
    """Whether Triton's kernels run in its interpreter."""
    return os.environ.get("TRITON_INTERPRET") == "1"


@cache
def _is_installed() -> bool:
    return importlib.util.find_spec("triton") is not None


@cache
def _missing(device: torch.device) -> str:
    """What keeps Triton from running on a GPU; nothing, if it can."""
    if not _is_installed():
        return "the package 'triton' is not installed"
    if torch.version.hip is None and torch.cuda.get_device_capability(device) < (7, 0):
        return f"{torch.cuda.get_device_name(device)} is too old for it"
    try:
        from torch_ctree import trial  # noqa: PLC0415  (imports Triton)

        trial.run(device)
    except Exception as error:  # of many kinds
        return " ".join(str(error).split())[:200] or type(error).__name__
    return ""


@cache
def _say(what: str) -> None:
    warnings.warn(f"no Triton kernels on this GPU: {what}; slower ones do the same work", stacklevel=3)


def in_kernels(x: torch.Tensor) -> bool:
    """Whether to hand a tensor to Triton kernels: it is on a GPU, and nobody traces or maps what is done to it."""
    if not x.is_cuda or torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return triton_runs(x.device)


@cache
def multiprocessors(device: torch.device) -> int:
    """How many a GPU has; where several processes share one, how many of them are for this one."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def dot_precision() -> str:
    """How Triton's ``tl.dot`` multiplies float32: as torch does; TF32 is NVIDIA's."""
    if torch.version.hip is not None:
        return "ieee"
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # torch 2.9 and later
        return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


@contextmanager
def in_tf32(device: torch.device | None = None, on: bool = True) -> Iterator[None]:
    """Within it, a GPU multiplies float32 in TF32, as in training; where it is not to be on, in float32."""
    before = torch.get_float32_matmul_precision()
    if device is None or device.type == "cuda":
        torch.set_float32_matmul_precision("high" if on else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
