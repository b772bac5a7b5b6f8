"""Words in the leaves of a tree, which may be pieces of words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from torch_ctree.data.subwords import BLANK
from torch_ctree.evaluation.brackets import Span

MARKS = frozenset('.,;:!?…"“”„»«()[]')
"""That stand apart from the words they are written together with."""


class Word(NamedTuple):
    """A word, or a mark, of a sentence."""

    text: str
    span: Span
    """Of its leaves."""


def words_of(leaves: Sequence[str]) -> list[Word]:
    """The words of a sentence, each with its leaves.

    Where a leaf begins with ▁, leaves are pieces as ``Subwords`` has them: such a one begins a word, and marks at both
    ends of a word are words themselves. Otherwise each leaf is a word.

    >>> words_of(["▁Ein", "▁Hünd", "chen", "."])
    [Word(text='Ein', span=(0, 1)), Word(text='Hündchen', span=(1, 3)), Word(text='.', span=(3, 4))]
    """
    if not any(leaf.startswith(BLANK) for leaf in leaves):
        return [Word(leaf, (at, at + 1)) for at, leaf in enumerate(leaves)]
    starts = [at for at, leaf in enumerate(leaves) if at == 0 or leaf.startswith(BLANK)]
    return [word for span in pairwise([*starts, len(leaves)]) for word in _apart(leaves, span)]


def _apart(leaves: Sequence[str], span: Span) -> list[Word]:
    """The word between two blanks, and the marks around it; an escape, such as &quot;, is whole."""
    start, end = span
    if _text(leaves, span).startswith("&"):
        return [Word(_text(leaves, span), span)]
    begin = start + (leaves[start] == BLANK)  # a blank by itself belongs to what follows
    first, last = begin, end
    while first < end and _is_mark(leaves[first]):
        first += 1
    while last > first and _is_mark(leaves[last - 1]):
        last -= 1
    cuts = sorted({start, *range(begin + 1, first + 1), *range(last, end), end})
    return [Word(_text(leaves, part), part) for part in pairwise(cuts)]


def _is_mark(piece: str) -> bool:
    text = piece.removeprefix(BLANK)
    return bool(text) and MARKS.issuperset(text)


def _text(leaves: Sequence[str], span: Span) -> str:
    return "".join(leaves[slice(*span)]).removeprefix(BLANK)
