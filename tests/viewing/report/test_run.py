import json
import math
import re

import pytest

from torch_ctree.viewing.report import REPORT, Beside, write_run_report
from torch_ctree.viewing.report.folder import MissingError, RunFolder, read_epochs
from torch_ctree.viewing.report.run import run_report

from .folders import EVALUATION, SOME, answer, write_run
from .markup import Page

FILES = ("config.yaml", "metrics.csv", "evaluation.json", "predictions.jsonl")
TITLES = {
    "How good it is",
    "How it learned",
    "What goes wrong",
    "The best and the worst answers",
    "Settings",
    "Files",
}


@pytest.fixture(autouse=True)
def plain_pictures(monkeypatch):
    """Pictures have tests of their own, and take a while."""
    monkeypatch.setattr("torch_ctree.viewing.pictures.as_svg", lambda figure, about: f"<svg>{about}</svg>")
    for name in ("accuracy_by_length", "learning_curves", "heat_map"):
        monkeypatch.setattr(f"torch_ctree.viewing.pictures.{name}", lambda *numbers: numbers)


def read(folder, beside=None):
    return Page(run_report(folder, beside or Beside()))


def headings(made):
    return TITLES & {words.strip() for words in made.words}


def test_all_of_it(tmp_path):
    beside = Beside("a paper", {("test", "exact_match"): "44.7 ± 33.5%\n▁█"})
    run = write_run(tmp_path / "a run <&>")
    path = write_run_report(run, beside)
    assert path == run / REPORT
    made = Page(path.read_text())
    assert headings(made) == TITLES
    assert "missing" not in {given.get("class") for _, given in made.elements}
    for said in (
        "a run <&> scan-length: ordered-memory + ctree, seed 3",
        "exact match, test 25.00% published 44.7 ± 33.5% ▁█",
        "validation accuracy 75.00% highest of 3 epochs, 2 attempts",
        "exact match 25.00% 44.7 ± 33.5% ▁█",
        "first word 75.00%",
        "loss, nats a word infinite",
        "BLEU 12.50",
        "tree F1 81.25%",
        "pairs 4",
        "Published: a paper.",
        "nrefs:1|case:mixed",
        "of this model 81.25% right-branching 50.00% balanced 37.50% sentences 3",
        "3 epochs; it began anew 1 time",
        "test: 3 of 4 answers wrong",
        "no answer not a single word 1 33.3%",
        "expected said times B C 1",
        "Wrong, and most certain of it (test)",
        "model.width 16",
        "data.root null",
        "trainer.fast true",
        "7 settings",
    ):
        assert said in made.said, said
    assert "evaluation.json" in made.said
    assert path.read_text() == run_report(run, beside)


def test_noun_phrases(tmp_path):
    answers = {"share": 0.4375, "phrases": 1234, "sentences": 4, "baselines": {"balanced": 0.25, "random": 0.125}}
    made = read(write_run(tmp_path / "run", phrases=answers, target_phrases=answers | {"share": 0.5, "phrases": 8}))
    of = "balanced 25.00% random 12.50% noun phrases"
    for said in (
        f"Noun phrases of the answers that are constituents trees test of this model 43.75% {of} 1,234",
        f"Noun phrases of the true targets that are constituents trees test of this model 50.00% {of} 8",
    ):
        assert said in made.said, said


@pytest.mark.parametrize("nothing", [{}, {"phrases": None, "target_phrases": None}])
def test_no_noun_phrases(tmp_path, nothing):
    assert "Noun phrases" not in read(write_run(tmp_path / "run", **nothing)).said


def test_the_pictures_themselves(tmp_path, monkeypatch):
    monkeypatch.undo()
    made = read(write_run(tmp_path / "run"))
    pictures = [given for name, given in made.elements if name == "svg" and "ctree-tree" not in str(given.get("class"))]
    assert len(pictures) == 3
    assert "epoch" in made.said
    assert "around" not in made.said  # no command has it


@pytest.mark.parametrize("missing", FILES)
def test_each_file_may_be_missing(tmp_path, missing):
    run = write_run(tmp_path / "two words")
    (run / missing).unlink()
    made = read(run)
    assert headings(made) == TITLES
    assert f"{missing} is not here; made by" in made.said
    command = "train" if missing in FILES[:2] else "evaluate"
    assert f"ctree {command}" in made.said
    if missing in FILES[2:]:
        assert f"ctree evaluate '{run}'" in made.said


