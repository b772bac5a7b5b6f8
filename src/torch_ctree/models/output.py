"""From the state of a vertex to its word: an MLP, a linear layer, or lexical attention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torch_ctree.models import fused
from torch_ctree.models.activation import Activation
from torch_ctree.models.attention import Attention, Memory
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding


class Scores(NamedTuple):
    """Word logits as a linear layer, features · weightᵀ + bias: those of a large vocabulary need not be written out."""

    features: Tensor  # (B, Q, H)
    weight: Tensor  # (K, H)
    bias: Tensor | None  # (K,)


class Output(nn.Module, ABC):
    """Scores words."""

    needs_contexts: bool
    """Whether it looks at the contexts of vertices; where it does not, they need not be computed."""
    vocabulary: int
    """How many words there are."""

    @abstractmethod
    def forward(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Scores:
        """states and their contexts (B, Q, H) → Scores of K words"""

    def logits(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Tensor:
        """The same, written out: (B, Q, K)"""
        return nn.functional.linear(*self(states, contexts, encoding))

    def found(self, states: Tensor, encoding: Encoding) -> Tensor | None:
        """How much each source word has to do with the word, (B, Q, S), where it is looked for in the source."""
        return None


class MLP(Output):
    """Two layers over [h; c]."""

    needs_contexts = True

    def __init__(self, config: ModelConfig, words: int) -> None:
        super().__init__()
        self.vocabulary, width = words, config.width
        self.hidden = nn.Sequential(
            Dropout(config.dropout), nn.Linear(2 * width, width), Activation(width), Dropout(config.dropout)
        )
        self.words = nn.Linear(width, words)

    def forward(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Scores:
        """states and contexts (B, Q, H) → Scores"""
        assert contexts is not None
        return Scores(self.hidden(torch.cat([states, contexts], -1)), self.words.weight, self.words.bias)


class Linear(Output):
    """One layer over h, without a bias, that starts at zero."""

    needs_contexts = False

    def __init__(self, config: ModelConfig, words: int) -> None:
        super().__init__()
        self.vocabulary = words
        self.dropout = Dropout(config.dropout)
        self.words = nn.Parameter(torch.zeros(words, config.width))

    def forward(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Scores:
        """states (B, Q, H) → Scores"""
        return Scores(self.dropout(states), self.words, None)


class LexicalAttention(Output):
    """A state attends to the source; what it gets are embeddings of words without their context (§5.1).

    So ``jump`` in the source can always become ``JUMP``, whatever stands around it. The embeddings are a table of their
    own; they and those of the target words go through tanh(layernorm(·)), without weights of its own.

    attention: shared with the contexts of vertices
    """

    needs_contexts = False

    def __init__(self, config: ModelConfig, words: int, source_words: int, attention: Attention) -> None:
        super().__init__()
        self.vocabulary = words
        self.attention = attention
        self.source = nn.Embedding(source_words, config.width)
        self.activation = Activation(config.width, weights=False)
        self.words = nn.Parameter(torch.zeros(words, config.width))
        self.dropout = Dropout(config.dropout)

    def forward(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Scores:
        """states (B, Q, H) → Scores"""
        found = self.attention(states, self._memory(encoding), self.dropout)
        return Scores(found, self.activation(self.words), None)

    def logits(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Tensor:
        """states (B, Q, H) → (B, Q, K)"""
        words = self.activation(self.words)
        return self.attention.logits(states, self._memory(encoding), self.dropout, words)

    def found(self, states: Tensor, encoding: Encoding) -> Tensor:
        """What it attends to, (B, Q, S)"""
        return self.attention.weights(states, self._memory(encoding))

    def _memory(self, encoding: Encoding) -> Memory:
        """What is attended to."""
        with fused.small(encoding.leaves):
            values = self.activation(self.source(encoding.tokens))
            return self.attention.memory(encoding.leaves, values, encoding.mask)


def output_layer(config: ModelConfig, words: int, source_words: int, attention: Attention) -> Output:
    """The one that ``config.output`` names."""
    if config.output == "lexical-attention":
        return LexicalAttention(config, words, source_words, attention)
    return MLP(config, words) if config.output == "mlp" else Linear(config, words)
