"""Where the vertices and words of a tree stand: the same in SVG, PNG and PDF.

A tree grows along one axis, downwards or sideways, and its words follow one another across it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.look import PLAIN, Look
from torch_ctree.viewing.text import ems, percent, visible
from torch_ctree.viewing.tree import Spot, preorder

if TYPE_CHECKING:
    from nltk import Tree

WORD, LABEL, NUMBER = 14.0, 12.0, 11.0
"""Font sizes; all lengths are in the same unit, a pixel of a screen."""
MARGIN = 10.0
DOT = 3.0
"""The radius of a vertex that has nothing to say."""
PILL = 17.0
"""The height of one that has."""
GAP = 14.0
"""Between words in a row."""
FOOT = 8.0
"""From a label to where the lines to its children part."""
ROUND = 7.0
"""The radius of the corners of branches."""
LINE = 22.0
"""From word to word where they stand below one another."""
FAR = 200.0
"""From a word to its number in a column, at most."""
TOUCH = 20.0
"""The least that can be hit with a finger."""
WIDEST = 900.0
"""Words stand in a row if it is not wider."""
DEEPEST = 1600.0
"""What the levels of a tree share, if that is room enough."""
NOTE_LINE = 18.0
SWATCHES = 5


class Point(NamedTuple):
    """From the left, from above."""

    x: float
    y: float


class Box(NamedTuple):
    """Its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float


class Text(NamedTuple):
    """One line; y is its baseline."""

    x: float
    y: float
    content: str
    size: float
    anchor: Literal["start", "middle", "end"] = "middle"
    is_faint: bool = False


@dataclass(frozen=True)
class Place:
    """A vertex with the line that comes to it from above."""

    vertex: Vertex
    path: str
    box: Box
    """What it takes, numbers beside it aside."""
    branch: tuple[Point, ...]
    """Its ends, with the corners between them; nothing at the root."""
    texts: tuple[Text, ...]
    sure: float | None
    """The confidence that colours it."""

    @property
    def is_dot(self) -> bool:
        """A vertex that has nothing to say."""
        return bool(self.vertex.children) and self.box.width == 2 * DOT


class Swatch(NamedTuple):
    """A piece of the scale of colours."""

    box: Box
    share: float


@dataclass(frozen=True)
class Layout:
    """A drawing before anyone draws it."""

    width: float
    height: float
    is_sideways: bool
    places: tuple[Place, ...]
    """In preorder."""
    notes: tuple[Text, ...]
    swatches: tuple[Swatch, ...]


@dataclass
class Node:
    """A vertex while it is placed."""

    spot: Spot
    label: str
    number: str
    sure: float | None
    half: Point
    """Half of what it takes itself."""
    above: int = 0
    """How many levels are below it."""
    before: float = 0.0
    after: float = 0.0
    """What it needs across, with all below it, on both sides of its middle."""
    offset: float = 0.0
    """Its middle across, from its parent's; of the root from the edge."""
    along: float = 0.0

    def half_along(self, is_sideways: bool) -> float:
        """Half of what it takes in the direction that the tree grows."""
        return self.half.x if is_sideways else self.half.y


def layout(tree: Vertex | Tree | str, look: Look = PLAIN) -> Layout:
    """Place everything that a drawing shows."""
    return noted(placed(tree, look), look.notes(look.shown(tree)))


def placed(tree: Vertex | Tree | str, look: Look = PLAIN) -> Layout:
    """Place a tree, without what its numbers and colours mean."""
    nodes = [_node(spot, look) for spot in preorder(look.shown(tree))]
    is_sideways = look.sideways
    if is_sideways is None:
        _spread(nodes, is_sideways=False)
        is_sideways = nodes[0].before + nodes[0].after > WIDEST
    _spread(nodes, is_sideways)
    step = _step(nodes, is_sideways)
    for node in nodes:
        node.along = (nodes[0].above - node.above) * step
    return _drawn(nodes, is_sideways)


def near(corner: Point, end: Point) -> Point:
    """Where the corner of a branch begins to be round, on the way to the next point."""
    length = abs(end.x - corner.x) + abs(end.y - corner.y)  # one of them is 0
    share = min(ROUND / length, 0.5) if length else 0.0
    return Point(corner.x + (end.x - corner.x) * share, corner.y + (end.y - corner.y) * share)


