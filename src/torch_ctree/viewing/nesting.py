"""Trees as nested text: short parts on one line, the others over several, each child deeper than its parent."""

from __future__ import annotations

from collections.abc import Callable

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.tree import preorder

ROOM = 80
DEEPEST = 40
"""Blanks at the start of a line, at most."""


def nested(tree: Vertex, opening: Callable[[Vertex], str], closing: str, between: str = " ") -> str:
    """A tree as text.

    opening: what a vertex is written as: a leaf in whole, another up to its first child
    closing: after the last child
    between: parts on one line
    """
    spots = preorder(tree)
    texts = [opening(spot.vertex) for spot in spots]
    lengths = [len(text) for text in texts]
    for n in reversed(range(len(spots))):
        if spots[n].children:
            lengths[n] += sum(lengths[child] + len(between) for child in spots[n].children) + len(closing)
    pieces = []
    ahead: list[tuple[int, bool] | None] = [(0, False)]
    while ahead:
        if (step := ahead.pop()) is None:
            pieces.append(closing)
            continue
        n, is_in_line = step
        spot = spots[n]
        if pieces:
            pieces.append(between if is_in_line else "\n" + " " * min(2 * spot.depth, DEEPEST))
        pieces.append(texts[n])
        if spot.children:
            fits = is_in_line or lengths[n] + min(2 * spot.depth, DEEPEST) <= ROOM
            ahead.append(None)
            ahead += [(child, fits) for child in reversed(spot.children)]
    return "".join(pieces)
