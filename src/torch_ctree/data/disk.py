"""Files that are either whole or not there."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from torch_ctree.data.errors import DataError


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name only once it is complete; after an error nothing of it is left.

    Missing folders are made. What stood under the name before stays there until the new file is whole and on the disk.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as aside:
            try:
                yield aside
                aside.flush()
                os.fsync(aside.fileno())
                os.chmod(aside.name, 0o666 & ~_umask())
                os.replace(aside.name, path)
            except BaseException:
                os.unlink(aside.name)
                raise
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error


def check_place(path: Path) -> None:
    """Whether a file can be there, before what it takes long to make is made."""
    if path.is_dir():
        raise DataError(f"{path}: cannot be written: it is a folder")
    folder = next(folder for folder in path.absolute().parents if folder.exists())
    if not folder.is_dir():
        raise DataError(f"{path}: cannot be written: {folder} is no folder")


def write(path: Path, content: str | bytes) -> None:
    """Write a whole file at once, in UTF-8."""
    with whole(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def read_json(path: Path) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not a whole JSON file ({error}); save it again") from error


def finite(value: Any) -> Any:
    """With null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def copy(source: Path, path: Path) -> Path:
    """Copy a file, whole or not at all → the copy."""
    write(path, source.read_bytes())
    return path


def _umask() -> int:
    """The permissions a new file does not get; temporary files ignore it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
