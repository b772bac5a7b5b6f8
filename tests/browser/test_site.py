"""The documentation, as ``make docs`` builds it, from disk and from a server."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .conftest import DESKTOP, PHONE, ROOT

PAGES = sorted(
    path.relative_to(ROOT / "docs") for path in (ROOT / "docs").glob("**/*.md") if path.parent.name != "pieces"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def served(site) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def read(context):
    """Opens a page; when all is done nothing may have gone wrong on it, or have come from elsewhere."""
    complaints, pages = [], []

    def open_page(address: str, size=DESKTOP):
        page = context("reader", **size).new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: complaints.append(request.url) if is_elsewhere(request.url) else None)
        page.goto(address)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert complaints == []


def is_elsewhere(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:"))


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_page_fits_a_phone(read, site, page):
    seen = read((site / page.with_suffix(".html")).as_uri(), PHONE)
    assert seen.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"][0][1]
    assert seen.locator("article h1").count() == 1
    assert seen.evaluate("[...document.images].filter((image) => image.complete && !image.naturalWidth).length") == 0


def test_the_first_page_has_a_tree(read, site):
    words = read((site / "index.html").as_uri()).locator("svg.ctree-tree text").all_text_contents()
    assert words == ["I_JUMP", "I_TURN_LEFT", "I_WALK", "I_TURN_LEFT", "I_WALK"]


@pytest.mark.parametrize("where", ["disk", "server"])
def test_one_gets_around(read, site, served, where):
    page = read({"disk": site.as_uri(), "server": served}[where] + "/tutorials/encoder.html")
    page.get_by_role("link", name="Quick start").first.click()
    page.get_by_role("heading", name="Quick start", level=1).wait_for()
    page.get_by_role("textbox", name="Search").fill("entropy")
    page.locator(".md-search-result__item").first.wait_for()
    page.locator(".md-search-result__item a", has_text="The algorithm in pictures").first.click()
    page.get_by_role("heading", name="The algorithm in pictures", level=1).wait_for()
