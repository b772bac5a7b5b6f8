"""From token ids to padded batches, in an order that depends on (seed, epoch) alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from torch_ctree.data.encoding import Encoded
from torch_ctree.data.errors import DataError, check_whole
from torch_ctree.data.order import Purpose, permutation
from torch_ctree.data.pairs import Integers


@dataclass(frozen=True, eq=False)
class Batch:
    """Some pairs, filled up to the same lengths with the token 0; the masks and lengths tell what is real."""

    source: Tensor
    """(B, S)"""
    source_lengths: Tensor
    """(B,)"""
    target: Tensor
    """(B, T)"""
    target_lengths: Tensor
    """(B,)"""
    rows: Tensor
    """(B,): the row each pair has in the data; −1 for a row that only fills up a fixed shape."""

    def __len__(self) -> int:
        """B, rows that fill up included."""
        return self.source.shape[0]

    @property
    def source_mask(self) -> Tensor:
        """(B, S): True at tokens of the sentence."""
        return torch.arange(self.source.shape[1], device=self.source.device) < self.source_lengths[:, None]

    @property
    def target_mask(self) -> Tensor:
        """(B, T): True at tokens of the sentence."""
        return torch.arange(self.target.shape[1], device=self.target.device) < self.target_lengths[:, None]

    @property
    def real(self) -> Tensor:
        """(B,): False at rows that only fill up; they repeat a real pair, and must not count."""
        return self.rows >= 0

    def share(self, rank: int, processes: int) -> Batch:
        """What one of several processes gets of this batch: equally many rows each, filled up if need be."""
        mine = torch.arange(rank, rank + processes * -(-len(self) // processes), processes, device=self.rows.device)
        there = mine < len(self)
        part = Batch(*(field[mine.where(there, 0)] for field in self._fields()))
        return replace(part, rows=part.rows.where(there, -1))

    def to(self, device: torch.device | str, non_blocking: bool = False) -> Batch:
        """The same batch on a device."""
        return Batch(*(field.to(device, non_blocking=non_blocking) for field in self._fields()))

    def pin_memory(self) -> Batch:
        """The same batch in memory from which copying to a GPU need not wait."""
        return Batch(*(field.pin_memory() for field in self._fields()))

    def _fields(self) -> tuple[Tensor, ...]:
        return self.source, self.source_lengths, self.target, self.target_lengths, self.rows


class Batches:
    """The batches of every epoch.

    Their order depends on seed and epoch alone, so that a resumed run sees what the uninterrupted one would have.

    pairs: what to divide
    batch_size: pairs in a batch, at most
    max_tokens: tokens in a batch, at most, padding included: pairs × (longest source + longest target)
    bucketed: whether a batch gets pairs of like lengths; by default where ``max_tokens`` is given
    shuffle: whether every epoch has an order of its own
    seed: of that order
    most: batches in an epoch, at most; shuffled, each epoch then has others
    pad_to: (S, T), the same for every batch, for CUDA graphs: all batches then have equally many rows too, and the last
        is filled up. ``Encoded.longest`` is the smallest that fits.

    >>> from torch_ctree.data import Pairs, Vocabulary
    >>> pairs = Pairs.of([("jump twice", "JUMP JUMP"), ("walk", "WALK"), ("jump", "JUMP")])
    >>> words = Vocabulary.build(text for pair in pairs for text in pair)
    >>> batches = Batches(Encoded.of(pairs, words, words), batch_size=2, shuffle=False)
    >>> [batch.target.tolist() for batch in batches.epoch(0)]
    [[[0, 0], [2, 0]], [[0]]]
    """

    def __init__(
        self,
        pairs: Encoded,
        *,
        batch_size: int | None = None,
        max_tokens: int | None = None,
        bucketed: bool | None = None,
        shuffle: bool = True,
        seed: int = 0,
        most: int | None = None,
        pad_to: tuple[int, int] | None = None,
    ) -> None:
        if batch_size is None and max_tokens is None:
            raise DataError("batch_size: got None; expected a number of pairs, or max_tokens")
        limits = {"batch_size": batch_size, "max_tokens": max_tokens, "most": most}
        for name, value in limits.items():
            if value is not None:
                check_whole(name, value, 1)
        check_whole("seed", seed, 0)
        self.pairs = pairs
        self.batch_size, self.max_tokens, self.pad_to = batch_size, max_tokens, pad_to
        self.bucketed = max_tokens is not None if bucketed is None else bucketed
        self.shuffle, self.seed, self.most = shuffle, seed, most
        self._sizes = pairs.source.lengths, pairs.target.lengths
        self._check_room()

    def _check_room(self) -> None:
        longest = self.pairs.longest
        if self.pad_to is not None and not _fits(longest, self.pad_to):
            raise DataError(f"pad_to: got {self.pad_to}; expected {longest} or more, the longest source and target")
        sizes = self._sizes[0] + self._sizes[1] if self.pad_to is None else np.full(1, sum(self.pad_to))
        if self.max_tokens is not None and len(self.pairs) and sizes.max() > self.max_tokens:
            where = "pad_to" if self.pad_to else f"pair {int(sizes.argmax()) + 1}"
            raise DataError(
                f"max_tokens: got {self.max_tokens}; {where} alone has {int(sizes.max())}; expected as many or more"
            )

    @property
    def rows_in_full(self) -> int | None:
        """B of every batch where shapes are fixed."""
        if self.pad_to is None:
            return None
        limits = [self.batch_size, self.max_tokens and self.max_tokens // sum(self.pad_to)]
        return min(limit for limit in limits if limit is not None)

    def epoch(self, epoch: int) -> Epoch:
        """The batches of one epoch, each made when it is asked for: ``epoch(3)[17:]`` goes on where a run stopped."""
        check_whole("epoch", epoch, 0)
        rows = np.arange(len(self.pairs))
        if self.shuffle:
            rows = permutation(len(self.pairs), Purpose.ROWS_OF_AN_EPOCH, self.seed, epoch)
        if self.bucketed:
            source, target = self._sizes
            rows = rows[np.lexsort((source[rows], target[rows]))]  # stable: equal lengths stay in random order
        groups = np.split(rows, self._cuts(rows)) if len(rows) else []
        if self.shuffle and self.bucketed:
            groups = [groups[n] for n in permutation(len(groups), Purpose.BATCHES_OF_AN_EPOCH, self.seed, epoch)]
        return Epoch(self, groups[: self.most])

    def _cuts(self, rows: Integers) -> list[int]:
        """Where one batch ends and the next begins."""
        limit = self.rows_in_full or (self.batch_size if self.max_tokens is None else None)
        if limit is not None:
            return list(range(limit, len(rows), limit))
        assert self.max_tokens is not None
        most = self.batch_size or len(rows)
        cuts, start, longest_source, longest_target = [], 0, 0, 0
        sizes = zip(self._sizes[0][rows].tolist(), self._sizes[1][rows].tolist(), strict=True)
        for n, (source, target) in enumerate(sizes):
            longest_source, longest_target = max(longest_source, source), max(longest_target, target)
            if n - start == most or (n - start + 1) * (longest_source + longest_target) > self.max_tokens:
                cuts.append(n)
                start, longest_source, longest_target = n, source, target
        return cuts

    def collate(self, rows: Integers) -> Batch:
        """The batch of these rows."""
        fill = (self.rows_in_full or len(rows)) - len(rows)
        shown = np.concatenate([rows, np.repeat(rows[:1], fill)])  # what fills up is a pair too: it computes like one
        widths = self.pad_to or (None, None)
        source, source_lengths = self.pairs.source.padded(shown, widths[0])
        target, target_lengths = self.pairs.target.padded(shown, widths[1])
        numbers = torch.from_numpy(np.concatenate([rows, np.full(fill, -1)]))
        return Batch(source, source_lengths, target, target_lengths, numbers)


def _fits(longest: tuple[int, int], pad_to: tuple[int, int]) -> bool:
    whole = isinstance(pad_to, tuple) and len(pad_to) == 2 and all(isinstance(size, int) for size in pad_to)
    return whole and longest[0] <= pad_to[0] and longest[1] <= pad_to[1]


class Epoch(Sequence[Batch], Dataset[Batch]):
    """The batches of one epoch, in order; a slice is a part of it. Nothing is padded before it is asked for.

    It is a data set for ``torch.utils.data.DataLoader(epoch, batch_size=None)`` too.
    """

    def __init__(self, batches: Batches, groups: list[Integers]) -> None:
        self._batches = batches
        self._groups = groups

    def __len__(self) -> int:
        """How many batches."""
        return len(self._groups)

    @property
    def rows(self) -> list[Integers]:
        """Of each batch, the rows its pairs have in the data."""
        return self._groups

    @overload
    def __getitem__(self, index: int) -> Batch: ...
    @overload
    def __getitem__(self, index: slice) -> Epoch: ...
    def __getitem__(self, index: int | slice) -> Batch | Epoch:
        """One batch, or a part of the epoch."""
        if isinstance(index, slice):
            return Epoch(self._batches, self._groups[index])
        return self._batches.collate(self._groups[index])

    def __iter__(self) -> Iterator[Batch]:
        """Every batch in turn."""
        return (self._batches.collate(rows) for rows in self._groups)
