"""A kernel that does next to nothing: whether it runs tells whether any can."""

# pyright: reportArgumentType=false, reportIndexIssue=false
from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _count(out):
    tl.store(out, tl.load(out) + 1)


def run(device: torch.device) -> None:
    """Compile and launch it; raises whatever goes wrong: Triton needs a C compiler and Python's headers, for one."""
    out = torch.zeros(1, dtype=torch.int32, device=device)
    with torch.cuda.device_of(out):
        _count[(1,)](out)
