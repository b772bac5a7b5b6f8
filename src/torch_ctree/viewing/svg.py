"""Trees as SVG: for pages, where each vertex can be chosen, and for files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from itertools import chain, islice
from typing import TYPE_CHECKING

from torch_ctree.data.errors import count
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.layout import TOUCH, Box, Layout, Place, Point, Text, layout, near
from torch_ctree.viewing.look import PLAIN, Look, colour, ink
from torch_ctree.viewing.text import percent, visible
from torch_ctree.viewing.tree import Spot, preorder

if TYPE_CHECKING:
    from nltk import Tree

CHOSEN = "#d55e00"
"""Of the frame around what is chosen: to be told from the page, light or dark, whatever colours one sees."""
FONT = "system-ui,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans',Arial,sans-serif"
STYLE = (
    ".ctree-tree .vertex{cursor:pointer;outline:none}"
    ".ctree-tree .branch{fill:none;stroke:currentColor;stroke-opacity:.5;stroke-width:1.25;pointer-events:none}"
    ".ctree-tree .hit{fill:none;pointer-events:all}"
    ".ctree-tree .vertex:hover .hit{stroke:currentColor;stroke-opacity:.5}"
    f".ctree-tree .vertex:focus-visible .hit,.ctree-tree .vertex.chosen .hit"
    f"{{stroke:{CHOSEN};stroke-opacity:1;stroke-width:2}}"
)
QUOTED = 6
"""Words of a long constituent that are read out."""


def svg(tree: Vertex | Tree | str, look: Look = PLAIN, *, title: str = "", chosen: str | None = None) -> str:
    """A drawing that scales, for light and dark pages: it has the text colour of where it stands.

    Each vertex is a group of class ``vertex`` that can be clicked and tabbed to, with its path in ``data-path``.

    title: what is read out in place of the drawing
    chosen: the path of the vertex that is framed
    """
    drawn = layout(tree, look)
    words = (visible(place.vertex.word or "") for place in drawn.places if not place.vertex.children)
    return picture(
        drawn.width, drawn.height, title or f"Tree of: {' '.join(words)}", group(drawn, chosen) + notes(drawn)
    )


def still(drawing: str) -> str:
    """Of a drawing, or of several, what is for looking at, where nothing is to be chosen."""
    plain = re.sub(r'<rect class="hit"[^>]*>', "", drawing)
    return re.sub(r'<g class="vertex[^>]*>', "<g>", plain).replace('role="group"', 'role="img"', 1)


def picture(width: float, height: float, title: str, content: str) -> str:
    """A whole SVG."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="ctree-tree" role="group" direction="ltr" xml:space="preserve" '
        f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'font-family="{FONT}" fill="currentColor"><title>{escape(visible(title))}</title>'
        f"<style>{STYLE}</style>{content}</svg>"
    )


def group(drawn: Layout, chosen: str | None = None) -> str:
    """The vertices of a drawing."""
    return "".join(_vertex(*pair, chosen) for pair in zip(drawn.places, _said(drawn), strict=True))


def notes(drawn: Layout) -> str:
    """What its numbers and colours mean."""
    scale = (
        f'<rect {_box(box)} fill="{colour(share)}" stroke="currentColor" stroke-width=".5"/>'
        for box, share in drawn.swatches
    )
    return "".join([*scale, *map(line, drawn.notes)])


def line(text: Text, fill: str = "") -> str:
    """One line of text."""
    anchor = "" if text.anchor == "start" else f' text-anchor="{text.anchor}"'
    colours = (f' fill="{fill}"' if fill else "") + (' fill-opacity=".75"' if text.is_faint else "")
    place = f'x="{_n(text.x)}" y="{_n(text.y)}" font-size="{_n(text.size)}"'
    return f"<text {place}{anchor}{colours}>{escape(text.content)}</text>"


def _vertex(place: Place, said: str, chosen: str | None) -> str:
    kind = "vertex chosen" if place.path == chosen else "vertex"
    inside = "" if place.sure is None else ink(place.sure)
    texts = "".join(line(text, "" if text.is_faint else inside) for text in place.texts)
    return (
        f'<g class="{kind}" data-path="{place.path}" tabindex="0" role="button" aria-label="{escape(said)}">'
        f"{_branch(place.branch)}{_mark(place)}{_hit(place.box)}{texts}</g>"
    )


def _branch(points: Sequence[Point]) -> str:
    if not points:
        return ""
    ways = [f"M{_p(points[0])}"]
    for start, corner, end in zip(points, points[1:], points[2:], strict=False):
        ways.append(f"L{_p(near(corner, start))}Q{_p(corner)} {_p(near(corner, end))}")
    return f'<path class="branch" d="{"".join(ways)}L{_p(points[-1])}"/>'


def _mark(place: Place) -> str:
    """A dot, or a frame around a label."""
    if not place.vertex.children:
        return ""
    box = place.box
    if place.is_dot:
        return f'<circle cx="{_n(box.x + box.width / 2)}" cy="{_n(box.y + box.height / 2)}" r="{_n(box.width / 2)}"/>'
    fill = "none" if place.sure is None else colour(place.sure)
    return f'<rect {_box(box)} rx="{_n(box.height / 2)}" fill="{fill}" stroke="currentColor"/>'


def _hit(box: Box) -> str:
    """What takes clicks, and is framed; around a dot too it is large enough for a finger."""
    width, height = max(box.width + 6, TOUCH), max(box.height + 2, TOUCH)
    corner = Point(box.x + (box.width - width) / 2, box.y + (box.height - height) / 2)
    return f'<rect class="hit" {_box(Box(*corner, width, height))} rx="5"/>'


def _said(drawn: Layout) -> list[str]:
    """What is read out at each vertex."""
    spots = preorder(drawn.places[0].vertex)
    first: list[list[str]] = [[] for _ in spots]
    counts = [1] * len(spots)
    for n in reversed(range(len(spots))):
        children = spots[n].children
        if children:
            counts[n] = sum(counts[child] for child in children)
            first[n] = list(islice(chain.from_iterable(first[child] for child in children), QUOTED))
        else:
            first[n] = [visible(spots[n].vertex.word or "")]
    return [", ".join(_what(*each)) for each in zip(spots, first, counts, strict=True)]


def _what(spot: Spot, first: list[str], total: int) -> Iterable[str]:
    vertex = spot.vertex
    words = " ".join(first)
    if not vertex.children:
        yield f"word: {words}"
    else:
        label = f"{visible(vertex.label)}: " if visible(vertex.label).isalnum() or "×" in vertex.label else ""
        yield (
            f"constituent: {label}{words}"
            if total <= QUOTED
            else f"constituent: {label}{words} …, {count(total, 'word')}"
        )
    for name, share in (
        ("posterior probability", vertex.confidence if vertex.children else None),
        ("probability of a split", vertex.split if vertex.children else None),
        ("probability of the word", vertex.emission),
    ):
        if share is not None:
            yield f"{name} {percent(share)}"


def _box(box: Box) -> str:
    return f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'


def _p(point: Point) -> str:
    return f"{_n(point.x)} {_n(point.y)}"


def _n(length: float) -> str:
    """In tenths, which nobody sees, and so in few characters."""
    return f"{length:.1f}".removesuffix(".0")
