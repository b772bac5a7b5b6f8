"""How long a run has trained, and when it has to stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from torch_ctree.training.checkpoints import LAST


class TimeIsOverError(Exception):
    """A run was stopped, with a checkpoint to go on from."""


class Clock(pl.Callback):
    """Counts the seconds of a run over all its parts, however many there are, and stops it when its time is over.

    folder: of the run
    deadline: when that is, as ``time.time`` has it; never, without one
    """

    def __init__(self, folder: Path, deadline: float | None = None) -> None:
        self.folder, self.deadline = folder, deadline
        self.before, self.began = 0.0, time.monotonic()

    @property
    def seconds(self) -> float:
        """So far; what a run did after its last checkpoint before it was killed is not known."""
        return self.before + time.monotonic() - self.began

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.before = state_dict.get("seconds", 0.0)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After the last batch of an epoch comes its validation, and then a checkpoint anyway."""
        if self._is_over and batch_idx + 1 < trainer.num_training_batches:
            trainer.save_checkpoint(self.folder / LAST)
            raise TimeIsOverError

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """There is a checkpoint of what was before."""
        if self._is_over and trainer.current_epoch:
            raise TimeIsOverError

    @property
    def _is_over(self) -> bool:
        return self.deadline is not None and time.time() >= self.deadline
