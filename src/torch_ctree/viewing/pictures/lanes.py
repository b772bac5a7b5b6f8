"""Every run by itself, and what was published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from torch_ctree.viewing.pictures.sheets import legend, nothing, settled, wrapped
from torch_ctree.viewing.pictures.style import (
    ACCENT,
    FAINT,
    INK,
    NOT_YET,
    OURS,
    PUBLISHED,
    SIZE,
    SMALL,
    WIDTH,
    number,
    span,
    styled,
)

MARKS = {
    "published: mean ± standard deviation": Line2D([], [], color=PUBLISHED, marker="D", markersize=4.5),
    "a run here": Line2D([], [], color=OURS, marker="o", markersize=4.5, linewidth=0),
    "mean of the runs here": Line2D([], [], color=INK, marker="|", markersize=11, linewidth=0),
}


class Lane(NamedTuple):
    """The runs of one model on one task."""

    values: Sequence[float | None] = ()
    """Of each run, in the order of the seeds. One that is no number is that of a run that failed."""
    published: tuple[float, float] | None = None
    """Mean and standard deviation."""
    failed: int = 0
    """Further runs, which have no value."""


@styled
def every_seed(
    panels: Mapping[str, Mapping[str, Lane]], scale: float = 100, width: float = WIDTH, across: int | None = None
) -> Figure:
    """A panel for each title, in it a lane for each model: a dot for each run, lower seeds higher up.

    panels: title → model → its runs
    scale: where the values end, which begin at 0
    across: panels beside each other; without it as many as there is room for
    """
    names = list(dict.fromkeys(name for lanes in panels.values() for name in lanes))
    if not names:
        return nothing(width)
    room = max(map(span, names))
    across = across or max(1, min(len(panels), int((width - room) / max(1.3, *map(span, panels)))))
    figure, grid = wrapped(len(panels), width, 1, 0.6 + 0.5 * len(names), across)
    for n, (axes, (title, lanes)) in enumerate(zip(grid, panels.items(), strict=True)):
        for y, name in enumerate(names):
            _lane(axes, y, lanes.get(name, Lane()), scale)
        axes.set(xlim=(-0.06 * scale, 1.06 * scale), ylim=(len(names) - 0.5, -0.5))
        axes.set_title(title)
        axes.set_xticks([0, scale / 2, scale])
        axes.set_yticks(range(len(names)), [""] * len(names) if n % across else names, fontsize=SIZE)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
    legend(figure, MARKS)
    return settled(figure)


def _lane(axes: Axes, y: int, lane: Lane, scale: float) -> None:
    """Above the line what was published, below it the runs."""
    if lane.published:
        middle, spread = lane.published
        axes.errorbar(middle, y - 0.27, xerr=spread, fmt="D", color=PUBLISHED, markersize=4.5, capsize=2.5)
    values = [value for value in map(number, lane.values) if not math.isnan(value)]
    failed = lane.failed + len(lane.values) - len(values)
    if values:
        places = [y + 0.36 * n / max(1, len(values) - 1) - 0.1 for n in range(len(values))]
        axes.plot(values, places, "o", color=OURS, markersize=4.5, alpha=0.75, markeredgewidth=0)
        axes.plot([mean(values)] * 2, [y - 0.17, y + 0.33], color=INK, linewidth=1.2, zorder=1.5)
    elif not failed:
        axes.text(scale / 2, y + 0.12, NOT_YET, ha="center", va="center", fontsize=SMALL, alpha=FAINT)
    if failed:
        said = f"{failed} failed"
        axes.text(scale / 2, y + 0.42, said, ha="center", va="center", fontsize=SMALL, color=ACCENT)
