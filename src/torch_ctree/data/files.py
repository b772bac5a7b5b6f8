"""Sentence pairs from files: tab-separated, two parallel files, JSON lines; each plain or gzipped.

A file is read once, checked whole, and kept as it is: reading needs little more memory than the text. A bad line is
named with its number.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from torch_ctree.data.disk import whole
from torch_ctree.data.errors import DataError, bad_line, count, shown
from torch_ctree.data.pairs import Integers, Pairs

COLUMNS = ("source", "target")
WHITE = sorted({chr(n).encode()[0] for n in range(0x3001) if chr(n).isspace()})
"""The first bytes of white space in UTF-8; other characters begin with some of them too."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK = 1 << 20  # bytes looked at together: what is made along the way stays small


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked where its name ends in .gz."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if path.suffix.lower() != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not a whole gzip file ({error}); get it again") from error


def folder_with(root: Path, name: str, contents: Iterable[str]) -> Path:
    """The folder that holds some of these: the one of that name in root, or root itself."""
    return root if _has(root, contents) and not _has(root / name, contents) else root / name


def _has(folder: Path, contents: Iterable[str]) -> bool:
    return any((folder / content).exists() for content in contents)


def read_pairs(path: Path, columns: tuple[str, str] = COLUMNS) -> Pairs:
    """The pairs of one file: JSON lines where its name says .jsonl, tab-separated otherwise."""
    return read_jsonl(path, columns) if is_jsonl(path) else read_tsv(path)


def is_jsonl(path: Path) -> bool:
    """Whether a file is one of JSON lines, by its name; gzipped or not."""
    return path.name.lower().removesuffix(".gz").endswith(".jsonl")


def read_tsv(path: Path) -> Pairs:
    """One pair a line: the source, one tab, the target."""
    text = read_bytes(path)
    starts, ends = lines(text, path)
    tabs = _positions(text, b"\t")
    columns = 1 + np.bincount(np.searchsorted(ends, tabs), minlength=len(starts))
    if (columns != 2).any():
        line = int(np.argmax(columns != 2))
        if starts[line] == ends[line]:
            raise bad_line(path, line + 1, "is empty; delete it, or write a source, a tab and a target")
        raise bad_line(
            path,
            line + 1,
            f"{count(columns[line], 'column')}; expected 2, a source and a target with one tab between them",
        )
    bounds = np.stack([starts, tabs, tabs + 1, ends], axis=1)
    for side, name in enumerate(COLUMNS):
        _no_empty_side(text, bounds[:, 2 * side], bounds[:, 2 * side + 1], path, name, "delete the line")
    return Pairs(text, text, bounds)


def read_parallel(sources: Path, targets: Path) -> Pairs:
    """Line n of one file belongs to line n of the other."""
    texts, bounds = [], []
    for path, name in zip((sources, targets), COLUMNS, strict=True):
        text = read_bytes(path)
        starts, ends = lines(text, path)
        _no_empty_side(text, starts, ends, path, name, "delete this line in both files")
        texts.append(text)
        bounds += [starts, ends]
    if len(bounds[0]) != len(bounds[2]):
        raise DataError(
            f"{sources} has {count(len(bounds[0]), 'line')} and {targets} {len(bounds[2]):,}; "
            "expected line n of one to belong to line n of the other"
        )
    return Pairs(texts[0], texts[1], np.stack(bounds, axis=1))


def read_jsonl(path: Path, columns: tuple[str, str] = COLUMNS) -> Pairs:
    """One JSON object a line, with the source and the target under these two names."""
    text = read_bytes(path)
    starts, ends = lines(text, path, whole_last_line=False)  # half an object is bad JSON anyway
    return Pairs.of(
        _json_pair(text[a:b], path, n, columns) for n, (a, b) in enumerate(zip(starts, ends, strict=True), 1)
    )


def write_jsonl(path: Path, pairs: Iterable[tuple[str, str]]) -> None:
    """Write pairs for ``read_jsonl``; the file is whole or not there."""
    with whole(path) as file:
        for pair in pairs:
            file.write((json.dumps(dict(zip(COLUMNS, pair, strict=True)), ensure_ascii=False) + "\n").encode())


