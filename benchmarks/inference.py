"""Time exact inference: every backend, forward and forward + backward, and decoding, all in one run.

python benchmarks/inference.py [--device cuda] [--quick]

Backends take turns within each setting, so that a noisy moment hits all of them. Prints medians with ratios to `paper`
and writes them, with quantiles and circumstances, to benchmarks/results/. On a shared CPU trust the ratios, not the
times.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from torch_ctree import tree_log_likelihood
from torch_ctree.benchmarking.inference import of_a_few_dozen_tokens
from torch_ctree.benchmarking.timing import quantiles
from torch_ctree.circumstances import circumstances, keep
from torch_ctree.trees import paper
from torch_ctree.trees.likelihood import Backend

ROOT = Path(__file__).resolve().parent.parent
DEPTHS, TOKENS, BATCHES = (4, 6, 8, 10), (16, 48, 100), (1, 100)
SEED = 0
BUDGET, LEAST, MOST = 1.0, 5, 200  # seconds for a backend in a setting; how many repeats that may become


def backends_on(device: torch.device) -> list[Backend]:
    """The backends that run on a device."""
    weights, lengths = torch.zeros(1, 1, 1, device=device), torch.ones(1, dtype=torch.long, device=device)

    def runs(backend: Backend) -> bool:
        try:
            tree_log_likelihood(weights, lengths, backend=backend)
        except ValueError:
            return False
        return True

    return [backend for backend in get_args(Backend) if backend != "auto" and runs(backend)]


def seconds(work: Callable[[], object], device: torch.device) -> float:
    start = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def take_turns(works: dict[str, Callable[[], object]], device: torch.device, budget: float) -> dict[str, list[float]]:
    """Time several pieces of work, one call each in turn, until each has had its budget."""
    first = {
        name: min(seconds(work, device) for _ in range(2)) for name, work in works.items()
    }  # the first call compiles
    repeats = {name: max(LEAST, min(MOST, int(budget / once))) for name, once in first.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(max(repeats.values())):
        for name, work in works.items():
            if turn < repeats[name]:
                times[name].append(seconds(work, device))
    return times


def likelihood_works(
    depth: int, tokens: int, batch: int, device: torch.device
) -> dict[str, dict[str, Callable[[], object]]]:
    """Forward alone, without a graph, and forward + backward, for each backend."""
    generator = torch.Generator(device).manual_seed(SEED)
    weights = torch.randn(batch, tokens, (2 << depth) - 1, device=device, generator=generator) - 3
    lengths = torch.full((batch,), tokens, device=device)
    leaf = weights.clone().requires_grad_()

    def forward(backend: Backend) -> object:
        return tree_log_likelihood(weights, lengths, backend=backend, validate_args=False)

    def both(backend: Backend) -> object:
        value = tree_log_likelihood(leaf, lengths, backend=backend, validate_args=False)
        return torch.autograd.grad(value.sum(), leaf)

    names = backends_on(device)
    return {
        "forward": {name: lambda name=name: forward(name) for name in names},
        "forward+backward": {name: lambda name=name: both(name) for name in names},
    }


def time_likelihood(device: torch.device, depths: tuple[int, ...], budget: float) -> list[dict[str, Any]]:
    rows = []
    settings = list(itertools.product(depths, TOKENS, BATCHES))
    for depth, tokens, batch in track(settings, "likelihood", console=Console(stderr=True)):
        for mode, works in likelihood_works(depth, tokens, batch, device).items():
            results = {name: quantiles(times) for name, times in take_turns(works, device, budget).items()}
            for name, result in results.items():
                ratio = results["paper"]["median_ms"] / result["median_ms"]
                row = {"depth": depth, "tokens": tokens, "batch": batch, "mode": mode, "backend": name}
                rows.append(row | result | {"times_faster_than_paper": ratio})
    return rows


def time_decoding(device: torch.device, sentences: int = 1000, depth: int = 8) -> dict[str, Any]:
    """Batched argmax of many sentences against the paper's DecodeJoint, one sentence after the other."""
    dist = of_a_few_dozen_tokens(sentences, depth, device)
    scores = (dist.prior.log_m() + dist.emission.topk(1)[0][..., 0]).cpu()

    batched: dict[str, Callable[[], object]] = {"argmax": dist.argmax, "argmax within 24": lambda: dist.argmax(24)}
    times = take_turns(batched, device, 3.0)
    decoded = []
    track_ = track(scores, "DecodeJoint", console=Console(stderr=True))
    one_by_one = seconds(lambda: decoded.extend(paper.decode_joint(row) for row in track_), torch.device("cpu"))
    found = dist.argmax()
    exact = torch.tensor([score for _, score in decoded], device=device)
    torch.testing.assert_close(found.log_prob, exact)
    results = {name: quantiles(values) for name, values in times.items()}
    for result in results.values():
        result["times_faster_than_paper"] = 1e3 * one_by_one / result["median_ms"]
    lengths = found.lengths.float()
    return {
        "sentences": sentences,
        "depth": depth,
        "mean_length": lengths.mean().item(),
        "longest": int(lengths.max()),
        "paper_one_by_one_ms": 1e3 * one_by_one,
        **results,
    }


