import io
import os
import random
import signal
import socket
import struct
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from torch_ctree.data import downloads
from torch_ctree.data.downloads import DownloadError, digest, fetch
from torch_ctree.data.errors import DataError

CONTENT = random.Random(0).randbytes(300_001)
HALF = len(CONTENT) // 2
SHA256 = digest(CONTENT)


class Handler(BaseHTTPRequestHandler):
    server: "Server"  # type: ignore[assignment]

    def do_GET(self):
        self.server.ranges.append(self.headers["Range"])
        self.server.answer(self)

    def reply(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format, *args):
        pass


class Server(ThreadingHTTPServer):
    """Serves one file at every address, in the way of the function ``answer``, and remembers the ranges asked for."""

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.ranges = []
        self.over = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/file"

    def handle_error(self, request, client_address):
        pass  # the client went away


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    servers = []

    def start(answer):
        server = Server(answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return server

    yield start
    for server in servers:
        server.over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "file.gz"


def part_of(path):
    return path.with_name("file.gz.part")


def write_part(path, content):
    path.parent.mkdir()
    part_of(path).write_bytes(content)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def whole(handler, content=CONTENT):
    handler.reply(200, content, Content_Length=len(content))


def ranges(handler, content=CONTENT):
    start = int((handler.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
    if start >= len(content):
        handler.reply(416, b"", Content_Range=f"bytes */{len(content)}")
    elif start:
        span = f"bytes {start}-{len(content) - 1}/{len(content)}"
        handler.reply(206, content[start:], Content_Length=len(content) - start, Content_Range=span)
    else:
        whole(handler, content)


def wrong(handler):
    ranges(handler, CONTENT[::-1])


def half(handler):
    handler.reply(200, CONTENT[:HALF], Content_Length=len(CONTENT))


def half_then_silence(handler):
    half(handler)
    silence(handler)


def silence(handler):
    handler.server.over.wait(10)


def garbage(handler):
    handler.wfile.write(b"this is not HTTP\r\n\r\n")


def without_size(handler):
    handler.reply(200, CONTENT)


def in_chunks(handler):
    body = b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in (CONTENT[:HALF], CONTENT[HALF:], b""))
    handler.reply(200, body, Transfer_Encoding="chunked")


def half_the_chunks(handler):
    handler.reply(200, b"%x\r\n%b\r\n" % (HALF, CONTENT[:HALF]), Transfer_Encoding="chunked")


def wait_for_bytes(part):
    deadline = time.monotonic() + 10
    while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)


def message_of(error):
    message = str(error.value)
    assert "\n" not in message
    return message


def test_digest(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert digest(b"abc") == digest(tmp_path / "abc") == expected


def test_digest_of_no_file(tmp_path):
    with pytest.raises(DataError, match=r"absent: cannot be read: No such file or directory"):
        digest(tmp_path / "absent")


@pytest.mark.parametrize("answer", [whole, ranges, without_size, in_chunks])
def test_a_whole_file(serve, path, answer):
    server = serve(answer)
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert names_in(path.parent) == ["file.gz"]
    assert server.ranges == [None]


def test_an_empty_file(serve, path):
    fetch(serve(lambda handler: whole(handler, b"")).url, path, digest(b""))
    assert path.read_bytes() == b""


def test_usual_permissions(serve, path):
    mask = os.umask(0o027)
    try:
        fetch(serve(whole).url, path, SHA256)
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o640


def test_what_is_there_is_not_fetched_again(serve, path):
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    server = serve(whole)
    fetch(server.url, path, SHA256)
    assert server.ranges == []


def test_what_is_there_and_wrong_is_replaced(serve, path):
    path.parent.mkdir()
    path.write_bytes(b"old")
    fetch(serve(whole).url, path, SHA256)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("answer", [half, wrong, garbage])
def test_what_is_there_stays_after_an_error(serve, path, answer):
    path.parent.mkdir()
    path.write_bytes(b"old")
    with pytest.raises(DownloadError):
        fetch(serve(answer).url, path, SHA256)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("n", [1, HALF, len(CONTENT) - 1])
def test_continues(serve, path, n):
    write_part(path, CONTENT[:n])
    server = serve(ranges)
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert names_in(path.parent) == ["file.gz"]
    assert server.ranges == [f"bytes={n}-"]


def test_starts_over_where_the_server_cannot_continue(serve, path):
    write_part(path, CONTENT[:HALF])
    server = serve(whole)
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [f"bytes={HALF}-"]


def test_an_empty_part_asks_for_everything(serve, path):
    write_part(path, b"")
    server = serve(ranges)
    fetch(server.url, path, SHA256)
    assert server.ranges == [None]


def test_a_complete_part_is_taken(serve, path):
    write_part(path, CONTENT)
    server = serve(ranges)
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [f"bytes={len(CONTENT)}-"]


@pytest.mark.parametrize("part", [CONTENT + b"more", CONTENT[::-1], b"other"], ids=["too long", "complete", "short"])
def test_a_wrong_part_is_dropped(serve, path, part):
    write_part(path, part)
    server = serve(ranges)
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert names_in(path.parent) == ["file.gz"]
    assert server.ranges == [f"bytes={len(part)}-", None]


def test_wrong_bytes(serve, path):
    server = serve(wrong)
    with pytest.raises(DownloadError) as error:
        fetch(server.url, path, SHA256)
    message = message_of(error)
    got = digest(CONTENT[::-1])
    assert message.startswith(f"{server.url}: SHA-256 is {got[:12]}…, expected {SHA256[:12]}…;")
    assert "try again" in message
    assert names_in(path.parent) == []
    assert server.ranges == [None]


def test_wrong_bytes_after_a_part(serve, path):
    write_part(path, CONTENT[:HALF])
    server = serve(wrong)
    with pytest.raises(DownloadError, match="SHA-256 is"):
        fetch(server.url, path, SHA256)
    assert names_in(path.parent) == []
    assert server.ranges == [f"bytes={HALF}-", None]


def test_wrong_bytes_from_the_start_are_not_asked_for_twice(serve, path):
    write_part(path, CONTENT[:HALF])
    server = serve(lambda handler: whole(handler, CONTENT[::-1]))
    with pytest.raises(DownloadError, match="SHA-256 is"):
        fetch(server.url, path, SHA256)
    assert names_in(path.parent) == []
    assert server.ranges == [f"bytes={HALF}-"]


@pytest.mark.parametrize("answer", [half, half_the_chunks])
def test_a_broken_connection(serve, path, answer):
    server = serve(answer)
    with pytest.raises(DownloadError) as error:
        fetch(server.url, path, SHA256)
    message = message_of(error)
    assert message.startswith(f"{server.url}: stopped after 150,000 bytes (")
    assert message.endswith("; call again to continue where it stopped")
    assert names_in(path.parent) == ["file.gz.part"]
    assert part_of(path).read_bytes() == CONTENT[:HALF]
    server.answer = ranges
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={HALF}-"]


def test_a_broken_connection_says_what_was_expected(serve, path):
    with pytest.raises(DownloadError, match=r"150,000 bytes \(expected 300,001: the connection broke\)"):
        fetch(serve(half).url, path, SHA256)


def test_broken_twice(serve, path):
    def a_piece(handler):
        start = int((handler.headers["Range"] or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        status = 206 if start else 200
        handler.reply(status, CONTENT[start : start + 100_000], Content_Length=len(CONTENT) - start)

    server = serve(a_piece)
    for arrived in ("100,000", "200,000", "300,000"):
        with pytest.raises(DownloadError, match=f"stopped after {arrived} bytes"):
            fetch(server.url, path, SHA256)
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=200000-", "bytes=300000-"]


def test_a_reset_connection(serve, path):
    def half_then_reset(handler):
        half(handler)
        wait_for_bytes(part_of(path))
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()

    server = serve(half_then_reset)
    with pytest.raises(DownloadError, match=r"stopped after .* bytes \(.*\); call again to continue where it stopped"):
        fetch(server.url, path, SHA256)
    assert CONTENT.startswith(part_of(path).read_bytes())
    server.answer = ranges
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT


def test_silence_in_the_middle(serve, path, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT", 0.5)
    with pytest.raises(DownloadError, match=r"stopped after 150,000 bytes \(timed out\); call again"):
        fetch(serve(half_then_silence).url, path, SHA256)
    assert part_of(path).read_bytes() == CONTENT[:HALF]


def test_silence_after_the_last_byte(serve, path, monkeypatch):
    def whole_then_silence(handler):
        whole(handler)
        silence(handler)

    monkeypatch.setattr(downloads, "TIMEOUT", 0.5)
    fetch(serve(whole_then_silence).url, path, SHA256)
    assert path.read_bytes() == CONTENT


def test_silence(serve, path, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT", 0.5)
    server = serve(silence)
    with pytest.raises(DownloadError) as error:
        fetch(server.url, path, SHA256)
    assert message_of(error) == f"{server.url}: cannot be reached: timed out"
    assert names_in(path.parent) == []


@pytest.mark.parametrize(("status", "reason"), [(404, "Not Found"), (503, "Service Unavailable")])
def test_an_http_error(serve, path, status, reason):
    write_part(path, CONTENT[:HALF])
    server = serve(lambda handler: handler.reply(status, b"no"))
    with pytest.raises(DownloadError) as error:
        fetch(server.url, path, SHA256)
    assert message_of(error) == f"{server.url}: the server answers {status} {reason}"
    assert part_of(path).read_bytes() == CONTENT[:HALF]
    assert not path.exists()


def test_no_range_was_asked_for_and_yet_it_is_not_satisfiable(serve, path):
    with pytest.raises(DownloadError, match="the server answers 416"):
        fetch(serve(lambda handler: handler.reply(416, b"")).url, path, SHA256)


def test_an_answer_that_is_not_http(serve, path):
    server = serve(garbage)
    with pytest.raises(DownloadError) as error:
        fetch(server.url, path, SHA256)
    assert message_of(error) == f"{server.url}: cannot be reached: this is not HTTP"


def test_a_closed_port(path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
    with pytest.raises(DownloadError) as error:
        fetch(url, path, SHA256)
    assert message_of(error) == f"{url}: cannot be reached: Connection refused"
    assert names_in(path.parent) == []


def test_an_interrupt_keeps_the_part(serve, path):
    main = threading.get_ident()

    def half_then_interrupt(handler):
        half(handler)
        wait_for_bytes(part_of(path))
        signal.pthread_kill(main, signal.SIGINT)
        silence(handler)

    server = serve(half_then_interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fetch(server.url, path, SHA256)
    finally:
        signal.signal(signal.SIGINT, before)
    assert names_in(path.parent) == ["file.gz.part"]
    arrived = part_of(path).read_bytes()
    assert arrived
    assert CONTENT.startswith(arrived)
    server.answer = ranges
    fetch(server.url, path, SHA256)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={len(arrived)}-"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(serve, path):
    path.parent.mkdir()
    part_of(path).symlink_to("/dev/full")
    with pytest.raises(DataError) as error:
        fetch(serve(whole).url, path, SHA256)
    assert message_of(error) == f"{path}: cannot be written: No space left on device"
    assert not isinstance(error.value, DownloadError)
    assert not path.exists()


def test_a_file_where_a_folder_should_be(serve, path):
    path.parent.write_text("in the way")
    server = serve(whole)
    with pytest.raises(DataError) as error:
        fetch(server.url, path, SHA256)
    assert message_of(error) == f"{path}: cannot be written: File exists"
    assert server.ranges == []


def test_a_folder_where_the_file_should_be(serve, path):
    path.mkdir(parents=True)
    with pytest.raises(DataError, match=r"file\.gz: cannot be written: Is a directory"):
        fetch(serve(whole).url, path, SHA256)


def test_quiet_when_quick(serve, path, capfd):
    fetch(serve(whole).url, path, SHA256)
    assert capfd.readouterr() == ("", "")


def test_progress_when_it_takes_long(serve, path, capfd, monkeypatch):
    monkeypatch.setattr(downloads, "PATIENCE", -1)
    monkeypatch.setenv("COLUMNS", "120")
    fetch(serve(whole).url, path, SHA256, label="the [long] file")
    out, err = capfd.readouterr()
    assert out == ""
    assert "the [long] file" in err
    assert "300.0/300.0 kB" in err


@pytest.mark.parametrize("label", [None, "a label"])
def test_progress_on_a_terminal(serve, path, monkeypatch, label):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    fetch(serve(whole).url, path, SHA256, label=label)
    assert (label or "file.gz") in sys.stderr.getvalue()  # type: ignore[attr-defined]


def test_progress_ends_with_an_error(serve, path, capfd, monkeypatch):
    monkeypatch.setattr(downloads, "PATIENCE", -1)
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(DownloadError):
        fetch(serve(half).url, path, SHA256)
    assert "150.0/300.0 kB" in capfd.readouterr().err
    for thread in threading.enumerate():
        if type(thread).__module__.startswith("rich"):
            thread.join(10)
            assert not thread.is_alive()
