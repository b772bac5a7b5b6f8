"""``ctree data``: look at tasks, get their files, check your own pairs."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from torch_ctree import data
from torch_ctree.cli.arguments import Command
from torch_ctree.cli.console import console, say, show_tree
from torch_ctree.data import multi30k, questions, scan
from torch_ctree.data.errors import place, told
from torch_ctree.data.order import Purpose, permutation
from torch_ctree.trees.topology import depth_for_leaves
from torch_ctree.viewing import visible

HELP = "Look at tasks, get their files, check your own pairs."
PREPARED = {"multi30k": multi30k.prepare, "scan": scan.prepare, "questions": questions.prepare}


def list_tasks() -> None:
    """List the tasks that have a name."""
    table = Table("name", "what it is", box=None, header_style="bold", pad_edge=False)
    for name, about in data.TASKS.items():
        table.add_row(name, about)
    terminal = console(table)
    terminal.print(table)
    folder = f"\nThe data folder is {data.data_folder()} ($CTREE_DATA or --root names another)."
    say(terminal, folder)


def show(task: data.Task, n: int = 5, set_: str = "train") -> None:
    """Show rows of a task, with their gold trees where it has them.

    n: how many rows, chosen at random once and for all
    set_: train, validation, test, or another set that the task has
    """
    if n < 1:
        raise data.DataError(f"n: got {n}; expected 1 or more")
    if set_ not in task.sets:
        raise data.DataError(f"{task.name} has no set {set_!r}; it has {', '.join(task.sets)}")
    pairs = task.sets[set_]
    terminal = console()
    about = visible(f"{task.name} {set_}: {len(pairs):,} pairs ({task.origin})")
    say(terminal, about, "bold")
    for row in permutation(len(pairs), Purpose.ROWS_TO_SHOW)[:n].tolist():
        _show_example(terminal, row, pairs[row], task)


def _show_example(terminal: Console, row: int, example: data.Example, task: data.Task) -> None:
    say(terminal, f"\n{row + 1}", "dim")
    trees = task.gold(example) if task.gold else (None, None)
    for text, tree, style in zip(example, trees, ("cyan", "green"), strict=True):
        say(terminal, visible(text), style)
        if tree is not None:
            show_tree(terminal, tree)


def prepare(name: str, from_: str | None = None, root: str | None = None) -> None:
    """Put a task's files into the data folder: downloaded, or copied with --from.

    name: multi30k; or scan or questions, with --from
    from_: a folder with the files, in place of a download
    root: the folder to put them in (else the one that CTREE_DATA names, else a cache)
    """
    task = name.partition("-")[0] if name in data.TASKS else name  # scan-simple is scan
    if task not in PREPARED:
        raise data.DataError(f"{name}: nothing to prepare; expected one of {', '.join(PREPARED)}")
    folder = data.data_folder(root)
    with told():
        files = PREPARED[task](folder, None if from_ is None else place(from_))
    say(console(), f"{len(files)} files of {task} are in {folder}")


def check(task: data.Task) -> None:
    """Check a task or your own pairs: sizes, lengths, unknown words, repetitions, leaks, the depth a tree needs."""
    with console().status("counting"):
        reports = data.check(task)
    table = _check_table(reports)
    terminal = console(table)
    terminal.print(table)
    for line in _remarks(reports):
        say(terminal, line)


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


COMMANDS: dict[str, Command] = {"list": list_tasks, "show": show, "prepare": prepare, "check": check}
