"""Which epoch is best, and when a run begins anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Answers = list[tuple[int, ...]]
"""The tokens of each."""
Rank = tuple[bool, float, float, float]


@dataclass
class Attempts:
    """Beginning anew: what a model learns, and how soon, is also the luck of its first weights.

    after: epochs that each attempt has to show something; none, if it has all the time
    below: the validation accuracy that it has to reach in these
    agreement: the share of its answers to new sources that have to be those of an attempt before it; 0 if nobody asks
    ties: whether ``loss`` tells which of equally good epochs is best, or it is the ``last``
    select: what an epoch is good by: ``accuracy`` or ``bleu``; by ``loss``, all are equally good
    """

    after: int | None
    below: float
    agreement: float = 0.0
    ties: str = "loss"
    select: str = "accuracy"
    since: int = 0
    """The step before its first."""
    number: int = 1
    lasted: int = 0
    best: float = 0.0
    closest: float = 0.0
    ended: bool = False
    highest: Rank | None = None
    answers: Answers = field(default_factory=list)
    """Of its best epoch."""
    before: dict[int, Answers] = field(default_factory=dict)
    """Those of the attempts that came to their end."""
    agreed: dict[int, float] = field(default_factory=dict)
    """The most that any later one had in common with each of these."""

    def compare(self, answers: Answers) -> float:
        """The share of these that the attempt before gave which has most of them."""
        shares = {number: _alike(answers, some) for number, some in self.before.items()}
        self.agreed = {number: max(share, self.agreed.get(number, 0.0)) for number, share in shares.items()}
        return max(shares.values(), default=0.0)

    def count(self, metrics: Mapping[str, float], answers: Answers) -> None:
        """An epoch with these metrics, and these answers to what is new."""
        if self.highest is None or self.rank(metrics) > self.highest:
            self.highest, self.answers = self.rank(metrics), answers
        self.lasted, self.best = self.lasted + 1, max(self.best, metrics["validation_accuracy"])
        self.closest = max(self.closest, metrics.get("agreement", 0.0))

    @property
    def came_too_late(self) -> bool:
        """Whether it has not learned enough in its time."""
        return self.lasted == self.after and self.best < self.below

    @property
    def is_agreed(self) -> bool:
        """Whether it need not go on: an epoch has everything right, and an attempt before it says the same."""
        return self.agreement > 0 and self.highest is not None and self.highest[:2] == (True, 1)

    @property
    def stands_alone(self) -> bool:
        """Whether it has ended, and no attempt before it says the same."""
        return self.ended and self.closest < self.agreement

    @property
    def failed(self) -> bool:
        """Whether the next epoch is the first of a new attempt."""
        return self.came_too_late or self.stands_alone

    def next(self, step: int) -> Attempts:
        """The one that begins after this step, when this one has failed."""
        before = {**self.before, self.number: self.answers} if self.ended and self.answers else self.before
        kept = self.after, self.below, self.agreement, self.ties, self.select
        return Attempts(*kept, step, self.number + 1, before=before, agreed=self.agreed)

    def rank(self, metrics: Mapping[str, float]) -> Rank:
        """Which epoch is best: one that agrees with another attempt; then by quality, agreement and perhaps loss.

        If two attempts agree, both do, the earlier one no less than the later one.
        """
        agreement = max(metrics.get("agreement", 0.0), self.agreed.get(int(metrics["attempt"]), 0.0))
        agrees, good = agreement >= self.agreement, quality(metrics, self.select)
        by_loss = self.ties == "loss" or good == 0
        return agrees, good, agreement, -metrics["validation_loss"] if by_loss else metrics["epoch"]


def in_words(metrics: Mapping[str, float], width: int = 0) -> str:
    """How good the answers to the validation set are.

    width: of the accuracy, at least
    """
    bleu = f", BLEU {metrics['validation_bleu']:.2f}" if "validation_bleu" in metrics else ""
    return f"accuracy {metrics['validation_accuracy']:{width}.2%}{bleu}"


def quality(metrics: Mapping[str, float], select: str) -> float:
    """What epochs are compared by, before their loss; as long as it is 0, by loss alone.

    select: see ``Attempts``
    """
    return 0.0 if select == "loss" else metrics[f"validation_{select}"]


def _alike(some: Answers, others: Answers) -> float:
    """The share of those that are the same; no answer is like none."""
    return sum(one == other != () for one, other in zip(some, others, strict=True)) / len(some)
