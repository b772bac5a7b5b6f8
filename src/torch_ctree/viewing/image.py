"""Trees as PNG and PDF, placed as in SVG."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.layout import Layout, Point, Text, layout, near
from torch_ctree.viewing.look import DARK, PLAIN, Look, colour, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
    from matplotlib.path import Path
    from nltk import Tree

INCH = 96.0
"""Lengths in an inch, as on screens."""
SHARP = 2.0
"""Pixels for each length, so that a picture is sharp on fine screens too."""
MOST_PIXELS, LONGEST = 40e6, 60_000
"""Larger pictures get fewer pixels: most programs cannot open them."""
POINT = 72 / INCH
"""A length in points, as fonts and lines are measured."""
GREY, LINE = "#595959", "#808080"
FONTS = (
    "DejaVu Sans",
    "Noto Sans",
    "Noto Sans CJK JP",
    "Noto Sans CJK SC",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Malgun Gothic",
    "Arial Unicode MS",
    "Noto Emoji",
    "Segoe UI Emoji",
)
"""What has not the letter of a word is followed by the next; those that are not installed are left out."""


def png(tree: Vertex | Tree | str, look: Look = PLAIN) -> bytes:
    """A picture on white."""
    drawn = layout(tree, look)
    sharp = min(SHARP, (MOST_PIXELS / (drawn.width * drawn.height)) ** 0.5, LONGEST / max(drawn.width, drawn.height))
    return _saved(drawn, format="png", dpi=INCH * sharp, metadata={"Software": None})


def pdf(tree: Vertex | Tree | str, look: Look = PLAIN) -> bytes:
    """A page as large as the tree, whose text is text."""
    return _saved(layout(tree, look), format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None})


def _saved(drawn: Layout, **how: Any) -> bytes:
    import matplotlib as mpl  # noqa: PLC0415  (takes a second)
    from matplotlib import font_manager  # noqa: PLC0415

    there = set(font_manager.fontManager.get_font_names())
    style: dict[Any, Any] = {
        "font.family": [name for name in FONTS if name in there],
        "pdf.fonttype": 42,
        "path.simplify": False,
    }
    file = BytesIO()
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()  # a user's settings are for charts
        mpl.rcParams.update(style)
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)  # a box stands there
        _figure(drawn).savefig(file, **how)
    return file.getvalue()


def _figure(drawn: Layout) -> Figure:
    from matplotlib.collections import PathCollection  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(drawn.width / INCH, drawn.height / INCH), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, drawn.width), ylim=(drawn.height, 0))
    axes.set_axis_off()
    branches = [_way(place.branch) for place in drawn.places if place.branch]
    axes.add_collection(
        PathCollection(branches, facecolors="none", edgecolors=LINE, linewidths=1.25 * POINT, capstyle="round")
    )
    for patch in _marks(drawn):
        axes.add_patch(patch)
    for place in drawn.places:
        for text in place.texts:
            _write(axes, text, DARK if place.sure is None else ink(place.sure))
    for note in drawn.notes:
        _write(axes, note, GREY)
    return figure


def _way(points: Sequence[Point]) -> Path:
    """A line with round corners."""
    from matplotlib.path import Path  # noqa: PLC0415

    corners = zip(points, points[1:], points[2:], strict=False)
    turns = [turn for start, at, end in corners for turn in (near(at, start), at, near(at, end))]
    codes = [Path.LINETO, Path.CURVE3, Path.CURVE3] * (len(points) - 2)
    return Path([points[0], *turns, points[-1]], [Path.MOVETO, *codes, Path.LINETO])


def _marks(drawn: Layout) -> Iterator[Patch]:
    """Dots, labels' frames, the scale of colours."""
    from matplotlib.patches import Circle, FancyBboxPatch, Rectangle  # noqa: PLC0415

    for place in drawn.places:
        x, y, width, height = place.box
        if place.is_dot:
            yield Circle((x + width / 2, y + height / 2), width / 2, color=DARK)
        elif place.vertex.children:
            fill = "white" if place.sure is None else colour(place.sure)
            round_ = f"round,pad=0,rounding_size={height / 2}"
            yield FancyBboxPatch(
                (x, y), width, height, boxstyle=round_, facecolor=fill, edgecolor=DARK, linewidth=POINT
            )
    for box, share in drawn.swatches:
        yield Rectangle(
            (box.x, box.y), box.width, box.height, facecolor=colour(share), edgecolor=DARK, linewidth=POINT / 2
        )


def _write(axes: Axes, text: Text, ink: str) -> None:
    place: dict[str, Any] = {"ha": {"start": "left", "middle": "center", "end": "right"}[text.anchor], "va": "baseline"}
    colour = GREY if text.is_faint else ink
    axes.text(text.x, text.y, text.content, size=text.size * POINT, color=colour, parse_math=False, **place)
