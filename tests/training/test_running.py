import os
import random
import signal
import time
from pathlib import Path

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from filelock import FileLock
from rich.console import Console

from tests.processes import start
from tests.training.runs import command, flags, outcome, settings, train
from torch_ctree import Seq2Seq
from torch_ctree.models.decoders import CTree, Decoder
from torch_ctree.training import TrainingError, build, read, running
from torch_ctree.training.configuration import TrainerConfig
from torch_ctree.training.preparation import prepare
from torch_ctree.training.running import make_model
from torch_ctree.training.running import train as run

ONE = {"max_epochs": 1}


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


# --- chance -----------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_numbers(tmp_path, place, uninterrupted):
    torch.manual_seed(123)
    np.random.seed(5)
    random.seed(7)
    train(settings(place), tmp_path / "run")
    assert outcome(tmp_path / "run") == uninterrupted


def test_another_seed_gives_others(tmp_path, place):
    numbers = []
    for seed in (1, 2, 2**70):
        train(settings(place, seed=seed, optimisation=ONE), tmp_path / str(seed))
        numbers += outcome(tmp_path / str(seed))
    assert len(set(numbers)) == 6


def test_every_step_has_chances_of_its_own(tmp_path, place, monkeypatch):
    losses, seeds = Seq2Seq.losses, []

    def noted(self, batch):
        seeds.extend([torch.initial_seed()] * self.training)
        return losses(self, batch)

    monkeypatch.setattr(Seq2Seq, "losses", noted)
    for seed in range(2):
        train(settings(place, seed=seed), tmp_path / str(seed))
    assert len(set(seeds)) == len(seeds) == 30


def test_the_first_weights(place):
    prepared = prepare(settings(place), settings(place).data.load())

    def weights(seed: int) -> bytes:
        return b"".join(weight.detach().numpy().tobytes() for weight in make_model(prepared, seed).parameters())

    torch.manual_seed(1)
    before, first = torch.get_rng_state(), weights(0)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert weights(0) == first != weights(1)


def test_the_model_is_ready_to_answer(tmp_path, place):
    finished, said = train(settings(place, optimisation=ONE), tmp_path / "run")
    model = Seq2Seq.from_pretrained(finished.folder)
    assert len(model.answer("walk twice")) == 1
    kind, lines = "ordered-memory + ctree (lexical-attention)", said.splitlines()
    assert lines[0] == f"{place}/pairs.tsv: 40 pairs to train on, 13 to validate"
    assert lines[1] == f"{kind}, {model.parameter_count:,} parameters, seed 0 → {tmp_path}/run"
    assert lines[2].startswith("tree depth 3, chosen from the data")
    assert build(read(tmp_path / "run" / "config.yaml")) == settings(place, optimisation=ONE)


def test_a_decoder_without_an_output_layer_is_not_said_to_have_one(tmp_path, place):
    grammar = {"encoder": "spans", "decoder": "grammar", "operators": 2}
    _, said = train(settings(place, optimisation=ONE, model=grammar), tmp_path / "run")
    assert said.splitlines()[1].startswith("spans + grammar, ")


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def done(tmp_path, place):
    train(settings(place, optimisation=ONE), tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 1}, r"seed: got 1; .* began with 0: go on with that, or train anew with another --run"),
        ({"model": {"width": 10}}, r"model\.width: got 10; .* began with 8"),
        ({"optimisation": {"lr": 0.5}}, r"optimisation\.lr: got 0\.5; .* began with 0\.01"),
        ({"optimisation": {"min_lr": 0.5}}, r"optimisation\.min_lr: got 0\.5"),
        ({"vocabulary": {"min_count": 2}}, r"vocabulary\.min_count: got 2"),
        ({"data": {"name": "scan-simple"}}, r"data\.name: got 'scan-simple'; .* began with '/"),
    ],
)
def test_a_run_goes_on_with_the_settings_it_began_with(done, place, change, said):
    before = contents(done)
    with pytest.raises(TrainingError, match=rf"^{said}") as told:
        train(settings(place, **change), done, resume=True)
    assert "\n" not in str(told.value)
    assert contents(done) == before


