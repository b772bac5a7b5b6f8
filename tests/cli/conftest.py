"""Runs to use, and ways to use them."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from torch_ctree.cli import main
from torch_ctree.models import ModelConfig, Seq2Seq
from torch_ctree.training import DataConfig, TrainConfig, VocabularyConfig
from torch_ctree.training.preparation import prepare

VERBS, TIMES = ("jump", "walk", "run", "look"), ("once", "twice", "thrice")
TINY = """
model: {width: 16, dropout: 0, attention_dropout: 0}
optimisation: {lr: 0.01, beta1: 0.9, batch_size: 20, max_epochs: 12}
"""


@pytest.fixture
def ctree(capsys):
    """Runs a command line → what it printed."""

    def run(*words: str) -> str:
        main([str(word) for word in words])
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return run


@pytest.fixture
def refused(capsys):
    """Runs a command line that is refused → its one line; nothing else is said."""

    def run(*words: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        assert stopped.value.code == 2
        assert captured.out == ""
        assert captured.err.startswith("ctree: ")
        assert captured.err.count("\n") == 1
        return captured.err

    return run


def write_pairs(folder: Path) -> Path:
    """60 pairs: "jump twice and walk" is "JUMP JUMP WALK"."""
    rows = []
    for (n, times), verb in itertools.product(enumerate(TIMES, 1), VERBS):
        said = " ".join([verb.upper()] * n)
        rows += [
            (f"{verb} {times}", said),
            *((f"{verb} {times} and {last}", f"{said} {last.upper()}") for last in VERBS),
        ]
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    return path


@pytest.fixture
def pairs(tmp_path) -> Path:
    return write_pairs(tmp_path)


@pytest.fixture(scope="session")
def own(tmp_path_factory) -> Path:
    """A run of ``ctree train`` on a user's own pairs, called from their folder."""
    folder = tmp_path_factory.mktemp("own")
    write_pairs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("tiny.yaml").write_text(TINY)
        main(["train", "--config", "tiny.yaml", "--data", "pairs.tsv"])
    return folder / "runs" / "pairs-0"


def untrained(folder: Path, data: DataConfig, vocabulary: VocabularyConfig | None = None, **model: Any) -> Path:
    """A run as training leaves it, without the training."""
    config = TrainConfig(
        data=data,
        vocabulary=vocabulary or VocabularyConfig(),
        model=ModelConfig(**{"width": 4, "slots": 3, **model}),
    )
    prepared = prepare(config, data.load())
    Seq2Seq(prepared.model, prepared.source, prepared.target).save_pretrained(folder)
    config.save(folder / "config.yaml")
    return folder


@pytest.fixture(scope="session")
def scan(tmp_path_factory) -> Path:
    return untrained(tmp_path_factory.mktemp("scan"), DataConfig(name="scan-turn-left"), depth=6)


@pytest.fixture(scope="session")
def grammar(tmp_path_factory) -> Path:
    """A run of ``ctree train`` with a grammar over phrases."""
    folder = tmp_path_factory.mktemp("grammar")
    write_pairs(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("tiny.yaml").write_text(TINY)
        settings = ["--model.encoder", "spans", "--model.decoder", "grammar", "--model.operators", "3"]
        main(["train", "--config", "tiny.yaml", "--data", "pairs.tsv", *settings])
    return folder / "runs" / "pairs-0"


@pytest.fixture(scope="session")
def sequence(tmp_path_factory) -> Path:
    """Of a decoder that goes from left to right."""
    folder = tmp_path_factory.mktemp("sequence")
    return untrained(folder / "run", DataConfig(name=str(write_pairs(folder))), decoder="gru")