def test_nothing_at_all(tmp_path):
    made = read(tmp_path)
    assert headings(made) == TITLES
    assert made.said.count("is not here; made by") == 5
    assert made.count("dl") == 0


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("content", ["", "{", "[1, 2]", "a: b: c\n\t", "null", "\xff\0", '{"test": 1}', '{"test": {}}'])
def test_whatever_stands_in_a_file(tmp_path, name, content):
    run = write_run(tmp_path / "run")
    (run / name).write_bytes(content.encode("latin-1"))
    assert headings(read(run)) == TITLES


def test_evaluations_of_other_versions(tmp_path):
    run = write_run(tmp_path / "run")
    test = {name: value for name, value in EVALUATION["test"].items() if name in ("pairs", "by_length", "exact_match")}
    (run / "evaluation.json").write_text(json.dumps({"test": test, "gen": test | {"new": [1]}}))
    made = read(run)
    assert "exact match 25.00% 25.00%" in made.said
    del test["by_length"]
    (run / "evaluation.json").write_text(json.dumps({"test": test}))
    assert "not as this version has them (KeyError: 'by_length')" in read(run).said


def test_numbers_of_other_weights(tmp_path):
    run = write_run(tmp_path / "run")
    assert "other weights" not in read(run).said
    (run / "model.safetensors").write_bytes(b"trained further")
    assert "are of other weights" in read(run).said
    (run / "model.safetensors").unlink()
    assert "other weights" not in read(run).said


@pytest.mark.parametrize("right", [True, False])
def test_all_right_or_all_wrong(tmp_path, right):
    some = [answer("A B", "A B" if right else "B A", -n, n) for n in range(9)]
    made = read(write_run(tmp_path / "run", some))
    assert f"test: {0 if right else 9} of 9 answers wrong" in made.said
    assert ("An example of each" in made.said) == (not right)
    assert ("Right, and most certain" in made.said) == right
    assert "tree of the answer" not in made.said  # as of a decoder from left to right


def test_what_is_no_number(tmp_path):
    run = write_run(tmp_path / "run", [answer("A", "A", math.nan), answer("B", "A", -math.inf, 1)], exact_match=None)
    (run / "metrics.csv").write_text("epoch,validation_accuracy\n1,nan\n2,\n3,inf\n")
    assert headings(read(run)) == TITLES


def test_hostile_text(tmp_path):
    text = "<script>alert(1)</script> & \" ' \u202e שלום \0 " + "w" * 500
    some = [answer(text, "A", -1, 0, tree="(· <script> \"')"), answer("A", text, -1, 1), answer(text, text, -1, 2)]
    run = write_run(tmp_path / "<b>&", some)
    (run / "config.yaml").write_text(json.dumps({"<script>": {"<b>": text}, "seed": [text]}))
    made = read(run, Beside(text, {("test", "exact_match"): text}))
    assert made.said.count("<script>alert(1)</script>") >= 6
    assert "\0" not in made.said


def test_only_scan_has_cells(tmp_path):
    run = write_run(tmp_path / "run")
    about = "by what a phrase of the command does"
    assert about in read(run).said
    (run / "config.yaml").write_text("data: {name: questions}")
    assert about not in read(run).said


def test_many_sets(tmp_path):
    some = [*SOME, *(type(one)(**{**vars(one), "set": "gen"}) for one in SOME)]
    run = write_run(tmp_path / "run", some)
    both = {**EVALUATION, "gen": EVALUATION["test"] | {"first_word": 0.5, "bleu": None}}
    (run / "evaluation.json").write_text(json.dumps(both))
    made = read(run, Beside("x", {("gen", "first_word"): "93 ± 7%"}))
    assert "first word, gen 50.00% published 93 ± 7%" in made.said
    assert "test gen published exact match 25.00% 25.00% first word 75.00% 50.00% 93 ± 7%" in made.said
    assert "gen: 3 of 4 answers wrong" in made.said


def test_a_file_of_metrics_that_was_cut_off(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,loss,attempt\n1,0.5,1\n2,x,1\n3,0.2")
    assert read_epochs(path) == [
        {"epoch": 1, "loss": 0.5, "attempt": 1},
        {"epoch": 2, "attempt": 1},
        {"epoch": 3, "loss": 0.2},
    ]


def test_a_folder_is_asked_once(tmp_path):
    folder = RunFolder(write_run(tmp_path / "run"))
    assert folder.epochs is folder.epochs
    assert len(folder.predictions["test"]) == len(SOME)
    with pytest.raises(MissingError, match=re.escape("config.yaml is not here")):
        _ = RunFolder(tmp_path).settings