def _node(spot: Spot, look: Look) -> Node:
    vertex, number, sure = spot.vertex, look.number(spot.vertex), look.sure(spot.vertex)
    if not vertex.children:
        word = visible(vertex.word or "")
        return Node(spot, word, number, None, Point(ems(word) * WORD / 2, WORD * 0.6))
    label = " ".join(part for part in (look.label(vertex), "" if sure is None else percent(sure)) if part)
    half = Point(ems(label) * LABEL / 2 + 6, PILL / 2) if label else Point(DOT, DOT)
    return Node(spot, label, number, sure, half)


def _spread(nodes: list[Node], is_sideways: bool) -> None:
    """Across: the words one after another, each vertex in the middle of its children."""
    for node in reversed(nodes):
        children = [nodes[n] for n in node.spot.children]
        node.before, node.after = _reach(node, is_sideways)
        if not children:
            continue
        node.above = 1 + max(child.above for child in children)
        middles = [children[0].before]
        for left, right in pairwise(children):
            middles.append(middles[-1] + left.after + right.before)
        middle = (middles[0] + middles[-1]) / 2
        for child, place in zip(children, middles, strict=True):
            child.offset = place - middle
        node.before = max(node.before, middle)
        node.after = max(node.after, middles[-1] + children[-1].after - middle)
    nodes[0].offset = nodes[0].before


def _reach(node: Node, is_sideways: bool) -> tuple[float, float]:
    """What a vertex itself needs across, before and after its middle."""
    if is_sideways:
        is_higher = bool(node.number and node.spot.vertex.children)
        return max(LINE / 2, (node.half.y + NUMBER) * is_higher), LINE / 2
    half, number = max(node.half.x, TOUCH / 2), ems(node.number) * NUMBER
    if node.spot.vertex.children:
        return half + GAP / 2, max(half, number + 5) + GAP / 2
    return max(half, number / 2) + GAP / 2, max(half, number / 2) + GAP / 2


def _step(nodes: list[Node], is_sideways: bool) -> float:
    """From level to level; a deep tree has less, or it would have no end, but room for what it says."""
    inner = [node for node in nodes if node.spot.vertex.children]
    pill = max((2 * node.half.x for node in inner if node.label), default=0.0)
    number = max((ems(node.number) * NUMBER + 10 for node in inner), default=0.0)
    has_numbers = number > 10
    if is_sideways:
        most, least = max(26.0, pill + 2 * FOOT + 4, number + pill / 2 + FOOT), max(pill + FOOT, number + pill / 2)
    else:
        most, least = 30.0 + 8.0 * bool(pill) + 6.0 * has_numbers, (PILL + 3) * bool(pill) + (NUMBER + 4) * has_numbers
    return max(5.0, least, min(most, DEEPEST / max(nodes[0].above, 1)))


def _drawn(nodes: list[Node], is_sideways: bool) -> Layout:
    """In a drawing of its own size, before there are notes."""
    across: list[float] = []
    for node in nodes:
        across.append(node.offset + (0.0 if node.spot.parent is None else across[node.spot.parent]))
    root = nodes[0]
    is_inner = bool(root.spot.vertex.children)
    edge = max(root.half.x, ems(root.number) * NUMBER - 2) if is_sideways and is_inner else 0.0
    head = 15.0 * bool(root.number and is_inner and not is_sideways)
    column = max((2 * node.half.x for node in nodes if not node.spot.vertex.children), default=0.0)
    places = []
    for node, here in zip(nodes, across, strict=True):
        parent = node.spot.parent
        centre = _turned(node.along, here, is_sideways)
        branch = ()
        if parent is not None:
            branch = _branch(nodes[parent], across[parent], node, here, is_sideways)
        if node.spot.vertex.children:
            box, texts = _inner(node, centre, is_sideways)
        else:
            box, texts = _row(node, centre, column) if is_sideways else _leaf(node, centre)
        places.append(Place(node.spot.vertex, node.spot.path, box, branch, texts, node.sure))
    right = max(_right(place) for place in places)
    bottom = max(max([place.box.y + place.box.height, *(text.y + 3 for text in place.texts)]) for place in places)
    extent = nodes[0].before + nodes[0].after
    size = (right, max(extent, bottom)) if is_sideways else (max(right, extent), bottom)
    moved = tuple(_moved(place, MARGIN + edge, MARGIN + head) for place in places)
    return Layout(size[0] + edge + 2 * MARGIN, size[1] + head + 2 * MARGIN, is_sideways, moved, (), ())


