"""Downloads that are checked, whole or not there, and that continue where they stopped."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from torch_ctree.data.errors import DataError

TIMEOUT = 30.0  # seconds without a byte
PATIENCE = 2.0  # seconds before progress is shown where nobody may be watching
CHUNK = 1 << 16


class DownloadError(DataError):
    """A file could not be had from its server. Local trouble, such as a full disk, is a plain ``DataError``."""


def digest(content: Path | bytes) -> str:
    """The SHA-256 of a file or of bytes, in hexadecimal.

    >>> digest(b"")[:12]
    'e3b0c44298fc'
    """
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    try:
        with content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{content}: cannot be read: {error.strerror or error}") from error


def fetch(url: str, path: Path, sha256: str, *, label: str | None = None) -> None:
    """Download one file, unless it is already there and right.

    What has arrived waits in ``<path>.part`` until it is complete and its checksum is right; only then does it take its
    name. A later call continues there, whatever ended the first: a broken connection, a signal, a crash.

    url: where the file is, http or https.
    path: the name it gets; missing folders are made.
    sha256: its checksum, in hexadecimal.
    label: what the progress bar calls it; the file's name unless given.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        if path.is_file() and digest(path) == sha256:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        resumed = _continue(url, part, label or path.name)
        got = digest(part)
        if resumed and got != sha256:  # the first piece may be of another file, or too long
            part.unlink()
            _continue(url, part, label or path.name)
            got = digest(part)
        if got != sha256:
            part.unlink()
            raise DownloadError(
                f"{url}: SHA-256 is {got[:12]}…, expected {sha256[:12]}…; the file was damaged on its way or is "
                "another one by now: try again, or get it from elsewhere"
            )
        os.replace(part, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error


def _continue(url: str, part: Path, label: str) -> bool:
    """Download what the part lacks → whether what it had was kept."""
    start = part.stat().st_size if part.exists() else 0
    response = _request(url, start)
    if response is None:
        return True
    with response:
        resumed = start > 0 and response.status == HTTPStatus.PARTIAL_CONTENT
        if not resumed:
            start = 0
        size = None if response.length is None else start + response.length
        with part.open("ab" if resumed else "wb") as file, _progress(label, start, size) as show:
            for chunk in _chunks(url, response, start, size):
                file.write(chunk)
                show(file.tell())
            file.flush()
            os.fsync(file.fileno())
    return resumed


def _request(url: str, start: int) -> HTTPResponse | None:
    """The server's answer from this byte on, or None where it has nothing from there on."""
    request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        return urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if start and error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return None
        raise DownloadError(f"{url}: the server answers {error.code} {_one_line(error.reason)}".rstrip()) from error
    except (OSError, HTTPException) as error:
        raise DownloadError(f"{url}: cannot be reached: {_reason(error)}") from error


def _chunks(url: str, response: HTTPResponse, arrived: int, size: int | None) -> Iterator[bytes]:
    """The body as it arrives. A server that does not say the size may end it anywhere; the checksum tells."""
    try:
        while arrived != size and (chunk := response.read1(CHUNK)):
            yield chunk
            arrived += len(chunk)
    except (OSError, HTTPException) as error:
        raise _stopped(url, arrived, _reason(error)) from error
    if size is not None and arrived < size:
        raise _stopped(url, arrived, f"expected {size:,}: the connection broke")


def _stopped(url: str, arrived: int, why: str) -> DownloadError:
    return DownloadError(f"{url}: stopped after {arrived:,} bytes ({why}); call again to continue where it stopped")


@contextmanager
def _progress(label: str, start: int, size: int | None) -> Iterator[Callable[[int], None]]:
    """What to tell how many bytes there are. A terminal shows the bar at once, anything else only if it takes long."""
    from rich import progress  # noqa: PLC0415  (slow to import, and only needed here)
    from rich.console import Console  # noqa: PLC0415

    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    bar = progress.Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(label, total=size, completed=start)
    begun = time.monotonic()

    def show(arrived: int) -> None:
        if sys.stderr.isatty() or time.monotonic() - begun > PATIENCE:
            bar.start()
        bar.update(task, completed=arrived)

    try:
        yield show
    finally:
        if bar.live.is_started:  # stop writes an empty line otherwise
            bar.stop()


def _reason(error: Exception) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
    return _one_line(text) or type(cause).__name__


def _one_line(text: object) -> str:
    return " ".join(str(text).split())
