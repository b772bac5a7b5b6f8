"""Result files: one for each run, whole or not there."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch_ctree.data.disk import finite, read_json, write
from torch_ctree.data.errors import DataError, shown
from torch_ctree.experiments.tables import Row, Table

Result = dict[str, Any]
"""What a file holds: ``KEYS``, then ``metrics`` or, of a run that failed, ``error``, and more about the run."""
KEYS = {
    "task": str,
    "row": str,
    "split": str,
    "seed": int,
    "command": str,
    "commit": str,
    "hardware": (str, type(None)),
    "seconds": (int, float),
    "settings": dict,
}
WHOLE = {"epochs": int, "at_once": int}
"""What a run that did not fail says besides."""
MORE = {"date": str, "versions": dict, "examples": dict}
"""What it may say."""
METRICS = {
    "pairs": int,
    "exact_match": (int, float),
    "first_word": (int, float),
    "token_accuracy": (int, float),
    "loss": (int, float, type(None)),
    "tree_f1": (int, float, type(None)),
    "by_length": dict,
}
"""Of each set."""


@dataclass(frozen=True)
class Entry:
    """A run of a table."""

    table: Table
    row: Row
    split: str
    seed: int

    @property
    def place(self) -> Path:
        """Of its files, below the folder of all."""
        return Path(self.table.task, self.row.slug, f"{self.split}-{self.seed}")

    def path(self, results: Path) -> Path:
        """Of its result file."""
        return results / self.place.parent / f"{self.place.name}.json"


def write_result(path: Path, result: Result) -> None:
    """Write one."""
    write(path, json.dumps(finite(result), indent=1, ensure_ascii=False) + "\n")


def read_result(path: Path) -> Result:
    """Read one, and see that it is one."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise DataError(f"{path}: got {shown(found)}; expected the result of a run")
    _check(path, found, KEYS)
    if isinstance(found.get("error"), str):
        return found
    if not isinstance(found.get("metrics"), dict):
        raise DataError(f"{path}: neither metrics nor an error; expected the result of a run")
    _check(path, found, WHOLE)
    _check(path, found, {key: kind for key, kind in MORE.items() if key in found})
    _check(path, found["metrics"], METRICS)
    return found


def _check(path: Path, found: Any, kinds: Mapping[str, Any]) -> None:
    """Whether all that pages show of it is there."""
    if not isinstance(found, dict):
        raise DataError(f"{path}: got {shown(found)}; expected the metrics of a set")
    for key, kind in kinds.items():
        value = found.get(key)
        if key not in found or not isinstance(value, kind) or isinstance(value, bool):
            raise DataError(f"{path}: {key!r} is {shown(value)}; expected the result of a run")


def done(results: Iterable[Result]) -> list[Result]:
    """Those that did not fail."""
    return [result for result in results if "error" not in result]


def read_results(table: Table, results: Path) -> dict[tuple[str, str], list[Result]]:
    """(Row, split) → the results of its runs, by seed; the folder is searched."""
    places = {(row.name, split): row for row in table.own for split in row.presets}
    found: dict[tuple[str, str], list[Result]] = {}
    for path in sorted((results / table.task).glob("*/*.json")):
        result = read_result(path)
        where = (result["row"], result["split"])
        if where not in places or Entry(table, places[where], where[1], result["seed"]).path(results) != path:
            raise DataError(
                f"{path}: says row {where[0]!r}, split {where[1]!r}, seed {result['seed']}; its place is another"
            )
        for name in filter(None, dict.fromkeys(column.metric[:-1] for column in table.columns)):
            if "error" not in result:
                _check(path, result["metrics"].get(*name), METRICS)
        for column in table.columns:
            if "error" not in result and column.split == result["split"]:
                *inner, metric = column.metric
                of_set = result["metrics"][inner[0]] if inner else result["metrics"]
                _check(path, of_set, {metric: (int, float)})
        found.setdefault(where, []).append(result)
    return {where: sorted(some, key=lambda result: result["seed"]) for where, some in found.items()}
