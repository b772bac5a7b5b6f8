import re

import pytest

from tests.experiments.tiny import QUESTIONS, SCAN, failed, result
from tests.viewing.report.folders import METRICS
from tests.viewing.report.markup import Page
from torch_ctree.experiments.page import html, write_page

TREE = "(· I_WALK (· I_WALK I_WALK))"


def quoted(output, target="I_WALK I_WALK", tree: str | None = TREE):
    return {"source": "walk twice", "target": target, "output": output, "tree": tree}


def with_examples(row, seed, value, output, **more):
    cells = {"around": {"thrice": quoted(output)}}
    examples = {"test": {"wrong": [quoted("I_WALK")], "right": [quoted("I_WALK I_WALK")], "cells": cells}}
    return result(row, "length", seed, value, examples=examples, **more)


SOME = {
    ("OM-CTree", "length"): [
        with_examples("OM-CTree", 0, 0.2, "I_WALK I_WALK I_WALK"),
        with_examples("OM-CTree", 1, 0.4, "I_WALK I_WALK"),
        failed(seed=3, error="out of <memory>"),
    ],
    ("torch-ctree", "length"): [with_examples("torch-ctree", 0, 1.0, "I_WALK I_WALK")],
    ("torch-ctree", "jump"): [result("torch-ctree", "jump", seed, 1.0) for seed in range(2)],
}
PICTURES = ("accuracy_by_length", "every_seed", "heat_map", "learning_curves", "seed_histogram")


@pytest.fixture
def asked(monkeypatch):
    """Pictures have tests of their own, and take a while → what each is asked for."""
    found = {name: [] for name in PICTURES}
    monkeypatch.setattr("torch_ctree.viewing.pictures.as_svg", lambda figure, about: f"<svg>{about}</svg>")
    for name in PICTURES:
        monkeypatch.setattr(
            f"torch_ctree.viewing.pictures.{name}", lambda panels, *_, name=name, **__: found[name].append(panels)
        )
    return found


def test_published_and_ours(asked, tmp_path):
    made = Page(html({"scan": SOME}, tmp_path))
    for said in (
        "SCAN: Table 1",
        "5 runs done, 1 failed, 294 of 300 still to do",
        "OM-CTree paper 99.9 ± 0.1 ▁▁▁▁▁▁▁▁▁█ 93.0 ± 7.5",
        "here – – – 30.0 ± 14.1 ▁▁▅▁▅▁▁▁▁▁ 2 of 10 runs, 1 failed",
        "Bastings et al. (2018) quoted",
        "OM-CTree, length, seed 3: out of <memory>",
        "OM-CTree length 2 3 61 – 2 a machine abc ctree reproduce scan",
    ):
        assert said in made.said, said
    titles = [words for words in made.words if words in ("Every seed", "Runs that failed", "How they were made")]
    assert titles == ["Every seed", "Runs that failed", "How they were made"] * 2  # links, then headings


def test_what_pictures_are_made_of(asked, tmp_path):
    html({"scan": SOME}, tmp_path)
    ours, mine = asked["seed_histogram"]
    assert ours["Length"].here == (0, 0, 1, 0, 1, 0, 0, 0, 0, 0)
    assert ours["Length"].published == (0, 1, 3, 2, 1, 1, 1, 0, 0, 1, 0)
    assert mine["+ Jump"].here[-1] == 2
    assert mine["+ Jump"].published == ()
    (lanes,) = asked["every_seed"]
    assert lanes["Length"]["OM-CTree"] == ([20.0, 40.0], (40.3, 22.5), 1)
    assert lanes["Length"]["OM-Seq + LA"].values == []
    jump, length = asked["accuracy_by_length"]
    assert list(jump) == ["torch-ctree"]
    assert length == {"OM-CTree": {24: (60, 200), 25: (60, 200)}, "torch-ctree": {24: (100, 100), 25: (100, 100)}}
    assert asked["heat_map"][-1]["OM-CTree"] == {("around", "thrice"): pytest.approx(0.3)}


