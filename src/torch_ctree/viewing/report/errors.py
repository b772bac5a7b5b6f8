"""Wrong answers, grouped by what is wrong with them.

Each is of exactly one kind, the first that fits, in the order of ``KINDS``; the last two take whatever is left, so
that no answer is of none. Kinds that say more come first: half of ``JUMP JUMP JUMP JUMP`` was stopped too early, but
more than that, it was repeated too seldom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch_ctree.evaluation import Prediction, is_exact

Words = Sequence[str]
LONGEST = 16
"""Of a phrase that is repeated, in words."""


@dataclass(frozen=True)
class Kind:
    """What can be wrong with an answer."""

    name: str
    about: str
    fits: Callable[[Words, Words], bool]
    """Whether an answer is of it, given answer and target, which are not the same."""


@dataclass(frozen=True)
class Group:
    """The wrong answers of one kind."""

    kind: Kind
    predictions: list[Prediction]

    @property
    def example(self) -> Prediction:
        """The one with the shortest target, and of these the first."""
        return min(self.predictions, key=lambda one: len(one.target.split()))


def once(words: Words) -> list[str]:
    """Words with every phrase that is repeated at once written once, short ones first.

    >>> once("left walk left walk left walk turn turn".split())
    ['left', 'walk', 'turn']
    """
    kept = list(words)
    for size in range(1, LONGEST + 1):
        done: list[str] = []
        for word in kept:
            done.append(word)
            if len(done) >= 2 * size and word == done[-1 - size] and done[-size:] == done[-2 * size : -size]:
                del done[-size:]
        kept = done
    return kept


def _is_once_same(output: Words, target: Words) -> bool:
    return set(output) == set(target) and once(output) == once(target)


def places(output: Words, target: Words) -> list[tuple[str, str]]:
    """(Expected, said) where two sentences of the same length differ."""
    return [(there, here) for here, there in zip(output, target, strict=True) if here != there]


def _is_one_word(output: Words, target: Words) -> bool:
    return len(output) == len(target) and len(places(output, target)) == 1


KINDS = (
    Kind("no answer", "not a single word", lambda output, target: not output),
    Kind(
        "repeated too seldom",
        "right, if phrases that are repeated are counted once; too short",
        lambda output, target: len(output) < len(target) and _is_once_same(output, target),
    ),
    Kind(
        "repeated too often",
        "right, if phrases that are repeated are counted once; too long",
        lambda output, target: len(output) > len(target) and _is_once_same(output, target),
    ),
    Kind("stopped too early", "the beginning of the target", lambda output, target: output == target[: len(output)]),
    Kind("went on too long", "the target, and then more", lambda output, target: output[: len(target)] == target),
    Kind("another order", "the right words in another order", lambda output, target: sorted(output) == sorted(target)),
    Kind("one word wrong", "another word in one place", _is_one_word),
    Kind("wrong first word", "wrong from the first word on", lambda output, target: output[0] != target[0]),
    Kind("some words wrong", "of the right length", lambda output, target: len(output) == len(target)),
    Kind("too short", "otherwise wrong, with too few words", lambda output, target: len(output) < len(target)),
    Kind("too long", "otherwise wrong, with too many words", lambda output, target: len(output) > len(target)),
)


def kind_of(output: Words, target: Words) -> Kind:
    """What is wrong with an answer that is not the target."""
    return next(kind for kind in KINDS if kind.fits(list(output), list(target)))


def grouped(predictions: Iterable[Prediction]) -> list[Group]:
    """The wrong answers by kind, the most frequent kind first; right answers are left out."""
    found: dict[str, Group] = {}
    for one in predictions:
        if not is_exact(one):
            kind = kind_of(one.output.split(), one.target.split())
            found.setdefault(kind.name, Group(kind, [])).predictions.append(one)
    return sorted(found.values(), key=lambda group: -len(group.predictions))


def confusions(predictions: Iterable[Prediction]) -> Counter[tuple[str, str]]:
    """(Expected, said) → how often, in the answers that have as many words as their targets."""
    found: Counter[tuple[str, str]] = Counter()
    for one in predictions:
        output, target = one.output.split(), one.target.split()
        if len(output) == len(target):
            found.update(places(output, target))
    return found
