"""Trees of any kind, and where their vertices are; nothing recurses, as a tree may be as deep as it has words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch_ctree.data import DataError
from torch_ctree.data.errors import shown
from torch_ctree.trees.vertex import Vertex

if TYPE_CHECKING:
    from nltk import Tree


@dataclass
class Spot:
    """Where a vertex stands in its tree; the numbers are places in ``preorder``."""

    vertex: Vertex
    path: str
    """From the root, "", by the numbers of the children: "0.1" is the second child of the first."""
    depth: int
    parent: int | None
    children: list[int] = field(default_factory=list)


def as_vertex(tree: Vertex | Tree | str) -> Vertex:
    """A tree of any kind as what drawings take."""
    return tree if isinstance(tree, Vertex) else Vertex.of(tree)


def preorder(tree: Vertex) -> list[Spot]:
    """Its vertices, each before those below it, from left to right."""
    spots, ahead = [], [Spot(tree, "", 0, None)]
    while ahead:
        spot = ahead.pop()
        here = len(spots)
        spots.append(spot)
        if spot.parent is not None:
            spots[spot.parent].children.append(here)
        stem = f"{spot.path}." if spot.path else ""
        parts = enumerate(spot.vertex.children)
        ahead += reversed([Spot(part, f"{stem}{n}", spot.depth + 1, here) for n, part in parts])
    return spots


def at(tree: Vertex, path: str) -> Vertex:
    """The vertex at a path, as drawings write it."""
    vertex = tree
    for step in path.split(".") if path else ():
        if not (step.isdecimal() and int(step) < len(vertex.children)):
            raise DataError(f"path: got {shown(path)}; expected numbers of children joined with dots, such as '0.1'")
        vertex = vertex.children[int(step)]
    return vertex
