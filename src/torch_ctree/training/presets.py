"""Runs that have a name: the rows of the paper's tables, one YAML file each."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from torch_ctree.training.errors import TrainingError

PACKAGED = Path(__file__).parent.parent / "configs"
CHECKOUT = Path(__file__).parents[3] / "configs"
"""In a wheel the files stand in the package, in a checkout at its top."""


def folder() -> Path:
    """Where the files are."""
    return PACKAGED if PACKAGED.is_dir() else CHECKOUT


def presets() -> dict[str, Path]:
    """Name → file."""
    return {path.stem: path for path in sorted(folder().glob("*.yaml"), key=lambda path: path.stem)}


def about(path: Path) -> str:
    """What the first line of a preset says of it."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#").strip()


def preset(name: str) -> Path:
    """The file of a preset."""
    known = presets()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "see 'ctree train --list'"
        raise TrainingError(f"{name}: no such preset; {hint}")
    return known[name]
