"""Settings as they stand in YAML files and on the command line → records of settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from torch_ctree import data
from torch_ctree.data.errors import shown
from torch_ctree.models import ModelConfig, ModelError
from torch_ctree.models.configuration import still_there
from torch_ctree.training.configuration import TrainConfig
from torch_ctree.training.errors import TrainingError


def read(path: Path) -> dict[str, Any]:
    """The settings in a YAML file, as they stand there."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise TrainingError(f"{path}{where}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise TrainingError(f"{path}: got {shown(content)}; expected settings, such as 'seed: 1'")
    return content


def merged(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, later ones before earlier ones, groups put together."""
    result: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            both = isinstance(value, Mapping) and isinstance(result.get(name), Mapping)
            result[name] = merged(result[name], value) if both else value
    return result


Settings = TypeVar("Settings")


def build(values: Mapping[str, Any], kind: type[Settings] = TrainConfig, where: str = "") -> Settings:
    """Plain values → a record of settings, checked.

    where: what stands before a setting's name in messages, such as ``model.``
    """
    hints = get_type_hints(kind)
    given: dict[str, Any] = {}
    values = still_there(values) if kind is ModelConfig else values
    for name, value in values.items():
        if name not in hints:
            near = get_close_matches(str(name), hints, n=1)
            hint = f"did you mean {where}{near[0]}?" if near else f"expected one of {', '.join(hints)}"
            raise TrainingError(f"{where}{name}: no such setting; {hint}")
        given[name] = _value(value, hints[name], f"{where}{name}")
    try:
        return kind(**given)
    except (data.DataError, ModelError, TrainingError) as error:  # each begins with the name of the setting
        raise TrainingError(f"{where}{error}") from error


def _value(value: Any, hint: Any, name: str) -> Any:
    """A value as its type wants it; YAML and the command line leave some of them as text."""
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise TrainingError(f"{name}: got {shown(value)}; expected settings by name")
        return build(value, hint, f"{name}.")
    allowed = _allowed(hint)
    if value is None and NoneType in allowed:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and float in allowed:
        return float(value)
    if isinstance(value, str) and float in allowed:  # YAML takes 3e-4, without a point, for a word
        try:
            return float(value)
        except ValueError:
            pass
    for kind in allowed:
        if get_origin(kind) is Literal and value in get_args(kind):
            return value
        plain = get_origin(kind) or kind
        if isinstance(plain, type) and isinstance(value, plain) and (plain is bool or not isinstance(value, bool)):
            return value
    raise TrainingError(f"{name}: got {shown(value)}; expected {' or '.join(map(_named, allowed))}")


def _allowed(hint: Any) -> tuple[Any, ...]:
    """The types that a hint allows."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}


def _named(kind: Any) -> str:
    """A type, for someone who does not know Python."""
    if get_origin(kind) is Literal:
        return ", ".join(get_args(kind))
    return NAMES.get(kind, "settings by name")


def parsed(text: str, hint: Any) -> Any:
    """What was written on the command line: text where text is wanted, else as in a YAML file."""
    allowed = _allowed(hint)
    if NoneType in allowed and text in ("null", "None"):
        return None
    if str in allowed or any(get_origin(kind) is Literal for kind in allowed):
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
