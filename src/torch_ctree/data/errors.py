"""Bad data, said in one line."""

from __future__ import annotations

from pathlib import Path


class DataError(ValueError):
    """What is wrong, where, and how to mend it, in one line that can be shown to a user as it is."""


def bad_line(path: Path, line: int, what: str) -> DataError:
    """The error for one line of a file; lines count from 1."""
    return DataError(f"{path}, line {line}: {what}")
