"""Pages in a real Chromium, the one that CTREE_BROWSER names; without it these tests are left out."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Request

BROWSER = os.environ.get("CTREE_BROWSER")
SCREENSHOTS = os.environ.get("CTREE_SCREENSHOTS")
"""A folder for them."""
ROOT = Path(__file__).parents[2]
DESKTOP = {"viewport": (("width", 1280), ("height", 860))}
PHONE = {"viewport": (("width", 390), ("height", 844)), "device_scale_factor": 2, "is_mobile": True, "has_touch": True}

if not BROWSER:
    collect_ignore_glob = ["test_*.py"]


class Server:
    """A program that says when it serves pages on some ports."""

    def __init__(self, *command: str) -> None:
        env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        arguments = [sys.executable, "-m", *command]
        self.process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT)
        self.said = ""

    def wait_for(self, address: str) -> str:
        assert self.process.stdout is not None
        while address not in self.said:
            line = self.process.stdout.readline()
            assert line, "it ended"
            self.said += line
        return address

    def stop(self) -> None:
        with self.process:
            if "http" not in self.said:  # nobody asked for its pages, which may not be there yet
                self.process.kill()
                return
            self.process.send_signal(signal.SIGINT)  # Ctrl-C is how one ends it
            assert self.process.wait(timeout=30) == 0


def free_ports(count: int) -> list[str]:
    """All different, because none is given back before all are found."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in sockets]


@pytest.fixture(scope="session")
def beginner(tmp_path_factory) -> Path:
    """The folder of a run that has learned for a short time; it is there when a page shows it."""
    return tmp_path_factory.mktemp("runs") / "beginner"


@pytest.fixture(scope="session")
def address(beginner) -> Iterator[Callable[[str], str]]:
    """Where a page is; all are made at once, and one that is asked for is waited for."""
    one, several, shipped, both = free_ports(4)
    fakes = Server("tests.browser.serving", one, several)
    example = Server("torch_ctree", "view", "example", "--port", shipped)
    beside = Server("tests.browser.learning", str(beginner), both)
    at = {"one": (fakes, one), "two": (fakes, several), "shipped": (example, shipped), "both": (beside, both)}
    yield lambda name: at[name][0].wait_for(f"http://127.0.0.1:{at[name][1]}/")
    for server in (fakes, example, beside):
        server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        args = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=BROWSER, args=args)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def context(browser) -> Callable[..., BrowserContext]:
    """Of a person with a kind of screen; it stays, so that Gradio's files are fetched once."""
    return cache(lambda person, **options: browser.new_context(**{**options, "viewport": dict(options["viewport"])}))


class Visitor:
    """Someone with a window of their own, who notes what goes wrong."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.complaints: list[str] = []
        self.address, self.context = address, context
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("request", self._check)
        self.page.on("response", lambda answer: self.complaints.append(answer.url) if answer.status >= 400 else None)
        self.page.goto(address)
        self.source.wait_for()

    def _check(self, request: Request) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.complaints.append(f"asked elsewhere: {request.url}")

    @property
    def source(self) -> Locator:
        return self.page.get_by_role("textbox", name="Source")

    @property
    def target(self) -> Locator:
        return self.page.get_by_role("textbox", name="Target")

    def answer(self, n: int = 0) -> Locator:
        """What is seen in a column."""
        return self.page.locator(".block.ctree-column").nth(n).locator(".answer:visible")

    def vertex(self, path: str, n: int = 0) -> Locator:
        return self.answer(n).locator(f'g.vertex[data-path="{path}"]')

    def press(self, path: str, n: int = 0) -> None:
        """Click a vertex: what takes clicks, because a line to it belongs to it too."""
        self.vertex(path, n).locator(".hit").click()

    def drawing(self, n: int = 0) -> Locator:
        """The words and numbers in a tree."""
        return self.answer(n).locator("svg.ctree-tree text")

    def panel(self, n: int = 0) -> Locator:
        return self.answer(n).locator(".panel:visible")

    def note(self, n: int = 0) -> Locator:
        return self.page.locator(".block.ctree-column").nth(n).locator(".note")

    def button(self, name: str, n: int = 0) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True).nth(n)

    def choose(self, name: str) -> None:
        self.page.get_by_label(name, exact=True).check()

    def saved(self, name: str, n: int = 0) -> tuple[str, str]:
        """(the name of the file, what is in it): of a column."""
        with self.page.expect_download() as waiting:
            self.answer(n).get_by_role("button", name=name, exact=True).click()
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_text()

    def picture(self, name: str) -> None:
        """What is seen now, for the documentation."""
        if not SCREENSHOTS:
            return
        from PIL import Image  # noqa: PLC0415

        self.page.wait_for_timeout(300)  # for what fades in
        seen = Image.open(BytesIO(self.page.screenshot()))
        path = Path(SCREENSHOTS) / f"explorer-{name}.png"
        seen.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


@pytest.fixture
def visit(context, address):
    """Opens a page of a server; when all is done nothing may have gone wrong on it."""
    visitors = []

    def open_page(server: str = "one", size: Any = DESKTOP, person: str = "me", **options: Any) -> Visitor:
        visitors.append(Visitor(context(person, **size, **options), address(server)))
        return visitors[-1]

    yield open_page
    for visitor in visitors:
        visitor.page.close()
        assert visitor.complaints == []
