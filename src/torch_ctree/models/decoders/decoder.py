"""What every decoder can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn

from torch_ctree.data import Encoder
from torch_ctree.models.configuration import ModelConfig, Search, check_depth
from torch_ctree.models.encoders import Encoding
from torch_ctree.trees import Derivation, LatentGrammar, LatentTree
from torch_ctree.trees.vertex import Vertex

WORDS_SHOWN = 8
"""Of a vertex, the most probable ones."""

NOT_FOR_ALL = ("label_smoothing", "tied")
"""Settings that many decoders have no use for."""
Trees = LatentTree | LatentGrammar
"""A distribution over (target, tree) pairs."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """Answers, padded to the longest."""

    tokens: Tensor
    """(*batch, N): token ids, anything past an answer's length."""
    lengths: Tensor
    """(*batch,)"""
    log_prob: Tensor
    """(*batch,): of the answer; from a tree decoder together with its tree, and from a grammar with what its vertices
    do, but where a grammar gives several answers, and by the searches ``sentence`` and ``risk``, over all their trees;
    from ``lanmt`` given its latents. −inf where there is no answer."""
    derivation: Derivation | None = None
    """The same answers with their trees, from a tree decoder."""

    def __getitem__(self, index: Any) -> Decoded:
        """The answers at an index of the batch dimensions, as for a tensor."""
        derivation = None if self.derivation is None else self.derivation[index]
        return Decoded(self.tokens[index], self.lengths[index], self.log_prob[index], derivation)

    def to(self, device: torch.device | str) -> Decoded:
        """The same answers on a device."""
        derivation = None if self.derivation is None else self.derivation.to(device)
        return Decoded(self.tokens.to(device), self.lengths.to(device), self.log_prob.to(device), derivation)

    def matches(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Where the answer is just this sentence: tokens (*batch, N), lengths (*batch,) → (*batch,)"""
        size = max(tokens.shape[-1], self.tokens.shape[-1])
        mine, theirs = (nn.functional.pad(x, (0, size - x.shape[-1])) for x in (self.tokens, tokens))
        past = torch.arange(size, device=lengths.device) >= lengths[..., None]
        return (self.lengths == lengths) & ((mine == theirs) | past).all(-1)


class Decoder(nn.Module, ABC):
    """Says targets. A decoder of your own is a subclass with an entry in ``DECODERS``.

    It is made with ``(config, words, source_words)``: a ``ModelConfig``, and the number of words of either side.

    depth, everywhere: answers have at most 2^depth words, in trees at most so deep; by default ``config.depth``. A
        grammar's probabilities know no such bound, only its answers do.
    """

    needs_phrases: ClassVar[bool] = False
    """Whether only an encoder that ``reads_phrases`` will do."""
    takes: ClassVar[tuple[str, ...]] = ()
    """Which of the settings in ``NOT_FOR_ALL`` it goes by; with the others it is refused."""
    searches: ClassVar[tuple[Search, ...]] = get_args(Search)
    """Which settings of ``ModelConfig.search`` it can have."""
    goes_by: ClassVar[tuple[str, ...]] = ()
    """Which of the settings ``beam`` and ``length_penalty`` its own search goes by."""

    def search_by(self, config: ModelConfig) -> None:
        """Look for answers by these settings from now on; for decoders that have any of their own, such as a beam."""

    def introduce(self, source: Encoder, target: Encoder) -> None:
        """How words are spelled, told once, before anything else; most decoders need not know."""

    @abstractmethod
    def score(self, encoding: Encoding, tokens: Tensor, lengths: Tensor, depth: int | None = None) -> Tensor:
        """log p(target | source), or a lower bound on it, differentiable: tokens (B, N), lengths (B,) → (B,)"""

    def objective(self, encoding: Encoding, tokens: Tensor, lengths: Tensor) -> Tensor:
        """What training makes large, (B,): the score, unless a decoder learns by something else."""
        return self.score(encoding, tokens, lengths)

    @abstractmethod
    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The k best answers, best first: (k, B, …); not differentiable."""

    @torch.no_grad()
    def examine(self, encoding: Encoding, tokens: Tensor, lengths: Tensor) -> tuple[Decoded, Tensor]:
        """The best answers, (B, …), and log p(target | source), (B,): what validation asks for."""
        return self.topk(encoding, 1)[0], self.score(encoding, tokens, lengths)


class TreeDecoder(Decoder):
    """Says targets as the leaves of latent trees."""

    @abstractmethod
    def distribution(self, encoding: Encoding, depth: int | None = None) -> Trees:
        """The distribution over (target, tree) pairs, (B,)."""

    @abstractmethod
    def best(self, distribution: Any) -> Derivation:
        """The answers to give, (B, …)"""

    def best_trees(self, posterior: Any) -> Derivation:
        """The trees to give of targets, (B, …), from the posterior of ``distribution``."""
        return posterior.argmax()

    def describe(
        self, encoding: Encoding, trees: Derivation, spell: Callable[[int], str], depth: int | None = None
    ) -> list[dict[int, Vertex]]:
        """What is known of the vertices of some trees of one source: trees (k, N) → for each tree, by number.

        A vertex comes without its children and, of a leaf, without its word. Of a decoder of your own nothing is known,
        unless it says so here.

        spell: how a token is spelled
        """
        return [{} for _ in trees.lengths]

    def score(self, encoding: Encoding, tokens: Tensor, lengths: Tensor, depth: int | None = None) -> Tensor:
        """log p(target | source), the sum over all trees: tokens (B, N), lengths (B,) → (B,)"""
        return self.distribution(encoding, depth).log_prob(tokens, lengths)

    @torch.no_grad()
    def examine(self, encoding: Encoding, tokens: Tensor, lengths: Tensor) -> tuple[Decoded, Tensor]:
        """Both from one distribution."""
        dist = self.distribution(encoding)
        return as_answers(self.best(dist)), dist.log_prob(tokens, lengths)


def likely(log_probs: Tensor, tokens: Tensor, spell: Callable[[int], str]) -> tuple[tuple[str, float], ...]:
    """(W,) each → words with their probabilities; none that is impossible."""
    return tuple((spell(token), p) for p, token in zip(log_probs.exp().tolist(), tokens.tolist(), strict=True) if p > 0)


def as_answers(found: Derivation) -> Decoded:
    """Derivations, as answers with their trees."""
    return Decoded(found.tokens, found.lengths, found.log_prob, found)


def stacked(best: Derivation) -> Derivation:
    """With a dimension of one in front."""
    return Derivation(*(field[None] for field in (best.tokens, best.lengths, best.vertices, best.log_prob)))


def chosen_depth(depth: int | None, default: int | None) -> int:
    """The depth that is asked for, or else the model's own."""
    depth = default if depth is None else depth
    check_depth(depth)
    assert depth is not None
    return depth
