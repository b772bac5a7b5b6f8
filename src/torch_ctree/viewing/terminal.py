"""Trees drawn with characters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

from torch_ctree.trees.vertex import LABEL, Vertex
from torch_ctree.viewing.look import PLAIN, Look, within
from torch_ctree.viewing.text import percent, visible, width
from torch_ctree.viewing.tree import Spot, preorder

if TYPE_CHECKING:
    from nltk import Tree

GAP = 2  # blanks between neighbouring words
LEAST = 10  # columns for branches, where the tree is deeper than the room
FAINT, NAME, BOLD = "2", "36", "1"
STEPS = ("38;5;16;48;5;230", "38;5;16;48;5;151", "38;5;16;48;5;73", "38;5;231;48;5;31", "38;5;231;48;5;18")
"""From not confident to confident, as codes of terminals with 256 colours."""


class Piece(NamedTuple):
    """Characters with their style, as a terminal is told it; the empty one is that of the text around it."""

    text: str
    style: str = ""


class Placed(NamedTuple):
    """What stands from one column to before another."""

    start: int
    end: int
    pieces: list[Piece]


@dataclass
class Node:
    """A vertex while it is placed."""

    spot: Spot
    name: list[Piece]
    number: str
    """Of a word; that of another vertex is in its name."""
    room: int = 0
    """Columns that it takes with all below it."""
    anchor: int = 0
    """The column, of these, where a line from above arrives."""
    start: int = 0
    """Its first column, of those of its parent."""
    height: int = 0
    """Lines from here to the words."""

    @property
    def shown(self) -> list[Piece]:
        """Its name; a point where it has none and a line ends."""
        return self.name or [Piece(LABEL)]

    @property
    def width(self) -> int:
        """The columns of its name."""
        return _width(self.name)


def draw(tree: Vertex | Tree | str, look: Look = PLAIN, room: int | None = None, colour: bool = False) -> str:
    """A tree with its words, in order, on the last line; below one another, on the right, where that is too wide.

    room: columns; however many the words in a row need if there is no limit
    colour: with the codes that colour a terminal

    >>> from nltk import Tree
    >>> print(draw(Tree.fromstring("(S (NP the dog) barks)")))
           S
       ┌───┴────┐
       NP       │
     ┌─┴──┐     │
    the  dog  barks
    >>> print(draw(Tree.fromstring("(S (NP the dog) barks)"), Look(sideways=True)))
    S─┬─NP─┬─ the
      │    └─ dog
      └────── barks
    """
    shown = look.shown(tree)
    nodes = [_node(spot, look) for spot in preorder(shown)]
    is_sideways = look.sideways
    if not is_sideways:
        _spread(nodes)
        is_sideways = is_sideways is None and room is not None and nodes[0].room > room
    lines = _outline(nodes, room) if is_sideways else _upright(nodes)
    notes = [line for note in look.notes(shown) for line in _note(note, room)]
    return "\n".join(_written(line, colour) for line in [*lines, *notes])


def _node(spot: Spot, look: Look) -> Node:
    vertex, number = spot.vertex, look.number(spot.vertex)
    if not vertex.children:
        return Node(spot, [Piece(visible(vertex.word or ""), BOLD)], number)
    name = [Piece(look.label(vertex), NAME), Piece(number, FAINT)]
    if (sure := look.sure(vertex)) is not None:
        name.insert(1, Piece(percent(sure), STEPS[round(within(sure) * (len(STEPS) - 1))]))
    return Node(spot, _joined(name), "")


def _note(note: str, room: int | None) -> Iterator[list[Piece]]:
    """As many lines as it needs."""
    for line in [note] if room is None else wrap(note, max(1, room)):
        yield [Piece(line, FAINT)]


def _joined(pieces: list[Piece]) -> list[Piece]:
    """With blanks between those that are not empty."""
    there = [piece for piece in pieces if piece.text]
    return [part for n, piece in enumerate(there) for part in ([Piece(" "), piece] if n else [piece])]


def _width(pieces: list[Piece]) -> int:
    return sum(width(piece.text) for piece in pieces)


def _spread(nodes: list[Node]) -> None:
    """Words one after another, each vertex above the middle of its children."""
    for node in reversed(nodes):
        children = [nodes[n] for n in node.spot.children]
        if not children:
            node.room = max(node.width, width(node.number), 1)
            node.anchor = (node.room - 1) // 2
            continue
        ends = list(accumulate(child.room + GAP for child in children))
        for child, end in zip(children, ends, strict=True):
            child.start = end - GAP - child.room
        first, last = children[0], children[-1]
        node.anchor = (first.anchor + last.start + last.anchor) // 2
        node.room = max(ends[-1] - GAP, node.width, 1)
        node.height = 2 + max(child.height for child in children)


def _upright(nodes: list[Node]) -> Iterator[list[Piece]]:
    """With all words on one line, and their numbers below them."""
    words = nodes[0].height
    lines: list[list[Placed]] = [[] for _ in range(words + 2)]
    left: list[int] = []
    for node in nodes:
        parent = node.spot.parent
        left.append(node.start + (0 if parent is None else left[parent]))
        top, anchor = words - node.height, left[-1] + node.anchor
        lines[top].append(_centred(node.shown, left[-1], node))
        if node.spot.children:
            anchors = [left[-1] + nodes[n].start + nodes[n].anchor for n in node.spot.children]
            lines[top + 1].append(Placed(anchors[0], anchors[-1] + 1, [Piece(_bar(anchors, anchor), FAINT)]))
        elif node.number:
            lines[-1].append(_centred([Piece(node.number, FAINT)], left[-1], node))
        stem = Placed(anchor, anchor + 1, [Piece("│", FAINT)])
        for line in lines[top - _gap(nodes, node) : top]:
            line.append(stem)
    yield from map(_laid, lines if lines[-1] else lines[:-1])


def _gap(nodes: list[Node], node: Node) -> int:
    """Lines from that of its parent's branches to its own."""
    return 0 if node.spot.parent is None else nodes[node.spot.parent].height - 2 - node.height


