"""Read, encode and batch a million sentence pairs: pairs per second, and memory as a multiple of the text.

python benchmarks/data.py [--pairs N]

Every stage runs in a process of its own, which also does the stages it needs; its peak memory is counted above what the
imports need (on Linux). Beside it, in the same run, the obvious way: lists of strings and of token ids. Writes
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

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from torch_ctree import data
from torch_ctree.circumstances import circumstances, keep
from torch_ctree.data.disk import whole
from torch_ctree.data.files import read_jsonl, read_tsv

ROOT = Path(__file__).resolve().parent.parent
SEED = 0
BLOCK = 10_000  # lines written at once
TOKENS = 4096  # in a batch
PART = 10  # subwords are learnt and used on one in so many pairs
HEADS = ["stage", "pairs/s", "memory / text", "lists: pairs/s", "lists: memory / text"]

Done = dict[str, Any]
Stages = dict[str, Callable[[Done], Any]]


def write_pairs(path: Path, pairs: int) -> None:
    """Lines of 1 to 24 words a side, from 20,000 words that come as unevenly as words do (Zipf)."""
    words = [f"wort{n}" for n in range(20_000)]
    bits = np.random.PCG64(SEED)
    with whole(path) as file, whole(path.with_suffix(".jsonl")) as other:
        for start in track(range(0, pairs, BLOCK), description="writing the pairs", transient=True):
            for row in (bits.random_raw((min(BLOCK, pairs - start), 50)) >> 11).tolist():
                chosen = [words[int(20_000 ** (number / 2**53)) - 1] for number in row[2:]]
                source, target = " ".join(chosen[: 1 + row[0] % 24]), " ".join(chosen[24 : 25 + row[1] % 24])
                file.write(f"{source}\t{target}\n".encode())
                other.write((json.dumps({"source": source, "target": target}) + "\n").encode())


def ours(path: Path) -> dict[str, Stages]:
    """Chains of stages; each stage takes the results of those before it in its chain."""
    read = {"read": lambda done: read_tsv(path)}
    return {
        "words": read
        | {
            "words": lambda done: [
                data.Vocabulary.build(done["read"].sources()),
                data.Vocabulary.build(done["read"].targets()),
            ],
            "encode": lambda done: data.Encoded.of(done["read"], *done["words"]),
            "bucket": lambda done: data.Batches(done["encode"], max_tokens=TOKENS).epoch(0),
            "batches": lambda done: sum(len(batch) for batch in done["bucket"]),
        },
        "JSON lines": {"read JSON lines": lambda done: read_jsonl(path.with_suffix(".jsonl"))},
        "subwords": read
        | {
            "learn subwords": lambda done: data.Subwords.train(text for pair in done["read"][::PART] for text in pair),
            "encode in subwords": lambda done: data.Encoded.of(done["read"][::PART], *[done["learn subwords"]] * 2),
        },
    }


def lists(path: Path) -> dict[str, Stages]:
    """The same with Python's own lists."""

    def read(done: Done) -> list[list[str]]:
        with path.open(encoding="utf-8") as file:
            return [line.rstrip("\n").split("\t") for line in file]

    def words(done: Done) -> list[dict[str, int]]:
        known: list[dict[str, int]] = [{}, {}]
        for pair in done["read"]:
            for numbers, text in zip(known, pair, strict=True):
                for word in text.split():
                    numbers.setdefault(word, len(numbers))
        return known

    def encode(done: Done) -> list[list[list[int]]]:
        return [
            [[numbers[word] for word in text.split()] for numbers, text in zip(done["words"], pair, strict=True)]
            for pair in done["read"]
        ]

    return {"words": {"read": read, "words": words, "encode": encode}}


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)


def measure(way: Callable[[Path], dict[str, Stages]], path: Path, chain: str, last: str) -> dict[str, float]:
    """The seconds of the last stage, and the peak memory in bytes of all up to it."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    before = memory("VmRSS")
    done: Done = {}
    seconds = 0.0
    for name, work in way(path)[chain].items():
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
        measured: dict[str, str] = {}
        for chain, stages in ours(path).items():
            for stage in stages:
                measured.setdefault(stage, chain)
        rows = []
        for stage, chain in track(measured.items(), description="measuring", transient=True):
            part = PART if "subwords" in stage else 1
            row: dict[str, Any] = {"stage": stage, "one_in": part}
            for way in (ours, lists):
                if stage in way(path).get(chain, {}):
                    found = alone(measure, way, path, chain, stage)
                    size = path.with_suffix(".jsonl").stat().st_size if "JSON" in stage else text
                    row[way.__name__] = {
                        "pairs_per_second": pairs / part / found["seconds"],
                        "memory": found["bytes"] / size,
                    }
            rows.append(row)
    return {"pairs": pairs, "text_bytes": text, "tokens_in_a_batch": TOKENS, "stages": rows}


def time_task(name: str) -> dict[str, Any]:
    """What it takes to have a task that is made from its grammar, in a folder without official files."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        task = data.load(name, folder)
        seconds = time.perf_counter() - start
    return {"task": name, "seconds": seconds, "pairs": sum(map(len, task.sets.values()))}


def cells(row: dict[str, Any]) -> list[str]:
    name = row["stage"] + (f" (one pair in {row['one_in']})" if row["one_in"] > 1 else "")
    both = [row.get(way) for way in ("ours", "lists")]
    return [
        name,
        *(
            part
            for way in both
            for part in (("", "") if way is None else (f"{way['pairs_per_second']:,.0f}", f"{way['memory']:.1f}"))
        ),
    ]


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
        f"| {' | '.join(HEADS)} |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(cells(row))} |" for row in big["stages"]),
        "",
        "| task made from its grammar | pairs | seconds |",
        "|---|---|---|",
        *(f"| {row['task']} | {row['pairs']:,} | {row['seconds']:.2f} |" for row in results["tasks"]),
    ]
    return "\n".join(lines) + "\n"


def show(results: dict[str, Any]) -> None:
    table = Table(*HEADS)
    for row in results["million"]["stages"]:
        table.add_row(*cells(row))
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="how many; fewer write nothing")
    parser.add_argument("--commit", help="what to record as the commit, where the sources are not a git checkout")
    arguments = parser.parse_args()
    results = circumstances(torch.device("cpu"), arguments.commit) | {"seed": SEED}
    results["million"] = million(arguments.pairs)
    results["tasks"] = [alone(time_task, name) for name in data.TASKS if not name.startswith("multi30k")]
    show(results)
    if arguments.pairs >= 1_000_000:
        path = ROOT / "benchmarks" / "results" / "data.json"
        keep(path, results, markdown(results))
        print(f"written to {path.relative_to(ROOT)} and .md")


if __name__ == "__main__":
    main()
