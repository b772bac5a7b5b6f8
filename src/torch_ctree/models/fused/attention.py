"""Dot-product attention whose queries are normalised on the way: one kernel forward, one backward.

With q = layernorm(x), the answer is softmax(q · keysᵀ / √h) · values. All positions fit into one block, so that nothing
has to be kept for the backward pass: it computes the weights again.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from torch_ctree.devices import dot_precision
from torch_ctree.models.fused.chance import keep
from torch_ctree.models.fused.sums import column_sums

MOST_POSITIONS, MOST_UNITS = 128, 128
"""What fits into the fast memory of one multiprocessor."""


class Normalisation(NamedTuple):
    """A layer normalisation's parameters."""

    weight: Tensor  # (H,)
    bias: Tensor  # (H,)
    eps: float


def fits(positions: int, width: int) -> bool:
    """Whether the kernels can do it."""
    return positions <= MOST_POSITIONS and 16 <= width <= MOST_UNITS and triton.next_power_of_2(width) == width


def block_of(positions: int) -> int:
    """Positions, with those that only fill up: a matrix unit wants 16 at least."""
    return max(16, triton.next_power_of_2(positions))


# --- kernels ----------------------------------------------------------------------------------------------------------


@triton.jit
def normalised(x, eps, H: tl.constexpr):
    """Rows (R, H) → less their mean, over their deviation; and one over the deviation (R,)."""
    centred = x - (tl.sum(x, 1) / H)[:, None]
    inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / H + eps)
    return centred * inverse[:, None], inverse


@triton.jit
def denormalised(grad, hat, inverse, H: tl.constexpr):
    """The derivative of ``normalised``: of its result → of x."""
    along = tl.sum(grad * hat, 1) / H
    return (grad - (tl.sum(grad, 1) / H)[:, None] - hat * along[:, None]) * inverse[:, None]


