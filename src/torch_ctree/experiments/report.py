"""A table of results: as Markdown, and for the terminal. No number in it is typed by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any

from torch_ctree.data.disk import write
from torch_ctree.data.errors import count
from torch_ctree.evaluation.cells import KINDS, TIMES
from torch_ctree.experiments.results import Result, done, read_results
from torch_ctree.experiments.summary import NOTHING, Sample, alone, cell_means, here, published, sample, spread
from torch_ctree.experiments.tables import Table

Results = Mapping[tuple[str, str], Sequence[Result]]
"""(Row, split) → the results of its runs."""
Lines = list[list[str]]
"""The cells of a table, the header first; a cell may have several lines."""
SEEDS = "Each seed"
MORE = "More about these runs"
LENGTHS = "Exact match by words of the target, in percent"
CELLS = "Exact match by what a phrase of the command does, and how often, in percent"
PHRASES = "Noun phrases that are constituents, in percent"
MADE = "How they were made"
WORDS = 8
"""Lengths of targets are put together by so many."""


def write_report(table: Table, folder: Path) -> tuple[Path, Results]:
    """Make the page of a table from the result files in a folder → where it is, and what is in them."""
    results = read_results(table, folder)
    path = folder / f"{table.task}.md"
    write(path, markdown(table, results))
    return path, results


def markdown(table: Table, results: Results) -> str:
    """The whole page."""
    parts = [
        f"# {table.title}",
        f"`ctree report` made this page from the files in `{table.task}/`, which `ctree reproduce {table.task}` wrote, "
        "one for each run.",
        f"{table.numbers}. *paper*: as published; *quoted*: as published there, from another paper; *here*: our runs. "
        f"{standing(table, results)}.",
        as_markdown(comparison(table, results)),
    ]
    sections = {"Runs that failed": "\n".join(f"- {line}" for line in failures(results))}
    sections |= {title: as_markdown(lines) for title, lines in details(table, results).items()}
    for title, content in sections.items():
        if content:
            parts += [f"## {title}", content]
    return "\n\n".join(parts) + "\n"


def as_markdown(lines: Lines) -> str:
    """The cells as a table; nothing, of one without rows."""
    if not lines[1:]:
        return ""
    header, *rows = lines
    ruled = [header, ["---"] * 2 + ["--:"] * (len(header) - 2), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '¦').replace(chr(10), '<br>') for cell in row)} |" for row in ruled
    )


# --- the table itself -------------------------------------------------------------------------------------------------


def comparison(table: Table, results: Results) -> Lines:
    """Every row of the paper's table: what was published, and below it what came out here."""
    lines = [["model", "", *(column.title for column in table.columns)]]
    for row in table.rows:
        if row.published:
            cells = (published(row.published.get(column.key), table) for column in table.columns)
            lines.append([row.name, row.whose, *map("\n".join, cells)])
        if row.presets:
            cells = (here(results.get((row.name, column.split), []), column, table) for column in table.columns)
            lines.append(["" if row.published else row.name, "here", *map("\n".join, cells)])
    return lines


def standing(table: Table, results: Results) -> str:
    """How much of the table there is, in one line."""
    every = [result for some in results.values() for result in some]
    failed, whole = sum("error" in result for result in every), len(table.own) * len(table.splits) * table.seeds
    missing = whole - sum(min(table.seeds, len(some)) for some in results.values())
    said = [f"{count(len(every) - failed, 'run')} done"]
    said += [f"{failed:,} failed"] if failed else []
    said += [f"{missing:,} of {whole:,} still to do"] if missing else []
    return ", ".join(said)


def failures(results: Results) -> list[str]:
    """A line for each run that failed."""
    every = (result for some in results.values() for result in some if "error" in result)
    return [f"{result['row']}, {result['split']}, seed {result['seed']}: {result['error']}" for result in every]


# --- more about it ----------------------------------------------------------------------------------------------------


def details(table: Table, results: Results) -> dict[str, Lines]:
    """Everything else about the runs, by what it is."""
    return {
        SEEDS: _seeds(table, results),
        MORE: _more(table, results),
        LENGTHS: _by_length(table, results),
        CELLS: _by_cell(table, results),
        PHRASES: _phrases(table, results),
        MADE: _made(table, results),
    }