def test_what_may_change(done, place, uninterrupted):
    changes = {"trainer": {"accelerator": "cpu", "deterministic": False}, "optimisation": {"checkpoint_steps": 77}}
    train(settings(place, **changes), done, resume=True)
    assert outcome(done) == uninterrupted
    assert read(done / "config.yaml")["optimisation"]["checkpoint_steps"] == 77


def test_a_run_that_is_over(done, place):
    before = contents(done)
    finished, said = train(settings(place, optimisation=ONE), done, resume=True)
    assert finished.best["epoch"] == 1
    assert "\nepoch" not in said
    assert {path: content for path, (content, _) in contents(done).items()} == {
        path: content for path, (content, _) in before.items()
    }


def test_data_is_found_from_any_folder(tmp_path, place, uninterrupted, monkeypatch):
    monkeypatch.chdir(place)
    here = {"name": "pairs.tsv", "validation": "./validation.tsv", "test": "validation.tsv"}
    train(settings(place, data=here, optimisation=ONE), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    config = read(tmp_path / "run" / "config.yaml")
    train(build(config | {"optimisation": config["optimisation"] | {"max_epochs": 3}}), tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == uninterrupted


def test_nothing_to_go_on_with(tmp_path, place):
    for folder in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(TrainingError, match=rf"^{folder}: no run here to go on with; train it without --resume$"):
            train(settings(place), folder, resume=True)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("kept", ["config.yaml", "last.ckpt", "previous.ckpt"])
def test_a_run_is_not_written_over(done, place, kept):
    for name in {"config.yaml", "last.ckpt", "previous.ckpt"} - {kept}:
        (done / name).unlink()
    before = contents(done)
    with pytest.raises(TrainingError, match=rf"^{done}: there is a run already; go on with it \(--resume\), or name"):
        train(settings(place), done)
    assert contents(done) == before


@pytest.mark.parametrize(
    "settings_of_it",
    [{"accelerator": "abacus"}, {"strategy": "none"}, {"accelerator": "tpu"}],
)
def test_what_lightning_refuses(tmp_path, place, settings_of_it):
    with pytest.raises(TrainingError, match=r"^trainer: ") as told:
        train(settings(place, trainer=settings_of_it), tmp_path / "run")
    assert "\n" not in str(told.value)
    assert not (tmp_path / "run").exists()  # nothing stands in the way of trying again


# --- going wrong ------------------------------------------------------------------------------------------------------


def test_not_a_number(tmp_path, place):
    wild = {"lr": 1e30, "gradient_norm": 1e30}
    with pytest.raises(
        TrainingError, match=r"^epoch 1: the (training|validation) loss is not a number .* --optimisation\.lr \(now 1"
    ):
        train(settings(place, optimisation=wild), tmp_path / "run")


@pytest.mark.parametrize("training", [True, False])
def test_not_a_number_in_the_second_epoch(tmp_path, place, monkeypatch, training):
    """In training, or not before validation: that model is not kept."""
    score, calls = CTree.score, []

    def spoiled(self, encoding, tokens, lengths, depth=None):
        calls.append(self.training)
        late = calls.count(training) > (7 if training else 3)
        return score(self, encoding, tokens, lengths, depth) * (
            float("nan") if late and self.training == training else 1
        )

    monkeypatch.setattr(CTree, "score", spoiled)
    monkeypatch.setattr(CTree, "examine", Decoder.examine)  # which asks for the score
    with pytest.raises(
        TrainingError, match=r"^epoch 2: the (training|validation) loss is not a number any more"
    ) as told:
        train(settings(place), tmp_path / "run")
    assert "\n" not in str(told.value)
    assert (tmp_path / "run" / "metrics.csv").read_text().count("\n") == 2
    assert all(weight.isfinite().all() for weight in Seq2Seq.from_pretrained(tmp_path / "run").parameters())


def test_interrupted(tmp_path, place):
    folder, output = tmp_path / "run", tmp_path / "said"
    arguments = ["train", *flags(settings(place)), "--optimisation.max_epochs=500", "--run", str(folder)]
    process = start(command, arguments, output)
    end = time.monotonic() + 60
    while not (folder / "last.ckpt").exists():
        assert process.is_alive()
        assert time.monotonic() < end
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    process.join(600)
    said = output.read_text()
    assert process.exitcode == 130
    assert said.splitlines()[-1] == f"stopped; go on with: ctree train --resume --run {folder}"
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    epochs = said.count("\nepoch ") + 1
    for new in (1, 0):  # the second time, it is over
        as_it_says = said.splitlines()[-1].partition("ctree ")[2].split()
        process = start(command, [*as_it_says, f"--optimisation.max_epochs={epochs}"], output)
        process.join(600)
        assert process.exitcode == 0
        assert output.read_text().count("\nepoch ") == new
        assert output.read_text().splitlines()[-3].startswith("best: epoch ")
        assert output.read_text().splitlines()[-2:] == [
            f"report: {folder}/report.html",
            f"next: ctree evaluate {folder}",
        ]
    train(settings(place, optimisation={"max_epochs": epochs}), tmp_path / "uninterrupted")
    assert outcome(folder) == outcome(tmp_path / "uninterrupted")


def test_one_folder_one_run_at_a_time(tmp_path, place):
    with FileLock(tmp_path / "training.lock"), pytest.raises(TrainingError, match="another process is training here"):
        train(settings(place), tmp_path)


# --- going on with other data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["another pair", "another word", "a longer target"])
def test_data_that_have_changed(tmp_path, change):
    train(settings(tmp_path, optimisation=ONE), tmp_path / "run")
    pair = {"another pair": "walk\tRUN", "another word": "sit\tSIT", "a longer target": "walk\t" + "WALK " * 9}[change]
    with open(tmp_path / "pairs.tsv", "a") as file:
        file.write(pair.strip() + "\n")
    before = contents(tmp_path / "run")
    with pytest.raises(TrainingError, match=r"run: the data have changed since the run began; train anew"):
        train(settings(tmp_path), tmp_path / "run", resume=True)
    assert contents(tmp_path / "run") == before


def test_a_folder_without_a_checkpoint_is_begun_anew(tmp_path, place, uninterrupted):
    """As after a run that ran out of memory at once, and was told to change a setting."""
    settings(place, optimisation={"lr": 1.0}).save(tmp_path / "run" / "config.yaml")
    train(settings(place), tmp_path / "run")
    assert outcome(tmp_path / "run") == uninterrupted


def test_callbacks_of_your_own(tmp_path, place):
    class Counter(pl.Callback):
        epochs = 0

        def on_train_epoch_end(self, trainer, pl_module):
            self.epochs += 1

    counter = Counter()
    run(settings(place, optimisation=ONE), tmp_path / "run", console=Console(quiet=True), callbacks=[counter])
    assert counter.epochs == 1


@pytest.mark.parametrize(("precision", "expected"), [("32-exact", "highest"), ("32-true", "high")])
def test_how_a_gpu_multiplies(precision, expected):
    before = torch.get_float32_matmul_precision()
    with running._gpu(TrainerConfig(precision=precision).tf32):
        assert torch.get_float32_matmul_precision() == expected
    assert torch.get_float32_matmul_precision() == before


def test_on_a_cpu_nothing_is_rounded_anyway(place, tmp_path):
    for precision in ("32-true", "32-exact"):
        train(settings(place, trainer={"precision": precision}), tmp_path / precision)
    assert outcome(tmp_path / "32-true") == outcome(tmp_path / "32-exact")
