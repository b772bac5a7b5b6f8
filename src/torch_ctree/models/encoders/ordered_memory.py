"""Ordered Memory (Shen et al., 2019): a stack that is differentiable, and reads a sentence as a tree, bottom up."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from torch_ctree.models import fused
from torch_ctree.models.activation import Activation, gated
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders.contextualiser import Contextualiser
from torch_ctree.models.encoders.encoding import Encoding, SourceEncoder
from torch_ctree.models.encoders.recurrence import at_end, real


class Cell(nn.Module):
    """Joins a node with what the memory has: g₁ ⊙ node + g₂ ⊙ memory + g₃ ⊙ tanh(layernorm(new)).

    The gates are a softmax per unit; gates and candidate come from a two-layer network over [node; memory]. Its first
    layer is kept in two halves: the memory of all slots is known before the nodes, which follow from one another.
    """

    def __init__(self, width: int, dropout: float, activation: Activation) -> None:
        super().__init__()
        whole = nn.Linear(2 * width, 4 * width)  # made as one, so that it starts as one would
        self.from_node, self.from_memory = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width, bias=False)
        with torch.no_grad():
            self.from_node.weight.copy_(whole.weight[:, :width])
            self.from_memory.weight.copy_(whole.weight[:, width:])
            self.from_node.bias.copy_(whole.bias)
        self.out = nn.Linear(4 * width, 4 * width)
        self.dropout = Dropout(dropout)
        self.activation = activation

    def prepared(self, memory: Tensor) -> Tensor:
        """(…, H) → (…, 4H): what ``forward`` needs of the memory, for all slots at once."""
        return self.from_memory(self.dropout(memory))

    def forward(self, node: Tensor, memory: Tensor, prepared: Tensor) -> Tensor:
        """node, memory (B, H), prepared (B, 4H) → (B, H)"""
        hidden = torch.relu(self.from_node(self.dropout(node)) + prepared)
        gates, new = self.out(self.dropout(hidden)).unflatten(-1, (4, -1)).split([3, 1], -2)  # (B, 3, H), (B, 1, H)
        parts = torch.stack([node, memory, self.activation(new[..., 0, :])], -2)  # (B, 3, H)
        return (gates.softmax(-2) * parts).sum(-2)


class OrderedMemory(SourceEncoder):
    """M slots, the last one the root. Each new word finds its place by attention and is joined with what is above.

    At token t, with M the memory and M̂ the candidates of the token before:

        p_t          = attention of x_t over M̂, on slot i as far as slot i + 1 was reached before, on the last always
        →p, ←p       = its cumulative sums from the first slot and from the last
        M_i          = M_i (1 − ←p_i) + M̂_i ←p_i
        M̂_i          = x_t (1 − →p_i) + cell(M̂_{i−1}, M_i) →p_i,   M̂_0 = x_t
    """

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        width, dropout = config.width, config.dropout
        self.slots = config.slots
        self.embedding = nn.Embedding(vocabulary, width)
        self.contextualiser = Contextualiser(config)
        self.activation = Activation(width)
        self.input = nn.Linear(width, width)
        self.query = nn.Sequential(Dropout(dropout), nn.Linear(width, width), nn.LayerNorm(width))
        self.key = nn.Sequential(Dropout(dropout), nn.Linear(width, width), nn.LayerNorm(width))
        self.score = nn.Sequential(nn.ReLU(), Dropout(dropout), nn.Linear(width, 1))
        self.cell = Cell(width, dropout, self.activation)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Encoding:
        """tokens (B, S), lengths (B,) → Encoding with M = slots"""
        embeddings = self.embedding(tokens)
        contextual = self.contextualiser(embeddings, lengths)
        leaves = self.activation(self.input(contextual))
        internal = self.candidates(leaves)
        root = at_end(internal[:, :, -1], lengths)
        return Encoding(root, internal, leaves, contextual, embeddings, tokens, real(lengths, tokens.shape[1]))

    def candidates(self, x: Tensor) -> Tensor:
        """x (B, S, H) → M̂ of every token, (B, S, M, H)"""
        if fused.usable(x):
            from torch_ctree.models.fused import ordered_memory  # noqa: PLC0415  (there may be no Triton)

            if ordered_memory.fits(x.shape[-1]):
                return self._fused(x)
        memory = x.new_zeros(len(x), self.slots, x.shape[-1])
        # The first word fills every slot: there is nothing yet to put it together with.
        candidates = x[:, :1].expand(-1, self.slots, -1)
        attention = x.new_zeros(len(x), self.slots)
        found = [candidates]
        queries = self.query(x)
        for t in range(1, x.shape[1]):
            attention = self.attention(queries[:, t], candidates, attention)
            from_last = attention.flip(1).cumsum(1).flip(1)[..., None]
            memory = gated(memory, candidates, from_last)
            candidates = self.reduce(x[:, t], memory, attention.cumsum(1)[..., None])
            found.append(candidates)
        return torch.stack(found, 1)

    def _fused(self, x: Tensor) -> Tensor:
        """What ``candidates`` gives, in few kernels."""
        from torch_ctree.models.fused import chance, ordered_memory  # noqa: PLC0415

        cell, norm = self.cell, self.activation.norm
        p = cell.dropout.p if self.training else 0.0
        seed = chance.new_seed(x.device) if p else torch.empty(1, dtype=torch.int64, device=x.device)
        layers = [self.key[1], self.key[2], self.score[2], cell.from_node, cell.from_memory, cell.out, norm]
        both = ((layer.weight, layer.bias) for layer in layers)
        weights = ordered_memory.Weights(*(tensor for pair in both for tensor in pair if tensor is not None))
        queries = self.query(x)
        with fused.at_home(x):
            return ordered_memory.candidates(x, queries.float(), weights, self.slots, p, norm.eps, seed)

    def attention(self, query: Tensor, candidates: Tensor, before: Tensor) -> Tensor:
        """p_t over the slots: query (B, H), candidates (B, M, H), before: p_{t−1} (B, M) → (B, M), sums to one."""
        scores = self.score(query[:, None] + self.key(candidates))[..., 0] / math.sqrt(query.shape[-1])
        open_ = torch.nn.functional.pad(before.cumsum(1)[:, 1:], (0, 1), value=1.0)  # the last slot always is
        weights = torch.exp(scores - scores.amax(-1, keepdim=True)) * open_
        return weights / weights.sum(-1, keepdim=True)

    def reduce(self, x: Tensor, memory: Tensor, share: Tensor) -> Tensor:
        """M̂_t, slot after slot: x (B, H), memory (B, M, H), share →p (B, M, 1) → (B, M, H)"""
        prepared = self.cell.prepared(memory)
        node, found = x, []
        for i in range(self.slots):
            node = gated(x, self.cell(node, memory[:, i], prepared[:, i]), share[:, i])
            found.append(node)
        return torch.stack(found, 1)
