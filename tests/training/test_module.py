import csv
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.training.runs import pairs, settings, train, write_pairs
from torch_ctree import Seq2Seq
from torch_ctree.data import Batch, Batches, recombined
from torch_ctree.evaluation import bleu, exact_match, predict
from torch_ctree.evaluation.translation import NGRAMS, bleu_of
from torch_ctree.models import Decoded
from torch_ctree.training import TrainingError, build, running
from torch_ctree.training.attempts import Attempts
from torch_ctree.training.module import Training, new_model
from torch_ctree.training.preparation import prepare
from torch_ctree.training.running import make_model
from torch_ctree.training.schedule import Plateau

COLUMNS = ["epoch", "step", "train_loss", "validation_loss", "validation_accuracy", "learning_rate", "attempt"]
STILL: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0}


def rows(folder: Path) -> list[dict[str, float]]:
    with open(folder / "metrics.csv", newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


# --- the schedule -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 6).map(lambda n: n / 6), max_size=30), st.integers(0, 4))
def test_the_learning_rate_falls_as_torch_has_it(accuracies, patience):
    plateau, rate = Plateau(patience), 1.0
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, "max", 0.5, patience, 0.0, eps=0.0)
    for accuracy in accuracies:
        rate *= 0.5 if plateau.falls(accuracy, loss=1.0) else 1
        schedule.step(accuracy)
        assert rate == optimiser.param_groups[0]["lr"]


def test_the_learning_rate_falls():
    """With patience 1: when the second epoch in a row brings nothing better; then it waits anew."""
    plateau = Plateau(1)
    accuracies = [0.0, 0.2, 0.2, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.4]
    assert [n for n, accuracy in enumerate(accuracies) if plateau.falls(accuracy, loss=1.0)] == [3, 5, 10]


def test_as_long_as_no_answer_is_right_a_better_loss_will_do():
    plateau = Plateau(1)
    epochs = [(0.0, 3.0), (0.0, 2.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.1, 1.0), (0.1, 0.5), (0.1, 0.4)]
    assert [n for n, (accuracy, loss) in enumerate(epochs) if plateau.falls(accuracy, loss)] == [4, 7]


@pytest.fixture
def scripted(monkeypatch):
    """Validation that brings what is written here: (how many of ten are right, loss)."""

    def write(script: list[tuple[int, float]]) -> None:
        def validation_step(self: Training, batch: Any, batch_idx: int) -> None:
            right, loss = script[self.current_epoch] if batch_idx == 0 else (0, 0.0)
            pairs = 10 if batch_idx == 0 else 0
            numbers = {"validation_right": right, "validation_loss": 10 * loss, "validation_pairs": pairs}
            self._add(**{name: torch.tensor(number) for name, number in numbers.items()})

        monkeypatch.setattr(Training, "validation_step", validation_step)

    return write


def run(place: Path, folder: Path, resume: bool = False, **optimisation: Any):
    return train(settings(place, optimisation={"batch_size": 40, **optimisation}), folder, resume)


def test_it_stops_when_the_learning_rate_is_below_the_least(tmp_path, place, scripted):
    scripted([(1, 1.0), (2, 1.0), (2, 1.0), (1, 1.0), (3, 1.0), (3, 1.0), (3, 1.0), (9, 1.0)])
    finished, _ = run(place, tmp_path / "run", lr=1.0, min_lr=0.3, max_epochs=8)
    assert [row["learning_rate"] for row in rows(tmp_path / "run")] == [1, 1, 1, 1, 0.5, 0.5, 0.5]
    assert finished.best["epoch"] == 5
    may_change = ("config.yaml", "metrics.csv", "training.lock")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*") if path.name not in may_change}
    again, said = run(place, tmp_path / "run", resume=True, lr=1.0, min_lr=0.3, max_epochs=20)  # it is over
    assert again.best == finished.best
    assert "epoch" not in said
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_just_the_least_is_not_below_it(tmp_path, place, scripted):
    scripted([(0, 1.0)] * 9)
    run(place, tmp_path / "run", lr=1.0, min_lr=0.25, max_epochs=9)
    assert [row["learning_rate"] for row in rows(tmp_path / "run")] == [1, 1, 1, 0.5, 0.5, 0.25, 0.25]


