"""From text to token ids."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from torch_ctree.data.disk import read_json
from torch_ctree.data.errors import DataError
from torch_ctree.data.pairs import Integers, Pairs
from torch_ctree.data.subwords import Subwords
from torch_ctree.data.vocabulary import KIND, Vocabulary


class Encoder(Protocol):
    """What turns text into token ids and back: a ``Vocabulary`` of words, or ``Subwords``."""

    def encode(self, text: str) -> list[int]:
        """Text → token ids."""
        ...

    def decode(self, tokens: Iterable[int]) -> str:
        """Token ids → text."""
        ...

    def __len__(self) -> int:
        """How many tokens there are."""
        ...

    def __getitem__(self, index: int, /) -> str:
        """How a token is spelled."""
        ...

    def save(self, path: str | Path) -> None:
        """Write one file, which ``load_encoder`` reads."""
        ...


def load_encoder(path: str | Path) -> Vocabulary | Subwords:
    """A vocabulary or subwords, whichever the file holds."""
    content = read_json(Path(path))
    words = isinstance(content, dict) and content.get("kind") == KIND
    return Vocabulary.load(path) if words else Subwords.load(path)


def same_words(source: Encoder, target: Encoder) -> list[int]:
    """Of each source token the target token that is spelled the same; −1 where there is none.

    Both have words, or both have pieces of words: else none is the same. Nor is a word that stands for others, nor any
    of an ``Encoder`` of your own, unless it says how they are spelled: in ``spellings``, as ``Vocabulary`` does.
    """
    mine, theirs = (getattr(side, "spellings", [None] * len(side)) for side in (source, target))
    numbers = {spelling: number for number, spelling in enumerate(theirs) if spelling is not None}
    return [numbers.get(spelling, -1) for spelling in mine]


@dataclass(frozen=True, eq=False)
class Side:
    """The token ids of one side of all pairs, end to end: four bytes a token, eight a sentence."""

    tokens: NDArray[np.int32]
    ends: Integers
    """(pairs,): where each sentence ends in tokens; it starts where the one before ends."""

    @classmethod
    def encode(cls, texts: Iterable[str], encoder: Encoder, name: str) -> Side:
        """Encode texts.

        name: what the side is called where a text cannot be encoded
        """
        tokens, ends = array("i"), array("q")
        for n, text in enumerate(texts, 1):
            try:
                tokens.extend(encoder.encode(text))
            except DataError as error:
                raise DataError(f"{name} {n}: {error}") from error
            ends.append(len(tokens))
        return cls(np.asarray(tokens, np.int32), np.asarray(ends, np.int64))  # no copy: arrays share their memory

    @classmethod
    def of(cls, rows: Iterable[Sequence[int]]) -> Side:
        """Sentences that are token ids already."""
        found = list(rows)
        tokens = np.fromiter((token for row in found for token in row), np.int32)
        return cls(tokens, np.cumsum([len(row) for row in found], dtype=np.int64))

    def rows(self) -> list[tuple[int, ...]]:
        """Every sentence, as plain numbers."""
        tokens, ends = self.tokens.tolist(), self.ends.tolist()
        return [tuple(tokens[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    @property
    def lengths(self) -> Integers:
        """(pairs,): tokens of each sentence."""
        return np.diff(self.ends, prepend=0)

    def take(self, rows: Integers) -> Side:
        """Those sentences, in this order."""
        lengths = self.lengths[rows]
        ends = np.cumsum(lengths)
        shift = self.ends[rows] - ends  # of each sentence: from where its tokens go to where they are
        return Side(self.tokens[np.arange(ends[-1] if len(ends) else 0) + np.repeat(shift, lengths)], ends)

    def padded(self, rows: Integers, width: int | None) -> tuple[Tensor, Tensor]:
        """The sentences of these rows, filled up with 0 → tokens (rows, width) and lengths (rows,).

        width: by default that of the longest
        """
        ends = self.ends[rows]
        starts = np.where(rows == 0, 0, self.ends[rows - 1])
        lengths = ends - starts
        columns = np.arange(int(lengths.max()) if width is None else width)
        inside = columns < lengths[:, None]
        padded = np.zeros(inside.shape, np.int64)
        padded[inside] = self.tokens[(starts[:, None] + columns)[inside]]
        return torch.from_numpy(padded), torch.from_numpy(lengths)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Pairs as token ids."""

    source: Side
    target: Side

    @classmethod
    def of(cls, pairs: Pairs, source: Encoder, target: Encoder) -> Encoded:
        """Encode both sides of the pairs, each with its encoder."""
        return cls(
            Side.encode(pairs.sources(), source, "source"),
            Side.encode(pairs.targets(), target, "target"),
        )

    @classmethod
    def untold(cls, source: Side) -> Encoded:
        """Sources whose targets nobody knows: each has one token, which means nothing."""
        return cls(source, Side.of((0,) for _ in source.ends))

    def take(self, rows: Integers) -> Encoded:
        """Those pairs, in this order."""
        return Encoded(self.source.take(rows), self.target.take(rows))

    def __len__(self) -> int:
        """How many pairs."""
        return len(self.source.ends)

    @property
    def longest(self) -> tuple[int, int]:
        """Tokens of the longest source and of the longest target."""
        return int(self.source.lengths.max(initial=0)), int(self.target.lengths.max(initial=0))
