"""What a model's answers and trees are made of: plain numbers for drawings, reports and the explorer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from torch_ctree.data import Encoder
from torch_ctree.models import choosing
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.seq2seq import Seq2Seq
from torch_ctree.trees import Derivation, LatentTree, TreePosterior
from torch_ctree.trees.checks import check_count
from torch_ctree.trees.topology import with_ancestors
from torch_ctree.trees.vertex import Vertex


@dataclass(frozen=True)
class Explained:
    """An answer, with what is known of each vertex of its tree."""

    source: tuple[str, ...]
    """Its words as the model reads them."""
    text: str
    log_prob: float
    """As in ``Answer``, but by a grammar over all its trees."""
    tree: Vertex | None
    """From a tree decoder."""
    spans: tuple[tuple[float, ...], ...] | None
    """[i][j]: the posterior probability that the words from i to j, included, are a constituent; 0 where i > j."""


@dataclass(frozen=True)
class Parsed:
    """The trees of a target."""

    source: tuple[str, ...]
    text: str
    """The target, as the model reads it."""
    log_prob: float
    """Of the target, over all trees; −inf where no tree can have it, and then there are no trees."""
    entropy: float | None
    """Of its trees, in nats; None of a grammar."""
    trees: tuple[tuple[Vertex, float], ...]
    """The best trees, with their probabilities given the target."""
    spans: tuple[tuple[float, ...], ...]
    """As in ``Explained``."""


@torch.no_grad()
def explain(model: Seq2Seq, source: str, k: int = 1, depth: int | None = None) -> list[Explained]:
    """The k best answers to a source, best first; fewer where there are not so many."""
    check_count("k", k)
    encoding = model.encode(model.batch([source]))
    found = choosing.answers(model.decoder, encoding, k, model.config, None, depth)[:, 0]
    if found.derivation is not None:
        return _explained(model, source, encoding, found.derivation, depth)
    spelled = (model.spelled(found, rank) for rank in range(k))
    words = _words(model.source, source)
    return [Explained(words, one.text, one.log_prob, None, None) for one in spelled if one is not None]


@torch.no_grad()
def explain_samples(
    model: Seq2Seq, source: str, count: int, seed: int = 0, depth: int | None = None
) -> list[Explained]:
    """Answers of a tree decoder drawn at random, each with its tree; the same for the same seed."""
    check_count("count", count)
    decoder, encoding = model.tree_decoder, model.encode(model.batch([source]))
    with torch.random.fork_rng(devices=[] if model.device.type == "cpu" else [model.device]):
        torch.manual_seed(seed)
        drawn = decoder.distribution(encoding, depth).sample((count,))[:, 0]
    return _explained(model, source, encoding, drawn, depth)


@torch.no_grad()
def explain_target(model: Seq2Seq, source: str, target: str, k: int = 1, depth: int | None = None) -> Parsed:
    """The k best trees of a target given its source; of a grammar one."""
    check_count("k", k)
    decoder, batch = model.tree_decoder, model.batch([source], [target])
    encoding = model.encode(batch)
    posterior = decoder.distribution(encoding, depth).posterior(batch.target, batch.target_lengths)
    if isinstance(posterior, TreePosterior):
        best, entropy = posterior.topk(k)[:, 0], max(0.0, posterior.entropy()[0].item())
    else:
        best, entropy = decoder.best_trees(posterior), None
    spans = posterior.span_marginals()
    best = best[best.log_prob > -math.inf]
    trees = _vertices(model, encoding, best, spans.expand(len(best.lengths), -1, -1).tolist(), depth)
    shares = best.log_prob.exp().tolist()
    return Parsed(
        _words(model.source, source),
        model.target.decode(batch.target[0].tolist()),
        posterior.log_evidence()[0].item(),
        entropy,
        tuple(zip(trees, shares, strict=True)),
        _spans(spans[0].tolist(), len(batch.target[0])),
    )


def _explained(
    model: Seq2Seq, source: str, encoding: Encoding, trees: Derivation, depth: int | None
) -> list[Explained]:
    """Derivations of one source, (k, N); those that are not there are left out."""
    trees = trees[trees.lengths > 0]
    dist = model.tree_decoder.distribution(encoding, depth)
    if isinstance(dist, LatentTree):
        posterior = dist.posterior(trees.tokens[:, None], trees.lengths[:, None])
        marginals, log_probs = posterior.span_marginals()[:, 0].tolist(), trees.log_prob.tolist()
    else:
        posterior = dist.rows(torch.zeros_like(trees.lengths)).posterior(trees.tokens, trees.lengths)
        marginals, log_probs = posterior.span_marginals().tolist(), posterior.log_evidence().tolist()
    vertices = _vertices(model, encoding, trees, marginals, depth)
    words, found = _words(model.source, source), []
    rows = zip(vertices, marginals, trees.tokens.tolist(), trees.lengths.tolist(), log_probs, strict=True)
    for vertex, spans, tokens, length, log_prob in rows:
        found.append(Explained(words, model.target.decode(tokens[:length]), log_prob, vertex, _spans(spans, length)))
    return found


Spans = Sequence[Sequence[float]]


def _spans(spans: Spans, length: int) -> tuple[tuple[float, ...], ...]:
    """(N, N) → (length, length)"""
    return tuple(tuple(row[:length]) for row in spans[:length])


def _vertices(
    model: Seq2Seq, encoding: Encoding, trees: Derivation, marginals: Sequence[Spans], depth: int | None
) -> list[Vertex]:
    """Derivations of one source, (k, N), and how probable the spans of each are → their trees."""
    spell = model.target.__getitem__
    known = model.tree_decoder.describe(encoding, trees, spell, depth)
    found = []
    for k, length in enumerate(trees.lengths.tolist()):
        words = [spell(token) for token in trees.tokens[k, :length].tolist()]
        found.append(_built(trees.vertices[k, :length].tolist(), words, known[k], marginals[k]))
    return found


def _built(leaves: Sequence[int], words: Sequence[str], known: Mapping[int, Vertex], spans: Spans) -> Vertex:
    """A tree from its leaves, by number, and what is known of its vertices."""
    below: dict[int, tuple[Vertex, int, int]] = {}  # with the first and the last of its words
    for n, (number, word) in enumerate(zip(leaves, words, strict=True)):
        below[number] = replace(known.get(number, Vertex(number=number)), word=word, confidence=spans[n][n]), n, n
    for number in reversed(with_ancestors(leaves)):
        if number not in below:
            (left, first, _), (right, _, last) = below[2 * number + 1], below[2 * number + 2]
            vertex = known.get(number, Vertex(number=number))
            below[number] = replace(vertex, children=(left, right), confidence=spans[first][last]), first, last
    return below[0][0]


def _words(side: Encoder, text: str) -> tuple[str, ...]:
    """A source as the model reads it."""
    return tuple(side[token] for token in side.encode(text))
