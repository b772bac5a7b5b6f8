"""The paper's activation, and its gates."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Activation(nn.Module):
    """tanh(layernorm(x)) over the last dimension.

    weights: whether the norm has weights of its own
    """

    def __init__(self, width: int, weights: bool = True) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=weights)

    def forward(self, x: Tensor) -> Tensor:
        """(…, H) → (…, H)"""
        return torch.tanh(self.norm(x))


def gated(old: Tensor, new: Tensor, gate: Tensor) -> Tensor:
    """(1 − gate) ⊙ old + gate ⊙ new, of any dtypes: ``torch.lerp`` refuses the mixture that autocast makes."""
    return old + gate * (new - old)
