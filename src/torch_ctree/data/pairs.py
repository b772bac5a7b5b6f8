"""Pairs of sentences as text."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from torch_ctree.data.errors import DataError, shown

Integers = NDArray[np.int64]


class Example(NamedTuple):
    """A source sentence and its target, as text."""

    source: str
    target: str


class Pairs(Sequence[Example]):
    """Many examples in little memory: two blocks of UTF-8 text, and 32 bytes a pair that say where it is.

    Reads as a sequence of ``Example``; slices and ``take`` share the text.

    >>> pairs = Pairs.of([("jump twice", "JUMP JUMP"), ("walk", "WALK")])
    >>> len(pairs), pairs[1]
    (2, Example(source='walk', target='WALK'))
    """

    def __init__(self, source_text: bytes, target_text: bytes, bounds: Integers) -> None:
        """bounds: (n, 4), for each pair where its source starts and ends in source_text, its target in target_text."""
        self._source_text = source_text
        self._target_text = target_text
        self._bounds = bounds

    @classmethod
    def of(cls, examples: Iterable[tuple[str, str]]) -> Pairs:
        """Pairs from (source, target) strings."""
        sources, targets, bounds = BytesIO(), BytesIO(), array("q")
        for source, target in examples:
            for text, file in ((source, sources), (target, targets)):
                bounds.append(file.tell())
                file.write(_utf8(text))
                bounds.append(file.tell())
        return cls(sources.getvalue(), targets.getvalue(), np.asarray(bounds, np.int64).reshape(-1, 4))

    def __len__(self) -> int:
        """How many pairs."""
        return len(self._bounds)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> Pairs: ...
    def __getitem__(self, index: int | slice) -> Example | Pairs:
        """One example, or the pairs of a slice."""
        if isinstance(index, slice):
            return Pairs(self._source_text, self._target_text, self._bounds[index])
        return self._example(*self._bounds[operator.index(index)].tolist())

    def __iter__(self) -> Iterator[Example]:
        """Every example in turn."""
        return (self._example(*row) for row in self._rows(0, 4))

    def sources(self) -> Iterator[str]:
        """Every source in turn."""
        return (self._source_text[a:b].decode() for a, b in self._rows(0, 2))

    def targets(self) -> Iterator[str]:
        """Every target in turn."""
        return (self._target_text[a:b].decode() for a, b in self._rows(2, 4))

    def fingerprints(self) -> Integers:
        """(n,): a number for each pair, the same for the same words on both sides.

        Different ones have different numbers, but for a chance of one in 2^64; they hold within this process only.
        """
        return np.fromiter((hash((_spaced(s), _spaced(t))) for s, t in self), np.int64, len(self))

    def source_fingerprints(self) -> Integers:
        """(n,): the same for each source alone."""
        return np.fromiter((hash(_spaced(source)) for source in self.sources()), np.int64, len(self))

    def _rows(self, first: int, last: int) -> Iterator[list[int]]:
        """These columns of the bounds, a few rows at a time as Python numbers."""
        for start in range(0, len(self), 4096):
            yield from self._bounds[start : start + 4096, first:last].tolist()

    def __repr__(self) -> str:
        """The number of pairs and the first one."""
        return f"<{len(self):,} pairs{f': {self[0]}, …' if len(self) else ''}>"

    def take(self, rows: Integers | Sequence[int]) -> Pairs:
        """The pairs at these row numbers, in this order; a row may come more than once."""
        chosen = np.asarray(rows)
        if chosen.size and chosen.dtype.kind not in "iu":
            raise TypeError(f"rows: got {chosen.dtype}; expected row numbers (np.flatnonzero turns a mask into them)")
        chosen = chosen.astype(np.int64)
        strange = (chosen < 0) | (chosen >= len(self))  # a −1 that fills up a batch is no row
        if strange.any():
            raise IndexError(f"rows: got {chosen[strange][0]}; expected 0 to {len(self) - 1}")
        return Pairs(self._source_text, self._target_text, self._bounds[chosen])

    def _example(self, s0: int, s1: int, t0: int, t1: int) -> Example:
        return Example(self._source_text[s0:s1].decode(), self._target_text[t0:t1].decode())


def _spaced(text: str) -> str:
    """With one blank between words: text that differs in white space alone is the same words."""
    return " ".join(text.split())


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{shown(text)}: half a surrogate, which is no character; expected text") from error
