"""``ctree decode`` and ``ctree parse``: what a trained model answers, and the trees it sees."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console

from torch_ctree.cli.console import console, say, show_tree
from torch_ctree.cli.memory import within_memory
from torch_ctree.cli.runs import check_count, open_model
from torch_ctree.data import DataError, Vocabulary
from torch_ctree.data.disk import finite
from torch_ctree.data.errors import place, shown
from torch_ctree.evaluation.evaluating import in_brackets
from torch_ctree.models import Answer, ModelError, Seq2Seq
from torch_ctree.models.configuration import Search
from torch_ctree.models.decoders import Grammar
from torch_ctree.models.explaining import Parsed, explain, explain_target
from torch_ctree.trees import TreePosterior
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look, visible
from torch_ctree.viewing import save as save_tree
from torch_ctree.viewing.look import PLAIN
from torch_ctree.viewing.saving import check_ending

if TYPE_CHECKING:
    from nltk import Tree

MOST = 1000
"""Answers or trees for one sentence, at most."""
AT_ONCE = 50
"""Sources of a file that are answered together."""
TREES = 3
"""That ``parse`` shows, unless told how many."""
LEAST = 1e-6
"""Probabilities up to this are left out of what JSON shows."""


def decode(
    run: str,
    text: str | None = None,
    /,
    *,
    file: str | None = None,
    topk: int = 1,
    depth: int | None = None,
    search: Search | None = None,
    candidates: int | None = None,
    beam: int | None = None,
    length_penalty: float | None = None,
    json_: bool = False,
    save: str | None = None,
    probabilities: bool = False,
    confidence: bool = False,
    fold: bool = False,
    device: str = "auto",
) -> None:
    """Answer a source with a trained model, and show the tree.

    run: the folder of a run, example (the model that ships), or hf:owner/name on the Hugging Face Hub
    text: a source
    file: a file of sources, one a line, in place of one; - is the standard input
    topk: how many answers, best first
    depth: of the tree, which may be another than in training
    search: which answer is given: tree, sentence or risk (default: what the model has; so are the next three)
    candidates: of the searches sentence and risk: how many derivations, or how wide a beam, to choose from
    beam: of a sequential decoder
    length_penalty: how much longer answers are preferred, by a tree or a beam, and by sentence and risk
    json_: one JSON object a line, for programs
    save: a file for the tree of the best answer: a drawing as .svg, .png, .pdf, .tex or .txt, brackets as .mrg, all
        that is known as .json
    probabilities: show how probable each split and each word is
    confidence: show how sure the model is of each constituent of its answer
    fold: show repeated parts once
    device: cpu, cuda, …
    """
    check_count("topk", topk, MOST)
    if (text is None) == (file is None):
        raise ModelError("decode: expected one source, such as 'jump twice', or --file with many")
    if save is not None and text is None:
        raise ModelError(f"save: got {shown(save)} with --file; expected the source itself: a file has one tree")
    look = _look(save, probabilities, confidence, fold)
    model, terminal = open_model(run, device).with_search(search, candidates, beam, length_penalty), console()
    if not model.has_trees and (save is not None or look != PLAIN):
        raise ModelError(f"decode: the decoder {model.config.decoder!r} has no trees to draw or to save")
    about, is_explained = _of_what(model, topk), save is not None or probabilities or confidence
    sources = iter([("source", text)] if text is not None else _lines(str(file)))
    while some := list(islice(sources, AT_ONCE)):
        for where, source in some:
            _check_source(where, source, model)
        with within_memory():
            found = model.answers([source for _, source in some], topk, depth)
        for (_, source), answers in zip(some, found, strict=True):
            trees = [answer.tree for answer in answers]
            if is_explained:
                with within_memory():
                    known = explain(model, source, topk, depth)
                trees = [one.tree or tree for one, tree in zip(known, trees, strict=True)]
            if save is not None:
                _save(trees[0] if trees else None, save, look)
            if json_:
                _print_json({"source": source, "answers": [_plain(answer) for answer in answers]})
            else:
                _show_answers(terminal, source, answers, trees, about, look)


def _look(save: str | None, probabilities: bool, confidence: bool, fold: bool) -> Look:
    """How trees are drawn; what cannot be saved is said before anything is computed."""
    if save is not None:
        check_ending(save)
    return Look(probabilities=probabilities, confidence=confidence, fold=fold)


def _save(tree: Vertex | Tree | None, path: str, look: Look) -> None:
    if tree is None:
        raise ModelError(f"save: {path}: not written: no answer has a probability above zero")
    save_tree(tree, path, look)


def _check_source(where: str, source: str, model: Seq2Seq) -> None:
    """What is wrong with it, said with where it stands."""
    _check_utf8(where, source)
    _warn_unknown(source, model.source)
    try:
        model.source.encode(source)
    except DataError as error:
        raise ModelError(f"{where}: {error}") from error


def _of_what(model: Seq2Seq, topk: int) -> str:
    """What it is whose probability stands beside an answer."""
    if not model.has_trees:
        return "of the answer"
    is_grammar = isinstance(model.decoder, Grammar)
    if model.config.search != "tree" or (is_grammar and topk > 1):
        return "of the answer, over all its trees"
    return "with this tree and its phrases" if is_grammar else "with this tree"


def _show_answers(
    terminal: Console,
    source: str,
    answers: Sequence[Answer],
    trees: Sequence[Vertex | Tree | None],
    about: str,
    look: Look,
) -> None:
    say(terminal, visible(source), "cyan")
    for answer, tree in zip(answers, trees, strict=True):
        say(terminal, visible(answer.text), "green")
        say(terminal, f"probability {math.exp(answer.log_prob):.4g} {about}", "dim")
        if tree is not None:
            show_tree(terminal, tree, look)
    if not answers:
        say(terminal, "no answer has a probability above zero")


def _plain(answer: Answer) -> dict[str, Any]:
    return {"text": answer.text, "log_prob": answer.log_prob, "tree": in_brackets(answer.tree)}


def parse(
    run: str,
    source: str | None = None,
    target: str | None = None,
    topk: int | None = None,
    depth: int | None = None,
    json_: bool = False,
    save: str | None = None,
    probabilities: bool = False,
    confidence: bool = False,
    fold: bool = False,
    device: str = "auto",
) -> None:
    """Find the trees of a target given its source: the best one, the next ones, and how sure the model is.

    run: the folder of a run, example (the model that ships), or hf:owner/name on the Hugging Face Hub
    source: what the target answers
    target: the sentence to parse
    topk: how many trees: 3, or of a grammar, whose best tree alone is found, 1
    depth: of the tree, which may be another than in training; a grammar's has any
    json_: one JSON object, for programs; it has the marginals too, the probability of each vertex for each word, or
        of a grammar the probability of each part of the target that is more than a word
    save: a file for the best tree: a drawing as .svg, .png, .pdf, .tex or .txt, brackets as .mrg, all that is known as
        .json
    probabilities: show how probable each split and each word is
    confidence: show how sure the model is of each constituent of the target
    fold: show repeated parts once
    device: cpu, cuda, …
    """
    if topk is not None:
        check_count("topk", topk, MOST)
    if source is None or target is None:
        raise ModelError("parse: expected a pair, such as --source 'jump twice' --target 'I_JUMP I_JUMP'")
    look = _look(save, probabilities, confidence, fold)
    model, terminal = open_model(run, device), console()
    for name, text, words in (("source", source, model.source), ("target", target, model.target)):
        _check_utf8(name, text)
        _warn_unknown(text, words)
    is_grammar = isinstance(model.decoder, Grammar)
    if is_grammar and topk not in (None, 1):
        raise ModelError(f"topk: got {topk}; expected 1: with the decoder 'grammar' only the best tree is found")
    with within_memory():
        parsed = explain_target(model, source, target, TREES if topk is None else topk, depth)
    if not parsed.trees:
        depth = model.config.depth if depth is None else depth
        kind = "over the phrases of this source can have it" if is_grammar else f"of depth {depth} can have it"
        raise ModelError(f"target: {shown(target)}: no tree {kind}{'' if is_grammar else '; raise --depth'}")
    if save is not None:
        save_tree(parsed.trees[0][0], save, look)
    if json_:
        listed = [{"tree": in_brackets(tree.to_nltk()), "probability": share} for tree, share in parsed.trees]
        entropy = {} if parsed.entropy is None else {"entropy": parsed.entropy}
        found = {"source": source, "target": target, "log_prob": parsed.log_prob, **entropy, "trees": listed}
        more = {"spans": _spans(parsed)} if is_grammar else {"marginals": _marginals(model, source, target, depth)}
        _print_json(found | more)
    else:
        say(terminal, visible(source), "cyan")
        say(terminal, visible(target), "green")
        _show_parsed(terminal, parsed, look)


def _show_parsed(terminal: Console, parsed: Parsed, look: Look) -> None:
    log_prob = parsed.log_prob
    say(terminal, f"probability of the target, over all trees: {math.exp(log_prob):.4g} (log {log_prob:.4f})")
    if parsed.entropy is not None:
        say(terminal, f"entropy of its trees: {parsed.entropy:.4f} nats")
    for n, (tree, share) in enumerate(parsed.trees):
        say(terminal, f"tree {n + 1}: probability {share:.4f} given the target")
        if n == 0:
            show_tree(terminal, tree, look)
        else:
            say(terminal, f"  {visible(str(in_brackets(tree.to_nltk())))}")


def _spans(parsed: Parsed) -> list[dict[str, float]]:
    """The parts of more than one word, from word ``start`` to before word ``end``, with probability."""
    return [
        {"start": i, "end": j + 1, "probability": probability}
        for i, row in enumerate(parsed.spans)
        for j, probability in enumerate(row)
        if i < j and probability > LEAST
    ]


def _marginals(model: Seq2Seq, source: str, target: str, depth: int | None) -> list[dict[str, float]]:
    """For each word the vertices that say it, with probability."""
    with torch.no_grad():
        posterior = model.parse(source, target, depth)
        assert isinstance(posterior, TreePosterior)
        rows = posterior.marginals()[0]
    return [{str(v): row[v].item() for v in row.nonzero().flatten().tolist() if row[v] > LEAST} for row in rows]


def _lines(file: str) -> Iterator[tuple[str, str]]:
    """(where it stands, source), one a line."""
    if not file or (file == "-" and sys.stdin is None):
        raise ModelError("file: got nothing; expected a file of sources, or - for the standard input")
    try:
        text = (sys.stdin.read() if file == "-" else place(file).read_text(encoding="utf-8")).removeprefix("\ufeff")
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


def _print_json(value: dict[str, Any]) -> None:
    print(json.dumps(finite(value), ensure_ascii=False))