def by_row(table: Table, results: Results) -> Iterator[tuple[str, str, list[Result]]]:
    """(Row, split, its runs), in the order of the table, without those that failed."""
    for row, split in product(table.own, table.splits):
        if some := done(results.get((row.name, split), [])):
            yield row.name, split, some


def _sets(table: Table, results: Results) -> Iterator[tuple[list[str], list[Mapping[str, Any]]]]:
    """(Row, split and set; the metrics of that set of each run)."""
    inner = dict.fromkeys(column.metric[:-1] for column in table.columns)
    for row, split, some in by_row(table, results):
        yield [row, split, "test"], [result["metrics"] for result in some]
        for (name,) in filter(None, inner):
            yield [row, split, name], [result["metrics"][name] for result in some]


def _seeds(table: Table, results: Results) -> Lines:
    seeds = sorted({result["seed"] for some in results.values() for result in some})
    lines = [["model", "", *(f"seed {seed}" for seed in seeds)]]
    for row, column in product(table.own, table.columns):
        if some := results.get((row.name, column.split)):
            found = {result["seed"]: alone(result, column, table) for result in some}
            lines.append([row.name, column.title, *(found.get(seed, NOTHING) for seed in seeds)])
    return lines


def _more(table: Table, results: Results) -> Lines:
    lines = [["model", "split", "set", "pairs", "token accuracy, %", "tree F1, %", "loss, nats a word"]]
    for names, every in _sets(table, results):
        token, tree, loss = (sample(every, name) for name in ("token_accuracy", "tree_f1", "loss"))
        pairs = f"{every[0]['pairs']:,}"
        lines.append([*names, pairs, spread(token, 100, 2), spread(tree, 100, 1), spread(loss, 1, 4)])
    return lines


def _by_length(table: Table, results: Results) -> Lines:
    shares = {
        tuple(names): _together(
            ((int(words) - 1) // WORDS, share) for metrics in every for words, share in metrics["by_length"].items()
        )
        for names, every in _sets(table, results)
    }
    columns = sorted({group for some in shares.values() for group in some})
    titles = (f"{group * WORDS + 1}–{(group + 1) * WORDS}" for group in columns)
    return [
        ["model", "split", "set", *titles],
        *([*names, *(some.get(group, NOTHING) for group in columns)] for names, some in shares.items()),
    ]


def _by_cell(table: Table, results: Results) -> Lines:
    lines = [["model", "split", *(f"{kind} {times}" for kind, times in product(KINDS, TIMES))]]
    for row, split, some in by_row(table, results):
        if means := cell_means(some):
            shares = {cell: f"{100 * value:.1f}" for cell, value in means.items()}
            lines.append([row, split, *(shares.get(cell, NOTHING) for cell in product(KINDS, TIMES))])
    return lines


def _phrases(table: Table, results: Results) -> Lines:
    """Of trees of answers and of true targets, and of trees that need no model over the same leaves."""
    lines: Lines = []
    for names, every in _sets(table, results):
        for key, whose in {"phrases": "answers", "target_phrases": "true targets"}.items():
            if there := [metrics[key] for metrics in every if key in metrics]:
                simple = list(there[0]["baselines"])
                lines = lines or [["model", "split", "set", "trees of", "here", *simple]]
                shares = Sample(tuple(one["share"] for one in there))
                beside = (mean(one["baselines"][name] for one in there) for name in simple)
                lines.append([*names, whose, spread(shares, 100, 1), *(f"{100 * value:.1f}" for value in beside)])
    return lines


def _together(shares: Iterable[tuple[Any, Mapping[str, int]]]) -> dict[Any, str]:
    """Shares of the same name put together, in percent."""
    right: Counter[Any] = Counter()
    total: Counter[Any] = Counter()
    for name, share in shares:
        right[name] += share["right"]
        total[name] += share["total"]
    return {name: f"{100 * right[name] / total[name]:.1f}" for name in total}


def _made(table: Table, results: Results) -> Lines:
    """Seconds are of runs that share a machine with others."""
    named = ("parameters", "at_once", "hardware", "commit", "command")
    lines = [["model", "split", "runs", "epochs", "seconds a run", *named]]
    for row, split, some in by_row(table, results):
        middle = [f"{median(result[name] for result in some):,.0f}" for name in ("epochs", "seconds")]
        others = (dict.fromkeys(str(result.get(name, NOTHING)) for result in some) for name in named)
        lines.append([row, split, str(len(some)), *middle, *map("\n".join, others)])
    return lines
