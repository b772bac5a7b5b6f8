"""``ctree data``: look at tasks, get their files, check your own pairs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from torch_ctree import data
from torch_ctree.data import multi30k, questions, scan
from torch_ctree.data.loading import data_folder
from torch_ctree.data.order import permutation
from torch_ctree.trees.topology import depth_for_leaves
from torch_ctree.viewing import draw

if TYPE_CHECKING:
    from jsonargparse import ArgumentParser
    from nltk import Tree

HELP = "Look at tasks, get their files, check your own pairs."
PREPARED = {"multi30k": multi30k.prepare, "scan": scan.prepare, "questions": questions.prepare}


# Arguments.


def _task_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "name",
        type=str,
        help="a task (see 'ctree data list'), a file of pairs, two parallel files with "
        "a comma between them, a folder, or hf:owner/name",
    )
    parser.add_argument("--root", type=Path | None, help="the folder with data files (else $CTREE_DATA, else a cache)")
    parser.add_argument("--seed", type=int, default=0, help="of what is random")
    parser.add_argument(
        "--hold-out",
        type=str | None,
        help="what to validate on: random, longest, combination, or words such as 'around thrice'",
    )
    parser.add_argument("--form", type=str, default="tokenised", help="of Multi30k: tokenised or raw")
    parser.add_argument("--validation", type=str | None, help="a file of your own pairs to validate on")
    parser.add_argument("--test", type=str | None, help="a file of your own pairs to test on")
    parser.add_argument(
        "--columns",
        type=tuple[str, str],
        default=("source", "target"),
        help="the names of source and target in JSON lines or a Hub data set, such as '[de, en]'",
    )


def _load(given: Any) -> data.Task:
    return data.load(
        given.name,
        given.root,
        given.seed,
        hold_out=given.hold_out,
        form=given.form,
        validation=given.validation,
        test=given.test,
        columns=given.columns,
    )


def _show_arguments(parser: ArgumentParser) -> None:
    _task_arguments(parser)
    parser.add_argument("--n", type=int, default=5, help="how many rows, chosen by the seed")
    parser.add_argument("--set", type=str, default="train", help="train, validation, test or gen")


def _prepare_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", type=str, help="multi30k; or scan or questions, with --from")
    parser.add_argument("--from", type=Path | None, help="a folder with the files, in place of a download")
    parser.add_argument("--root", type=Path | None, help="the folder to put them in (else $CTREE_DATA, else a cache)")


# Commands.


def list_tasks(_: Any) -> None:
    """List the tasks that have a name."""
    table = Table("name", "what it is", box=None, header_style="bold", pad_edge=False)
    for name, about in data.TASKS.items():
        table.add_row(name, about)
    console = _console()
    console.print(table)
    place = f"\nThe data folder is {data_folder()} ($CTREE_DATA or --root names another)."
    console.print(place, markup=False, soft_wrap=True)


def show(given: Any) -> None:
    """Show rows of a task, with their gold trees where the task has them."""
    if given.n < 1:
        raise data.DataError(f"n: got {given.n}; expected 1 or more")
    task = _load(given)
    if given.set not in task.splits:
        raise data.DataError(f"{task.name} has no set {given.set!r}; it has {', '.join(task.splits)}")
    pairs = task.splits[given.set]
    console = _console()
    about = f"{task.name} {given.set}: {len(pairs):,} pairs ({task.origin})"
    console.print(about, style="bold", markup=False, soft_wrap=True)
    for n in permutation(len(pairs), given.seed)[: given.n].tolist():
        _show_example(console, n, pairs[n], task)


def _show_example(console: Console, n: int, example: data.Example, task: data.Task) -> None:
    console.print(f"\n{n + 1}", style="dim")
    trees = task.gold(example) if task.gold else (None, None)
    for text, tree, style in zip(example, trees, ("cyan", "green"), strict=True):
        console.print(text, style=style, markup=False, soft_wrap=True)
        if tree is not None:
            console.print(_drawn(tree, console.width), markup=False, soft_wrap=True)


def _drawn(tree: Tree, width: int) -> str:
    """As a drawing where it fits, in brackets where it does not."""
    drawing = draw(tree)
    return drawing if max(map(len, drawing.splitlines())) <= width else tree.pformat(margin=width)


def prepare(given: Any) -> None:
    """Put a task's files into the data folder: downloaded, or copied with --from."""
    name = given.name.partition("-")[0]  # scan-simple is scan
    if name not in PREPARED:
        raise data.DataError(f"{given.name}: nothing to prepare; expected one of {', '.join(PREPARED)}")
    folder = data_folder(given.root)
    files = PREPARED[name](folder, given["from"])
    _console().print(f"{len(files)} files of {name} are in {folder}", markup=False, soft_wrap=True)


def check(given: Any) -> None:
    """Check a task or your own pairs: sizes, lengths, unknown words, repetitions, leaks, the depth a tree needs."""
    console = _console()
    with console.status("reading"):
        task = _load(given)
    with console.status("counting"):
        reports = data.check(task)
    console.print(_check_table(reports))
    for line in _remarks(reports):
        console.print(line, markup=False, soft_wrap=True)


def _check_table(reports: dict[str, data.SetReport]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    heads = ["pairs", "source", "unknown", "target", "unknown", "repeated", "in train"]
    table.add_column("set")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for name, report in reports.items():
        sides = [
            part for side in (report.source, report.target) for part in (_range(side.lengths), f"{side.unknown:.2%}")
        ]
        trained = "" if name == "train" else f"{report.in_train:,}"
        table.add_row(name, f"{report.pairs:,}", *sides, f"{report.repeated:,}", trained)
    return table


def _range(lengths: data.Lengths) -> str:
    return f"{lengths.shortest}–{lengths.longest} ({lengths.mean:.1f})"


def _remarks(reports: dict[str, data.SetReport]) -> list[str]:
    """What follows from the table, and what it has no room for."""
    train = reports["train"]
    longest = max(report.target.lengths.longest for report in reports.values())
    remarks = [
        "",
        "source, target: words in a sentence, shortest–longest (mean); unknown: share of them that train does not have",
        "repeated: pairs that stand further up already; in train: pairs whose source train has too",
        f"training words: {train.source.words:,} in sources, {train.target.words:,} in targets",
        f"tree depth: {depth_for_leaves(longest)}, for targets of up to {longest} words",
    ]
    for name, report in reports.items():
        if report.contradicted:
            remarks.append(f"{name}: {report.contradicted:,} sources have more than one target")
    return remarks


def _console() -> Console:
    return Console(highlight=False)


COMMANDS: dict[str, tuple[Callable[[ArgumentParser], None], Callable[[Any], None]]] = {
    "list": (lambda parser: None, list_tasks),
    "show": (_show_arguments, show),
    "prepare": (_prepare_arguments, prepare),
    "check": (_task_arguments, check),
}
