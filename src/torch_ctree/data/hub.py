"""Sentence pairs from a data set of the Hugging Face Hub."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch_ctree.data.errors import DataError, shown
from torch_ctree.data.files import is_text, named
from torch_ctree.data.pairs import Pairs
from torch_ctree.data.task import SETS

PREFIX = "hf:"
NAMES = {alias: name for name, aliases in SETS.items() for alias in aliases}


def read(name: str, columns: tuple[str, str]) -> dict[str, Pairs]:
    """The sets of a data set, by name.

    name: ``owner/name``, or ``owner/name:configuration``; a folder on this machine works too
    columns: where the source and the target are, directly or, as is the habit for translations, in ``translation``
    """
    try:
        import datasets  # noqa: PLC0415  (an optional extra)
    except ImportError:
        raise DataError(f"{PREFIX}{name}: needs the datasets library; pip install 'torch-ctree[hub]'") from None
    path, _, configuration = name.partition(":")
    if not path:
        raise DataError(f"{PREFIX}{name}: no name; expected {PREFIX}owner/name")
    try:
        with _quiet("huggingface_hub"):  # its retries, a line each; the error says enough
            sets = datasets.load_dataset(path, configuration or None)
    except Exception as error:  # whatever a download can run into
        reason = " ".join(str(error).split())
        raise DataError(f"{PREFIX}{name}: cannot be loaded: {reason or type(error).__name__}") from error
    if not isinstance(sets, Mapping):
        raise DataError(f"{PREFIX}{name}: got {type(sets).__name__}; expected a data set with named sets")
    by_name = {NAMES.get(str(key), str(key)): rows for key, rows in sets.items()}
    if len(by_name) < len(sets):
        raise DataError(
            f"{PREFIX}{name}: has {', '.join(map(str, sets))}; expected one set for each of {', '.join(SETS)}"
        )
    return {key: Pairs.of(_pairs(name, key, rows, columns)) for key, rows in by_name.items()}


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _pairs(name: str, key: str, rows: Any, columns: tuple[str, str]) -> Iterator[tuple[str, str]]:
    for n, row in enumerate(rows, 1):
        found = row["translation"] if columns[0] not in row and isinstance(row.get("translation"), dict) else row
        for column in columns:
            if column not in found:
                raise DataError(f"{PREFIX}{name}: no column {column!r}; it has {named(found)}. Say which with columns")
            if not is_text(found[column]):
                raise DataError(f"{PREFIX}{name}, {key}, row {n}: {column!r} is {shown(found[column])}; expected text")
        yield found[columns[0]], found[columns[1]]
