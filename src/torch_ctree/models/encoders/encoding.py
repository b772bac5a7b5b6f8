"""What every encoder gives to every decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

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