def _centred(pieces: list[Piece], left: int, node: Node) -> Placed:
    """Above or below the anchor of a vertex, in its room."""
    needed = _width(pieces)
    start = left + max(0, min(node.anchor - (needed - 1) // 2, node.room - needed))
    return Placed(start, start + needed, pieces)


def _bar(anchors: list[int], middle: int) -> str:
    """From the first child to the last, joined to their parent."""
    first, last = anchors[0], anchors[-1]
    if first == last:
        return "│"
    bar = ["─"] * (last - first + 1)
    for n in anchors:
        bar[n - first] = "┬"
    bar[0], bar[-1] = "┌", "┐"
    bar[middle - first] = "┼" if middle in anchors else "┴"
    return "".join(bar)


def _laid(places: list[Placed]) -> list[Piece]:
    """What stands at which columns, from left to right, as one line."""
    line, end = [], 0
    for place in places:
        if place.end > place.start:
            line += [Piece(" " * (place.start - end)), *place.pieces]
            end = place.end
    return line


@dataclass(frozen=True)
class Columns:
    """Of a tree that grows sideways."""

    names: list[int]
    """What the names of each level need; nothing where they are listed."""
    starts: list[int]
    """Of each level."""
    apart: int
    """Columns between levels."""
    is_listed: bool
    """Each vertex has a line of its own, not the words alone."""

    @classmethod
    def of(cls, nodes: list[Node], apart: int, is_listed: bool) -> Columns:
        """Columns for all names."""
        names = [0] * (1 + max(node.spot.depth for node in nodes))
        for node in nodes:
            if node.spot.children and node.name and not is_listed:
                names[node.spot.depth] = max(names[node.spot.depth], node.width + 1)
        return cls(names, [0, *accumulate(name + 1 + apart for name in names[:-1])], apart, is_listed)

    def shown(self, nodes: list[Node]) -> list[Node]:
        """Those that have a line."""
        return nodes if self.is_listed else [node for node in nodes if not node.spot.children]

    def needed(self, nodes: list[Node]) -> int:
        """What the longest line needs."""
        starts = self.starts if self.is_listed else [self.starts[-1]] * len(self.starts)
        return max(starts[node.spot.depth] + _room(node) for node in self.shown(nodes))


def _room(node: Node) -> int:
    """What stands at the end of the lines of a vertex needs."""
    return 1 + node.width + (width(node.number) + 2 if node.number else 0)


def _outline(nodes: list[Node], room: int | None) -> Iterator[list[Piece]]:
    """From left to right, one line a word; where the names of vertices take too much room, one line a vertex.

    Of a tree too deep even for that each line leaves out the levels next to the root.
    """
    has_names = any(node.spot.children and node.name for node in nodes)
    ways = [Columns.of(nodes, apart, is_listed) for is_listed in (False, True)[: 1 + has_names] for apart in (1, 0)]
    fitting = (columns for columns in ways if room is None or columns.needed(nodes) <= room)
    if (columns := next(fitting, None)) is None:
        columns = ways[-1 - (not has_names)]
        yield from _scrolled(nodes, columns, room or 0)
        return
    words = max(node.width for node in columns.shown(nodes))
    for node in columns.shown(nodes):
        line = columns.starts[-1] - columns.starts[node.spot.depth]
        end = _end(node, 0, 2) if columns.is_listed else _end(node, line, words - node.width + 2)
        yield [*_way(nodes, node, columns, 0), *end]


def _scrolled(nodes: list[Node], columns: Columns, room: int) -> Iterator[list[Piece]]:
    shown, mark = columns.shown(nodes), len(f"{len(columns.starts)}… ")
    free = max(LEAST, room - mark - max(map(_room, shown)))
    hidden = [_hidden(columns, node.spot.depth, free) for node in shown]
    mark *= any(hidden)
    for node, levels in zip(shown, hidden, strict=True):
        start = (f"{levels}… " if levels else "").rjust(mark)
        yield [Piece(start, FAINT), *_way(nodes, node, columns, levels), *_end(node, 0, 2)]
    if mark:
        yield from _note("3… : without the 3 levels next to the root", room)


def _hidden(columns: Columns, depth: int, free: int) -> int:
    """How many levels a line leaves out: as many as the lines around it, where that can be."""
    hop, hidden = max(1, free // 2 // (1 + columns.apart)), 0
    while columns.starts[depth] - columns.starts[hidden] > free:
        hidden += hop
    return hidden


def _end(node: Node, line: int, gap: int) -> list[Piece]:
    """A name at the end of a line, with the number of a word."""
    number = [Piece(" " * gap), Piece(node.number, FAINT)] if node.number else []
    return [Piece("─" * line, FAINT), Piece(" " if node.spot.depth else ""), *node.shown, *number]


def _way(nodes: list[Node], end: Node, columns: Columns, hidden: int) -> list[Piece]:
    """The line to a vertex, level by level, and the lines that go past it."""
    levels: list[list[Piece]] = []
    node, is_first = end, True  # on this line, of those of the node
    while node.spot.parent is not None and node.spot.depth > hidden:
        parent = nodes[node.spot.parent]
        first, last = (nodes[parent.spot.children[n]] for n in (0, -1))
        begins = is_first and node is first and not columns.is_listed
        if is_first:
            junction = ("─" if node is last else "┬") if begins else ("└" if node is last else "├")
        else:
            junction = " " if node is last else "│"
        lines = Piece(junction + ("─" if is_first else " ") * columns.apart, FAINT)
        names = columns.names[parent.spot.depth]
        name = [*parent.name, Piece("─" * (names - parent.width), FAINT)] if begins else [Piece(" " * names)]
        levels.append([*(name if names else ()), lines])
        node, is_first = parent, begins
    return [piece for level in reversed(levels) for piece in level]


def _written(line: list[Piece], colour: bool) -> str:
    if not colour:
        return "".join(piece.text for piece in line).rstrip()
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if style and text else text for text, style in line)