def _turned(along: float, across: float, is_sideways: bool) -> Point:
    return Point(along, across) if is_sideways else Point(across, along)


def _branch(parent: Node, there: float, node: Node, here: float, is_sideways: bool) -> tuple[Point, ...]:
    """From a parent across to where its child is, then along to the child; straight where that is below the parent."""
    half = parent.half if parent.label else Point(0.0, 0.0)
    start, side = (parent.along + half.x, 0.0) if is_sideways else (parent.along + half.y, half.x)
    end = node.along - (node.half_along(is_sideways) if node.spot.vertex.children else 3.0)
    if abs(here - there) <= side + 0.5:
        way = [(start, here)]
    elif is_sideways and parent.label:  # words are wide: there is no room above and below for lines
        way = [(start, there), (start + FOOT, there), (start + FOOT, here)]
    else:
        way = [(parent.along, there + side if here > there else there - side), (parent.along, here)]
    return tuple(_turned(*point, is_sideways) for point in [*way, (end, here)])


def _inner(node: Node, centre: Point, is_sideways: bool) -> tuple[Box, tuple[Text, ...]]:
    box = Box(centre.x - node.half.x, centre.y - node.half.y, 2 * node.half.x, 2 * node.half.y)
    texts = [Text(centre.x, centre.y + 0.35 * LABEL, node.label, LABEL)] if node.label else []
    if node.number:
        y = centre.y - (node.half.y + 3.5 if node.label else 5.0)
        beside = (centre.x - 4, "end") if is_sideways else (centre.x + 4, "start")
        texts.append(Text(beside[0], y, node.number, NUMBER, "end" if is_sideways else "start", is_faint=True))
    return box, tuple(texts)


def _leaf(node: Node, centre: Point) -> tuple[Box, tuple[Text, ...]]:
    """A word below its branch, and its number below it."""
    texts = [Text(centre.x, centre.y + 0.95 * WORD, node.label, WORD)]
    if node.number:
        texts.append(Text(centre.x, centre.y + WORD + NUMBER + 1, node.number, NUMBER, is_faint=True))
    width = max(2 * node.half.x + 4, ems(node.number) * NUMBER, TOUCH)
    return Box(centre.x - width / 2, centre.y - 1, width, WORD + NUMBER + 5 if node.number else TOUCH), tuple(texts)


def _row(node: Node, centre: Point, column: float) -> tuple[Box, tuple[Text, ...]]:
    """A word beside its branch, and its number in a column."""
    base, end = centre.y + 0.35 * WORD, centre.x + 4 + 2 * node.half.x
    texts = [Text(centre.x + 4, base, node.label, WORD, "start")]
    if node.number:
        start = centre.x + 4 + max(2 * node.half.x, min(column, FAR)) + 8
        texts.append(Text(start, base, node.number, NUMBER, "start", is_faint=True))
        end = start + ems(node.number) * NUMBER
    return Box(centre.x, centre.y - TOUCH / 2, max(end + 4 - centre.x, TOUCH), TOUCH), tuple(texts)


def _right(place: Place) -> float:
    ends = [text.x + ems(text.content) * text.size for text in place.texts if text.anchor == "start"]
    return max([place.box.x + place.box.width, *ends])


def _moved(place: Place, x: float, y: float) -> Place:
    return replace(
        place,
        box=place.box._replace(x=place.box.x + x, y=place.box.y + y),
        branch=tuple(Point(point.x + x, point.y + y) for point in place.branch),
        texts=tuple(text._replace(x=text.x + x, y=text.y + y) for text in place.texts),
    )


def noted(drawn: Layout, notes: Sequence[str]) -> Layout:
    """With what its numbers and colours mean below it."""
    if not notes:
        return drawn
    y = drawn.height + 8
    texts, swatches = [], []
    for n, note in enumerate(notes):
        start = MARGIN
        if "colour" in note:
            swatches = [
                Swatch(Box(start + 14 * k, y + NOTE_LINE * n - 9, 14, 11), k / (SWATCHES - 1)) for k in range(SWATCHES)
            ]
            start += 14 * SWATCHES + 6
        texts.append(Text(start, y + NOTE_LINE * n, note, NUMBER, "start", is_faint=True))
    width = max(text.x + ems(text.content) * text.size for text in texts) + MARGIN
    height = y + NOTE_LINE * (len(notes) - 1) + MARGIN
    return replace(drawn, width=max(drawn.width, width), height=height, notes=tuple(texts), swatches=tuple(swatches))
