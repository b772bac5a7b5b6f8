"""The page itself, made of Gradio's parts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock
from typing import Any

import gradio as gr
from gradio.state_holder import SessionState, StateHolder
from gradio.themes import Base

from torch_ctree.data.errors import DataError, in_one_line
from torch_ctree.viewing.explorer.answers import Answers
from torch_ctree.viewing.explorer.asking import (
    ANSWERS,
    LAST_SEED,
    MARKS,
    SAMPLES,
    SHOWS,
    START,
    TREES,
    Question,
    Show,
    ask,
)
from torch_ctree.viewing.explorer.examples import examples
from torch_ctree.viewing.explorer.proxies import without_proxy
from torch_ctree.viewing.report.page import joined, tag

HERE = Path(__file__).parent
FONT, FIXED = ("system-ui", "sans-serif"), ("ui-monospace", "monospace")
"""The reader's own: nothing is fetched from elsewhere."""
READABLE = {"body_text_color_subdued": "*neutral_600", "body_text_color_subdued_dark": "*neutral_300"}
"""Gradio's own are too faint."""
AT_ONCE: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
"""For events: Gradio's queue would be slower, and count them."""


def page(models: Sequence[Answers], k: int) -> gr.Blocks:
    """A page with a column for one model, or two of them for several.

    Each event brings all that is typed and chosen with it, and what is shown depends on that alone.

    k: how many answers or trees, at most
    """
    by_name, one_at_a_time = {model.name: model for model in models}, Lock()
    with gr.Blocks(title="ctree view", analytics_enabled=False) as blocks:
        gr.HTML(_heading(models), apply_default_css=False)
        with gr.Row():
            source, target = _field("Source", autofocus=True), _field("Target (optional)", elem_id="ctree-target")
        shelf = gr.HTML(
            examples(models[:2]), js_on_load=_script("fields"), apply_default_css=False, elem_classes="ctree-examples"
        )
        with gr.Row(elem_classes="ctree-choices"):
            show = gr.Radio(SHOWS, value=ANSWERS, label="Show", container=False)
            marks = gr.CheckboxGroup(list(MARKS), label="In the tree", container=False)
        with gr.Row(visible=False, elem_classes="ctree-samples") as samples:
            seed = gr.Number(0, label="Seed", precision=0, min_width=110)
            another = gr.Button("Sample another", size="sm", min_width=140)
        with gr.Row():
            names, columns = zip(*(_column(list(by_name), n) for n in range(min(2, len(models)))), strict=True)
        chosen = [name for name in names if name is not None]
        meant = gr.Textbox(visible="hidden")  # source and target as they were when Enter was pressed
        fields = [source, target, show, marks, seed, meant, *chosen]

        def answered(*given: Any) -> dict[Any, str]:
            question, is_typing = Question.typed(*given[:5]), given[5] != _as_meant(*given[:2])
            asked = [by_name[name] for name in given[6:]] or models
            with one_at_a_time:
                answers = [ask(model, question.so_far(model) if is_typing else question, k) for model in asked]
            return dict(zip(columns, map(str, answers), strict=False))

        # One event for all of it: the answers of several could come in another order than they were asked for.
        changes = [field.change for field in fields]
        gr.on(changes, answered, fields, columns, trigger_mode="always_last", **AT_ONCE)
        entered = [source.submit, target.submit]
        gr.on(entered, _as_meant, [source, target], meant, trigger_mode="always_last", **AT_ONCE)
        shelf.aim(_aimed, [target, show], show, trigger_mode="always_last", **AT_ONCE)
        show.change(lambda show: gr.Row(visible=show == SAMPLES), show, samples, **AT_ONCE)
        another.click(_next, seed, seed, **AT_ONCE)
        shelf.pick(_picked, None, [source, target, meant], trigger_mode="always_last", **AT_ONCE)
        if chosen:
            gr.on(
                [name.change for name in chosen],
                lambda *names: str(examples([by_name[name] for name in dict.fromkeys(names)])),
                chosen,
                shelf,
                **AT_ONCE,
            )
    return blocks


