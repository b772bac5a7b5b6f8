"""Runs that have a name: the rows of the paper's tables, one YAML file each."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from torch_ctree.training.errors import TrainingError

PACKAGED = Path(__file__).parent.parent / "configs"
CHECKOUT = Path(__file__).parents[3] / "configs"
"""In a wheel the files stand in the package, in a checkout at its top."""


SMALL = "-small"
"""What the smaller one of a preset is called besides; not all have one."""
ALIASES = {name + small: f"{name}-de-en{small}" for name in ("multi30k",) for small in ("", SMALL)}
"""Short names."""


def folder() -> Path:
    """Where the files are."""
    return PACKAGED if PACKAGED.is_dir() else CHECKOUT


def presets() -> dict[str, Path]:
    """Name → file."""
    return {path.stem: path for path in sorted(folder().glob("*.yaml"), key=lambda path: path.stem)}


def small(name: str) -> str:
    """The name of a preset's smaller one."""
    if ALIASES.get(found := name + SMALL, found) not in presets():
        preset(name)  # or there is none at all of this name
        some = ", ".join(one.removesuffix(SMALL) for one in presets() if one.endswith(SMALL))
        raise TrainingError(f"small: there is no smaller {name}; expected one of {some}, or no --small")
    return found


def about(path: Path) -> str:
    """What the first line of a preset says of it."""
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#").strip()


def preset(name: str) -> Path:
    """The file of a preset."""
    known = presets()
    name = ALIASES.get(name, name)
    if name not in known:
        near = get_close_matches(name, [*known, *ALIASES], n=1)
        hint = f"did you mean {near[0]}?" if near else "see 'ctree train --list'"
        raise TrainingError(f"{name}: no such preset; {hint}")
    return known[name]
