"""What the page asks of a model, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch_ctree.data import Encoder
from torch_ctree.evaluation.predictions import Prediction
from torch_ctree.trees.vertex import Vertex

Spans = tuple[tuple[float, ...], ...]
"""[i][j]: the posterior probability that the words from i to j, included, are a constituent."""


class Explained(Protocol):
    """An answer, with what is known of each vertex of its tree."""

    @property
    def source(self) -> tuple[str, ...]:
        """Its words as the model reads them."""
        ...

    @property
    def text(self) -> str:
        """What is answered."""
        ...

    @property
    def log_prob(self) -> float:
        """Of the answer, with its tree if it has one."""
        ...

    @property
    def tree(self) -> Vertex | None:
        """From a tree decoder."""
        ...


class Parsed(Protocol):
    """The trees of a target."""

    @property
    def source(self) -> tuple[str, ...]:
        """The words of the source as the model reads them."""
        ...

    @property
    def text(self) -> str:
        """The target, as the model reads it."""
        ...

    @property
    def log_prob(self) -> float:
        """Of the target, over all trees; −inf where no tree can have it, and then there are no trees."""
        ...

    @property
    def entropy(self) -> float | None:
        """Of its trees, in nats; None where it is not known."""
        ...

    @property
    def trees(self) -> tuple[tuple[Vertex, float], ...]:
        """The best trees, with their probabilities given the target."""
        ...

    @property
    def spans(self) -> Spans:
        """How probable each part of the target is as a constituent."""
        ...


class Answers(Protocol):
    """A model, as the page asks it: one question at a time. What it cannot do is a ``ValueError`` of one line."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def source(self) -> Encoder:
        """The words of sources."""
        ...

    @property
    def target(self) -> Encoder:
        """The words of targets."""
        ...

    @property
    def most_words(self) -> int:
        """Of a source or a target: more would keep others waiting."""
        ...

    def answers(self, source: str, k: int) -> Sequence[Explained]:
        """The k best answers, best first; fewer where there are not so many."""
        ...

    def sample(self, source: str, seed: int) -> Explained:
        """An answer drawn at random, the same for the same seed."""
        ...

    def parse(self, source: str, target: str, k: int) -> Parsed:
        """The k best trees of a target."""
        ...

    def examples(self) -> Sequence[Prediction]:
        """What it answered to its test set; nothing where that is not known."""
        ...
