"""The complete tree of states, level by level: a few kernels for a level, and one product for each weight's gradient.

The rows of a level are (sentence, vertex from left to right); levels stand one after the other in one buffer, so that
the gradient of a weight is one product over all of them in the end.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.amp.autocast_mode import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from torch_ctree.models.fused.attention import (
    Gradients,
    Leaves,
    Normalisation,
    Sources,
    Totals,
    attend,
    attend_back,
    fits,
    leaf_logit,
)
from torch_ctree.models.fused.chance import keep
from torch_ctree.models.fused.functions import denormalised, normalised, tanh
from torch_ctree.models.fused.sums import column_sums

STATE, QUERY, LEAF = 1, 21, 41
"""Where dropout stands: these plus the level."""
ROWS, WARPS = 2, 1
"""Vertices that a program takes at a time: in one warp, sums over units need not wait for others."""
ROWS_SUMMED = 32
"""The same where sums go over vertices."""
MANY, REPEAT = 4096, 4
"""Where a level has so many vertices, a program of ``_children_backward`` takes some more of them in turn."""


# --- kernels ----------------------------------------------------------------------------------------------------------


@triton.jit
def _enter(
    state, context, cat, leaf, leaf_out, seed, rows, leaf_batch,
    P: tl.constexpr, PLACE: tl.constexpr, PLACE_LEAF: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The root: state, context (B, H) → cat (B, 2H) = [dropout(state); context], and the logit of being a leaf."""
    row, h = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, H)
    there, unit = (row < rows)[:, None], row[:, None] * H + h[None, :]
    value = tl.load(state + unit, mask=there, other=0.0)
    other = tl.load(context + unit, mask=there, other=0.0)
    number, double = tl.load(seed), row[:, None] * (2 * H) + h[None, :]
    tl.store(cat + double, value * keep(number, PLACE, unit, P), mask=there)
    tl.store(cat + double + H, other, mask=there)
    logit = leaf_logit(value, other, leaf, number, double, h, PLACE_LEAF, P, H)
    tl.store(leaf_out + row.to(tl.int64) * leaf_batch, logit, mask=row < rows)


