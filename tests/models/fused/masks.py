"""The masks of ``torch_ctree.models.fused.chance`` in torch's integers."""

import torch
from torch import Tensor

WORD = (1 << 32) - 1


def _mixed(x: Tensor) -> Tensor:
    x = x ^ (x >> 16)
    x = (x * 0x7FEB352D) & WORD
    x = x ^ (x >> 15)
    x = (x * 0x846CA68B) & WORD
    return x ^ (x >> 16)


def keep(seed: Tensor, place: int, unit: Tensor, p: float) -> Tensor:
    """seed (1,), unit: numbers, of any shape → 0 or 1 / (1 − p)"""
    low = _mixed(torch.tensor((int(seed) + place * 0x85EBCA77) & WORD))
    high = (int(seed) >> 32) & WORD
    bits = _mixed(((unit.long() & WORD) * 0x9E3779B1 + low) & WORD) ^ high
    return torch.where(bits >= int(p * 4294967296.0), 1 / (1 - p), 0.0)


def grid(*shape: int) -> Tensor:
    """The numbers of the units of a tensor."""
    return torch.arange(torch.Size(shape).numel()).reshape(shape)
