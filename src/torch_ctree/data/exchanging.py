"""Pairs that are new, made of those that are known: phrases that are copied, exchanged for others.

The idea is Andreas's (2020, *Good-Enough Compositional Data Augmentation*): two phrases that have stood in the same
surroundings may stand in each other's. Here a phrase is what a source and its target have in common, and only pairs
that are new in their structure are made: two words in each other's places say nothing that is not known.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from torch_ctree.data.order import Purpose, random_bits
from torch_ctree.data.pairs import Integers, Pairs

LONGEST = 9
"""The words of a phrase, at most."""
TRIES = 100
"""For each pair that is wanted."""
AT_ONCE = 4096
MULTIPLIER, BEFORE, SOURCE = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
"""Odd numbers that have nothing to do with one another."""

Hashes = NDArray[np.uint64]
Words = tuple[str, ...]
Row = tuple[Words, Words]


def exchanged(pairs: Pairs, most: int, *key: int, without: Container[str] = (), longest: int | None = None) -> Pairs:
    """Known pairs with one phrase exchanged for another on both sides: new sources, each once.

    A phrase stands once in the source and, word for word, once in the target. Two phrases may be exchanged anywhere if
    they have stood in the same surroundings: if two pairs are the same but for them. A new source is new even where
    single words that may be exchanged count as the same word. The new target begins and ends with words that known ones
    begin and end with, and neither side is longer than the longest known.

    most: how many, at most; fewer, or none, where hardly any two pairs are alike
    key: of the chance that chooses them, such as a seed
    without: sources that are not to be made, such as those of test sets, one blank between words
    longest: of the words of a target, at most

    >>> known = [(text, text) for text in ("a dog sleeps .", "a cat sleeps .")] + [("a dog runs ?", "does a dog run")]
    >>> list(exchanged(Pairs.of(known), 10))  # a cat for a dog: nothing new
    []
    >>> known.append(("an old dog sleeps .", "an old dog sleeps ."))
    >>> list(exchanged(Pairs.of(known), 10))
    [Example(source='an old dog runs ?', target='does an old dog run')]
    """
    rows = list(dict.fromkeys((tuple(source.split()), tuple(target.split())) for source, target in pairs))
    if not rows:
        return Pairs.of([])
    begin, end = ({target[at] for _, target in rows if target} for at in (0, -1))
    limits = [max(len(row[side]) for row in rows) for side in (0, 1)]
    if longest is not None:
        limits[1] = min(limits[1], longest)
    found: dict[str, str] = {}
    for source, target in _made(rows, limits, TRIES * most, *key):
        text = " ".join(source)
        if text not in found and text not in without and target[0] in begin and target[-1] in end:
            found[text] = " ".join(target)
        if len(found) == most:
            break
    return Pairs.of(found.items())


def _made(rows: list[Row], limits: list[int], tries: int, *key: int) -> Iterator[Row]:
    """At random: a phrase in a pair, surroundings that it has stood in, another phrase that has stood in these.

    limits: of the words of a source and of a target
    """
    phrases = _phrases(rows)
    _, which, times = np.unique(phrases.around, return_inverse=True, return_counts=True)
    shared = phrases.take(np.flatnonzero(times[which] > 1))
    movable = phrases.take(np.flatnonzero(np.isin(phrases.words, shared.words)))
    if not len(shared.words):
        return
    by_words, by_around = _Groups(shared.words), _Groups(shared.around)
    structures, lengths = _Structures(rows, shared), np.array([[len(side) for side in row] for row in rows])
    chance = random_bits(Purpose.EXCHANGED, *key)
    for first in range(0, tries, AT_ONCE):
        numbers = chance.random_raw((3, min(AT_ONCE, tries - first)))
        here = (numbers[0] % len(movable.words)).astype(np.int64)
        other = by_around.choose(shared.around[by_words.choose(movable.words[here], numbers[1])], numbers[2])
        places, others = movable.places[here], shared.places[other]
        sizes = lengths[places[:, 0]] + (others[:, 3] - places[:, 3])[:, None]
        short = (sizes <= limits).all(1)
        places, others = places[short], others[short]
        new = structures.are_new(places, others)
        for place, another in zip(places[new].tolist(), others[new].tolist(), strict=True):
            old, by = _Place(*place), _Place(*another)
            yield _exchange(rows[old.row], old, rows[by.row][0][by.start : by.start + by.size])


class _Place(NamedTuple):
    """Of a phrase: the pair, where it begins on both sides, how many words it has"""

    row: int
    start: int
    target_start: int
    size: int


def _exchange(pair: Row, old: _Place, new: Words) -> Row:
    source, target = pair
    return (
        (*source[: old.start], *new, *source[old.start + old.size :]),
        (*target[: old.target_start], *new, *target[old.target_start + old.size :]),
    )


class _Phrases(NamedTuple):
    """Where phrases are, (P, 4); numbers for their words, (P,), and for what is around them, (P,)"""

    places: Integers
    words: Hashes
    around: Hashes

    def take(self, which: Integers) -> _Phrases:
        return _Phrases(self.places[which], self.words[which], self.around[which])


class _Groups:
    """The numbers 0 … n − 1 by keys, (n,)"""

    def __init__(self, keys: Hashes) -> None:
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]

    def choose(self, keys: Hashes, chance: Hashes) -> Integers:
        """(m,): one of each key's numbers"""
        first, last = (np.searchsorted(self.keys, keys, side) for side in ("left", "right"))
        return self.order[first + (chance % (last - first).astype(np.uint64)).astype(np.int64)]


