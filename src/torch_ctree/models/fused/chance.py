"""Dropout masks that are computed, not stored: from a seed, the number of the place, and the number of the unit.

Forward and backward pass ask the same question and get the same answer.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def new_seed(device: torch.device) -> Tensor:
    """(1,) on the device, from torch's generator: in a CUDA graph, another one at each replay."""
    return torch.randint(1 << 62, (1,), device=device)


@triton.jit
def _mixed(x):
    """A bijection of 32-bit numbers after which every bit depends on every bit before (Wellons' lowbias32)."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def keep(seed, place, unit, p: tl.constexpr):
    """What a unit is multiplied by: 0 with probability p, else 1 / (1 − p).

    seed: what ``new_seed`` gave, loaded; place: another number for each use of dropout; unit: a tensor of numbers, one
    for each unit, in any order
    """
    if p == 0.0:
        return tl.full(unit.shape, 1.0, tl.float32)
    low = _mixed((seed + tl.cast(place, tl.int64) * 0x85EBCA77).to(tl.uint32))
    high = (seed >> 32).to(tl.uint32)
    bits = _mixed(unit.to(tl.uint32) * 0x9E3779B1 + low) ^ high
    return tl.where(bits >= tl.full((), p * 4294967296.0, tl.float64).to(tl.uint32), 1.0 / (1.0 - p), 0.0)
