"""The model that ships is small, right, and known by its name."""

import csv
import json
import shutil
from dataclasses import replace

import pytest
from safetensors.torch import load

from torch_ctree import Seq2Seq, data, training
from torch_ctree.cli import main as ctree
from torch_ctree.cli.runs import open_model, settings_of
from torch_ctree.data.scan import actions
from torch_ctree.evaluation import is_exact, read_predictions
from torch_ctree.models.pretrained import FILES, SHIPPED, WEIGHTS, folder_of
from torch_ctree.training import DataConfig

COMMAND = "jump twice and walk left"


@pytest.fixture(scope="module")
def model() -> Seq2Seq:
    return Seq2Seq.from_pretrained("example")


def contents() -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in SHIPPED.iterdir()}


def test_it_is_small_and_in_single_precision():
    there = contents()
    assert there.keys() >= {*FILES, "README.md", "config.yaml", "evaluation.json", "metrics.csv", "predictions.jsonl"}
    assert len(there[WEIGHTS]) < sum(map(len, there.values())) < 5_000_000
    assert {str(tensor.dtype) for tensor in load(there[WEIGHTS]).values()} == {"torch.float32"}


def test_it_is_what_its_preset_makes():
    written = training.build(training.read(SHIPPED / "config.yaml"))
    assert written == training.build(training.read(training.preset("example")))
    assert written.data.root is None
    assert not any(b"/home" in content or b"/work" in content or b"/tmp" in content for content in contents().values())


def test_what_it_said_it_says_again(model):
    predictions = read_predictions(SHIPPED / "predictions.jsonl")
    assert 24 <= len(predictions) <= 48
    test = data.load("scan-simple", root=str(SHIPPED)).test
    assert [(p.source, p.target) for p in predictions] == [test[p.row] for p in predictions]
    for prediction, (answer,) in zip(predictions, model.answers([p.source for p in predictions]), strict=True):
        assert answer.text == prediction.output
        assert " ".join(str(answer.tree).split()) == prediction.tree
        assert answer.log_prob == pytest.approx(prediction.log_prob, abs=1e-3)


def test_what_its_page_says_is_what_its_evaluation_says(model):
    page = (SHIPPED / "README.md").read_text()
    test = json.loads((SHIPPED / "evaluation.json").read_text())["test"]
    for name, share in (
        ("exact match", test["exact_match"]),
        ("first word", test["first_word"]),
        ("token accuracy", test["token_accuracy"]),
    ):
        assert f"| {name} | {share:.2%} |" in page
    beside = ", ".join(f"{kind} {share:.1%}" for kind, share in test["baselines"].items())
    assert f"| tree F1 | {test['tree_f1']['sentence_f1']:.1%} ({beside}) |" in page
    assert f"| test set | {test['pairs']:,} pairs |" in page
    assert f"{model.parameter_count:,} parameters" in page
    epochs = list(csv.DictReader((SHIPPED / "metrics.csv").read_text().splitlines()))
    assert f"| epochs | {len(epochs)}; " in page
    assert sum(map(is_exact, read_predictions(SHIPPED / "predictions.jsonl"))) / 36 == test["exact_match"]


def test_its_name_is_that_of_a_folder_where_there_is_one(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder_of("example") == SHIPPED
    assert open_model("example", "cpu").parameter_count == model.parameter_count
    model.save_pretrained("example")
    assert str(folder_of("example")) == "example"


def test_commands_know_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ctree(["decode", "example", COMMAND])
    assert actions(COMMAND) in capsys.readouterr().out
    ctree(["parse", "example", "--source", COMMAND, "--target", actions(COMMAND)])
    assert "over all trees: 0.99" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        ctree(["decode", "exmaple", COMMAND])
    assert capsys.readouterr().err.endswith("; or try the one that ships: example\n")


def test_it_is_tested_on_its_own_test_set_and_left_as_it_is(tmp_path, monkeypatch, capsys):
    """Whatever official files are here."""
    task = data.load("scan-simple", root=str(SHIPPED))
    rows = list(task.test)[::200]
    few = replace(task, sets={**task.sets, "test": data.Pairs.of(rows)})
    loaded = []
    monkeypatch.setattr(DataConfig, "load", lambda config: loaded.append(config) or few)
    before = contents()
    ctree(["evaluate", "example"])
    said = capsys.readouterr().out
    assert loaded[0].root == str(SHIPPED)
    assert f"test: {len(rows)} pairs" in said
    assert said.endswith("example ships with torch-ctree and is left as it is: nothing was written\n")
    assert contents() == before
    shutil.copytree(SHIPPED, tmp_path / "mine")
    assert settings_of(str(tmp_path / "mine")).data.root is None
