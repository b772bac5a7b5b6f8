"""Trees for programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from torch_ctree.data import DataError
from torch_ctree.data.disk import finite
from torch_ctree.data.errors import shown
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing.tree import as_vertex, preorder

if TYPE_CHECKING:
    from nltk import Tree

DEFAULTS = {field.name: field.default for field in fields(Vertex) if field.name != "children"}


def as_json(tree: Vertex | Tree | str) -> dict[str, Any]:
    """All that is known of a tree, however deep it is: its vertices in a list, each before its children.

    ``children`` are places in this list. What is not known is left out.

    >>> as_json(Vertex(children=(Vertex("jump", emission=0.5), Vertex("left"))))
    {'vertices': [{'children': [1, 2]}, {'word': 'jump', 'emission': 0.5}, {'word': 'left'}]}
    """
    rows = []
    for spot in preorder(as_vertex(tree)):
        known = {name: getattr(spot.vertex, name) for name in DEFAULTS}
        row = {name: _plain(value) for name, value in known.items() if value != DEFAULTS[name]}
        rows.append(row | ({"children": spot.children} if spot.children else {}))
    return finite({"vertices": rows})


def from_json(found: Any) -> Vertex:
    """A tree as ``as_json`` writes it."""
    rows = found.get("vertices") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise DataError(f"tree: got {shown(found)}; expected an object with a list of objects, its vertices")
    made: dict[int, Vertex] = {}
    for n in reversed(range(len(rows))):
        children = rows[n].get("children", [])
        if not isinstance(children, list) or any(type(child) is not int for child in children):
            raise DataError(f"vertex {n}: got the children {shown(children)}; expected a list of places")
        if len({*children} & made.keys()) < len(children):
            raise DataError(f"vertex {n}: got the children {children}; expected later vertices, each the child of one")
        parts = tuple(made.pop(child) for child in children)
        made[n] = Vertex(
            children=parts, **{name: _read(n, name, rows[n][name]) for name in rows[n] if name != "children"}
        )
    if len(made) > 1:
        raise DataError(f"vertex {min(made.keys() - {0})}: is nowhere a child; expected one root, the first vertex")
    return made[0]


def _plain(value: Any) -> Any:
    """Numbers of NumPy, which JSON does not know, are numbers too."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.item() if hasattr(value, "item") else value


def _read(n: int, name: str, value: Any) -> Any:
    if name not in READERS:
        raise DataError(f"vertex {n}: got {shown(name)}; expected some of {', '.join(READERS)}")
    try:
        return READERS[name](value)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"vertex {n}, {name}: got {shown(value)}; expected what as_json writes") from error


def _of(*kinds: type) -> Callable[[Any], Any]:
    """What is of a type, as it is."""

    def read(value: Any) -> Any:
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError
        return value

    return read


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _number(value: Any) -> float:
    """JSON has null where a number is none."""
    return math.nan if value is None else float(_of(int, float)(value))


def _shares(value: Any) -> tuple[float, ...]:
    return tuple(map(_number, value))


def _words(value: Any) -> tuple[tuple[str, float], ...]:
    return tuple((_of(str)(word), _number(share)) for word, share in value)


def _phrase(value: Any) -> tuple[int, int]:
    start, end = value
    return _of(int)(start), _of(int)(end)


READERS: dict[str, Callable[[Any], Any]] = {
    "word": _or_none(_of(str)),
    "label": _of(str),
    "number": _or_none(_of(int)),
    "split": _or_none(_number),
    "emission": _or_none(_number),
    "confidence": _or_none(_number),
    "words": _words,
    "attention": _shares,
    "found": _shares,
    "phrase": _or_none(_phrase),
    "operator": _or_none(_of(int)),
}
