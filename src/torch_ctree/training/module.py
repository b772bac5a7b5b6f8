"""What Lightning trains."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from math import inf, isnan
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.core.optimizer import LightningOptimizer
from torch import Tensor

from torch_ctree.data import Batch, Batches, DataError, Encoder, recombined
from torch_ctree.data.order import Purpose, random_bits
from torch_ctree.evaluation.translation import NGRAMS, bleu_counts, bleu_of
from torch_ctree.models import Decoded, ModelConfig, Seq2Seq
from torch_ctree.training.attempts import Answers, Attempts, quality
from torch_ctree.training.batches import Loader, Turn, Turns
from torch_ctree.training.configuration import OptimisationConfig
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.graphs import Optimiser, Steps, adam, settle
from torch_ctree.training.preparation import Prepared
from torch_ctree.training.schedule import Plateau, scale

STEPS_BETWEEN_LOGS = 20
NEW_SOURCES = 512
"""To be asked about after every epoch, where that is wanted."""
VALIDATED_AT_ONCE = 4
"""So many times as many pairs as a training batch has: without gradients, a GPU has room for them."""


def new_model(config: ModelConfig, source: Encoder, target: Encoder, *key: int) -> Seq2Seq:
    """A model with first weights that depend on the key alone, such as a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(random_bits(Purpose.FIRST_WEIGHTS, *key).random_raw()))
        return Seq2Seq(config, source, target)


def _new_sources(prepared: Prepared, like: Batches, seed: int) -> Batches:
    """As many at once as pairs are validated."""
    new = recombined(prepared.train.source, NEW_SOURCES, seed)
    if not len(new):
        raise DataError("restart_agreement: no word of a training source can be exchanged for another; expected 0")
    return Batches(new, batch_size=like.batch_size, max_tokens=like.max_tokens, bucketed=True, shuffle=False)


