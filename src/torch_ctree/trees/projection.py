"""The emission as Triton kernels, for GPUs: log p(x | v) where the (vertices × vocabulary) logits exist, and where not.

Kernels read float32, bfloat16 or float16, and sum in float32. Nothing here waits for the device or adds with atomics:
steps can be captured as CUDA graphs, and come out the same every time.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers, its ranges no iterators)

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from torch_ctree.devices import dot_precision, multiprocessors
from torch_ctree.trees.kernels.torch import in_accumulation_dtype

SLICE_ROWS = 256
"""Rows of which one program of ``softmax_`` adds up the columns."""

# --- kernels: given logits --------------------------------------------------------------------------------------------


@triton.jit
def _finite(x):
    """A maximum or a total to subtract: 0 for −inf, so that −inf − (−inf) never happens."""
    return tl.where(x == float("-inf"), 0.0, x)


@triton.jit
def _log(x):
    """log x; −inf for 0, which NumPy warns about where it stands in for a GPU."""
    return tl.where(x > 0.0, tl.log(tl.where(x > 0.0, x, 1.0)), float("-inf"))


@triton.jit
def _logits_of(logits, row, k, stride_k, K: tl.constexpr):
    """(BLOCK_V, BLOCK_K) in float32, −inf past the vocabulary; row: where each vertex begins."""
    at = row[:, None] + k[None, :] * stride_k
    return tl.load(logits + at, mask=k[None, :] < K, other=float("-inf")).to(tl.float32)


@triton.jit
def token_log_prob_forward(
    logits, tokens, offset, totals, out, V, N, stride_b, stride_v, stride_k,
    K: tl.constexpr, OFFSET: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A program for each sentence and block of vertices: their log-normalisers, then token after token."""
    b, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_V
    inside = first + tl.arange(0, BLOCK_V) < V
    v = tl.minimum(first + tl.arange(0, BLOCK_V), V - 1)
    row = b * stride_b + v.to(tl.int64) * stride_v
    x = _logits_of(logits, row, tl.arange(0, BLOCK_K), stride_k, K)
    high = _finite(tl.max(x, 1))
    total = high + _log(tl.sum(tl.exp(x - high[:, None]), 1))  # (BLOCK_V,)
    tl.store(totals + b * V + v, total, mask=inside)
    shift = -_finite(total)
    if OFFSET:
        shift += tl.load(offset + b * V + v)
    for n0 in range(0, N, BLOCK_N):
        n = n0 + tl.arange(0, BLOCK_N)
        token = tl.load(tokens + b * N + n, mask=n < N, other=0)[:, None]  # (BLOCK_N, 1)
        known = (token >= 0) & (token < K)
        value = tl.load(logits + row[None, :] + token * stride_k, mask=known, other=float("nan")).to(tl.float32)
        there = (n < N)[:, None] & inside[None, :]
        tl.store(out + (b * N + n)[:, None] * V + v[None, :], value + shift[None, :], mask=there)


