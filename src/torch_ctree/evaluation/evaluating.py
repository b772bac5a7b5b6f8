"""What a model answers to a set of pairs, and how good that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from torch_ctree.data import Batch, Batches, Encoded, Example, Task, Vocabulary
from torch_ctree.data.disk import finite, read_json, write
from torch_ctree.data.errors import DataError
from torch_ctree.data.recasing import Written
from torch_ctree.devices import in_tf32
from torch_ctree.evaluation.accuracy import Share, by_length, exact_match, first_word, token_accuracy
from torch_ctree.evaluation.brackets import TreeF1, tree_f1
from torch_ctree.evaluation.constituents import SIMPLE, PhraseShare, phrase_share
from torch_ctree.evaluation.noun_phrases import RULES
from torch_ctree.evaluation.predictions import Prediction, write_predictions
from torch_ctree.evaluation.translation import Bleu, bleu
from torch_ctree.models import Decoded, Seq2Seq
from torch_ctree.models.pretrained import WEIGHTS
from torch_ctree.trees import Derivation

if TYPE_CHECKING:
    from nltk import Tree

PREDICTIONS, EVALUATION = "predictions.jsonl", "evaluation.json"
"""What ``keep`` leaves in the folder of a run."""


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on one set."""

    pairs: int
    exact_match: float
    first_word: float
    token_accuracy: float
    loss: float
    """−log p(target | source) for each target word, the mean over pairs; infinite where a target is impossible."""
    by_length: dict[int, Share]
    """Exact match by the number of target words."""
    bleu: Bleu | None = None
    """Of text; not for tasks made by a grammar."""
    bleu_written: Bleu | None = None
    """Where the text is tokenised and in lower case: of it with capitals and without blanks before marks."""
    tree_f1: TreeF1 | None = None
    """The best trees of the true targets, beside the gold ones."""
    baselines: dict[str, float] | None = None
    """The sentence-level tree F1 of trees that need no model."""
    phrases: PhraseShare | None = None
    """Noun phrases of the answers that are constituents; for translation into English or German."""
    target_phrases: PhraseShare | None = None
    """The same of the best trees of the true targets, which have the same phrases whatever the model."""

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file."""
        values = asdict(self)
        for name in ("bleu", "bleu_written"):
            score = getattr(self, name)
            values[name] = None if score is None else score._asdict()
        return values


def predict(
    model: Seq2Seq, task: Task, name: str, *, batch_size: int = 100, depth: int | None = None, tf32: bool = True
) -> Iterator[list[Prediction]]:
    """What a model answers to each pair of a set, a batch at a time, pairs of like lengths together.

    name: of the set
    depth: of the tree, which may be another than in training
    tf32: whether a GPU may multiply in TF32

    A model finds the best tree of each true target too, where it can be judged: for translation, and, a model of words,
    where the task has gold trees, which are trees of words.
    """
    pairs = task.sets[name]
    parse = _language(task) is not None or (task.gold is not None and isinstance(model.target, Vocabulary))
    try:
        encoded = Encoded.of(pairs, model.source, model.target)
    except DataError as error:
        raise DataError(f"{name} set, {error}") from error
    for batch in Batches(encoded, batch_size=batch_size, bucketed=True, shuffle=False).epoch(0):
        with torch.no_grad(), in_tf32(model.device, tf32):
            answers, scores, trees = _answers(model, batch.to(model.device), depth, parse)
        answers, scores = answers.to("cpu"), scores.cpu()  # at once: each sentence by itself would wait for a GPU
        trees = None if trees is None else trees.to("cpu")
        found = []
        for n, row in enumerate(batch.rows.tolist()):
            answer = model.spelled(answers, n)
            found.append(
                Prediction(
                    name,
                    row,
                    *pairs[row],
                    output=answer.text if answer else "",
                    log_prob=answers.log_prob[n].item(),
                    tree=in_brackets(answer.tree) if answer else None,
                    target_log_prob=scores[n].item(),
                    target_tree=in_brackets(_tree(model, trees, n)),
                )
            )
        yield found


def predict_all(
    model: Seq2Seq,
    task: Task,
    name: str,
    *,
    batch_size: int = 100,
    depth: int | None = None,
    tf32: bool = True,
    tell: Callable[[int], object] = lambda answered: None,
) -> list[Prediction]:
    """What a model answers to every pair of a set, in the order of the set; the rest as in ``predict``.

    tell: is told after each batch how many pairs it had
    """
    found: list[Prediction] = []
    for some in predict(model, task, name, batch_size=batch_size, depth=depth, tf32=tf32):
        found += some
        tell(len(some))
    return sorted(found, key=lambda prediction: prediction.row)


def _answers(model: Seq2Seq, batch: Batch, depth: int | None, parse: bool) -> tuple[Decoded, Tensor, Derivation | None]:
    """Answers, log p(target | source), and with parse the best trees of the targets."""
    if not model.has_trees:
        return model.decode(batch, depth=depth), model.score(batch, depth), None
    dist = model.distribution(batch, depth)
    posterior = dist.posterior(batch.target, batch.target_lengths)
    return model.best(dist), posterior.log_evidence(), model.best_trees(posterior) if parse else None


def _tree(model: Seq2Seq, trees: Derivation | None, n: int) -> Tree | None:
    """The n-th tree, where there is one."""
    if trees is None or bool(torch.isneginf(trees.log_prob[n])):
        return None
    return trees[n].trees(model.target.__getitem__)[0]


def in_brackets(tree: Tree | None) -> str | None:
    """On one line; words with brackets in them have -LRB- and -RRB-, as in treebanks, so that it can be read back."""
    if tree is None:
        return None
    tree = tree.copy(deep=True)
    for leaf in tree.treepositions("leaves"):
        tree[leaf] = str(tree[leaf]).replace("(", "-LRB-").replace(")", "-RRB-")
    return " ".join(str(tree).split())


def from_brackets(text: str) -> Tree:
    """The tree that ``in_brackets`` wrote."""
    from nltk import Tree  # noqa: PLC0415

    return Tree.fromstring(text, read_leaf=lambda leaf: leaf.replace("-LRB-", "(").replace("-RRB-", ")"))


def keep(folder: Path, predictions: Sequence[Prediction], results: Mapping[str, Evaluation]) -> tuple[Path, Path]:
    """Write predictions.jsonl and evaluation.json into the folder of a run → where they are.

    results: by name; what was found before with the same weights under other names stays
    """
    answers, numbers = folder / PREDICTIONS, folder / EVALUATION
    weights = sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    found = {name: {"weights": weights, **result.to_dict()} for name, result in results.items()}
    write_predictions(answers, predictions)
    write(numbers, json.dumps(_known(numbers, weights) | finite(found), indent=2) + "\n")
    return answers, numbers


def _known(path: Path, weights: str) -> dict[str, Any]:
    """What was found before with these weights: of other sets, at other depths."""
    try:
        known = read_json(path)
    except DataError:
        return {}
    here = known.items() if isinstance(known, dict) else []
    return {name: result for name, result in here if isinstance(result, dict) and result.get("weights") == weights}


def evaluate(predictions: Sequence[Prediction], task: Task, tokenised: bool = True) -> Evaluation:
    """How good predictions of one set are.

    tokenised: whether the text has blanks between all tokens, for BLEU
    """
    losses = [
        -(p.target_log_prob if p.target_log_prob is not None else -np.inf) / len(p.target.split()) for p in predictions
    ]
    f1, baselines = _trees(predictions, task)
    texts = ([p.output for p in predictions], [p.target for p in predictions])
    return Evaluation(
        pairs=len(predictions),
        exact_match=exact_match(predictions),
        first_word=first_word(predictions),
        token_accuracy=token_accuracy(predictions),
        loss=float(np.mean(losses)),
        by_length=by_length(predictions),
        bleu=None if task.gold else bleu(*texts, tokenised=tokenised),
        bleu_written=_bleu_written(predictions, task),
        tree_f1=f1,
        baselines=baselines,
        phrases=_phrases((p.tree for p in predictions), task),
        target_phrases=_phrases((p.target_tree for p in predictions), task),
    )


def _bleu_written(predictions: Sequence[Prediction], task: Task) -> Bleu | None:
    """BLEU against the targets as they were written, where these are known."""
    if task.written is None:
        return None
    written = _loaded(task.written)
    references = [written.targets[p.set][p.row] for p in predictions]
    return bleu([written.plain(p.output) for p in predictions], references, tokenised=False)


@lru_cache(maxsize=1)
def _loaded(written: Callable[[], Written]) -> Written:
    """For all sets of a task at once."""
    return written()


def _language(task: Task) -> str | None:
    """Of the targets, if it is one that noun phrases are known of."""
    return task.languages[1] if task.languages is not None and task.languages[1] in RULES else None


def _phrases(trees: Iterable[str | None], task: Task) -> PhraseShare | None:
    """Noun phrases that are constituents of trees in brackets."""
    language = _language(task)
    return None if language is None else phrase_share((from_brackets(tree) for tree in trees if tree), language)


def _trees(predictions: Sequence[Prediction], task: Task) -> tuple[TreeF1 | None, dict[str, float] | None]:
    """Tree F1, and that of trees that need no model."""
    if task.gold is None:
        return None, None
    from nltk import Tree  # noqa: PLC0415

    parsed = [p for p in predictions if p.target_tree is not None and len(p.target.split()) > 2]
    if not parsed:
        return None, None
    gold = [task.gold(Example(p.source, p.target)).target for p in parsed]
    found = [Tree.fromstring(str(p.target_tree)) for p in parsed]
    baselines = {
        name: tree_f1([(make(tree.leaves()), tree) for tree in gold]).sentence_f1 for name, make in SIMPLE.items()
    }
    return tree_f1(list(zip(found, gold, strict=True))), baselines
