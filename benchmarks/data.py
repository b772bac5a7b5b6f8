"""Read, encode and batch a million sentence pairs: pairs per second, and memory as a multiple of the text.

python benchmarks/data.py [--pairs N]

Every stage runs in a process of its own, which also does the stages before it; its peak memory is counted above what
the imports need (on Linux). Beside it, in the same run, the obvious way: lists of strings and of token ids. Writes
benchmarks/results/data.json and .md. On a shared CPU trust the ratios, not the times.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import record
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from torch_ctree import data
from torch_ctree.data import scan
from torch_ctree.data.disk import whole, write
from torch_ctree.data.files import read_tsv
from torch_ctree.data.order import random_bits

SEED = 0
TOKENS = 4096  # in a batch
STAGES = ("read", "words", "encode", "bucket", "batches")


def write_pairs(path: Path, pairs: int) -> None:
    """Lines of 1 to 24 words a side, from 20,000 words that come as unevenly as words do (Zipf)."""
    words = [f"wort{n}" for n in range(20_000)]
    bits = random_bits(SEED)
    with whole(path) as file:
        for _ in track(range(0, pairs, 10_000), description="writing the pairs", transient=True):
            lines = []
            for row in (bits.random_raw((min(10_000, pairs), 50)) >> 11).tolist():
                chosen = [words[int(20_000 ** (number / 2**53)) - 1] for number in row[2:]]
                lines.append(f"{' '.join(chosen[: 1 + row[0] % 24])}\t{' '.join(chosen[24 : 25 + row[1] % 24])}\n")
            file.write("".join(lines).encode())


def stages(path: Path) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """Each stage takes the results of those before it."""
    return {
        "read": lambda done: read_tsv(path),
        "words": lambda done: [data.Vocabulary.build(side()) for side in (done["read"].sources, done["read"].targets)],
        "encode": lambda done: data.Encoded.of(done["read"], *done["words"]),
        "bucket": lambda done: data.Batches(done["encode"], max_tokens=TOKENS).epoch(0),
        "batches": lambda done: sum(len(batch) for batch in done["bucket"]),
    }


def obvious_stages(path: Path) -> dict[str, Callable[[dict[str, Any]], Any]]:
    """The same with Python's own lists."""

    def read(done: dict[str, Any]) -> list[list[str]]:
        with path.open(encoding="utf-8") as file:
            return [line.rstrip("\n").split("\t") for line in file]

    def words(done: dict[str, Any]) -> list[dict[str, int]]:
        known: list[dict[str, int]] = [{}, {}]
        for pair in done["read"]:
            for numbers, text in zip(known, pair, strict=True):
                for word in text.split():
                    numbers.setdefault(word, len(numbers))
        return known

    def encode(done: dict[str, Any]) -> list[list[list[int]]]:
        return [
            [[numbers[word] for word in text.split()] for numbers, text in zip(done["words"], pair, strict=True)]
            for pair in done["read"]
        ]

    return {"read": read, "words": words, "encode": encode}


def measure(
    way: Callable[[Path], dict[str, Callable[[dict[str, Any]], Any]]], path: Path, last: str
) -> dict[str, float]:
    """The seconds of the last stage and the peak memory in bytes of all up to it, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_measure, (way, path, last))


def _measure(
    way: Callable[[Path], dict[str, Callable[[dict[str, Any]], Any]]], path: Path, last: str
) -> dict[str, float]:
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before = memory("VmRSS")
    done: dict[str, Any] = {}
    seconds = 0.0
    for name, work in way(path).items():
        start = time.perf_counter()
        done[name] = work(done)
        seconds = time.perf_counter() - start
        if name == last:
            break
    return {"seconds": seconds, "bytes": memory("VmHWM") - before}


def memory(name: str) -> int:
    """What Linux says of this process's memory, in bytes: VmRSS is what it has, VmHWM the most it has had."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{name}:\s+(\d+) kB", status)[1])  # type: ignore[index]


