"""How well how many runs did, as in the paper's Table 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from torch_ctree.viewing.pictures.sheets import legend, nothing, settled, wrapped
from torch_ctree.viewing.pictures.style import FAINT, NOT_YET, OURS, PUBLISHED, SMALL, WIDTH, styled

BINS = 10
HERE: dict[str, Any] = {"facecolor": OURS}
PRINTED: dict[str, Any] = {"facecolor": "none", "edgecolor": PUBLISHED, "linewidth": 1.3}


class Counts(NamedTuple):
    """How many runs are in each tenth from 0 to 100 percent."""

    here: Sequence[int]
    published: Sequence[int] = ()
    """Nothing where nothing was; what follows the last tenth is left out."""


@styled
def seed_histogram(panels: Mapping[str, Counts], width: float = WIDTH, across: int | None = None) -> Figure:
    """For each title how many runs are in each tenth: bars of the runs here, beside them outlines of those published.

    across: panels beside each other; without it as many as there is room for
    """
    if not panels:
        return nothing(width)
    figure, grid = wrapped(len(panels), width, 1.7, 1.5, across)
    most = max([1, *(count for counts in panels.values() for some in counts for count in some[:BINS])])
    for axes, (title, counts) in zip(grid, panels.items(), strict=True):
        _bars(axes, counts.here, 0.05, HERE)
        _bars(axes, counts.published, 0.5, PRINTED)
        if not any(counts.here):
            axes.text(BINS / 2, most / 2, NOT_YET, ha="center", va="center", fontsize=SMALL, alpha=FAINT)
        axes.set(xlim=(-0.1, BINS + 0.1), ylim=(0, most * 1.06))
        axes.set_title(title)
        axes.set_xticks([0, BINS / 2, BINS], ["0", "50", "100 %"])
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=3, min_n_ticks=1))
        axes.grid(axis="y")
    marks = {"runs here": Patch(**HERE)}
    if any(counts.published for counts in panels.values()):
        marks["runs published"] = Patch(**PRINTED)
    legend(figure, marks)
    return settled(figure)


def _bars(axes: Axes, counts: Sequence[int], left: float, look: dict[str, Any]) -> None:
    """In the left or the right half of each tenth; no bar for nothing."""
    some = {n + left: count for n, count in enumerate(counts[:BINS]) if count}
    axes.bar(list(some), list(some.values()), width=0.45, align="edge", **look)
