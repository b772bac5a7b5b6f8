"""The page with the results: what it includes is made, whatever has been run; what it says of SCAN is so."""

import re
import shlex
from pathlib import Path

import pytest

from docs.result_text import attempts, in_short, parts_of_length, pieces, rule, trees, two_parts, whole
from tests.experiments.tiny import QUESTIONS, SCAN, failed, result
from torch_ctree.cli import parser
from torch_ctree.data import scan
from torch_ctree.evaluation.cells import cell
from torch_ctree.experiments import TABLES
from torch_ctree.experiments.results import Entry, read_results, write_result
from torch_ctree.experiments.sweep import Plan, entries_of, jobs_of

MULTI30K = TABLES["multi30k"]
ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "results.md").read_text()
COMMAND = {"source": "walk around left thrice", "target": "a b a b", "output": "a b", "tree": "(· a b)"}


def run(row: str, seed: int, right: tuple[int, int], totals: tuple[int, int] = (8, 2), **more):
    """With so many right answers among the commands with and without the cell's phrase."""
    share = {"right": right[0], "total": totals[0], "accuracy": right[0] / totals[0]}
    by_length = {"24": {"right": right[0]}, "30": {"right": right[1]}}
    metrics = {
        **result()["metrics"],
        "pairs": sum(totals),
        "exact_match": sum(right) / sum(totals),
        "by_length": by_length,
        "cells": {"around": {"thrice": share}},
    }
    examples = {"test": {"cells": {"around": {"thrice": COMMAND}}}}
    return result(row, "length", seed, metrics=metrics, examples=examples, **more)


def test_the_page_includes_what_is_made(tmp_path):
    included = re.findall(r'^--8<-- "([\w-]+)\.md"$', PAGE, flags=re.MULTILINE)
    assert sorted(included) == sorted(pieces(tmp_path))
    assert PAGE.count("--8<--") == len(included)


def test_the_page_shows_what_is_drawn():
    shown = set(re.findall(r"figures/([\w-]+)\.svg", PAGE))
    program = (ROOT / "docs" / "results.py").read_text()
    drawn = set(re.findall(r'save\(figure, "([\w-]+)"\)', program))
    assert 'save(figure, f"results-{table.task}-seeds")' in program
    assert shown == drawn | {f"results-{task}-seeds" for task in TABLES}


def test_commands_are_there():
    for line in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)[0].splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "ctree":
            parser().parse_args(words[1:])


def test_no_number_of_a_result_is_typed():
    assert re.findall(r"\d+\.\d|\d ?%|±\s*\d", PAGE) == []


def test_what_is_new_in_length():
    train, test = scan.by_rule("length")
    seen, asked = ({p for source in pairs.sources() for p in scan.phrases(source)} for pairs in (train, test))
    everything = {p for source in scan.everything().sources() for p in scan.phrases(source)}
    new = {f"{verb} around {side} thrice" for verb in ("jump", "look", "run", "walk") for side in ("left", "right")}
    assert everything - seen == new
    assert new <= asked
    assert {f"turn around {side} thrice" for side in ("left", "right")} <= seen
    counts = [sum(("around", "thrice") in map(cell, scan.phrases(source)) for source in test.sources()), len(test)]
    assert counts[0] / counts[1] > 0.5  # "most commands of this test set"


def test_nothing_has_been_run(tmp_path):
    found = pieces(tmp_path)
    assert [name for name, text in found.items() if text == "*Not run yet.*"] == ["length", "trees", "attempts"]
    assert "0 runs done, 300 of 300 still to do." in found["scan"]
    assert "0 runs done, 15 of 15 still to do." in found["questions"]
    assert "0 runs done, 42 of 42 still to do." in found["multi30k"]
    ours = [line for line in found["in-short"].splitlines() if line.startswith("| torch-ctree")]
    assert ours == [f"| torch-ctree | here |{' – |' * count}" for count in (6, 3, 8)]


def test_only_our_row_has_been_run(tmp_path):
    ours = next(row for row in SCAN.own if row.whose == "ours")
    for found in (run("torch-ctree", 0, (8, 2)), run("torch-ctree", 1, (0, 2))):
        write_result(Entry(SCAN, ours, "length", found["seed"]).path(tmp_path), found)
    found = pieces(tmp_path)
    assert "2 runs done, 298 of 300 still to do." in found["scan"]
    assert found["trees"].splitlines() == [
        "- **torch-ctree, seed 1**: exact match 20.0 % of the test set. Its answer to "
        "`walk around left thrice` is wrong: 2 actions, where the right one has 4.",
        "- **torch-ctree, seed 0**: exact match 100.0 % of the test set. Its answer to "
        "`walk around left thrice` is wrong: 2 actions, where the right one has 4.",
    ]