def serve(models: Sequence[Answers], k: int, host: str, port: int | None, tell: Callable[[str], None]) -> None:
    """Show the page to whoever asks, until Ctrl-C.

    port: None: the first one that is free from 7860 on
    tell: is told the address
    """
    blocks = page(models, k)
    try:
        address = _launched(blocks, host, port)
    except Exception as error:  # of many kinds: of sockets, of the address, of Gradio
        raise DataError(f"page: cannot be served at {host}: {in_one_line(error)}") from error
    with suppress(KeyboardInterrupt):  # whoever has been told may end it at once
        tell(address)
        Event().wait()
    blocks.close(verbose=False)


def _launched(blocks: gr.Blocks, host: str, port: int | None) -> str:
    """Serve a page → its address."""
    theme = Base(primary_hue="teal", secondary_hue="teal", neutral_hue="slate", font=FONT, font_mono=FIXED)
    with without_proxy():
        app, address, _ = blocks.launch(
            server_name=f"[{host}]" if ":" in host else host,
            server_port=port,
            theme=theme.set(**READABLE),
            css_paths=HERE / "page.css",
            prevent_thread_lock=True,
            quiet=True,
            share=False,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            run_history=False,
            enable_monitoring=False,
            footer_links=[],
            max_file_size=1,  # nothing on the page takes a file
        )
    app.state_holder = Forgetful()
    app.state_holder.set_blocks(blocks)
    return address


class Forgetful(StateHolder):
    """Gradio keeps what a visitor typed last. Nothing here needs that, and it would stay when the visitor has gone."""

    def __getitem__(self, session_id: str) -> SessionState:
        """As if it were the first visit."""
        return SessionState(self.blocks)

    def __contains__(self, session_id: str) -> bool:
        """Nobody has been here."""
        return False


def _heading(models: Sequence[Answers]) -> str:
    names = joined(*(tag("code", model.name) for model in models[:1])) if len(models) == 1 else f"{len(models)} models"
    about = (
        "Type a sentence. Click what is in the tree of its answer, or go through it with the arrow keys. "
        "Nothing that is typed is kept."
    )
    return tag("header", tag("h1", "ctree view ", tag("small", names)), tag("p", about), class_="ctree-heading")


def _field(label: str, **options: Any) -> gr.Textbox:
    plain = gr.InputHTMLAttributes(autocomplete="off", autocapitalize="off", autocorrect="off", spellcheck=False)
    return gr.Textbox(label=label, max_lines=1, min_width=300, html_attributes=plain, **options)


def _column(names: Sequence[str], n: int) -> tuple[gr.Dropdown | None, gr.HTML]:
    """Where a model is chosen, if there are several, and what it says."""
    kind = "ctree-column" if names[1:] else "ctree-column ctree-alone"
    with gr.Column(min_width=320):
        name = gr.Dropdown(list(names), value=names[n], label=f"Model {n + 1}", filterable=False) if names[1:] else None
        return name, gr.HTML(str(START), js_on_load=_script("page"), apply_default_css=False, elem_classes=kind)


def _script(name: str) -> str:
    return (HERE / f"{name}.js").read_text(encoding="utf-8")


def _aimed(target: str | None, show: Show) -> Show:
    """Who types a target wants to see its trees; who clears it does not."""
    if target and target.strip():
        return TREES
    return ANSWERS if show == TREES else show


def _as_meant(source: str, target: str) -> str:
    """Both as one text, to compare with what is in the fields later."""
    return json.dumps([source, target])


def _next(seed: float | None) -> int:
    seed = int(seed or 0) + 1
    return seed if 0 <= seed <= LAST_SEED else 0


def _picked(event: gr.EventData) -> tuple[str, str, str]:
    return event.source, event.expected, _as_meant(event.source, event.expected)
