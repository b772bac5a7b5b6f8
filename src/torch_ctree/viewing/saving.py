"""Trees in files, of the kind that the ending of the name says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from torch_ctree.data import DataError
from torch_ctree.data.disk import write
from torch_ctree.data.errors import place
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.as_json import as_json
from torch_ctree.viewing.brackets import brackets
from torch_ctree.viewing.image import pdf, png
from torch_ctree.viewing.latex import forest
from torch_ctree.viewing.look import PLAIN, Look
from torch_ctree.viewing.svg import svg
from torch_ctree.viewing.terminal import draw
from torch_ctree.viewing.tree import as_vertex

if TYPE_CHECKING:
    from nltk import Tree

ROOM = 120
"""Columns of a drawing in a text file."""


def _text(tree: Vertex, look: Look) -> str:
    return draw(tree, look, ROOM) + "\n"


def _document(tree: Vertex, look: Look) -> str:
    return forest(tree, look, standalone=True)


def _bracketed(tree: Vertex, look: Look) -> str:
    return brackets(tree, look) + "\n"


def _json(tree: Vertex, look: Look) -> str:
    return json.dumps(as_json(tree)) + "\n"


FORMATS: dict[str, Callable[[Vertex, Look], str | bytes]] = {
    ".svg": svg,
    ".png": png,
    ".pdf": pdf,
    ".tex": _document,
    ".txt": _text,
    ".mrg": _bracketed,
    ".json": _json,
}
"""Endings, and what is written; JSON has all that is known, whatever the look."""


def check_ending(path: str | Path) -> None:
    """The ending is one of those that there are."""
    if place(path).suffix.lower() not in FORMATS:
        *some, last = FORMATS
        raise DataError(f"{path}: got the ending {place(path).suffix!r}; expected {', '.join(some)} or {last}")


def save(tree: Vertex | Tree | str, path: str | Path, look: Look = PLAIN) -> None:
    """Write a tree to a file; what stood there before is kept until the new one is whole."""
    check_ending(path)
    write(place(path), FORMATS[place(path).suffix.lower()](as_vertex(tree), look))
