"""The command line: ``ctree``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from io import TextIOWrapper
from typing import Any, NoReturn

from jsonargparse import ArgumentParser
from rich.console import Console

from torch_ctree.cli import data
from torch_ctree.cli.arguments import add_arguments, summary, values
from torch_ctree.data import TASKS, DataError, Task, load

ROOMS = {"data": data}
"""What comes after ``ctree``: modules with a HELP and with COMMANDS, plain functions by name.

A function with a parameter ``task`` gets the task that the arguments of ``load`` describe.
"""
TASK = frozenset({"task"})


class Parser(ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Exit with status 2."""
        said = re.sub(r"<class '(\w+)'>", r"\1", " ".join(str(message).split()))
        said = re.sub(r'^Parser key "([\w.]+)"', r"\1", said)
        said = re.sub(r'expected "(?:\w+\.)?(?:sub)?command" to be one of', "expected one of", said)
        if missing := re.fullmatch(r"the following arguments are required: (\w+)\.(\w+)\.(\w+)", said):
            room, command, argument = missing.groups()  # said by the top, which does not know better
            fail(f"expected {argument} (see 'ctree {room} {command} --help')")
        fail(f"{said} (see '{self.prog} --help')")


def fail(message: str) -> NoReturn:
    """One line on the error output, and status 2."""
    print("ctree:", re.sub(r"[\r\n]+", " ", message), file=sys.stderr)
    raise SystemExit(2)


def parser() -> Parser:
    """Every command with its arguments."""
    top = Parser(prog="ctree", description="Latent binary trees: data, models, experiments.")
    rooms = top.add_subcommands(dest="command", metavar="COMMAND")
    for room, module in ROOMS.items():
        below = Parser(description=module.HELP)
        rooms.add_subcommand(room, below, help=module.HELP)
        below.prog = f"ctree {room}"  # without the options that it does not have
        commands = below.add_subcommands(dest="subcommand", metavar="COMMAND")
        for name, function in module.COMMANDS.items():
            own = Parser(description=summary(function))
            if takes_task(function):
                add_arguments(own, load)
            add_arguments(own, function, TASK)
            commands.add_subcommand(name, own, help=summary(function))
            own.prog = f"ctree {room} {name}"
    return top


def takes_task(function: data.Command) -> bool:
    """Whether a command is about a task."""
    return function.__annotations__.get("task") is not None


def run(function: data.Command, given: Any) -> None:
    """Call a command with what was given on the command line."""
    tasks = [load_task(values(given, load))] if takes_task(function) else []
    function(*tasks, **values(given, function, TASK))


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
    top = parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        top.print_help()
        return
    given: Any = top.parse_args(arguments)
    chosen = given[given.command]
    try:
        run(ROOMS[given.command].COMMANDS[chosen.subcommand], chosen[chosen.subcommand])
        if sys.stdout is not None:
            sys.stdout.flush()
    except DataError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as error:
        _silence()
        if isinstance(error, BrokenPipeError):  # whoever was reading has seen enough
            raise SystemExit(1) from None
        fail(f"cannot write: {error.strerror or error}")


def _silence() -> None:
    """Nothing more is written: what still waits to be could not be either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
