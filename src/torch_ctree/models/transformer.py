"""Layers of a Transformer (Vaswani et al., 2017), which normalise before each part rather than after it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.errors import ModelError

WIDER = 4
"""So many times as wide is the inner layer."""
SLOWEST = 10_000
"""The longest wave of positions, divided by 2π."""


class Heads(nn.Module):
    """Attention with several heads, each over a part of the width."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ModelError(f"heads: got {heads}; expected a number that divides the width, {width}")
        self.heads, self.dropout = heads, dropout
        self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def keys_and_values(self, x: Tensor) -> Tensor:
        """What is attended to, (B, P, H) → (B, P, 2H): made once, for all queries that come"""
        return self.key_value(x)

    def forward(self, x: Tensor, kept: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, Q, H), kept (B, P, 2H), mask (B or 1, Q or 1, P), True at what may be attended to → (B, Q, H)"""
        parts = (self.query(x), *kept.chunk(2, -1))
        query, key, value = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)  # (B, heads, …)
        found = scaled_dot_product_attention(
            query, key, value, None if mask is None else mask[:, None], self.dropout if self.training else 0.0
        )
        return self.out(found.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """x + attention over what came before it, + attention over the source if there is one, + an inner network."""

    def __init__(self, config: ModelConfig, with_source: bool) -> None:
        super().__init__()
        width = config.width
        self.dropout = Dropout(config.dropout)
        self.norm, self.itself = nn.LayerNorm(width), Heads(width, config.heads, config.attention_dropout)
        self.source_norm = self.source = None
        if with_source:
            self.source_norm, self.source = nn.LayerNorm(width), Heads(width, config.heads, config.attention_dropout)
        self.inner = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, WIDER * width),
            nn.ReLU(),
            Dropout(config.dropout),
            nn.Linear(WIDER * width, width),
        )

    def forward(
        self, x: Tensor, before: Tensor, mask: Tensor | None, source: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """One layer further, and the keys and values of ``before`` and x, (B, P + Q, 2H).

        x: (B, Q, H)
        before: keys and values of the places before x, (B, P, 2H)
        mask: what each of x may attend to of itself and what is before it, (B or 1, Q or 1, P + Q)
        source: its keys and values for this layer, and its mask (B, 1, S)
        """
        normed = self.norm(x)
        kept = torch.cat([before, self.itself.keys_and_values(normed)], 1)
        x = x + self.dropout(self.itself(normed, kept, mask))
        if self.source is not None and self.source_norm is not None and source is not None:
            x = x + self.dropout(self.source(self.source_norm(x), *source))
        return x + self.dropout(self.inner(x)), kept


def seeing_all(
    layers: Iterable[nn.Module], x: Tensor, mask: Tensor, source: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Through layers in which every place sees every other, x (B, Q, H) with mask (B, Q) → (B, Q, H)

    source: the states that the layers attend to besides, (B, P, H), and their mask (B, P)
    """
    nothing = x.new_empty(len(x), 0, 2 * x.shape[-1])
    for layer in layers:
        known = None
        if source is not None:
            known = cast(Heads, layer.source).keys_and_values(source[0]), source[1][:, None]
        x, _ = layer(x, nothing, mask[:, None], known)
    return x


def positions(first: int, count: int, like: Tensor) -> Tensor:
    """Waves of many lengths, from 2π to SLOWEST · 2π, at places first, first + 1, …: (count, H)

    like: embeddings that they are added to, (…, H)
    """
    half = like.shape[-1] // 2
    place = torch.arange(first, first + count, dtype=like.dtype, device=like.device)[:, None]
    rate = torch.exp(torch.arange(half, dtype=like.dtype, device=like.device) * (-math.log(SLOWEST) / max(half - 1, 1)))
    return torch.cat([torch.sin(place * rate), torch.cos(place * rate)], -1)
