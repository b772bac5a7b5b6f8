"""Processes that begin in no time: they are made from one that has imported everything, once, and waits."""

from __future__ import annotations

import os
import runpy
import sys
import warnings
from collections.abc import Callable
from contextlib import chdir
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
FROM_ONE = get_context("forkserver")
FROM_ONE.set_forkserver_preload(["tests.preloaded"])


def from_one() -> ForkServerContext:
    """Where processes come from. They see the environment of the first that asked for one."""
    with chdir(ROOT):  # where it finds what it is to import
        forkserver.ensure_running()
    return FROM_ONE


def start(function: Callable[..., None], *arguments: Any) -> Any:
    """A function in a process of its own, in which a warning is an error; it sees the environment that is here."""
    process = from_one().Process(target=_calmly, args=(dict(os.environ), function, *arguments))
    process.start()
    return process


def _calmly(environment: dict[str, str], function: Callable[..., None], *arguments: Any) -> None:
    os.environ.clear()
    os.environ.update(environment)
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    function(*arguments)


class Forks:
    """In such a process, the context of a pool: its processes are made from the one that is here."""

    def __init__(self) -> None:
        self.context, self.links = get_context("fork"), []

    def Pipe(self) -> tuple[Connection, Connection]:  # noqa: N802
        ours, theirs = self.context.Pipe()
        self.links.append(ours)
        return ours, theirs

    def Process(self, target: Callable[..., None], args: tuple[Any, ...], daemon: bool) -> Any:  # noqa: N802
        return self.context.Process(target=self._without_links, args=(target, *args), daemon=daemon)

    def _without_links(self, target: Callable[..., None], *args: Any) -> None:
        for link in self.links:  # else nobody would hear that its other end is closed
            link.close()
        target(*args)


def write_into(output: Path) -> None:
    """From now on, whatever this process says goes into a file."""
    with open(output, "wb", buffering=0) as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr = (open(place, "w", encoding="utf-8", closefd=False) for place in (1, 2))  # noqa: SIM115


def said_by(output: Path, *program: str) -> str:
    """What a program prints: ``-c`` and its text, or its file and arguments. It must end well."""
    process = start(_run, output, program)
    process.join(600)
    said = output.read_text()
    assert process.exitcode == 0, said
    return said


def _run(output: Path, program: tuple[str, ...]) -> None:
    write_into(output)
    if program[0] == "-c":
        exec(compile(program[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = list(program)
        runpy.run_path(program[0], run_name="__main__")
