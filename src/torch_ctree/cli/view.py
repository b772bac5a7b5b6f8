"""``ctree view``: trained models in a browser."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

import torch

from torch_ctree.cli.console import console, say
from torch_ctree.cli.memory import is_out_of_memory, within_memory
from torch_ctree.cli.runs import check_count, open_model
from torch_ctree.data import DataError, Encoder
from torch_ctree.data.errors import shown
from torch_ctree.evaluation import Prediction, read_predictions
from torch_ctree.models import ModelError, Seq2Seq
from torch_ctree.models.explaining import Explained, Parsed, explain, explain_samples, explain_target
from torch_ctree.models.pretrained import EXAMPLE, folder_of
from torch_ctree.viewing.explorer.proxies import without_proxy

MOST = 20
"""Answers to one source, at most: all of them are in the page, and drawn."""
WORDS, WORDS_OF_PHRASES = 100, 30
"""Of a source or a target, at most; and where every phrase of the source is read, which takes far longer."""


def view(
    runs: Sequence[str] = (),
    /,
    *,
    topk: int = 5,
    host: str = "127.0.0.1",
    port: int | None = None,
    device: str = "auto",
) -> None:
    """Show what models answer, and with which trees, on a page in the browser.

    runs: the folders of runs, or hf:owner/name on the Hugging Face Hub; of several, two are seen side by side (default:
        the model that ships)
    topk: how many answers to move through
    host: where the page is served; 0.0.0.0 lets other machines see it
    port: where the page is served (default: the first that is free from 7860 on)
    device: cpu, cuda, …
    """
    check_count("topk", topk, MOST)
    _check_place(host, port)
    try:
        with without_proxy():
            from torch_ctree.viewing.explorer.asking import warm  # noqa: PLC0415
            from torch_ctree.viewing.explorer.page import serve  # noqa: PLC0415  (Gradio is large, or not there)
    except ModuleNotFoundError as error:
        if error.name != "gradio":
            raise
        raise ModelError("view needs gradio: pip install 'torch-ctree[view]'") from None
    chosen = list(dict.fromkeys(runs or [EXAMPLE]))
    models = [Run(run, name, open_model(run, device)) for run, name in zip(chosen, _names(chosen), strict=True)]
    torch.set_num_threads(1)  # for one sentence, threads that wait for one another take longer than one alone
    terminal = console()
    with terminal.status("warming up"):
        for model in models:
            model.examples()  # what is wrong with their file is said now
            warm(model, topk)
    serve(
        models, topk, host, port or None, lambda address: say(terminal, f"open {address} in a browser; Ctrl-C ends it")
    )


@contextmanager
def _asked() -> Iterator[None]:
    """What is too much for the memory is told in one line."""
    try:
        with within_memory():
            yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise ModelError("out of memory; try fewer words") from error


class Run:
    """A trained model, as the page asks it."""

    def __init__(self, run: str, name: str, model: Seq2Seq) -> None:
        self.name, self._run, self._model = name, run, model

    @property
    def source(self) -> Encoder:
        """The words of sources."""
        return self._model.source

    @property
    def target(self) -> Encoder:
        """The words of targets."""
        return self._model.target

    @property
    def most_words(self) -> int:
        """Of a source or a target."""
        return WORDS_OF_PHRASES if self._model.decoder.needs_phrases else WORDS

    def answers(self, source: str, k: int) -> list[Explained]:
        """The k best answers."""
        with _asked():
            return explain(self._model, source, k)

    def sample(self, source: str, seed: int) -> Explained:
        """An answer drawn at random."""
        with _asked():
            return explain_samples(self._model, source, 1, seed)[0]

    def parse(self, source: str, target: str, k: int) -> Parsed:
        """The k best trees of a target."""
        with _asked():
            return explain_target(self._model, source, target, k)

    def examples(self) -> Sequence[Prediction]:
        """What ``ctree evaluate`` wrote of it."""
        return self._predictions

    @cached_property
    def _predictions(self) -> list[Prediction]:
        path = folder_of(self._run) / "predictions.jsonl"
        try:
            return read_predictions(path)
        except DataError:
            if path.exists():
                raise
            return []


def _check_place(host: str, port: int | None) -> None:
    """Whether a page can be served there; Gradio would say it late, and in many lines."""
    try:
        (family, kind, _, _, (address, _, *more)), *_ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        with socket.socket(family, kind) as there:
            there.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that has just ended is no hindrance
            there.bind((address, port or 0, *more))
    except (OSError, OverflowError, UnicodeError) as error:
        where = f"host: got {shown(host)}" if port is None else f"host and port: got {shown(host)} and {port}"
        why = getattr(error, "strerror", None) or error
        raise ModelError(f"{where}: {why}; expected an address of this machine, and a port that is free") from error


def _names(runs: Sequence[str]) -> list[str]:
    """The names of the folders; where two have the same one, whole paths."""
    names = [Path(run).name or run for run in runs]
    return names if len(set(names)) == len(names) else list(runs)
