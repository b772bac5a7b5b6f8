"""What launching a page does, in a process of its own: Gradio leaves open what Python then warns of."""

from __future__ import annotations

import os
from typing import Any

import gradio as gr
import pytest
from gradio.routes import App

from torch_ctree.data import DataError
from torch_ctree.viewing.explorer import page

from .fake import Fake

SECRET = "what nobody else should read"


class Launched:
    """A page that is made, and all that launching is told, but not served."""

    def __init__(self) -> None:
        self.blocks, self.told = page.page([Fake()], 1), {}
        self.blocks.launch = self.launch  # pyright: ignore[reportAttributeAccessIssue]

    def launch(self, **options: Any) -> tuple[App, str, None]:
        self.told = options | {"proxies": os.environ["NO_PROXY"]}
        return App.create_app(self.blocks), "http://here/", None


def nothing_that_is_typed_is_kept() -> None:
    made = Launched()
    assert page._launched(made.blocks, "127.0.0.1", None) == "http://here/"
    holder = made.blocks.state_holder
    field = next(key for key, block in made.blocks.blocks.items() if isinstance(block, gr.Textbox))
    holder["me"]._update_value_in_config(field, SECRET)
    assert SECRET not in str(holder["me"].config_values)
    assert not holder.session_data


def no_proxy_is_asked() -> None:
    os.environ["NO_PROXY"] = "example.org"
    os.environ.pop("no_proxy", None)
    made = Launched()
    page._launched(made.blocks, "::1", None)
    assert (made.told["proxies"], made.told["server_name"]) == ("*", "[::1]")
    assert os.environ["NO_PROXY"] == "example.org"
    assert "no_proxy" not in os.environ


def what_keeps_it_from_being_served_is_one_line() -> None:
    def fail(*_: Any) -> str:
        raise OSError("Cannot find empty port\nin range")

    page._launched = fail
    with pytest.raises(DataError, match=r"^page: cannot be served at here: Cannot find empty port in range$"):
        page.serve([Fake()], 1, "here", None, print)


if __name__ == "__main__":
    nothing_that_is_typed_is_kept()
    no_proxy_is_asked()
    what_keeps_it_from_being_served_is_one_line()
