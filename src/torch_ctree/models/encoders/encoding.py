"""What every encoder gives to every decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Encoding:
    """A batch of sources, as the decoder sees them: the five representations of the paper's appendix.

    What stands past a source's length is finite but means nothing; ``mask`` tells.
    """

    root: Tensor
    """(B, H): the whole source; the paper's ρ."""
    internal: Tensor
    """(B, S, M, H): the inner nodes and the leaves; at each token M memory slots; ι."""
    leaves: Tensor
    """(B, S, H): what the memory read; ℓ."""
    contextual: Tensor
    """(B, S, H): embeddings in context; ce."""
    embeddings: Tensor
    """(B, S, H): embeddings, each of its word alone; e."""
    tokens: Tensor
    """(B, S): the source itself."""
    mask: Tensor
    """(B, S): True at tokens of the source."""

    @property
    def nodes(self) -> Tensor:
        """(B, S · M, H): ``internal`` as one list, to attend to."""
        return self.internal.flatten(1, 2)

    @property
    def nodes_mask(self) -> Tensor:
        """(B, S · M): True at nodes of tokens of the source."""
        return self.mask.repeat_interleave(self.internal.shape[2], dim=1)


def embedding(vocabulary: int, width: int, mark: bool) -> nn.Embedding:
    """Of source words; with a mark, one row more: it says nothing, and learns nothing."""
    return nn.Embedding(vocabulary + mark, width, padding_idx=vocabulary if mark else None)


def marked(tokens: Tensor, lengths: Tensor, mark: int) -> tuple[Tensor, Tensor]:
    """tokens (B, S), lengths (B,) → (B, S + 1), (B,): with the mark after each source's last word"""
    after = torch.arange(tokens.shape[1] + 1, device=tokens.device) == lengths[:, None]
    return nn.functional.pad(tokens, (0, 1)).masked_fill(after, mark), lengths + 1


class SourceEncoder(nn.Module, ABC):
    """Reads sources. An encoder of your own is a subclass with an entry in ``ENCODERS``.

    It is made with ``(config, vocabulary)``: a ``ModelConfig`` and the number of words, and all its states have
    ``config.width``.
    """

    reads_phrases: ClassVar[bool] = False
    """Whether ``internal[:, j, i]`` is the phrase from word i to word j, read by itself, as some decoders need it."""

    @abstractmethod
    def forward(self, tokens: Tensor, lengths: Tensor) -> Encoding:
        """tokens (B, S), lengths (B,) → Encoding. What pads a source must not change what it gives."""
