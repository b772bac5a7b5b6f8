"""What ``docs/results.md`` says in numbers: pieces of Markdown, made from result files alone.

The page includes them by name. A piece about runs that are not there says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

from torch_ctree.data.errors import count
from torch_ctree.evaluation.cells import Cell
from torch_ctree.experiments import TABLES, Result, read_results
from torch_ctree.experiments.comparing import answer, best, contrast, leading, worst
from torch_ctree.experiments.report import Lines, Results, as_markdown, comparison, failures, standing
from torch_ctree.experiments.results import done
from torch_ctree.experiments.summary import NOTHING
from torch_ctree.experiments.tables import Table

SCAN = TABLES["scan"]
LENGTH = next(column for column in SCAN.columns if column.key == "length")
HARDEST = {"scan": "length", "questions": "gen-first-word", "multi30k": "en-de"}
"""Of each table the column that sets the paper's rows apart most, or the first."""
CELL: Cell = ("around", "thrice")
"""The combination that LENGTH's training set does not have."""
NOT_YET = "*Not run yet.*"


def pieces(folder: Path) -> dict[str, str]:
    """Every piece of the page, by name, from the result files in a folder."""
    results = {task: read_results(table, folder) for task, table in TABLES.items()}
    scan = results["scan"]
    return {
        "in-short": "\n\n".join(in_short(table, results[task]) for task, table in TABLES.items()),
        **{task: whole(table, results[task]) for task, table in TABLES.items()},
        "length": as_markdown(parts_of_length(scan)) or NOT_YET,
        "trees": trees(scan),
        "attempts": as_markdown(attempts(results)) or NOT_YET,
    }


def in_short(table: Table, results: Results) -> str:
    """The paper's row with the highest published number in the hardest column, and ours."""
    hardest = next(column for column in table.columns if column.key == HARDEST[table.task])
    rows = tuple(row for row in table.rows if row == leading(table.own, hardest) or row.whose == "ours")
    parts = [f"**{table.title}.** {table.about}.", as_markdown(comparison(replace(table, rows=rows), results))]
    return "\n\n".join(parts)


def whole(table: Table, results: Results) -> str:
    """A table with what the runs came to, and which ones failed."""
    parts = [f"{table.about}. {standing(table, results)}.", as_markdown(comparison(table, results))]
    failed = failures(results)
    return "\n\n".join([*parts, "Runs that failed:", "\n".join(f"- {line}" for line in failed)] if failed else parts)


# --- the length split -------------------------------------------------------------------------------------------------


def parts_of_length(results: Results) -> Lines:
    """LENGTH's test set in two, commands with a phrase of the cell and others: each row, its worst and its best run."""
    titles = ["validation, %", "test, %", f"with `{' … '.join(CELL)}`, %", "all others, %"]
    lines = [["model", "runs", *titles]]
    for row in SCAN.own:
        if some := done(results.get((row.name, LENGTH.split), [])):
            lines.append([row.name, str(len(some)), *_shares(some)])
            if len(some) > 1:
                low, high = worst(some), best(some)
                lines.append(["", f"the lowest: seed {low['seed']}", *_shares([low])])
                lines.append(["", f"the highest: seed {high['seed']}", *_shares([high])])
    return lines


def _shares(results: Sequence[Result]) -> list[str]:
    """In percent: validation, test, and its two parts."""
    halves = [two_parts(result) for result in results]
    return [
        _percent(result.get("validation_accuracy") for result in results),
        _percent(result["metrics"]["exact_match"] for result in results),
        _percent(inside for inside, _ in halves),
        _percent(outside for _, outside in halves),
    ]


def two_parts(result: Result) -> tuple[float | None, float | None]:
    """Exact match of the test commands with a phrase of the cell, and of those without; none, where there are none."""
    metrics, (kind, times) = result["metrics"], CELL
    share = metrics.get("cells", {}).get(kind, {}).get(times, {"right": 0, "total": 0})
    right = sum(group["right"] for group in metrics["by_length"].values()) - share["right"]
    total = metrics["pairs"] - share["total"]
    return share["right"] / share["total"] if share["total"] else None, right / total if total else None


def _percent(values: Iterable[float | None]) -> str:
    """The mean of those that are there."""
    there = [value for value in values if value is not None]
    return f"{100 * mean(there):.1f}" if there else NOTHING


# --- the trees --------------------------------------------------------------------------------------------------------


def trees(results: Results) -> str:
    """Which runs the picture of trees shows, and what they say."""
    pair = contrast(SCAN, results, LENGTH, CELL)
    return "\n".join(f"- {told(result)}" for result in pair) or NOT_YET


def told(result: Result) -> str:
    """A run, how good it is, and its answer to the cell's command."""
    found, exact = answer(result, CELL), 100 * result["metrics"]["exact_match"]
    assert found is not None, "contrast gives runs that have one"
    said, wanted = (len(found[name].split()) for name in ("output", "target"))
    verdict = "right" if found["output"] == found["target"] else "wrong"
    return (
        f"**{result['row']}, seed {result['seed']}**: exact match {exact:.1f} % of the test set. Its answer to "
        f"`{found['source']}` is {verdict}: {count(said, 'action')}, where the right one has {wanted}."
    )


# --- runs that begin anew ---------------------------------------------------------------------------------------------


def attempts(results: Mapping[str, Results]) -> Lines:
    """How many runs of each row took how many attempts, and when a row begins anew."""
    found: dict[tuple[str, str, str], Counter[int]] = {}
    for task, table in TABLES.items():
        for row in table.own:
            for result in (one for split in table.splits for one in done(results[task].get((row.name, split), []))):
                found.setdefault((row.name, task, rule(result)), Counter())[result.get("attempts", 1)] += 1
    most = max((n for counts in found.values() for n in counts), default=0)
    titles = [f"{count(n, 'attempt')}" for n in range(1, most + 1)]
    lines = [["model", "data", "begins anew", *titles]]
    return lines + [[*names, *(str(counts[n]) for n in range(1, most + 1))] for names, counts in found.items()]


def rule(result: Result) -> str:
    """When a run begins anew, by its settings."""
    settings = result["settings"].get("optimisation", {})
    after, agreement = settings.get("restart_after"), settings.get("restart_agreement")
    said = []
    if after is not None:
        said.append(f"below {100 * settings['restart_below']:g} % in validation after {count(after, 'epoch')}")
    if agreement:
        said.append(f"agreeing with none before it in {100 * agreement:g} % of answers to new sources")
    return ", or ".join(said) or "never"