def test_it_stops_after_so_many_epochs(tmp_path, place, scripted):
    scripted([(epoch, 1.0) for epoch in range(5)])
    run(place, tmp_path / "run", max_epochs=4)
    assert [(row["epoch"], row["step"]) for row in rows(tmp_path / "run")] == [(1, 1), (2, 2), (3, 3), (4, 4)]


@pytest.mark.parametrize(
    ("script", "ties", "best"),
    [
        ([(3, 1.0), (5, 2.0), (4, 0.5)], "loss", 2),
        ([(3, 1.0), (3, 0.5), (3, 0.7)], "loss", 2),  # as many are right: the smaller loss
        ([(3, 1.0), (3, 1.0), (3, 1.0)], "loss", 1),  # all the same: the first
        ([(0, 1.0), (0, 2.0), (0, 3.0)], "loss", 1),
        ([(3, 1.0), (5, 1.0), (5, 2.0)], "last", 3),
        ([(3, 1.0), (5, 2.0), (4, 0.5)], "last", 2),
        ([(0, 2.0), (0, 1.0), (0, 3.0)], "last", 2),  # as long as none is right, by loss
    ],
)
def test_the_best_epoch_is_kept(tmp_path, place, scripted, script, ties, best):
    scripted(script)
    finished, _ = run(place, tmp_path / "run", ties=ties)
    assert finished.best == rows(tmp_path / "run")[best - 1]
    scripted(script)
    run(place, tmp_path / "short", max_epochs=best, ties=ties)  # its last weights are the best
    last = torch.load(tmp_path / "short" / "last.ckpt", weights_only=True)["state_dict"]
    for name, weight in Seq2Seq.from_pretrained(tmp_path / "run").named_parameters():
        assert torch.equal(weight, last[f"model.{name}"])


