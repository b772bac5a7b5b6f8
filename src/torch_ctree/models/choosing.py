"""Which of the possible answers to give: the searches of ``ModelConfig.search``, the same for every decoder."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from torch_ctree.models.configuration import ModelConfig, Search
from torch_ctree.models.decoders import Decoded, Decoder, TreeDecoder, as_answers
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.errors import ModelError
from torch_ctree.models.similarity import numbered, similarities
from torch_ctree.trees import Derivation, LatentGrammar, LatentTree, TreePosterior
from torch_ctree.trees.checks import check_count
from torch_ctree.trees.search import penalised
from torch_ctree.trees.topology import longest, past_end

BLOCK_ELEMENTS = 1 << 24
"""Of the weights of words at vertices, that are in memory at one time: 64 MiB."""
ROUNDINGS = 64
"""Of candidates that are no further apart, none is better."""


@torch.no_grad()
def answers(
    decoder: Decoder,
    encoding: Encoding,
    k: int,
    config: ModelConfig,
    max_length: int | None = None,
    depth: int | None = None,
) -> Decoded:
    """The k best answers by ``config.search``, best first: (k, B, …).

    A beam search has sentences by their probability already: for it ``sentence`` is ``tree``, and ``risk`` weighs what
    it finds, ``config.candidates`` wide or more.
    """
    if not _has_candidates(decoder, config.search):
        return decoder.topk(encoding, k, max_length, depth)
    if isinstance(decoder, TreeDecoder):
        return of_trees(decoder.distribution(encoding, depth), k, config, max_length)
    check_count("k", k)
    found = _each_once(decoder.topk(encoding, max(k, config.candidates, config.beam), max_length, depth), k)
    return _best(found, _ranks(found, config), k)


def _has_candidates(decoder: Decoder, search: Search) -> bool:
    """Whether a search chooses among several answers, or has the decoder's own."""
    return search == "risk" or (search == "sentence" and isinstance(decoder, TreeDecoder))


def settings_of(decoder: Decoder, search: Search) -> set[str]:
    """Which settings of answering make a difference."""
    chosen = {"candidates", "length_penalty"} if _has_candidates(decoder, search) else set()
    return {"search", *decoder.goes_by, *chosen}


@torch.no_grad()
def of_trees(
    distribution: LatentTree | LatentGrammar, k: int, config: ModelConfig, max_length: int | None = None
) -> Decoded:
    """The k best answers by the searches ``sentence`` and ``risk``, each with the best tree that it has: (k, B, …).

    ``log_prob`` is that of the sentence, over all its trees, in the derivations too.
    """
    if not isinstance(distribution, LatentTree):
        raise ModelError(f"search: got {config.search!r} with a {type(distribution).__name__}; expected 'tree'")
    check_count("k", k)
    found = _candidates(distribution, max(k, config.candidates), max_length)
    best = _best(found, _ranks(found, config), k)
    # Of what is no answer, the tree of some sentence is asked for, and not given.
    trees = _padded([one.argmax().vertices for one in _posteriors(distribution, best)], -1)
    N = best.tokens.shape[-1]
    vertices = pad(trees, (0, N - trees.shape[-1]), value=-1).masked_fill(past_end(best.lengths, N), -1)
    return as_answers(Derivation(best.tokens, best.lengths, vertices, best.log_prob))


# --- which is better --------------------------------------------------------------------------------------------------


def _ranks(found: Decoded, config: ModelConfig) -> Tensor:
    """Candidates (C, B, …) → (C, B), higher is better.

    Of ``sentence``: log p(sentence), longer ones preferred as a beam search does it: there, too, the end is a word.

    Of ``risk``: how similar each candidate is to all of them, expected with their shares of their probability, which is
    made of the same numbers. Not to samples: the probabilities are exact, so that nothing is left to chance, answers
    are the same every time and whatever else is in the batch, and beams are weighed in the same way.
    """
    scores = penalised(found.log_prob, found.lengths + 1, config.length_penalty)
    if config.search == "sentence":
        return scores
    similar = similarities(found.tokens.transpose(0, 1), found.lengths.T)  # (B, C, C)
    shares = scores.T.double().softmax(-1).nan_to_num(0.0)  # all 0 where there is no candidate
    return (similar @ shares[..., None])[..., 0].T


