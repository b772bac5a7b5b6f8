"""The charts of a grammar as Triton kernels, for GPUs: four launches for each width on the way up, and four back.

``inside`` and ``outside`` are those of ``charts``, in float32: the same cells, the same scales, the same bounds. What
belongs to one cell is one program's work, and what belongs to one place of a sentence another's:

    combine     for a cell: the sum over its split points, scaled; the means at its places
    (matmul)    of places, as parents' states see them, left and right, right into L and R
    stay        for a place, all cells of a width: what its states see of each other, added to L and R

    collect     for a cell, some of its states: the derivatives of L and R, from all the wider cells that have it as a
                part, and their bounds
    (matmul)    of the derivatives of L and R, those of places
    settle      for a place, all cells of a width: the derivatives of states, and what becomes of them

    count       for a place, all cells: how often its states are each other's children
    (matmul)    how often states' children go to places
    finish      for some states: by logits

So on the way back a cell collects from the wider ones. Those keep one row each, the derivative of their sum over split
points, and the derivatives of L and R are made when their cells' turn comes: never read again, never added to.

Every number is written by one program, so that results are the same each time; no function here waits for the device,
and none depends on values: all can be captured in CUDA graphs. Sizes that change from batch to batch are not
specialised on; O is, by its power of two. Powers of two are made of bits, and exact.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false, reportOperatorIssue=false
# pyright: reportIndexIssue=false, reportPossiblyUnboundVariable=false
# (Triton's tensors are no Python numbers, and its branches on constants no branches)

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from torch_ctree.devices import dot_precision
from torch_ctree.trees.cells import (
    LN2,
    TOP,
    Chart,
    Outside,
    Transitions,
    as_parts,
    cells_of,
    first_cell,
    value_at_root,
)

STATES, SPLITS = 1024, 4
"""Of a block: states, and split points or wider cells at a time."""

TILE = 2048
"""States of a block that is made of places, operators being filled up to a power of two."""

SCALES = 64
"""Split points whose scales are compared at a time."""

SPANS = 16
"""Cells that a place multiplies at a time."""

ROWS, COLUMNS = 4, 256
"""Of a block of transitions: states, and where they go."""

LEAST = 16
"""The least size of a product in Triton."""

# --- the contract -----------------------------------------------------------------------------------------------------


def inside(leaves: Tensor, log_split: Tensor, left: Transitions, right: Transitions) -> Chart:
    """leaves (B, N, Q): log leaf(s) + log emit(s, x_i); log_split (B, Q); left, right: probabilities. All float32."""
    B, N, Q = leaves.shape
    P, operators = left.places, left.operators
    C = N * (N + 1) // 2
    parts, scales, sizes, wide = (B, N, N - 1, Q), (B, N, N - 1), (N, P, operators), triton.next_power_of_2(operators)
    shapes = ((B, C, Q), (B, C), parts, parts, scales, scales)
    chart = Chart(*(leaves.new_empty(shape) for shape in shapes))
    split, choice, places = log_split.exp().contiguous(), left.choice.contiguous(), leaves.new_empty(B, N, P)
    values = left.values.contiguous(), right.values.contiguous()
    going = [side[..., :P].mT for side in values]  # (B, P, Q)
    scale = (leaves.amax(-1) / LN2).floor().clamp_min(torch.finfo(leaves.dtype).min)
    chart.scale[:, :N] = scale
    torch.exp(leaves - LN2 * scale[..., None], out=chart.beta[:, :N])
    for width in range(1, N + 1):
        spans = N - width + 1
        _launch(
            _combine, (spans, B), *chart, split, choice, places, first_cell(N, width), width, *sizes, FIRST=width == 1,
            TOP=TOP[leaves.dtype], STATES=STATES, SPLITS=SPLITS, SCALES=SCALES, PLACES=max(1, TILE // wide), WIDE=wide,
            STEP=_step(operators), num_warps=8,
        )  # fmt: skip
        if width < N:
            for part, side in zip(as_parts(chart.left, chart.right, width), going, strict=True):
                torch.bmm(places[:, :spans], side, out=part)
            if left.has_stays:
                _launch(
                    _stay, (P, B), chart.beta, *values, chart.left, chart.right, first_cell(N, width), width, *sizes,
                    left.arriving, KEPT=_wide(operators - left.arriving), **_for_products(operators),
                )  # fmt: skip
    return chart


def outside(
    chart: Chart,
    log_split: Tensor,
    left: Transitions,
    right: Transitions,
    root: Tensor,
    lengths: Tensor,
    grad: Tensor,
) -> Outside:
    """Derivatives of Σ_b grad[b] · log p(x_b): root, lengths, grad (B,). What is impossible has derivative 0."""
    B, N = chart.left.shape[:2]
    C, Q = chart.beta.shape[1:]
    P, operators = left.places, left.operators
    sizes, new = (N, P, operators), chart.beta.new_empty
    root_of_split, choice = log_split.exp().sqrt().contiguous(), left.choice.contiguous()
    values = left.values.contiguous(), right.values.contiguous()
    of_sums, top, places, per_place = new(B, C - N, Q), new(B, C), new(B, N, P), new(B, C, P)
    lefts, rights = new(B, C - 1, Q), new(B, C - 1, Q)
    leaves, splits, of_choice = new(B, N, Q), torch.zeros_like(root_of_split), torch.zeros_like(choice)
    at_root = value_at_root(chart, choice, root, lengths)
    at_root = torch.where(at_root > 0, grad / at_root, 0)
    root, lengths, size = root.contiguous(), lengths.contiguous(), grad.abs()
    for width in reversed(range(1, N + 1)):
        spans, cells = N - width + 1, cells_of(N, width)
        _launch(
            _collect, (triton.cdiv(Q, STATES), spans, B), *chart[2:], of_sums, top, size, lengths, lefts, rights,
            cells.start, width, *sizes, STATES=STATES, SPLITS=SPLITS, SCALES=SCALES, STEP=_step(operators), num_warps=8,
        )  # fmt: skip
        if width < N:
            torch.bmm(lefts[:, cells], values[0][..., :P], out=places[:, :spans])
            places[:, :spans].baddbmm_(rights[:, cells], values[1][..., :P])
        _launch(
            _settle, (P, B), chart.beta, chart.scale, *values, choice, root_of_split, top, places, lefts, rights,
            at_root, root, lengths, size, of_choice, leaves, splits, of_sums, per_place, cells.start, width, *sizes,
            left.arriving, STAYS=left.has_stays, **_for_products(operators),
        )  # fmt: skip
    return Outside(leaves, splits, of_choice, lefts, rights, _square(per_place.sum(-1), N))


def by_logits(result: Outside, beta: Tensor, left: Transitions, right: Transitions, grad: Tensor) -> list[Tensor]:
    """By the logits of left and of right transitions, (B, Q, W) each, beta of the chart.

    The derivatives of L and R are multiplied by 2^-24 on the way, where they are: nobody needs them after that.
    """
    B, C, Q = beta.shape
    P, operators = left.places, left.operators
    values, parts = (left.values.contiguous(), right.values.contiguous()), (result.left, result.right)
    found, places, size = [torch.empty_like(side) for side in values], beta.new_empty(B, C - 1, P), grad.abs()
    _launch(
        _count, (P, B), beta, *parts, left.choice.contiguous(), places, *found, C, P, operators, left.arriving,
        STAYS=left.has_stays, KEPT=_wide(operators - left.arriving), **_for_products(operators),
    )  # fmt: skip
    for part, counts in zip(parts, found, strict=True):
        torch.bmm(part.mT, places, out=counts[..., :P])
    _launch(
        _finish, (triton.cdiv(Q, ROWS), B), *values, *found, size, Q, left.values.shape[-1], C - 1, ROWS=ROWS,
        COLUMNS=COLUMNS, num_warps=4,
    )  # fmt: skip
    return found


def _square(cells: Tensor, tokens: int) -> Tensor:
    """Cells (B, C) → (B, N, N) [start, end − 1], 0 elsewhere."""
    place = torch.arange(tokens, device=cells.device)
    start, last = place[:, None], place[None, :]
    number = first_cell(tokens, (last - start).clamp_min(0) + 1) + torch.minimum(start, last)
    return torch.where(start <= last, cells[:, number], 0)


# --- launching --------------------------------------------------------------------------------------------------------


def _step(operators: int) -> int:
    """What their number is a multiple of: that many states are loaded at once."""
    return math.gcd(operators, 4)


def _wide(operators: int) -> int:
    """The size of a product of so many."""
    return max(LEAST, triton.next_power_of_2(operators))


def _for_products(operators: int) -> dict[str, Any]:
    """Constants of kernels that multiply matrices of operators."""
    wide = _wide(operators)
    constants = {"PRECISION": dot_precision(), "SPANS": SPANS, "WIDE": wide, "STEP": _step(operators)}
    return constants | {"num_warps": min(8, wide // 8)}


def _launch(kernel: triton.JITFunction, grid: tuple[int, ...], *args: Tensor | int, **constants: Any) -> None:
    if min(grid) > 0:
        with torch.cuda.device_of(args[0]):  # Triton launches on the current device, wherever the tensors are
            kernel[grid](*args, **constants)


# --- inside the kernels -----------------------------------------------------------------------------------------------

LARGEST = tl.constexpr(torch.finfo(torch.float32).max)
NEVER = tl.constexpr(float("-inf"))
SMALL = tl.constexpr(2.0**-24)


@triton.jit
def _power(n):
    """2^n, exact, for whole numbers −126 … 127"""
    return ((n + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def _weight(term):
    """2^term, for whole numbers and −inf, 0 at most, by two factors: some results are below the normal range."""
    n = tl.maximum(term, -252.0).to(tl.int32)
    half = n >> 1
    return _power(half) * _power(n - half)


@triton.jit
def _multiple(n, STEP: tl.constexpr):
    """The same number, and the compiler knows what it is a multiple of."""
    return n // STEP * STEP


@triton.jit
def _first_cell(N, width):
    """As outside"""
    return (width - 1) * (2 * N - width + 2) // 2


@triton.jit
def _highest(left_scale, right_scale, parts, SCALES: tl.constexpr):
    """The largest sum of two scales, of parts in a row; a finite number where nothing is possible."""
    highest = tl.full((SCALES,), -LARGEST, tl.float32)
    for first in range(0, parts, SCALES):
        k = first + tl.arange(0, SCALES)
        term = tl.load(left_scale + k, mask=k < parts, other=NEVER)
        highest = tl.maximum(highest, term + tl.load(right_scale + k, mask=k < parts, other=NEVER))
    return tl.max(highest, 0)


@triton.jit
def _bounded(gradient, value, size):
    """A derivative by a scaled probability, 0 where this is 0: times value it is no larger than size."""
    there = value > 0
    limit = tl.minimum(size / tl.where(there, value, 1.0), LARGEST)
    return tl.where(there, tl.minimum(tl.maximum(gradient, -limit), limit), 0.0)


@triton.jit
def _staying(values, row, operator, P, operators, arriving):
    """From one operator to another at the same place, 0 to those that arrive: rows and operators broadcast.

    values: points at the first state of the place
    """
    there = (row < operators) & (operator >= arriving) & (operator < operators)
    return tl.load(values + row * (P + operators - arriving) + (P - arriving) + operator, mask=there, other=0.0)


# --- up ---------------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["first", "width", "N", "P", "operators"])
def _combine(
    beta, scale, left, right, left_scale, right_scale, split, choice, places, first, width, N, P, operators,
    FIRST: tl.constexpr, TOP: tl.constexpr, STATES: tl.constexpr, SPLITS: tl.constexpr, SCALES: tl.constexpr,
    PLACES: tl.constexpr, WIDE: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """A cell of a width, whose first has the number first: the chart as it is stored, but for L and R of the cell.

    split (B, Q), choice (B, P, O) → places (B, N, P), by start. FIRST: beta and scale are there, but not at the top.
    """
    start, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    operators = _multiple(operators, STEP)
    Q = P * operators
    cell = b * (N * (N + 1) // 2) + first + start
    beta += cell * Q
    as_left = (b * N + start) * (N - 1)
    as_right = (b * N + start + width - 1) * (N - 1) + N - width
    largest = tl.full((STATES,), 0.0, tl.float32)
    if FIRST:
        highest = tl.load(scale + cell)
        for at in range(0, Q, STATES):
            q = at + tl.arange(0, STATES)
            largest = tl.maximum(largest, tl.load(beta + q, mask=q < Q, other=0.0))
    else:
        highest = _highest(left_scale + as_left, right_scale + as_right, width - 1, SCALES)
        left += as_left * Q
        right += as_right * Q
        for at in range(0, Q, STATES):
            q = at + tl.arange(0, STATES)
            total = tl.zeros((SPLITS, STATES), tl.float32)
            for part in range(0, width - 1, SPLITS):
                k = part + tl.arange(0, SPLITS)
                on = k < width - 1
                term = tl.load(left_scale + as_left + k, mask=on, other=NEVER)
                term += tl.load(right_scale + as_right + k, mask=on, other=NEVER)
                here, there = k[:, None] * Q + q[None, :], on[:, None] & (q < Q)[None, :]
                product = _weight(term - highest)[:, None] * tl.load(left + here, mask=there, other=0.0)
                total += product * tl.load(right + here, mask=there, other=0.0)
            value = tl.sum(total, 0) * tl.load(split + b * Q + q, mask=q < Q, other=0.0)
            tl.store(beta + q, value, mask=q < Q)
            largest = tl.maximum(largest, value)
    tl.debug_barrier()  # what is written above is read below, and the other way round
    largest = tl.max(largest, 0)
    exponent = ((tl.cast(largest, tl.int32, bitcast=True) >> 23) & 255) - 126  # as frexp's, but below the normal range
    shift = tl.minimum(TOP - exponent, 2 * TOP)
    factor = _power(shift)
    highest = tl.where(largest == 0, NEVER, highest - shift.to(tl.float32))
    tl.store(scale + cell, highest)
    if width < N:
        tl.store(left_scale + as_left + width - 1, highest)
        tl.store(right_scale + as_right - 1, highest)
    o = tl.arange(0, WIDE)[None, :]
    for at in range(0, P, PLACES):
        p = at + tl.arange(0, PLACES)
        q, there = p[:, None] * operators + o, (p[:, None] < P) & (o < operators)
        value = tl.load(beta + q, mask=there, other=0.0) * factor
        tl.store(beta + q, value, mask=there)
        mean = tl.sum(value * tl.load(choice + b * Q + q, mask=there, other=0.0), 1)
        tl.store(places + (b * N + start) * P + p, mean, mask=p < P)


@triton.jit(do_not_specialize=["first", "width", "N", "P", "operators", "arriving"])
def _stay(
    beta, to_left, to_right, left, right, first, width, N, P, operators, arriving,
    KEPT: tl.constexpr, PRECISION: tl.constexpr, SPANS: tl.constexpr, WIDE: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """A place of a sentence: added to L and R of all cells of a width, as the chart has them.

    to_left, to_right (B, Q, W): the values of transitions
    """
    p, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    operators = _multiple(operators, STEP)
    Q, W = P * operators, P + operators - arriving
    o = tl.arange(0, WIDE)[None, :]
    row = arriving + tl.arange(0, KEPT)[:, None]  # the child's
    state = (b * P + p) * operators
    of_left = _staying(to_left + state * W, o, row, P, operators, arriving)
    of_right = _staying(to_right + state * W, o, row, P, operators, arriving)
    child = arriving + tl.arange(0, KEPT)[None, :]
    beta += (b * (N * (N + 1) // 2) + first) * Q + p * operators
    left += ((b * N) * (N - 1) + width - 1) * Q + p * operators
    right += ((b * N + width - 1) * (N - 1) + N - 1 - width) * Q + p * operators
    spans = N - width + 1
    for at in range(0, spans, SPANS):
        n = at + tl.arange(0, SPANS)[:, None]
        there = (n < spans) & (o < operators)
        value = tl.load(beta + n * Q + child, mask=(n < spans) & (child < operators), other=0.0)
        here = n * (N - 1) * Q + o
        seen = tl.load(left + here, mask=there, other=0.0)
        tl.store(left + here, seen + tl.dot(value, of_left, input_precision=PRECISION), mask=there)
        seen = tl.load(right + here, mask=there, other=0.0)
        tl.store(right + here, seen + tl.dot(value, of_right, input_precision=PRECISION), mask=there)


# --- and back ---------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["first", "width", "N", "P", "operators"])
def _collect(
    left, right, left_scale, right_scale, of_sums, top, size, lengths, lefts, rights, first, width, N, P,
    operators, STATES: tl.constexpr, SPLITS: tl.constexpr, SCALES: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """Some states of a cell: the derivatives of L and R, lefts and rights (B, C − 1, Q), bounded.

    of_sums (B, C − N, Q): of wider cells, by their sums over split points. size, lengths (B,)
    top (B, C): the scale of a cell's sum, which is written here, and read by narrower ones.
    """
    start, b = tl.program_id(1), tl.program_id(2).to(tl.int64)
    q = tl.program_id(0) * STATES + tl.arange(0, STATES)
    Q, C = P * _multiple(operators, STEP), N * (N + 1) // 2
    end = start + width
    cell = first + start
    top += b * C
    if (width > 1) & (tl.program_id(0) == 0):
        at_left = left_scale + (b * N + start) * (N - 1)
        at_right = right_scale + (b * N + end - 1) * (N - 1) + N - width
        tl.store(top + cell, _highest(at_left, at_right, width - 1, SCALES))
    if width < N:
        length = tl.minimum(tl.load(lengths + b), N).to(tl.int32)  # wider cells that end later have no derivative
        as_left, as_right = (b * N + start) * (N - 1) + width - 1, (b * N + end - 1) * (N - 1) + N - 1 - width
        own_left, own_right = tl.load(left_scale + as_left), tl.load(right_scale + as_right)
        of_sums += b * (C - N) * Q
        known = (q < Q)[None, :]

        total = tl.zeros((SPLITS, STATES), tl.float32)
        for at in range(end + 1, length + 1, SPLITS):  # where wider cells of the same start end
            stop = at + tl.arange(0, SPLITS)
            on = stop <= length
            wider = _first_cell(N, stop - start) + start
            other = (b * N + stop - 1) * (N - 1) + N - 1 - (stop - end)
            term = own_left + tl.load(right_scale + other, mask=on, other=NEVER)
            term -= tl.load(top + wider, mask=on, other=0.0)
            there = on[:, None] & known
            product = tl.load(of_sums + (wider - N)[:, None] * Q.to(tl.int64) + q[None, :], mask=there, other=0.0)
            product *= _weight(term)[:, None]
            total += product * tl.load(right + other[:, None] * Q + q[None, :], mask=there, other=0.0)
        own = tl.load(left + as_left * Q + q, mask=q < Q, other=0.0)
        bound = tl.load(size + b)
        own_cell = b * (C - 1) + cell
        tl.store(lefts + own_cell * Q + q, _bounded(tl.sum(total, 0), own, bound), mask=q < Q)

        total = tl.zeros((SPLITS, STATES), tl.float32)
        for at in range(0, tl.where(end <= length, start, 0), SPLITS):  # where wider cells of the same end start
            begin = at + tl.arange(0, SPLITS)
            on = begin < start
            wider = _first_cell(N, end - begin) + begin
            other = (b * N + begin) * (N - 1) + start - begin - 1
            term = own_right + tl.load(left_scale + other, mask=on, other=NEVER)
            term -= tl.load(top + wider, mask=on, other=0.0)
            there = on[:, None] & known
            product = tl.load(of_sums + (wider - N)[:, None] * Q.to(tl.int64) + q[None, :], mask=there, other=0.0)
            product *= _weight(term)[:, None]
            total += product * tl.load(left + other[:, None] * Q + q[None, :], mask=there, other=0.0)
        own = tl.load(right + as_right * Q + q, mask=q < Q, other=0.0)
        tl.store(rights + own_cell * Q + q, _bounded(tl.sum(total, 0), own, bound), mask=q < Q)


@triton.jit(do_not_specialize=["first", "width", "N", "P", "operators", "arriving"])
def _settle(  # noqa: PLR0915
    beta, scale, to_left, to_right, choice, root_of_split, top, places, lefts, rights, at_root, root, lengths, size,
    of_choice, leaves, splits, of_sums, per_place, first, width, N, P, operators, arriving,
    STAYS: tl.constexpr, PRECISION: tl.constexpr, SPANS: tl.constexpr, WIDE: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """A place of a sentence, all cells of a width: what the derivatives of L and R are for states, and goes on.

    beta, scale: of the chart. to_left, to_right (B, Q, W): the values of transitions. choice (B, P, O), root_of_split
    (B, Q), top (B, C). places (B, N, P), by start: of going to a place. lefts, rights (B, C − 1, Q). at_root, root,
    lengths, size (B,)
    → added to of_choice (B, P, O) and splits (B, Q); leaves (B, N, Q), of_sums (B, C − N, Q), per_place (B, C, P)
    """
    p, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    operators = _multiple(operators, STEP)
    Q, W, C = P * operators, P + operators - arriving, N * (N + 1) // 2
    o = tl.arange(0, WIDE)[None, :]
    state = (b * P + p) * operators
    chosen = tl.load(choice + state + o, mask=o < operators, other=0.0)
    half = tl.load(root_of_split + state + o, mask=o < operators, other=0.0)
    if STAYS:
        row = tl.arange(0, WIDE)[:, None]  # the parent's
        of_left = _staying(to_left + state * W, row, o, P, operators, arriving)
        of_right = _staying(to_right + state * W, row, o, P, operators, arriving)
    bound = tl.load(size + b)
    is_root = (tl.load(root + b) == p) & (tl.load(lengths + b) == width)
    seed = tl.where(is_root, tl.load(at_root + b), 0.0)
    counted = tl.zeros((SPANS, WIDE), tl.float32)
    split = tl.zeros((SPANS, WIDE), tl.float32)
    spans = N - width + 1
    for at in range(0, spans, SPANS):
        n = at + tl.arange(0, SPANS)
        on, inner = n < spans, n < tl.where(width < N, spans, 0)
        there = on[:, None] & (o < operators)
        value = tl.load(beta + (b * C + first + n)[:, None] * Q + p * operators + o, mask=there, other=0.0)
        arrived = tl.sum(value * chosen, 1)
        of_place = tl.load(places + (b * N + n) * P + p, mask=inner, other=0.0) + tl.where(n == 0, seed, 0.0)
        gradient = _bounded(of_place, arrived, bound)[:, None] * chosen
        counted += gradient * value
        if STAYS:
            part = (b * (C - 1) + first + n)[:, None] * Q + p * operators + o
            known = inner[:, None] & (o < operators)
            stays = tl.dot(tl.load(lefts + part, mask=known, other=0.0), of_left, input_precision=PRECISION)
            stays += tl.dot(tl.load(rights + part, mask=known, other=0.0), of_right, input_precision=PRECISION)
            gradient += stays
        gradient = _bounded(gradient, value, bound)
        posterior = gradient * value
        tl.store(per_place + (b * C + first + n) * P + p, tl.sum(posterior, 1), mask=on)
        if width > 1:
            split += posterior
            scaled = tl.load(scale + b * C + first + n, mask=on, other=NEVER)
            shift = tl.load(top + b * C + first + n, mask=on, other=0.0) - scaled
            shift = tl.where(scaled == NEVER, 0.0, shift).to(tl.int32)
            low = shift >> 1
            of_sum = gradient * (_power(low)[:, None] * half) * (_power(shift - low)[:, None] * half)
            of_sum = tl.minimum(tl.maximum(of_sum, -LARGEST), LARGEST)
            tl.store(of_sums + (b * (C - N) + first - N + n)[:, None] * Q + p * operators + o, of_sum, mask=there)
        else:
            tl.store(leaves + (b * N + n)[:, None] * Q + p * operators + o, posterior, mask=there)
    o = tl.arange(0, WIDE)
    before = tl.load(of_choice + state + o, mask=o < operators, other=0.0)
    tl.store(of_choice + state + o, before + tl.sum(counted, 0), mask=o < operators)
    if width > 1:
        before = tl.load(splits + state + o, mask=o < operators, other=0.0)
        tl.store(splits + state + o, before + tl.sum(split, 0), mask=o < operators)


# --- transitions ------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["C", "P", "operators", "arriving"])
def _count(
    beta, lefts, rights, choice, places, to_left, to_right, C, P, operators, arriving,
    STAYS: tl.constexpr, KEPT: tl.constexpr, PRECISION: tl.constexpr, SPANS: tl.constexpr, WIDE: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """A place of a sentence: the columns of staying there of to_left and to_right (B, Q, W).

    beta (B, C, Q), choice (B, P, O) → places (B, C − 1, P): what ``_combine`` has made of beta, too. lefts, rights
    (B, C − 1, Q): made smaller, so that nothing overflows.
    """
    p, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    operators = _multiple(operators, STEP)
    Q, W = P * operators, P + operators - arriving
    o = tl.arange(0, WIDE)[None, :]
    child = arriving + tl.arange(0, KEPT)[None, :]
    state = (b * P + p) * operators
    chosen = tl.load(choice + state + o, mask=o < operators, other=0.0)
    stays_left = tl.zeros((WIDE, KEPT), tl.float32)
    stays_right = tl.zeros((WIDE, KEPT), tl.float32)
    for at in range(0, C - 1, SPANS):
        n = at + tl.arange(0, SPANS)
        on = (n < C - 1)[:, None]
        there = on & (o < operators)
        cell = beta + (b * C + n)[:, None] * Q + p * operators
        value = tl.load(cell + o, mask=there, other=0.0)
        part = (b * (C - 1) + n)[:, None] * Q + p * operators + o
        of_left = tl.load(lefts + part, mask=there, other=0.0) * SMALL
        of_right = tl.load(rights + part, mask=there, other=0.0) * SMALL
        tl.store(lefts + part, of_left, mask=there)
        tl.store(rights + part, of_right, mask=there)
        tl.store(places + (b * (C - 1) + n) * P + p, tl.sum(value * chosen, 1), mask=n < C - 1)
        if STAYS:
            kept = tl.load(cell + child, mask=on & (child < operators), other=0.0)
            stays_left += tl.dot(tl.trans(of_left), kept, input_precision=PRECISION)
            stays_right += tl.dot(tl.trans(of_right), kept, input_precision=PRECISION)
    if STAYS:
        row = tl.arange(0, WIDE)[:, None]
        there = (row < operators) & (child < operators)
        here = (state + row) * W + (P - arriving) + child
        tl.store(to_left + here, stays_left, mask=there)
        tl.store(to_right + here, stays_right, mask=there)


@triton.jit
def _expected(values, counts, here, there, most):
    """How often transitions are taken, and how probable they are."""
    taken = tl.load(values + here, mask=there, other=0.0)
    count = tl.load(counts + here, mask=there, other=0.0)
    count = tl.where(taken > 0, count, 0.0) * (taken / SMALL)
    return tl.minimum(tl.maximum(count, -most), most), taken


@triton.jit
def _by_logits(values, counts, row, Q, W, most, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """values (Q, W): probabilities; counts (Q, W) → the derivatives of some rows' logits"""
    total = tl.zeros((ROWS,), tl.float32)
    for at in range(0, W, COLUMNS):
        column = at + tl.arange(0, COLUMNS)[None, :]
        count, _ = _expected(values, counts, row * W + column, (row < Q) & (column < W), most)
        total += tl.sum(count, 1)
    tl.debug_barrier()  # what is read above is written below
    for at in range(0, W, COLUMNS):
        column = at + tl.arange(0, COLUMNS)[None, :]
        here, there = row * W + column, (row < Q) & (column < W)
        count, taken = _expected(values, counts, here, there, most)
        tl.store(counts + here, count - taken * total[:, None], mask=there)


@triton.jit(do_not_specialize=["Q", "W", "cells"])
def _finish(left, right, of_left, of_right, size, Q, W, cells, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Some states of a sentence. left, right (B, Q, W): probabilities; of_left, of_right (B, Q, W): see ``_count``"""
    b = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    most = tl.load(size + b) * cells
    first = b * Q * W
    _by_logits(left + first, of_left + first, row, Q, W, most, ROWS, COLUMNS)
    _by_logits(right + first, of_right + first, row, Q, W, most, ROWS, COLUMNS)