class _Structures:
    """The sources of all pairs, words that may be exchanged for one another being the same word."""

    def __init__(self, rows: list[Row], shared: _Phrases) -> None:
        self.side = _Side([source for source, _ in rows], _classes(rows, shared))
        self.known = np.unique(self.side.before[np.arange(len(rows)), self.side.lengths])

    def are_new(self, places: Integers, others: Integers) -> NDArray[np.bool_]:
        """Phrases, (n, 4), and those that come in their places, (n, 4) → (n,), of the sources that come out"""
        row, start, _, size = places.T
        from_row, begin, _, new_size = others.T
        powers, end, length = self.side.powers, start + size, self.side.lengths[row]
        phrase, after = self.side.part(from_row, begin, begin + new_size), self.side.part(row, end, length)
        made = (self.side.before[row, start] * powers[new_size] + phrase) * powers[length - end] + after
        return ~np.isin(made, self.known)


def _classes(rows: list[Row], shared: _Phrases) -> dict[str, int]:
    """Numbers for words, the same for those that may be exchanged for one another, directly or by way of others."""
    alone = shared.take(np.flatnonzero(shared.places[:, 3] == 1))
    _, first, which = np.unique(alone.around, return_index=True, return_inverse=True)
    edges = np.unique(np.stack([alone.words[first][which], alone.words], 1), axis=0)
    numbers = _numbers(rows)
    same = {number: number for number in numbers.values()}

    def root(number: int) -> int:
        while same[number] != number:
            number = same[number]
        return number

    for one, other in edges.tolist():
        same[root(one)] = root(other)
    return {word: root(number) for word, number in numbers.items()}


# --- where phrases are ------------------------------------------------------------------------------------------------


def _phrases(rows: list[Row]) -> _Phrases:
    """Every phrase that stands once on both sides, and is not all of either."""
    numbers = _numbers(rows)
    places, phrases, around = [np.empty((0, 4), np.int64)], [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
    for first in range(0, len(rows), AT_ONCE):
        source, target = (_Side([row[side] for row in rows[first : first + AT_ONCE]], numbers) for side in (0, 1))
        for size in range(1, min(LONGEST + 1, source.longest, target.longest)):
            row, start, target_start = _once(source, target, size)
            places.append(np.stack([row + first, start, target_start, np.full_like(row, size)], axis=1))
            phrases.append(source.phrases(size)[row, start])
            around.append(source.around(row, start, size) * SOURCE + target.around(row, target_start, size))
    return _Phrases(np.concatenate(places), np.concatenate(phrases), np.concatenate(around))


def _numbers(rows: list[Row]) -> dict[str, int]:
    """Of words, at random."""
    words = dict.fromkeys(word for row in rows for side in row for word in side)
    return dict(zip(words, random_bits(Purpose.EXCHANGED).random_raw(len(words)).tolist(), strict=True))


class _Side:
    """One side of some pairs.

    Words are numbered at random, and so are phrases: as polynomials of their words' numbers, modulo 2^64. Different
    phrases have different numbers, but for a chance that is as good as none.
    """

    def __init__(self, sentences: list[Words], numbers: dict[str, int]) -> None:
        self.lengths = np.array([len(words) for words in sentences])
        self.longest = int(self.lengths.max())
        self.before = np.zeros((len(sentences), self.longest + 1), np.uint64)  # of the first n words
        for row, words in enumerate(sentences):
            self.before[row, 1 : len(words) + 1] = [numbers[word] for word in words]
        for place in range(self.longest):
            self.before[:, place + 1] += self.before[:, place] * MULTIPLIER
        self.powers = np.array([1] + [MULTIPLIER] * self.longest, np.uint64).cumprod()

    def phrases(self, size: int) -> Hashes:
        """(R, N + 1 − size): of so many words, from each place on"""
        return self.before[:, size:] - self.before[:, :-size] * self.powers[size]

    def is_inside(self, size: int) -> NDArray[np.bool_]:
        """(R, N + 1 − size): whether there are so many words"""
        return np.arange(size, self.longest + 1) <= self.lengths[:, None]

    def around(self, row: Integers, start: Integers, size: int) -> Hashes:
        """Of the words before the phrase and those after it."""
        return self.before[row, start] * BEFORE + self.part(row, start + size, self.lengths[row])

    def part(self, row: Integers, start: Integers, end: Integers) -> Hashes:
        """Of the words from one place to another."""
        return self.before[row, end] - self.before[row, start] * self.powers[end - start]


def _once(source: _Side, target: _Side, size: int) -> tuple[Integers, Integers, Integers]:
    """Phrases of this size that stand once on both sides: the row, where in the source, where in the target"""
    here, there = source.phrases(size), target.phrases(size)
    again = (here[:, :, None] == here[:, None]) & source.is_inside(size)[:, None]  # (R, N, N)
    same = (here[:, :, None] == there[:, None]) & target.is_inside(size)[:, None]  # (R, N, M)
    once = source.is_inside(size) & (again.sum(2) == 1) & (same.sum(2) == 1)
    once &= (np.minimum(source.lengths, target.lengths) > size)[:, None]
    row, start = once.nonzero()
    return row, start, same[row, start].argmax(1)
