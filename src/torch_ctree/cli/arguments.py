"""Command-line arguments from plain typed functions: their parameters, and what their docstrings say of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from jsonargparse import ArgumentParser

Command = Callable[..., None]


def names(function: Callable[..., Any], skip: frozenset[str] = frozenset()) -> dict[str, str]:
    """The parameters of a function → what they are called on the command line: ``hold_out`` → ``hold-out``."""
    return {
        name: name.rstrip("_").replace("_", "-") for name in inspect.signature(function).parameters if name not in skip
    }


def add_arguments(parser: ArgumentParser, function: Callable[..., Any], skip: frozenset[str] = frozenset()) -> None:
    """Add what a function takes: parameters without a default by their place, the others as flags.

    skip: parameters that are not the user's to give
    """
    hints, explained = get_type_hints(function), explanations(function)
    for name, called in names(function, skip).items():
        default = inspect.signature(function).parameters[name].default
        if default is inspect.Parameter.empty:
            parser.add_argument(called, type=_kind(hints[name]), help=explained[name])
        else:
            parser.add_argument(f"--{called}", type=_kind(hints[name]), default=default, help=explained[name])


def _kind(hint: Any) -> Any:
    """Where text will do, text: jsonargparse reads ``null`` and ``#`` as nothing where nothing is allowed too."""
    return str if str in get_args(hint) else hint


def values(given: Any, function: Callable[..., Any], skip: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What was given for each parameter of a function."""
    return {name: given[called.replace("-", "_")] for name, called in names(function, skip).items()}


def summary(function: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def explanations(function: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says of each parameter: lines that begin ``name: …``, and the indented ones below."""
    found: dict[str, str] = {}
    for name in inspect.signature(function).parameters:
        said = re.search(rf"^{name}: (.*(?:\n +\S.*)*)", inspect.getdoc(function) or "", re.MULTILINE)
        found[name] = " ".join(said[1].replace("``", "").split()) if said else ""
    return found
