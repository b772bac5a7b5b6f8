"""What a task is: named sets of sentence pairs, and the trees of its sentences where they are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torch_ctree.data.pairs import Example, Pairs
from torch_ctree.data.recasing import Written

if TYPE_CHECKING:
    from nltk import Tree

Binary = str | tuple[str, "Binary", "Binary"]
"""A full binary tree: a word, or a label and two trees."""


class Gold(NamedTuple):
    """The true trees of an example: full binary trees whose leaves are the words, as ``nltk.Tree``."""

    source: Tree
    target: Tree


SETS = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
"""The sets every task has, and what files and Hub data sets may call them."""


@dataclass(frozen=True, eq=False)
class Task:
    """Sentence pairs to learn from and to be tested on."""

    name: str
    sets: Mapping[str, Pairs]
    """By name: "train", "validation" and "test", and for some tasks others."""
    origin: str
    """Where the pairs come from and how they were divided, in a few words."""
    gold: Callable[[Example], Gold] | None = None
    """An example → its true trees, for tasks that are made by a grammar."""
    languages: tuple[str, str] | None = None
    """The languages of source and target, such as ("de", "en"), for translation."""
    written: Callable[[], Written] | None = None
    """How its targets were written, where here they are tokenised and in lower case, and that is known."""

    @property
    def train(self) -> Pairs:
        """The pairs to train on."""
        return self.sets["train"]

    @property
    def validation(self) -> Pairs:
        """The pairs to choose by: when to stop, which settings."""
        return self.sets["validation"]

    @property
    def test(self) -> Pairs:
        """The pairs to report on."""
        return self.sets["test"]

    @property
    def tested(self) -> list[str]:
        """The names of the sets that are neither for training nor for choosing."""
        return [name for name in self.sets if name not in ("train", "validation")]

    @property
    def gen(self) -> Pairs:
        """Question formation's generalisation set: questions of a structure that training never asks about."""
        if "gen" not in self.sets:
            raise AttributeError(f"{self.name} has no generalisation set; it has {', '.join(self.sets)}")
        return self.sets["gen"]


def to_nltk(tree: Binary) -> Tree:
    """A full binary tree as ``nltk.Tree``; a single word becomes a tree with one leaf."""
    import nltk  # noqa: PLC0415  (slow to import, and only needed here)

    def build(part: Binary) -> nltk.Tree | str:
        return part if isinstance(part, str) else nltk.Tree(part[0], [build(part[1]), build(part[2])])

    built = build(tree)
    return built if isinstance(built, nltk.Tree) else nltk.Tree("·", [built])


def leaves(tree: Binary) -> list[str]:
    """The words of a tree, left to right."""
    return [tree] if isinstance(tree, str) else leaves(tree[1]) + leaves(tree[2])