def million(pairs: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.tsv"
        write_pairs(path, pairs)
        text = path.stat().st_size
        rows = []
        for name in track(STAGES, description="measuring", transient=True):
            ours = measure(stages, path, name)
            row = {"stage": name, "pairs_per_second": pairs / ours["seconds"], "memory_over_text": ours["bytes"] / text}
            if name in obvious_stages(path):
                theirs = measure(obvious_stages, path, name)
                row |= {
                    "lists_pairs_per_second": pairs / theirs["seconds"],
                    "lists_memory_over_text": theirs["bytes"] / text,
                }
            rows.append(row)
    return {"pairs": pairs, "text_bytes": text, "tokens_in_a_batch": TOKENS, "stages": rows}


def tasks() -> list[dict[str, Any]]:
    """What it takes to have a task that is made from its grammar."""
    rows = []
    for name in (name for name in data.TASKS if not name.startswith("multi30k")):
        scan.everything.cache_clear()
        start = time.perf_counter()
        task = data.load(name)
        seconds = time.perf_counter() - start
        rows.append({"task": name, "seconds": seconds, "pairs": sum(map(len, task.splits.values()))})
    return rows


def markdown(results: dict[str, Any]) -> str:
    big = results["million"]
    how = f"{results['hardware']}; commit {results['commit']}; {results['date']}; seed {results['seed']}"
    lines = [
        "# Data",
        "",
        f"{how}; `{results['command']}`",
        "",
        f"{big['pairs']:,} pairs, {big['text_bytes'] / 1e6:.0f} MB; batches of {big['tokens_in_a_batch']:,} tokens. "
        "Memory is the peak above the imports, as a multiple of the file, up to and with the stage. Lists: the same "
        "with Python's own lists of strings and of numbers.",
        "",
        "| stage | pairs/s | memory / text | lists: pairs/s | lists: memory / text |",
        "|---|---|---|---|---|",
    ]
    for row in big["stages"]:
        lists = [row.get("lists_pairs_per_second"), row.get("lists_memory_over_text")]
        shown = ["" if lists[0] is None else f"{lists[0]:,.0f}", "" if lists[1] is None else f"{lists[1]:.1f}"]
        lines.append(
            f"| {row['stage']} | {row['pairs_per_second']:,.0f} | {row['memory_over_text']:.1f} | {' | '.join(shown)} |"
        )
    lines += ["", "| task made from its grammar | pairs | seconds |", "|---|---|---|"]
    lines += [f"| {row['task']} | {row['pairs']:,} | {row['seconds']:.2f} |" for row in results["tasks"]]
    return "\n".join(lines) + "\n"


def show(results: dict[str, Any]) -> None:
    table = Table("stage", "pairs/s", "memory/text", "lists: pairs/s", "lists: memory/text")
    for row in results["million"]["stages"]:
        lists = [row.get("lists_pairs_per_second", 0), row.get("lists_memory_over_text", 0)]
        table.add_row(
            row["stage"],
            f"{row['pairs_per_second']:,.0f}",
            f"{row['memory_over_text']:.1f}",
            f"{lists[0]:,.0f}",
            f"{lists[1]:.1f}",
        )
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="how many; fewer write nothing")
    parser.add_argument("--commit", help="what to record as the commit, where the sources are not a git checkout")
    arguments = parser.parse_args()
    results = record.circumstances(torch.device("cpu"), arguments.commit) | {"seed": SEED}
    results |= {"million": million(arguments.pairs), "tasks": tasks()}
    show(results)
    if arguments.pairs >= 1_000_000:
        path = record.ROOT / "benchmarks" / "results" / "data.json"
        write(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        write(path.with_suffix(".md"), markdown(results))
        print(f"written to {path.relative_to(record.ROOT)} and .md")


if __name__ == "__main__":
    main()
