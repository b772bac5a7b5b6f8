"""Steps with the pairs on the device, and as CUDA graphs: the plain step, within rounding."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn

from tests.training.runs import outcome, pairs, settings, train
from torch_ctree.data import Batches, Encoded, Pairs, Vocabulary
from torch_ctree.models import ModelConfig, Seq2Seq, fused
from torch_ctree.models.decoders import LaNMT
from torch_ctree.training import graphs, module, running
from torch_ctree.training.graphs import Optimiser, Shape, Steps, shapes_of
from torch_ctree.training.sharing import SHARE
from torch_ctree.training.together import Run, train_together

from .test_module import rows

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
needs_gpu = pytest.mark.skipif(not GPU, reason="no GPU")

EPS = 1e-4
"""Of Adam; without it, what comes of rounding alone would be made as large as any gradient."""
STILL: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0}
MODELS: dict[str, dict[str, Any]] = {
    "OM-CTree + LA": {},
    "OM-CTree": {"output": "mlp"},
    "OM-CTree that copies": {"output": "copy"},
    "BiRNN-CTree + LA": {"encoder": "birnn", "layers": 2},
    "OM-Seq + LA": {"decoder": "production"},
    "LSTM": {"encoder": "birnn", "layers": 1, "decoder": "lstm", "output": "mlp"},
    "torch-ctree": {"encoder": "spans", "decoder": "grammar", "operators": 3, "depth": 12},
}


def encoded() -> tuple[Encoded, Vocabulary, Vocabulary]:
    some = Pairs.of(pairs())
    source, target = Vocabulary.build(some.sources()), Vocabulary.build(some.targets())
    return Encoded.of(some, source, target), source, target


def a_model(**changes: Any) -> Seq2Seq:
    _, source, target = encoded()
    torch.manual_seed(0)
    return Seq2Seq(ModelConfig(**{"width": 16, "depth": 3, **STILL, **changes}), source, target).to(DEVICE)


def optimiser_of(model: Seq2Seq) -> Optimiser:
    rate = torch.tensor(3e-3, device=DEVICE)
    return Optimiser(model.parameters(), rate, (0.5, 0.9), EPS, weight_decay=0.0, capturable=GPU, fused=GPU or None)


def stepped(model: Seq2Seq, batches: Batches, epoch: int, steps: range) -> Steps:
    them = Steps(model, optimiser_of(model), batches, gradient_norm=0.5)
    them.begin(epoch, steps.start)
    for n in steps:
        them(n)
    return them


def plainly(model: Seq2Seq, batches: Batches, epoch: int, steps: range) -> list[float]:
    """One operation after the other → the losses."""
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3, (0.5, 0.9), EPS, weight_decay=0.0)
    losses = []
    with fused.switched(False):
        for n in steps:
            optimiser.zero_grad()
            loss = model.loss(batches.epoch(epoch)[n].to(DEVICE))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimiser.step()
            losses.append(loss.item())
    return losses


def assert_same_weights(one: Seq2Seq, other: Seq2Seq) -> None:
    for name, tensor in one.state_dict().items():
        torch.testing.assert_close(tensor, other.state_dict()[name], atol=1e-4, rtol=1e-3, msg=name)


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"batch_size": 7}, {"max_tokens": 40}, {"max_tokens": 40, "batch_size": 4}])
def test_the_batches_of_the_loader(options):
    batches = Batches(encoded()[0], **options)
    epoch = batches.epoch(2)
    shapes = shapes_of(batches, epoch)
    there = graphs.Pairs(batches.pairs, DEVICE)
    there.arrange(epoch.rows, shapes, 0)
    for shape, expected in zip(shapes, epoch, strict=True):
        batch = there.take(shape).to("cpu")
        real = batch.real
        assert (len(batch), batch.source.shape[1], batch.target.shape[1]) == shape
        assert batch.rows[real].tolist() == expected.rows.tolist()
        assert (batch.rows[~real] == -1).all()
        for name in ("source", "target"):
            tokens, mask = getattr(batch, name)[real], getattr(batch, f"{name}_mask")[real]
            wanted = getattr(expected, name)[getattr(expected, f"{name}_mask")]
            assert tokens[mask].tolist() == wanted.tolist()


def test_one_shape_where_lengths_are_mixed_and_few_where_they_are_alike():
    everything = encoded()[0]
    mixed = Batches(everything, batch_size=7)
    assert set(shapes_of(mixed, mixed.epoch(0))) == {Shape(7, *everything.longest)}
    alike = Batches(everything, batch_size=8, bucketed=True)
    for shape, rows_ in zip(shapes_of(alike, alike.epoch(0)), alike.epoch(0).rows, strict=True):
        assert shape.pairs == 8
        for width, side, most in zip(
            shape[1:], (everything.source, everything.target), everything.longest, strict=True
        ):
            longest = int(np.max(side.lengths[rows_]))
            assert longest <= width <= most
            assert width in (most, -(-longest // 8) * 8)


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_as_the_plain_step(settings):
    batches = Batches(encoded()[0], batch_size=10)
    fast, plain = a_model(**settings), a_model(**settings)
    steps = stepped(fast, batches, 1, range(5))
    losses = plainly(plain, batches, 1, range(5))
    torch.testing.assert_close(steps.losses[:5].tolist(), losses, atol=1e-4, rtol=1e-3)
    assert_same_weights(fast, plain)
    assert len(steps.graphs) == GPU  # the third time it is recorded
    total, seen = steps.totals.tolist()
    sizes = [len(rows_) for rows_ in batches.epoch(1).rows]
    assert seen == sum(sizes) == 48
    assert total == pytest.approx(sum(loss * size for loss, size in zip(losses, sizes, strict=True)), rel=1e-3)


def test_latents_are_drawn_anew_at_every_step():
    batches = Batches(encoded()[0], batch_size=10)
    model = a_model(encoder="transformer", layers=1, decoder="lanmt", output="linear", free_bits_steps=10)
    latents = model.decoder
    assert isinstance(latents, LaNMT)
    steps = stepped(model, batches, 0, range(5))
    assert len(steps.graphs) == GPU
    assert latents.steps.item() == 5
    steps.optimiser.param_groups[0]["lr"].fill_(0)  # of the same pairs, what differs is the draw
    losses = []
    for _ in range(3):
        steps.begin(1, 0)
        latents.steps.zero_()
        steps(0)
        losses.append(steps.losses[0].item())
    assert len(set(losses)) == 3
    assert losses == pytest.approx(3 * [losses[0]], rel=0.5)


def test_batches_of_several_shapes():
    batches = Batches(encoded()[0], max_tokens=60)
    fast, plain = a_model(), a_model()
    count = len(batches.epoch(0))
    stepped(fast, batches, 0, range(count))
    plainly(plain, batches, 0, range(count))
    assert_same_weights(fast, plain)


def test_an_epoch_that_goes_on():
    batches = Batches(encoded()[0], batch_size=10)
    fast, plain = a_model(), a_model()
    stepped(fast, batches, 3, range(2, 5))
    plainly(plain, batches, 3, range(2, 5))
    assert_same_weights(fast, plain)


def test_a_longer_epoch_finds_room():
    batches = Batches(encoded()[0], max_tokens=60)
    model = a_model()
    steps = Steps(model, optimiser_of(model), batches, 0.5)
    for epoch in range(3):
        steps.begin(epoch, 0)
        for n in range(len(steps.shapes)):
            steps(n)
        assert steps.totals[1] == 48


# --- whole runs, as on a GPU but without graphs -----------------------------------------------------------------------


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(running, "_is_fast", lambda settings: True)


def test_a_run_after_a_pause(fast, tmp_path, place):
    config = settings(place)
    train(config, tmp_path / "one")
    train(settings(place, optimisation={"max_epochs": 1}), tmp_path / "two")
    train(config, tmp_path / "two", resume=True)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")


def test_a_run_that_was_killed_within_an_epoch(fast, monkeypatch, tmp_path, place):
    config = settings(place)
    train(config, tmp_path / "one")
    step = Steps.__call__

    def die(self: Steps, n: int) -> None:
        if (self.epoch, n) == (1, 3):
            raise KeyboardInterrupt
        step(self, n)

    monkeypatch.setattr(Steps, "__call__", die)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "two")
    monkeypatch.setattr(Steps, "__call__", step)
    monkeypatch.setattr(module, "STEPS_BETWEEN_LOGS", 1)
    train(config, tmp_path / "two", resume=True)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two")
    assert all(loss > 0 for loss in losses_logged(tmp_path / "two"))


def losses_logged(folder: Path) -> list[float]:
    accumulator = EventAccumulator(str(folder / "tensorboard"))
    accumulator.Reload()
    return [event.value for event in accumulator.Scalars("train_loss_of_batch")]


def test_every_step_is_logged(fast, monkeypatch, tmp_path, place):
    monkeypatch.setattr(module, "STEPS_BETWEEN_LOGS", 1)
    train(settings(place), tmp_path / "run")
    found = losses_logged(tmp_path / "run")
    assert len(found) == 15
    assert all(loss > 0 for loss in found)


def test_a_rate_that_float32_does_not_have(fast, tmp_path, place):
    changes = {"lr": 0.01, "min_lr": 0.01, "patience": 9}
    train(settings(place, optimisation=changes), tmp_path / "run")
    assert [row["learning_rate"] for row in rows(tmp_path / "run")] == [0.01] * 3


# --- on a GPU ---------------------------------------------------------------------------------------------------------


@needs_gpu
def test_nobody_waits_within_an_epoch():
    batches, model = Batches(encoded()[0], batch_size=10), a_model(dropout=0.1, attention_dropout=0.1)
    steps = stepped(model, batches, 0, range(3))
    assert steps.graphs
    with warnings.catch_warnings(action="ignore"):  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        steps(3)
        steps(4)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_gpu
def test_a_step_that_cannot_be_recorded(monkeypatch):
    batches, model, plain = Batches(encoded()[0], batch_size=10), a_model(), a_model()
    losses = Seq2Seq.losses

    def nosy(self: Seq2Seq, batch: Any) -> torch.Tensor:
        found = losses(self, batch)
        assert found.sum().item() > 0  # waits
        return found

    monkeypatch.setattr(Seq2Seq, "losses", nosy)
    with pytest.warns(UserWarning, match="waits for the GPU"):
        stepped(model, batches, 0, range(5))
    plainly(plain, batches, 0, range(5))
    assert_same_weights(model, plain)


def on_gpu(place: Path, **changes: Any):
    trainer = {"accelerator": "gpu", **changes.pop("trainer", {})}
    return settings(place, trainer=trainer, model={"width": 32, **changes.pop("model", {})}, **changes)


@needs_gpu
def test_a_run_is_the_same_every_time_and_after_a_pause(tmp_path, place):
    config = on_gpu(place)
    train(config, tmp_path / "one")
    train(config, tmp_path / "two")
    short = on_gpu(place, optimisation={"max_epochs": 1})
    train(short, tmp_path / "three")
    train(config, tmp_path / "three", resume=True)
    assert outcome(tmp_path / "one") == outcome(tmp_path / "two") == outcome(tmp_path / "three")


@needs_gpu
def test_side_by_side_is_as_alone(tmp_path, place):
    configs = [on_gpu(place, seed=seed) for seed in range(2)]
    for seed, config in enumerate(configs):
        train(config, tmp_path / f"alone-{seed}")
    runs = [Run(config, tmp_path / f"together-{seed}") for seed, config in enumerate(configs)]
    assert not any(found.error for found in train_together(runs, 2, Console(quiet=True)))
    for seed in range(2):
        assert outcome(tmp_path / f"alone-{seed}") == outcome(tmp_path / f"together-{seed}")


@needs_gpu
def test_with_a_part_of_the_gpu_it_is_the_same_within_rounding(tmp_path, place, monkeypatch):
    monkeypatch.setenv(SHARE, "20")
    configs = [on_gpu(place, seed=seed, model=STILL, optimisation={"lr": 1e-3, "eps": EPS}) for seed in range(2)]
    runs = [Run(config, tmp_path / f"together-{seed}") for seed, config in enumerate(configs)]
    assert not any(found.error for found in train_together(runs, 2, Console(quiet=True)))
    monkeypatch.delenv(SHARE)
    for seed, config in enumerate(configs):
        train(config, tmp_path / f"alone-{seed}")
        for one, other in zip(rows(tmp_path / f"alone-{seed}"), rows(tmp_path / f"together-{seed}"), strict=True):
            assert one == pytest.approx(other, rel=1e-2)


@needs_gpu
def test_a_run_without_dropout_is_the_plain_run(tmp_path, place):
    slowly = {"lr": 1e-3, "eps": EPS}
    for fast in (True, False):
        train(on_gpu(place, trainer={"fast": fast}, model=STILL, optimisation=slowly), tmp_path / str(fast))
    for one, other in zip(rows(tmp_path / "True"), rows(tmp_path / "False"), strict=True):
        assert one == pytest.approx(other, rel=1e-2)  # TF32 has three digits


@needs_gpu
def test_a_run_in_bfloat16(tmp_path, place):
    """With graphs, with dropout, and at the paper's width; every epoch's losses are numbers, near those of TF32."""
    for precision in ("bf16-mixed", "32-true"):
        train(in_bfloat16(place, trainer={"precision": precision}), tmp_path / precision)
    for half, full in zip(rows(tmp_path / "bf16-mixed"), rows(tmp_path / "32-true"), strict=True):
        assert half["train_loss"] == pytest.approx(full["train_loss"], rel=0.03)
        assert half["validation_loss"] == pytest.approx(full["validation_loss"], rel=0.03)


@needs_gpu
def test_runs_in_bfloat16_side_by_side(tmp_path, place):
    """So many that in another precision each would get a part of the GPU."""
    configs = [in_bfloat16(place, seed=seed) for seed in range(4)]
    runs = [Run(config, tmp_path / f"together-{seed}") for seed, config in enumerate(configs)]
    assert not any(found.error for found in train_together(runs, 4, Console(quiet=True)))
    for seed, config in enumerate(configs[:2]):
        train(config, tmp_path / f"alone-{seed}")
        for one, other in zip(rows(tmp_path / f"alone-{seed}"), rows(tmp_path / f"together-{seed}"), strict=True):
            assert one == pytest.approx(other, rel=1e-2)


def in_bfloat16(place: Path, **changes: Any):
    """At the paper's width, and so slowly that what comes of rounding stays small: plainly, a hundredth of a loss."""
    slowly = {"max_epochs": 3, "lr": 1e-4, "eps": EPS}
    trainer = {"precision": "bf16-mixed", **changes.pop("trainer", {})}
    return on_gpu(place, trainer=trainer, model={"width": 128, "depth": 4}, optimisation=slowly, **changes)


@needs_gpu
def test_a_run_goes_on_where_it_did_not_begin(tmp_path, place):
    train(on_gpu(place, optimisation={"max_epochs": 1}), tmp_path / "run")
    train(settings(place, model={"width": 32}, optimisation={"max_epochs": 2}), tmp_path / "run", resume=True)
    train(on_gpu(place, optimisation={"max_epochs": 3}), tmp_path / "run", resume=True)
    assert [row["epoch"] for row in rows(tmp_path / "run")] == [1, 2, 3]
    steps = [row["step"] for row in rows(tmp_path / "run")]
    assert steps == [steps[0], 2 * steps[0], 3 * steps[0]]
