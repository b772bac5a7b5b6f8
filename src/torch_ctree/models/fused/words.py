"""Lexical attention up to the logits of its words, where both words and source are short: one kernel each way.

What is attended to is never written down: it is as large as all states, and a logit for each of some words is not.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

import math
from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from torch_ctree.devices import dot_precision
from torch_ctree.models.fused.attention import (
    OUT_PLACE,
    Normalisation,
    Sources,
    Tile,
    block_of,
    source_totals,
    unweighed,
    weighed,
)
from torch_ctree.models.fused.chance import keep
from torch_ctree.models.fused.sums import column_sums

MOST_POSITIONS, MOST_WORDS = 16, 16
"""Whose gradients one program has room for."""
FORWARD, BACKWARD = Tile(64, 4), Tile(16, 4)
"""As fast as any on an H200, alone and with a part of it."""
BLOCKS = 8
"""Blocks of queries that a program takes one after the other in the backward pass."""


def fits(positions: int, words: int) -> bool:
    """Whether the kernels can do it, if those of attention can."""
    return positions <= MOST_POSITIONS and words <= MOST_WORDS


# --- kernels ----------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["queries", "positions"])
def spell_forward(
    x, gamma, beta, keys, values, mask, words, out, seed, queries, positions, eps, scale,
    P: tl.constexpr, PLACE: tl.constexpr, K: tl.constexpr, BK: tl.constexpr,
    H: tl.constexpr, BQ: tl.constexpr, BP: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """x (B, Q, H), words (K, H) → out (B, Q, K): words · dropout(what is attended to)"""
    b, block = tl.program_id(0), tl.program_id(1)
    q, h, p, k = block * BQ + tl.arange(0, BQ), tl.arange(0, H), tl.arange(0, BP), tl.arange(0, BK)
    there, first, whole = (q < queries)[:, None], b.to(tl.int64) * queries, b.to(tl.int64) * positions
    cell, place = q[:, None] * H + h[None, :], whole * H + p[:, None] * H + h[None, :]
    real = tl.load(mask + whole + p, mask=p < positions, other=0) != 0
    key = tl.load(keys + place, mask=(p < positions)[:, None], other=0.0)
    value = tl.load(values + place, mask=(p < positions)[:, None], other=0.0)
    word = tl.load(words + k[:, None] * H + h[None, :], mask=(k < K)[:, None], other=0.0)
    given = tl.load(x + first * H + cell, mask=there, other=0.0)
    weights, _, _ = weighed(given, tl.load(gamma + h), tl.load(beta + h), key, real, eps, scale, H, PRECISION)
    found = tl.dot(weights, value, input_precision=PRECISION)
    found *= keep(tl.load(seed), PLACE, b * queries * H + cell, P)
    logits = tl.dot(found, tl.trans(word), input_precision=PRECISION)
    tl.store(out + first * K + q[:, None] * K + k[None, :], logits, mask=there & (k < K)[None, :])


@triton.jit(do_not_specialize=["queries", "positions"])
def spell_backward(
    x, gamma, beta, keys, values, mask, words, grad, seed, grad_x, of_sources, of_words,
    queries, positions, eps, scale,
    P: tl.constexpr, PLACE: tl.constexpr, K: tl.constexpr, BK: tl.constexpr,
    H: tl.constexpr, BQ: tl.constexpr, BP: tl.constexpr, BLOCKS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """grad (B, Q, K) → grad_x (B, Q, H), and of each program's queries the sums that the other gradients are made of.

    of_sources (programs, B, (2H + 1) BP): slopes, values' gradients, and sums of the scores' gradients, as
    ``source_gradients`` wants them; of_words (programs, B, (K + 1) H): words' gradients, and sums of grad_x
    """
    b, part = tl.program_id(0), tl.program_id(1)
    h, p, k = tl.arange(0, H), tl.arange(0, BP), tl.arange(0, BK)
    first, whole, at = b.to(tl.int64) * queries, b.to(tl.int64) * positions, part * tl.num_programs(0) + b
    place, cells = p[:, None] * H + h[None, :], k[:, None] * H + h[None, :]
    real = tl.load(mask + whole + p, mask=p < positions, other=0) != 0
    key = tl.load(keys + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    value = tl.load(values + whole * H + place, mask=(p < positions)[:, None], other=0.0)
    word = tl.load(words + cells, mask=(k < K)[:, None], other=0.0)
    scaled, shift, number = tl.load(gamma + h), tl.load(beta + h), tl.load(seed)
    slope, of_value = tl.zeros((BP, H), tl.float32), tl.zeros((BP, H), tl.float32)
    of_word, total, all_x = tl.zeros((BK, H), tl.float32), tl.zeros((BP,), tl.float32), tl.zeros((H,), tl.float32)
    for block in range(part * BLOCKS, (part + 1) * BLOCKS):
        q = block * BQ + tl.arange(0, BQ)
        there, cell = (q < queries)[:, None], q[:, None] * H + h[None, :]
        given = tl.load(x + first * H + cell, mask=there, other=0.0)
        to = first * K + q[:, None] * K + k[None, :]
        of_logits = tl.load(grad + to, mask=there & (k < K)[None, :], other=0.0)
        weights, hat, inverse = weighed(given, scaled, shift, key, real, eps, scale, H, PRECISION)
        kept = keep(number, PLACE, b * queries * H + cell, P)
        found = tl.dot(weights, value, input_precision=PRECISION) * kept
        of_word = tl.dot(tl.trans(of_logits), found, of_word, input_precision=PRECISION)
        upstream = tl.dot(of_logits, word, input_precision=PRECISION) * kept
        of_scores, of_x = unweighed(upstream, weights, hat, inverse, scaled, key, value, scale, H, PRECISION)
        tl.store(grad_x + first * H + cell, of_x, mask=there)
        # rows that only fill up have no gradient, so that they add nothing
        of_value = tl.dot(tl.trans(weights), upstream, of_value, input_precision=PRECISION)
        slope = tl.dot(tl.trans(of_scores), hat, slope, input_precision=PRECISION)
        total += tl.sum(of_scores, 0)
        all_x += tl.sum(of_x, 0)
    of_sources += at.to(tl.int64) * (2 * H + 1) * BP
    tl.store(of_sources + place, slope)
    tl.store(of_sources + BP * H + place, of_value)
    tl.store(of_sources + 2 * BP * H + p, total)
    of_words += at.to(tl.int64) * (K + 1) * H
    tl.store(of_words + cells, of_word, mask=(k < K)[:, None])
    tl.store(of_words + K * H + h, all_x)


# --- launching --------------------------------------------------------------------------------------------------------


def spell(x: Tensor, norm: Normalisation, sources: Sources, words: Tensor, out: Tensor, seed: Tensor, p: float) -> None:
    """x (B · Q, H), words (K, H) → out (B, Q, K)"""
    (B, P, H), (_, queries, K) = sources.keys.shape, out.shape
    spell_forward[(B, triton.cdiv(queries, FORWARD.queries))](
        x, norm.weight, norm.bias, *sources, words, out, seed, queries, P, norm.eps, 1 / math.sqrt(H),
        P=p, PLACE=OUT_PLACE, K=K, BK=block_of(K), H=H, BQ=FORWARD.queries, BP=block_of(P), PRECISION=dot_precision(),
        num_warps=FORWARD.warps, num_stages=1,
    )  # fmt: skip


class Gradients(NamedTuple):
    """Of what ``spell`` takes, and the sum of x's, (H,)."""

    keys: Tensor  # (B, P, H)
    gamma: Tensor  # (H,)
    beta: Tensor  # (H,)
    values: Tensor  # (B, P, H)
    words: Tensor  # (K, H)
    sum: Tensor  # (H,)