class Training(pl.LightningModule):
    """A model with its loss, its optimiser and its batches.

    Chance depends on (seed, epoch, step) alone: a run that goes on from a checkpoint sees what it would have seen.

    fast: whether every step is one CUDA graph; see ``graphs``
    """

    def __init__(
        self, model: Seq2Seq, prepared: Prepared, config: OptimisationConfig, seed: int, fast: bool = False
    ) -> None:
        super().__init__()
        self.automatic_optimization = False  # a graph has the whole step in it
        self.model, self.config, self.seed, self.fast = model, config, seed, fast
        size, tokens = config.batch_size, config.max_tokens
        self.batches = Batches(prepared.train, batch_size=size, max_tokens=tokens, seed=seed, most=config.epoch_steps)
        self.validation = Batches(
            prepared.validation,
            batch_size=VALIDATED_AT_ONCE * size if fast else size,
            max_tokens=tokens and VALIDATED_AT_ONCE * tokens if fast else tokens,
            bucketed=True,
            shuffle=False,
        )
        self.new = _new_sources(prepared, self.validation, seed) if config.restart_agreement else None
        """Sources that nobody has seen, and whose answers nobody knows."""
        self.digest = prepared.digest()
        self.plateau = Plateau(config.patience)
        self.references = prepared.references
        self.attempts = Attempts(
            config.restart_after, config.restart_below, config.restart_agreement, config.ties, config.select
        )
        self.steps: Steps | None = None
        self.loss = torch.tensor(inf)
        """Of the latest batch."""
        self.rate = config.lr
        """Of the latest step."""
        self.totals: dict[str, Tensor] = {}
        self.metrics: dict[str, float] = {}
        """Of the latest epoch."""

    # --- training -----------------------------------------------------------------------------------------------------

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam, with decoupled weight decay."""
        return adam(self, self.config, self.fast)

    def train_dataloader(self) -> Loader:
        """Of the epoch that begins."""
        epoch = self.batches.epoch(self.current_epoch)
        return Turns(epoch) if self.fast else Loader(epoch, self.global_rank, self.trainer.world_size)

    def on_train_start(self) -> None:
        """A checkpoint may come from a run that computed elsewhere: the optimiser computes here."""
        (optimiser,) = self.trainer.optimizers
        settle(optimiser, self.device)
        if isinstance(optimiser, Optimiser):
            self.steps = Steps(self.model, optimiser, self.batches, self.config.gradient_norm)

    def on_train_epoch_start(self) -> None:
        """Where an attempt has failed, the next one: here, when what the failed one has learned is on the disk."""
        if not self.attempts.failed:
            return
        self.attempts = self.attempts.next(self.global_step)
        model = self.model
        again = self.attempts.number - 1
        fresh = new_model(model.config, model.source, model.target, self.seed, again)
        model.load_state_dict(fresh.state_dict())  # in place: graphs know where the weights are
        for state in self.trainer.optimizers[0].state.values():
            for moment in state.values():
                moment.zero_()
        self.learning_rate, self.plateau = self.config.lr, Plateau(self.config.patience)

    def training_step(self, batch: Batch | Turn, batch_idx: int) -> Tensor:
        """One step, all of it; → the loss, of a graph that of a moment ago."""
        bits = random_bits(Purpose.DROPOUT, self.seed, self.current_epoch, batch_idx, self.global_rank)
        torch.manual_seed(int(bits.random_raw()))
        optimiser = self.optimizers()
        assert isinstance(optimiser, LightningOptimizer)
        self.rate = self._rate_of(batch_idx)
        self._set_rate(self.rate)
        if self.steps is not None:
            if self.steps.epoch != self.current_epoch:  # it begins, or goes on
                self.steps.begin(self.current_epoch, batch_idx, self.totals)
                self.totals = {}
            optimiser.step(partial(self.steps, batch_idx))
            return self.steps.latest
        assert isinstance(batch, Batch)
        optimiser.step(partial(self._forward_and_backward, optimiser, batch))
        return self.loss

    def _forward_and_backward(self, optimiser: LightningOptimizer, batch: Batch) -> None:
        """The mean loss of all processes' pairs; Lightning takes the mean over processes, hence the factor."""
        optimiser.zero_grad()
        losses, pairs = self.model.losses(batch), batch.real.sum()
        self._add(loss=losses.detach().sum(), pairs=pairs)
        loss = losses.sum() / pairs
        if self.trainer.world_size > 1:
            everyone = self.trainer.strategy.reduce(pairs.clone(), reduce_op="sum")
            # Processes wait for one another's gradients: each must have one of every weight, if only zero.
            nothing = sum(0 * parameter.sum() for parameter in self.parameters())
            loss = losses.sum() * self.trainer.world_size / everyone + nothing
        with torch.autocast(self.device.type, enabled=False):  # which is for the forward pass alone
            self.manual_backward(loss)
        self.loss = loss.detach()  # what is returned here does not come out of a scaler's step

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Cut long gradients; a graph has done so."""
        if self.steps is None:
            torch.nn.utils.clip_grad_norm_(self.parameters(), self.config.gradient_norm)

    def on_train_batch_end(self, outputs: Any, batch: Batch | Turn, batch_idx: int) -> None:
        """Now and then, for TensorBoard; a GPU would have to wait for it, so that graphs' losses come all at once."""
        if self.steps is None and self.global_step % STEPS_BETWEEN_LOGS == 0:
            self._log_loss(float(outputs["loss"]), self.global_step)

    def on_validation_epoch_start(self) -> None:
        """After the epoch's last step: what its steps have kept on the GPU."""
        if self.steps is None:
            return
        self.totals |= self.steps.kept()
        self.steps.totals.zero_()  # a checkpoint after the epoch's end has nothing of it
        last = self.global_step
        losses = self.steps.losses[self.steps.first : len(self.steps.shapes)].tolist()
        for step, loss in enumerate(losses, last - len(losses) + 1):
            if step % STEPS_BETWEEN_LOGS == 0:
                self._log_loss(loss, step)

    def _log_loss(self, loss: float, step: int) -> None:
        if self.logger is not None:
            self.logger.log_metrics({"train_loss_of_batch": loss}, step)

    def transfer_batch_to_device(self, batch: Batch | Turn, device: torch.device, dataloader_idx: int) -> Batch | Turn:
        """Without waiting for it."""
        return batch.to(device, non_blocking=True) if isinstance(batch, Batch) else batch

    # --- validation ---------------------------------------------------------------------------------------------------

    def val_dataloader(self) -> Loader:
        """Every validation pair."""
        return Loader(self.validation.epoch(0), self.global_rank, self.trainer.world_size)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """How many answers are just right, and how probable the true ones are."""
        answers, scores = self.model.examine(batch)
        right = self.model.are_right(answers, batch)
        losses = torch.where(batch.real, -scores / batch.target_lengths, 0)
        self._add(validation_right=right.sum(), validation_loss=losses.sum(), validation_pairs=batch.real.sum())
        if self.config.select == "bleu":
            self._add(validation_ngrams=self._ngrams(answers, batch))

    def _ngrams(self, answers: Decoded, batch: Batch) -> Tensor:
        """What BLEU is made of, summed up over a batch, (10,)"""
        known, tokens, lengths = self.references, answers.tokens.tolist(), answers.lengths.tolist()
        found = [
            bleu_counts(self.model.target.decode(some[:length]), known.texts[int(row)], known.tokenised)
            for row, some, length in zip(batch.rows.tolist(), tokens, lengths, strict=True)
            if row >= 0
        ]
        return torch.tensor(found, device=self.device).sum(0) if found else torch.zeros(NGRAMS, device=self.device)

    def on_validation_epoch_end(self) -> None:
        """Sum up the epoch, and choose the learning rate of the next."""
        sums = self._everyones_totals()
        ngrams = sums.pop("validation_ngrams", None)
        totals = {name: float(total) for name, total in sums.items()}
        self.totals = {}
        self.metrics = {
            "epoch": self.current_epoch + 1,
            "step": self.global_step,
            "train_loss": totals["loss"] / totals["pairs"],
            "validation_loss": totals["validation_loss"] / totals["validation_pairs"],
            "validation_accuracy": totals["validation_right"] / totals["validation_pairs"],
            **({} if ngrams is None else {"validation_bleu": bleu_of(ngrams.tolist())}),
            "learning_rate": self.rate,
            "attempt": self.attempts.number,
        }
        answers: Answers = []
        if self.new is not None:  # it takes long to answer as long as a model knows nothing
            if self.metrics["validation_accuracy"] >= self.config.restart_below:
                answers = self._answers(self.new)
            self.metrics["agreement"] = self.attempts.compare(answers) if answers else 0.0
        for name, called in (("train_loss", "training loss"), ("validation_loss", "validation loss")):
            if isnan(self.metrics[name]):
                raise TrainingError(
                    f"epoch {self.current_epoch + 1}: the {called} is not a number any more; train anew with another "
                    f"--run and a lower --optimisation.lr (now {self.config.lr:g}) or --optimisation.gradient_norm"
                )
        if self.logger is not None:
            self.logger.log_metrics(self.metrics, self.global_step)
        self.attempts.count(self.metrics, answers)
        if not self.attempts.failed:
            self._go_on_or_end()

    def _go_on_or_end(self) -> None:
        """Choose the learning rate of the next epoch; where it becomes too low, or attempts agree, this one ends."""
        rate = self.learning_rate
        falls = self.plateau.falls(quality(self.metrics, self.config.select), self.metrics["validation_loss"])
        if falls and self.config.schedule == "plateau":
            rate *= self.config.factor
        self.attempts.ended = rate < self.config.min_lr or self.attempts.is_agreed
        if self.attempts.stands_alone:
            return
        self.learning_rate = rate
        self.trainer.should_stop |= self.attempts.ended

    def _answers(self, new: Batches) -> Answers:
        """The model's, in the order of the sources."""
        found: dict[int, tuple[int, ...]] = {}
        for batch in new.epoch(0):
            answers, _ = self.model.examine(batch.to(self.device))
            tokens, lengths = answers.tokens.tolist(), answers.lengths.tolist()
            for row, some, length in zip(batch.rows.tolist(), tokens, lengths, strict=True):
                found[row] = tuple(some[:length])
        return [found[row] for row in sorted(found)]

    @property
    def learning_rate(self) -> float:
        """Of an epoch; ``scale`` makes that of a step of it. A graph's is the same in float32."""
        return self.trainer.optimizers[0].param_groups[0]["rate"]

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.trainer.optimizers[0].param_groups[0]["rate"] = value
        self._set_rate(value)

    def _rate_of(self, batch_idx: int) -> float:
        """Of a step of this epoch."""
        batches, epochs = self.trainer.num_training_batches, self.config.max_epochs
        done = (self.current_epoch + batch_idx / batches) / epochs
        return self.learning_rate * scale(self.config, self.global_step + 1 - self.attempts.since, done)

    def _set_rate(self, value: float) -> None:
        """Of the next step."""
        group = self.trainer.optimizers[0].param_groups[0]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(value)  # graphs know its place
        else:
            group["lr"] = value

    def _add(self, **numbers: Tensor) -> None:
        """To the sums of this epoch."""
        for name, number in numbers.items():
            exact = number.double() if number.device.type != "mps" else number.float()
            self.totals[name] = self.totals[name] + exact if name in self.totals else exact

    def _everyones_totals(self) -> dict[str, Tensor]:
        """Of all processes together."""
        reduce = self.trainer.strategy.reduce
        return {name: reduce(total.clone(), reduce_op="sum") for name, total in self.totals.items()}

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What Lightning does not know of."""
        totals = self._everyones_totals() if self.steps is None else self.totals | self.steps.kept()
        checkpoint["torch_ctree"] = {
            "plateau": asdict(self.plateau),
            "attempts": asdict(self.attempts),
            "totals": totals,
            "metrics": self.metrics,
            "digest": self.digest,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on from there."""
        state = checkpoint["torch_ctree"]
        self.plateau = Plateau(**state["plateau"] | {"patience": self.config.patience})
        self.attempts = Attempts(**state["attempts"])
        self.metrics = state["metrics"]
        if self.global_rank == 0:  # one process takes what all had
            self.totals = {name: total.to(self.device) for name, total in state["totals"].items()}
