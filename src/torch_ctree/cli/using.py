"""``ctree evaluate``, ``decode`` and ``parse``: what to do with a trained model."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from torch_ctree import evaluation, training
from torch_ctree.cli.console import console, drawn, say, visible
from torch_ctree.data import DataError, Vocabulary
from torch_ctree.data.disk import read_json, write
from torch_ctree.data.errors import place, shown, told
from torch_ctree.evaluation.evaluating import in_brackets
from torch_ctree.models import Answer, ModelError, Seq2Seq
from torch_ctree.models.pretrained import HUB
from torch_ctree.training import TrainConfig, TrainingError

MOST = 1000
"""Answers or trees for one sentence, at most."""
LENGTHS = 12
"""Rows of the table by length, at most."""


def evaluate(
    run: str,
    set_: str | None = None,
    batch_size: int = 100,
    depth: int | None = None,
    root: str | None = None,
    device: str = "auto",
) -> None:
    """Test a trained model; writes predictions.jsonl and evaluation.json into the run's folder.

    run: the folder of a run
    set_: of the task: test, validation, gen, … (default: all that are not for training or choosing)
    batch_size: sentences at a time
    depth: of the tree, which may be another than in training
    root: the folder with data files (default: as in training)
    device: cpu, cuda, …
    """
    _check_count("batch-size", batch_size)
    model, config = _open(run, device), _settings(run)
    data = config.data if root is None else training.DataConfig(**{**vars(config.data), "root": root})
    task = data.load()
    if set_ is not None and set_ not in task.sets:
        raise TrainingError(f"{task.name} has no set {set_!r}; it has {', '.join(task.sets)}")
    names = [set_] if set_ else [name for name in task.sets if name not in ("train", "validation")]
    terminal, folder = console(), place(run)
    tokenised = config.vocabulary.kind == "words" if data.is_own else data.form != "raw"
    results, rows = {}, []
    for name in names:
        predictions = _predictions(model, task, name, batch_size, depth)
        result = evaluation.evaluate(predictions, task, tokenised)
        results[name if depth is None else f"{name} at depth {depth}"] = result.to_dict()
        rows += predictions
        _show(terminal, name, result)
    evaluation.write_predictions(folder / "predictions.jsonl", rows)
    everything = _known_results(folder / "evaluation.json") | _finite(results)
    write(folder / "evaluation.json", json.dumps(everything, indent=2) + "\n")
    say(terminal, f"every answer: {folder / 'predictions.jsonl'}; these numbers: {folder / 'evaluation.json'}")


def _known_results(path: Path) -> dict[str, Any]:
    """What was found before: of other sets, at other depths."""
    try:
        known = read_json(path)
    except DataError:
        return {}
    return known if isinstance(known, dict) else {}


def _predictions(
    model: Seq2Seq, task: Any, name: str, batch_size: int, depth: int | None
) -> list[evaluation.Prediction]:
    """In the order of the set."""
    found: list[evaluation.Prediction] = []
    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        line = bar.add_task(name, total=len(task.sets[name]))
        for some in evaluation.predict(model, task, name, batch_size=batch_size, depth=depth):
            found += some
            bar.advance(line, len(some))
    return sorted(found, key=lambda prediction: prediction.row)


def _show(terminal: Console, name: str, result: evaluation.Evaluation) -> None:
    say(terminal, f"{name}: {result.pairs:,} pairs", "bold")
    for label, value in (
        ("exact match", result.exact_match),
        ("first word", result.first_word),
        ("token accuracy", result.token_accuracy),
    ):
        say(terminal, f"  {label:<16}{value:8.2%}")
    say(terminal, f"  {'loss':<16}{result.loss:8.4f}   nats for each target word")
    if result.bleu is not None:
        say(terminal, f"  {'BLEU':<16}{result.bleu.score:8.2f}   {result.bleu.signature}")
    if result.tree_f1 is not None and result.baselines is not None:
        beside = ", ".join(f"{kind} {value:.1%}" for kind, value in result.baselines.items())
        say(terminal, f"  {'tree F1':<16}{result.tree_f1.sentence_f1:8.2%}   best trees of the true targets ({beside})")
    terminal.print(_length_table(result))


def _length_table(result: evaluation.Evaluation) -> Table:
    """Exact match by length, lengths put together where there are many."""
    table = Table("target words", "pairs", "exact match", box=None, header_style="bold", padding=(0, 2, 0, 0))
    lengths = sorted(result.by_length)
    size = -(-len(lengths) // LENGTHS)
    for first in range(0, len(lengths), size):
        some = lengths[first : first + size]
        right, total = (sum(getattr(result.by_length[n], field) for n in some) for field in ("right", "total"))
        span = f"{some[0]}" if len(some) == 1 else f"{some[0]}–{some[-1]}"
        table.add_row(f"  {span}", f"{total:,}", f"{right / total:.2%}")
    return table


def decode(
    run: str,
    text: str | None = None,
    /,
    *,
    file: str | None = None,
    topk: int = 1,
    depth: int | None = None,
    json_: bool = False,
    device: str = "auto",
) -> None:
    """Answer a source with a trained model, and show the tree.

    run: the folder of a run, or hf:owner/name on the Hugging Face Hub
    text: a source
    file: a file of sources, one a line, in place of one; - is the standard input
    topk: how many answers, best first
    depth: of the tree, which may be another than in training
    json_: one JSON object a line, for programs
    device: cpu, cuda, …
    """
    _check_count("topk", topk, MOST)
    if (text is None) == (file is None):
        raise ModelError("decode: expected one source, such as 'jump twice', or --file with many")
    model, terminal = _open(run, device), console()
    for where, source in [("source", text)] if text is not None else _lines(str(file)):
        _check_utf8(where, source)
        _warn_unknown(source, model.source)
        try:
            answers = model.answer(source, topk, depth)
        except DataError as error:
            raise ModelError(f"{where}: {str(error).removeprefix('source 1: ')}") from error
        if json_:
            _print_json({"source": source, "answers": [_plain(answer) for answer in answers]})
        else:
            _show_answers(terminal, source, answers)


def _show_answers(terminal: Console, source: str, answers: Sequence[Answer]) -> None:
    say(terminal, visible(source), "cyan")
    for answer in answers:
        say(terminal, visible(answer.text), "green")
        about = "with this tree" if answer.tree is not None else "of the answer"
        say(terminal, f"probability {math.exp(answer.log_prob):.4g} {about}", "dim")
        if answer.tree is not None:
            say(terminal, drawn(answer.tree, terminal.width))
    if not answers:
        say(terminal, "no answer has a probability above zero")


def _plain(answer: Answer) -> dict[str, Any]:
    return {"text": answer.text, "log_prob": answer.log_prob, "tree": in_brackets(answer.tree)}


def parse(
    run: str,
    source: str | None = None,
    target: str | None = None,
    topk: int = 3,
    depth: int | None = None,
    json_: bool = False,
    device: str = "auto",
) -> None:
    """Find the trees of a target given its source: the best one, the next ones, and how sure the model is.

    run: the folder of a run, or hf:owner/name on the Hugging Face Hub
    source: what the target answers
    target: the sentence to parse
    topk: how many trees
    depth: of the tree, which may be another than in training
    json_: one JSON object, for programs; it has the marginals too, the probability of each vertex for each word
    device: cpu, cuda, …
    """
    _check_count("topk", topk, MOST)
    if source is None or target is None:
        raise ModelError("parse: expected a pair, such as --source 'jump twice' --target 'I_JUMP I_JUMP'")
    model, terminal = _open(run, device), console()
    for name, text, words in (("source", source, model.source), ("target", target, model.target)):
        _check_utf8(name, text)
        _warn_unknown(text, words)
    with torch.no_grad():
        posterior = model.parse(source, target, depth)
        log_prob = posterior.log_evidence()[0].item()
        if math.isinf(log_prob):
            depth = model.config.depth if depth is None else depth
            raise ModelError(f"target: {shown(target)}: no tree of depth {depth} can have it; raise --depth")
        entropy = max(0.0, posterior.entropy()[0].item())  # rounding may leave it just below
        best = posterior.topk(topk)[:, 0]
        marginals = posterior.marginals()[0]
    there = [n for n in range(topk) if not math.isinf(best.log_prob[n].item())]
    trees = [(best[n].trees(model.target.__getitem__)[0], best.log_prob[n].exp().item()) for n in there]
    if json_:
        found = {
            "source": source,
            "target": target,
            "log_prob": log_prob,
            "entropy": entropy,
            "trees": [{"tree": in_brackets(tree), "probability": share} for tree, share in trees],
            "marginals": [_vertices(row) for row in marginals],
        }
        _print_json(found)
        return
    say(terminal, visible(source), "cyan")
    say(terminal, visible(target), "green")
    say(terminal, f"probability of the target, over all trees: {math.exp(log_prob):.4g} (log {log_prob:.4f})")
    say(terminal, f"entropy of its trees: {entropy:.4f} nats")
    for n, (tree, share) in enumerate(trees):
        say(terminal, f"tree {n + 1}: probability {share:.4f} given the target")
        say(terminal, drawn(tree, terminal.width) if n == 0 else f"  {visible(str(in_brackets(tree)))}")


def _vertices(row: torch.Tensor) -> dict[str, float]:
    """(V,) → the vertices that say a word, with probability."""
    return {str(v): row[v].item() for v in row.nonzero().flatten().tolist() if row[v] > 1e-6}


# --- runs -------------------------------------------------------------------------------------------------------------


def _open(run: str, device: str) -> Seq2Seq:
    """The model of a run."""
    if not run:
        raise ModelError("run: got nothing; expected the folder of a run")
    with told():
        is_there = run.startswith(HUB) or place(run).is_dir()
    if not is_there:
        near = get_close_matches(run, [str(path) for path in Path("runs").glob("*/")], n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "train one first: ctree train --list"
        what = "a file, not the folder of a run" if place(run).exists() else "no such run"
        raise ModelError(f"{run}: {what}; {hint}")
    there = "cuda" if torch.cuda.is_available() else "cpu"
    device = there if device == "auto" else device
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        expected = "cpu" if there == "cpu" else "cpu or cuda"
        raise ModelError(f"device: got {device!r}, which is not here; expected {expected}") from error
    return Seq2Seq.from_pretrained(run).to(device)


def _settings(run: str) -> TrainConfig:
    """What a run was trained with."""
    path = place(run) / "config.yaml"
    if not path.is_file():
        raise TrainingError(f"{run}: no run of 'ctree train', config.yaml is missing; its test set is not known")
    return training.build(training.read(path))


def _lines(file: str) -> Iterator[tuple[str, str]]:
    """(where it stands, source), one a line."""
    if not file or (file == "-" and sys.stdin is None):
        raise ModelError("file: got nothing; expected a file of sources, or - for the standard input")
    try:
        text = sys.stdin.read() if file == "-" else place(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    for n, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{file}, line {n}", line


def _warn_unknown(text: str, vocabulary: object) -> None:
    """Where unknown words are read as <unk>, say so; where they are not, reading them is an error anyway."""
    if isinstance(vocabulary, Vocabulary) and vocabulary.unknown is not None:
        strange = [word for word in text.split() if word not in vocabulary]
        if strange:
            note = f"{', '.join(map(repr, strange))} not known from training, read as {vocabulary.unknown}"
            print(f"ctree: {visible(note)}", file=sys.stderr)


def _check_utf8(where: str, text: str) -> None:
    """Other bytes come from the command line as half surrogates."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise ModelError(f"{where}: got {shown(text)}; expected text in UTF-8")


def _check_count(name: str, value: int, most: int | None = None) -> None:
    if value < 1 or (most is not None and value > most):
        raise ModelError(f"{name}: got {value}; expected {f'1 to {most:,}' if most else '1 or more'}")


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(_finite(value), ensure_ascii=False))


def _finite(value: Any) -> Any:
    """With null for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
