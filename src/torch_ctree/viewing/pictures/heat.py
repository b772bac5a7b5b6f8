"""Heat maps with their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from torch_ctree.viewing.pictures.sheets import heading, missing, nothing, panel, turned
from torch_ctree.viewing.pictures.style import RULE, SIZE, SMALL, WIDTH, letters, number, shortened, span, styled

HEAT = colormaps["cividis"]  # dark to light for every reader, colour-blind or not
CELL, HIGH = 0.52, 0.34  # inches: how wide a cell is at least, and how high
LIKELY = 0.68  # of the room that a title may need at most
GAP, TITLE, NAMES = 0.2, 0.24, 0.24  # inches: between panels, for a line of a title, for the names of columns


@styled
def heat_map(
    panels: Mapping[str, Mapping[tuple[str, str], float | None]],
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    width: float = WIDTH,
    across: int | None = None,
) -> Figure:
    """For each title a map of shares, written in percent; as for SCAN, by what a phrase does and how often.

    panels: title → (row, column) → a share from 0 to 1; what is not there, or no number, stays empty
    rows, columns: their names in order; without them as they come
    across: panels beside each other; without it as many as there is room for
    """
    rows = rows or list(dict.fromkeys(row for some in panels.values() for row, _ in some))
    columns = columns or list(dict.fromkeys(column for some in panels.values() for _, column in some))
    if not panels or not rows or not columns:
        return nothing(width)
    names = [shortened(row, 0.4 * width) for row in rows]
    left, titles = max(map(span, names)) + 0.1, LIKELY * max(map(span, panels))
    across = across or max(1, min(len(panels), int((width - left) / max(CELL * len(columns) + GAP, titles))))
    wide = min((width - left) / across - GAP, max(1.1 * len(columns), titles))
    cell = wide / len(columns)
    is_level = max(span(column, SMALL) for column in columns) <= cell
    below = NAMES if is_level else turned(columns, cell)
    above = TITLE * max(1 + title.count("\n") for title in panels) + below
    high = above + HIGH * len(rows) + GAP
    figure = Figure(figsize=(width, high * -(-len(panels) // across)))
    for n, (title, shares) in enumerate(panels.items()):
        line, place = divmod(n, across)
        axes = panel(figure, left + place * (wide + GAP), line * high + above, wide, HIGH * len(rows))
        lines = (shortened(line, (wide + GAP) / LIKELY) for line in title.split("\n"))
        axes.set_title("\n".join(lines), pad=72 * (below if shares else 0) + 3)
        _map(axes, shares, rows, columns, size=min(SMALL + 1, 72 * cell / 3.6))
        if shares:
            _name(axes, columns, cell, is_level)
        if not place:
            for y, row in enumerate(names):
                axes.text(-0.1 / cell, y + 0.5, row, ha="right", va="center", fontsize=SIZE)
    return figure


def _name(axes: Axes, columns: Sequence[str], cell: float, is_level: bool) -> None:
    """The columns, of so many inches each; upright where their names are longer."""
    if not is_level:
        heading(axes, columns, cell, -0.15, is_above=True)
        return
    for x, column in enumerate(columns):
        axes.text(x + 0.5, -0.15, column, ha="center", va="bottom", fontsize=SMALL)


def _map(
    axes: Axes, shares: Mapping[tuple[str, str], float | None], rows: Sequence[str], columns: Sequence[str], size: float
) -> None:
    """Without any shares, why there are none."""
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    if not shares:
        missing(axes)
        return
    for (y, row), (x, column) in product(enumerate(rows), enumerate(columns)):
        share, place = number(shares.get((row, column))), (x + 0.03, y + 0.04)
        if math.isnan(share):
            axes.add_patch(Rectangle(place, 0.94, 0.92, facecolor="none", edgecolor=RULE, alpha=0.5, linewidth=0.7))
            continue
        axes.add_patch(Rectangle(place, 0.94, 0.92, facecolor=HEAT(share), linewidth=0))
        text = f"{100 * share:.1f}"
        axes.text(x + 0.5, y + 0.5, text, ha="center", va="center", color=letters(HEAT(share)), fontsize=size)
