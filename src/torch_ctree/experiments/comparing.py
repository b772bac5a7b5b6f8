"""Runs to set beside one another, chosen by rule from the result files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch_ctree.evaluation.cells import Cell
from torch_ctree.experiments.results import Result, done
from torch_ctree.experiments.tables import Column, Row, Table


def worst(results: Sequence[Result]) -> Result:
    """The run with the lowest exact match; of several, that with the lowest seed."""
    return min(results, key=lambda result: (result["metrics"]["exact_match"], result["seed"]))


def best(results: Sequence[Result]) -> Result:
    """The run with the highest exact match; of several, that with the lowest seed."""
    return min(results, key=lambda result: (-result["metrics"]["exact_match"], result["seed"]))


def answer(result: Result, cell: Cell) -> Mapping[str, Any] | None:
    """What a run says to the simplest test command of a cell; none, if there is no such command or no tree of it."""
    kind, times = cell
    found = result.get("examples", {}).get("test", {}).get("cells", {}).get(kind, {}).get(times)
    return found if found and found["tree"] else None


def leading(rows: Sequence[Row], column: Column) -> Row | None:
    """The paper's own row with the highest published number, baselines aside; the first of several."""
    theirs = [row for row in rows if row.whose == "paper" and not row.baseline]
    with_number = [row for row in theirs if column.key in row.published]
    return max(with_number, key=lambda row: row.published[column.key].mean, default=None)


def contrast(
    table: Table, results: Mapping[tuple[str, str], Sequence[Result]], column: Column, cell: Cell
) -> list[Result]:
    """The worst run of the paper's leading row, and the best run of ours, that have a tree for a cell's command.

    Rows without such runs are passed over; if these are all of the paper's, or ours, both runs are of the row that is
    left. A single run, where both are the same; none, where there is nothing yet.
    """
    runs = {
        row.name: [one for one in done(results.get((row.name, column.split), [])) if answer(one, cell)]
        for row in table.own
    }
    there = [row for row in table.own if runs[row.name]]
    ours = next((row for row in there if row.whose == "ours"), None)
    theirs = leading(there, column)
    failing, succeeding = theirs or ours, ours or theirs
    if failing is None or succeeding is None:
        return []
    pair = [worst(runs[failing.name]), best(runs[succeeding.name])]
    return pair[:1] if pair[0] is pair[1] else pair
