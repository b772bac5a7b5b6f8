"""How many answers are right. Text is cut into words at white space; how much of it there is does not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from torch_ctree.data.errors import DataError
from torch_ctree.evaluation.predictions import Prediction


@dataclass(frozen=True)
class Share:
    """So many of so many."""

    right: int
    total: int

    @property
    def accuracy(self) -> float:
        """From 0 to 1."""
        return self.right / self.total


def exact_match(predictions: Sequence[Prediction]) -> float:
    """The share of answers that are the target, word for word."""
    return sum(map(is_exact, _some(predictions))) / len(predictions)


def first_word(predictions: Sequence[Prediction]) -> float:
    """The share of answers that begin with the target's first word."""
    pairs = [_words(prediction) for prediction in _some(predictions)]
    return sum(output[:1] == target[:1] for output, target in pairs) / len(pairs)


def token_accuracy(predictions: Sequence[Prediction]) -> float:
    """The share of places where output and target have the same word.

    The places of a pair are those of the longer of both, so that too long costs as much as too short.

    >>> token_accuracy([Prediction("test", 0, "jump twice", target="JUMP JUMP", output="JUMP WALK JUMP", log_prob=0.0)])
    0.3333333333333333
    """
    pairs = [_words(prediction) for prediction in _some(predictions)]
    places = sum(max(len(output), len(target)) for output, target in pairs)
    same = sum(a == b for output, target in pairs for a, b in zip(output, target, strict=False))
    return same / places if places else 1.0  # nothing was expected, and nothing said


def by_length(predictions: Sequence[Prediction]) -> dict[int, Share]:
    """Exact match by the number of words in the target, short ones first."""
    right: Counter[int] = Counter()
    total: Counter[int] = Counter()
    for prediction in _some(predictions):
        length = len(prediction.target.split())
        right[length] += is_exact(prediction)
        total[length] += 1
    return {length: Share(right[length], total[length]) for length in sorted(total)}


def _some(predictions: Sequence[Prediction]) -> Sequence[Prediction]:
    """Predictions, as they are; a share of none is no number."""
    if not predictions:
        raise DataError("predictions: got none; expected one or more")
    return predictions


def _words(prediction: Prediction) -> tuple[list[str], list[str]]:
    """Of the output and of the target."""
    return prediction.output.split(), prediction.target.split()


def is_exact(prediction: Prediction) -> bool:
    """Whether the answer is the target, word for word."""
    output, target = _words(prediction)
    return output == target
