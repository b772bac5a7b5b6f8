"""At which words of the source each vertex of a tree looks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from torch_ctree.data import DataError
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.pictures.sheets import heading, nothing, panel, turned
from torch_ctree.viewing.pictures.style import (
    COLOURS,
    FAINT,
    INK,
    LIGHT,
    RULE,
    SIZE,
    SMALL,
    WIDTH,
    shortened,
    span,
    styled,
)
from torch_ctree.viewing.text import percent, visible
from torch_ctree.viewing.tree import Spot, preorder

LEAST, MOST, HIGH = 0.15, 0.75, 0.21  # inches: for a word of the source, and for a vertex
STEP = 0.11  # inches that a child stands further right than its parent


@styled
def attention(tree: Vertex, source: Sequence[str], width: float = WIDTH) -> Figure:
    """A row for each vertex, each before those below it; a column for each word of the source.

    width: in inches; many words take more

    The stronger a cell, the more the vertex looks at this word: by ``Vertex.attention``, or ``found`` where it has
    nothing but that. A frame is around the ``phrase`` of a vertex of a grammar. Vertices of which neither is known have
    an empty row.
    """
    spots, names = preorder(tree), list(map(visible, source))
    if not names or not any(_looks(spot.vertex) or spot.vertex.phrase for spot in spots):
        return nothing(width, "nothing is known of where it looks")
    indent = STEP * max(spot.depth for spot in spots)
    labels = _labels(spots, max(0.9, 0.42 * width))
    left = indent + max(map(span, labels)) + 0.15
    cell = max(LEAST, min(MOST, (width - left) / len(names)))
    above = turned(names, cell)
    figure = Figure(figsize=(left + cell * len(names) + 0.05, above + HIGH * len(spots) + 0.05))
    axes = panel(figure, left, above, cell * len(names), HIGH * len(spots))
    axes.set(xlim=(0, len(names)), ylim=(len(spots), 0))
    heading(axes, names, cell, -0.04 / HIGH, is_above=True)
    shares = np.array([_row(spot.vertex, len(names)) for spot in spots])
    fills = np.broadcast_to(to_rgba(COLOURS[0]), (*shares.shape, 4)).copy()
    fills[..., 3] = 0.06 + 0.9 * shares
    axes.imshow(fills, interpolation="none", aspect="auto", extent=(0, len(names), len(spots), 0))
    if cell >= 0.3:
        _numbers(axes, shares, min(SMALL - 1, 72 * cell / 3))
    for y, spot in enumerate(spots):
        if spot.vertex.phrase:
            first, after = spot.vertex.phrase
            if not 0 <= first < after <= len(names):
                raise DataError(
                    f"attention: a vertex has the phrase {first} to {after} of a source of {len(names)} words"
                )
            frame = Rectangle((first, y + 0.08), after - first, 0.84, fill=False, edgecolor=INK, linewidth=1)
            axes.add_patch(frame)
    tree_axes = panel(figure, 0.05, above, left - 0.05, HIGH * len(spots))
    tree_axes.set(xlim=(0, left - 0.05), ylim=(len(spots), 0))
    _outline(tree_axes, spots, labels)
    return figure


def _looks(vertex: Vertex) -> tuple[float, ...]:
    return vertex.attention or vertex.found


def _row(vertex: Vertex, count: int) -> np.ndarray:
    """Zeros where nothing is known."""
    shares = np.nan_to_num(np.asarray(_looks(vertex) or np.zeros(count), float))
    if len(shares) != count:
        raise DataError(f"attention: a vertex looks at {len(shares)} words; expected those of the source, {count}")
    return shares.clip(0, 1)


def _labels(spots: Sequence[Spot], room: float) -> list[str]:
    """The words below each vertex, as far as there is room for them."""
    words: list[list[str]] = [[] for _ in spots]
    for n in reversed(range(len(spots))):
        vertex, children = spots[n].vertex, spots[n].children
        words[n] = [word for child in children for word in words[child]] if children else [visible(vertex.word or "")]
    return [
        shortened(" ".join(some), max(0.5, room - STEP * spot.depth)) for some, spot in zip(words, spots, strict=True)
    ]


def _numbers(axes: Axes, shares: np.ndarray, size: float) -> None:
    """Of what is more than hardly anything."""
    for y, x in np.argwhere(shares >= 0.02):
        look: dict[str, Any] = {"color": LIGHT} if shares[y, x] > 0.75 else {}
        axes.text(x + 0.5, y + 0.5, percent(float(shares[y, x])), ha="center", va="center", fontsize=size, **look)


def _outline(axes: Axes, spots: Sequence[Spot], labels: Sequence[str]) -> None:
    """The tree, as an outline turned sideways: each vertex in its row, its children below it and further right."""
    for y, (spot, label) in enumerate(zip(spots, labels, strict=True)):
        look: dict[str, Any] = {"alpha": FAINT} if spot.children else {}
        axes.text(STEP * spot.depth + 0.03, y + 0.5, label, ha="left", va="center", fontsize=SIZE, **look)
    stems = [
        (STEP * spot.depth + 0.02, y + 0.95, max(spot.children) + 0.5) for y, spot in enumerate(spots) if spot.children
    ]
    twigs = [(y + 0.5, STEP * (spot.depth - 1) + 0.02, STEP * spot.depth) for y, spot in enumerate(spots) if y]
    if twigs:  # then there are both
        axes.vlines(*zip(*stems, strict=True), color=RULE, linewidth=0.8)
        axes.hlines(*zip(*twigs, strict=True), color=RULE, linewidth=0.8)
