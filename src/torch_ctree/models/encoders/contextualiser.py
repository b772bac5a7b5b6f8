"""Embeddings in context, for Ordered Memory to read."""

from __future__ import annotations

from torch import Tensor, nn

from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.encoders.recurrence import Bidirectional


class Contextualiser(nn.Module):
    """A GRU of one layer that reads both ways, or forwards only, or nothing at all: words as they are."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.both = Bidirectional(config.width, config.width) if config.contextualiser == "bidirectional" else None
        self.ahead = (
            nn.GRU(config.width, config.width, batch_first=True) if config.contextualiser == "forward" else None
        )

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """x (B, S, H), lengths (B,) → (B, S, H)"""
        if self.both is not None:
            return self.both(x, lengths)[0]
        return x if self.ahead is None else self.ahead(x)[0]
