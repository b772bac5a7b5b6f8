"""Command-line arguments from plain typed functions: their parameters, and what their docstrings say of them."""

from __future__ import annotations

import inspect
import re
from argparse import SUPPRESS
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

from jsonargparse import ArgumentParser

Command = Callable[..., None]


def names(function: Callable[..., Any], skip: frozenset[str] = frozenset()) -> dict[str, str]:
    """The parameters of a function → what they are called on the command line: ``hold_out`` → ``hold-out``."""
    return {
        name: name.rstrip("_").replace("_", "-") for name in inspect.signature(function).parameters if name not in skip
    }


def add_arguments(parser: ArgumentParser, function: Callable[..., Any], skip: frozenset[str] = frozenset()) -> None:
    """Add what a function takes: parameters without a default by their place, the others as flags.

    Parameters before ``/`` go by their place even where they may be left out; of one whose default is a tuple there may
    be several.

    skip: parameters that are not the user's to give
    """
    hints, explained = get_type_hints(function), explanations(function)
    for name, called in names(function, skip).items():
        parameter = inspect.signature(function).parameters[name]
        default, kind, told = parameter.default, _kind(hints[name]), explained[name]
        if default is inspect.Parameter.empty:
            parser.add_argument(called, type=kind, help=told)
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            several = isinstance(default, tuple)
            parser.add_argument(called, type=kind, nargs="*" if several else "?", default=default, help=told)
        elif kind is bool:
            parser.add_argument(f"--{called}", action="store_true", help=told)
        else:
            parser.add_argument(
                f"--{called}", type=kind, default=default, metavar=_metavar(kind), help=told + _default(default)
            )


def _kind(hint: Any) -> Any:
    """Where text will do, text, and else the first kind: what is not given need not be sayable as ``null``."""
    kinds = get_args(hint) or (hint,)
    return str if str in kinds else kinds[0]


def _default(value: Any) -> str:
    """As help has it; true and false as in a YAML file."""
    if value in (MISSING, None, ""):
        return ""
    return f" (default: {str(value).lower() if isinstance(value, bool) else value})"


def by_place(function: Callable[..., Any]) -> list[str]:
    """The parameters that cannot be given by name."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.POSITIONAL_ONLY]


def add_settings(parser: ArgumentParser, sections: Mapping[str, type]) -> None:
    """Add a flag for every setting of some dataclasses: ``--model.width``. What is given stays text."""
    for section, kind in sections.items():
        explained, hints = explanations(kind), get_type_hints(kind)
        group = parser.add_argument_group(section, summary(kind))
        for setting in fields(kind):
            group.add_argument(
                f"--{section}.{setting.name}",
                default=SUPPRESS,
                metavar=_metavar(hints[setting.name]),
                help=explained[setting.name] + _default(setting.default),
            )


def settings(given: Any, sections: Mapping[str, type]) -> dict[str, dict[str, str]]:
    """The settings that were given, by section."""
    there = {section: given[section].as_dict() for section in sections if section in given}
    return {section: values for section, values in there.items() if values}


def _metavar(hint: Any) -> str:
    choices = [choice for part in (hint, *get_args(hint)) if get_origin(part) is Literal for choice in get_args(part)]
    kinds = {int: "N", float: "X", bool: "true|false"}
    plain = next((kinds[part] for part in (hint, *get_args(hint)) if part in kinds), "TEXT")
    return "|".join(choices) or plain


def values(given: Any, function: Callable[..., Any], skip: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What was given for each parameter of a function."""
    return {name: given[called.replace("-", "_")] for name, called in names(function, skip).items()}


def summary(function: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0].replace("``", "")


def explanations(function: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says of each parameter: lines that begin ``name: …``, and the indented ones below."""
    found: dict[str, str] = {}
    for name in inspect.signature(function).parameters:
        said = re.search(rf"^{name}: (.*(?:\n +\S.*)*)", inspect.getdoc(function) or "", re.MULTILINE)
        found[name] = " ".join(said[1].replace("``", "").split()) if said else ""
    return found
