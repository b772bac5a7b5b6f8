"""The interval recursion as compiled loops for the CPU, parallel over the batch.

Sentences go in blocks of ``LANES``, one to a SIMD lane: every array inside has the lane as its last, contiguous axis,
so the compiler turns each inner loop into vector instructions. All arithmetic is in float64, whatever the weights are.

A position p collects the vertices that end there from the coarsest level to the finest, two summands at a time:
out[p] ← log(exp(out[p]) + exp(x)). The forward pass keeps, for each such sum, the *share* of its smaller summand, and
nothing else: these shares are all the backward pass needs. It neither reads the weights nor computes an exponential.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

LANES = 8
NO_THREADS_BELOW = 1 << 16  # vertices × tokens × sentences: less work than this is done before a thread has woken up


def forward(log_weights: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log_weights (B, N, V), lengths (B,) → completions (B, N) and shares. See the package's docstring."""
    B, N, V = log_weights.shape
    blocks = -(-B // LANES)
    completions = log_weights.new_full((B, N), -math.inf)
    shares = log_weights.new_empty(blocks, N, (V + 1) // 2, LANES)
    alphas = torch.empty(blocks, 2, (V + 1) // 2 + 1, LANES, dtype=torch.float64)  # only the last two rows
    _in_parallel(_sum_block, blocks, log_weights.numel(), log_weights, lengths, alphas, completions, shares)
    return completions, shares


def backward(log_weights: Tensor, lengths: Tensor, memory: Tensor, grad: Tensor) -> Tensor:
    """→ (B, N, V): the posterior probability that vertex v emits token n, times grad. See the package's docstring."""
    out = torch.empty_like(log_weights, memory_format=torch.contiguous_format)
    _in_parallel(_gradient_block, len(memory), out.numel(), lengths, memory, grad, out)
    return out


def alphas(log_weights: Tensor, lengths: Tensor, maximise: bool = False) -> Tensor:
    """log_weights (B, N, V), lengths (B,) → alphas (B, N + 1, L + 1), float64. See the package's docstring."""
    B, N, V = log_weights.shape
    blocks = -(-B // LANES)
    rows = torch.full((blocks, N + 1, (V + 1) // 2 + 1, LANES), -math.inf, dtype=torch.float64)
    if maximise:
        _in_parallel(_max_block, blocks, log_weights.numel(), log_weights, lengths, rows)
    else:
        unused = log_weights.new_empty(blocks, 1, (V + 1) // 2, LANES)
        _in_parallel(
            _sum_block, blocks, log_weights.numel(), log_weights, lengths, rows, log_weights.new_empty(B, N), unused
        )
    return rows.permute(0, 3, 1, 2).flatten(0, 1)[:B]


def _in_parallel(kernel: Callable[..., None], blocks: int, work: int, *tensors: Tensor) -> None:
    """Call kernel(block, *arrays) for every block, in as many threads as torch uses: this one and helpers."""
    arrays = [tensor.detach().numpy() for tensor in tensors]
    helpers = min(torch.get_num_threads(), blocks) - 1 if work >= NO_THREADS_BELOW else 0
    blocks_left = iter(range(blocks))  # shared: whoever is free takes the next one

    def take_blocks() -> None:
        for block in blocks_left:
            kernel(block, *arrays)

    helping = [_pool(helpers).submit(take_blocks) for _ in range(helpers)]
    take_blocks()
    for helper in helping:
        if not helper.cancel():  # one that has not begun by now is not needed
            helper.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    # Python's threads over kernels that release the GIL: Numba's own threading layers abort the process when two
    # threads call in at once, or after a fork.
    return ThreadPoolExecutor(threads, thread_name_prefix="torch-ctree")


# A forked child inherits the pool but not its threads, and would wait for them for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def _compiled(**more: Any) -> Callable[[Callable], Callable]:
    # "contract" allows fused multiply-add; "numpy" lets 1/0 be inf: the check for it would stop vectorisation
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, **more}

    def decorate(function: Callable) -> Callable:
        try:
            return numba.njit(cache=True, **options)(function)
        except RuntimeError:  # no folder to keep compiled code in, as in a read-only container
            return numba.njit(**options)(function)

    return decorate


# The coefficients below are those of the polynomials closest to their functions (Chebyshev fits in 50 digits), highest
# power first; both err by less than 3e-16, relative. Neither function has a call or a branch, so that loops vectorise.


@_compiled(inline="always")
def _exp_minus(t):
    """exp(−t) for t ≥ 0; 0 where t > 700 or NaN."""
    finite = t < 700.0
    u = t if finite else 0.0
    shifted = u * -1.4426950408889634 + 6755399441055744.0  # adding 1.5·2^52 rounds −t / ln 2 to an integer k, …
    k = shifted - 6755399441055744.0
    r = (-u - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10  # −t − k·ln 2, with ln 2 in two parts
    p = 2.7626357241447223e-07
    p = p * r + 2.764018079620985e-06
    p = p * r + 2.4801504346997686e-05
    p = p * r + 0.00019841170270440067
    p = p * r + 0.0013888888932488599
    p = p * r + 0.008333333385667782
    p = p * r + 0.04166666666657314
    p = p * r + 0.16666666666554406
    p = p * r + 0.5000000000000006
    p = p * r + 1.0000000000000067
    p = p * r + 1.0
    power = (np.float64(shifted).view(np.int64) + 1023) << 52  # … whose low bits are the exponent of 2^k
    return p * np.int64(power).view(np.float64) if finite else 0.0


@_compiled(inline="always")
def _log1p(z):
    """log(1 + e) for 0 ≤ e ≤ 1 from z = e / (2 + e) ≤ 1/3: it is 2·atanh(z) = z · (2 + 2z²/3 + 2z⁴/5 + …)."""
    zz = z * z
    p = 0.17780763826113302
    p = p * zz + 0.09880789048764786
    p = p * zz + 0.13591305485579894
    p = p * zz + 0.15363676248891633
    p = p * zz + 0.1818285980047391
    p = p * zz + 0.22222190861346283
    p = p * zz + 0.2857142911165716
    p = p * zz + 0.399999999952876
    p = p * zz + 0.6666666666668257
    p = p * zz + 2.0
    return z * p


@_compiled()
def _gather(block, n, log_weights, lengths, x):
    """Token n's weights of a block's sentences, lane by lane: → x (V, LANES); −inf for sentences that have ended."""
    for lane in range(LANES):
        b = block * LANES + lane
        if b < len(lengths) and n < lengths[b]:
            row = log_weights[b, n]
            for v in range(len(row)):
                x[v, lane] = row[v]
        else:
            x[:, lane] = -np.inf


@_compiled()
def _longest(block, lengths, tokens):
    """A block's largest length, N at most: an unchecked length must not make a kernel leave its arrays."""
    longest = 0
    for b in range(block * LANES, min((block + 1) * LANES, len(lengths))):
        longest = max(longest, lengths[b])
    return min(longest, tokens)


# Below, s is the stride 2^(D−d) of a level and a a vertex's place in it: it starts at a·s, ends at (a + 1)·s, and has
# the heap index 2^d − 1 + a. Odd a are right children: they end where their parent ends, so out[p] is already taken.


@_compiled()
def _sum_block(block, log_weights, lengths, alphas, completions, shares):
    # Row n of α and of the shares stands at n modulo the rows there are: callers keep all of them, or the last few.
    B, N, V = log_weights.shape
    L = (V + 1) // 2
    x = np.empty((V, LANES))
    fine, coarse = np.empty(L * LANES), np.empty(L * LANES)
    alphas[block, 0] = -np.inf
    alphas[block, 0, 0] = 0.0
    for n in range(_longest(block, lengths, N)):
        alpha = alphas[block, n % alphas.shape[1]]
        out = alphas[block, (n + 1) % alphas.shape[1]]
        share = shares[block, n % shares.shape[1]].reshape(-1)
        _gather(block, n, log_weights, lengths, x)
        out[0] = -np.inf
        out[L] = alpha[0] + x[0]
        width, s = 2, L // 2
        while s >= 1:
            half = width // 2
            for k in range(half):
                for lane in range(LANES):
                    out[(2 * k + 1) * s, lane] = alpha[2 * k * s, lane] + x[width - 1 + 2 * k, lane]
                    fine[k * LANES + lane] = alpha[(2 * k + 1) * s, lane] + x[width + 2 * k, lane]
                    coarse[k * LANES + lane] = out[(2 * k + 2) * s, lane]
            _merge(coarse, fine, share, (half - 1) * LANES, half * LANES)
            for k in range(half):
                for lane in range(LANES):
                    out[(2 * k + 2) * s, lane] = coarse[k * LANES + lane]
            width, s = 2 * width, s // 2
        for lane in range(LANES):
            b = block * LANES + lane
            if b < B:
                completions[b, n] = out[L, lane]


@_compiled()
def _merge(total, new, share, at, size):
    """total ← log(exp(total) + exp(new)), and the share of the smaller of the two, exp(−t) / (1 + exp(−t)).

    The share's sign bit says which one is the smaller: the old total where it is set. Kept that way, neither share
    rounds to zero beside the other. One flat loop, because LLVM unrolls a loop over eight lanes before it looks for
    vectors.
    """
    for i in range(size):
        x, y = new[i], total[i]
        high = x if x > y else y
        low = y if x > y else x
        e = _exp_minus(high - low)  # NaN where both are −inf: gives 0
        scale = e / ((1.0 + e) * (2.0 + e))  # one division for both quotients
        total[i] = high + _log1p(scale * (1.0 + e))
        small = scale * (2.0 + e)
        share[at + i] = -small if x > y else small


@_compiled()
def _max_block(block, log_weights, lengths, alphas):
    _, N, V = log_weights.shape
    L = (V + 1) // 2
    x = np.empty((V, LANES))
    alphas[block, 0, 0] = 0.0
    for n in range(_longest(block, lengths, N)):
        alpha, out = alphas[block, n], alphas[block, n + 1]
        _gather(block, n, log_weights, lengths, x)
        width, s = 1, L
        while s >= 1:
            for a in range(width):
                for lane in range(LANES):
                    out[(a + 1) * s, lane] = max(out[(a + 1) * s, lane], alpha[a * s, lane] + x[width - 1 + a, lane])
            width, s = 2 * width, s // 2


@_compiled()
def _gradient_block(block, lengths, shares, grad, out):
    # γ as in kernels/torch.py, marginals; here what a position has left after its finer vertices took their share.
    B, N, V = out.shape
    L = (V + 1) // 2
    row = np.empty((V, LANES))
    gamma = np.zeros((L + 1, LANES))
    before = np.zeros((L + 1, LANES))
    for b in range(block * LANES, min((block + 1) * LANES, B)):
        out[b, lengths[b] :] = 0
    for n in range(_longest(block, lengths, N) - 1, -1, -1):
        for lane in range(LANES):
            b = block * LANES + lane
            if b < B and n < lengths[b]:
                gamma[L, lane] += grad[b, n]
        width, s = L, 1
        while width > 1:
            for a in range(0, width, 2):
                for lane in range(LANES):
                    left = gamma[(a + 1) * s, lane]
                    both = gamma[(a + 2) * s, lane]
                    share = shares[block, n, (width + a) // 2 - 1, lane]
                    small = both * abs(share)
                    large = both - small
                    old_is_small = math.copysign(1.0, share) < 0.0
                    new = large if old_is_small else small
                    row[width - 1 + a, lane] = left
                    row[width + a, lane] = new
                    gamma[(a + 2) * s, lane] = small if old_is_small else large
                    before[a * s, lane] += left
                    before[(a + 1) * s, lane] += new
            width, s = width // 2, 2 * s
        row[0] = gamma[L]
        before[0] += gamma[L]
        for lane in range(LANES):
            b = block * LANES + lane
            if b < B and n < lengths[b]:
                for v in range(V):
                    out[b, n, v] = row[v, lane]
        gamma, before = before, gamma
        before[:] = 0.0
