"""LatentTree: the distribution over (sentence, tree) pairs that users call."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from torch_ctree.trees.checks import (
    check_count,
    check_integers,
    check_lengths,
    check_lengths_fit,
    check_penalty,
    check_tokens,
)
from torch_ctree.trees.derivation import Derivation
from torch_ctree.trees.emission import Emission, TokenLogits
from torch_ctree.trees.likelihood import Backend, tree_log_likelihood
from torch_ctree.trees.posterior import TreePosterior
from torch_ctree.trees.prior import TreePrior
from torch_ctree.trees.search import (
    Found,
    best_derivation_for_its_length,
    best_derivation_of_each_length,
    best_derivation_within,
    best_derivations,
)
from torch_ctree.trees.topology import past_end


class LatentTree(Distribution):
    """Sentences whose tokens are the leaves of a latent full binary tree.

    leaf_logits: (*batch, V), V = 2^(D+1) − 1: the logit of l_v, the probability that vertex v, once reached, is a leaf.
        Vertices in heap order. The deepest level is always a leaf, so that everything sums to one.
    emission: token logits (*batch, V, K), normalised over K here, or an ``Emission``.
    validate_args: whether to check values, here and in every method; by default as ``torch.distributions`` is set. On a
        GPU a check waits for the device. Shapes, dtypes and devices are always checked.

    An event is a sentence, given as ``tokens`` (…, N) padded to a common N, with ``lengths`` (…,); what pads it does
    not matter. As everywhere in ``torch.distributions``, sentences may have more leading dimensions than the batch.

    >>> dist = LatentTree(torch.zeros(7), torch.zeros(7, 2))  # depth 2, two words: every choice is even
    >>> dist.log_prob(torch.tensor([0, 1, 1]), torch.tensor(3)).exp()  # two trees of probability 1/8, times (1/2)^3
    tensor(0.0312)
    """

    arg_constraints = {"leaf_logits": constraints.real}  # noqa: RUF012 # pyright: ignore[reportAssignmentType]
    has_rsample = False

    prior: TreePrior
    """p(T)"""
    emission: Emission
    """p(x | v)"""

    def __init__(self, leaf_logits: Tensor, emission: Tensor | Emission, validate_args: bool | None = None):
        self.prior = TreePrior(leaf_logits, validate_args=validate_args)
        self.emission = emission if isinstance(emission, Emission) else TokenLogits(emission)
        if self.emission.vertices != leaf_logits.shape[-1]:
            raise ValueError(
                f"emission: got {self.emission.vertices} vertices; expected {leaf_logits.shape[-1]}, as in leaf_logits"
            )
        if self.emission.device != leaf_logits.device:
            raise ValueError(f"emission: got tensors on {self.emission.device}; expected {leaf_logits.device}")
        if self.emission.batch_shape != self.prior.batch_shape:
            shape = _broadcast("emission", self.emission.batch_shape, self.prior.batch_shape)
            self.prior, self.emission = self.prior.expand(shape), self.emission.expand(shape)
        super().__init__(self.prior.batch_shape, validate_args=validate_args)
        if self._validate_args:
            self.emission.check_values()

    def __repr__(self) -> str:
        """The sizes; the tensors themselves are long."""
        return f"LatentTree(batch_shape={tuple(self.batch_shape)}, depth={self.depth}, {self.emission!r})"

    @property
    def leaf_logits(self) -> Tensor:
        """(*batch, V)"""
        return self.prior.leaf_logits

    @property
    def depth(self) -> int:
        """D: trees have at most 2^D leaves."""
        return self.prior.depth

    def expand(self, batch_shape: torch.Size | tuple[int, ...], _instance: LatentTree | None = None) -> LatentTree:
        """The same distribution with more batch dimensions; nothing is copied."""
        new = cast(LatentTree, self._get_checked_instance(LatentTree, _instance))
        new.prior = self.prior.expand(batch_shape)
        new.emission = self.emission.expand(torch.Size(batch_shape))
        super(LatentTree, new).__init__(torch.Size(batch_shape), validate_args=False)
        new._validate_args = self._validate_args
        return new

    # --- sentences ----------------------------------------------------------------------------------------------------

    def log_prob(self, tokens: Tensor, lengths: Tensor | None = None, *, backend: Backend = "auto") -> Tensor:
        """log p(x), the sum over all trees.

        tokens (*sample, *batch, N), lengths (*sample, *batch), N by default → (*sample, *batch)
        """
        tokens, lengths = self._checked(tokens, lengths)
        weights = self._log_weights(tokens, lengths)
        flat = weights.reshape(-1, *weights.shape[-2:])
        result = tree_log_likelihood(flat, lengths.reshape(-1), backend=backend, validate_args=False)
        return result.reshape(lengths.shape)

    def posterior(self, tokens: Tensor, lengths: Tensor | None = None) -> TreePosterior:
        """The distribution of the sentences' trees: tokens (*sample, *batch, N), lengths (*sample, *batch)."""
        tokens, lengths = self._checked(tokens, lengths)
        return TreePosterior(self._log_weights(tokens, lengths), tokens, lengths, validate_args=self._validate_args)

    def joint_log_prob(self, derivation: Derivation) -> Tensor:
        """log p(x, T) of given sentences with given trees (*sample, *batch, …) → (*sample, *batch). Differentiable."""
        tokens, lengths = self._checked(derivation.tokens, derivation.lengths)
        vertices = derivation.vertices.expand(tokens.shape)
        return self._matching(lengths.shape)._joint_log_prob(tokens, lengths, vertices)

    def length_log_prob(self, max_length: int | None = None) -> Tensor:
        """(*batch, max_length): the log-probability that a sentence has 1, 2, … tokens; up to 2^D by default."""
        return self.prior.length_log_prob(max_length)

    # --- search and sampling ------------------------------------------------------------------------------------------

    def argmax(self, max_length: int | None = None, length_penalty: float = 0.0) -> Derivation:
        """The most probable (sentence, tree), exactly; of at most max_length tokens if that is given.

        Each word makes a sentence less probable, so that the most probable one may be a short one. With a length
        penalty, up to 7, it is the one with the highest log p / ((5 + n) / 6)^length_penalty, where n counts its tokens
        and the end (Wu et al., 2016), exactly too.

        Where even the best has probability zero, its length is 0 and its ``log_prob`` −inf.
        """
        if max_length is not None:
            check_count("max_length", max_length)
        check_penalty("length_penalty", length_penalty)
        with torch.no_grad():
            scores, tokens = self.emission.topk(1)  # (*batch, V, 1)
            if length_penalty:
                most = min(max_length or 1 << self.depth, 1 << self.depth)
                found = best_derivation_for_its_length(*self._leaf_scores(scores, tokens), most, length_penalty)
                return self._derivation(found, self.batch_shape)
            best = self._best(scores, tokens, 1)[0]
            if max_length is None or bool((best.lengths <= max_length).all()):
                return best
            found = best_derivation_within(*self._leaf_scores(scores, tokens), max_length)
            return self._derivation(found, self.batch_shape)

    def argmax_by_length(self, max_length: int | None = None) -> Derivation:
        """The most probable (sentence, tree) of each length, exactly: (max_length, *batch, …), of 1, 2, … tokens.

        max_length: 2^D by default. Where no sentence is so long, the length is 0 and ``log_prob`` −inf.
        """
        max_length = 1 << self.depth if max_length is None else max_length
        check_count("max_length", max_length)
        with torch.no_grad():
            found = best_derivation_of_each_length(*self._leaf_scores(*self.emission.topk(1)), max_length)
            return self._derivation(found, torch.Size([max_length]) + self.batch_shape)

    def topk(self, k: int) -> Derivation:
        """The k most probable (sentence, tree) pairs, best first: (k, *batch, …).

        Where there are fewer, the rest have length 0 and ``log_prob`` −inf.
        """
        check_count("k", k)
        with torch.no_grad():
            return self._best(*self.emission.topk(min(k, self.emission.vocabulary)), k)

    def sample(self, sample_shape: torch.Size | tuple[int, ...] = ()) -> Derivation:
        """Sentences with their trees, (*sample, *batch, …)."""
        with torch.no_grad():
            vertices, lengths = self.prior.sample(sample_shape)
            tokens = self.emission.sample(vertices.clamp_min(0)).masked_fill(vertices < 0, 0)
            return Derivation(tokens, lengths, vertices, self._joint_log_prob(tokens, lengths, vertices))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _best(self, scores: Tensor, tokens: Tensor, k: int) -> Derivation:
        """The k best derivations (k, *batch, …) from the best tokens of each vertex, (*batch, V, J) each."""
        found = best_derivations(
            *(tensor.reshape(-1, self.emission.vertices) for tensor in self.prior.log_leaf_and_split()),
            token_scores=scores.reshape(-1, *scores.shape[-2:]),
            tokens=tokens.reshape(-1, *tokens.shape[-2:]),
            k=k,
        )
        return self._derivation(found, torch.Size([k]) + self.batch_shape)

    def _leaf_scores(self, scores: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Of the best token of each vertex, (*batch, V, 1) each → log m(v) + its score, and that token, (B, V) each."""
        leaf_scores = (self.prior.log_m() + scores[..., 0]).reshape(-1, self.emission.vertices)
        return leaf_scores, tokens.reshape(leaf_scores.shape)

    def _derivation(self, found: Found, shape: torch.Size) -> Derivation:
        N = found.vertices.shape[-1]
        return Derivation(
            found.tokens.reshape(*shape, N).masked_fill(found.vertices.reshape(*shape, N) < 0, 0),
            found.lengths.reshape(shape),
            found.vertices.reshape(*shape, N),
            found.scores.reshape(shape),
        )

    def _checked(self, tokens: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sentences as (*sample, *batch, N) and (*sample, *batch), int64, each with the whole batch shape."""
        device = self.leaf_logits.device
        check_integers("tokens", tokens, device)
        if tokens.dim() == 0 or tokens.shape[-1] == 0:
            raise ValueError(f"tokens: got shape {tuple(tokens.shape)}; expected (…, tokens) with at least one token")
        N = tokens.shape[-1]
        if lengths is None:
            lengths = torch.full(tokens.shape[:-1], N, device=device)
        lengths = check_lengths(lengths, tokens.shape[:-1], N, device, values=self._validate_args)
        if self._validate_args:
            check_lengths_fit(lengths, self.depth)
            check_tokens(tokens, lengths, self.emission.vocabulary)
        shape = _broadcast("tokens", tokens.shape[:-1], self.batch_shape)
        return tokens.long().expand(*shape, N), lengths.expand(shape)

    def _log_weights(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """log m(v) + log p(x_n | v): tokens (*sample, *batch, N) → (*sample, *batch, N, V)."""
        dist, shape, N = self._matching(lengths.shape), lengths.shape, tokens.shape[-1]
        tokens = tokens.masked_fill(past_end(lengths, N), 0)
        # Samples share their batch's emission: they are scored as one long sentence of S · N tokens.
        S = shape[: len(shape) - len(dist.batch_shape)].numel()
        joined = tokens.reshape(S, *dist.batch_shape, N).movedim(0, -2).flatten(-2)  # (*batch, S · N)
        weights = dist.emission.log_weights(joined, dist.prior.log_m())  # (*batch, S · N, V)
        return weights.unflatten(-2, (S, N)).movedim(-3, 0).reshape(*shape, N, self.emission.vertices)

    def _joint_log_prob(self, tokens: Tensor, lengths: Tensor, vertices: Tensor) -> Tensor:
        """All (*sample, *batch, …) → (*sample, *batch)."""
        over = past_end(lengths, tokens.shape[-1])
        words = self.emission.log_prob_at(tokens.masked_fill(over, 0), vertices.masked_fill(over, 0))
        return self.prior.log_prob(vertices, lengths) + words.masked_fill(over, 0).sum(-1)

    def _matching(self, shape: torch.Size) -> LatentTree:
        """This distribution, expanded where a batch dimension of size 1 meets several sentences."""
        fits = shape[len(shape) - len(self.batch_shape) :] == self.batch_shape
        return self if fits else self.expand(shape)


def _broadcast(name: str, given: torch.Size, batch: torch.Size) -> torch.Size:
    try:
        return torch.broadcast_shapes(given, batch)
    except RuntimeError:
        raise ValueError(
            f"{name}: got batch shape {tuple(given)}; expected one that broadcasts with {tuple(batch)}"
        ) from None
