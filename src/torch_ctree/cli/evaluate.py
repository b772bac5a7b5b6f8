"""``ctree evaluate``: how good a trained model is."""

from __future__ import annotations

from functools import partial
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from torch_ctree import evaluation
from torch_ctree.cli.console import console, say
from torch_ctree.cli.report import keep_report
from torch_ctree.cli.runs import check_count, open_model, settings_of
from torch_ctree.data.multi30k import GET
from torch_ctree.models import ModelConfig, Seq2Seq
from torch_ctree.models.configuration import SEARCH, Search
from torch_ctree.models.pretrained import SHIPPED, folder_of
from torch_ctree.training import TrainingError

LENGTHS = 12
"""Rows of the table by length, at most."""


def evaluate(
    run: str,
    set_: str | None = None,
    batch_size: int = 100,
    depth: int | None = None,
    search: Search | None = None,
    candidates: int | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    root: str | None = None,
    device: str = "auto",
) -> None:
    """Test a trained model; writes predictions.jsonl, evaluation.json and report.html into the run's folder.

    run: the folder of a run, or example, the model that ships, whose folder is left as it is
    set_: of the task: test, validation, gen, … (default: all that are not for training or choosing)
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
    own, config = open_model(run, device), settings_of(run, root)
    model = own.with_search(search, candidates, beam, length_penalty)
    data = config.data
    task = data.load()
    if set_ is not None and set_ not in task.sets:
        raise TrainingError(f"{task.name} has no set {set_!r}; it has {', '.join(task.sets)}")
    names = [set_] if set_ else task.tested
    terminal, folder = console(), folder_of(run)
    results, rows = {}, []
    for name in names:
        predictions = _predictions(model, task, name, batch_size, depth)
        result = evaluation.evaluate(predictions, task, config.is_tokenised)
        results[f"{name}{_conditions(own.config, model.config, depth)}"] = result
        rows += predictions
        _show(terminal, name, result)
    if folder == SHIPPED:
        say(terminal, f"{run} ships with torch-ctree and is left as it is: nothing was written")
        return
    if task.languages is not None and task.written is None and data.form != "raw":
        say(
            terminal,
            f"no BLEU of text as it was written: that takes the files of the form raw, with no hold_out; {GET}",
        )
    answers, numbers = evaluation.keep(folder, rows, results)
    say(terminal, f"every answer: {answers}; these numbers: {numbers}")
    keep_report(folder, config, terminal)


def _conditions(own: ModelConfig, used: ModelConfig, depth: int | None) -> str:
    """What was other than the model's own when it answered: a result's name says so."""
    other = {name: value for name in SEARCH if (value := getattr(used, name)) != getattr(own, name)}
    by = f" with {', '.join(f'{name} {value}' for name, value in other.items())}" if other else ""
    return by if depth is None else f" at depth {depth}{by}"


def _predictions(
    model: Seq2Seq, task: Any, name: str, batch_size: int, depth: int | None
) -> list[evaluation.Prediction]:
    """With a bar."""
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        line = bar.add_task(name, total=len(task.sets[name]))
        return evaluation.predict_all(
            model, task, name, batch_size=batch_size, depth=depth, tell=partial(bar.advance, line)
        )


def _show(terminal: Console, name: str, result: evaluation.Evaluation) -> None:
    say(terminal, f"{name}: {result.pairs:,} pairs", "bold")
    for label, value in (
        ("exact match", result.exact_match),
        ("first word", result.first_word),
        ("token accuracy", result.token_accuracy),
    ):
        say(terminal, f"  {label:<16}{value:8.2%}")
    say(terminal, f"  {'loss':<16}{result.loss:8.4f}   nats for each target word")
    if result.bleu is not None:
        say(terminal, f"  {'BLEU':<16}{result.bleu.score:8.2f}   {result.bleu.signature}")
    if result.bleu_written is not None:
        say(terminal, f"  {'BLEU, as written':<16}{result.bleu_written.score:8.2f}   {result.bleu_written.signature}")
    if result.tree_f1 is not None and result.baselines is not None:
        beside = ", ".join(f"{kind} {value:.1%}" for kind, value in result.baselines.items())
        say(terminal, f"  {'tree F1':<16}{result.tree_f1.sentence_f1:8.2%}   best trees of the true targets ({beside})")
    for whose, found in (("answers", result.phrases), ("true targets", result.target_phrases)):
        if found is not None:
            beside = ", ".join(f"{kind} {value:.1%}" for kind, value in found.baselines.items())
            what = f"of {found.phrases:,} in the {whose} are constituents ({beside})"
            say(terminal, f"  {'noun phrases':<16}{found.share:8.2%}   {what}")
    terminal.print(_length_table(result))


def _length_table(result: evaluation.Evaluation) -> Table:
    """Exact match by length, lengths put together where there are many."""
    table = Table("target words", "pairs", "exact match", box=None, header_style="bold", padding=(0, 2, 0, 0))
    lengths = sorted(result.by_length)
    size = -(-len(lengths) // LENGTHS)
    for first in range(0, len(lengths), size):
        some = lengths[first : first + size]
        right, total = (sum(getattr(result.by_length[n], field) for n in some) for field in ("right", "total"))
        span = f"{some[0]}" if len(some) == 1 else f"{some[0]}–{some[-1]}"
        table.add_row(f"  {span}", f"{total:,}", f"{right / total:.2%}")
    return table
