"""What must hold of any page: it is well formed, and needs nothing from elsewhere."""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"meta", "br"}
FOREIGN = {"script", "link", "iframe", "object", "embed", "base", "img", "form"}


class Page(HTMLParser):
    """Reads a page, and refuses what is not well formed or comes from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()
        assert not self.open
        styles = " ".join(re.findall(r"<style.*?</style>", text, re.DOTALL))
        assert "@import" not in styles
        assert not re.search(r"url\((?!#)", text)
        ids = [given["id"] for _, given in self.elements if "id" in given]
        assert len(ids) == len(set(ids))
        assert {given["href"] for _, given in self.elements if "href" in given} <= {f"#{name}" for name in ids}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in FOREIGN
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        for name, value in attrs:
            assert not name.startswith("on")
            assert name not in ("src", "srcset", "action")
            assert not name.endswith("href") or (value or "").startswith("#")
        self.elements.append((tag, {name.split(":")[-1]: value for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def said(self) -> str:
        """Its text, with single blanks."""
        return " ".join(" ".join(self.words).split())

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)
