"""A whole run: from settings to a trained model in a folder."""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from filelock import FileLock, Timeout
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.loggers import TensorBoardLogger
from rich.console import Console
from torch.utils import deterministic

from torch_ctree.data.errors import DataError
from torch_ctree.devices import in_tf32
from torch_ctree.models import ModelError, Seq2Seq, fused
from torch_ctree.models.output import Output
from torch_ctree.models.pretrained import WEIGHTS
from torch_ctree.training.attempts import Attempts
from torch_ctree.training.checkpoints import LAST, NEW, PREVIOUS, Keeper, WholeFiles, newest
from torch_ctree.training.configuration import (
    CONFIG,
    OF_NO_INTEREST,
    TrainConfig,
    TrainerConfig,
    differences,
)
from torch_ctree.training.errors import TrainingError
from torch_ctree.training.module import Training, new_model
from torch_ctree.training.preparation import Prepared, prepare
from torch_ctree.training.progress import ProgressLine
from torch_ctree.training.reading import build, read
from torch_ctree.training.sharing import check_part

MAX_EPOCHS = "optimisation.max_epochs"


@dataclass(frozen=True)
class Finished:
    """What came out."""

    folder: Path
    best: dict[str, float]
    """The metrics of the best epoch, whose model is in the folder."""
    epochs: int
    """How many there were, of all attempts."""
    attempts: int
    """How often it began."""


def train(
    config: TrainConfig,
    folder: str | Path,
    resume: bool = False,
    console: Console | None = None,
    callbacks: Sequence[pl.Callback] = (),
) -> Finished:
    """Train a model and leave it in a folder, as it was after its best epoch.

    Where several processes train, all but the first end here.

    config: every setting
    folder: of the run; it must be new, unless the run goes on
    resume: go on from the last checkpoint in the folder
    console: where to say how it goes; by default the terminal
    callbacks: of Lightning's, more of your own
    """
    folder = Path(folder).expanduser()
    if _is_first(config):
        return _train(config, folder, resume, console or Console(highlight=False), callbacks, first=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process is told, and ends those that help it
    with suppress(TrainingError):  # the first says the same
        _train(config, folder, resume, Console(quiet=True), callbacks, first=False)
    raise SystemExit


def _train(
    config: TrainConfig, folder: Path, resume: bool, console: Console, callbacks: Sequence[pl.Callback], first: bool
) -> Finished:
    with ExitStack() as stack:
        path, checkpoint = None, {}
        if resume:
            _check_same(config, folder)
            if first:
                stack.enter_context(_alone(folder))
            path, checkpoint = newest(folder, lambda line: console.print(line, soft_wrap=True, markup=False))
        elif first:
            _check_new(folder)
        config = replace(config, data=config.data.absolute())
        prepared = prepare(config, config.data.load())
        if checkpoint and checkpoint["torch_ctree"]["digest"] != prepared.digest():
            raise TrainingError(f"{folder}: the data have changed since the run began; train anew with another --run")
        model = make_model(prepared, config.seed)
        keeper = Keeper(folder, config.optimisation.checkpoint_steps)
        if _on_gpu(config.trainer):
            check_part(config.trainer.precision)
            stack.enter_context(_gpu(config.trainer.tf32))
            stack.enter_context(fused.switched(config.trainer.fast))
        trainer = _trainer(
            config, folder, [keeper, ProgressLine(console), Helpers(), *callbacks], checkpoint.get("global_step")
        )
        with _named("optimisation"):
            module = Training(model, prepared, config.optimisation, config.seed, _is_fast(config.trainer))
        if first:
            if not resume:
                stack.enter_context(_alone(folder))
            config.save(folder / CONFIG)
            _introduce(console, config, prepared, model, folder)
        if _is_over(checkpoint, config):
            for callback in (keeper, *callbacks):
                callback.load_state_dict(checkpoint["callbacks"].get(callback.state_key, {}))
            keeper.tidy()
        else:
            _fit(trainer, module, path)
    assert keeper.best is not None
    return Finished(folder, keeper.best, len(keeper.history), int(keeper.history[-1]["attempt"]))


def _on_gpu(settings: TrainerConfig) -> bool:
    return settings.may_use_gpu and torch.cuda.is_available()


def _is_fast(settings: TrainerConfig) -> bool:
    """Whether steps can be CUDA graphs: on one GPU, and with numbers that need no scaling, which looks at them."""
    return (
        settings.fast
        and _on_gpu(settings)
        and settings.devices * settings.num_nodes == 1
        and (settings.precision != "16-mixed")
    )


@contextmanager
def _gpu(tf32: bool) -> Iterator[None]:
    """How torch computes on a GPU; afterwards, as it was before."""
    fill = deterministic.fill_uninitialized_memory  # pyright: ignore
    exact = torch.are_deterministic_algorithms_enabled()
    deterministic.fill_uninitialized_memory = False  # nothing reads it  # pyright: ignore
    try:
        with in_tf32(on=tf32):
            yield
    finally:
        deterministic.fill_uninitialized_memory = fill  # pyright: ignore
        torch.use_deterministic_algorithms(exact)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two runs in one folder would write over one another."""
    lock = FileLock(folder / "training.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        raise TrainingError(f"{folder}: another process is training here; name another folder (--run)") from None
    except OSError as error:
        raise TrainingError(f"{folder}: no folder for a run: {error.strerror}; name another (--run)") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _named(section: str) -> Iterator[None]:
    """What is wrong with a setting begins with its name; here it gets its section."""
    try:
        yield
    except (DataError, ModelError) as error:
        raise TrainingError(f"{section}.{error}") from error


class Helpers(pl.Callback):
    """The processes that help the first one end with it, and do not wonder where it is."""

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        """Before the connection to them is closed."""
        processes = getattr(trainer.strategy.launcher, "procs", [])  # where Lightning has started any
        for process in processes:
            process.kill()
            process.wait()
        processes.clear()  # Lightning watches these, and would kill this one too


def make_model(prepared: Prepared, seed: int) -> Seq2Seq:
    """A model with its first weights, which depend on the seed alone."""
    with _named("model"):
        return new_model(prepared.model, prepared.source, prepared.target, seed)


def _trainer(config: TrainConfig, folder: Path, callbacks: list[pl.Callback], resumed_at: int | None) -> pl.Trainer:
    """Lightning's, which says nothing of its own."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    settings = config.trainer
    purge = None if resumed_at is None else resumed_at + 1  # TensorBoard forgets what a killed run did after that
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "GPU available but not used")  # as was asked for
            return pl.Trainer(
                accelerator=settings.accelerator,
                devices=settings.devices,
                num_nodes=settings.num_nodes,
                strategy=settings.strategy,
                precision="32-true" if settings.precision == "32-exact" else settings.precision,  # pyright: ignore[reportArgumentType]
                deterministic=settings.deterministic and _on_gpu(settings),
                max_epochs=config.optimisation.max_epochs,
                callbacks=callbacks,
                plugins=[WholeFiles()],
                logger=TensorBoardLogger(folder, name="", version="tensorboard", purge_step=purge),
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                num_sanity_val_steps=0,
                log_every_n_steps=1,  # how often is the module's own choice
                reload_dataloaders_every_n_epochs=1,
                use_distributed_sampler=False,
            )
    except (ValueError, RuntimeError, TypeError, ImportError, MisconfigurationException) as error:
        raise TrainingError(f"trainer: {' '.join(str(error).split())}") from error


