"""Parts of the models as few large kernels, for GPUs: the same functions as their modules, within rounding.

What a module does in dozens of small operations is here a matrix product of torch's and a Triton kernel around it, with
a hand-written derivative. Nothing here waits for the device or adds with atomics: steps can be captured as CUDA graphs,
and come out the same every time.

Dropout draws its masks from a seed on the device (``chance``), which comes from torch's generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache

import torch
from torch import Tensor

from torch_ctree.devices import triton_runs

_wanted: ContextVar[bool | None] = ContextVar("fused", default=None)


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """Within it, modules use these kernels wherever they can run, even in Triton's interpreter; or nowhere."""
    before = _wanted.set(on)
    try:
        yield
    finally:
        _wanted.reset(before)


def usable(x: Tensor) -> bool:
    """Whether a module may hand this tensor to these kernels: float32, on a GPU, and no one in between."""
    wanted = _wanted.get()
    if wanted is False or x.dtype != torch.float32 or not x.numel() or not (x.is_cuda or wanted):
        return False
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return product_dtype(x) in (torch.float32, torch.bfloat16) and triton_runs(x.device) and _has_room(x.device)


@cache
def _has_room(device: torch.device) -> bool:
    """Whether a multiprocessor has as much fast memory as the kernels want, 99 KB: since Ampere, all have."""
    return device.type == "cpu" or torch.cuda.get_device_capability(device) >= (8, 0)


def product_dtype(x: Tensor) -> torch.dtype:
    """What large products multiply: float32, unless autocast has another."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32


def small(x: Tensor) -> AbstractContextManager[None]:
    """For products that are small beside those in kernels: there, autocast would cost more than it saves."""
    return at_home(x) if usable(x) else nullcontext()


@contextmanager
def at_home(x: Tensor) -> Iterator[None]:
    """On the tensor's device, where Triton would not go by itself; without autocast, which does not know kernels."""
    with torch.cuda.device_of(x), torch.autocast(x.device.type, enabled=False):
        yield
