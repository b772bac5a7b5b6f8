"""What to know of a task before training on it: sizes, lengths, words never trained on, repeated and leaked pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from torch_ctree.data.pairs import Pairs
from torch_ctree.data.task import Task


@dataclass(frozen=True)
class Lengths:
    """Words in a sentence, over a set."""

    shortest: int
    mean: float
    longest: int


@dataclass(frozen=True)
class SideReport:
    """One side of one set."""

    lengths: Lengths
    words: int
    """Different words."""
    unknown: float
    """Share of its words, as they come, that the training set does not have."""


@dataclass(frozen=True)
class SetReport:
    """One set of a task."""

    pairs: int
    source: SideReport
    target: SideReport
    repeated: int
    """Pairs that are there already, further up."""
    contradicted: int
    """Sources with more than one target."""
    in_train: int
    """Pairs whose source the training set has too; 0 for the training set."""


def check(task: Task) -> dict[str, SetReport]:
    """A report on every set of a task."""
    known = [_words(pair[side] for pair in task.train).keys() for side in (0, 1)]
    trained = {pair.source for pair in task.train}
    return {
        name: SetReport(
            pairs=len(pairs),
            source=_side((pair.source for pair in pairs), known[0]),
            target=_side((pair.target for pair in pairs), known[1]),
            in_train=0 if name == "train" else sum(pair.source in trained for pair in pairs),
            **_repetitions(pairs),
        )
        for name, pairs in task.splits.items()
    }


def _words(texts: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        for word in text.split():
            counts[word] = counts.get(word, 0) + 1
    return counts


def _side(texts: Iterable[str], known: Iterable[str]) -> SideReport:
    lengths: list[int] = []

    def measured() -> Iterable[str]:
        for text in texts:
            lengths.append(len(text.split()))
            yield text

    counts = _words(measured())
    known, total = set(known), sum(counts.values())
    strangers = sum(count for word, count in counts.items() if word not in known)
    sizes = Lengths(min(lengths), float(np.mean(lengths)), max(lengths)) if lengths else Lengths(0, 0.0, 0)
    return SideReport(sizes, len(counts), strangers / total if total else 0.0)


def _repetitions(pairs: Pairs) -> dict[str, int]:
    targets: dict[str, set[str]] = {}
    for pair in pairs:
        targets.setdefault(pair.source, set()).add(pair.target)
    distinct = sum(map(len, targets.values()))
    return {"repeated": len(pairs) - distinct, "contradicted": sum(len(found) > 1 for found in targets.values())}