def test_a_run_that_goes_on_waits_as_it_would_have(tmp_path, place, scripted):
    """The schedule, the best epoch, the optimiser: all as in a run of six epochs."""
    scripted([(5, 1.0), (5, 1.0), (4, 1.0), (3, 1.0), (5, 0.5), (5, 1.0)])
    whole, _ = run(place, tmp_path / "whole", max_epochs=6)
    parts = None
    for epochs in range(1, 7):
        parts, said = run(place, tmp_path / "parts", resume=epochs > 1, max_epochs=epochs)
        assert said.count("\nepoch ") == 1
    assert parts == replace(whole, folder=tmp_path / "parts")
    for name in ("metrics.csv", "model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


# --- what is better ---------------------------------------------------------------------------------------------------


def test_epochs_may_be_chosen_by_loss(tmp_path, place, scripted):
    scripted([(1, 1.0), (9, 1.0), (8, 0.4), (2, 0.5), (1, 0.6), (9, 0.7)])
    finished, _ = run(place, tmp_path / "run", select="loss", lr=1.0, max_epochs=6)
    assert finished.best["epoch"] == 3
    assert [row["learning_rate"] for row in rows(tmp_path / "run")] == [1, 1, 1, 1, 1, 0.5]


@pytest.mark.parametrize("tokens", [None, 60])
def test_epochs_may_be_chosen_by_bleu(tmp_path, place, tokens):
    """The number of each epoch is that of its answers as text, and what is kept is the best of them."""
    optimisation = {"select": "bleu", "batch_size": 7, "max_tokens": tokens, "max_epochs": 8, "lr": 0.03}
    config = settings(place, model=STILL, optimisation=optimisation)
    finished, said = train(config, tmp_path / "run")
    found = rows(tmp_path / "run")
    assert finished.best == max(found, key=lambda row: (row["validation_bleu"], -row["validation_loss"]))
    assert f"BLEU {found[-1]['validation_bleu']:.2f}" in said
    task, model = config.data.load(), Seq2Seq.from_pretrained(tmp_path / "run")
    predictions = [one for some in predict(model, task, "validation") for one in some]
    expected = bleu([p.output for p in predictions], [p.target for p in predictions], tokenised=True).score
    assert expected > 0
    assert finished.best["validation_bleu"] == pytest.approx(expected)


def test_bleu_of_plain_text_and_unknown_words(tmp_path, place):
    """The references are the texts themselves, whatever of them the model knows."""
    lines = [("a b c d e", "Ein, zwei, drei!"), ("b c d e f", "Ein, zwei, vier!")]
    name = str(write_pairs(tmp_path / "plain.tsv", 8 * lines))
    data = {"name": name, "validation": name, "test": name}
    vocabulary = {"kind": "words", "min_count": 9, "unknown": "replace"}
    config = build({"data": data, "vocabulary": vocabulary, "optimisation": {"select": "bleu", "max_epochs": 1}})
    prepared = prepare(config, config.data.load())
    assert list(prepared.references.texts) == [target for _, target in 8 * lines]
    assert prepared.references.tokenised
    subwords = replace(config, vocabulary=replace(config.vocabulary, kind="subwords", size=300))
    assert not prepare(subwords, subwords.data.load()).references.tokenised
    model = make_model(prepared, 0)
    module = Training(model, prepared, config.optimisation, 0)
    (batch,) = module.validation.epoch(0)
    answers = Decoded(batch.target, batch.target_lengths, torch.zeros(len(batch)))
    rows = zip(batch.target.tolist(), batch.target_lengths.tolist(), strict=True)
    texts = [model.target.decode(row[:length]) for row, length in rows]
    assert any("<unk>" in text for text in texts)  # and yet it is not right to say so
    assert bleu_of(module._ngrams(answers, batch).tolist()) == pytest.approx(
        bleu(texts, [lines[row % 2][1] for row in batch.rows.tolist()], tokenised=True).score
    )
    none = replace(batch, rows=torch.full_like(batch.rows, -1))
    assert module._ngrams(answers, none).tolist() == [0] * NGRAMS


# --- from step to step ------------------------------------------------------------------------------------------------


@pytest.fixture
def rates(monkeypatch):
    """The learning rate of every step."""
    update, seen = Training.on_before_optimizer_step, []

    def watched(self: Training, optimizer: torch.optim.Optimizer) -> None:
        seen.append(float(optimizer.param_groups[0]["lr"]))
        update(self, optimizer)

    monkeypatch.setattr(Training, "on_before_optimizer_step", watched)
    return seen


def test_the_learning_rate_rises_at_first(tmp_path, place, scripted, rates):
    scripted([(5, 1.0), (5, 1.0), (5, 1.0), (5, 1.0)])
    run(place, tmp_path / "run", batch_size=10, lr=1e-3, warmup_steps=6, max_epochs=4)  # four steps an epoch
    expected = [1e-3 * min(1, n / 6) for n in range(1, 13)] + [5e-4] * 4
    assert rates == pytest.approx(expected)
    assert [row["learning_rate"] for row in rows(tmp_path / "run")] == pytest.approx(expected[3::4])


def test_it_rises_again_where_an_attempt_begins_anew(tmp_path, place, scripted, rates):
    scripted(NEVER_ENOUGH)
    again = {"restart_after": 2, "restart_below": 0.5}
    run(place, tmp_path / "run", batch_size=10, lr=1e-3, warmup_steps=6, max_epochs=4, **again)
    assert rates == pytest.approx([1e-3 * min(1, n / 6) for n in range(1, 9)] * 2)


def test_the_learning_rate_may_fall_with_every_step(tmp_path, place, scripted, rates):
    scripted([(5, 1.0)] * 5)
    run(place, tmp_path / "run", batch_size=10, lr=1e-3, schedule="linear", warmup_steps=3, patience=0, max_epochs=5)
    assert rates == pytest.approx([1e-3 * min(1, n / 3) * (1 - (n - 1) / 20) for n in range(1, 21)])


@pytest.mark.parametrize("schedule", ["linear", "plateau"])
def test_schedules_go_on_where_they_stopped(tmp_path, place, rates, schedule):
    optimisation = {"batch_size": 10, "schedule": schedule, "warmup_steps": 7, "max_epochs": 3, "checkpoint_steps": 3}
    config = settings(place, optimisation=optimisation)
    train(config, tmp_path / "whole")
    whole = rates.copy()
    rates.clear()
    with pytest.raises(KeyboardInterrupt):
        running.train(config, tmp_path / "parts", console=Console(quiet=True), callbacks=[StopAt(6)])
    first = len(rates)
    assert first == 6
    train(config, tmp_path / "parts", resume=True)
    assert rates[:first] == whole[:first]
    assert rates[-6:] == whole[-6:]
    for name in ("metrics.csv", "model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


class StopAt(pl.Callback):
    """Ctrl-C after so many steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise KeyboardInterrupt


def test_a_linear_schedule_keeps_its_end(tmp_path, place):
    linear = {"schedule": "linear", "max_epochs": 1}
    train(settings(place, optimisation=linear), tmp_path / "run")
    with pytest.raises(TrainingError, match=r"optimisation\.max_epochs: got 2; .* began with 1"):
        train(settings(place, optimisation=linear | {"max_epochs": 2}), tmp_path / "run", resume=True)


# --- beginning anew ---------------------------------------------------------------------------------------------------

NEVER_ENOUGH = [(1, 1.0), (3, 1.0), (2, 1.0), (4, 1.0), (5, 1.0), (5, 1.0), (5, 1.0)]
"""Of ten: with two epochs an attempt and half of them to reach, the third attempt is the first to do."""


def test_an_attempt_that_is_not_good_enough_in_time_is_followed_by_another(tmp_path, place, scripted):
    scripted(NEVER_ENOUGH)
    finished, said = run(place, tmp_path / "run", restart_after=2, restart_below=0.5, patience=0, max_epochs=7, lr=1.0)
    assert [row["attempt"] for row in rows(tmp_path / "run")] == [1, 1, 2, 2, 3, 3, 3]
    rates = [row["learning_rate"] for row in rows(tmp_path / "run")]
    assert rates == [1, 1, 1, 1, 1, 1, 0.5]  # each attempt waits anew
    assert finished.best["epoch"] == 5
    assert (finished.epochs, finished.attempts) == (7, 3)
    assert "attempt 1: no more than 30.00% in 2 epochs, less than 50.00%; beginning anew" in said
    assert said.count("beginning anew") == 2


def test_a_new_attempt_has_weights_of_its_own_and_remembers_nothing(tmp_path, place, scripted, monkeypatch):
    scripted(NEVER_ENOUGH)
    step, seen = Training.training_step, []

    def watched(self: Training, batch: Batch, batch_idx: int) -> torch.Tensor:
        weights = [weight.detach().clone() for weight in self.model.parameters()]
        moments = [moment.clone() for state in self.trainer.optimizers[0].state.values() for moment in state.values()]
        seen.append((weights, moments))
        return step(self, batch, batch_idx)

    monkeypatch.setattr(Training, "training_step", watched)
    run(place, tmp_path / "run", restart_after=2, restart_below=0.5, max_epochs=5)  # a step each
    model = Seq2Seq.from_pretrained(tmp_path / "run")
    for attempt, key in enumerate([(0,), (0, 1), (0, 2)]):
        weights, moments = seen[2 * attempt]
        fresh = new_model(model.config, model.source, model.target, *key).parameters()
        assert all(torch.equal(one, other) for one, other in zip(weights, fresh, strict=True))
        assert not any(moment.any() for moment in moments)
    assert any(moment.any() for moment in seen[1][1])


def test_attempts_go_on_where_they_stopped(tmp_path, place, scripted):
    scripted(NEVER_ENOUGH)
    attempts: dict[str, Any] = {"restart_after": 2, "restart_below": 0.5}
    run(place, tmp_path / "whole", max_epochs=7, **attempts)
    for epochs in range(1, 8):
        run(place, tmp_path / "parts", resume=epochs > 1, max_epochs=epochs, **attempts)
    for name in ("metrics.csv", "model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


@pytest.fixture
def said(monkeypatch):
    """Answers to new sources that are what is written here, epoch by epoch: a letter each, a space for none."""

    def write(script: list[str]) -> None:
        def answers(self: Training, new: Batches) -> list[tuple[int, ...]]:
            return [() if letter == " " else (ord(letter),) for letter in script[self.current_epoch]]

        monkeypatch.setattr(Training, "_answers", answers)

    return write


AGREE: dict[str, Any] = {
    "patience": 0,
    "lr": 1.0,
    "min_lr": 0.5,
    "max_epochs": 20,
    "restart_agreement": 0.75,
    "restart_below": 0.1,
}
"""With patience 0 an attempt ends when accuracy has not risen for the second time."""


def test_attempts_until_two_agree(tmp_path, place, scripted, said):
    scripted([(5, 1.0), (4, 1.0), (4, 1.0), (5, 1.0), (4, 1.0), (4, 1.0), (5, 1.0), (4, 1.0), (4, 1.0), (9, 1.0)])
    said(["abcd", "xxxx", "xxxx", "abxx", "abcd", "zzzz", "zzzz", "axcd", "zzzz", "zzzz"])
    finished, printed = run(place, tmp_path / "run", **AGREE)
    found = rows(tmp_path / "run")
    assert [row["attempt"] for row in found] == [1, 1, 1, 2, 2, 2]
    assert [row["learning_rate"] for row in found] == [1, 1, 0.5, 1, 1, 0.5]
    assert [row["agreement"] for row in found] == [0, 0, 0, 0.5, 1, 0]  # with the best epoch of the first
    assert (finished.epochs, finished.attempts) == (6, 2)
    assert finished.best["epoch"] == 1  # it and the fifth agree, and it has more right
    assert "attempt 1: the first, with none to agree with; beginning anew" in printed
    assert printed.count("beginning anew") == 1
    again, printed = run(place, tmp_path / "run", resume=True, **AGREE)  # it is over
    assert again.best == finished.best
    assert "epoch" not in printed


def test_any_two_attempts_may_agree(tmp_path, place, scripted, said):
    scripted([(5, 1.0), (4, 1.0), (4, 1.0)] * 2 + [(6, 1.0), (6, 1.0), (6, 0.5)])
    said(["abcd", "    ", "    ", "azzz", "abzz", "zzzz", "abxd", "abcd", "abxd"])
    finished, printed = run(place, tmp_path / "run", **AGREE)
    assert [row["agreement"] for row in rows(tmp_path / "run")] == [0, 0, 0, 0.25, 0.5, 0, 0.75, 1, 0.75]
    assert (finished.attempts, finished.best["epoch"]) == (3, 8)  # as much right as the last, but more alike
    assert "attempt 2: alike with one before it in 50.00% of its answers, less than 75.00%" in printed


def test_attempts_that_never_agree(tmp_path, place, scripted, said):
    """The epochs are over; what is kept is best by the validation set."""
    scripted([(5, 1.0)] * 4 + [(5, 0.5), (5, 1.0), (4, 1.0)])
    said(["aaaa"] * 3 + ["bbbb"] * 3 + ["aabb"])
    finished, _ = run(place, tmp_path / "run", **{**AGREE, "max_epochs": 7})
    assert (finished.epochs, finished.attempts, finished.best["epoch"]) == (7, 3, 5)


def test_an_attempt_that_is_given_up_is_nothing_to_agree_with(tmp_path, place, scripted, said):
    scripted([(1, 1.0), (5, 1.0), (4, 1.0), (4, 1.0), (5, 1.0), (4, 1.0), (4, 1.0)])
    said(["abcd"] * 7)
    finished, printed = run(place, tmp_path / "run", **{**AGREE, "restart_after": 1, "restart_below": 0.5})
    assert [row["agreement"] for row in rows(tmp_path / "run")] == [0, 0, 0, 0, 1, 0, 0]
    assert (finished.attempts, finished.best["epoch"]) == (3, 2)
    assert "attempt 1: no more than 10.00%" in printed


def test_attempts_that_agree_and_have_everything_right_need_not_go_on(tmp_path, place, scripted, said):
    scripted([(10, 1.0), (10, 0.5), (9, 1.0), (10, 1.0), (10, 0.7), (10, 0.1)])
    said(["axxx", "abcd", "zzzz", "axxx", "abcd", "abcd"])
    finished, _ = run(place, tmp_path / "run", **AGREE)
    assert [row["agreement"] for row in rows(tmp_path / "run")] == [0, 0, 0, 0.25, 1]
    assert finished.best["epoch"] == 2  # of the two the one with the lower loss
    again, printed = run(place, tmp_path / "run", resume=True, **AGREE)  # it is over
    assert again.best == finished.best
    assert "epoch" not in printed


def test_only_epochs_that_have_learned_enough_are_asked(tmp_path, place, scripted, said):
    """And an attempt that never did is nothing to agree with."""
    scripted([(4, 1.0)] * 3 + [(5, 1.0), (4, 0.5), (4, 1.0)] + [(4, 1.0), (5, 1.0), (4, 1.0), (4, 1.0)])
    said(["abcd"] * 10)
    finished, _ = run(place, tmp_path / "run", **{**AGREE, "restart_below": 0.5})
    assert [row["agreement"] for row in rows(tmp_path / "run")] == [0] * 7 + [1, 0, 0]
    assert (finished.attempts, finished.best["epoch"]) == (3, 4)


def test_no_answer_agrees_with_nothing():
    attempts = Attempts(None, 0.0, 0.5, before={1: [(1,), (), (2, 3), ()]})
    assert attempts.compare([(1,), (), (2,), (4,)]) == 0.25


def epoch(attempt: int, accuracy: float, loss: float, agreement: float = 0.0) -> dict[str, float]:
    names = ("attempt", "validation_accuracy", "validation_loss", "agreement")
    return dict(zip(names, (attempt, accuracy, loss, agreement), strict=True))


def test_which_of_two_attempts_that_agree():
    """Agreement is of both: the one with more right is kept, where equal the one with the lower loss."""
    before: dict[int, list[tuple[int, ...]]] = {1: [(1,), (2,)], 2: [(3,), (4,)]}
    attempts = Attempts(None, 0.0, 0.9, number=3, before=before)
    first, second = epoch(1, 1.0, 0.3), epoch(2, 1.0, 0.1, 0.5)
    assert attempts.rank(second) > attempts.rank(first)
    assert attempts.compare([(1,), (2,)]) == 1
    third = [epoch(3, 0.9, 0.1, 1.0), epoch(3, 1.0, 0.4, 1.0), epoch(3, 1.0, 0.2, 1.0)]
    assert sorted([first, second, *third], key=attempts.rank) == [second, third[0], third[1], first, third[2]]
    assert attempts.compare([(5,), (6,)]) == 0  # a worse epoch later takes nothing back
    assert attempts.rank(first) > attempts.rank(third[1])


def test_the_answers_of_an_attempt_are_those_of_its_best_epoch():
    """Of the one that would be on the disk."""
    attempts = Attempts(None, 0.0, 1.0)
    for n, (accuracy, loss) in enumerate([(0.5, 0.1), (1.0, 0.3), (1.0, 0.2), (1.0, 0.4), (0.9, 0.0)]):
        attempts.count(epoch(1, accuracy, loss), [(n,)])
    assert attempts.answers == [(2,)]


def test_attempts_that_are_to_agree_go_on_where_they_stopped(tmp_path, place, scripted, said):
    scripted([(5, 1.0)] * 9)
    said(["abcd"] * 3 + ["xxxx"] * 3 + ["abcx"] * 3)
    run(place, tmp_path / "whole", **AGREE)
    for epochs in range(1, 10):
        run(place, tmp_path / "parts", resume=epochs > 1, **{**AGREE, "max_epochs": epochs})
    assert [row["attempt"] for row in rows(tmp_path / "whole")] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    for name in ("metrics.csv", "model.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_what_attempts_are_asked(tmp_path, place):
    """Their answers to sources that they are not trained on."""
    asked = {"restart_agreement": 0.5, "restart_below": 0.0}
    config = settings(place, model=STILL, optimisation={"batch_size": 7, "max_epochs": 1} | asked)
    train(config, tmp_path / "run")
    trained = Seq2Seq.from_pretrained(tmp_path / "run")
    new = recombined(prepare(config, config.data.load()).train.source, 512, 0).source.rows()
    new = [trained.source.decode(source) for source in new]
    assert new
    assert not set(new) & {source for source, _ in pairs()[:40]}
    kept = torch.load(tmp_path / "run" / "last.ckpt", weights_only=False)["torch_ctree"]["attempts"]["answers"]
    assert [trained.target.decode(answer) for answer in kept] == [trained.answer(source)[0].text for source in new]


def test_where_nothing_is_new(tmp_path):
    one = str(write_pairs(tmp_path / "one.tsv", [("a", "A"), ("b", "B")]))
    config = settings(tmp_path, data={"name": one}, optimisation={"restart_agreement": 0.5})
    with pytest.raises(TrainingError, match=r"^optimisation.restart_agreement: no word .* expected 0$"):
        train(config, tmp_path / "run")


# --- the numbers ------------------------------------------------------------------------------------------------------


def test_the_loss_by_hand(tmp_path, place):
    """−log p for each word, then the mean over pairs; of the weights before the only step, and of those after it."""
    config = settings(place, model=STILL, optimisation={"batch_size": 40, "max_epochs": 1})
    prepared = prepare(config, config.data.load())
    first = make_model(prepared, 0).eval()
    train(config, tmp_path / "run")
    (row,) = rows(tmp_path / "run")
    trained = Seq2Seq.from_pretrained(tmp_path / "run")

    def mean(model: Seq2Seq, texts: list[tuple[str, str]]) -> float:
        losses = [-model.score(model.batch([a], [b])).item() / len(b.split()) for a, b in texts]
        return math.fsum(losses) / len(losses)

    validation = pairs()[:5] + pairs()[40:]
    right = sum(trained.answer(source)[0].text == target for source, target in validation)
    assert row["train_loss"] == pytest.approx(mean(first, pairs()[:40]), rel=1e-5)
    assert row["validation_loss"] == pytest.approx(mean(trained, validation), rel=1e-5)
    assert row["validation_accuracy"] == right / 13
    assert list(row) == COLUMNS


class Recording(torch.optim.AdamW):
    """Remembers what it steps along."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.seen: list[torch.Tensor] = []

    def step(self, closure: Any = None) -> Any:
        loss = closure()
        there = [weight.grad.flatten() for group in self.param_groups for weight in group["params"]]
        self.seen.append(torch.cat(there).clone())
        super().step()
        return loss


@pytest.mark.parametrize("most", [1e-2, 1e9])
def test_long_gradients_are_cut(tmp_path, place, monkeypatch, most):
    config = settings(place, model=STILL, optimisation={"gradient_norm": most, "max_epochs": 1})
    made: list[Recording] = []
    monkeypatch.setattr(torch.optim, "AdamW", lambda *args, **more: made.append(Recording(*args, **more)) or made[0])
    prepared = prepare(config, config.data.load())
    model = make_model(prepared, 0)
    model.loss(Training(model, prepared, config.optimisation, 0).batches.epoch(0)[0]).backward()
    whole = torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])
    train(config, tmp_path / "run")
    seen = made[0].seen
    assert len(seen) == 5
    assert all(gradient.norm() <= most * (1 + 1e-5) for gradient in seen)
    torch.testing.assert_close(seen[0], whole * min(1, most / whole.norm()))
    assert (seen[0].norm() > 0.999 * most) == (most < 1)


