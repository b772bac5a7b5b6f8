"""Trees drawn with characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len

if TYPE_CHECKING:
    from nltk import Tree

GAP = 2  # blanks between neighbouring words


class Drawing(NamedTuple):
    """Lines of equal width, and the column where a line from above arrives."""

    lines: list[str]
    anchor: int


def draw(tree: Tree | str) -> str:
    """A binary tree with its words, in order, on the last line.

    >>> from nltk import Tree
    >>> print(draw(Tree.fromstring("(S (NP the dog) barks)")))
           S
       ┌───┴────┐
       NP       │
     ┌─┴──┐     │
    the  dog  barks
    """
    return "\n".join(line.rstrip() for line in _drawing(tree).lines)


def width(text: str) -> int:
    """The columns that a line takes in a terminal; 熊 takes two."""
    return cell_len(text)


def _drawing(tree: Tree | str) -> Drawing:
    if isinstance(tree, str):
        return Drawing([tree], (width(tree) - 1) // 2)
    parts = [_drawing(part) for part in tree]
    height = max(len(part.lines) for part in parts)
    parts = [_lengthened(part, height) for part in parts]
    lines = [(" " * GAP).join(row) for row in zip(*(part.lines for part in parts), strict=True)]
    starts = [sum(width(part.lines[0]) + GAP for part in parts[:n]) for n in range(len(parts))]
    return _crowned(tree.label(), lines, [start + part.anchor for start, part in zip(starts, parts, strict=True)])


def _lengthened(drawing: Drawing, height: int) -> Drawing:
    """With a line down to it from above, so that words of all depths end up on the last line."""
    stem = _padded(" " * drawing.anchor + "│", width(drawing.lines[0]))
    return Drawing([stem] * (height - len(drawing.lines)) + drawing.lines, drawing.anchor)


def _crowned(label: str, lines: list[str], anchors: list[int]) -> Drawing:
    """With a label above, joined to the parts at their anchors."""
    first, last = anchors[0], anchors[-1]
    middle = (first + last) // 2
    branches = ["─" if first < n < last else " " for n in range(last + 1)]
    for n in anchors:
        branches[n] = "┬"
    branches[first], branches[last] = "┌", "┐"
    branches[middle] = "│" if first == last else "┼" if middle in anchors else "┴"
    room = max(width(lines[0]), width(label))
    start = max(0, min(middle - (width(label) - 1) // 2, room - width(label)))
    return Drawing([_padded(line, room) for line in (" " * start + label, "".join(branches), *lines)], middle)


def _padded(line: str, room: int) -> str:
    return line + " " * (room - width(line))