@triton.jit
def _parent(
    cat, states, seed, row, h, there, level, state_batch, place,
    P: tl.constexpr, EXACT: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """dropout(state) (R, H): from cat, or, where that is not exact, as it was made."""
    if EXACT:
        return tl.load(cat + row[:, None] * (2 * H) + h[None, :], mask=there, other=0.0)
    vertex = (row // level).to(tl.int64) * state_batch + (level - 1 + row % level) * H
    state = tl.load(states + vertex[:, None] + h[None, :], mask=there, other=0.0)
    return state * keep(seed, place, row[:, None] * H + h[None, :], P)


@triton.jit(do_not_specialize=["rows", "level", "place", "place_query"])
def _children(
    made, cat, gamma, beta, states, query, next_cat, seed, rows, level, state_batch, place, place_query, eps,
    P: tl.constexpr, P_QUERY: tl.constexpr, INNER: tl.constexpr, EXACT: tl.constexpr, H: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """made (rows, 4H), two gates and two candidates → the children's states, (b, vertex, H) state_batch apart.

    And, where those have children too (INNER): dropout(state) (2 rows, H) for their queries, and cat's left half.
    level: how many vertices it has, a power of two
    """
    row, h = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, H)
    there, number = (row < rows)[:, None], tl.load(seed)
    b, a = row // level, row % level
    parent = _parent(cat, states, number, row, h, there, level, state_batch, place - 1, P, EXACT, H)
    scale, shift = tl.load(gamma + h)[None, :], tl.load(beta + h)[None, :]
    for side in tl.static_range(2):
        part = made + row[:, None] * (4 * H) + side * H + h[None, :]
        gate = tl.sigmoid(tl.load(part, mask=there, other=0.0).to(tl.float32))
        hat, _ = normalised(tl.load(part + 2 * H, mask=there, other=0.0).to(tl.float32), eps, H)
        child = parent + gate * (tanh(hat * scale + shift) - parent)
        vertex = b.to(tl.int64) * state_batch + (2 * level - 1 + 2 * a + side) * H
        tl.store(states + vertex[:, None] + h[None, :], child, mask=there)
        below = 2 * row + side
        unit = below[:, None] * H + h[None, :]
        if INNER:
            tl.store(query + unit, child * keep(number, place_query, unit, P_QUERY), mask=there)
            to = next_cat + below[:, None] * (2 * H) + h[None, :]
            tl.store(to, child * keep(number, place, unit, P), mask=there)


@triton.jit
def _state_gradient(
    grad_states, of_query, of_cat, of_gated, leaf, of_leaf, number, row, h, real, level, state_batch, leaf_batch,
    place, place_query, place_leaf,
    P: tl.constexpr, P_QUERY: tl.constexpr, QUERIES: tl.constexpr, INNER: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """Of the states of some rows of a level (R, H), everything that comes together there.

    What is said of them outside; with QUERIES what comes through their queries; and where they are INNER what comes
    through the production, its gates, and the logit of being a leaf.
    """
    b, a, there = row // level, row % level, real[:, None]
    vertex = b.to(tl.int64) * state_batch + (level - 1 + a) * H
    grad = tl.load(grad_states + vertex[:, None] + h[None, :], mask=there, other=0.0)
    unit = row[:, None] * H + h[None, :]
    if QUERIES:
        grad += tl.load(of_query + unit, mask=there, other=0.0).to(tl.float32) * keep(
            number, place_query, unit, P_QUERY
        )
    if INNER:
        double = row[:, None] * (2 * H) + h[None, :]
        through = tl.load(of_cat + double, mask=there, other=0.0).to(tl.float32)
        through += tl.load(of_gated + unit, mask=there, other=0.0)
        grad += through * keep(number, place, unit, P)
        of_logit = tl.load(of_leaf + b.to(tl.int64) * leaf_batch + level - 1 + a, mask=real, other=0.0)
        grad += of_logit[:, None] * tl.load(leaf + h)[None, :] * keep(number, place_leaf, double, P)
    return grad


@triton.jit(do_not_specialize=["rows", "level", "place", "place_query", "place_leaf"])
def _children_backward(
    made, cat, states, gamma, beta, grad_states, of_query, of_cat, of_gated, leaf, of_leaf, seed,
    of_made, of_parent, sums, rows, level, state_batch, leaf_batch, place, place_query, place_leaf, eps,
    P: tl.constexpr, P_QUERY: tl.constexpr, INNER: tl.constexpr, EXACT: tl.constexpr, H: tl.constexpr,
    ROWS: tl.constexpr, REPEAT: tl.constexpr,
):  # fmt: skip
    """The derivative of ``_children``: → of_made (rows, 4H), of_parent (rows, H).

    And sums (programs, 6H): of the gradients of gamma, of beta, and of what was made. A program takes ROWS rows REPEAT
    times, so that these are few.

    of_query, of_cat, of_gated are those of the children's level, whose numbers for dropout the places are.
    """
    h, number = tl.arange(0, H), tl.load(seed)
    scale, shift = tl.load(gamma + h)[None, :], tl.load(beta + h)[None, :]
    g_gamma, g_beta = tl.zeros((H,), tl.float32), tl.zeros((H,), tl.float32)
    left_gate, left_new = tl.zeros((H,), tl.float32), tl.zeros((H,), tl.float32)
    right_gate, right_new = tl.zeros((H,), tl.float32), tl.zeros((H,), tl.float32)
    for turn in range(REPEAT):
        row = (tl.program_id(0) * REPEAT + turn) * ROWS + tl.arange(0, ROWS)
        there = (row < rows)[:, None]
        parent = _parent(cat, states, number, row, h, there, level, state_batch, place - 1, P, EXACT, H)
        g_parent = tl.zeros((ROWS, H), tl.float32)
        for side in tl.static_range(2):
            at = row[:, None] * (4 * H) + side * H + h[None, :]
            gate = tl.sigmoid(tl.load(made + at, mask=there, other=0.0).to(tl.float32))
            hat, inverse = normalised(tl.load(made + at + 2 * H, mask=there, other=0.0).to(tl.float32), eps, H)
            candidate = tanh(hat * scale + shift)
            grad = _state_gradient(
                grad_states, of_query, of_cat, of_gated, leaf, of_leaf, number, 2 * row + side, h, row < rows,
                2 * level, state_batch, leaf_batch, place, place_query, place_leaf, P, P_QUERY, INNER, INNER, H,
            )  # fmt: skip
            of_gate = grad * (candidate - parent) * gate * (1.0 - gate)
            inner = grad * gate * (1.0 - candidate * candidate)
            of_new = denormalised(inner * scale, hat, inverse, H)
            tl.store(of_made + at, of_gate, mask=there)
            tl.store(of_made + at + 2 * H, of_new, mask=there)
            g_parent += grad * (1.0 - gate)
            g_gamma += tl.sum(inner * hat, 0)
            g_beta += tl.sum(inner, 0)
            if side == 0:
                left_gate += tl.sum(of_gate, 0)
                left_new += tl.sum(of_new, 0)
            else:
                right_gate += tl.sum(of_gate, 0)
                right_new += tl.sum(of_new, 0)
        tl.store(of_parent + row[:, None] * H + h[None, :], g_parent, mask=there)
    mine = sums + tl.program_id(0) * 6 * H + h
    tl.store(mine, g_gamma)
    tl.store(mine + H, g_beta)
    tl.store(mine + 2 * H, left_gate)
    tl.store(mine + 3 * H, right_gate)
    tl.store(mine + 4 * H, left_new)
    tl.store(mine + 5 * H, right_new)


@triton.jit(do_not_specialize=["rows"])
def _relu_backward(grad, hidden, sums, rows, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """grad (rows, WIDE) ← 0 where hidden is; and sums (programs, WIDE): of what is left."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there, at = (row < rows)[:, None], row[:, None] * WIDE + column[None, :]
    lives = tl.load(hidden + at, mask=there, other=0.0).to(tl.float32) > 0.0
    left = tl.where(lives, tl.load(grad + at, mask=there, other=0.0).to(tl.float32), 0.0)
    tl.store(grad + at, left, mask=there)
    tl.store(sums + tl.program_id(0) * WIDE + column, tl.sum(left, 0))


@triton.jit
def _leave(
    state, context, grad_states, of_cat, of_gated, leaf, of_leaf, seed, of_state, of_context, of_weight,
    rows, state_batch, leaf_batch,
    P: tl.constexpr, PLACE: tl.constexpr, PLACE_LEAF: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The root's gradients: of_state, of_context (B, H), and of the leaf's weights (programs, 2H + 1)."""
    row, h = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, H)
    there, unit, number = (row < rows)[:, None], row[:, None] * H + h[None, :], tl.load(seed)
    grad = _state_gradient(
        grad_states, of_cat, of_cat, of_gated, leaf, of_leaf, number, row, h, row < rows, 1, state_batch, leaf_batch,
        PLACE, 0, PLACE_LEAF, P, 0.0, False, True, H,
    )  # fmt: skip
    tl.store(of_state + unit, grad, mask=there)
    of_logit = tl.load(of_leaf + row.to(tl.int64) * leaf_batch, mask=row < rows, other=0.0)[:, None]
    double = row[:, None] * (2 * H) + h[None, :]
    kept = keep(number, PLACE_LEAF, double + H, P) * of_logit
    through = tl.load(of_cat + double + H, mask=there, other=0.0).to(tl.float32)
    tl.store(of_context + unit, through + kept * tl.load(leaf + H + h)[None, :], mask=there)
    value = tl.load(state + unit, mask=there, other=0.0)
    other = tl.load(context + unit, mask=there, other=0.0)
    mine = of_weight + tl.program_id(0) * (2 * H + 1)
    tl.store(mine + h, tl.sum(value * keep(number, PLACE_LEAF, double, P) * of_logit, 0))
    tl.store(mine + H + h, tl.sum(other * kept, 0))
    tl.store(mine + 2 * H, tl.sum(of_logit))


# --- the function -----------------------------------------------------------------------------------------------------


class Weights(NamedTuple):
    """All that is trained in the expansion."""

    query: Tensor  # (H, H)
    query_bias: Tensor  # (H,)
    query_norm: Tensor  # (H,)
    query_norm_bias: Tensor  # (H,)
    first: Tensor  # (2H, 2H)
    first_bias: Tensor  # (2H,)
    second: Tensor  # (4H, 2H)
    second_bias: Tensor  # (4H,)
    norm: Tensor  # (H,)
    norm_bias: Tensor  # (H,)
    leaf: Tensor  # (2H + 1,): the weight of states, of contexts, and the bias

    def multiplied(self, dtype: torch.dtype) -> Weights:
        """As the products want them: those of linear layers in their dtype."""
        names = ("query", "query_bias", "first", "first_bias", "second", "second_bias")
        return self._replace(**{name: getattr(self, name).to(dtype) for name in names})


class Settings(NamedTuple):
    """All that is not."""

    depth: int
    p: float
    p_query: float
    query_eps: float
    eps: float
    contexts: bool
    """Whether contexts are wanted too."""
    dtype: torch.dtype = torch.float32
    """Of what the products multiply; sums are in float32, and so are states."""


def _rows(d: int, batch: int) -> slice:
    """Of one level among all of them."""
    return slice(batch * ((1 << d) - 1), batch * ((2 << d) - 1))


class _Buffers(NamedTuple):
    """What the forward pass leaves for the backward pass: the rows of all inner levels but, for queries, the root's."""

    cat: Tensor  # (R, 2H): [dropout(state); context]
    hidden: Tensor  # (R, 2H): relu
    made: Tensor  # (R, 4H): gates and candidates
    dropped: Tensor  # (R − B, H): dropout(state), what queries are made of
    queries: Tensor  # (R − B, H): before normalisation

    @classmethod
    def empty(cls, states: Tensor, depth: int, dtype: torch.dtype) -> _Buffers:
        B, _, H = states.shape
        rows = B * ((1 << depth) - 1)
        sizes = ((rows, 2 * H), (rows, 2 * H), (rows, 4 * H), (rows - B, H), (rows - B, H))
        return cls(*(states.new_empty(size, dtype=dtype) for size in sizes))

    def level(self, d: int, batch: int) -> _Buffers:
        """The rows of one level; there are no queries at the root."""
        inner = _rows(d, batch)
        asked = slice(max(0, inner.start - batch), inner.stop - batch)
        return _Buffers(self.cat[inner], self.hidden[inner], self.made[inner], self.dropped[asked], self.queries[asked])


class _Sums(NamedTuple):
    """What the programs of all levels have summed up, (programs, width), and of each level."""

    all: Tensor
    of: tuple[Tensor, ...]

    @classmethod
    def empty(cls, root: Tensor, width: int, rows: list[int]) -> _Sums:
        """rows: of a program, level by level"""
        programs = [triton.cdiv(len(root) << d, each) for d, each in enumerate(rows)]
        buffer = root.new_empty(sum(programs), width)
        return cls(buffer, buffer.split(programs))


def _query_norm(w: Weights, s: Settings) -> Normalisation:
    return Normalisation(w.query_norm, w.query_norm_bias, s.query_eps)


def _leaves(states: Tensor, logits: Tensor, w: Weights, s: Settings, d: int) -> Leaves:
    """The logits of the vertices of one level."""
    first = (1 << d) - 1
    return Leaves(states[:, first:], states.stride(0), w.leaf, logits[:, first:], logits.stride(0), s.p, LEAF + d)


class _Expansion(torch.autograd.Function):
    """See ``expand``."""

    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(
        ctx: Any, root: Tensor, context: Tensor, keys: Tensor, values: Tensor, mask: Tensor, seed: Tensor,
        settings: Settings, *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        (B, H), s, w, sources = root.shape, settings, Weights(*weights), Sources(keys, values, mask)
        states = root.new_empty(B, (2 << s.depth) - 1, H)
        logits = root.new_zeros(B, (2 << s.depth) - 1)
        buffers = _Buffers.empty(states, s.depth, s.dtype)
        m = w.multiplied(s.dtype)
        states[:, 0] = root
        _enter[(triton.cdiv(B, ROWS),)](
            root, context, buffers.cat, w.leaf, logits, seed, B, logits.stride(0),
            P=s.p, PLACE=STATE, PLACE_LEAF=LEAF, H=H, ROWS=ROWS, num_warps=WARPS,
        )  # fmt: skip
        for d in range(s.depth):
            here, inner = buffers.level(d, B), d + 1 < s.depth
            if d:
                torch.addmm(m.query_bias, here.dropped, m.query.T, out=here.queries)
                leaves = _leaves(states, logits, w, s, d)
                attend(here.queries, _query_norm(w, s), sources, here.cat[:, H:], seed, leaves=leaves)
            torch.ops.aten._addmm_activation.out(m.first_bias, here.cat, m.first.T, out=here.hidden)
            torch.addmm(m.second_bias, here.hidden, m.second.T, out=here.made)
            below = buffers.level(d + 1, B) if inner else here
            _children[(triton.cdiv(len(here.cat), ROWS),)](
                here.made, here.cat, w.norm, w.norm_bias, states, below.dropped, below.cat, seed,
                len(here.cat), 1 << d, states.stride(0), STATE + d + 1, QUERY + d + 1, s.eps,
                P=s.p, P_QUERY=s.p_query, INNER=inner, EXACT=s.dtype == torch.float32, H=H, ROWS=ROWS, num_warps=WARPS,
            )  # fmt: skip
        ctx.save_for_backward(root, context, keys, values, mask, seed, states, *weights, *buffers)
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        return states, logits, buffers.cat[:, H:].float() if s.contexts else root.new_empty(0)

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cuda")
    def backward(
        ctx: Any, grad_states: Tensor | None, grad_logits: Tensor | None, grad_contexts: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        root, context, keys, values, mask, seed, states, *rest = ctx.saved_tensors
        w, buffers = Weights(*rest[: len(Weights._fields)]), _Buffers(*rest[len(Weights._fields) :])
        (B, H), s, sources = root.shape, ctx.settings, Sources(keys, values, mask)
        zero = states.new_zeros(())
        of_states = (zero.expand(states.shape) if grad_states is None else grad_states).contiguous()
        of_logits = (zero.expand(states.shape[:2]) if grad_logits is None else grad_logits).contiguous()
        grads = _Buffers(*(torch.empty_like(buffer) for buffer in buffers))
        m = w.multiplied(s.dtype)
        repeats = [REPEAT if B << d >= MANY else 1 for d in range(s.depth)]
        sums = _Sums.empty(root, 6 * H, [ROWS * times for times in repeats])
        hidden_sums = _Sums.empty(root, 2 * H, [ROWS_SUMMED] * s.depth)
        left = Gradients.empty((1 << s.depth) - 2, 1 << (s.depth - 1), sources, s.dtype, leaves=True)
        of_gated = root
        for d in reversed(range(s.depth)):
            here, there, inner = buffers.level(d, B), grads.level(d, B), d + 1 < s.depth
            below, of_parent = grads.level(d + 1, B) if inner else there, root.new_empty(len(here.cat), H)
            _children_backward[(len(sums.of[d]),)](
                here.made, here.cat, states, w.norm, w.norm_bias, of_states, below.dropped, below.cat, of_gated, w.leaf,
                of_logits, seed, there.made, of_parent, sums.of[d], len(here.cat), 1 << d, states.stride(0),
                of_logits.stride(0), STATE + d + 1, QUERY + d + 1, LEAF + d + 1, s.eps,
                P=s.p, P_QUERY=s.p_query, INNER=inner, EXACT=s.dtype == torch.float32, H=H, ROWS=ROWS,
                REPEAT=repeats[d], num_warps=WARPS,
            )  # fmt: skip
            of_gated = of_parent
            torch.mm(there.made, m.second, out=there.hidden)
            columns = min(128, 2 * H)
            _relu_backward[(len(hidden_sums.of[d]), 2 * H // columns)](
                there.hidden, here.hidden, hidden_sums.of[d], len(here.cat),
                WIDE=2 * H, ROWS=ROWS_SUMMED, COLUMNS=columns, num_warps=4,
            )  # fmt: skip
            torch.mm(there.hidden, m.first, out=there.cat)
            if grad_contexts is not None:
                there.cat[:, H:] += grad_contexts[_rows(d, B)]
            if d:
                attend_back(
                    here.queries, _query_norm(w, s), sources, there.cat[:, H:], here.cat[:, H:], seed, left,
                    there.queries, (1 << d) - 2, inner, leaves=_leaves(states, of_logits, w, s, d),
                )  # fmt: skip
                torch.mm(there.queries, m.query, out=there.dropped)
        of_root, of_context = torch.empty_like(root), torch.empty_like(context)
        of_leaf = root.new_empty(triton.cdiv(B, ROWS), 2 * H + 1)
        _leave[(triton.cdiv(B, ROWS),)](
            root, context, of_states, grads.cat, of_gated, w.leaf, of_logits, seed, of_root, of_context, of_leaf,
            B, states.stride(0), of_logits.stride(0),
            P=s.p, PLACE=STATE, PLACE_LEAF=LEAF, H=H, ROWS=ROWS, num_warps=WARPS,
        )  # fmt: skip
        # a tree of one level asks nothing of the source
        asked = left.totals(sources, _query_norm(w, s)) if s.depth > 1 else None
        of_sources = (None, None) if asked is None else (asked.keys, asked.values)
        of_weights = _weight_gradients(buffers, grads, sums.all, hidden_sums.all, of_leaf.sum(0), asked)
        return of_root, of_context, *of_sources, None, None, None, *of_weights


def _weight_gradients(
    buffers: _Buffers, grads: _Buffers, sums: Tensor, hidden_sums: Tensor, of_leaf: Tensor, asked: Totals | None
) -> tuple[Tensor | None, ...]:
    """One product for each weight and one sum for each bias, in the order of ``Weights``."""

    def weight(outputs: Tensor, inputs: Tensor) -> Tensor:
        return (outputs.T @ inputs).float()

    H = buffers.dropped.shape[1]
    of_query: tuple[Tensor | None, ...] = (None,) * 4
    if asked is not None:
        of_bias = column_sums(grads.queries)
        of_query = weight(grads.queries, buffers.dropped), of_bias, asked.gamma, asked.beta
        of_leaf = of_leaf + asked.leaf
    of_first = weight(grads.hidden, buffers.cat), column_sums(hidden_sums)
    of_norm, of_norm_bias, of_second_bias = column_sums(sums).split([H, H, 4 * H])
    of_second = weight(grads.made, buffers.hidden), of_second_bias
    return *of_query, *of_first, *of_second, of_norm, of_norm_bias, of_leaf


def can_expand(positions: int, width: int, depth: int, batch: int, dtype: torch.dtype) -> bool:
    """Whether the kernels can do it: what they count must fit into 32 bits, too."""
    return depth > 0 and fits(positions, width, dtype) and (batch << depth) * 4 * width < 1 << 31


def expand(
    root: Tensor, context: Tensor, sources: Sources, settings: Settings, weights: Weights, seed: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The tree below a root: root, context (B, H) → states (B, V, H), leaf logits (B, V), contexts of inner vertices.

    Contexts (B, V // 2, H) only where the settings ask for them.
    """
    states, logits, contexts = _Expansion.apply(
        root.contiguous(), context.contiguous(), *sources.ready(), seed, settings, *weights
    )  # pyright: ignore[reportGeneralTypeIssues]
    if not settings.contexts:
        return states, logits, None
    B, H = root.shape
    levels = torch.split(contexts, [B << d for d in range(settings.depth)])
    return states, logits, torch.cat([level.view(B, -1, H) for level in levels], 1)
