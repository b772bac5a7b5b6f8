"""Every figure that ``ctree bench`` measures: what it is, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_ctree.benchmarking import inference, training
from torch_ctree.data.errors import in_one_line
from torch_ctree.training.pool import Tell


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
        "a step of each of ten runs at once, TF32",
        "ms",
        lambda s: training.seeds_in_processes(s.seeds, s.root, s.tell),
        target=1.2,
    ),
    Figure(
        "seeds-bf16",
        "the same in bfloat16",
        "ms",
        lambda s: training.seeds_in_processes(s.seeds, s.root, s.tell, "bf16-mixed"),
    ),
    Figure(
        "streams",
        "a step of each of ten runs at once in one process, TF32",
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
        return known | {"error": in_one_line(error)}
    finally:
        if setting.device.type == "cuda":
            torch.cuda.empty_cache()


def shown(number: float | None, unit: str) -> str:
    """A number with three digits that count."""
    return "–" if number is None else f"{number:,.3g} {unit}" if number < 1000 else f"{number:,.0f} {unit}"


# --- for reading ------------------------------------------------------------------------------------------------------


def markdown(results: dict[str, Any]) -> str:
    """What a results file says, beside it."""
    versions = results["versions"]
    where = f"commit {results['commit']}, {results['hardware']}, torch {versions['torch']}, Triton {versions['triton']}"
    lines = [f"`{results['command']}`, {results['date']}, {where}"]
    if results["figures"]:
        lines += ["", "| what | here | the paper's code on an H200 | aim on an H200 |", "|---|--:|--:|--:|"]
        lines += [f"| {' | '.join(cells(found))} |" for found in results["figures"]]
    for found in results["figures"]:
        if "kernels" in found:
            lines += ["", *_profile(found)]
    if "row" in results:
        lines += ["", *_row(results["row"])]
    return "\n".join(lines) + "\n"


def cells(found: dict[str, Any]) -> tuple[str, str, str, str]:
    """What, here, the original, the aim."""
    here = "failed" if "error" in found else shown(found["value"], found["unit"])
    return found["what"], here, found["original"], shown(found["target"], found["unit"])


def _profile(found: dict[str, Any], most: int = 25) -> list[str]:
    """The kernels that take longest."""
    lines = [f"A step has {found['count']} kernels, {found['value']:.2f} ms together. Those that take longest:"]
    lines += ["", "| µs | times | kernel |", "|--:|--:|---|"]
    return lines + [f"| {k['us']:.0f} | {k['count']} | `{k['name'][:100]}` |" for k in found["kernels"][:most]]


def _row(row: dict[str, Any]) -> list[str]:
    """A row of Table 1."""
    lines = [f"OM-CTree + LA in {row['precision']}, {len(row['runs'])} runs, {row['at_once']} at a time, trained and"]
    lines[0] += f" tested in {row['value']:.1f} minutes. Exact match on the test sets, each seed:"
    lines += ["", "| split | mean | each seed |", "|---|--:|---|"]
    return lines + [f"| {name} | {mean} | {each} |" for name, mean, each in by_split(row)]


def by_split(row: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(split, mean, each seed) in percent; a run that failed counts as nothing but is shown."""
    found = []
    for name in dict.fromkeys(run["preset"] for run in row["runs"]):
        runs = [run for run in row["runs"] if run["preset"] == name]
        scores = [100 * run["test_exact_match"] for run in runs if "error" not in run]
        each = " ".join("failed" if "error" in run else f"{100 * run['test_exact_match']:.1f}" for run in runs)
        found.append((name, f"{sum(scores) / len(scores):.1f}" if scores else "–", each))
    return found
