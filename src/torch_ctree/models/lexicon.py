"""From words of the source to words of the target, whatever stands around them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from torch_ctree.models.activation import Activation

SHARPNESS = 4.0
"""How far apart logits can be at first."""
SMALL = 0.02
"""Of target words at first: normalised anyway, and the smaller a vector is, the faster it turns."""


class Lexicon(nn.Module):
    """Each source word has a distribution over target words, and a weight: how much it has to say.

    words: of the target
    source_words: of the source
    """

    def __init__(self, width: int, words: int, source_words: int) -> None:
        super().__init__()
        self.source = nn.Embedding(source_words, width)
        self.source_activation = Activation(width)
        self.words = nn.Parameter(torch.randn(words, width) * SMALL)
        self.words_activation = Activation(width)
        self.weight = nn.Linear(width, 1)
        self.scale = SHARPNESS / math.sqrt(width)

    def forward(self, tokens: Tensor, covered: Tensor) -> Tensor:
        """tokens (B, S), covered (B, P, S): the words of each phrase, one at least → log-probabilities (B, P, K)

        A phrase says what its words would say, each as often as its weight.
        """
        source = self.source_activation(self.source(tokens))  # (B, S, H)
        logits = source @ self.words_activation(self.words).T * self.scale  # (B, S, K)
        weights = self.weight(source).mT.expand(covered.shape).masked_fill(~covered, -math.inf).softmax(-1)  # (B, P, S)
        tiny = torch.finfo(logits.dtype).tiny
        return torch.log((weights @ logits.softmax(-1)).clamp_min(tiny))