def _json_pair(content: bytes, path: Path, line: int, columns: tuple[str, str]) -> tuple[str, str]:
    try:
        row = json.loads(content)
    except json.JSONDecodeError as error:
        what = f"not JSON ({error.msg}, column {error.colno}); expected one object a line"
        raise bad_line(path, line, what) from error
    except RecursionError as error:
        raise bad_line(path, line, "JSON in too many brackets; expected one object a line") from error
    if not isinstance(row, dict):
        raise bad_line(path, line, f"{type(row).__name__}; expected an object with {columns[0]!r} and {columns[1]!r}")
    for column in columns:
        if column not in row:
            raise bad_line(path, line, f"has no {column!r}; it has {named(row)}. Say which to read with columns")
        if not is_text(row[column]):
            raise bad_line(path, line, f"{column!r} is {shown(row[column])}; expected text")
    return row[columns[0]], row[columns[1]]


def named(columns: Iterable[str]) -> str:
    """The names of columns, the first few of many."""
    names = [shown(name, 30) for name in columns]
    return (", ".join(names[:8]) + (", …" if len(names) > 8 else "")) or "nothing"


def is_text(value: object) -> bool:
    """Whether something is a string with more than white space, which UTF-8 can spell: half a surrogate it cannot."""
    return isinstance(value, str) and bool(value.strip()) and not re.search("[\ud800-\udfff]", value)


def lines(text: bytes, path: Path, whole_last_line: bool = True) -> tuple[Integers, Integers]:
    """Where each line of UTF-8 text starts and ends, without its line break.

    whole_last_line: whether a last line without a line break is an error: it may have been cut off, and nothing would
        tell
    """
    _check_utf8(text, path)
    ends = _positions(text, b"\n")
    if text and not text.endswith(b"\n"):
        if whole_last_line:
            raise bad_line(path, len(ends) + 1, _unfinished(text))
        ends = np.append(ends, len(text))
    if not len(ends):
        raise DataError(f"{path}: the file is empty; expected a pair a line")
    starts = np.concatenate([[0], ends[:-1] + 1])
    if text.startswith(BYTE_ORDER_MARK):
        starts[0] = len(BYTE_ORDER_MARK)
    if b"\r" in text:  # line breaks of Windows
        ends = ends - (np.frombuffer(text, np.uint8)[np.maximum(ends - 1, 0)] == ord("\r"))
    return starts, np.maximum(starts, ends)


def _unfinished(text: bytes) -> str:
    if b"\n" not in text and b"\r" in text:
        return "the lines end in carriage returns alone; save the file with line breaks of Unix or Windows"
    return "the file ends in the middle of this line; get it again, or, if it is complete, add the last line break"


def _check_utf8(text: bytes, path: Path) -> None:
    """Decoded a chunk at a time, so that no second copy of the text is held."""
    if (at := text.find(b"\0")) >= 0:
        raise bad_line(path, text.count(b"\n", 0, at) + 1, "a NUL byte, so not text in UTF-8; save the file as UTF-8")
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + CHUNK) + 1 or len(text)
        try:
            text[start:end].decode()
        except UnicodeDecodeError as error:
            at = start + error.start
            message = f"byte {text[at]:#04x} is not UTF-8; save the file as UTF-8"
            raise bad_line(path, text.count(b"\n", 0, at) + 1, message) from None
        start = end


def _positions(text: bytes, byte: bytes) -> Integers:
    """Where a byte stands."""
    characters = np.frombuffer(text, np.uint8)
    starts = range(0, len(text), CHUNK)
    found = [start + np.flatnonzero(characters[start : start + CHUNK] == ord(byte)) for start in starts]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _no_empty_side(text: bytes, starts: Integers, ends: Integers, path: Path, name: str, cure: str) -> None:
    characters = np.frombuffer(text, np.uint8)
    first = characters[np.minimum(starts, len(text) - 1)]
    suspects = np.flatnonzero((starts == ends) | np.isin(first, WHITE))  # the only ones worth a closer look
    for line in suspects.tolist():
        if not text[starts[line] : ends[line]].decode().strip():
            raise bad_line(path, line + 1, f"the {name} is empty; fill it in, or {cure}")
