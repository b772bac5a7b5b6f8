"""How trees are drawn: what every kind of drawing is told."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch_ctree.trees.vertex import LABEL, Vertex
from torch_ctree.viewing.folding import fold
from torch_ctree.viewing.text import percent, visible
from torch_ctree.viewing.tree import as_vertex

if TYPE_CHECKING:
    from nltk import Tree

FORK = "∧"
"""Before the probability of a split."""
SCALE = ("#f2f0c8", "#bfe3b4", "#67bfc0", "#2a84bb", "#27408b")
"""From not confident to confident: light to dark whatever colours one sees. All have a border, and a number in them."""
DARK, LIGHT = "#000000", "#ffffff"


@dataclass(frozen=True)
class Look:
    """What a drawing shows, and how."""

    probabilities: bool = False
    """At each vertex how probably it has children, at each word how probable it is there."""
    confidence: bool = False
    """At each vertex how probably its words are a constituent, as a number and as a colour."""
    fold: bool = False
    """Repeated parts once."""
    sideways: bool | None = None
    """From left to right, with the words below one another; None: where the tree is too wide for words in a row."""

    def shown(self, tree: Vertex | Tree | str) -> Vertex:
        """The tree that is drawn: paths in drawings are its paths."""
        vertex = as_vertex(tree)
        return fold(vertex) if self.fold else vertex

    def label(self, vertex: Vertex) -> str:
        """What stands at an inner vertex, its confidence aside."""
        return "" if vertex.label == LABEL else visible(vertex.label)

    def sure(self, vertex: Vertex) -> float | None:
        """The confidence that is shown: of inner vertices alone, because a word is always a constituent."""
        return vertex.confidence if self.confidence and vertex.children else None

    def number(self, vertex: Vertex) -> str:
        """The probability that is shown: of a split at an inner vertex, of the word at a leaf."""
        share = vertex.split if vertex.children else vertex.emission
        if not self.probabilities or share is None:
            return ""
        return f"{FORK}{percent(share)}" if vertex.children else percent(share)

    def notes(self, tree: Vertex) -> list[str]:
        """What the numbers of a drawing mean."""
        kinds = [(bool(self.number(part)), bool(part.children)) for part in tree.walk()]
        notes = {
            "% in colour: posterior probability of the constituent": any(
                self.sure(part) is not None for part in tree.walk()
            ),
            f"{FORK}%: probability of a split": (True, True) in kinds,
            "% at a word: its probability there": (True, False) in kinds,
        }
        return [note for note, is_there in notes.items() if is_there]


PLAIN = Look()


def colour(share: float) -> str:
    """Of a confidence, as #rrggbb.

    >>> colour(0.0), colour(1.0)
    ('#f2f0c8', '#27408b')
    """
    n, way = place(share)
    mixed = [a + (b - a) * way for a, b in zip(_channels(SCALE[n]), _channels(SCALE[n + 1]), strict=True)]
    return "#" + "".join(f"{round(channel):02x}" for channel in mixed)


def place(share: float) -> tuple[int, float]:
    """Where a confidence is in the scale: after which of its colours, and which part of the way to the next.

    >>> place(0.5), place(0.625), place(1.0)
    ((2, 0.0), (2, 0.5), (3, 1.0))
    """
    steps = within(share) * (len(SCALE) - 1)
    n = min(int(steps), len(SCALE) - 2)
    return n, steps - n


def within(share: float) -> float:
    """A probability that is one: rounding, and numbers that are none, must not end a drawing."""
    return 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)


def ink(share: float) -> str:
    """What can be read on the colour of a confidence."""
    return max((DARK, LIGHT), key=lambda text: contrast(text, colour(share)))


def contrast(a: str, b: str) -> float:
    """Of two colours, from 1 to 21, as the Web Content Accessibility Guidelines count it; text needs 4.5."""
    low, high = sorted((_luminance(a), _luminance(b)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    shares = [channel / 255 for channel in _channels(colour)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[n : n + 2], 16) for n in (1, 3, 5))
