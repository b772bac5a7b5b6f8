"""How many warps should work on a sentence? Time the Triton kernels with each number of them, over D and batch.

python benchmarks/warps.py

Prints what was found, marks what the library takes, and writes it to benchmarks/results/. Needs a GPU. The kernels that
have not been compiled before take most of the time.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

from torch_ctree.benchmarking.timing import timed_alone
from torch_ctree.circumstances import circumstances, keep
from torch_ctree.trees.kernels import triton as kernel

ROOT = Path(__file__).resolve().parent.parent
WARPS = {4: (1, 2), 6: (1, 2, 4), 8: (1, 2, 4, 8, 16), 10: (4, 8, 16, 32), 12: (8, 16, 32)}
"""By depth."""
BATCHES, TOKENS = (1, 100, 1000), 48
CALLS = 4
"""In a CUDA graph."""
SEED = 0


@contextmanager
def forced(warps: int) -> Iterator[None]:
    """So many warps for every kernel."""
    chosen = kernel._warps
    kernel._warps = lambda depth: warps
    try:
        yield
    finally:
        kernel._warps = chosen


def times(depth: int, batch: int, warps: int, device: torch.device) -> dict[str, float]:
    """Milliseconds of the likelihood with its gradient, and of the best tree."""
    torch.manual_seed(SEED)
    weights = torch.randn(batch, TOKENS, (2 << depth) - 1, device=device) - 3
    lengths = torch.full((batch,), TOKENS, device=device)
    one = weights.new_ones(batch, TOKENS)

    def both() -> object:
        _, memory = kernel.forward(weights, lengths)
        return kernel.backward(weights, lengths, memory, one)

    with forced(warps):
        return {
            "likelihood and gradient": timed_alone(both, device, CALLS)["median_ms"],
            "best tree": timed_alone(lambda: kernel.best_paths(weights, lengths), device, CALLS)["median_ms"],
        }


def markdown(results: dict[str, Any]) -> str:
    """A table of milliseconds for each kind of work, what the library takes in bold."""
    where = f"commit {results['commit']}, {results['hardware']}, torch {results['versions']['torch']}"
    lines = [f"`{results['command']}`, {where}, Triton {results['versions']['triton']}; N = {TOKENS}"]
    for work in results["rows"][0]["ms"]:
        lines += ["", f"## {work}: median ms by the number of warps", "", "D | batch | ms", "--: | --: | ---"]
        for (depth, batch), rows in itertools.groupby(results["rows"], lambda row: (row["depth"], row["batch"])):
            cells = [f"{'**' * row['taken']}{row['warps']}: {row['ms'][work]:.3f}{'**' * row['taken']}" for row in rows]
            lines += [f"{depth} | {batch} | {', '.join(cells)}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="what to record as the commit, where the sources are not a git checkout")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here, and Triton's kernels need one")
    device = torch.device("cuda")
    settings = [(depth, batch, warps) for depth in WARPS for batch in BATCHES for warps in WARPS[depth]]
    results = circumstances(device, arguments.commit) | {"seed": SEED, "tokens": TOKENS, "rows": []}
    for depth, batch, warps in track(settings, "warps", console=Console(stderr=True)):
        row = {"depth": depth, "batch": batch, "warps": warps, "taken": warps == kernel._warps(depth)}
        results["rows"].append(row | {"ms": times(depth, batch, warps, device)})
    path = ROOT / "benchmarks" / "results" / "warps.json"
    keep(path, results, markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
