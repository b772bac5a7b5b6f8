"""Every figure that ``ctree bench`` measures: what it is, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_ctree.benchmarking import inference, training
from torch_ctree.training.together import Tell


@dataclass(frozen=True)
class Setting:
    """What the figures are measured on."""

    device: torch.device
    root: str | None
    """The folder with SCAN's files, if they are not to be made."""
    seeds: int
    tell: Tell


@dataclass(frozen=True)
class Figure:
    """One number."""

    key: str
    what: str
    unit: str
    measure: Callable[[Setting], dict[str, Any]]
    """→ details, ``value`` among them."""
    original: str = "–"
    """The paper's own code on an H200."""
    target: float | None = None
    on_cpu: bool = False


def _likelihood(depth: int, tokens: int, batch: int) -> Callable[[Setting], dict[str, Any]]:
    return lambda s: inference.likelihood(depth, tokens, batch, s.device)


FIGURES = (
    Figure(
        "likelihood",
        "log-likelihood and gradient, D=8 N=48 batch 100",
        "ms",
        _likelihood(8, 48, 100),
        "50–66 ms",
        0.15,
        on_cpu=True,
    ),
    Figure(
        "likelihood-deep", "the same, D=10 N=100 batch 256", "ms", _likelihood(10, 100, 256), "164 ms", 0.6, on_cpu=True
    ),
    Figure("likelihood-many", "the same, D=8 N=48 batch 4,096", "ms", _likelihood(8, 48, 4096), target=0.84),
    Figure(
        "argmax",
        "exact argmax of 4,096 sentences, D=8, up to 48 tokens",
        "ms",
        lambda s: inference.argmax(4096, 8, 48, s.device),
        "seconds",
        5.0,
        on_cpu=True,
    ),
    Figure(
        "memory",
        "loss over 10,000 words, D=8 N=48 batch 64 width 512: peak memory",
        "MiB",
        lambda s: inference.vocabulary_memory(s.device),
        "2,576 MiB",
        300.0,
    ),
    Figure(
        "step",
        "a training step on SCAN, TF32",
        "ms",
        lambda s: training.step(s.device, s.root),
        "129–173 ms",
        4.0,
        True,
    ),
    Figure(
        "step-bf16",
        "the same in bfloat16",
        "ms",
        lambda s: training.step(s.device, s.root, "bf16-mixed"),
        "129–173 ms",
        4.0,
    ),
    Figure("profile", "kernels of a step, one after the other", "ms", lambda s: training.profile(s.device, s.root)),
    Figure(
        "lightning", "a step of `ctree train`, with Lightning", "ms", lambda s: training.lightning(s.device, s.root)
    ),
    Figure(
        "seeds",
        "ten runs at once, each run's step, TF32",
        "ms",
        lambda s: training.seeds_in_processes(s.seeds, s.root, s.tell),
        target=1.2,
    ),
    Figure(
        "seeds-bf16",
        "the same in bfloat16",
        "ms",
        lambda s: training.seeds_in_processes(s.seeds, s.root, s.tell, "bf16-mixed"),
        target=1.2,
    ),
    Figure(
        "streams",
        "ten runs at once in one process, each run's step, TF32",
        "ms",
        lambda s: training.seeds_on_streams(s.seeds, s.device, s.root),
    ),
    Figure(
        "evaluation",
        "evaluating 5,619 sentences, expansion included",
        "s",
        lambda s: training.evaluation(s.device, s.root),
        "24 s",
        0.5,
    ),
)


def chosen(only: str | None, device: torch.device) -> list[Figure]:
    """The figures with these keys, a comma between them; all that this device can measure where none is named."""
    able = [figure for figure in FIGURES if device.type == "cuda" or figure.on_cpu]
    if only is None:
        return able
    by_key = {figure.key: figure for figure in able}
    wanted = [key.strip() for key in only.split(",")]
    for key in wanted:
        if key not in by_key:
            raise ValueError(f"only: got {key!r}; expected some of {', '.join(by_key)}")
    return [by_key[key] for key in wanted]


def measured(figure: Figure, setting: Setting) -> dict[str, Any]:
    """A figure's details, with what it is compared with; an error where it could not be measured."""
    known = {"key": figure.key, "what": figure.what, "unit": figure.unit}
    known |= {"original": figure.original, "target": figure.target}
    try:
        return known | figure.measure(setting)
    except (RuntimeError, OSError) as error:
        return known | {"error": " ".join(str(error).split())[:300]}
    finally:
        if setting.device.type == "cuda":
            torch.cuda.empty_cache()


def shown(number: float | None, unit: str) -> str:
    """A number with three digits that count."""
    return "–" if number is None else f"{number:,.3g} {unit}" if number < 1000 else f"{number:,.0f} {unit}"