@triton.jit
def token_log_prob_backward(
    logits, tokens, totals, grad, grad_logits, sums, V, N, stride_b, stride_v, stride_k,
    K: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """∂/∂logit_vk = Σ_n g_nv · [x_n = k] − softmax_vk · Σ_n g_nv, each sum in the order of the tokens."""
    b, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_V
    inside = first + tl.arange(0, BLOCK_V) < V
    v = tl.minimum(first + tl.arange(0, BLOCK_V), V - 1)
    k = tl.arange(0, BLOCK_K)
    said = tl.zeros((BLOCK_V, BLOCK_K), tl.float32)
    total_grad = tl.zeros((BLOCK_V,), tl.float32)
    for n0 in range(0, N, BLOCK_N):
        for step in tl.static_range(BLOCK_N):  # loads that do not wait for one another
            at = b * N + tl.minimum(n0 + step, N - 1)
            token = tl.load(tokens + at)
            g = tl.where(n0 + step < N, tl.load(grad + at * V + v), 0.0)
            said += tl.where((k == token)[None, :], g[:, None], 0.0)
            total_grad += g
    row = b * stride_b + v.to(tl.int64) * stride_v
    total = _finite(tl.load(totals + b * V + v))
    share = tl.exp(_logits_of(logits, row, k, stride_k, K) - total[:, None])  # softmax
    result = said - share * total_grad[:, None]
    tl.store(grad_logits + ((b * V + v) * K)[:, None] + k[None, :], result, mask=inside[:, None] & (k < K)[None, :])
    tl.store(sums + b * V + v, total_grad, mask=inside)


# --- kernels: an output layer -----------------------------------------------------------------------------------------


@triton.jit
def project(
    rows, weight, bias, totals, bests, tokens, R, K, slice_size,
    H: tl.constexpr, BEST: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """A program for each block of rows and slice of the vocabulary: makes logits block by block, keeps what counts.

    rows (R, H), weight (K, H), bias (K,) → totals (slices, R): the log-sum-exp of each slice; where BEST, also bests
    and tokens (slices, R): the largest logit and the first token that has it.
    """
    first = tl.program_id(0) * BLOCK_R
    local, unit = tl.arange(0, BLOCK_R), tl.arange(0, BLOCK_H)
    rows += first.to(tl.int64) * H
    left = tl.minimum(local, R - 1 - first)[:, None] * H + unit[None, :]  # places in this block: 32 bits are enough
    high = tl.full((BLOCK_R,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_R,), tl.float32)
    best = tl.zeros((BLOCK_R,), tl.int32)
    begin = tl.program_id(1) * slice_size
    for k0 in range(begin, tl.minimum(begin + slice_size, K), BLOCK_K):
        column = tl.arange(0, BLOCK_K)
        right = tl.minimum(column, K - 1 - k0)[None, :] * H + unit[:, None]
        words = weight + tl.cast(k0, tl.int64) * H
        x = tl.zeros((BLOCK_R, BLOCK_K), tl.float32)
        for h in range(0, H, BLOCK_H):
            if H % BLOCK_H == 0:
                x = tl.dot(tl.load(rows + h + left), tl.load(words + h + right), x, input_precision=PRECISION)
            else:
                some = h + unit < H
                a = tl.load(rows + h + left, mask=some[None, :], other=0.0)
                w = tl.load(words + h + right, mask=some[:, None], other=0.0)
                x = tl.dot(a, w, x, input_precision=PRECISION)
        k = k0 + column
        x += tl.load(bias + k, mask=k < K, other=float("-inf")).to(tl.float32)[None, :]  # past the end, no token
        largest = tl.max(x, 1)
        if BEST:
            found = tl.min(tl.where(x == largest[:, None], k[None, :], K), 1)
            best = tl.where(largest > high, found, best)
        higher = tl.maximum(high, largest)
        level = _finite(higher)
        total = total * tl.exp(high - level) + tl.sum(tl.exp(x - level[:, None]), 1)
        high = higher
    at, inside = tl.program_id(1).to(tl.int64) * R + first + local, first + local < R
    tl.store(totals + at, _finite(high) + _log(total), mask=inside)
    if BEST:
        tl.store(bests + at, high, mask=inside)
        tl.store(tokens + at, best.to(tl.int64), mask=inside)


@triton.jit
def weigh(logits, totals, upstream, sums, R, K, SLICE: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_K: tl.constexpr):
    """logits (R, K) ← softmax · upstream, in place; sums (slices, K): what SLICE rows after SLICE rows add up to."""
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    added = tl.zeros((BLOCK_K,), tl.float32)
    for r0 in range(0, SLICE, BLOCK_R):
        r = tl.program_id(1) * SLICE + r0 + tl.arange(0, BLOCK_R)
        there = (r < R)[:, None] & (k < K)[None, :]
        at = r.to(tl.int64)[:, None] * K + k[None, :]
        total = tl.load(totals + r, mask=r < R, other=0.0)
        g = tl.load(upstream + r, mask=r < R, other=0.0)
        share = tl.exp(tl.load(logits + at, mask=there, other=float("-inf")) - total[:, None]) * g[:, None]
        tl.store(logits + at, share, mask=there)
        added += tl.sum(share, 0)
    tl.store(sums + tl.program_id(1).to(tl.int64) * K + k, added, mask=k < K)


# --- given logits -----------------------------------------------------------------------------------------------------


def token_log_prob(logits: Tensor, tokens: Tensor, offset: Tensor | None = None) -> Tensor:
    """log softmax(logits_v) at x_n, plus offset_v if there is one; differentiable, twice too.

    logits (B, V, K), with any strides; K up to some hundred, since registers hold a whole row; tokens (B, N), int64;
    offset (B, V), float32 → (B, N, V), float32. NaN where a token is none of the vocabulary.
    """
    return cast(Tensor, _TokenLogProb.apply(logits, tokens.contiguous(), offset))


class _TokenLogProb(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, tokens: Tensor, offset: Tensor | None) -> Tensor:
        (B, V, K), N = logits.shape, tokens.shape[1]
        totals, out = (logits.new_empty(*shape, dtype=torch.float32) for shape in ((B, V), (B, N, V)))
        blocks = _token_blocks(K)
        with torch.cuda.device_of(logits):
            token_log_prob_forward[B, triton.cdiv(V, blocks["BLOCK_V"])](
                logits, tokens, totals if offset is None else offset.contiguous(), totals, out, V, N, *logits.stride(),
                K=K, OFFSET=offset is not None, BLOCK_N=16, **blocks,
            )  # fmt: skip
        ctx.save_for_backward(logits, tokens, totals)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, Tensor | None]:
        logits, tokens, totals = ctx.saved_tensors
        # create_graph=True: someone wants to differentiate the gradient, so it is made of torch's operations.
        gradient = _composed_gradient if torch.is_grad_enabled() else _gradient
        grad_logits, sums = gradient(logits, tokens, totals, grad)
        return grad_logits, None, sums if ctx.needs_input_grad[2] else None


def _gradient(logits: Tensor, tokens: Tensor, totals: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """→ (B, V, K) and Σ_n g_nv (B, V)."""
    (B, V, K), N = logits.shape, tokens.shape[1]
    result = logits.new_empty(B, V, K)
    sums = torch.empty_like(totals)
    blocks = _token_blocks(K)
    with torch.cuda.device_of(logits):
        token_log_prob_backward[B, triton.cdiv(V, blocks["BLOCK_V"])](
            logits, tokens, totals, grad.contiguous(), result, sums, V, N, *logits.stride(),
            K=K, BLOCK_N=8 if K <= 16 else 4, **blocks,
        )  # fmt: skip
    return result, sums


def _composed_gradient(logits: Tensor, tokens: Tensor, _: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """The same, differentiable."""
    wide, sums = in_accumulation_dtype(logits), grad.sum(-2)
    said = torch.zeros_like(wide).scatter_add(-1, tokens[:, None, :].expand(*grad.mT.shape), grad.mT)
    return (said - wide.softmax(-1) * sums[..., None]).to(logits.dtype), sums


def _token_blocks(vocabulary: int) -> dict[str, int]:
    """A vocabulary for each of some vertices: 2,048 numbers at most."""
    block = triton.next_power_of_2(vocabulary)
    return {"BLOCK_K": block, "BLOCK_V": min(64, 2048 // block)}


# --- an output layer --------------------------------------------------------------------------------------------------


class _Launch(NamedTuple):
    BLOCK_R: int
    BLOCK_K: int
    BLOCK_H: int
    num_warps: int
    num_stages: int


# Programs so small that a multiprocessor has two at least: one computes while the other begins or ends its block.
HALF = _Launch(128, 128, 64, num_warps=8, num_stages=3)
TF32 = _Launch(128, 128, 32, num_warps=8, num_stages=3)
IEEE = _Launch(64, 64, 32, num_warps=4, num_stages=2)


def log_normaliser(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """log Σ_k exp(weight_k · row + bias_k): rows (R, H), weight (K, H), bias (K,) → (R,), float32."""
    return _projected(rows, weight, bias, best=False)[0]


def best_tokens(rows: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """→ (R,) each: the most probable token's log-probability, that token, of several the first; ``log_normaliser``"""
    total, bests, tokens = _projected(rows, weight, bias, best=True)
    return bests - total, tokens, total


def softmax_(logits: Tensor, totals: Tensor, upstream: Tensor) -> Tensor:
    """logits (R, K) ← exp(logits − totals) · upstream, in place, with totals, upstream (R,) → its rows' sum, (K,).

    All in float32.
    """
    (R, K), BLOCK_K = logits.shape, 128
    sums = logits.new_empty(triton.cdiv(R, SLICE_ROWS), K)
    if R > 0:
        with torch.cuda.device_of(logits):
            weigh[triton.cdiv(K, BLOCK_K), len(sums)](
                logits, totals.contiguous(), upstream.contiguous(), sums, R, K,
                SLICE=SLICE_ROWS, BLOCK_R=32, BLOCK_K=BLOCK_K,
            )  # fmt: skip
    return sums.sum(0)


def _projected(rows: Tensor, weight: Tensor, bias: Tensor, best: bool) -> tuple[Tensor, Tensor, Tensor]:
    """→ log-normalisers, the largest logits and their tokens, (R,) each; the last two hold nothing unless asked for."""
    (R, H), K, mode = rows.shape, len(weight), dot_precision()
    launch = HALF if rows.dtype != torch.float32 else IEEE if mode == "ieee" else TF32
    size = _slice_size(triton.cdiv(max(1, R), launch.BLOCK_R), K, launch.BLOCK_K, rows.device)
    slices = triton.cdiv(K, size)
    totals, bests = (rows.new_empty(slices, R, dtype=torch.float32) for _ in range(2))
    tokens = torch.empty_like(bests, dtype=torch.long)
    if R > 0:
        with torch.cuda.device_of(rows):
            project[triton.cdiv(R, launch.BLOCK_R), slices](
                rows.contiguous(), weight.contiguous(), bias.contiguous(), totals, bests, tokens, R, K, size,
                H=H, BEST=best, PRECISION=mode, **launch._asdict(), **_registers(launch, best, rows.device),
            )  # fmt: skip
    if slices == 1 or not best:
        return totals[0] if slices == 1 else totals.logsumexp(0), bests[0], tokens[0]
    largest, where = bests.max(0)
    return totals.logsumexp(0), largest, tokens.gather(0, where[None])[0]


def _slice_size(row_blocks: int, vocabulary: int, block: int, device: torch.device) -> int:
    """How much of the vocabulary one program looks at: all of it, unless rows are too few to keep the device busy."""
    programs = 2 * multiprocessors(device)
    per_slice = math.ceil(triton.cdiv(vocabulary, block) / max(1, programs // row_blocks))
    return per_slice * block


def _registers(launch: _Launch, best: bool, device: torch.device) -> dict[str, int]:
    """On a Hopper, two programs of 256 threads fit into a multiprocessor if each thread makes do with 128 registers."""
    if best or launch.num_warps < 8 or device.type != "cuda" or torch.version.hip is not None:
        return {}
    return {"maxnreg": 128} if torch.cuda.get_device_capability(device)[0] == 9 else {}
