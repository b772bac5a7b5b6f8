"""How a measurement was made: what every results file begins with; and how such a file is written."""

from __future__ import annotations

import json
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from torch_ctree.data.disk import finite, write

PACKAGES = ("torch", "numpy", "numba", "triton", "lightning")


def circumstances(device: torch.device, commit: str | None = None) -> dict[str, Any]:
    """Command, commit, hardware and versions. The commit is found in the checkout where none is given."""
    return {
        "command": command(),
        "commit": commit or commit_here(),
        "date": date_now(),
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
    }


def keep(path: Path, results: dict[str, Any], tables: str) -> None:
    """Write results as JSON, and beside them, as Markdown, what of them people look at."""
    write(path, json.dumps(finite(results), indent=1, ensure_ascii=False) + "\n")
    write(path.with_suffix(".md"), tables)


def command() -> str:
    """What was typed: ``python benchmarks/data.py``, or ``ctree bench``."""
    program = Path(sys.argv[0])
    if program.suffix != ".py" or program.name == "__main__.py":
        return shlex.join(["ctree", *sys.argv[1:]])
    return shlex.join(["python", f"{program.parent.name}/{program.name}", *sys.argv[1:]])


def date_now() -> str:
    """To the minute."""
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def commit_here() -> str:
    """The commit of the sources, with a mark where they have changes."""
    try:
        _git("ls-files", "--error-unmatch", Path(__file__).name)  # or it would be that of whatever it is installed in
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("-changed" if _git("status", "--porcelain", "--", ":/src", ":/benchmarks/*.py") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    here = Path(__file__).resolve().parent
    return subprocess.run(["git", *words], cwd=here, check=True, capture_output=True, text=True).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def hardware(device: torch.device) -> str:
    """The processor that does the work."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor()}, {torch.get_num_threads()} threads"