def time_imports(repeats: int = 5) -> dict[str, float]:
    """Importing torch in a fresh interpreter, and what importing the trees adds to it."""
    code = (
        "import time; a = time.perf_counter(); import torch; b = time.perf_counter(); "
        "import torch_ctree.trees; print(b - a, time.perf_counter() - b)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(repeats)
    ]
    torch_seconds, added = zip(*(map(float, run.stdout.split()) for run in runs), strict=True)
    return {"torch_ms": 1e3 * statistics.median(torch_seconds), "trees_add_ms": 1e3 * statistics.median(added)}


def tables(results: dict[str, Any]) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Title → header and rows of the likelihood's tables."""
    names = list(dict.fromkeys(row["backend"] for row in results["likelihood"]))
    found = {}
    for mode in ("forward", "forward+backward"):
        cells = {
            (row["depth"], row["tokens"], row["batch"], row["backend"]): row
            for row in results["likelihood"]
            if row["mode"] == mode
        }
        rows = []
        for setting in dict.fromkeys(key[:3] for key in cells):
            measured = [cells[(*setting, name)] for name in names]
            texts = [f"{cell['median_ms']:.2f} ({cell['times_faster_than_paper']:.1f}×)" for cell in measured]
            rows.append([*map(str, setting), *texts])
        found[f"log-likelihood, {mode}: median ms (times faster than paper)"] = (["D", "N", "batch", *names], rows)
    return found


def remarks(results: dict[str, Any]) -> list[str]:
    decoding, imports = results["decoding"], results["imports"]
    return [
        f"Decoding {decoding['sentences']} sentences, D={decoding['depth']}, {decoding['mean_length']:.0f} tokens on "
        f"average, at most {decoding['longest']}: DecodeJoint one by one {decoding['paper_one_by_one_ms']:.0f} ms; "
        + "; ".join(
            f"{name} {decoding[name]['median_ms']:.1f} ms ({decoding[name]['times_faster_than_paper']:.0f}×)"
            for name in ("argmax", "argmax within 24")
        )
        + ".",
        f"Import: torch {imports['torch_ms']:.0f} ms, torch_ctree.trees adds {imports['trees_add_ms']:.0f} ms.",
    ]


def show(results: dict[str, Any]) -> None:
    console = Console(width=120)
    for title, (header, rows) in tables(results).items():
        table = Table(*header, title=title)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(*remarks(results), sep="\n")


def markdown(results: dict[str, Any]) -> str:
    """The same for reading beside the JSON file."""
    where = f"commit {results['commit']}, {results['hardware']}, torch {results['versions']['torch']}"
    lines = [f"`{results['command']}`, {where}"]
    for title, (header, rows) in tables(results).items():
        lines += ["", f"## {title}", "", " | ".join(header), " | ".join(["--:"] * len(header))]
        lines += [" | ".join(row) for row in rows]
    for remark in remarks(results):
        lines += ["", remark]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--quick", action="store_true", help="D = 4 and 6 only, few repeats, nothing written")
    parser.add_argument("--commit", help="what to record as the commit, where the sources are not a git checkout")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU here; leave it out to measure the CPU")

    results = circumstances(device, arguments.commit) | {
        "seed": SEED,
        "imports": time_imports(),
        "likelihood": time_likelihood(
            device, DEPTHS[:2] if arguments.quick else DEPTHS, 0.02 if arguments.quick else BUDGET
        ),
        "decoding": time_decoding(device, sentences=50 if arguments.quick else 1000),
    }
    show(results)
    if not arguments.quick:
        path = ROOT / "benchmarks" / "results" / f"inference-{device.type}.json"
        keep(path, results, markdown(results))
        print(f"written to {path.relative_to(ROOT)} and .md")


if __name__ == "__main__":
    main()
