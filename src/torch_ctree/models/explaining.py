"""What a model's answers and trees are made of: plain numbers for drawings, reports and the explorer."""

from __future__ import annotations

from dataclasses import dataclass

from torch_ctree.models.seq2seq import Seq2Seq
from torch_ctree.trees.vertex import Vertex


@dataclass(frozen=True)
class Explained:
    """An answer, with what is known of each vertex of its tree."""

    source: tuple[str, ...]
    """Its words as the model reads them."""
    text: str
    log_prob: float
    """As in ``Answer``."""
    tree: Vertex | None
    """From a tree decoder."""
    spans: tuple[tuple[float, ...], ...] | None
    """[i][j]: the posterior probability that the words from i to j, included, are a constituent; 0 where i > j."""


@dataclass(frozen=True)
class Parsed:
    """The trees of a target."""

    source: tuple[str, ...]
    text: str
    """The target, as the model reads it."""
    log_prob: float
    """Of the target, over all trees; −inf where no tree can have it, and then there are no trees."""
    entropy: float | None
    """Of its trees, in nats; None of a grammar."""
    trees: tuple[tuple[Vertex, float], ...]
    """The best trees, with their probabilities given the target."""
    spans: tuple[tuple[float, ...], ...]
    """As in ``Explained``."""


def explain(model: Seq2Seq, source: str, k: int = 1, depth: int | None = None) -> list[Explained]:
    """The k best answers to a source, best first; fewer where there are not so many."""
    raise NotImplementedError


def explain_samples(
    model: Seq2Seq, source: str, count: int, seed: int = 0, depth: int | None = None
) -> list[Explained]:
    """Answers of a tree decoder drawn at random, each with its tree; the same for the same seed."""
    raise NotImplementedError


def explain_target(model: Seq2Seq, source: str, target: str, k: int = 1, depth: int | None = None) -> Parsed:
    """The k best trees of a target given its source; of a grammar one."""
    raise NotImplementedError
