"""``ctree reproduce`` and ``ctree report``: the paper's tables again."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from torch_ctree.circumstances import command, commit_here
from torch_ctree.cli.console import console, say
from torch_ctree.cli.runs import settings_of
from torch_ctree.cli.train import parse_seeds
from torch_ctree.data.errors import check_whole, count, place, shown
from torch_ctree.experiments import TABLES, Result, Row, Table, write_report
from torch_ctree.experiments.beside import beside
from torch_ctree.experiments.page import write_page
from torch_ctree.experiments.report import Lines, Results, comparison, failures, standing
from torch_ctree.experiments.sweep import Job, Plan, check, entries_of, jobs_of, sweep
from torch_ctree.experiments.tables import slug
from torch_ctree.training import TrainingError
from torch_ctree.training.configuration import CONFIG
from torch_ctree.training.pool import Outcome
from torch_ctree.viewing.report import write_run_report

RESULTS, RUNS = "results", "runs/reproduce"
T = TypeVar("T")
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def reproduce(
    table: str | None = None,
    /,
    *,
    rows: str | None = None,
    splits: str | None = None,
    seeds: str | None = None,
    budget: str | None = None,
    at_once: int | None = None,
    root: str | None = None,
    results: str = RESULTS,
    runs: str = RUNS,
    ray: str | None = None,
    gpus_each: float | None = None,
    commit: str | None = None,
    list_: bool = False,
) -> None:
    """Train and test every row of a table of the paper, with the published numbers beside ours; goes on where it was.

    table: scan, which is Table 1, questions, which is Table 2, or multi30k, which is Table 3
    rows: some of its rows, with commas between them, such as om-ctree,om-ctree-la (see --list)
    splits: some of its splits, such as jump,length
    seeds: 0-9, or 0,3,7, or 0-4,8 (default: as many as the table is for, from 0 on; see --list)
    budget: stop after this time, such as 90s, 20m or 1.5h; the same command then goes on
    at_once: how many runs side by side (default: on a GPU up to 10, on a CPU one for each core)
    root: the folder with data files (default: the one that CTREE_DATA names, or else a cache)
    results: the folder for result files
    runs: the folder for the runs: checkpoints and models
    ray: the address of a Ray cluster that the runs go to, such as auto or ray://head:10001
    gpus_each: with --ray, the part of a GPU that a run gets (default: 0.1)
    commit: what to record as the commit, where the sources are not a git checkout
    list_: list the rows and what they are trained on
    """
    began = time.time()
    if list_:
        _list(list(TABLES.values()) if table is None else [_table(table)])
        return
    chosen = _table(table)
    _check_workers(at_once, ray, gpus_each)
    entries = entries_of(
        chosen,
        _rows(chosen, rows),
        _some("splits", splits, {name: name for name in chosen.splits}),
        range(chosen.seeds) if seeds is None else parse_seeds(seeds),
    )
    deadline = None if budget is None else began + parse_time(budget)
    folders = folder_named("results", results), folder_named("runs", runs)
    plan = Plan(*folders, root, command(), commit or commit_here(), deadline)
    jobs = jobs_of(entries, plan)
    if ray is None:
        check(jobs)
    terminal = console()
    say(terminal, f"{count(len(entries), 'run')}: {len(entries) - len(jobs):,} done before, {len(jobs):,} to do")
    try:
        outcomes = sweep(jobs, terminal, at_once=at_once, ray=ray, gpus_each=gpus_each) if jobs else []
    except KeyboardInterrupt:
        say(terminal, "stopped; go on with the same command")
        raise
    _report(chosen, plan.results)
    _close(outcomes, terminal)


def _close(outcomes: Sequence[Outcome[Job, Result | None]], terminal: Console) -> None:
    """What is left to do, and why; status 1 where a run failed."""
    if late := sum(outcome.error is None and outcome.result is None for outcome in outcomes):
        say(terminal, f"the time is over, with {count(late, 'run')} left; go on with the same command")
    if failed := sum(outcome.error is not None for outcome in outcomes):
        say(terminal, f"{count(failed, 'run')} failed; the same command tries again")
        raise SystemExit(1)


def report(results: str = RESULTS, /, *, runs: str = RUNS) -> None:
    """Show the results of ctree reproduce, and make a page of them all; or make the page of a single run anew.

    results: the folder with result files, which gets tables as Markdown and report.html; or the folder of a run
    runs: the folder of the runs, for their learning curves
    """
    folder = folder_named("results", results)
    if (folder / CONFIG).is_file():
        say(console(), f"report: {write_run_report(folder, beside(settings_of(results)))}")
        return
    tables = [table for table in TABLES.values() if any((folder / table.task).glob("*/*.json"))]
    if not tables:
        raise TrainingError(f"{folder}: no results here; expected those of 'ctree reproduce', or the folder of a run")
    found = {table.task: _report(table, folder) for table in tables}
    say(console(), f"as a page: {write_page(found, folder, folder_named('runs', runs))}")


def _report(table: Table, folder: Path) -> Results:
    path, found = write_report(table, folder)
    grid = _grid(comparison(table, found), table.title)
    terminal = console(grid)
    terminal.print(grid)
    for line in failures(found):
        say(terminal, f"failed: {line}")
    say(terminal, f"{standing(table, found)}; all of it: {path}")
    return found


def _grid(lines: Lines, title: str) -> Grid:
    header, *rows = lines
    grid = Grid(title=title, box=box.SIMPLE_HEAD)
    for n, name in enumerate(header):
        grid.add_column(name, justify="left" if n < 2 else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*map(Text, row))
    return grid


# --- what was asked for -----------------------------------------------------------------------------------------------


def _table(name: str | None) -> Table:
    if name not in TABLES:
        raise TrainingError(f"table: got {'nothing' if name is None else shown(name)}; expected {' or '.join(TABLES)}")
    return TABLES[name]


def _rows(table: Table, given: str | None) -> list[Row]:
    """By their names or by what these are called in folders."""
    return _some("rows", given, {row.slug: row for row in table.own})


def _some(flag: str, given: str | None, known: dict[str, T]) -> list[T]:
    """What was named, with commas between; all of them where nothing was."""
    if given is None:
        return list(known.values())
    names = dict.fromkeys(slug(part) for part in given.split(","))
    for name in names:
        if name not in known:
            raise TrainingError(f"{flag}: got {shown(given)}; expected some of {', '.join(known)}")
    return [known[name] for name in names]


def folder_named(flag: str, name: str) -> Path:
    """The folder that a flag names."""
    if not name:
        raise TrainingError(f"{flag}: got nothing; expected a folder")
    return place(name)


def parse_time(text: str) -> float:
    """``90``, ``90s``, ``20m`` or ``1.5h`` → seconds."""
    found = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smh]?)\s*", text, re.ASCII)
    if not found:
        raise TrainingError(f"budget: got {shown(text)}; expected a time such as 90s, 20m or 1.5h")
    return float(found[1]) * UNITS[found[2]]


def _check_workers(at_once: int | None, ray: str | None, gpus_each: float | None) -> None:
    """Each place where runs go has a flag of its own for how many."""
    if at_once is not None:
        check_whole("at-once", at_once, 1)
        if ray is not None:
            raise TrainingError(f"at-once: got {at_once} with --ray; expected --gpus-each with it")
    if gpus_each is not None and ray is None:
        raise TrainingError(f"gpus-each: got {gpus_each:g}; expected --ray ADDRESS with it")


def _list(tables: Sequence[Table]) -> None:
    grid = Grid("table", "row", "for --rows", "presets", box=None, header_style="bold", pad_edge=False)
    for table in tables:
        for row in table.own:
            grid.add_row(table.task, row.name, row.slug, "\n".join(row.presets.values()))
    terminal = console(grid)
    terminal.print(grid)
    for table in tables:
        say(terminal, f"splits of {table.task}: {', '.join(table.splits)}; {table.seeds} seeds")
