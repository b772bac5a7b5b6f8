"""Dot-product attention, of the tree's vertices over the source."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torch_ctree.models.configuration import Context
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding


class Memory(NamedTuple):
    """What can be attended to, with its keys already projected."""

    keys: Tensor  # (B, H, P)
    values: Tensor  # (B, P, H)
    mask: Tensor  # (B, 1, P), True at what is real


class Attention(nn.Module):
    """softmax(q · k / √h) · value, with q and k each through dropout, a linear map and layer normalisation.

    One module serves both the context of a vertex and lexical attention: they differ in what they look at.
    """

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.query = nn.Sequential(Dropout(dropout), nn.Linear(width, width), nn.LayerNorm(width))
        self.key = nn.Sequential(Dropout(dropout), nn.Linear(width, width), nn.LayerNorm(width))
        self.scale = 1 / math.sqrt(width)

    def memory(self, keys: Tensor, values: Tensor, mask: Tensor) -> Memory:
        """Project keys once, for all the queries that come: keys, values (B, P, H), mask (B, P)."""
        return Memory(self.key(keys).transpose(1, 2), values, mask[:, None])

    def over(self, encoding: Encoding, context: Context) -> Memory:
        """What contexts come from: all nodes of the source; or its root alone, and then the context is the root."""
        if context == "nodes":
            return self.memory(encoding.nodes, encoding.nodes, encoding.nodes_mask)
        root = encoding.root[:, None]
        return self.memory(root, root, torch.ones_like(root[..., 0], dtype=torch.bool))

    def forward(self, states: Tensor, memory: Memory) -> Tensor:
        """states (B, Q, H) → what each attends to, (B, Q, H)"""
        return self.weights(states, memory) @ memory.values

    def weights(self, states: Tensor, memory: Memory) -> Tensor:
        """states (B, Q, H) → how much of each position, (B, Q, P); sums to one."""
        scores = torch.bmm(self.query(states) * self.scale, memory.keys)
        return scores.masked_fill(~memory.mask, -math.inf).softmax(-1)
