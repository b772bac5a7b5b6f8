"""What ``ctree bench`` measures, on a CPU and small."""

import json
import sys

import pytest
import torch

from torch_ctree.benchmarking import inference, timing, training
from torch_ctree.benchmarking.table import FIGURES, Figure, Setting, by_split, chosen, markdown, measured, shown
from torch_ctree.circumstances import circumstances, command
from torch_ctree.data import Encoded, Pairs, Vocabulary
from torch_ctree.models import ModelConfig, Seq2Seq

CPU = torch.device("cpu")
SETTING = Setting(CPU, None, 2, lambda line: None)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(timing, "REPEATS", 5)
    monkeypatch.setattr(timing, "WARM_UP", 1)


def test_a_likelihood():
    found = inference.likelihood(3, 5, 2, CPU)
    assert found["value"] == found["median_ms"] > 0
    assert found["p10_ms"] <= found["median_ms"] <= found["p90_ms"]
    assert found["floor_ms"] == pytest.approx(1e3 * 3 * 2 * 5 * 15 * 4 / inference.BANDWIDTH)


def test_an_argmax_finds_sentences_of_some_length():
    found = inference.argmax(3, 5, 12, CPU)
    assert 1 < found["longest"] <= 12
    assert found["value"] > 0


def test_how_many_are_right():
    pairs = Pairs.of([("a b", "A B"), ("a", "A"), ("b a b", "B A B")])
    source, target = Vocabulary.build(pairs.sources()), Vocabulary.build(pairs.targets())
    model = Seq2Seq(ModelConfig(width=8, depth=2), source, target).eval()
    answers = [model.answer(example.source)[0].text for example in pairs]
    said = Pairs.of(
        [*[(example.source, answer) for example, answer in zip(pairs, answers, strict=True)][:2], ("b", "A A B")]
    )
    assert training.count_right(model, Encoded.of(said, source, target), batch_size=2) == 2


def test_the_settings_of_a_run():
    config = training.settings(3, "somewhere", "paper-scan-length", "bf16-mixed")
    assert (config.seed, config.data.root, config.data.name) == (3, "somewhere", "scan-length")
    assert (config.model.depth, config.trainer.precision) == (8, "bf16-mixed")


def test_every_figure_says_what_it_is():
    assert len({figure.key for figure in FIGURES}) == len(FIGURES)
    for figure in FIGURES:
        assert figure.what
        assert figure.unit in ("ms", "s", "MiB")


def test_some_of_them():
    assert [figure.key for figure in chosen("step, likelihood", CPU)] == ["step", "likelihood"]
    assert {figure.key for figure in chosen(None, CPU)} < {figure.key for figure in chosen(None, torch.device("cuda"))}
    with pytest.raises(ValueError, match="only: got 'seeds'; expected some of likelihood, "):
        chosen("seeds", CPU)  # needs a GPU


def test_what_cannot_be_measured_is_said():
    def fails(setting: Setting) -> dict:
        raise RuntimeError("no\nroom")

    found = measured(Figure("key", "what", "ms", fails, "1 s", 2.0), SETTING)
    assert found == {"key": "key", "what": "what", "unit": "ms", "original": "1 s", "target": 2.0, "error": "no room"}


@pytest.mark.parametrize(("number", "expected"), [(0.0717, "0.0717 ms"), (160.7, "161 ms"), (2576.0, "2,576 ms")])
def test_three_digits(number, expected):
    assert shown(number, "ms") == expected
    assert shown(None, "ms") == "–"


def test_how_it_was_measured(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/ctree", "bench", "--only", "a b"])
    assert command() == "ctree bench --only 'a b'"
    monkeypatch.setattr(sys, "argv", ["/somewhere/benchmarks/data.py"])
    assert command() == "python benchmarks/data.py"
    told = circumstances(CPU, "abc")
    assert told["commit"] == "abc"
    assert torch.__version__.partition("+")[0] == told["versions"]["torch"].partition("+")[0]
    assert json.dumps(told)


def test_a_row_with_a_run_that_failed():
    runs = [
        {"preset": "scan-jump", "seed": 0, "test_exact_match": 0.5},
        {"preset": "scan-jump", "seed": 1, "error": "the process died"},
        {"preset": "scan-length", "seed": 0, "error": "the process died"},
    ]
    row = {"value": 3.25, "at_once": 2, "precision": "bf16-mixed", "runs": runs}
    assert by_split(row) == [("scan-jump", "50.0", "50.0 failed"), ("scan-length", "–", "failed")]
    told = markdown(circumstances(CPU, "abc") | {"figures": [], "row": row})
    assert "3 runs, 2 at a time, trained and tested in 3.2 minutes" in told
    assert "| scan-jump | 50.0 | 50.0 failed |" in told
