"""What to know of a task before training on it: sizes, lengths, words never trained on, repeated and leaked pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from torch_ctree.data.pairs import Integers, Pairs
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
    known = [_counted(texts)[0].keys() for texts in (task.train.sources(), task.train.targets())]
    trained, _ = task.train.fingerprints()
    return {
        name: SetReport(
            pairs=len(pairs),
            source=_side(pairs.sources(), known[0]),
            target=_side(pairs.targets(), known[1]),
            **_repetitions(pairs, trained[:0] if name == "train" else trained),
        )
        for name, pairs in task.splits.items()
    }


def _counted(texts: Iterable[str]) -> tuple[Counter[str], list[int]]:
    """How often each word comes, and how many words each text has."""
    counts: Counter[str] = Counter()
    lengths = []
    for text in texts:
        words = text.split()
        counts.update(words)
        lengths.append(len(words))
    return counts, lengths


def _side(texts: Iterable[str], known: Collection[str]) -> SideReport:
    counts, lengths = _counted(texts)
    total = counts.total()
    strangers = sum(count for word, count in counts.items() if word not in known)
    sizes = Lengths(min(lengths), total / len(lengths), max(lengths)) if lengths else Lengths(0, 0.0, 0)
    return SideReport(sizes, len(counts), strangers / total if total else 0.0)


def _repetitions(pairs: Pairs, trained: Integers) -> dict[str, int]:
    sources, whole = pairs.fingerprints()
    _, first = np.unique(whole, return_index=True)
    _, targets = np.unique(sources[first], return_counts=True)  # of each source, different ones
    return {
        "repeated": len(pairs) - len(first),
        "contradicted": int((targets > 1).sum()),
        "in_train": int(np.isin(sources, trained).sum()),
    }