def test_the_optimiser_is_as_the_settings_say(place):
    chosen = {"lr": 0.5, "beta1": 0.1, "beta2": 0.2, "eps": 0.3, "weight_decay": 0.4}
    config = settings(place, optimisation=chosen)
    prepared = prepare(config, config.data.load())
    module = Training(make_model(prepared, 0), prepared, config.optimisation, 0)
    (group,) = module.configure_optimizers().param_groups
    assert (group["lr"], group["betas"], group["eps"], group["weight_decay"]) == (0.5, (0.1, 0.2), 0.3, 0.4)
    assert len(group["params"]) == len(list(module.model.parameters()))


def test_half_precision(tmp_path, place):
    config = settings(place, trainer={"precision": "bf16-mixed"}, model=STILL, optimisation={"max_epochs": 1})
    train(config, tmp_path / "half")
    train(settings(place, model=STILL, optimisation={"max_epochs": 1}), tmp_path / "full")
    (half,), (full,) = rows(tmp_path / "half"), rows(tmp_path / "full")
    assert half["train_loss"] != full["train_loss"]
    assert half["train_loss"] == pytest.approx(full["train_loss"], rel=0.05)
    assert {weight.dtype for weight in Seq2Seq.from_pretrained(tmp_path / "half").parameters()} == {torch.float32}


