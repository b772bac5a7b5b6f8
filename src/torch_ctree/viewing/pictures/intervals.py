"""Vertices as intervals of the line 0 … 2^D."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from torch_ctree.data import DataError
from torch_ctree.trees.topology import level, topology
from torch_ctree.viewing.look import colour, ink
from torch_ctree.viewing.pictures.sheets import check_words, nothing, panel
from torch_ctree.viewing.pictures.style import INK, RULE, SIZE, SMALL, WIDTH, every, span, styled
from torch_ctree.viewing.text import percent, visible

HIGH = 0.52  # inches, of a level
SEEN, NAMED = 0.005, 0.02  # less is as good as nothing, or has at least no word


@styled
def leaf_intervals(marginals: Sequence[Sequence[float]], words: Sequence[str], width: float = WIDTH) -> Figure:
    """Every vertex of the complete tree as its interval, one row a level, the darker the more probably it is a leaf.

    marginals: (N, V) the probability that vertex v emits word n, as of ``TreePosterior.marginals``

    Where there is room, with its most probable word and the probability that it is a leaf; empty where that is less
    than half a percent.
    """
    shares = np.asarray(marginals, float)
    if not shares.size:
        return nothing(width)
    vertices = shares.shape[1]
    if vertices & (vertices + 1):
        raise DataError(f"marginals: got {vertices} vertices; expected 2^(D + 1) − 1, those of a complete tree")
    check_words(words, len(shares), "one for each row of the marginals")
    line, names = topology(vertices.bit_length() - 1), list(map(visible, words))
    left = span(f"depth {line.depth}") + 0.15
    unit = (width - left - 0.15) / line.positions
    high = HIGH * (line.depth + 1)
    figure = Figure(figsize=(width, high + 0.4))
    axes = panel(figure, left, 0.05, unit * line.positions, high)
    axes.set(xlim=(0, line.positions), ylim=(-line.depth, 1))
    for depth in range(line.depth + 1):
        room = unit * (line.positions >> depth)
        axes.text(-0.1 / unit, 0.5 - depth, f"depth {depth}", ha="right", va="center")
        for vertex in range(line.vertices)[level(depth)]:
            share, start, end = float(shares[:, vertex].sum()), int(line.starts[vertex]), int(line.ends[vertex])
            box(axes, start, end, -depth, 1, colour(share) if share >= SEEN else "none", RULE, min(1, 10 * room))
            if share >= SEEN:
                name = names[int(shares[:, vertex].argmax())] if share >= NAMED else ""
                for text, y, size in ((name, 0.68, SIZE), (percent(share), 0.28, SMALL)):
                    if max(span(text, size), span("99%", SMALL)) <= room:
                        look = {"ha": "center", "va": "center", "fontsize": size, "color": ink(share)}
                        axes.text((start + end) / 2, y - depth, text, **look)
    ruler(axes, -line.depth, line.positions, unit, HIGH)
    return figure


def box(
    axes: Axes, start: float, end: float, bottom: float, height: float, fill: str, edge: str = INK, line: float = 1
) -> None:
    """An interval as a rectangle."""
    axes.add_patch(
        Rectangle((start, bottom), end - start, height, facecolor=fill, edgecolor=edge, linewidth=line, clip_on=False)
    )


def ruler(axes: Axes, y: float, last: int, across: float, down: float) -> None:
    """The line 0 … last with a tick at every position that has room for its number.

    across, down: how many inches a unit of the axes is
    """
    axes.plot([0, last], [y, y], color=INK, linewidth=1, clip_on=False)
    for position in range(0, last + 1, every(last, across)):
        axes.plot([position] * 2, [y, y - 0.05 / down], color=INK, linewidth=1, clip_on=False)
        axes.text(position, y - 0.08 / down, str(position), ha="center", va="top", fontsize=SMALL)
