import pytest

from tests.experiments.tiny import SCAN, failed, result
from torch_ctree.experiments.comparing import answer, best, contrast, leading, worst
from torch_ctree.experiments.results import done
from torch_ctree.experiments.summary import cell_means

LENGTH = next(column for column in SCAN.columns if column.key == "length")
SIMPLE, AROUND = SCAN.columns[0], SCAN.columns[4]
CELL = ("around", "thrice")


def run(row, seed, value, tree: str | None = "(· a b)"):
    examples = {
        "test": {"cells": {"around": {"thrice": {"source": "x", "target": "a b", "output": "a b", "tree": tree}}}}
    }
    return result(row, "length", seed, value, examples=examples)


def names(some):
    return [(one["row"], one["seed"]) for one in some]


OURS = [run("torch-ctree", seed, value) for seed, value in enumerate((0.9, 1.0, 0.3, 1.0, 0.3))]


def test_ties_go_to_the_lowest_seed():
    for some in (OURS, OURS[::-1]):
        assert worst(some)["seed"] == 2
        assert best(some)["seed"] == 1
    assert worst(OURS[:1]) is best(OURS[:1]) is OURS[0]


def test_runs_that_failed_are_not_done():
    assert done([failed(), OURS[0], failed(seed=1)]) == [OURS[0]]
    assert done([]) == []


def test_the_answer_of_a_cell():
    assert answer(OURS[0], CELL) == {"source": "x", "target": "a b", "output": "a b", "tree": "(· a b)"}
    assert answer(OURS[0], ("around", "twice")) is None
    assert answer(OURS[0], ("opposite", "thrice")) is None
    assert answer(run("OM-Seq + LA", 0, 0.5, tree=None), CELL) is None
    assert answer(result(), CELL) is None  # files of before had no such examples


def test_the_leading_row_is_the_one_that_was_published_as_such():
    def name(rows, column):
        row = leading(rows, column)
        return row and row.name

    assert name(SCAN.rows, LENGTH) == "OM-CTree + LA"  # 44.7; of those quoted none counts
    assert name([row for row in SCAN.rows if row.name != "OM-CTree + LA"], LENGTH) == "OM-CTree"  # 40.3
    assert name(SCAN.rows, SIMPLE) == "OM-CTree + LA"
    assert name(SCAN.rows, AROUND) is None  # the paper does not have it
    assert name([], LENGTH) is None


def test_the_paper_fails_and_ours_succeeds():
    theirs = [run("OM-CTree + LA", seed, value) for seed, value in enumerate((0.2, 0.1, 1.0))]
    others = [run("OM-CTree", 0, 0.0)]
    results = {("OM-CTree + LA", "length"): theirs, ("OM-CTree", "length"): others, ("torch-ctree", "length"): OURS}
    assert names(contrast(SCAN, results, LENGTH, CELL)) == [("OM-CTree + LA", 1), ("torch-ctree", 1)]
    del results["OM-CTree + LA", "length"]
    assert names(contrast(SCAN, results, LENGTH, CELL)) == [("OM-CTree", 0), ("torch-ctree", 1)]


@pytest.mark.parametrize("unusable", [[], [failed(row="OM-CTree + LA")], [run("OM-CTree + LA", 0, 0.1, tree=None)]])
def test_a_row_that_is_not_there_yet(unusable):
    results = {("OM-CTree + LA", "length"): unusable, ("torch-ctree", "length"): OURS}
    assert names(contrast(SCAN, results, LENGTH, CELL)) == [("torch-ctree", 2), ("torch-ctree", 1)]
    only_theirs = {("OM-CTree", "length"): [run("OM-CTree", seed, 0.1 * seed) for seed in (1, 2)]}
    assert names(contrast(SCAN, only_theirs, LENGTH, CELL)) == [("OM-CTree", 1), ("OM-CTree", 2)]


def test_one_run_or_none():
    assert contrast(SCAN, {("torch-ctree", "length"): OURS[:1]}, LENGTH, CELL) == OURS[:1]
    assert contrast(SCAN, {}, LENGTH, CELL) == []
    assert contrast(SCAN, {("torch-ctree", "jump"): OURS}, LENGTH, CELL) == []


def with_cells(**cells):
    found = result()
    found["metrics"]["cells"] = {
        kind: {times: {"right": right, "total": 4, "accuracy": right / 4} for times, right in below.items()}
        for kind, below in cells.items()
    }
    return found


def test_cells_are_averaged_over_the_runs_that_have_them():
    some = [with_cells(none={"once": 4}, around={"once": 1, "thrice": 0}), with_cells(around={"once": 2, "thrice": 1})]
    assert cell_means(some) == {("none", "once"): 1.0, ("around", "once"): 0.375, ("around", "thrice"): 0.125}
    assert cell_means([]) == {}
    assert cell_means([result(metrics={"exact_match": 1.0})]) == {}
