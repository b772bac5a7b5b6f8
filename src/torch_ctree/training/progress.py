"""How a run is doing, on the terminal."""

from __future__ import annotations

import time
from typing import Any

import lightning.pytorch as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from torch_ctree.data.errors import count
from torch_ctree.training.attempts import Attempts, in_words
from torch_ctree.training.module import Training


class ProgressLine(pl.Callback):
    """A bar with loss, accuracy, speed and the time left, and a line for every epoch.

    Where the output is no terminal, only the lines.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[now]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.accuracy = ""
        self.task = self.bar.add_task("", total=None, now="")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Show it."""
        if trainer.is_global_zero:
            self.bar.start()
        self._begin(trainer, trainer.fit_loop.epoch_loop.batch_progress.current.ready)  # an epoch that goes on

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Time counts from here."""
        self._begin(trainer, 0)

    def _begin(self, trainer: pl.Trainer, first: int) -> None:
        self.began, self.seen, self.shown, self.first = time.monotonic(), 0, 0.0, first
        self.bar.update(self.task, description=f"epoch {trainer.current_epoch + 1}")

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        """A few times a second, so that a GPU need not wait for it."""
        self.seen += len(batch) * trainer.world_size
        now = time.monotonic()
        if now - self.shown < 0.3 or self.bar.disable:
            return
        self.shown = now
        steps, epochs = int(trainer.num_training_batches), trainer.max_epochs or 1
        whole, done = steps * epochs, steps * trainer.current_epoch + batch_idx + 1
        left = (now - self.began) / (batch_idx + 1 - self.first) * (whole - done)
        loss = float(outputs["loss"] if isinstance(outputs, dict) else outputs)
        said = f"loss {loss:.4f}{self.accuracy}  {self._speed():,.0f} pairs/s  about {_clock(left)} left"
        self.bar.update(self.task, total=whole, completed=done, now=said)

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Validation is not training speed."""
        self.speed = self._speed()
        self.bar.update(self.task, now="validating")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """One line that stays."""
        assert isinstance(pl_module, Training)
        metrics = pl_module.metrics
        self.accuracy = f"  {in_words(metrics)}"
        agreed = f", agreement {metrics['agreement']:7.2%}" if "agreement" in metrics else ""
        if trainer.is_global_zero:
            self.console.print(
                f"epoch {metrics['epoch']:>3}   loss {metrics['train_loss']:.4f}   validation: loss "
                f"{metrics['validation_loss']:.4f}, {in_words(metrics, 7)}{agreed}   "
                f"{self.speed:,.0f} pairs/s",
                soft_wrap=True,
            )
            if pl_module.attempts.failed:
                self.console.print(_why(pl_module.attempts), soft_wrap=True)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Leave the terminal as it was."""
        self.bar.stop()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Even then."""
        self.bar.stop()

    def _speed(self) -> float:
        return self.seen / max(1e-9, time.monotonic() - self.began)


def _why(attempts: Attempts) -> str:
    """An attempt has failed."""
    said = f"no more than {attempts.best:.2%} in {count(attempts.lasted, 'epoch')}, less than {attempts.below:.2%}"
    if attempts.stands_alone and attempts.before:
        said = f"alike with one before it in {attempts.closest:.2%} of its answers, less than {attempts.agreement:.2%}"
    elif attempts.stands_alone:
        said = "the first, with none to agree with"
    return f"attempt {attempts.number}: {said}; beginning anew with other weights"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