def _best(found: Decoded, ranks: Tensor, k: int) -> Decoded:
    """The k best of the candidates (C, B, …); of those that only rounding tells apart, the one that comes first."""
    ranks = ranks.masked_fill(found.log_prob == -math.inf, -math.inf)
    ordered, order = ranks.sort(dim=0, descending=True)
    rounding = ROUNDINGS * torch.finfo(found.log_prob.dtype).eps * ordered[:-1].abs().clamp_min(1)
    group = pad((ordered[:-1] - ordered[1:] > rounding).cumsum(0), (0, 0, 1, 0))
    order = order.gather(0, (group * len(order) + order).argsort(dim=0))[:k]
    best = found[order, torch.arange(order.shape[1], device=order.device)]
    return Decoded(best.tokens[..., : longest(best.lengths)], best.lengths, best.log_prob)


def _each_once(found: Decoded, k: int) -> Decoded:
    """Each sentence of a source once, short ones first, then by their words: (C, B, …), C ≥ k.

    So that among equals, which are many where the same words are read at every place, it does not depend on the others
    of a batch which comes first. Of what is no sentence, the length is 0 and ``log_prob`` −inf.
    """
    places = []
    for rows, counts in zip(found.tokens.transpose(0, 1).tolist(), found.lengths.T.tolist(), strict=True):
        there = {(n, *row[:n]): place for place, (row, n) in enumerate(zip(rows, counts, strict=True)) if n}
        places.append([there[sentence] for sentence in sorted(there)])
    C = max(k, *map(len, places))
    place = torch.tensor([row + [-1] * (C - len(row)) for row in places], device=found.lengths.device).T  # (C, B)
    kept = found[place.clamp_min(0), torch.arange(len(places), device=place.device)]
    lengths, log_prob = kept.lengths.masked_fill(place < 0, 0), kept.log_prob.masked_fill(place < 0, -math.inf)
    return Decoded(kept.tokens[..., : longest(lengths)], lengths, log_prob)


# --- candidates from trees --------------------------------------------------------------------------------------------


def _candidates(dist: LatentTree, k: int, max_length: int | None) -> Decoded:
    """The sentences of the k best derivations, and of the best one of each length, (C, B, …), C ≥ k."""
    several, each = as_answers(dist.topk(k)), as_answers(dist.argmax_by_length(max_length))
    lengths, log_prob = (
        torch.cat([getattr(some, name) for some in (several, each)]) for name in ("lengths", "log_prob")
    )
    if max_length is not None:
        lengths = lengths.masked_fill(lengths > max_length, 0)
    found = _each_once(Decoded(_padded([several.tokens, each.tokens], 0), lengths, log_prob), k)
    log_prob = torch.cat([one.log_evidence() for one in _posteriors(dist, found)])
    return Decoded(found.tokens, found.lengths, log_prob.masked_fill(found.lengths == 0, -math.inf))


def _posteriors(dist: LatentTree, found: Decoded) -> Iterator[TreePosterior]:
    """The trees of sentences (C, B, …), some C at a time; where there is no sentence, of its first word.

    What a word weighs at a vertex is looked up: it is computed once for each word that a source's sentences have.
    """
    C, B, N = found.tokens.shape
    lengths = found.lengths.clamp_min(1)
    tokens = torch.where(past_end(lengths, N), found.tokens[:, :, :1], found.tokens)
    place = numbered(tokens.transpose(0, 1).flatten(1))  # (B, C · N)
    words = tokens.new_zeros(B, int(place.max()) + 1).scatter(1, place, tokens.transpose(0, 1).flatten(1))
    weights = dist.emission.log_weights(words, dist.prior.log_m())  # (B, words, V)
    place, row = place.view(B, C, N).transpose(0, 1), torch.arange(B, device=place.device)[:, None]
    size = max(1, BLOCK_ELEMENTS // (B * N * weights.shape[-1]))
    for some, where, count in zip(tokens.split(size), place.split(size), lengths.split(size), strict=True):
        width = longest(count)
        yield TreePosterior(weights[row, where[..., :width]], some[..., :width], count, validate_args=False)


def _padded(some: list[Tensor], fill: int) -> Tensor:
    """(C, B, N) of several C and N → all C together, filled up to the largest N."""
    N = max(one.shape[-1] for one in some)
    return torch.cat([pad(one, (0, N - one.shape[-1]), value=fill) for one in some])
