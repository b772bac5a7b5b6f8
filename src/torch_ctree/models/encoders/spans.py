"""Every phrase of the source, each read by itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders.encoding import Encoding, SourceEncoder
from torch_ctree.models.encoders.recurrence import at_end, real


class SpanEncoding(Encoding):
    """Phrases as nodes: what begins after its last word is none, and is not attended to."""

    @property
    def nodes_mask(self) -> Tensor:
        """(B, S · S): True at phrases of the source."""
        S = self.mask.shape[1]
        ordered = torch.ones(S, S, dtype=torch.bool, device=self.mask.device).tril()  # [last, first]
        return (self.mask[:, :, None] & ordered).flatten(1)


class Spans(SourceEncoder):
    """The S(S + 1)/2 phrases of a source: what stands around a phrase does not change what it is.

    A phrase is the sum of what each of its words adds, and the first and the last one once more: what a word adds is
    the same whatever the others are, so that words never seen together can be read together. A word alone is what all
    have in common that are alone, and a vector of its own: nothing that is learned of it changes it among others.

    In training a share of the words, ``config.word_noise``, is not heard. So what is made of a phrase cannot hang on
    each of its words. Every word begins as one that is not heard: so one that has never been seen in a phrase is none.
    """

    reads_phrases = True

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        width = config.width
        self.noise = config.word_noise
        self.embedding = nn.Embedding(vocabulary, width)
        self.word, self.first, self.last = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.alone = nn.Parameter(torch.randn(width))
        self.single = nn.Embedding(vocabulary, width)
        for table in (self.embedding, self.single):
            nn.init.zeros_(table.weight)
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> SpanEncoding:
        """tokens (B, S), lengths (B,) → Encoding with M = S: ``internal[:, j, i]`` is the phrase from word i to word j

        Where i is after j, it is word j alone.
        """
        words = self.embedding(tokens)
        is_heard = self._is_heard(tokens)
        heard, single = (self.dropout(x * is_heard) for x in (words, self.single(tokens)))
        before = nn.functional.pad(self.word(heard).cumsum(1), (0, 0, 1, 0))
        first, last = self.first(heard), self.last(heard)
        alone = self.alone + single  # (B, S, H)
        phrases = (before[:, 1:] + last)[:, :, None] + (first - before[:, :-1])[:, None]  # (B, last, first, H)
        several = torch.ones(2 * [tokens.shape[1]], dtype=torch.bool, device=tokens.device).tril(-1)
        phrases = torch.where(several[..., None], phrases, alone[:, :, None])
        root = at_end(phrases[:, :, 0], lengths)
        return SpanEncoding(root, phrases, alone, alone, words, tokens, real(lengths, tokens.shape[1]))

    def _is_heard(self, tokens: Tensor) -> Tensor | int:
        """(B, S, 1): 1 where a word is, in training 0 at some of them"""
        if not self.training or not self.noise:
            return 1
        return (torch.rand(tokens.shape, device=tokens.device) >= self.noise)[..., None]
