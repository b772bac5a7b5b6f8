"""p(x | v) where a leaf either says a word as other leaves do, or repeats one of the source."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding, logsigmoid

from torch_ctree.trees.checks import check_device, check_floats, check_integers, check_no_nan, first
from torch_ctree.trees.emission import Emission
from torch_ctree.trees.kernels.torch import in_accumulation_dtype, topk

NOTHING = -1
"""In place of a token: what cannot be repeated."""


class CopyEmission(Emission):
    """A mixture: with probability c_v a leaf repeats a word of the source, else it says one by itself.

    p(x | v) = (1 − c_v) · q(x | v) + c_v · Σ_j a_vj [source_j = x]. It holds (*batch, V, S) and (*batch, N, V), and
    what q holds: of a ``LinearEmission`` never (vertices × vocabulary).

    own: q, what leaves say by themselves: an ``Emission`` such as ``LinearEmission``
    copy_logits: (*batch, V): the logit of c_v; −inf where nothing is to be repeated
    scores: (*batch, V, S): the logits of a_v, a softmax over positions of the source; −inf forbids one
    source: (*batch, S): the token at each position, as in 0..K − 1; −1 where it is none of these or pads. The softmax
        is over the others alone, and where there are none, c_v = 0.
    """

    def __init__(self, own: Emission, copy_logits: Tensor, scores: Tensor, source: Tensor):
        rows = (*own.batch_shape, own.vertices)
        for name, value in (("copy_logits", copy_logits), ("scores", scores)):
            check_floats(name, value)
            check_device(name, value, own.device)
        check_integers("source", source, own.device)
        if copy_logits.shape != rows:
            raise ValueError(f"copy_logits: got shape {tuple(copy_logits.shape)}; expected {rows}, as in own")
        if scores.shape[:-1] != rows or scores.shape[-1] == 0:
            expected = f"({', '.join(map(str, rows))}, positions) with at least one position"
            raise ValueError(f"scores: got shape {tuple(scores.shape)}; expected {expected}")
        if source.shape != (*own.batch_shape, scores.shape[-1]):
            expected = (*own.batch_shape, scores.shape[-1])
            raise ValueError(f"source: got shape {tuple(source.shape)}; expected {expected}, one token a position")
        self.own, self.copy_logits, self.scores, self.source = own, copy_logits, scores, source.long()
        self.batch_shape, self.vertices, self.vocabulary = own.batch_shape, own.vertices, own.vocabulary
        self.device = own.device

    def check_values(self) -> None:
        """No NaN, nothing infinitely sure, and tokens that there are."""
        self.own.check_values()
        for name, value in (("copy_logits", self.copy_logits), ("scores", self.scores)):
            check_no_nan(name, value)
            if bool((value == math.inf).any()):
                where = (value == math.inf).nonzero()[0].tolist()
                raise ValueError(f"{name}: got inf at {where}; expected numbers or -inf")
        strange = (self.source < NOTHING) | (self.source >= self.vocabulary)
        if bool(strange.any()):
            where, token = first(self.source, strange)
            expected = f"0 to {self.vocabulary - 1}, or {NOTHING} for what cannot be repeated"
            raise ValueError(f"source: got {token} at {where}; expected {expected}")

    def log_prob(self, tokens: Tensor) -> Tensor:
        """log((1 − c_v) q(x_n | v) + c_v Σ_j a_vj [source_j = x_n])."""
        return self._mixed(self.own.log_prob(tokens), tokens)

    def _mixed(self, own: Tensor, tokens: Tensor) -> Tensor:
        """own (*batch, N, V): log q of tokens (*batch, N) → of the mixture."""
        V, S = self.scores.shape[-2:]
        result = with_copies(
            own.reshape(-1, *own.shape[-2:]),
            self.copy_logits.reshape(-1, V),
            self.scores.reshape(-1, V, S),
            self.source.reshape(-1, S),
            tokens.reshape(-1, tokens.shape[-1]),
        )
        return result.reshape(own.shape)

    def log_prob_at(self, tokens: Tensor, vertices: Tensor) -> Tensor:
        """The same, a vertex for each token."""
        own, rows = self.own.log_prob_at(tokens, vertices), self._rows_of(vertices)
        result = with_copies(
            own.reshape(-1, 1, 1),
            embedding(rows, self.copy_logits.reshape(-1, 1)),
            embedding(rows, self.scores.reshape(-1, self.scores.shape[-1]))[:, None],
            self._sources_of(rows),
            tokens.reshape(-1, 1),
        )
        return result.reshape(own.shape)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best tokens of every vertex; without a gradient.

        They are among the words of the source and the k best that leaves say by themselves: whatever else there is has
        k tokens before it that are at least as probable, and what is repeated only becomes more probable.
        """
        with torch.no_grad():
            source, words = self.source[..., None, :], self.source.clamp_min(0)
            best, said, own = self.own.topk_and_log_prob(k, words)  # (*batch, V, k) twice, (*batch, S, V)
            repeated = self._mixed(own, words).mT.masked_fill(~_firsts(self.source)[..., None, :], -math.inf)
            can = (self.scores > -math.inf) & (source >= 0)
            best = best + logsigmoid(-_where_possible(self.copy_logits.to(best.dtype), can))[..., None]
            best = best.masked_fill((said[..., None] == source[..., None, :]).any(-1), -math.inf)  # they are repeated
            scores, places = topk(torch.cat([repeated, best], -1), k)
            tokens = torch.cat([source.expand(repeated.shape), said], -1)
            return scores, tokens.gather(-1, places)

    def sample(self, vertices: Tensor) -> Tensor:
        """One draw at each given vertex."""
        with torch.no_grad():
            own, rows = self.own.sample(vertices), self._rows_of(vertices)
            source, scores = self._sources_of(rows), self.scores.reshape(-1, self.scores.shape[-1])[rows]
            shares = _log_shares(in_accumulation_dtype(scores), source >= 0).exp()  # (sample · batch · N, S)
            copy_logits = _where_possible(self.copy_logits.flatten()[rows].to(shares.dtype), shares > 0)
            # Of independent waiting times with rates p_1 … p_S, the j-th is the shortest with probability p_j.
            places = shares.div(torch.empty_like(shares).exponential_()).argmax(-1, keepdim=True)
            copies = torch.rand_like(copy_logits) < copy_logits.sigmoid()
            return torch.where(copies, source.gather(-1, places)[:, 0], own.flatten()).reshape(vertices.shape)

    def expand(self, batch_shape: torch.Size) -> CopyEmission:
        """The same mixture with more batch dimensions."""
        own, copy_logits = self.own.expand(batch_shape), self.copy_logits.expand(*batch_shape, -1)
        scores, source = self.scores.expand(*batch_shape, -1, -1), self.source.expand(*batch_shape, -1)
        return CopyEmission(own, copy_logits, scores, source)

    def _sources_of(self, rows: Tensor) -> Tensor:
        """rows (R,) among all (batch · V) → the source of each, (R, S)."""
        return self.source.reshape(-1, self.source.shape[-1])[rows // self.vertices]


def with_copies(
    own: Tensor, copy_logits: Tensor, scores: Tensor, source: Tensor, tokens: Tensor | None = None
) -> Tensor:
    """log((1 − c_v) · exp(own_nv) + c_v · Σ_j a_vj [source_j = x_n]), differentiable once.

    own (B, N, V); copy_logits (B, V), scores (B, V, S) and source (B, S) as of ``CopyEmission``; tokens x (B, N), by
    default all N that there are → (B, N, V)
    """
    words = cast(Tensor, _WordLogProb.apply(scores.to(own.dtype), source))
    places = _places_of_all(source, own.shape[1]) if tokens is None else _places(source, tokens)
    return cast(Tensor, _Mixture.apply(own, copy_logits.to(own.dtype), words, places))


def _places(source: Tensor, tokens: Tensor) -> Tensor:
    """source (B, S), tokens (B, N) → where in the source a token stands first, −1 where it does not, (B, N)."""
    same = tokens[..., None] == source[:, None]  # (B, N, S)
    return same.int().argmax(-1).masked_fill(~same.any(-1), NOTHING)


def _places_of_all(source: Tensor, vocabulary: int) -> Tensor:
    """source (B, S) → where in it each of K tokens stands last, −1 where it does not, (B, K)."""
    places = source.new_full((len(source), 1 + vocabulary), NOTHING)
    positions = torch.arange(source.shape[1], device=source.device).expand_as(source)
    return places.scatter_reduce(1, source + 1, positions, "amax")[:, 1:]  # what cannot be repeated goes first


class _WordLogProb(torch.autograd.Function):
    """scores (B, V, S), source (B, S) → at each position log Σ_j a_vj over all that have its word, (B, V, S).

    −inf where there is nothing to repeat. In logarithms throughout: a word that is hardly looked at keeps its share.
    """

    @staticmethod
    def forward(ctx: Any, scores: Tensor, source: Tensor) -> Tensor:
        can = source >= 0
        same = (source[:, :, None] == source[:, None]) & can[:, None]  # (B, S, S)
        log_shares = _log_shares(scores, can[:, None])
        head = same.int().argmax(-1)[:, None].expand_as(scores)  # where a word stands first
        high = torch.full_like(scores, -math.inf).scatter_reduce(-1, head, log_shares, "amax").gather(-1, head)
        parts = (log_shares - high.clamp_min(torch.finfo(high.dtype).min)).exp()
        # In float64, which neither TF32 nor autocast rounds: what is said in all must not sum to more than one.
        total = torch.bmm(parts.double(), same.double()).to(parts.dtype).clamp_min(0.5)  # an actual one is 1 or more
        ctx.save_for_backward(parts.div_(total), log_shares.exp_(), same)
        return high + total.log_()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        parts, shares, same = ctx.saved_tensors
        of_words = torch.bmm(grad, same.to(grad.dtype), out=torch.empty_like(grad))
        return parts * of_words - shares * grad.sum(-1, keepdim=True), None


class _Mixture(torch.autograd.Function):
    """own (B, N, V), copy_logits (B, V), words (B, V, S) → (B, N, V).

    places (B, N): where in the source the token is, −1 where it is not

    Its derivatives are posterior probabilities of having repeated, which are finite whatever is impossible.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, copy_logits: Tensor, words: Tensor, places: Tensor) -> Tensor:
        copy_logits = _where_possible(copy_logits, words > -math.inf)
        repeated = words.mT.gather(1, places.clamp_min(0)[..., None].expand(own.shape))
        repeated.masked_fill_((places < 0)[..., None], -math.inf)
        repeated += logsigmoid(copy_logits)[:, None]
        result = torch.logaddexp(own + logsigmoid(-copy_logits)[:, None], repeated)
        posterior = repeated.sub_(result.clamp_min(torch.finfo(result.dtype).min)).exp_()
        ctx.save_for_backward(posterior, copy_logits.sigmoid(), places)
        ctx.positions = words.shape[-1]
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        posterior, copies, places = ctx.saved_tensors
        repeated = grad * posterior
        positions = torch.arange(ctx.positions, device=grad.device)
        where = (places[..., None] == positions).to(grad.dtype)  # (B, N, S)
        of_words = torch.bmm(repeated.mT, where, out=grad.new_empty(len(grad), grad.shape[-1], ctx.positions))
        return grad - repeated, repeated.sum(1) - copies * grad.sum(1), of_words, None


def _log_shares(scores: Tensor, can: Tensor) -> Tensor:
    """scores (…, S) → log softmax over the positions that can be repeated; −inf at others, all if there are none."""
    scores = scores.masked_fill(~can, -math.inf)
    high = scores.amax(-1, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    shifted = scores - high
    return shifted - shifted.exp().sum(-1, keepdim=True).clamp_min(0.5).log()


def _where_possible(copy_logits: Tensor, words: Tensor) -> Tensor:
    """copy_logits (…), words (…, S), bool: what can be repeated → −inf where nothing can."""
    return copy_logits.masked_fill(~words.any(-1), -math.inf)


def _firsts(source: Tensor) -> Tensor:
    """(…, S) → True where a word that can be repeated stands for the first time."""
    same = source[..., :, None] == source[..., None, :]
    positions = torch.arange(source.shape[-1], device=source.device)
    return (same.int().argmax(-1) == positions) & (source >= 0)
