"""Dot-product attention whose queries are normalised on the way: one kernel forward, one backward.

With q = layernorm(x), the answer is softmax(q · keysᵀ / √h) · values. All positions fit into one block, so that nothing
has to be kept for the backward pass: it computes the weights again.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from torch_ctree.devices import dot_precision
from torch_ctree.models.fused.chance import keep
from torch_ctree.models.fused.functions import denormalised, normalised
from torch_ctree.models.fused.sums import column_sums

MOST_POSITIONS, MOST_UNITS = 128, 128
"""What fits into the fast memory of one multiprocessor."""
OUT_PLACE = 102
"""Of dropout of what is found."""


class Tile(NamedTuple):
    """How a program of a kernel is cut: queries that it takes, and its warps."""

    queries: int
    warps: int


FORWARD = {16: Tile(16, 4), 32: Tile(32, 4), 64: Tile(32, 8), 128: Tile(32, 8)}
BACKWARD = {16: Tile(16, 4), 32: Tile(16, 4), 64: Tile(16, 4), 128: Tile(16, 8)}
"""By the positions that are attended to; as fast as any on an H200."""


class Normalisation(NamedTuple):
    """A layer normalisation's parameters."""

    weight: Tensor  # (H,)
    bias: Tensor  # (H,)
    eps: float


def fits(positions: int, width: int, dtype: torch.dtype = torch.float32) -> bool:
    """Whether the kernels can do it; Triton converts what is not float32 in fast memory, which takes more of it."""
    most = MOST_POSITIONS if dtype == torch.float32 else MOST_POSITIONS // 2
    return positions <= most and 16 <= width <= MOST_UNITS and triton.next_power_of_2(width) == width


def block_of(positions: int) -> int:
    """Positions, with those that only fill up: a matrix unit wants 16 at least."""
    return max(16, triton.next_power_of_2(positions))


# --- kernels ----------------------------------------------------------------------------------------------------------


@triton.jit
def weighed(x, gamma, beta, key, real, eps, scale, H: tl.constexpr, PRECISION: tl.constexpr):
    """x (R, H), keys (BP, H) → the attention's weights (R, BP); x normalised, and one over its deviation (R,)."""
    hat, inverse = normalised(x.to(tl.float32), eps, H)
    query = (hat * gamma[None, :] + beta[None, :]) * scale
    scores = tl.where(real[None, :], tl.dot(query, tl.trans(key), input_precision=PRECISION), float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None], hat, inverse


