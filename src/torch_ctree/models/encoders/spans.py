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

    One GRU begins anew at every word and reads forwards, another reads backwards; the phrase from word i to word j is
    what the first has after j, having begun at i, and the second after i, having begun at j.

    In training a share of the words, ``config.word_noise``, is unreadable: random vectors stand in their places. So
    what is made of a phrase cannot hang on each of its words, and a word never seen in such a phrase does little harm.
    """

    reads_phrases = True

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        width = config.width
        self.noise = config.word_noise
        self.embedding = nn.Embedding(vocabulary, width)
        self.forwards = nn.GRU(width, width, batch_first=True)
        self.backwards = nn.GRU(width, width, batch_first=True)
        self.phrase = nn.Sequential(Dropout(config.dropout), nn.Linear(2 * width, width), nn.LayerNorm(width))

    def forward(self, tokens: Tensor, lengths: Tensor) -> SpanEncoding:
        """tokens (B, S), lengths (B,) → Encoding with M = S: ``internal[:, j, i]`` is the phrase from word i to word j

        Where i is after j, it is word j alone.
        """
        words = self._disguised(self.embedding(tokens))
        ahead = _from_each(words, self.forwards)  # [first, last]
        back = _from_each(words.flip(1), self.backwards).flip(1, 2)  # [last, first]
        phrases = self.phrase(torch.cat([ahead.transpose(1, 2), back], -1))  # (B, last, first, H)
        alone = phrases.diagonal(dim1=1, dim2=2).transpose(1, 2)  # (B, S, H)
        ordered = torch.ones(2 * [tokens.shape[1]], dtype=torch.bool, device=tokens.device).tril()
        phrases = torch.where(ordered[..., None], phrases, alone[:, :, None])
        root = at_end(phrases[:, :, 0], lengths)
        return SpanEncoding(root, phrases, alone, alone, words, tokens, real(lengths, tokens.shape[1]))

    def _disguised(self, words: Tensor) -> Tensor:
        """(B, S, H), in training some of them random."""
        if not self.training or not self.noise:
            return words
        unreadable = torch.rand(words.shape[:2], device=words.device) < self.noise
        return torch.where(unreadable[..., None], torch.randn_like(words), words)


def _from_each(words: Tensor, gru: nn.GRU) -> Tensor:
    """(B, S, H) → (B, S, S, H): [i, j] is the state after word j of a reading from i on; where j < i, anything."""
    B, S, _ = words.shape
    ahead = torch.nn.functional.pad(words, (0, 0, 0, S - 1)).unfold(1, S, 1).transpose(2, 3)  # (B, S, S, H): [i, j − i]
    states, _ = gru(ahead.flatten(0, 1))
    # One more at the end of each row moves row i by i places to the right.
    padded = torch.nn.functional.pad(states.view(B, S, S, -1), (0, 0, 0, 1))
    return padded.flatten(1, 2)[:, : S * S].view(B, S, S, -1)
