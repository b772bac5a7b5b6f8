"""Figures and their panels, without pyplot: nothing is shown, and nothing has to be closed."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from torch_ctree.viewing.pictures.style import FAINT, NOT_YET, SMALL, span, styled

LINE = 0.21  # inches, of a legend


def sheet(width: float, height: float) -> Figure:
    """A figure of so many inches that finds room for what stands beside its axes."""
    return Figure(figsize=(width, height), layout="constrained")


def settled(figure: Figure) -> Figure:
    """With everything where it will stay, so that the same figure is drawn the same every time."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def wrapped(
    count: int, width: float, narrow: float, height: float, across: int | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure of so many panels, in as many lines as they need.

    narrow: how many inches a panel must have at least
    height: of one line of panels, in inches
    across: panels in a line, if not as many as there is room for
    """
    across = across or max(1, min(count, int(width / narrow)))
    down = -(-count // across)
    figure = sheet(width, height * down)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def legend(figure: Figure, marks: Mapping[str, Artist], **look: float) -> None:
    """What the marks are: below everything, for which the figure grows."""
    width, height = figure.get_size_inches()
    across = max(1, min(len(marks), int(width / (max(span(name, SMALL) for name in marks) + 0.65))))
    figure.set_size_inches(width, height + LINE * -(-len(marks) // across) + 0.12)
    figure.legend(list(marks.values()), list(marks), loc="outside lower center", ncols=across, **look)


def panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes without a frame at a place in inches from the left and from the top."""
    across, down = figure.get_size_inches()
    axes = figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))
    axes.set_axis_off()
    return axes


def missing(axes: Axes, why: str = NOT_YET) -> None:
    """An empty panel that says why."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, why, ha="center", va="center", alpha=FAINT, transform=axes.transAxes)


@styled
def nothing(width: float, why: str = NOT_YET) -> Figure:
    """A picture of nothing, that says why."""
    figure = sheet(width, 1)
    missing(figure.add_subplot(), why)
    return settled(figure)
