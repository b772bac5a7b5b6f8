"""The command line: ``ctree``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from difflib import get_close_matches
from io import TextIOWrapper
from typing import Any, NoReturn

from jsonargparse import ArgumentParser, DefaultHelpFormatter
from rich.console import Console

from torch_ctree.cli import bench, data, decode, distill, evaluate, reproduce, train, view
from torch_ctree.cli.arguments import Command, add_arguments, add_settings, by_place, settings, summary, values
from torch_ctree.cli.memory import is_out_of_memory
from torch_ctree.cli.train import translated
from torch_ctree.data import TASKS, DataError, Task, load
from torch_ctree.models import ModelError
from torch_ctree.training import TrainingError
from torch_ctree.training.configuration import SECTIONS

COMMANDS: dict[str, Command] = {
    "train": train.train,
    "evaluate": evaluate.evaluate,
    "decode": decode.decode,
    "parse": decode.parse,
    "distill": distill.distill,
    "reproduce": reproduce.reproduce,
    "report": reproduce.report,
    "view": view.view,
    "bench": bench.bench,
}
"""What comes after ``ctree``: plain functions by name. What ``train`` takes as settings are flags of their own."""
ROOMS = {"data": data}
"""What has a second word: modules with a HELP and with COMMANDS.

A function with a parameter ``task`` gets the task that the arguments of ``load`` describe.
"""
TO_LOWER = {
    "train": "--optimisation.batch_size, --model.depth (each level less halves it) or --model.width",
    "reproduce": "--at-once",
    "evaluate": "--batch-size, --candidates or --depth (each level less halves it)",
    "distill": "--batch-size, --candidates or --depth (each level less halves it)",
    "decode": "--topk, --candidates or --depth (each level less halves it)",
    "parse": "--topk or --depth (each level less halves it)",
}
"""What needs less memory, by command."""
TASK, SETTINGS = frozenset({"task"}), frozenset({"settings"})


class Help(DefaultHelpFormatter):
    """What the docstrings say, and nothing more."""

    def _get_help_string(self, action: Any) -> str:
        return action.help or ""


class Parser(ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=Help, **options)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Exit with status 2."""
        said = re.sub(r"<class '(\w+)'>", r"\1", " ".join(str(message).split()))
        said = re.sub(r"typing\.Literal\[(.*?)\]", r"choice of \1", said)
        said = re.sub(r'^Parser key "([\w.]+)"', r"\1", said)
        said = re.sub(r'expected "(?:\w+\.)?(?:sub)?command" to be one of', "expected one of", said)
        if missing := re.fullmatch(r"the following arguments are required: ([\w.]+)", said):
            *words, argument = missing[1].split(".")  # said by the top, which does not know better
            fail(f"expected {argument} (see 'ctree {' '.join(words)} --help')")
        if strange := re.match(r"[Uu]nrecognized arguments: (\S+)", said):
            said += self._hint(strange[1])
        fail(f"{said} (see '{self.prog} --help')")

    def _hint(self, strange: str) -> str:
        """What may have been meant by an argument that there is not."""
        flags = [flag for action in self._actions for flag in action.option_strings]
        if near := get_close_matches(strange.partition("=")[0], flags, n=1):
            return f"; did you mean {near[0]}?"
        takes_words = any(not action.option_strings for action in self._actions)
        return "; text of several words goes in quotes" if takes_words and not strange.startswith("-") else ""

    def _match_arguments_partial(self, actions: Any, arg_strings_pattern: str) -> list[int]:
        """What may be left out is not taken to be before the last flag: ``decode RUN --topk 3 TEXT``."""
        counts = super()._match_arguments_partial(actions, arg_strings_pattern)  # pyright: ignore[reportAttributeAccessIssue]
        while "O" in arg_strings_pattern and counts and counts[-1] == 0:
            counts.pop()
        return counts


def fail(message: str) -> NoReturn:
    """One line on the error output, and status 2."""
    print("ctree:", re.sub(r"[\r\n]+", " ", message), file=sys.stderr)
    raise SystemExit(2)


def parser() -> Parser:
    """Every command with its arguments."""
    top = Parser(prog="ctree", description="Latent binary trees: data, models, training.")
    words = top.add_subcommands(dest="command", metavar="COMMAND")
    for name, function in COMMANDS.items():
        _add(words, "ctree", name, function)
    for room, module in ROOMS.items():
        below = Parser(description=module.HELP)
        words.add_subcommand(room, below, help=module.HELP)
        below.prog = f"ctree {room}"  # without the options that it does not have
        commands = below.add_subcommands(dest="subcommand", metavar="COMMAND")
        for name, function in module.COMMANDS.items():
            _add(commands, below.prog, name, function)
    return top


def _add(commands: Any, before: str, name: str, function: Command) -> None:
    """One command with what its function takes."""
    own = Parser(description=summary(function))
    if takes(function, TASK):
        add_arguments(own, load)
    add_arguments(own, function, TASK | SETTINGS)
    if takes(function, SETTINGS):
        add_settings(own, SECTIONS)
        own.usage = f"{before} {name} [PRESET] [options] [settings]"  # one by one they would fill a screen
    commands.add_subcommand(name, own, help=summary(function))
    own.prog = f"{before} {name}"


def takes(function: Command, names: frozenset[str]) -> bool:
    """Whether a command has a parameter that is not an argument of its own."""
    return bool(names & function.__annotations__.keys())


def run(function: Command, given: Any) -> None:
    """Call a command with what was given on the command line."""
    first = [load_task(values(given, load))] if takes(function, TASK) else []
    named = values(given, function, TASK | SETTINGS)
    first += [named.pop(name) for name in by_place(function)]
    if takes(function, SETTINGS):
        named["settings"] = settings(given, SECTIONS)
    function(*first, **named)


def load_task(options: dict[str, Any]) -> Task:
    """A task, with a sign of life where that may take long; downloads show their own."""
    is_file = options["name"] not in TASKS and not options["name"].startswith("hf:")
    with Console(stderr=True).status("reading") if is_file else nullcontext():
        return load(**options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``ctree``."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is no reason to stop
    arguments = translated(sys.argv[1:] if arguments is None else arguments)
    top = parser()
    if not arguments:
        top.print_help()
        return
    given: Any = top.parse_args(arguments)
    chosen = given[given.command]
    try:
        if given.command in ROOMS:
            run(ROOMS[given.command].COMMANDS[chosen.subcommand], chosen[chosen.subcommand])
        else:
            run(COMMANDS[given.command], chosen)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (DataError, ModelError, TrainingError) as error:
        fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        hint = f"; lower {TO_LOWER[given.command]}" if given.command in TO_LOWER else ""
        fail(f"out of memory{hint}")
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as error:
        _silence()
        if isinstance(error, BrokenPipeError):  # whoever was reading has seen enough
            raise SystemExit(1) from None
        where = f"{error.filename}: " if error.filename else "cannot write: "
        fail(f"{where}{error.strerror or error}")


def _silence() -> None:
    """Nothing more is written: what still waits to be could not be either."""
    with suppress(OSError):  # it may be no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
