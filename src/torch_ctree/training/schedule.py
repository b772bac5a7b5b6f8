"""The learning rate: how it falls from epoch to epoch, and what becomes of it from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from torch_ctree.training.configuration import OptimisationConfig


@dataclass
class Plateau:
    """The paper's schedule: the learning rate falls when validation has not improved for some epochs.

    As long as the quality of answers is 0, a better loss is an improvement too.
    """

    patience: int
    best: float = 0.0
    lowest: float = inf
    waited: int = 0

    def falls(self, quality: float, loss: float) -> bool:
        """After an epoch of this quality and loss, whether the learning rate falls."""
        better = quality > self.best or (self.best == 0 and loss < self.lowest)
        self.waited = 0 if better else self.waited + 1
        self.best, self.lowest = max(self.best, quality), min(self.lowest, loss)
        if self.waited <= self.patience:
            return False
        self.waited = 0
        return True


def scale(config: OptimisationConfig, step: int, done: float) -> float:
    """What the learning rate of a step is multiplied by.

    step: its number in this attempt, from 1 on
    done: the share of all training that is over
    """
    warm = min(1.0, step / config.warmup_steps) if config.warmup_steps else 1.0
    return warm * (1 - done) if config.schedule == "linear" else warm
