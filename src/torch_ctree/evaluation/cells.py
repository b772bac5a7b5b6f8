"""Which kinds of SCAN's phrases are answered: accuracy by what a phrase does, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

from torch_ctree.data.scan import DIRECTIONS, MODIFIERS, REPETITIONS, phrases
from torch_ctree.evaluation.accuracy import Share, is_exact
from torch_ctree.evaluation.predictions import Prediction

Cell = tuple[str, str]
"""What a phrase does, and how often."""
KINDS = ("none", "direction", *MODIFIERS)
"""A verb alone, with a direction, or with a modifier and a direction."""
TIMES = ("once", *REPETITIONS)


def cell(phrase: str) -> Cell:
    """Where a phrase of a command belongs.

    >>> cell("walk"), cell("turn left twice"), cell("jump around right thrice")
    (('none', 'once'), ('direction', 'twice'), ('around', 'thrice'))
    """
    words = phrase.split()
    plain = "direction" if any(word in DIRECTIONS for word in words) else "none"
    kind = next((word for word in words if word in MODIFIERS), plain)
    return kind, words[-1] if words[-1] in REPETITIONS else "once"


def cells(source: str) -> set[Cell]:
    """Those of a command's phrases."""
    return {cell(phrase) for phrase in phrases(source)}


def simplest_by_cell(predictions: Sequence[Prediction]) -> dict[Cell, Prediction]:
    """The first of those with the fewest actions, of the commands that have a phrase of each cell."""
    found: dict[Cell, Prediction] = {}
    for prediction in sorted(predictions, key=lambda one: len(one.target.split())):
        for one in cells(prediction.source):
            found.setdefault(one, prediction)
    return {one: found[one] for one in product(KINDS, TIMES) if one in found}


def by_cell(predictions: Sequence[Prediction]) -> dict[Cell, Share]:
    """Exact match of the commands that have a phrase of each cell; cells that no command has are left out.

    A command with phrases of two cells counts in both.
    """
    right: Counter[Cell] = Counter()
    total: Counter[Cell] = Counter()
    for prediction in predictions:
        for one in cells(prediction.source):
            right[one] += is_exact(prediction)
            total[one] += 1
    return {one: Share(right[one], total[one]) for one in product(KINDS, TIMES) if total[one]}