@triton.jit
def _softmax(scores, real):
    scores = tl.where(real, scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit
def attend_forward(
    x, gamma, beta, keys, values, mask, out, states, leaf, leaf_out, seed,
    queries, positions, out_stride, state_batch, leaf_batch, eps, scale,
    P_OUT: tl.constexpr, PLACE_OUT: tl.constexpr, P_LEAF: tl.constexpr, PLACE_LEAF: tl.constexpr, LEAF: tl.constexpr,
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
    real = (tl.load(mask + whole + p, mask=p < positions, other=0) != 0)[None, :]
    key = tl.load(keys + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    hat, _ = normalised(tl.load(x + first * H + cell, mask=there, other=0.0), eps, H)
    query = (hat * tl.load(gamma + h)[None, :] + tl.load(beta + h)[None, :]) * scale
    weights = _softmax(tl.dot(query, tl.trans(key), input_precision=PRECISION), real)
    value = tl.load(values + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    found = tl.dot(weights, value, input_precision=PRECISION)
    number = tl.load(seed)
    to = out + first * out_stride + q[:, None] * out_stride + h[None, :]
    tl.store(to, found * keep(number, PLACE_OUT, unit, P_OUT), mask=there)
    if LEAF:
        state = tl.load(states + b.to(tl.int64) * state_batch + cell, mask=there, other=0.0)
        double = b * queries * 2 * H + q[:, None] * (2 * H) + h[None, :]
        logit = leaf_logit(state, found, leaf, number, double, h, P_LEAF, PLACE_LEAF, H)
        tl.store(leaf_out + b.to(tl.int64) * leaf_batch + q, logit, mask=q < queries)


@triton.jit
def leaf_logit(
    state, context, leaf, seed, unit, h,
    P: tl.constexpr, PLACE: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """w · dropout([state; context]) + b for states and contexts (R, H); leaf (2H + 1,): w and b; unit: of states."""
    one = state * keep(seed, PLACE, unit, P) * tl.load(leaf + h)[None, :]
    other = context * keep(seed, PLACE, unit + H, P) * tl.load(leaf + H + h)[None, :]
    return tl.sum(one + other, 1) + tl.load(leaf + 2 * H)


@triton.jit
def attend_backward(
    x, gamma, beta, keys, values, mask, grad, states, contexts, leaf, leaf_grad, seed,
    grad_x, grad_keys, grad_values, grad_norm, grad_leaf,
    queries, positions, grad_stride, state_batch, leaf_batch, eps, scale,
    P_OUT: tl.constexpr, PLACE_OUT: tl.constexpr, P_LEAF: tl.constexpr, PLACE_LEAF: tl.constexpr, LEAF: tl.constexpr,
    ADD: tl.constexpr, BLOCKS: tl.constexpr,
    H: tl.constexpr, BQ: tl.constexpr, BP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The derivative: → grad_x (B, Q, H); grad_keys, grad_values (splits, B, P, H), grad_norm (splits, B, 2, H).

    A program goes through some blocks of one sentence's queries; with ADD it adds to what is there. With LEAF the
    context's gradient also comes from the logit of being a leaf, and grad_leaf (splits, B, 2H + 1) is that of its
    weights. Contexts, what the forward pass found, stand where its gradient stands.
    """
    b, split = tl.program_id(0), tl.program_id(1)
    h, p = tl.arange(0, H), tl.arange(0, BP)
    positioned, first, whole = (p < positions)[:, None], b.to(tl.int64) * queries, b.to(tl.int64) * positions
    real = (tl.load(mask + whole + p, mask=p < positions, other=0) != 0)[None, :]
    place = p[:, None] * H + h[None, :]
    key = tl.load(keys + whole * H + place, mask=positioned, other=0.0)
    value = tl.load(values + whole * H + place, mask=positioned, other=0.0)
    scaled, shift = tl.load(gamma + h)[None, :], tl.load(beta + h)[None, :]
    number = tl.load(seed)

    g_key, g_value = tl.zeros((BP, H), tl.float32), tl.zeros((BP, H), tl.float32)
    g_gamma, g_beta = tl.zeros((H,), tl.float32), tl.zeros((H,), tl.float32)
    g_state, g_context, g_bias = tl.zeros((H,), tl.float32), tl.zeros((H,), tl.float32), 0.0
    for n in range(BLOCKS):
        q = (split * BLOCKS + n) * BQ + tl.arange(0, BQ)
        there, cell = (q < queries)[:, None], q[:, None] * H + h[None, :]
        hat, inverse = normalised(tl.load(x + first * H + cell, mask=there, other=0.0), eps, H)
        query = (hat * scaled + shift) * scale
        weights = _softmax(tl.dot(query, tl.trans(key), input_precision=PRECISION), real)
        apart = q[:, None] * grad_stride + h[None, :]
        upstream = tl.load(grad + first * grad_stride + apart, mask=there, other=0.0)
        upstream *= keep(number, PLACE_OUT, b * queries * H + cell, P_OUT)
        if LEAF:
            state = tl.load(states + b.to(tl.int64) * state_batch + cell, mask=there, other=0.0)
            context = tl.load(contexts + first * grad_stride + apart, mask=there, other=0.0)
            of_logit = tl.load(leaf_grad + b.to(tl.int64) * leaf_batch + q, mask=q < queries, other=0.0)[:, None]
            double = b * queries * 2 * H + q[:, None] * (2 * H) + h[None, :]
            kept = keep(number, PLACE_LEAF, double + H, P_LEAF) * of_logit
            upstream += kept * tl.load(leaf + H + h)[None, :]
            g_context += tl.sum(kept * context, 0)
            g_state += tl.sum(keep(number, PLACE_LEAF, double, P_LEAF) * of_logit * state, 0)
            g_bias += tl.sum(of_logit)
        of_weights = tl.dot(upstream, tl.trans(value), input_precision=PRECISION)
        of_scores = weights * (of_weights - tl.sum(weights * of_weights, 1)[:, None])
        # rows that only fill up have no upstream, so that nothing of theirs is added
        g_value += tl.dot(tl.trans(weights), upstream, input_precision=PRECISION)
        g_key += tl.dot(tl.trans(of_scores), query, input_precision=PRECISION)
        of_query = tl.dot(of_scores, key, input_precision=PRECISION) * scale
        g_gamma += tl.sum(of_query * hat, 0)
        g_beta += tl.sum(of_query, 0)
        tl.store(grad_x + first * H + cell, denormalised(of_query * scaled, hat, inverse, H), mask=there)

    mine = split * tl.num_programs(0).to(tl.int64) + b
    to_keys, to_values = grad_keys + mine * positions * H + place, grad_values + mine * positions * H + place
    if ADD:
        g_key += tl.load(to_keys, mask=positioned, other=0.0)
        g_value += tl.load(to_values, mask=positioned, other=0.0)
        g_gamma += tl.load(grad_norm + mine * 2 * H + h)
        g_beta += tl.load(grad_norm + mine * 2 * H + H + h)
    tl.store(to_keys, g_key, mask=positioned)
    tl.store(to_values, g_value, mask=positioned)
    tl.store(grad_norm + mine * 2 * H + h, g_gamma)
    tl.store(grad_norm + mine * 2 * H + H + h, g_beta)
    if LEAF:
        of_leaf = grad_leaf + mine * (2 * H + 1)
        if ADD:
            g_state += tl.load(of_leaf + h)
            g_context += tl.load(of_leaf + H + h)
            g_bias += tl.load(of_leaf + 2 * H)
        tl.store(of_leaf + h, g_state)
        tl.store(of_leaf + H + h, g_context)
        tl.store(of_leaf + 2 * H, g_bias)


@triton.jit
def _drop(x, out, seed, size, P: tl.constexpr, PLACE: tl.constexpr, BLOCK: tl.constexpr):
    unit = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + unit, mask=unit < size)
    tl.store(out + unit, value * keep(tl.load(seed), PLACE, unit, P), mask=unit < size)


def dropped(x: Tensor, seed: Tensor, p: float, place: int) -> Tensor:
    """Dropout, and, of a gradient, its derivative."""
    if p == 0:
        return x
    out = torch.empty_like(x)
    _drop[(triton.cdiv(x.numel(), 1024),)](x, out, seed, x.numel(), P=p, PLACE=place, BLOCK=1024, num_warps=4)
    return out


# --- launching --------------------------------------------------------------------------------------------------------


class Sources(NamedTuple):
    """What is attended to."""

    keys: Tensor  # (B, P, H)
    values: Tensor  # (B, P, H)
    mask: Tensor  # (B, P)


class Leaves(NamedTuple):
    """What the logits of being a leaf are made of, for states (b, q, H) that begin state_batch apart."""

    states: Tensor
    state_batch: int
    weight: Tensor  # (2H + 1,): of states, of contexts, and the bias
    logits: Tensor  # (b, q) that begin leaf_batch apart; in the backward pass their gradients
    leaf_batch: int
    p: float
    place: int


class Gradients(NamedTuple):
    """Sums that programs of their own each add to: the first dimension is that of several for one sentence."""

    keys: Tensor  # (splits, B, P, H)
    values: Tensor  # (splits, B, P, H)
    norm: Tensor  # (splits, B, 2, H)
    leaf: Tensor  # (splits, B, 2H + 1)

    @classmethod
    def empty(cls, splits: int, sources: Sources) -> Gradients:
        """Not yet written."""
        B, P, H = sources.keys.shape
        sizes = ((P, H), (P, H), (2, H), (2 * H + 1,))
        return cls(*(sources.keys.new_empty(splits, B, *size) for size in sizes))


def attend(
    x: Tensor, norm: Normalisation, sources: Sources, out: Tensor, seed: Tensor, p_out: float = 0.0,
    leaves: Leaves | None = None,
) -> None:  # fmt: skip
    """x (B · Q, H) → out (B · Q, ·), and with ``leaves`` logits; see ``attend_forward``."""
    (B, P, H), queries = sources.keys.shape, len(x) // len(sources.keys)
    given = leaves or Leaves(x, 0, x, x, 0, 0.0, 0)
    attend_forward[(B, triton.cdiv(queries, 32))](
        x, norm.weight, norm.bias, *sources, out, given.states, given.weight, given.logits, seed,
        queries, P, out.stride(-2), given.state_batch, given.leaf_batch, norm.eps, 1 / math.sqrt(H),
        P_OUT=p_out, PLACE_OUT=OUT_PLACE, P_LEAF=given.p, PLACE_LEAF=given.place, LEAF=leaves is not None,
        H=H, BQ=32, BP=block_of(P), PRECISION=dot_precision(), num_warps=4, num_stages=1,
    )  # fmt: skip


def attend_back(
    x: Tensor, norm: Normalisation, sources: Sources, grad: Tensor, seed: Tensor, sums: Gradients, add: bool,
    of_x: Tensor, p_out: float = 0.0, contexts: Tensor | None = None, leaves: Leaves | None = None,
) -> None:  # fmt: skip
    """grad (B · Q, ·) → of_x, that of x (B · Q, H), and of all else in ``sums``; see ``attend_backward``."""
    (B, P, H), queries, splits = sources.keys.shape, len(x) // len(sources.keys), len(sums.keys)
    size, block = block_of(P), 16 if P > 64 else 32
    warps = 4 if size < 64 else 8  # of small blocks, two find room on a multiprocessor
    given = leaves or Leaves(x, 0, x, x, 0, 0.0, 0)
    attend_backward[(B, splits)](
        x, norm.weight, norm.bias, *sources, grad, given.states, grad if contexts is None else contexts,
        given.weight, given.logits, seed, of_x, *sums,
        queries, P, grad.stride(-2), given.state_batch, given.leaf_batch, norm.eps, 1 / math.sqrt(H),
        P_OUT=p_out, PLACE_OUT=OUT_PLACE, P_LEAF=given.p, PLACE_LEAF=given.place, LEAF=leaves is not None,
        ADD=add, BLOCKS=triton.cdiv(triton.cdiv(queries, block), splits),
        H=H, BQ=block, BP=size, PRECISION=dot_precision(), num_warps=warps, num_stages=1,
    )  # fmt: skip


# --- as a function of states ------------------------------------------------------------------------------------------

QUERY_PLACE, OUT_PLACE = 101, 102


class _Attended(torch.autograd.Function):
    """Of all vertices at once; see ``attended``."""

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, keys: Tensor,
        values: Tensor, mask: Tensor, seed: Tensor, eps: float, p_query: float, p_out: float,
    ) -> Tensor:  # fmt: skip
        query = dropped(states, seed, p_query, QUERY_PLACE).view(-1, states.shape[-1])
        x = torch.addmm(bias, query, weight.T)
        out = torch.empty_like(states)
        attend(x, Normalisation(gamma, beta, eps), Sources(keys, values, mask), out, seed, p_out)
        ctx.save_for_backward(query, x, weight, gamma, beta, keys, values, mask, seed)
        ctx.eps, ctx.p_query, ctx.p_out = eps, p_query, p_out
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, x, weight, gamma, beta, keys, values, mask, seed = ctx.saved_tensors
        sources, grad = Sources(keys, values, mask), grad.contiguous()
        sums = Gradients.empty(min(4, triton.cdiv(grad.shape[1], 64)), sources)
        norm, of_x = Normalisation(gamma, beta, ctx.eps), torch.empty_like(x)
        attend_back(x, norm, sources, grad, seed, sums, False, of_x, ctx.p_out)
        of_states = dropped((of_x @ weight).view_as(grad), seed, ctx.p_query, QUERY_PLACE)
        of_gamma, of_beta = sums.norm.sum((0, 1))
        return (
            of_states, of_x.T @ query, column_sums(of_x), of_gamma, of_beta, sums.keys.sum(0), sums.values.sum(0),
            None, None, None, None, None,
        )  # fmt: skip


def attended(
    states: Tensor, query: nn.Linear, norm: nn.LayerNorm, sources: Sources, seed: Tensor, p_query: float, p_out: float
) -> Tensor:
    """dropout(softmax(layernorm(query(dropout(states))) · keysᵀ / √h) · values): states (B, Q, H) → (B, Q, H)"""
    return _Attended.apply(
        states.contiguous(), query.weight, query.bias, norm.weight, norm.bias,
        *(tensor.contiguous() for tensor in sources), seed, norm.eps, p_query, p_out,
    )  # pyright: ignore[reportReturnType]  # fmt: skip
