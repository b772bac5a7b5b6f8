"""Trees made smaller by writing what is repeated once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from torch_ctree.trees.vertex import Vertex, from_below

if TYPE_CHECKING:
    from nltk import Tree

AnyTree = TypeVar("AnyTree", "Vertex", "Tree", "str", "Tree | str")


@dataclass(frozen=True)
class Part:
    """What is known of a part of a tree while it is folded."""

    name: int
    """The same for equal parts."""
    size: int
    """Its vertices."""
    made_of: dict[int, int]
    """The names of the parts that it is copies of and of nothing else, itself among them, and how many."""
    folded: Any


def fold(tree: AnyTree) -> AnyTree:
    """A tree whose repeated parts stand there once, below a vertex that says how often.

    A vertex is folded if all below it is copies of its smallest child, bracketed in any way: its label then is ×n.
    Nothing is lost but these brackets, and the labels of the vertices that were folded. Parts are equal whose words,
    labels and brackets are, however probable; of several, the numbers of the first are kept.

    >>> from nltk import Tree
    >>> fold(Tree.fromstring("(· (· left walk) (· (· left walk) (· left walk)))"))
    Tree('×3', [Tree('·', ['left', 'walk'])])
    """
    names: dict[Hashable, int] = {}

    def part(whole: Any, parts: list[Part]) -> Part:
        key = (_label(whole), *(part.name for part in parts)) if parts else _word(whole)
        name = names.setdefault(key, len(names))
        if not parts:
            return Part(name, 1, {name: 1}, _leaf(whole))
        shared = set(parts[0].made_of).intersection(*(part.made_of for part in parts[1:]))
        made_of = {unit: sum(part.made_of[unit] for part in parts) for unit in shared}
        unit = min(parts, key=lambda part: part.size)
        times = made_of.get(unit.name, 1)
        folded = _with(whole, f"×{times}", [unit]) if times > 1 else _with(whole, _label(whole), parts)
        return Part(name, 1 + sum(part.size for part in parts), made_of | {name: 1}, folded)

    return from_below(tree, part).folded


def _label(whole: Any) -> str:
    return whole.label if isinstance(whole, Vertex) else whole.label()


def _word(whole: Any) -> Hashable:
    if isinstance(whole, Vertex):
        return whole.word or ""
    return whole.label() if hasattr(whole, "label") else whole


def _leaf(whole: Any) -> Any:
    """By itself: an ``nltk.ParentedTree`` can have one parent alone."""
    return type(whole)(whole.label(), []) if hasattr(whole, "set_label") else whole


def _with(whole: Any, label: str, parts: list[Part]) -> Any:
    children = [part.folded for part in parts]
    if isinstance(whole, Vertex):
        return replace(whole, label=label, children=tuple(children))
    return type(whole)(label, children)