@triton.jit
def unweighed(
    upstream, weights, hat, inverse, gamma, key, value, scale,
    H: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The derivative of ``weighed`` times values: of the answers (R, H) → of the scores (R, BP) and of x (R, H)."""
    of_weights = tl.dot(upstream, tl.trans(value), input_precision=PRECISION)
    of_scores = weights * (of_weights - tl.sum(weights * of_weights, 1)[:, None])
    of_query = tl.dot(of_scores, key, input_precision=PRECISION) * scale
    return of_scores, denormalised(of_query * gamma[None, :], hat, inverse, H)


@triton.jit(do_not_specialize=["place_leaf", "queries", "positions"])
def attend_forward(
    x, gamma, beta, keys, values, mask, out, states, leaf, leaf_out, seed,
    queries, positions, out_stride, state_batch, leaf_batch, place_leaf, eps, scale,
    P_OUT: tl.constexpr, PLACE_OUT: tl.constexpr, P_LEAF: tl.constexpr, LEAF: tl.constexpr,
    H: tl.constexpr, BQ: tl.constexpr, BP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """x (B, Q, H) → out (B, Q, ·), whose rows are out_stride apart, with dropout.

    With LEAF also the logit of being a leaf, w · dropout([state; context]) + b, of states (b, q, H).
    """
    b, block = tl.program_id(0), tl.program_id(1)
    q, h, p = block * BQ + tl.arange(0, BQ), tl.arange(0, H), tl.arange(0, BP)
    there, first, whole = (q < queries)[:, None], b.to(tl.int64) * queries, b.to(tl.int64) * positions
    cell, place = q[:, None] * H + h[None, :], p[:, None] * H + h[None, :]  # within a sentence: small numbers
    unit = b * queries * H + cell
    real = tl.load(mask + whole + p, mask=p < positions, other=0) != 0
    key = tl.load(keys + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    given = tl.load(x + first * H + cell, mask=there, other=0.0)
    weights, _, _ = weighed(given, tl.load(gamma + h), tl.load(beta + h), key, real, eps, scale, H, PRECISION)
    value = tl.load(values + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    found = tl.dot(weights, value, input_precision=PRECISION)
    number = tl.load(seed)
    to = out + first * out_stride + q[:, None] * out_stride + h[None, :]
    tl.store(to, found * keep(number, PLACE_OUT, unit, P_OUT), mask=there)
    if LEAF:
        state = tl.load(states + b.to(tl.int64) * state_batch + cell, mask=there, other=0.0)
        double = b * queries * 2 * H + q[:, None] * (2 * H) + h[None, :]
        logit = leaf_logit(state, found, leaf, number, double, h, place_leaf, P_LEAF, H)
        tl.store(leaf_out + b.to(tl.int64) * leaf_batch + q, logit, mask=q < queries)


@triton.jit
def leaf_logit(
    state, context, leaf, seed, unit, h, place,
    P: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """w · dropout([state; context]) + b for states and contexts (R, H); leaf (2H + 1,): w and b; unit: of states."""
    one = state * keep(seed, place, unit, P) * tl.load(leaf + h)[None, :]
    other = context * keep(seed, place, unit + H, P) * tl.load(leaf + H + h)[None, :]
    return tl.sum(one + other, 1) + tl.load(leaf + 2 * H)


@triton.jit(do_not_specialize=["place_leaf", "queries", "positions", "all_queries", "first_query"])
def attend_backward(
    x, gamma, beta, keys, values, mask, grad, states, contexts, leaf, leaf_grad, seed,
    grad_x, weights_out, scores_out, upstream_out, hat_out, sums,
    queries, positions, all_queries, first_query, grad_stride, state_batch, leaf_batch, place_leaf, eps, scale,
    P_OUT: tl.constexpr, PLACE_OUT: tl.constexpr, P_LEAF: tl.constexpr, LEAF: tl.constexpr, ADD: tl.constexpr,
    H: tl.constexpr, BQ: tl.constexpr, BP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The derivative: → grad_x (B, Q, H); what the gradients of all else are products of; and sums.

    weights_out, scores_out (B, all_queries, BP) and upstream_out, hat_out (B, all_queries, H): the attention's weights,
    their scores' gradients, the answers' gradients and the normalised queries; this call's queries stand from
    first_query on. ``source_gradients`` says what becomes of them.

    sums (programs, B, BP): of the scores' gradients; with LEAF (programs, B, BP + 2H + 1), of those of the leaf's
    weights too. With ADD they are added to what is there. With LEAF the context's gradient also comes from the logit
    of being a leaf; contexts, what the forward pass found, stand where their gradient stands.
    """
    b, block = tl.program_id(0), tl.program_id(1)
    q, h, p = block * BQ + tl.arange(0, BQ), tl.arange(0, H), tl.arange(0, BP)
    there, first, whole = (q < queries)[:, None], b.to(tl.int64) * queries, b.to(tl.int64) * positions
    cell, place = q[:, None] * H + h[None, :], p[:, None] * H + h[None, :]
    real = tl.load(mask + whole + p, mask=p < positions, other=0) != 0
    key = tl.load(keys + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    value = tl.load(values + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    scaled, number = tl.load(gamma + h), tl.load(seed)
    given = tl.load(x + first * H + cell, mask=there, other=0.0)
    weights, hat, inverse = weighed(given, scaled, tl.load(beta + h), key, real, eps, scale, H, PRECISION)
    apart = q[:, None] * grad_stride + h[None, :]
    upstream = tl.load(grad + first * grad_stride + apart, mask=there, other=0.0).to(tl.float32)
    upstream *= keep(number, PLACE_OUT, b * queries * H + cell, P_OUT)
    mine = sums + (block.to(tl.int64) * tl.num_programs(0) + b) * (BP + 2 * H + 1 if LEAF else BP)
    if LEAF:
        state = tl.load(states + b.to(tl.int64) * state_batch + cell, mask=there, other=0.0)
        context = tl.load(contexts + first * grad_stride + apart, mask=there, other=0.0).to(tl.float32)
        of_logit = tl.load(leaf_grad + b.to(tl.int64) * leaf_batch + q, mask=q < queries, other=0.0)[:, None]
        double = b * queries * 2 * H + q[:, None] * (2 * H) + h[None, :]
        kept = keep(number, place_leaf, double + H, P_LEAF) * of_logit
        upstream += kept * tl.load(leaf + H + h)[None, :]
        _put(mine + BP + h, tl.sum(keep(number, place_leaf, double, P_LEAF) * of_logit * state, 0), ADD)
        _put(mine + BP + H + h, tl.sum(kept * context, 0), ADD)
        _put(mine + BP + 2 * H, tl.sum(of_logit), ADD)
    of_scores, of_x = unweighed(upstream, weights, hat, inverse, scaled, key, value, scale, H, PRECISION)
    tl.store(grad_x + first * H + cell, of_x, mask=there)
    _put(mine + p, tl.sum(of_scores, 0), ADD)  # rows that only fill up have no upstream, so that they add nothing
    row = b.to(tl.int64) * all_queries + first_query
    short = q[:, None] * BP + p[None, :]
    tl.store(weights_out + row * BP + short, weights, mask=there)
    tl.store(scores_out + row * BP + short, of_scores, mask=there)
    tl.store(upstream_out + row * H + cell, upstream, mask=there)
    tl.store(hat_out + row * H + cell, hat, mask=there)


@triton.jit(do_not_specialize=["positions", "sums_batch"])
def source_gradients(
    slopes, sums, keys, gamma, beta, of_keys, of_norm, positions, slopes_batch, sums_batch, scale,
    H: tl.constexpr, BP: tl.constexpr,
):  # fmt: skip
    """The gradients of a sentence's keys, → of_keys (B, P, H), and its part in gamma's and beta's, → of_norm (B, 2H).

    With s_qp the gradient of the score that query q gives to position p, and x̂ the normalised queries, sums over
    queries come from S_p = Σ_q s_qp, in sums (B, BP), and M_p = Σ_q s_qp x̂_q, in slopes (B, BP, H): a key's gradient is
    (γ M_p + β S_p) scale, γ's is Σ_p key_p M_p scale, and β's Σ_p key_p S_p scale. Sentences stand any distance apart.
    """
    b = tl.program_id(0).to(tl.int64)
    h, p = tl.arange(0, H), tl.arange(0, BP)
    place, there = p[:, None] * H + h[None, :], (p < positions)[:, None]
    slope = tl.load(slopes + b * slopes_batch + place).to(tl.float32) * scale
    total = tl.load(sums + b * sums_batch + p)[:, None] * scale
    key = tl.load(keys + b * positions * H + place, mask=there, other=0.0)
    of_key = slope * tl.load(gamma + h)[None, :] + total * tl.load(beta + h)[None, :]
    tl.store(of_keys + b * positions * H + place, of_key, mask=there)
    tl.store(of_norm + b * 2 * H + h, tl.sum(key * slope, 0))
    tl.store(of_norm + b * 2 * H + H + h, tl.sum(key * total, 0))


@triton.jit
def _put(place, value, ADD: tl.constexpr):
    if ADD:
        value += tl.load(place)
    tl.store(place, value)


# --- launching --------------------------------------------------------------------------------------------------------


class Sources(NamedTuple):
    """What is attended to."""

    keys: Tensor  # (B, P, H)
    values: Tensor  # (B, P, H)
    mask: Tensor  # (B, P)

    def ready(self) -> Sources:
        """As the kernels want them: float32 and contiguous."""
        return Sources(self.keys.float().contiguous(), self.values.float().contiguous(), self.mask.contiguous())


class Leaves(NamedTuple):
    """What the logits of being a leaf are made of, for states (b, q, H) that begin state_batch apart."""

    states: Tensor
    state_batch: int
    weight: Tensor  # (2H + 1,): of states, of contexts, and the bias
    logits: Tensor  # (b, q) that begin leaf_batch apart; in the backward pass their gradients
    leaf_batch: int
    p: float
    place: int


class Totals(NamedTuple):
    """The gradients of all that queries share."""

    keys: Tensor  # (B, P, H)
    gamma: Tensor  # (H,)
    beta: Tensor  # (H,)
    values: Tensor  # (B, P, H)
    leaf: Tensor  # (2H + 1,), or empty where there are no leaves


class Gradients(NamedTuple):
    """What the backward pass leaves of some queries (B, Q) for the gradients of all else; see ``attend_backward``."""

    weights: Tensor  # (B, Q, BP)
    scores: Tensor  # (B, Q, BP)
    upstream: Tensor  # (B, Q, H)
    hats: Tensor  # (B, Q, H)
    sums: Tensor  # (programs, B, BP or BP + 2H + 1)

    @classmethod
    def empty(cls, queries: int, most_at_once: int, sources: Sources, dtype: torch.dtype, leaves: bool) -> Gradients:
        """Not yet written. most_at_once: queries of one call; dtype: of what is multiplied; leaves: with logits"""
        B, P, H = sources.keys.shape
        size = block_of(P)
        sizes = (B, queries, size), (B, queries, size), (B, queries, H), (B, queries, H)
        programs = triton.cdiv(most_at_once, BACKWARD[size].queries)
        multiplied = (sources.keys.new_empty(each, dtype=dtype) for each in sizes)
        return cls(*multiplied, sources.keys.new_empty(programs, B, size + 2 * H + 1 if leaves else size))

    def totals(self, sources: Sources, norm: Normalisation) -> Totals:
        """Summed up over all queries."""
        (B, P, _), (programs, _, width), size = sources.keys.shape, self.sums.shape, self.scores.shape[-1]
        slopes, of_values = torch.bmm(self.scores.mT, self.hats), torch.bmm(self.weights.mT, self.upstream)
        sums = column_sums(self.sums.view(programs, -1)).view(B, width)
        shared = source_totals(slopes, sums, sources, norm)
        return Totals(*shared, of_values[:, :P].float(), sums[:, size:].sum(0))


def source_totals(slopes: Tensor, sums: Tensor, sources: Sources, norm: Normalisation) -> tuple[Tensor, Tensor, Tensor]:
    """→ the gradients of keys, gamma and beta; see ``source_gradients``"""
    B, P, H = sources.keys.shape
    of_keys, of_norm = torch.empty_like(sources.keys), norm.weight.new_empty(B, 2 * H)
    source_gradients[(B,)](
        slopes, sums, sources.keys, norm.weight, norm.bias, of_keys, of_norm,
        P, slopes.stride(0), sums.stride(0), 1 / math.sqrt(H), H=H, BP=block_of(P), num_warps=4,
    )  # fmt: skip
    of_gamma, of_beta = column_sums(of_norm).split(H)
    return of_keys, of_gamma, of_beta


def attend(
    x: Tensor, norm: Normalisation, sources: Sources, out: Tensor, seed: Tensor, p_out: float = 0.0,
    leaves: Leaves | None = None,
) -> None:  # fmt: skip
    """x (B · Q, H) → out (B · Q, ·), and with ``leaves`` logits; see ``attend_forward``."""
    (B, P, H), queries = sources.keys.shape, len(x) // len(sources.keys)
    given, size = leaves or Leaves(x, 0, x, x, 0, 0.0, 0), block_of(P)
    tile = FORWARD[size]
    attend_forward[(B, triton.cdiv(queries, tile.queries))](
        x, norm.weight, norm.bias, *sources, out, given.states, given.weight, given.logits, seed,
        queries, P, out.stride(-2), given.state_batch, given.leaf_batch, given.place, norm.eps, 1 / math.sqrt(H),
        P_OUT=p_out, PLACE_OUT=OUT_PLACE, P_LEAF=given.p, LEAF=leaves is not None,
        H=H, BQ=tile.queries, BP=size, PRECISION=dot_precision(), num_warps=tile.warps, num_stages=1,
    )  # fmt: skip


def attend_back(
    x: Tensor, norm: Normalisation, sources: Sources, grad: Tensor, found: Tensor | None, seed: Tensor, left: Gradients,
    of_x: Tensor, first: int = 0, add: bool = False, p_out: float = 0.0, leaves: Leaves | None = None,
) -> None:  # fmt: skip
    """grad (B · Q, ·) → of_x, that of x (B · Q, H); what the rest needs goes to ``left``, from query ``first`` on.

    found: what ``attend`` has found, with the strides of grad; for leaves
    """
    (B, P, H), queries = sources.keys.shape, len(x) // len(sources.keys)
    given, size = leaves or Leaves(x, 0, x, x, 0, 0.0, 0), block_of(P)
    tile = BACKWARD[size]
    attend_backward[(B, triton.cdiv(queries, tile.queries))](
        x, norm.weight, norm.bias, *sources, grad, given.states, grad if found is None else found, given.weight,
        given.logits, seed, of_x, *left, queries, P, left.weights.shape[1], first, grad.stride(-2), given.state_batch,
        given.leaf_batch, given.place, norm.eps, 1 / math.sqrt(H),
        P_OUT=p_out, PLACE_OUT=OUT_PLACE, P_LEAF=given.p, LEAF=leaves is not None, ADD=add,
        H=H, BQ=tile.queries, BP=size, PRECISION=dot_precision(), num_warps=tile.warps, num_stages=1,
    )  # fmt: skip
