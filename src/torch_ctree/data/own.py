"""Your own sentence pairs: a file, two parallel ones, a folder, or a data set of the Hub."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch_ctree.data import hub
from torch_ctree.data.errors import DataError, place
from torch_ctree.data.files import COLUMNS, is_jsonl, read_pairs, read_parallel
from torch_ctree.data.pairs import Pairs
from torch_ctree.data.task import SETS

SUFFIXES = (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz")
SIDES = tuple((f".{a}{gz}", f".{b}{gz}") for a, b in (("source", "target"), ("src", "tgt")) for gz in ("", ".gz"))

Columns = tuple[str, str] | None


def is_place(name: str) -> bool:
    """Whether a name can be one of your own pairs rather than a task's."""
    return name.startswith(hub.PREFIX) or "," in name or place(name).exists()


def read_sets(name: str, columns: str | tuple[str, str] | None) -> dict[str, Pairs]:
    """The sets that are given; a single file is one to train on."""
    two = two_columns(columns)
    if name.startswith(hub.PREFIX):
        return hub.read(name.removeprefix(hub.PREFIX), two or COLUMNS)
    folder = place(name)
    if not folder.is_dir():
        return {"train": read_file(name, columns)}
    found = {key: _in_folder(folder, stems) for key, stems in SETS.items()}
    if found["train"] is None:
        raise DataError(f"{name}: no training set; expected train.tsv, train.jsonl, or train.source and train.target")
    return {key: _read(files, two) for key, files in found.items() if files is not None}


def read_file(name: str, columns: str | tuple[str, str] | None) -> Pairs:
    """The pairs of a file, or of two parallel ones with a comma between their names."""
    two = two_columns(columns)
    if place(name).exists():
        return _read((place(name),), two)
    halves = [(name[:n].strip(), name[n + 1 :].strip()) for n, letter in enumerate(name) if letter == ","]
    both = [(place(a), place(b)) for a, b in halves if a and b]
    there = [pair for pair in both if pair[0].exists() and pair[1].exists()]
    if there or len(both) == 1:
        return _read((there or both)[0], two)
    raise DataError(f"{name}: no such file; expected one, or two parallel ones with a comma between them")


def two_columns(columns: str | tuple[str, str] | None) -> Columns:
    """``"de,en"`` → ("de", "en")."""
    if columns is None:
        return None
    names = [name.strip() for name in columns.split(",")] if isinstance(columns, str) else list(columns)
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise DataError(f"columns: got {columns!r}; expected two names, such as 'de,en'")
    return names[0], names[1]


def _in_folder(folder: Path, stems: Sequence[str]) -> tuple[Path, ...] | None:
    """The file, or the two parallel ones, of a set."""
    choices = [(folder / f"{stem}{suffix}",) for stem in stems for suffix in SUFFIXES]
    choices += [(folder / f"{stem}{a}", folder / f"{stem}{b}") for stem in stems for a, b in SIDES]
    found = [files for files in choices if any(file.exists() for file in files)]
    if len(found) > 1:
        names = ", ".join(file.name for files in found for file in files)
        raise DataError(f"{folder}: has {names}; expected one of them")
    return found[0] if found else None


def _read(files: tuple[Path, ...], columns: Columns) -> Pairs:
    if columns is not None and (len(files) == 2 or not is_jsonl(files[0])):
        raise DataError(f"{files[0]}: takes no columns, which are for JSON lines and Hub data sets; leave them out")
    return read_parallel(*files) if len(files) == 2 else read_pairs(files[0], columns or COLUMNS)
