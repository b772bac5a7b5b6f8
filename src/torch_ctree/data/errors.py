"""Bad data, said in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path


class DataError(ValueError):
    """What is wrong, where, and how to mend it, in one line that can be shown to a user as it is."""


def bad_line(path: Path, line: int, what: str) -> DataError:
    """The error for one line of a file; lines count from 1."""
    return DataError(f"{path}, line {line}: {what}")


def shown(value: object, most: int = 60) -> str:
    """A value as a message quotes it, long ones cut."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def count(n: int, noun: str) -> str:
    """``1 line``, ``2 lines``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def in_one_line(error: BaseException | str, most: int = 400) -> str:
    """What a library says, in one line that is not too long."""
    line = " ".join(str(error).split()) or type(error).__name__
    return line if len(line) <= most else line[: most - 1] + "…"


@contextmanager
def told() -> Iterator[None]:
    """What the system says of a file becomes one line: a folder that may not be read, a name that is too long."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{error.filename or 'a file'}: {error.strerror or error}") from error


def place(name: str | Path) -> Path:
    """A path as the user wrote it, with ~ for the home folder."""
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise DataError(f"{name}: {error}") from error


def check_whole(name: str, value: object, least: int) -> None:
    """An argument that must be a whole number."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        raise DataError(f"{name}: got {shown(value)}; expected a whole number, {least} or more")
