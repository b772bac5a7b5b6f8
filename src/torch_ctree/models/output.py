"""From the state of a vertex to its word: an MLP, a linear layer, lexical attention, or an MLP that can copy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from torch_ctree.data import Encoder
from torch_ctree.data.encoding import same_words
from torch_ctree.models import fused
from torch_ctree.models.activation import Activation
from torch_ctree.models.attention import Attention, Memory
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding
from torch_ctree.trees import CopyEmission, Emission, LinearEmission, TokenLogits
from torch_ctree.trees.copying import NOTHING, with_copies
from torch_ctree.trees.emission import BLOCK_ELEMENTS
from torch_ctree.trees.kernels.torch import in_accumulation_dtype


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

    def emission(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Emission:
        """The words of the vertices of complete trees: logits as a tensor where they are few, else in blocks."""
        if states.shape[:2].numel() * self.vocabulary <= BLOCK_ELEMENTS:
            return TokenLogits(self.logits(states, contexts, encoding))
        return self.in_blocks(states, contexts, encoding)

    def in_blocks(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Emission:
        """The same, where the logits are never all there."""
        return LinearEmission(*self(states, contexts, encoding))

    def introduce(self, source: Encoder, target: Encoder) -> None:
        """How words are spelled, which most need not know."""

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


class Copy(MLP):
    """An MLP that can repeat words of the source: which ones, lexical attention says, and whether, a gate.

    p(x) = (1 − c) · MLP(x) + c · attention to x in the source, over words that the target's vocabulary has too; c is a
    logistic function of the MLP's hidden layer, and starts as 1/2. So words can be said that no target ever had.

    attention: shared with the contexts of vertices
    """

    copies: Tensor
    """(source words,): of each source word the same target word, −1 where there is none; see ``introduce``."""

    def __init__(self, config: ModelConfig, words: int, source_words: int, attention: Attention) -> None:
        super().__init__(config, words)
        self.attention = attention
        self.gate = nn.Linear(config.width, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)
        self.register_buffer("copies", torch.full((source_words,), NOTHING), persistent=False)

    def introduce(self, source: Encoder, target: Encoder) -> None:
        """Find out which words are the same."""
        self.copies.copy_(torch.tensor(same_words(source, target)))

    def logits(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Tensor:
        """states and contexts (B, Q, H) → log-probabilities of the mixture, (B, Q, K)"""
        generated = self(states, contexts, encoding)
        own = in_accumulation_dtype(nn.functional.linear(*generated)).log_softmax(-1)
        return with_copies(own.mT, *self._copied(generated, states, encoding)).mT

    def in_blocks(self, states: Tensor, contexts: Tensor | None, encoding: Encoding) -> Emission:
        """states and contexts (B, V, H), V vertices"""
        generated = self(states, contexts, encoding)
        return CopyEmission(LinearEmission(*generated), *self._copied(generated, states, encoding))

    def found(self, states: Tensor, encoding: Encoding) -> Tensor | None:
        """Where it looks for what it repeats, if it does: (B, Q, S)"""
        can = self._known(encoding)[:, None] >= 0
        scores = self.attention.scores(states, self._memory(encoding)).masked_fill(~can, -math.inf)
        return scores.softmax(-1).masked_fill(~can, 0) if bool(can.any()) else None

    def _copied(self, generated: Scores, states: Tensor, encoding: Encoding) -> tuple[Tensor, Tensor, Tensor]:
        """The gate's logits (B, Q), scores of the source's words (B, Q, S), and these as target words (B, S)."""
        scores = self.attention.scores(states, self._memory(encoding))
        return self.gate(generated.features)[..., 0], scores, self._known(encoding)

    def _known(self, encoding: Encoding) -> Tensor:
        """(B, S): each word of the source as one of the target; −1 where there is none, and past its end"""
        return self.copies[encoding.tokens].masked_fill(~encoding.mask, NOTHING)

    def _memory(self, encoding: Encoding) -> Memory:
        """What is attended to, as by lexical attention."""
        with fused.small(encoding.leaves):
            return self.attention.memory(encoding.leaves, encoding.leaves, encoding.mask)


def output_layer(config: ModelConfig, words: int, source_words: int, attention: Attention) -> Output:
    """The one that ``config.output`` names."""
    if config.output == "lexical-attention":
        return LexicalAttention(config, words, source_words, attention)
    if config.output == "copy":
        return Copy(config, words, source_words, attention)
    return MLP(config, words) if config.output == "mlp" else Linear(config, words)
