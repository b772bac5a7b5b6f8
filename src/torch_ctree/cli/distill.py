"""``ctree distill``: what a trained model answers to the sources it was trained on, for another one to learn from."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from torch_ctree.cli.console import console, say
from torch_ctree.cli.runs import check_count, open_model, settings_of
from torch_ctree.data import Pairs
from torch_ctree.data.disk import check_place
from torch_ctree.data.distilling import DISTILLED
from torch_ctree.data.errors import count, place
from torch_ctree.data.files import is_jsonl
from torch_ctree.evaluation.teaching import Taught, write_answers
from torch_ctree.models import ModelError, Seq2Seq
from torch_ctree.models.configuration import Search
from torch_ctree.models.pretrained import SHIPPED, folder_of


def distill(
    run: str,
    /,
    *,
    out: str | None = None,
    batch_size: int = 100,
    depth: int | None = None,
    search: Search | None = None,
    candidates: int | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    root: str | None = None,
    device: str = "auto",
) -> None:
    """Write a trained model's answers to its training sources; another learns from them with --data.distilled.

    run: the folder of the teacher's run
    out: the file to write, whose name ends in .jsonl (default: distilled.jsonl in the run's folder)
    batch_size: sentences at a time
    depth: of the tree, which may be another than in training
    search: which answer is given: tree, sentence or risk (default: what the model has; so are the next three)
    candidates: of the searches sentence and risk: how many derivations, or how wide a beam, to choose from
    beam: of a sequential decoder
    length_penalty: how much longer answers are preferred, by a tree or a beam, and by sentence and risk
    root: the folder with data files (default: as in training)
    device: cpu, cuda, …
    """
    check_count("batch-size", batch_size)
    path = _path(run, out)
    check_place(path)
    model = open_model(run, device).with_search(search, candidates, beam, length_penalty)
    train = settings_of(run, root).data.load().train
    found = _write(model, train, path, batch_size, depth)
    terminal = console()
    say(terminal, f"{count(found.answers, 'answer')}, {found.same / found.answers:.2%} of them the true target")
    if found.kept:
        say(terminal, f"{count(found.kept, 'source')} without an answer: the true target stands in its place")
    say(terminal, f"to learn from them: --data.distilled {path}")


def _path(run: str, out: str | None) -> Path:
    """Where to write; what cannot be is said before anything is computed."""
    if out is not None:
        if not is_jsonl(path := place(out)) or path.suffix == ".gz":
            raise ModelError(f"out: got {out!r}; expected a file whose name ends in .jsonl")
        return path
    if (folder := folder_of(run)) == SHIPPED:
        raise ModelError(f"{run} ships with torch-ctree and is left as it is: say where to write with --out")
    return folder / DISTILLED


def _write(model: Seq2Seq, train: Pairs, path: Path, batch_size: int, depth: int | None) -> Taught:
    """With a bar."""
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        line = bar.add_task("answering", total=len(train))
        return write_answers(model, train, path, batch_size=batch_size, depth=depth, tell=partial(bar.advance, line))