def in_the_next_second() -> None:
    """TensorBoard puts the files of a run in order by the second that their names have, whoever wrote them."""
    time.sleep(1 - time.time() % 1)


def test_tensorboard_has_every_epoch_once(tmp_path, place):
    """Also after a kill: an epoch that is computed again takes the place of the one that was lost."""
    folder = tmp_path / "run"
    optimisation: dict[str, Any] = {"batch_size": 2, "checkpoint_steps": 1000}
    train(settings(place, optimisation=optimisation | {"max_epochs": 1}), folder)
    first = (folder / "last.ckpt").read_bytes()
    in_the_next_second()
    train(settings(place, optimisation=optimisation | {"max_epochs": 2}), folder, resume=True)
    (folder / "last.ckpt").write_bytes(first)  # as though it had been killed before the second was written
    in_the_next_second()
    train(settings(place, optimisation=optimisation), folder, resume=True)
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    table = rows(folder)
    assert [row["step"] for row in table] == [20, 40, 60]
    for name in COLUMNS:
        if name != "step":
            there = [(event.step, event.value) for event in events.Scalars(name)]
            assert there == [(row["step"], pytest.approx(row[name], rel=1e-6)) for row in table]
    assert [event.step for event in events.Scalars("train_loss_of_batch")] == [20, 40, 60]


