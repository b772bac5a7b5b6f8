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
    counted = {name: (_counted(pairs.sources()), _counted(pairs.targets())) for name, pairs in task.sets.items()}
    known = [words for words, _ in counted["train"]]
    trained = task.train.source_fingerprints()
    return {
        name: SetReport(
            pairs=len(pairs),
            source=_side(*counted[name][0], known[0]),
            target=_side(*counted[name][1], known[1]),
            **_repetitions(pairs, trained[:0] if name == "train" else trained),
        )
        for name, pairs in task.sets.items()
    }


def _counted(texts: Iterable[str]) -> tuple[Counter[str], Lengths]:
    """How often each word comes, and how many words the texts have."""
    counts: Counter[str] = Counter()
    lengths: Counter[int] = Counter()
    for text in texts:
        words = text.split()
        counts.update(words)
        lengths[len(words)] += 1
    if not lengths:
        return counts, Lengths(0, 0.0, 0)
    return counts, Lengths(min(lengths), counts.total() / lengths.total(), max(lengths))


def _side(counts: Counter[str], lengths: Lengths, known: Collection[str]) -> SideReport:
    total = counts.total()
    strangers = sum(count for word, count in counts.items() if word not in known)
    return SideReport(lengths, len(counts), strangers / total if total else 0.0)


def _repetitions(pairs: Pairs, trained: Integers) -> dict[str, int]:
    sources = pairs.source_fingerprints()
    _, first = np.unique(pairs.fingerprints(), return_index=True)
    _, targets = np.unique(sources[first], return_counts=True)  # of each source, different ones
    return {
        "repeated": len(pairs) - len(first),
        "contradicted": int((targets > 1).sum()),
        "in_train": int(np.isin(sources, trained).sum()),
    }
