"""How a measurement was made: what every results file begins with."""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent


def circumstances(device: torch.device, commit: str | None) -> dict[str, Any]:
    """Command, commit, hardware and versions. The commit is found in the checkout where none is given."""
    packages = ["torch", "numpy", "numba"]
    return {
        "command": shlex.join(["python", str(Path(sys.argv[0]).resolve().relative_to(ROOT)), *sys.argv[1:]]),
        "commit": commit or commit_here(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "hardware": hardware(device),
        "threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
    }


def commit_here() -> str:
    """The commit of the working tree, with a mark where it has changes."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("-changed" if _git("status", "--porcelain", "--", "src", "benchmarks/*.py") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def hardware(device: torch.device) -> str:
    """The processor that does the work."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.processor()}, {torch.get_num_threads()} threads"