def test_short_epochs(tmp_path, place):
    """They end after so many steps, and go on with other pairs; also where the run was interrupted."""
    short = {"epoch_steps": 2, "batch_size": 9, "max_epochs": 3}
    train(settings(place, optimisation=short), tmp_path / "whole")
    assert [row["step"] for row in rows(tmp_path / "whole")] == [2, 4, 6]
    config = settings(place, optimisation=short)
    prepared = prepare(config, config.data.load())
    batches = Training(make_model(prepared, 0), prepared, config.optimisation, 0).batches
    seen = [np.concatenate(batches.epoch(n).rows) for n in range(3)]
    assert all(len(one) == 18 for one in seen)
    assert len(set(np.concatenate(seen).tolist())) > 18
    train(settings(place, optimisation=short | {"max_epochs": 1}), tmp_path / "parts")
    train(config, tmp_path / "parts", resume=True)
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


def test_max_target(place):
    """What is longer is not trained on, and still validated."""
    config = settings(place, optimisation={"max_target": 2})
    whole, short = (prepare(c, c.data.load()) for c in (settings(place), config))
    kept = [n for n, length in enumerate(whole.train.target.lengths) if length <= 2]
    assert 0 < len(kept) == len(short.train) < len(whole.train)
    for n, row in enumerate(kept):
        for side in ("source", "target"):
            one, other = (getattr(p.train, side).padded(np.array([k]), None)[0] for p, k in ((short, n), (whole, row)))
            assert torch.equal(one, other)
    assert short.validation.longest == whole.validation.longest
    (remark,) = set(short.remarks) - set(whole.remarks)
    assert remark == f"not trained on: {len(whole.train) - len(kept)} pairs with more than 2 tokens in the target"


