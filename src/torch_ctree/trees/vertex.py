"""A tree with what is known of each vertex: what drawings show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nltk import Tree

LABEL = "·"


@dataclass(frozen=True)
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
        """An ``nltk.Tree``, of which nothing else is known.

        >>> from nltk import Tree
        >>> Vertex.of(Tree.fromstring("(S (NP the dog) barks)")).leaves
        ('the', 'dog', 'barks')
        """
        if isinstance(tree, str):
            return cls(tree)
        return cls(children=tuple(map(cls.of, tree)), label=tree.label())

    def to_nltk(self) -> Tree:
        """As an ``nltk.Tree``; a word alone becomes a tree with one leaf."""
        import nltk  # noqa: PLC0415  (trees stay usable with torch and numpy alone)

        def build(vertex: Vertex) -> nltk.Tree | str:
            return nltk.Tree(vertex.label, map(build, vertex.children)) if vertex.children else vertex.word or ""

        found = build(self)
        return found if isinstance(found, nltk.Tree) else nltk.Tree(LABEL, [found])

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
