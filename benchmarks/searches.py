"""Which search gives a trained model's best answers, and what does it take? Answer a set by each of them.

    python benchmarks/searches.py RUN [--set test] [--pairs 500] [--candidates 8 32] [--length-penalty 0 0.6 1]
        [--beam 1 5] [--root FOLDER] [--device cuda]

What stands in several words is tried with each of them. Choose by the validation set, which is the default; look at the
test set once. Prints BLEU, or the share of answers that are just right where the task is made by a grammar, with the
seconds that answering took, and writes it to benchmarks/results/, named after the folder of the run.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from torch_ctree import Seq2Seq, evaluation
from torch_ctree.circumstances import circumstances, keep
from torch_ctree.cli.runs import open_model, settings_of
from torch_ctree.data import Pairs
from torch_ctree.evaluation import Prediction, answer_all

ROOT = Path(__file__).resolve().parent.parent


def searches(model: Seq2Seq, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The settings to try: those that make a difference to the decoder."""
    penalties, candidates = given.length_penalty, given.candidates
    own = {name: getattr(given, name) for name in model.decoder.goes_by}
    for values in itertools.product(*own.values()):
        yield {"search": "tree", **dict(zip(own, values, strict=True))}
    others = [
        search for search in model.decoder.searches if search == "risk" or (search == "sentence" and model.has_trees)
    ]
    for search, some, penalty in itertools.product(others, candidates, penalties):
        yield {"search": search, "candidates": some, "length_penalty": penalty}


def measured(
    model: Seq2Seq, pairs: Pairs, has_gold: bool, tokenised: bool, batch_size: int
) -> dict[str, float | str | None]:
    """How good the answers are, how long, and how long they took; what is compiled at first has been."""
    sources, targets = list(pairs.sources()), list(pairs.targets())
    answer_all(model, sources[:2], batch_size=batch_size)
    start = time.perf_counter()
    outputs = answer_all(model, sources, batch_size=batch_size)  # text: the device has done all of it
    seconds = time.perf_counter() - start
    rows = enumerate(zip(sources, targets, outputs, strict=True))
    found = [Prediction("", row, source, target, output, 0.0) for row, (source, target, output) in rows]
    bleu = None if has_gold else evaluation.bleu(outputs, targets, tokenised=tokenised)
    return {
        "bleu": None if bleu is None else bleu.score,
        "signature": None if bleu is None else bleu.signature,
        "exact_match": evaluation.exact_match(found),
        "words_of_reference": sum(len(text.split()) for text in outputs) / sum(len(text.split()) for text in targets),
        "seconds": seconds,
    }


def table(results: dict[str, Any]) -> str:
    """As Markdown."""
    rows = results["searches"]
    signature = rows[0]["signature"]
    by_bleu = signature is not None
    where = f"commit {results['commit']}, {results['hardware']}, torch {results['versions']['torch']}"
    lines = [
        f"`{results['command']}`, {where}",
        "",
        f"{results['model']}, {results['task']}, {results['set']}: {results['pairs']:,} pairs, "
        f"{results['batch_size']} at a time." + (f" BLEU: {signature}." if by_bleu else ""),
        "",
        f"| search | {'BLEU | ' if by_bleu else ''}exact match | words, as a share of the references' | seconds |",
        "|---|" + (4 if by_bleu else 3) * "--:|",
    ]
    for row in rows:
        name = ", ".join(f"{setting} {value}" for setting, value in row["settings"].items())
        bleu = f"{row['bleu']:.2f} | " if by_bleu else ""
        share = f"{row['words_of_reference']:.2f}"
        lines.append(f"| {name} | {bleu}{row['exact_match']:.2%} | {share} | {row['seconds']:.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a run")
    parser.add_argument("--set", default="validation", help="of the task: validation, test, …")
    parser.add_argument("--pairs", type=int, help="the first so many; by default all")
    parser.add_argument("--candidates", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--length-penalty", type=float, nargs="+", default=[0.0, 0.6, 1.0])
    parser.add_argument("--beam", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--root", help="the folder with data files, by default as in training")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--commit", help="what to record as the commit, where the sources are not a git checkout")
    given = parser.parse_args()
    model, config = open_model(given.run, given.device), settings_of(given.run, given.root)
    task = config.data.load()
    pairs = task.sets[given.set]
    pairs = Pairs.of(itertools.islice(zip(pairs.sources(), pairs.targets(), strict=True), given.pairs))
    path = ROOT / "benchmarks" / "results" / f"searches-{Path(given.run).name}.json"
    results = circumstances(torch.device(given.device), given.commit)
    for place, name in ((given.run, Path(given.run).name), (given.root, "FOLDER")):  # where it was is nobody's business
        results["command"] = results["command"].replace(place or name, name)
    results |= {
        "task": task.name,
        "set": given.set,
        "pairs": len(pairs),
        "batch_size": given.batch_size,
        "model": f"{model.config.encoder} + {model.config.decoder}, {model.parameter_count:,} parameters",
        "searches": [],
    }
    for settings in searches(model, given):
        other = model.with_search(**settings)
        found = measured(other, pairs, task.gold is not None, config.is_tokenised, given.batch_size)
        results["searches"].append({"settings": settings, **found})
    keep(path, results, table(results))
    Console(width=120).print(table(results), markup=False, highlight=False)
    print(f"written to {path.relative_to(ROOT)} and .md")


if __name__ == "__main__":
    main()
