"""Dot-product attention, of the tree's vertices over the source."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torch_ctree.models import fused
from torch_ctree.models.configuration import Context
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding


class Memory(NamedTuple):
    """What can be attended to, with its keys already projected."""

    keys: Tensor  # (B, H, P)
    values: Tensor  # (B, P, H)
    mask: Tensor  # (B, 1, P), True at what is real
    layers: tuple[Tensor, ...] = ()  # (B, P, 2H) each: keys and values of a Transformer's layers


class Attention(nn.Module):
    """softmax(q · k / √h) · value, with q and k each through dropout, a linear map and layer normalisation.

    One module serves both the context of a vertex and lexical attention: they differ in what they look at.
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.query = nn.Sequential(Dropout(dropout), nn.Linear(width, width), nn.LayerNorm(width))
        self.key = nn.Sequential(Dropout(dropout), nn.Linear(width, width), nn.LayerNorm(width))
        self.dropout = dropout
        self.scale = 1 / math.sqrt(width)

    def memory(self, keys: Tensor, values: Tensor, mask: Tensor) -> Memory:
        """Project keys once, for all the queries that come: keys, values (B, P, H), mask (B, P)."""
        return Memory(self.key(keys).transpose(1, 2), values, mask[:, None])

    def over(self, encoding: Encoding, context: Context) -> Memory:
        """What contexts come from."""
        states, mask = seen(encoding, context)
        return self.memory(states, states, mask)

    def forward(self, states: Tensor, memory: Memory, dropout: Dropout | None = None) -> Tensor:
        """states (B, Q, H) → what each attends to, (B, Q, H), with dropout where that is given"""
        if self._fits(states, memory):
            return self._fused(states, memory, dropout, None)
        found = self.weights(states, memory) @ memory.values
        return found if dropout is None else dropout(found)

    def logits(self, states: Tensor, memory: Memory, dropout: Dropout, words: Tensor) -> Tensor:
        """words (K, H) times what ``forward`` finds, (B, Q, K)"""
        if self._fits(states, memory):
            from torch_ctree.models.fused import words as short  # noqa: PLC0415  (there may be no Triton)

            if short.fits(memory.values.shape[1], len(words)):
                return self._fused(states, memory, dropout, words)
        return nn.functional.linear(self(states, memory, dropout), words)

    def _fits(self, states: Tensor, memory: Memory) -> bool:
        """Whether there are kernels for it."""
        if not fused.usable(states):
            return False
        from torch_ctree.models.fused import attention  # noqa: PLC0415

        return attention.fits(memory.values.shape[1], states.shape[-1], fused.product_dtype(states))

    def _fused(self, states: Tensor, memory: Memory, dropout: Dropout | None, words: Tensor | None) -> Tensor:
        """The same in few kernels."""
        from torch_ctree.models.fused import attended, attention, chance  # noqa: PLC0415

        p_query, p_out = (self.dropout, 0.0 if dropout is None else dropout.p) if self.training else (0.0, 0.0)
        sources = attention.Sources(memory.keys.transpose(1, 2), memory.values, memory.mask[:, 0])
        seed, dtype = chance.new_seed(states.device), fused.product_dtype(states)
        with fused.at_home(states):
            return attended.attended(states, *self.projection, sources, seed, p_query, p_out, dtype, words)

    @property
    def projection(self) -> tuple[nn.Linear, nn.LayerNorm]:
        """What makes queries of states after dropout."""
        _, linear, norm = self.query
        assert isinstance(linear, nn.Linear)
        assert isinstance(norm, nn.LayerNorm)
        return linear, norm

    def weights(self, states: Tensor, memory: Memory) -> Tensor:
        """states (B, Q, H) → how much of each position, (B, Q, P); sums to one."""
        return self.scores(states, memory).softmax(-1)

    def scores(self, states: Tensor, memory: Memory) -> Tensor:
        """What the weights are the softmax of, (B, Q, P); −inf where nothing is real"""
        scores = torch.bmm(self.query(states) * self.scale, memory.keys)
        return scores.masked_fill(~memory.mask, -math.inf)


def seen(encoding: Encoding, context: Context) -> tuple[Tensor, Tensor]:
    """All nodes of the source, or its root alone, and then the context is the root: (B, P, H); what is real, (B, P)"""
    if context == "nodes":
        return encoding.nodes, encoding.nodes_mask
    root = encoding.root[:, None]
    return root, torch.ones_like(root[..., 0], dtype=torch.bool)
