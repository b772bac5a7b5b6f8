"""Figures and their panels, without pyplot: nothing is shown, and nothing has to be closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from torch_ctree.data import DataError
from torch_ctree.viewing.pictures.style import FAINT, NOT_YET, SIZE, SMALL, span, styled

LINE = 0.21  # inches, of a legend


def check_words(words: Sequence[str], count: int, why: str) -> None:
    """As many as the numbers are of."""
    if len(words) != count:
        raise DataError(f"words: got {len(words)}; expected {count}, {why}")


def sheet(width: float, height: float) -> Figure:
    """A figure of so many inches that finds room for what stands beside its axes."""
    return Figure(figsize=(width, height), layout="constrained")


def settled(figure: Figure) -> Figure:
    """With everything where it will stay, so that the same figure is drawn the same every time."""
    if engine := figure.get_layout_engine():
        engine.execute(figure)
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


def heading(axes: Axes, words: Sequence[str], room: float, y: float, is_above: bool) -> None:
    """Words in a row at 0.5, 1.5, …; upright where they do not fit into so many inches each."""
    is_turned = max(map(span, words), default=0) > 0.94 * room
    size = min(SIZE, 72 * room / 1.15) if is_turned else SIZE
    look = {"va": "bottom" if is_above else "top", "ha": "center", "rotation": 90 if is_turned else 0, "fontsize": size}
    for x, word in enumerate(words):
        axes.text(x + 0.5, y, word, **look)


def turned(words: Sequence[str], room: float) -> float:
    """How many inches that takes upwards."""
    longest = max(map(span, words), default=0)
    return (longest if longest > 0.94 * room else LINE) + 0.08


def key(figure: Figure, left: float, top: float, colours: Sequence[str], low: str, high: str) -> None:
    """What the colours of cells mean, from the lowest to the highest."""
    axes = panel(figure, left, top, 1.2, 0.14)
    axes.set(xlim=(0, len(colours)), ylim=(0, 1))
    for x, fill in enumerate(colours):
        axes.add_patch(Rectangle((x, 0), 1, 1, facecolor=fill, linewidth=0))
    axes.text(len(colours) + 0.3, 0.5, f"{low} to {high}", ha="left", va="center", fontsize=SMALL)


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
