"""Trees over pieces of words as trees over words, and constituents with names."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from torch_ctree.evaluation.brackets import Span
from torch_ctree.evaluation.words import words_of
from torch_ctree.trees.vertex import Vertex, from_below
from torch_ctree.viewing.tree import as_vertex

if TYPE_CHECKING:
    from nltk import Tree


def whole_words(tree: Vertex | Tree | str) -> Vertex:
    """With each word that is a constituent as one leaf; one that is none keeps its pieces as they are.

    Of what was known of the vertices that are now one leaf, nothing but its number is kept.

    >>> from nltk import Tree
    >>> whole_words(Tree.fromstring("(· ▁ein (· (· ▁Hünd chen) .))"))
    <Vertex (· 'ein' (· 'Hündchen' '.'))>
    """
    vertex = as_vertex(tree)
    words = {word.span: word.text for word in words_of(vertex.leaves)}

    def whole(part: Vertex, span: Span) -> Vertex:
        if span not in words:
            return part
        return Vertex(words[span], number=part.number) if part.children else replace(part, word=words[span])

    return _changed(vertex, whole)


def labelled(tree: Vertex | Tree | str, places: Collection[Span], label: str) -> Vertex:
    """With a label at the constituents that are at these places, counted in leaves.

    >>> from nltk import Tree
    >>> labelled(Tree.fromstring("(· (· the dog) barks)"), [(0, 2), (1, 3)], "NP")
    <Vertex (· (NP 'the' 'dog') 'barks')>
    """
    return _changed(
        as_vertex(tree), lambda part, span: replace(part, label=label) if part.children and span in places else part
    )


def _changed(tree: Vertex, change: Callable[[Vertex, Span], Vertex]) -> Vertex:
    """What becomes of each vertex, told which leaves it had below it, after those below it."""
    read = 0

    def made(part: Vertex, children: list[tuple[Vertex, int]]) -> tuple[Vertex, int]:
        nonlocal read
        if not children:
            read += 1
            return change(part, (read - 1, read)), read - 1
        start = children[0][1]
        return change(replace(part, children=tuple(child for child, _ in children)), (start, read)), start

    return from_below(tree, made)[0]
