"""Dropout that is fast on a CPU too."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Dropout(nn.Dropout):
    """``torch.nn.Dropout``, whose mask costs a quarter as many random numbers on a CPU.

    There, drawing them one by one would take a large part of a training step. A random 64-bit number serves four units:
    each gets 16 bits, so that the probability is p to the nearest 1/65,536, and what remains is scaled by exactly that.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Of any shape."""
        dropped = round(self.p * 65536)
        if not self.training or not dropped:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling() or dropped == 65536:
            return super().forward(x)
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 32768
        return x * kept.to(x.dtype).mul_(65536 / (65536 - dropped))