@pytest.mark.parametrize(
    ("table", "leading"), [(SCAN, "OM-CTree + LA"), (QUESTIONS, "OM-CTree"), (MULTI30K, "OM-CTree + distill")]
)
def test_in_short_has_the_papers_best_and_ours(table, leading):
    lines = in_short(table, {}).splitlines()
    assert lines[0].startswith(f"**{table.title}.** ")
    assert [line.split(" | ")[:2] for line in lines[4:]] == [
        [f"| {leading}", "paper"],
        ["| ", "here"],
        ["| torch-ctree", "here"],
    ]


def test_failures_are_told():
    text = whole(SCAN, {("OM-CTree", "length"): [failed()]})
    assert text.endswith("Runs that failed:\n\n- OM-CTree, length, seed 0: out of memory")
    assert "failed" not in whole(QUESTIONS, {})


def test_the_two_parts_of_length():
    assert two_parts(run("torch-ctree", 0, (2, 1))) == (0.25, 0.5)
    assert two_parts(run("torch-ctree", 0, (2, 0), totals=(8, 0))) == (0.25, None)
    without = result(value=0.5)
    del without["metrics"]["cells"]
    assert two_parts(without) == (None, pytest.approx(1.0))  # 50 of each of two lengths, as tiny has it


def test_every_row_of_length_with_its_worst_and_best_run():
    ours = [run("torch-ctree", seed, right, validation_accuracy=1.0) for seed, right in enumerate([(8, 2), (0, 2)])]
    theirs = [run("OM-CTree", 4, (4, 1)), failed(seed=5)]
    lines = parts_of_length({("torch-ctree", "length"): ours, ("OM-CTree", "length"): theirs, ("OM-Seq", "jump"): ours})
    assert lines[1:] == [
        ["OM-CTree", "1", "–", "50.0", "50.0", "50.0"],
        ["torch-ctree", "2", "100.0", "60.0", "50.0", "100.0"],
        ["", "the lowest: seed 1", "100.0", "20.0", "0.0", "100.0"],
        ["", "the highest: seed 0", "100.0", "100.0", "100.0", "100.0"],
    ]


def test_an_answer_that_is_right(monkeypatch):
    monkeypatch.setitem(COMMAND, "output", "a b a b")
    assert trees({("torch-ctree", "length"): [run("torch-ctree", 7, (8, 0))]}) == (
        "- **torch-ctree, seed 7**: exact match 80.0 % of the test set. Its answer to "
        "`walk around left thrice` is right: 4 actions, where the right one has 4."
    )


def test_attempts_are_counted_by_row():
    anew = {"optimisation": {"restart_after": 3, "restart_below": 0.995}}
    some = [result("torch-ctree", split, attempts=n, settings=anew) for split, n in (("jump", 1), ("length", 3))]
    results = {
        "scan": {
            ("torch-ctree", "jump"): [some[0], failed(row="torch-ctree", split="jump", seed=1)],
            ("torch-ctree", "length"): [some[1]],
            ("OM-CTree", "length"): [result()],
        },
        "questions": {},
        "multi30k": {},
    }
    assert attempts(results) == [
        ["model", "data", "begins anew", "1 attempt", "2 attempts", "3 attempts"],
        ["OM-CTree", "scan", "never", "1", "0", "0"],
        ["torch-ctree", "scan", "below 99.5 % in validation after 3 epochs", "1", "0", "1"],
    ]
    assert rule(result(settings={"optimisation": {"restart_after": 1, "restart_below": 0.99}})) == (
        "below 99 % in validation after 1 epoch"
    )
    both = {"restart_after": 2, "restart_below": 0.99, "restart_agreement": 0.95}
    assert rule(result(settings={"optimisation": both})) == (
        "below 99 % in validation after 2 epochs, or agreeing with none before it in 95 % of answers to new sources"
    )


def test_the_pieces_are_those_of_the_results():
    """``make docs`` writes them anew."""
    folder = ROOT / "docs" / "pieces"
    assert {path.stem: path.read_text() for path in folder.glob("*.md")} == {
        name: f"{text}\n" for name, text in pieces(ROOT / "results").items()
    }


def test_the_readmes_numbers_are_those_of_the_results():
    text = " ".join((ROOT / "README.md").read_text().split())
    length = next(row for row in SCAN.rows if row.name == "OM-CTree + LA").published["length"]
    assert f"{length.mean} ± {length.deviation} % of the test set in ten runs, half of them at 19.8" in text
    assert length.histogram[1] == 5
    ours = read_results(SCAN, ROOT / "results")[("torch-ctree", "length")]
    assert len(ours) == 10
    assert {f"{run['metrics']['exact_match']:.1%}" for run in ours} == {"100.0%"}
    assert "has 100.0 % in ten of ten" in text


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_sweep_goes_on_from_these_results(table, tmp_path):
    """None of them is refused for what its settings were called then."""
    plan = Plan(results=ROOT / "results", runs=tmp_path, command="", commit="", root=None)
    entries = entries_of(table, table.own, table.splits, range(table.seeds))
    there = sum(map(len, read_results(table, ROOT / "results").values()))
    assert len(jobs_of(entries, plan)) == len(entries) - there
