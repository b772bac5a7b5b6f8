"""Several trees of one sentence, to compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch_ctree.data import DataError
from torch_ctree.data.errors import count
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.layout import LABEL, MARGIN, NOTE_LINE, Layout, Text, noted, placed
from torch_ctree.viewing.look import PLAIN, Look
from torch_ctree.viewing.svg import group, line, notes, picture
from torch_ctree.viewing.text import ems, percent

if TYPE_CHECKING:
    from nltk import Tree

WIDEST = 1000.0
"""Where a row of trees is wider the next tree begins a new one."""
HEAD = 20.0


def k_best(trees: Sequence[tuple[Vertex | Tree | str, float]], look: Look = PLAIN) -> str:
    """An SVG of trees side by side, each below its rank and its probability.

    Each is a group of class ``tree`` with its place in ``data-tree``, and in it the vertices are as ``svg`` has them.
    """
    if not trees:
        raise DataError("trees: got none; expected one or more, each with its probability")
    drawn = [placed(tree, look) for tree, _ in trees]
    heads = [f"tree {n}: {percent(share)}" for n, (_, share) in enumerate(trees, 1)]
    x = y = height = width = 0.0
    groups = []
    for n, (one, head) in enumerate(zip(drawn, heads, strict=True)):
        room = max(one.width, ems(head) * LABEL + 2 * MARGIN)
        if x and x + room > WIDEST:
            x, y, height = 0.0, y + height, 0.0
        groups.append(_moved(one, head, n, x, y))
        x, height, width = x + room, max(height, one.height + HEAD), max(width, x + room)
    said = dict.fromkeys(note for tree, _ in trees for note in look.notes(look.shown(tree)))
    whole = noted(Layout(width, y + height, False, (), (), ()), list(said))
    title = f"{count(len(trees), 'tree')} with their probabilities"
    return picture(whole.width, whole.height, title, "".join(groups) + notes(whole))


def _moved(drawn: Layout, head: str, n: int, x: float, y: float) -> str:
    title = line(Text(MARGIN, NOTE_LINE - 2, head, LABEL, "start"))
    return (
        f'<g class="tree" data-tree="{n}" transform="translate({x:.1f} {y:.1f})">{title}'
        f'<g transform="translate(0 {HEAD:.0f})">{group(drawn)}</g></g>'
    )
