"""What a model answered, one line a sentence."""

from __future__ import annotations

import gzip
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from torch_ctree.data.disk import finite, whole
from torch_ctree.data.errors import DataError, bad_line, place, shown
from torch_ctree.data.files import lines, named, read_bytes


@dataclass(frozen=True)
class Prediction:
    """The answer to one source, next to what was expected."""

    set: str
    """The set that the pair comes from, such as ``"test"``."""
    row: int
    """Which pair of the set, from 0."""
    source: str
    target: str
    """The reference."""
    output: str
    """The answer."""
    log_prob: float
    """Of the output given the source, as in ``Answer``; not a number where a file has none."""
    tree: str | None = None
    """The tree of the output as brackets on one line."""
    target_log_prob: float | None = None
    """log p(target | source), over all trees."""
    target_tree: str | None = None
    """The best tree of the target given the source, as brackets on one line; of a grammar, the consensus."""


def write_predictions(path: str | Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions as JSON lines, gzipped where the name ends in .gz; the file is whole or not there.

    JSON has no infinities: what is not a finite number becomes null.
    """
    path, line = place(path), 0
    is_packed = path.suffix.lower() == ".gz"  # the reader goes by the name
    with (
        whole(path) as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=0) if is_packed else nullcontext(file) as content,
    ):
        for line, prediction in enumerate(predictions, 1):
            row = finite(asdict(prediction))
            _check_values(row, path, line)  # so that what is written can be read
            content.write((json.dumps(row, ensure_ascii=False) + "\n").encode())
        if not line:
            raise DataError(f"{path}: no predictions; expected one or more to write")


def read_predictions(path: str | Path) -> list[Prediction]:
    """The predictions that ``write_predictions`` wrote: null is not a number, or None where a field may be left out."""
    path = place(path)
    text = read_bytes(path)
    if not text:
        raise DataError(f"{path}: the file is empty; expected a prediction a line")
    starts, ends = lines(text, path, whole_last_line=False)  # half an object is bad JSON anyway
    return [_prediction(text[a:b], path, n) for n, (a, b) in enumerate(zip(starts, ends, strict=True), 1)]


def _prediction(content: bytes, path: Path, line: int) -> Prediction:
    row = _object(content, path, line)
    if missing := [name for name in _NEEDED if name not in row]:
        raise bad_line(path, line, f"has no {missing[0]!r}; it has {named(row)}. Expected a prediction")
    if strange := [name for name in row if name not in _EXPECTED]:
        raise bad_line(path, line, f"has {named(strange)}; expected nothing but {', '.join(_EXPECTED)}")
    _check_values(row, path, line)
    if row["log_prob"] is None:
        row["log_prob"] = math.nan
    for name in ("log_prob", "target_log_prob"):
        if row.get(name) is not None:
            row[name] = float(row[name])  # 0 may be written for 0.0
    return Prediction(**row)


def _object(content: bytes, path: Path, line: int) -> dict[str, Any]:
    try:
        row = json.loads(content)
    except json.JSONDecodeError as error:
        what = f"not JSON ({error.msg}, column {error.colno}); expected one object a line"
        raise bad_line(path, line, what) from error
    except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
        raise bad_line(path, line, "JSON that goes on too long; expected one object a line") from error
    if not isinstance(row, dict):
        raise bad_line(path, line, f"{type(row).__name__}; expected an object with {', '.join(_NEEDED)}")
    return row


def _check_values(row: Mapping[str, Any], path: Path, line: int) -> None:
    for name, value in row.items():
        is_right, what = _EXPECTED[name]
        if not is_right(value):
            raise bad_line(path, line, f"{name!r} is {shown(value)}; expected {what}")


def _is_text(value: Any) -> bool:
    """An answer may be empty; half a surrogate, which UTF-8 cannot spell, is none."""
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)


def _is_text_or_null(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_row(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number_or_null(value: Any) -> bool:
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


_TEXT = (_is_text, "text")
_TEXT_OR_NULL = (_is_text_or_null, "text or null")
_NUMBER_OR_NULL = (_is_number_or_null, "a finite number or null")
_EXPECTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "set": _TEXT,
    "row": (_is_row, "a whole number, 0 or more"),
    "source": _TEXT,
    "target": _TEXT,
    "output": _TEXT,
    "log_prob": _NUMBER_OR_NULL,
    "tree": _TEXT_OR_NULL,
    "target_log_prob": _NUMBER_OR_NULL,
    "target_tree": _TEXT_OR_NULL,
}
_NEEDED = [field.name for field in fields(Prediction) if field.default is MISSING]
