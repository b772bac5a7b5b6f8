"""Trees made smaller by writing what is repeated once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nltk import Tree


def fold(tree: Tree | str) -> Tree | str:
    """A tree whose repeated parts stand there once, below a vertex that says how often.

    A vertex is folded if all below it is copies of its smallest child, bracketed in any way: its label then is ×n.
    Nothing is lost but these brackets, and the labels of the vertices that were folded.

    >>> from nltk import Tree
    >>> fold(Tree.fromstring("(· (· left walk) (· (· left walk) (· left walk)))"))
    Tree('×3', [Tree('·', ['left', 'walk'])])
    """
    if isinstance(tree, str):
        return tree
    unit = min(tree, key=_size)
    times = copies(tree, unit)
    if times > 1:
        return type(tree)(f"×{times}", [fold(unit)])
    return type(tree)(tree.label(), [fold(part) for part in tree])


def copies(tree: Tree | str, unit: Tree | str) -> int:
    """How many of a part a tree is made of, and of nothing else; 0 if it is not."""
    if tree == unit:
        return 1
    if isinstance(tree, str):
        return 0
    counts = [copies(part, unit) for part in tree]
    return sum(counts) if all(counts) else 0


def _size(tree: Tree | str) -> int:
    return 1 if isinstance(tree, str) else len(tree.leaves())
