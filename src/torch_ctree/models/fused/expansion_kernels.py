"""The kernels that the expansion consists of, apart from attention and the products between them; see ``expansion``."""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

import triton
import triton.language as tl

from torch_ctree.models.fused.attention import leaf_logit
from torch_ctree.models.fused.chance import keep
from torch_ctree.models.fused.functions import denormalised, normalised, tanh


@triton.jit
def enter(
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


@triton.jit
def _below(row, side, ONLY: tl.constexpr):
    """The rows of children in buffers that have all of them, or, with ONLY = 1, the right ones."""
    return (2 - ONLY) * row + side - ONLY


@triton.jit(do_not_specialize=["rows", "level", "place", "place_query"])
def children(
    made, cat, gamma, beta, states, query, next_cat, seed, rows, level, state_batch, place, place_query, eps,
    P: tl.constexpr, P_QUERY: tl.constexpr, INNER: tl.constexpr, ONLY: tl.constexpr, EXACT: tl.constexpr,
    H: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """made (rows, 4H), two gates and two candidates → the children's states, (b, vertex, H) state_batch apart.

    And, where those have children too (INNER; with ONLY = 1 the right ones alone): dropout(state) (rows below, H) for
    their queries, and cat's left half.
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
        if INNER and side >= ONLY:
            below = _below(row, side, ONLY)
            unit = below[:, None] * H + h[None, :]
            tl.store(query + unit, child * keep(number, place_query, unit, P_QUERY), mask=there)
            to = next_cat + below[:, None] * (2 * H) + h[None, :]
            tl.store(to, child * keep(number, place, unit, P), mask=there)


@triton.jit
def _state_gradient(
    grad_states, of_query, of_cat, of_gated, leaf, of_leaf, number, row, at, h, real, level, state_batch,
    leaf_batch, place, place_query, place_leaf,
    P: tl.constexpr, P_QUERY: tl.constexpr, QUERIES: tl.constexpr, INNER: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """Of the states of some rows of a level (R, H), everything that comes together there.

    What is said of them outside; with QUERIES what comes through their queries; and where they are INNER what comes
    through the production, its gates, and the logit of being a leaf. at: where they stand in the buffers of these
    """
    b, a, there = row // level, row % level, real[:, None]
    vertex = b.to(tl.int64) * state_batch + (level - 1 + a) * H
    grad = tl.load(grad_states + vertex[:, None] + h[None, :], mask=there, other=0.0)
    unit = at[:, None] * H + h[None, :]
    if QUERIES:
        grad += tl.load(of_query + unit, mask=there, other=0.0).to(tl.float32) * keep(
            number, place_query, unit, P_QUERY
        )
    if INNER:
        double = at[:, None] * (2 * H) + h[None, :]
        through = tl.load(of_cat + double, mask=there, other=0.0).to(tl.float32)
        through += tl.load(of_gated + unit, mask=there, other=0.0)
        grad += through * keep(number, place, unit, P)
        of_logit = tl.load(of_leaf + b.to(tl.int64) * leaf_batch + level - 1 + a, mask=real, other=0.0)
        grad += of_logit[:, None] * tl.load(leaf + h)[None, :] * keep(number, place_leaf, double, P)
    return grad


@triton.jit(do_not_specialize=["rows", "level", "place", "place_query", "place_leaf"])
def children_backward(
    made, cat, states, gamma, beta, grad_states, of_query, of_cat, of_gated, leaf, of_leaf, seed,
    of_made, of_parent, sums, rows, level, state_batch, leaf_batch, place, place_query, place_leaf, eps,
    P: tl.constexpr, P_QUERY: tl.constexpr, INNER: tl.constexpr, ONLY: tl.constexpr, EXACT: tl.constexpr,
    H: tl.constexpr, ROWS: tl.constexpr, REPEAT: tl.constexpr,
):  # fmt: skip
    """The derivative of ``children``: → of_made (rows, 4H), of_parent (rows, H).

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
                grad_states, of_query, of_cat, of_gated, leaf, of_leaf, number, 2 * row + side, _below(row, side, ONLY),
                h, row < rows, 2 * level, state_batch, leaf_batch, place, place_query, place_leaf,
                P, P_QUERY, INNER and side >= ONLY, INNER and side >= ONLY, H,
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
def relu_backward(grad, hidden, sums, rows, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """grad (rows, WIDE) ← 0 where hidden is; and sums (programs, WIDE): of what is left."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    there, at = (row < rows)[:, None], row[:, None] * WIDE + column[None, :]
    lives = tl.load(hidden + at, mask=there, other=0.0).to(tl.float32) > 0.0
    left = tl.where(lives, tl.load(grad + at, mask=there, other=0.0).to(tl.float32), 0.0)
    tl.store(grad + at, left, mask=there)
    tl.store(sums + tl.program_id(0) * WIDE + column, tl.sum(left, 0))


@triton.jit
def leave(
    state, context, grad_states, of_cat, of_gated, leaf, of_leaf, seed, of_state, of_context, of_weight,
    rows, state_batch, leaf_batch,
    P: tl.constexpr, PLACE: tl.constexpr, PLACE_LEAF: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The root's gradients: of_state, of_context (B, H), and of the leaf's weights (programs, 2H + 1)."""
    row, h = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, H)
    there, unit, number = (row < rows)[:, None], row[:, None] * H + h[None, :], tl.load(seed)
    grad = _state_gradient(
        grad_states, of_cat, of_cat, of_gated, leaf, of_leaf, number, row, row, h, row < rows, 1, state_batch,
        leaf_batch, PLACE, 0, PLACE_LEAF, P, 0.0, False, True, H,
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
