"""``ctree bench``: how fast it is on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from torch_ctree.cli.console import console, say
from torch_ctree.cli.reproduce import folder_named
from torch_ctree.data.errors import check_whole, place
from torch_ctree.experiments.sweep import Plan
from torch_ctree.training import TrainingError


def bench(
    *,
    only: str | None = None,
    row: bool = False,
    precision: str = "32-true",
    seeds: int = 10,
    root: str | None = None,
    results: str | None = None,
    json: str | None = None,
    commit: str | None = None,
) -> None:
    """Measure how fast inference, training and evaluation are on this machine: on its GPU, or else on its CPU.

    only: some of the figures, by their keys with commas between them, such as likelihood,step
    row: instead, train and test a whole row of the paper's Table 1, four splits with ten seeds each, as ctree reproduce
        does it: minutes on a GPU
    precision: of the row's runs: 32-true, which multiplies in TF32 on a GPU, 32-exact, which does not, or bf16-mixed
    seeds: how many runs go at once, and how many a row has for each split, in place of ten
    root: the folder with SCAN's files; without them, SCAN is made by its grammar
    results: with --row, a folder to keep its result files in, as ctree reproduce has them; none may be there already
    json: a file to write all details to, and beside it the tables as Markdown
    commit: what to record as the commit, where the sources are not a git checkout
    """
    from torch_ctree.benchmarking.inference import SEED  # noqa: PLC0415
    from torch_ctree.benchmarking.row import row_jobs, timed_row  # noqa: PLC0415
    from torch_ctree.benchmarking.table import Setting, chosen, markdown, measured  # noqa: PLC0415
    from torch_ctree.benchmarking.training import settings  # noqa: PLC0415
    from torch_ctree.circumstances import circumstances, keep  # noqa: PLC0415

    check_whole("seeds", seeds, 1)
    if results is not None and not row:
        raise TrainingError(f"results: got {results!r}; expected --row with it")
    settings(0, root, precision=precision)  # which says what is wrong before hours are spent
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    terminal = console()
    try:
        figures = chosen(only, device)
    except ValueError as error:
        raise TrainingError(str(error)) from error
    setting = Setting(device, root, seeds, lambda line: say(terminal, line))
    found: dict[str, Any] = circumstances(device, commit) | {"seed": SEED, "figures": []}

    def write() -> None:
        if json is not None:
            keep(place(json), found, markdown(found))

    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "results") if results is None else folder_named("results", results)
        plan = Plan(kept, Path(folder, "runs"), root, found["command"], found["commit"], precision=precision)
        jobs = row_jobs(seeds, plan) if row else []
        for figure in figures if not row or only else []:
            with terminal.status(f"measuring: {figure.what}"):
                found["figures"].append(measured(figure, setting))
            say(terminal, _line(found["figures"][-1]))
            write()
        if jobs:
            found["row"] = timed_row(jobs, seeds, terminal)
            write()
    _show(found)


def _show(found: dict[str, Any]) -> None:
    """As tables."""
    if found["figures"]:
        table = _table(found)
        console(table).print(table)
    if "row" in found:
        table = _row_table(found["row"])
        console(table).print(table)
        say(console(), f"{len(found['row']['runs'])} runs in {found['row']['value']:.1f} minutes")


def _line(found: dict[str, Any]) -> str:
    from torch_ctree.benchmarking.table import shown  # noqa: PLC0415

    return f"{found['what']}: {found.get('error') or shown(found['value'], found['unit'])}"


def _table(results: dict[str, Any]) -> Table:
    from torch_ctree.benchmarking.table import cells  # noqa: PLC0415

    title = f"{results['hardware']}, torch {results['versions']['torch']}"
    table = Table("what", "here", "the paper's code on an H200", "aim on an H200", title=title)
    for found in results["figures"]:
        table.add_row(*cells(found))
    return table


def _row_table(row: dict[str, Any]) -> Table:
    from torch_ctree.benchmarking.table import by_split  # noqa: PLC0415

    table = Table("split", "mean", "test exact match, each seed", title="OM-CTree + LA")
    for line in by_split(row):
        table.add_row(*line)
    return table
