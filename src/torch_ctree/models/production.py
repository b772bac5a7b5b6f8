"""The production function f: from a vertex to its two children."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_ctree.models.activation import Activation, gated


class Production(nn.Module):
    """A gated two-layer network (§4.1).

    With a = relu(W₁ [h; c] + b₁), each child has a candidate tanh(layernorm(W₂ a + b₂)) and a gate
    g = sigmoid(W₃ a + b₃), and its state is g ⊙ candidate + (1 − g) ⊙ h.

    activation: tanh(layernorm(·)), shared with the root
    """

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.first = nn.Linear(2 * width, 2 * width)
        self.second = nn.Linear(2 * width, 4 * width)  # W₃ and W₂ in one: two gates, two candidates
        self.activation = activation
        for layer in (self.first, self.second):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, states: Tensor, contexts: Tensor) -> Tensor:
        """states, contexts (…, H) → left and right children, (…, 2, H)"""
        hidden = torch.relu(self.first(torch.cat([states, contexts], -1)))
        gates, candidates = self.second(hidden).unflatten(-1, (2, 2, -1)).unbind(-3)  # (…, 2, H) each
        return gated(states[..., None, :], self.activation(candidates), torch.sigmoid(gates))