def _fit(trainer: pl.Trainer, module: Training, checkpoint: Path | None) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .* does not have many workers")  # batches are made in no time
        warnings.filterwarnings("ignore", "Be aware that when using `ckpt_path`")  # a run needs only its own callbacks
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # Lightning 2.6 on torch 2.13
        try:
            trainer.fit(module, ckpt_path=checkpoint)
        except SystemExit:
            if not trainer.interrupted:
                raise
    if trainer.interrupted:
        raise KeyboardInterrupt


def _is_first(config: TrainConfig) -> bool:
    """Whether this is the first of several processes; those that Lightning or a cluster starts are told."""
    several = config.trainer.devices * config.trainer.num_nodes > 1
    told_so = (os.environ.get(name) for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID"))
    return not several or not any(number and int(number) for number in told_so)


def _check_new(folder: Path) -> None:
    """Never write over a run."""
    if any((folder / name).exists() for name in (LAST, NEW, PREVIOUS, WEIGHTS)):
        raise TrainingError(
            f"{folder}: there is a run already; go on with it (--resume), or name another folder (--run)"
        )


def _check_same(config: TrainConfig, folder: Path) -> None:
    """A run goes on with the settings it began with."""
    if not (folder / CONFIG).is_file():
        raise TrainingError(f"{folder}: no run here to go on with; train it without --resume")
    began = build(read(folder / CONFIG))
    config = replace(config, data=config.data.absolute())
    # Where it computes may differ, and when it ends, unless the learning rate depends on that.
    may_change = (*OF_NO_INTEREST, *([MAX_EPOCHS] if began.optimisation.schedule == "plateau" else []))
    for name, then, now in differences(began, config):
        if name not in may_change:
            raise TrainingError(
                f"{name}: got {now!r}; {folder} began with {then!r}: go on with that, or train anew with another --run"
            )


def _is_over(checkpoint: dict[str, Any], config: TrainConfig) -> bool:
    """Whether a run has nothing left to do."""
    if not checkpoint:
        return False
    attempts = Attempts(**checkpoint["torch_ctree"]["attempts"])
    history = checkpoint["callbacks"]["Keeper"]["history"]
    return len(history) >= config.optimisation.max_epochs or (attempts.ended and not attempts.failed)


def _introduce(console: Console, config: TrainConfig, prepared: Prepared, model: Seq2Seq, folder: Path) -> None:
    """What will be trained, in a few lines."""
    kind = f"{config.model.encoder} + {config.model.decoder}"
    if any(isinstance(part, Output) for part in model.modules()):
        kind += f" ({config.model.output})"
    said = [
        f"{config.data.name}: {len(prepared.train):,} pairs to train on, {len(prepared.validation):,} to validate",
        f"{kind}, {model.parameter_count:,} parameters, seed {config.seed} → {folder}",
        *prepared.remarks,
    ]
    for line in said:
        console.print(line, markup=False, soft_wrap=True)
