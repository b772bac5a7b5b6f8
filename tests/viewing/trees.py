"""Trees to draw."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from torch_ctree.trees.vertex import Vertex, from_below

NASTY = [
    "",
    " ",
    "熊",
    "e\u0301",
    "שלום",
    "👍",
    "a\x07b\x1b[2J",
    "\"'",
    "<script>&",
    "\\",
    "50%",
    "$x_1^2$",
    "{~#}",
    "(a b)",
    "\ud800",
]
SHARES = st.sampled_from([None, 0.0, 0.0001, 0.5, 0.873, 0.9999, 1.0])


def vertices(words: st.SearchStrategy[str]) -> st.SearchStrategy[Vertex]:
    """Trees with any of their numbers known."""
    leaves = st.builds(Vertex, words, emission=SHARES, confidence=SHARES)

    def inner(parts: st.SearchStrategy[Vertex]) -> st.SearchStrategy[Vertex]:
        children = st.lists(parts, min_size=1, max_size=3).map(tuple)
        labels = st.sampled_from(["·", "NP", "×3", "(<%"])
        return st.builds(Vertex, children=children, label=labels, split=SHARES, confidence=SHARES)

    return st.recursive(leaves, inner, max_leaves=12)


trees = vertices(st.sampled_from([*NASTY, "jump", "I_TURN_LEFT", "a"]))


def balanced(words: Sequence[str]) -> Vertex:
    """As flat as can be."""
    row = [Vertex(word) for word in words]
    while len(row) > 1:
        pairs = [row[n : n + 2] for n in range(0, len(row), 2)]
        row = [Vertex(children=tuple(pair)) if len(pair) > 1 else pair[0] for pair in pairs]
    return row[0]


def chain(words: Sequence[str]) -> Vertex:
    """As deep as can be: (a (b (c d)))."""
    tree = Vertex(words[-1])
    for word in reversed(words[:-1]):
        tree = Vertex(children=(Vertex(word), tree))
    return tree


def known(tree: Vertex) -> Vertex:
    """With numbers at all vertices."""

    def filled(vertex: Vertex, children: list[Vertex]) -> Vertex:
        if children:
            return replace(vertex, children=tuple(children), split=0.75, confidence=0.5)
        return replace(vertex, emission=0.25, split=0.0, confidence=1.0)

    return from_below(tree, filled)


MANY = [f"word{n}" for n in range(200)]
DEEP = [f"w{n}" for n in range(1500)]