def test_max_target_leaves_something(tmp_path):
    own = write_pairs(tmp_path / "own.tsv", [(f"walk {n}", "WALK " * 3) for n in range(20)])
    config = settings(tmp_path, data={"name": str(own)}, optimisation={"max_target": 2})
    with pytest.raises(TrainingError, match=r"max_target: got 2, which leaves nothing to train on; expected 3 or more"):
        prepare(config, config.data.load())


def test_max_tokens(tmp_path, place, monkeypatch):
    step, seen = Training.training_step, []

    def counted(self: Training, batch: Batch, batch_idx: int) -> torch.Tensor:
        seen.append(batch)
        return step(self, batch, batch_idx)

    monkeypatch.setattr(Training, "training_step", counted)
    train(settings(place, optimisation={"max_tokens": 40, "max_epochs": 1}), tmp_path / "run")
    assert sorted(row for batch in seen for row in batch.rows.tolist()) == list(range(40))
    assert all(batch.source.numel() + batch.target.numel() <= 40 for batch in seen)
    with pytest.raises(TrainingError, match=r"^optimisation\.max_tokens: got 5; pair \d+ alone has 8"):
        train(settings(place, optimisation={"max_tokens": 5}), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_no_answer_is_right_where_the_target_has_an_unknown_word(tmp_path, place):
    """As ctree evaluate counts, which compares text."""
    strange = write_pairs(tmp_path / "strange.tsv", [("walk", "STRANGE"), ("run", "RUN"), ("jump", "JUMP")])
    config = settings(place, data={"validation": str(strange)}, optimisation={"max_epochs": 20})
    train(config, tmp_path / "run")
    model, task = Seq2Seq.from_pretrained(tmp_path / "run"), config.data.load()
    predictions = [some for batch in predict(model, task, "validation") for some in batch]
    best = max(rows(tmp_path / "run"), key=lambda row: (row["validation_accuracy"], -row["validation_loss"]))
    assert best["validation_accuracy"] == pytest.approx(exact_match(predictions))
