"""How many noun phrases are constituents: what can be said of trees where there are no gold ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

from torch_ctree.data.errors import DataError
from torch_ctree.evaluation.brackets import Span, balanced, left_branching, right_branching, spans
from torch_ctree.evaluation.noun_phrases import noun_phrases
from torch_ctree.evaluation.words import words_of

if TYPE_CHECKING:
    from nltk import Tree


@dataclass(frozen=True)
class PhraseShare:
    """Of some noun phrases, how many are constituents."""

    share: float
    """From 0 to 1."""
    phrases: int
    sentences: int
    """That have such phrases."""
    baselines: dict[str, float]
    """The share in trees that need no model, over the same leaves; of random trees what is expected."""


def phrase_share(trees: Iterable[Tree], language: str) -> PhraseShare | None:
    """Of the ``noun_phrases`` of some sentences, the share that their trees have as constituents; None without any.

    A phrase that is a whole sentence is in every tree, and does not count.

    trees: over words, or over the pieces of ``Subwords``
    language: "en" or "de"
    """
    phrases = sentences = 0
    found = dict.fromkeys(("", *SIMPLE, RANDOM), 0.0)
    for tree in trees:
        leaves = tree.leaves()
        some = phrase_spans(leaves, language) - {(0, len(leaves))}
        phrases += len(some)
        sentences += bool(some)
        found[""] += len(some & spans(tree))
        for name, make in SIMPLE.items():
            found[name] += len(some & spans(make(leaves)))
        found[RANDOM] += sum(chance(end - start, len(leaves)) for start, end in some)
    if not phrases:
        return None
    shares = {name: number / phrases for name, number in found.items()}
    return PhraseShare(shares.pop(""), phrases, sentences, shares)


def phrase_spans(leaves: list[str], language: str) -> set[Span]:
    """Where the noun phrases of a sentence begin and end, counted in leaves, which may be pieces of words."""
    words = words_of(leaves)
    found = noun_phrases([word.text for word in words], language)
    return {(words[start].span[0], words[end - 1].span[1]) for start, end in found}


def chance(part: int, whole: int) -> float:
    """How probably a tree drawn from all binary trees over so many leaves has a given part of them as a constituent.

    The part is one leaf of a tree over the rest, and has a tree of its own: C(part − 1) · C(whole − part) of all
    C(whole − 1) trees, where C are the Catalan numbers.

    >>> chance(2, 3), chance(2, 4)
    (0.5, 0.4)
    """
    if not 1 <= part <= whole:
        raise DataError(f"part: got {part}; expected 1 to {whole} leaves")
    return _catalan(part - 1) * _catalan(whole - part) / _catalan(whole - 1)


def _catalan(n: int) -> int:
    return comb(2 * n, n) // (n + 1)


SIMPLE = {"right-branching": right_branching, "left-branching": left_branching, "balanced": balanced}
RANDOM = "random"
