"""A tree with what is known of each vertex: what drawings show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from nltk import Tree

Made = TypeVar("Made")

LABEL = "·"


@dataclass(frozen=True, eq=False, repr=False)
class Vertex:
    """A vertex of one tree, with all below it. What is not known is None, or empty.

    A leaf has a word and no children, an inner vertex children and no word.
    """

    word: str | None = None
    """What a leaf says."""
    children: tuple[Vertex, ...] = ()
    label: str = LABEL
    """What stands at an inner vertex: "×3" at one that stands for three copies of what is below it."""
    number: int | None = None
    """In heap order: 0 at the root, 2v + 1 and 2v + 2 below v."""
    split: float | None = None
    """The probability that it has children; 0 at the deepest level."""
    emission: float | None = None
    """Of a leaf: the probability of its word."""
    confidence: float | None = None
    """The posterior probability that its words are a constituent, given the sentence."""
    words: tuple[tuple[str, float], ...] = ()
    """The most probable words if it is a leaf, best first, with their probabilities."""
    attention: tuple[float, ...] = ()
    """How much it looks at each word of the source; they sum to one."""
    found: tuple[float, ...] = ()
    """The same for its word alone, where that is looked for on its own, as by lexical attention."""
    phrase: tuple[int, int] | None = None
    """Of a grammar over phrases: from which source word, and up to before which, its phrase most probably goes."""
    operator: int | None = None
    """Of such a grammar: what it most probably does."""

    @classmethod
    def of(cls, tree: Tree | str) -> Vertex:
        """An ``nltk.Tree``, of which nothing else is known. What has a label and nothing below it is a word.

        >>> from nltk import Tree
        >>> Vertex.of(Tree.fromstring("(S (NP the dog) barks)")).leaves
        ('the', 'dog', 'barks')
        """

        def made(part: Any, children: list[Vertex]) -> Vertex:
            if children:
                return cls(children=tuple(children), label=str(part.label()))
            return cls(str(part.label()) if hasattr(part, "label") else str(part))

        return from_below(tree, made)

    def to_nltk(self) -> Tree:
        """As an ``nltk.Tree``; a word alone becomes a tree with one leaf."""
        import nltk  # noqa: PLC0415  (trees stay usable with torch and numpy alone)

        def made(part: Vertex, children: list[nltk.Tree | str]) -> nltk.Tree | str:
            return nltk.Tree(part.label, children) if children else part.word or ""

        found = from_below(self, made)
        return found if isinstance(found, nltk.Tree) else nltk.Tree(LABEL, [found])

    def __eq__(self, other: object) -> bool:
        """As of a dataclass, but a tree may be deeper than Python's stack."""
        if not isinstance(other, Vertex):
            return NotImplemented
        mine, theirs = (map(_by_itself, tree.walk()) for tree in (self, other))
        return all(a == b for a, b in zip_longest(mine, theirs))

    def __hash__(self) -> int:
        """The same for what is equal."""
        return hash(tuple(map(_by_itself, self.walk())))

    def __repr__(self) -> str:
        """In brackets, without what is known of its vertices."""
        return f"<Vertex {from_below(self, _shown)}>"

    def walk(self) -> Iterator[Vertex]:
        """This vertex, then all below it, from left to right."""
        ahead: list[Vertex] = [self]
        while ahead:
            vertex = ahead.pop()
            yield vertex
            ahead += reversed(vertex.children)

    @property
    def leaves(self) -> tuple[str, ...]:
        """Its words."""
        return tuple(vertex.word or "" for vertex in self.walk() if not vertex.children)


def _by_itself(vertex: Vertex) -> tuple[Any, ...]:
    """All that is known of it but what its children are."""
    known = (getattr(vertex, field.name) for field in fields(Vertex) if field.name != "children")
    return len(vertex.children), *known


def _shown(vertex: Vertex, children: list[str]) -> str:
    return f"({' '.join([vertex.label, *children])})" if children else repr(vertex.word)


def from_below(tree: Any, make: Callable[[Any, list[Made]], Made]) -> Made:
    """What is made of each vertex and of what was made of its children, at the root.

    It does not recurse: a tree may be as deep as it has words.

    tree: of ``Vertex``, or of ``nltk.Tree`` with words of any type
    """
    ahead, made = [(tree, False)], []
    while ahead:
        part, is_ready = ahead.pop()
        children = list(_children(part))
        if is_ready or not children:
            first = len(made) - len(children)
            made[first:] = [make(part, made[first:])]
        else:
            ahead.append((part, True))
            ahead += [(child, False) for child in reversed(children)]
    return made[0]


def _children(part: Any) -> Iterable[Any]:
    if isinstance(part, Vertex):
        return part.children
    return part if hasattr(part, "label") else ()
