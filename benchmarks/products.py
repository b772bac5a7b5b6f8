"""Are matrix products right with a part of a GPU? Compare those of a step with float64, with parts of many sizes.

python benchmarks/products.py

A process gets a part through CUDA's multi-process service, which this starts for itself. Prints how many products are
wrong for each part and precision, and writes all of those to benchmarks/results/, with the kernels that made them.
Needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_ctree.circumstances import circumstances, keep
from torch_ctree.training.sharing import SHARE, shared_gpu

ROOT = Path(__file__).resolve().parent.parent
PARTS = 100, 75, 60, 50, 40, 30, 25, 20, 15, 10
"""Percentages."""
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "TF32": torch.float32, "float32": torch.float32}
ROWS = *(100 << level for level in range(8)), 51100
"""Of the levels of a tree of depth 8, for a batch of 100, and of all its vertices."""
SHAPES = {
    "mm": ((512, 256), (256, 256), (128, 128), (128, 6)),
    "addmm": ((256, 512), (128, 128)),
    "addmm and relu": ((256, 256),),
    "mm of a transposed one": ((512, 256), (256, 256), (128, 128), (6, 128)),
}
"""Units that come in and go out, by what is done."""
TOLERANCE, REPEATS = 0.02, 4
"""Of the largest number; roundings are below a hundredth. A wrong product is wrong in some of several repeats."""
SEED, DEVICE = 0, "cuda"


class Product(NamedTuple):
    """One way to multiply, into a tensor that is there, and what should then stand in it."""

    what: str
    rows: int
    units: tuple[int, int]
    multiply: Callable[[Tensor], Tensor]
    expected: Tensor  # float64


def product(what: str, rows: int, units: tuple[int, int], some: Callable[..., Tensor]) -> Product:
    """One of them. some: makes a random tensor of a shape"""
    x, weight, bias = some(rows, units[0]), some(*units[::-1]), some(units[1])
    if what == "mm of a transposed one":
        other = some(rows, units[1])
        expected = x.T.double() @ other.double()
        return Product(what, rows, units, lambda out: torch.mm(x.T, other, out=out), expected)
    plain, turned = x.double() @ weight.T.double(), weight.T.contiguous()
    if what == "mm":
        return Product(what, rows, units, lambda out: torch.mm(x, turned, out=out), plain)
    if what == "addmm":
        return Product(what, rows, units, lambda out: torch.addmm(bias, x, weight.T, out=out), plain + bias)
    rectified = torch.ops.aten._addmm_activation.out
    expected = (plain + bias).relu()
    return Product(what, rows, units, lambda out: rectified(bias, x, weight.T, out=out), expected)


def error(product: Product, dtype: torch.dtype) -> float:
    """The largest of several tries, over the largest number that is expected; NaN where a number is none."""
    largest = 0.0
    for _ in range(REPEATS):
        out = torch.full_like(product.expected, math.nan, dtype=dtype)  # what is not written then shows
        found = product.multiply(out).double()
        wrong = float((found - product.expected).abs().max() / product.expected.abs().max())
        if not math.isfinite(wrong):
            return math.nan
        largest = max(largest, wrong)
    return largest


def kernels(product: Product, dtype: torch.dtype) -> list[str]:
    """The names of those that make it."""
    from torch._C._autograd import DeviceType  # noqa: PLC0415
    from torch.profiler import ProfilerActivity, profile  # noqa: PLC0415

    out = torch.empty_like(product.expected, dtype=dtype)
    with profile(activities=[ProfilerActivity.CUDA], acc_events=True) as seen:
        product.multiply(out)
        torch.cuda.synchronize()
    return [event.name for event in seen.events() or [] if event.device_type == DeviceType.CUDA]


def with_this_part() -> list[dict[str, Any]]:
    """What is found in this process, for each precision."""
    multiprocessors = torch.cuda.get_device_properties(DEVICE).multi_processor_count
    found = []
    for name, dtype in DTYPES.items():
        torch.set_float32_matmul_precision("high" if name == "TF32" else "highest")
        generator = torch.Generator(DEVICE).manual_seed(SEED)

        def some(*shape: int, dtype: torch.dtype = dtype, generator: torch.Generator = generator) -> Tensor:
            return torch.randn(*shape, device=DEVICE, generator=generator).to(dtype)

        settings = [(what, rows, units) for what in SHAPES for rows in ROWS for units in SHAPES[what]]
        wrong = [row for setting in settings if (row := looked_at(product(*setting, some), dtype))]
        row = {"precision": name, "multiprocessors": multiprocessors, "products": len(settings), "wrong": wrong}
        found.append(row)
    return found


def looked_at(product: Product, dtype: torch.dtype) -> dict[str, Any] | None:
    """What is wrong with it, or None."""
    off = error(product, dtype)
    if off < TOLERANCE:
        return None
    row = {"what": product.what, "rows": product.rows, "units": product.units}
    return row | {"error": off, "kernels": kernels(product, dtype)}


def with_part(part: int, variables: dict[str, str]) -> list[dict[str, Any]]:
    """The same in a process of its own that has so many percent of the GPU."""
    done = subprocess.run(
        [sys.executable, __file__, "--this-part"],
        env={**os.environ, **variables, SHARE: str(part)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return [{"part": part} | row for row in json.loads(done.stdout)]


def markdown(results: dict[str, Any]) -> str:
    """How many are wrong, for each part and precision."""
    where = f"commit {results['commit']}, {results['hardware']}, torch {results['versions']['torch']}"
    lines = [f"`{results['command']}`, {where}, CUDA {results['cuda']}", "", "Products that are wrong:", ""]
    lines += [" | ".join(["% of the GPU", "multiprocessors", *DTYPES]), " | ".join(["--:"] * (2 + len(DTYPES)))]
    for part in PARTS:
        rows = [row for row in results["rows"] if row["part"] == part]
        cells = [f"{len(row['wrong'])} of {row['products']}" for row in rows]
        lines.append(" | ".join([str(part), str(rows[0]["multiprocessors"]), *cells]))
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", help="what to record as the commit, where the sources are not a git checkout")
    parser.add_argument("--this-part", action="store_true", help="only for this process's part, as JSON")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no GPU here")
    if arguments.this_part:
        print(json.dumps(with_this_part()))
        return
    circumstance = circumstances(torch.device("cuda"), arguments.commit) | {"cuda": torch.version.cuda, "seed": SEED}
    with shared_gpu(parser.error, len(PARTS), ["bf16-mixed"]) as variables, ThreadPoolExecutor(len(PARTS)) as pool:
        found = pool.map(lambda part: with_part(part, variables), PARTS)
        results = circumstance | {"rows": [row for rows in found for row in rows]}
    path = ROOT / "benchmarks" / "results" / "products.json"
    keep(path, results, markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
