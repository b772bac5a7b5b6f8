"""Sentences per second of every row of Table 3, one source at a time and many at once.

    python benchmarks/translation.py [--runs runs/reproduce] [--seed 0] [--batch-size 1 128] [--sources 500]
        [--root FOLDER] [--device cuda]

Takes the runs that ``ctree reproduce multi30k`` has left, those that are there, with the searches of their settings,
and answers the first sources of test 2016: from text to text, alone on the machine. Writes
benchmarks/results/translation-DEVICE.json and .md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from torch_ctree import Seq2Seq
from torch_ctree.circumstances import circumstances, keep
from torch_ctree.cli.runs import open_model, settings_of
from torch_ctree.evaluation import answer_all
from torch_ctree.experiments import TABLES
from torch_ctree.experiments.results import Entry
from torch_ctree.models.pretrained import WEIGHTS

ROOT = Path(__file__).resolve().parent.parent
TABLE = TABLES["multi30k"]
REPEATS = 3


def speed(model: Seq2Seq, sources: list[str], batch_size: int) -> float:
    """Sentences per second; the median of some times, after one that does not count."""
    seconds = []
    for _ in range(1 + REPEATS):
        start = time.perf_counter()
        answer_all(model, sources, batch_size=batch_size)  # text: the device has done all of it
        seconds.append(time.perf_counter() - start)
    return len(sources) / statistics.median(seconds[1:])


def measured(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Of each row and split that has a run."""
    found = []
    for row in TABLE.own:
        for split in TABLE.splits:
            folder = given.runs / Entry(TABLE, row, split, given.seed).place
            if not (folder / WEIGHTS).exists():
                continue
            model = open_model(str(folder), given.device)
            sources = list(islice(settings_of(str(folder), given.root).data.load().test.sources(), given.sources))
            search = {name: getattr(model.config, name) for name in ("search", "beam", "length_penalty")}
            speeds = {str(size): speed(model, sources, size) for size in given.batch_size}
            found.append(
                {"row": row.name, "split": split, "parameters": model.parameter_count, **search, "a_second": speeds}
            )
    return found


def markdown(results: dict[str, Any]) -> str:
    """As a table."""
    sizes = [str(size) for size in results["batch_sizes"]]
    where = f"commit {results['commit']}, {results['hardware']}, torch {results['versions']['torch']}"
    lines = [
        f"`{results['command']}`, {where}",
        "",
        f"Sentences per second, from text to text: the first {results['sources']:,} sources of test 2016.",
        "",
        f"| model | split | parameters | search | {' | '.join(f'{size} at a time' for size in sizes)} |",
        "|---|---|--:|---|" + len(sizes) * "--:|",
    ]
    for row in results["rows"]:
        speeds = " | ".join(f"{row['a_second'][size]:,.0f}" for size in sizes)
        search = row["search"] if row["beam"] == 1 else f"{row['search']}, beam {row['beam']}"
        lines.append(f"| {row['row']} | {row['split']} | {row['parameters']:,} | {search} | {speeds} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/reproduce"), help="as in ctree reproduce")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch-size", type=int, nargs="+", default=[1, 128])
    parser.add_argument("--sources", type=int, default=500)
    parser.add_argument("--root", help="the folder with data files, by default as in training")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--commit", help="what to record as the commit, where the sources are not a git checkout")
    given = parser.parse_args()
    results = circumstances(torch.device(given.device), given.commit)
    for place, name in ((str(given.runs), "RUNS"), (given.root, "FOLDER")):  # where it was is nobody's business
        results["command"] = results["command"].replace(place or name, name)
    rows = measured(given)
    if not rows:
        raise SystemExit(f"{given.runs}: no runs of ctree reproduce multi30k with seed {given.seed}")
    results |= {"sources": given.sources, "batch_sizes": given.batch_size, "rows": rows}
    path = ROOT / "benchmarks" / "results" / f"translation-{given.device}.json"
    keep(path, results, markdown(results))
    Console(width=120).print(markdown(results), markup=False, highlight=False)


if __name__ == "__main__":
    main()
