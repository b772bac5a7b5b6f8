"""Learning curves of many runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter, PercentFormatter

from torch_ctree.viewing.pictures.sheets import legend, nothing, settled, wrapped
from torch_ctree.viewing.pictures.style import WIDTH, colour, dashes, number, styled

Epochs = Sequence[Mapping[str, Any]]
"""The rows of a run's metrics.csv, as ``csv.DictReader`` gives them or as numbers."""
CURVES = ("train_loss", "validation_loss", "validation_accuracy", "validation_bleu")


@styled
def learning_curves(runs: Mapping[str, Epochs], columns: Sequence[str] = CURVES, width: float = WIDTH) -> Figure:
    """A panel for each column of metrics.csv, in it a line for each run, by epochs; a dot where the run ended.

    runs: by their names, such as "seed 0"
    columns: those that no run has are left out

    A line has a gap where there is no number, or none that is finite, and where an attempt begins anew.
    """
    curves = {column: [_curve(epochs, column) for epochs in runs.values()] for column in columns}
    curves = {column: some for column, some in curves.items() if any(ends for *_, ends in some)}
    if not curves:
        return nothing(width)
    figure, panels = wrapped(len(curves), width, narrow=2.3, height=2.3)
    for axes, (column, some) in zip(panels, curves.items(), strict=True):
        for n, (x, y, ends) in enumerate(some):
            axes.plot(x, y, color=colour(n), linestyle=dashes(n), linewidth=1.3)
            axes.plot(ends[:1], ends[1:], "o", color=colour(n), markersize=3.5, markeredgewidth=0)
        _scale(axes, column, [value for _, y, _ in some for value in y if math.isfinite(value)])
    if len(runs) > 1:
        legend(figure, dict(zip(runs, panels[0].lines[::2], strict=True)), handlelength=2.2)
    return settled(figure)


def _curve(epochs: Epochs, column: str) -> tuple[list[float], list[float], tuple[float, float] | tuple[()]]:
    """Epochs, values, and where the last of these is; not a number between two attempts."""
    x: list[float] = []
    y: list[float] = []
    attempts: list[Any] = [row.get("attempt") for row in epochs]
    for n, row in enumerate(epochs):
        if attempts[n] != attempts[max(0, n - 1)]:
            x.append(math.nan)
            y.append(math.nan)
        x.append(number(row.get("epoch", n + 1)))
        y.append(number(row.get(column)))
    ends = [(at, value) for at, value in zip(x, y, strict=True) if math.isfinite(at + value)]
    return x, y, ends[-1] if ends else ()


def _scale(axes: Axes, column: str, values: Sequence[float]) -> None:
    axes.set_title(column.replace("_", " "))
    axes.set_xlabel("epoch")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5, min_n_ticks=1))
    axes.grid(axis="y")
    if column.endswith(("accuracy", "agreement")):
        axes.set_ylim(-0.04, 1.04)
        axes.yaxis.set_major_formatter(PercentFormatter(1))
    elif min(values) > 0 and max(values) > 20 * min(values):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