def spell_back(
    x: Tensor, norm: Normalisation, sources: Sources, words: Tensor, grad: Tensor, seed: Tensor, of_x: Tensor,
    p: float,
) -> Gradients:  # fmt: skip
    """grad (B, Q, K) → of_x, that of x (B · Q, H), and → those of all else"""
    (B, P, H), (_, queries, K), size = sources.keys.shape, grad.shape, block_of(sources.keys.shape[1])
    programs = triton.cdiv(queries, BACKWARD.queries * BLOCKS)
    of_sources = norm.weight.new_empty(programs, B * (2 * H + 1) * size)
    of_words = norm.weight.new_empty(programs * B, (K + 1) * H)
    spell_backward[(B, programs)](
        x, norm.weight, norm.bias, *sources, words, grad, seed, of_x, of_sources, of_words,
        queries, P, norm.eps, 1 / math.sqrt(H), P=p, PLACE=OUT_PLACE, K=K, BK=block_of(K),
        H=H, BQ=BACKWARD.queries, BP=size, BLOCKS=BLOCKS, PRECISION=dot_precision(),
        num_warps=BACKWARD.warps, num_stages=1,
    )  # fmt: skip
    slopes, of_values, sums = column_sums(of_sources).view(B, -1).split([size * H, size * H, size], 1)
    of_words, of_bias = column_sums(of_words).split([K * H, H])
    shared = source_totals(slopes, sums, sources, norm)
    return Gradients(*shared, of_values.reshape(B, size, H)[:, :P], of_words.view(K, H), of_bias)
