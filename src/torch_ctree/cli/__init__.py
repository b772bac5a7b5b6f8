"""The command line: ``ctree``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

from torch_ctree.cli import data
from torch_ctree.data import DataError

ROOMS = {"data": data}
"""What comes after ``ctree``: modules with their HELP and COMMANDS, each of which adds its arguments and runs."""


class Parser(ArgumentParser):
    """Says what is wrong with a command line in one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Exit with status 2."""
        said = re.sub(r"<class '(\w+)'>", r"\1", " ".join(str(message).split()))
        said = re.sub(r'^Parser key "(\w+)"', r"\1", said)
        said = re.sub(r"\b(\w+\.)+(?=\w+$)", "", said)  # names of nested commands before an argument's own
        fail(f"{said} (see '{(self.prog or 'ctree').replace(' [options]', '')} --help')")


def fail(message: str) -> NoReturn:
    """One line on the error output, and status 2."""
    print(f"ctree: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)


def parser() -> Parser:
    """Every command with its arguments."""
    top = Parser(prog="ctree", description="Latent binary trees: data, models, experiments.")
    rooms = top.add_subcommands(dest="command", metavar="COMMAND")
    for room, module in ROOMS.items():
        below = Parser(description=module.HELP)
        rooms.add_subcommand(room, below, help=module.HELP)
        commands = below.add_subcommands(dest="subcommand", metavar="COMMAND")
        for name, (arguments, run) in module.COMMANDS.items():
            own = Parser(description=run.__doc__)
            arguments(own)
            commands.add_subcommand(name, own, help=run.__doc__)
    return top


def main(arguments: Sequence[str] | None = None) -> None:
    """Run ``ctree``."""
    top = parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        top.print_help()
        return
    given: Any = top.parse_args(arguments)
    chosen = given[given.command]
    _, run = ROOMS[given.command].COMMANDS[chosen.subcommand]
    try:
        run(chosen[chosen.subcommand])
        sys.stdout.flush()
    except DataError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # whoever was reading has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