def test_curves_where_metrics_are(asked, tmp_path):
    assert f"No metrics.csv of these runs in {tmp_path}/scan" in Page(html({"scan": SOME}, tmp_path)).said
    assert asked["learning_curves"] == []
    for seed, content in enumerate((METRICS, "not, metrics")):
        folder = tmp_path / f"scan/om-ctree/length-{seed}"
        folder.mkdir(parents=True)
        (folder / "metrics.csv").write_text(content)
    assert "OM-CTree, length: 1 run" in Page(html({"scan": SOME}, tmp_path)).said
    ((name, epochs),) = asked["learning_curves"][0].items()
    assert (name, len(epochs)) == ("seed 0", 3)


def test_errors_by_kind(asked, tmp_path):
    metrics = {**result()["metrics"], "errors": {"too short": 3, "another order": 1}}
    counted = {("OM-CTree", "length"): [result(metrics=metrics)] * 2}
    assert "OM-CTree length test 8 75.0 25.0" in Page(html({"scan": counted}, tmp_path)).said
    made = Page(html({"scan": SOME}, tmp_path))  # of before they were counted
    assert "OM-CTree length test 2 * 100.0" in made.said
    mixed = {("OM-CTree", "length"): [result(metrics=metrics), with_examples("OM-CTree", 1, 0.4, "I_WALK")]}
    assert "OM-CTree length test 1 * 100.0" in Page(html({"scan": mixed}, tmp_path)).said  # never both together
    assert "repeated too seldom, %" in made.said
    none = {("torch-ctree", "jump"): [result("torch-ctree", "jump", 0, 1.0)]}
    assert "What goes wrong" not in Page(html({"scan": none}, tmp_path)).said


def test_trees_side_by_side(asked, tmp_path):
    made = Page(html({"scan": SOME}, tmp_path))
    worst = made.said.index("OM-CTree, seed 0: exact match 20.0%")
    assert worst < made.said.index("torch-ctree, seed 0: exact match 100.0%")
    assert made.count("mark") == 1
    assert sum("ctree-tree" in str(given.get("class")) for name, given in made.elements if name == "svg") == 2


def test_two_tables_and_two_sets(asked, tmp_path):
    inner = {**result()["metrics"], "exact_match": 0.25, "first_word": 0.875}
    del inner["cells"]
    examples = {"gen": {"wrong": [quoted("I_RUN")], "right": []}}
    run = result(
        split="questions", task="questions", metrics={**inner, "exact_match": 1.0, "gen": inner}, examples=examples
    )
    some = {("OM-CTree", "questions"): [run]}
    made = Page(html({"scan": SOME, "questions": some}, tmp_path))
    assert made.count("h2") == 2
    assert made.count("h1") == 1
    assert "SCAN: Table 1 and English question formation: Table 2" in made.said
    assert "OM-CTree, seed 0: exact match 25.0%" in made.said
    assert [list(shares) for shares in asked["accuracy_by_length"][-2:]] == [["OM-CTree"], ["OM-CTree"]]
    assert QUESTIONS.title in made.said


def test_settings_that_differ_between_splits(asked, tmp_path):
    def run(split, width):
        return result(
            "torch-ctree", split, settings={"seed": 0, "model": {"width": width, "depth": 8}}, versions={"torch": "2.6"}
        )

    some = {("torch-ctree", "jump"): [run("jump", 64)], ("torch-ctree", "length"): [run("length", 128)]}
    made = Page(html({"scan": some}, tmp_path))
    assert "model.width 64: jump 128: length model.depth 8" in made.said
    assert "torch 2.6." in made.said


def test_hostile_results(asked, tmp_path):
    text = '<script>alert(1)</script> & " \u202e \0'
    bad = {"source": text, "target": text, "output": f"{text} x", "tree": f"(· {text}"}
    examples = {"test": {"wrong": [bad], "right": [], "cells": {"around": {"thrice": bad}}}}
    run = result(examples=examples, command=text, hardware=text, commit=text, settings={text: {text: text}})
    made = Page(html({"scan": {("OM-CTree", "length"): [run, failed(seed=1, error=text)]}}, tmp_path))
    assert made.said.count("<script>alert(1)</script>") > 5


def test_the_real_pictures(tmp_path):
    path = write_page({"scan": {("torch-ctree", "jump"): SOME["torch-ctree", "jump"]}}, tmp_path, tmp_path)
    assert path == tmp_path / "report.html"
    made = Page(path.read_text())
    assert made.count("svg") == 4
    assert not re.search(r"(nan|inf)[,\" ]", path.read_text())
    assert SCAN.title in made.said
