"""From words of the source to words of the target, whatever stands around them."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from torch_ctree.models.activation import Activation

SHARPNESS = 4.0
"""How far apart logits can be at first."""
SMALL = 0.02
"""Of vectors at first: normalised anyway, and the smaller a vector is, the faster it turns."""


class Lexicon(nn.Module):
    """What each source word says: a target word is divided among all source words, which thus compete for it.

    So a word that only ever stands beside those that have target words for their own learns to say nothing. At first
    all source words are alike: a target word that is someone's by chance would never come to whom it belongs.

    words: of the target
    source_words: of the source
    """

    def __init__(self, width: int, words: int, source_words: int) -> None:
        super().__init__()
        self.source = nn.Parameter(SMALL * torch.randn(width).repeat(source_words, 1))
        self.source_activation = Activation(width)
        self.words = nn.Parameter(SMALL * torch.randn(words, width))
        self.words_activation = Activation(width)
        self.scale = SHARPNESS / math.sqrt(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, S) → (B, S, K): how much each says of what; in all 1 at most, and less where it says little"""
        source = self.source_activation(self.source)  # (V, H)
        owned = (source @ self.words_activation(self.words).T * self.scale).softmax(0)  # (V, K)
        return (owned / owned.sum(-1, keepdim=True).clamp_min(1))[tokens]
