"""What a run leaves on the disk: the best model, a checkpoint to go on from, the metrics of every epoch."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins.io import CheckpointIO

from torch_ctree.data.disk import write
from torch_ctree.data.errors import DataError, in_one_line
from torch_ctree.models import ModelError
from torch_ctree.models.pretrained import FILES
from torch_ctree.training.configuration import CONFIG
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.module import Training

LAST, NEW, PREVIOUS = "last.ckpt", "last.new", "previous.ckpt"
METRICS = "metrics.csv"


@contextmanager
def written(folder: Path) -> Iterator[None]:
    """Where something cannot be written, say what to do then."""
    try:
        yield
    except (DataError, ModelError, OSError) as error:
        raise TrainingError(
            f"{error}; what was saved before is still there: make room, then go on with "
            f"'ctree train --resume --run {folder}'"
        ) from error


class WholeFiles(CheckpointIO):
    """Writes a checkpoint aside and then renames it; reads nothing but tensors and plain values, never code."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """The checkpoint that stood there before is kept as the previous one."""
        path, content = Path(path), io.BytesIO()
        torch.save(checkpoint, content)
        with written(path.parent):
            write(path.with_name(NEW), content.getvalue())
            if path.exists():
                path.replace(path.with_name(PREVIOUS))
            path.with_name(NEW).replace(path)

    def load_checkpoint(self, path: Any, map_location: Any | None = None, **_: Any) -> dict[str, Any]:
        """Weights-only: whatever is pickled is refused."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what it refuses
            return torch.load(path, map_location=map_location or "cpu", weights_only=True)

    def remove_checkpoint(self, path: Any) -> None:
        """Remove a checkpoint."""
        Path(path).unlink(missing_ok=True)


def newest(folder: Path, tell: Callable[[str], None]) -> tuple[Path | None, dict[str, Any]]:
    """The newest checkpoint of a run that is whole, and what is in it; nothing where there was none yet.

    tell: gets a line for every one that is not
    """
    damaged = []
    if not (folder / LAST).exists():
        with suppress(FileNotFoundError):  # there is one where a run was killed before it got its name
            (folder / NEW).replace(folder / LAST)
    for path in (folder / LAST, folder / PREVIOUS):
        if not path.exists():
            continue
        try:
            content = WholeFiles().load_checkpoint(path)
            if not isinstance(content, dict) or "torch_ctree" not in content:
                raise ValueError("not a checkpoint of torch-ctree")
        except Exception as error:  # torch raises whatever it meets in a damaged file
            damaged.append(f"{path}: a damaged checkpoint ({in_one_line(error, 100)})")
            continue
        for line in damaged:
            tell(f"{line}; going on from {path.name}, after step {content['global_step']:,}")
        return path, content
    if damaged:
        raise TrainingError(f"{damaged[0]}, and no earlier one is whole; train again with another --run")
    tell(f"{folder}: stopped before its first checkpoint; from the beginning")
    return None, {}


class Keeper(pl.Callback):
    """After every epoch: the best model, the last checkpoint, the metrics; within long epochs a checkpoint as well.

    The checkpoint comes last but for the metrics, and holds all of theirs: wherever a run is killed, what is on the
    disk after going on is what an uninterrupted run would have left.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder, self.steps = folder, steps
        self.history: list[dict[str, float]] = []
        self.best: dict[str, float] | None = None

    def state_dict(self) -> dict[str, Any]:
        """For the checkpoint."""
        return {"history": self.history, "best": self.best}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """From the checkpoint."""
        self.history, self.best = state_dict["history"], state_dict["best"]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """What a run that was killed has left undone."""
        if trainer.is_global_zero:
            self.tidy()

    def tidy(self) -> None:
        """Its newest metrics, or some that it will compute again; files that were being written."""
        for name in (NEW, METRICS, CONFIG, *FILES):
            for left in self.folder.glob(f".{name}.*"):
                left.unlink()
        self._write_metrics()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """A checkpoint within the epoch."""
        done = batch_idx + 1
        if done % self.steps == 0 and done < trainer.num_training_batches:
            trainer.save_checkpoint(self.folder / LAST)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Keep what the epoch has brought."""
        assert isinstance(pl_module, Training)
        self.history.append(pl_module.metrics)
        rank = pl_module.attempts.rank
        if self.best is None or rank(pl_module.metrics) > rank(self.best):
            self.best = pl_module.metrics
            if trainer.is_global_zero:
                with written(self.folder):
                    pl_module.model.save_pretrained(self.folder)
        trainer.save_checkpoint(self.folder / LAST)
        if trainer.is_global_zero:
            self._write_metrics()

    def _write_metrics(self) -> None:
        if not self.history:
            return
        text = io.StringIO()
        table = csv.DictWriter(text, list(self.history[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(self.history)
        with written(self.folder):
            write(self.folder / METRICS, text.getvalue())
