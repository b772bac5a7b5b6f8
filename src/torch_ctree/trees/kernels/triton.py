"""The interval recursion as Triton kernels, for GPUs: one program per sentence, all its tokens in one launch.

Positions go in pairs, one to a lane: lane j of H = 2^(D−1) has the odd position 2j + 1 and the even position 2j + 2.

- One vertex ends at an odd position, a left leaf of the deepest level, and one starts there, its right sibling, which
  ends in the same lane. So what a kernel knows of odd positions never leaves a lane.
- At an even position end that right sibling and, for each k = 1 … D, at most one vertex of stride 2^k, the length of
  its interval. These are the rows of (K, H) tensors, K the power of two above D.

Even positions meet in global memory, with one barrier for each token. Everything is computed in the dtype of the
weights. No function here waits for the device, and none depends on values: all can be captured in CUDA graphs.

Besides the three functions of every kernel there are three searches, which ``search`` uses where it finds them.
"""

# pyright: reportOperatorIssue=false, reportGeneralTypeIssues=false
# Inside a kernel everything is a tensor, whatever Python makes of it; sizes are called as outside.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from torch_ctree.trees.compiling import outside_graphs
from torch_ctree.trees.kernels.torch import in_accumulation_dtype
from torch_ctree.trees.topology import topology_of

# --- the contract -----------------------------------------------------------------------------------------------------


def forward(log_weights: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log_weights (B, N, V), lengths (B,) → completions (B, N), alphas (B, N + 1, L + 1). See the package."""
    memory = alphas(log_weights, lengths)
    return memory[:, 1:, -1], memory


def backward(log_weights: Tensor, lengths: Tensor, memory: Tensor, grad: Tensor) -> Tensor:
    """→ (B, N, V): the posterior probability that vertex v emits token n, times grad. See the package's docstring."""
    weights, N = _rows(log_weights), log_weights.shape[1]
    out = torch.empty_like(weights, memory_format=torch.contiguous_format)
    strides = weights.stride(0), weights.stride(1), grad.stride(0), grad.stride(1)
    _launch(_gradient, weights, weights, lengths.contiguous(), memory, grad, out, N, *strides)
    return out.to(log_weights.dtype)


def alphas(log_weights: Tensor, lengths: Tensor, maximise: bool = False) -> Tensor:
    """log_weights (B, N, V), lengths (B,) → alphas (B, N + 1, L + 1). See the package's docstring."""
    weights = _rows(log_weights)
    B, N, _ = weights.shape
    table = weights.new_empty(B, N + 1, topology_of(weights).positions + 1)
    arguments = weights, lengths.contiguous(), table, N, weights.stride(0), weights.stride(1)
    _launch(_fill_table, weights, *arguments, MAXIMISE=maximise)
    return table


# --- searches ---------------------------------------------------------------------------------------------------------


def best_paths(log_weights: Tensor, lengths: Tensor) -> Tensor:
    """The best tree of each sentence: log_weights (B, N, V), lengths (B,) → vertices (B, N).

    Padded with −1; all −1 where no tree is possible.
    """
    weights, N = _rows(log_weights), log_weights.shape[1]
    vertices, rows, levels = _for_paths(weights, N)
    strides = weights.stride(0), weights.stride(1)
    _launch(_find_path, weights, weights, lengths.contiguous(), rows, levels, vertices, N, *strides)
    return vertices


def best_path_within(leaf_scores: Tensor, max_length: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best tree of at most max_length leaves whose scores do not depend on the token and are never above 0.

    leaf_scores (B, V) → vertices (B, the smaller of max_length and L), padded with −1; lengths (B,); scores (B,).
    Where there is none: −1, 0 and −inf.
    """
    weights = _rows(leaf_scores)
    N = min(max_length, topology_of(weights).positions)
    vertices, rows, levels = _for_paths(weights, N)
    lengths, scores = weights.new_empty(len(weights), dtype=torch.long), weights.new_empty(len(weights))
    _launch(_find_path_within, weights, weights, rows, levels, vertices, lengths, scores, N, weights.stride(0))
    return vertices, lengths, scores.to(leaf_scores.dtype)


def best_derivation(log_leaf: Tensor, log_split: Tensor, token_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best tree of any length where each leaf says its best token.

    log_leaf, log_split, token_scores: (B, V) each → vertices (B, L), padded with −1; lengths (B,); scores (B,).
    Where there is none: −1, 0 and −inf.
    """
    dtype = torch.promote_types(log_leaf.dtype, token_scores.dtype)
    inputs = [_rows(tensor.to(dtype)) for tensor in (log_leaf, log_split, token_scores)]
    B, L = len(log_leaf), topology_of(log_leaf).positions
    vertices, lengths = log_leaf.new_empty(B, L, dtype=torch.long), log_leaf.new_empty(B, dtype=torch.long)
    best, splits = inputs[0].new_empty(log_leaf.shape), log_leaf.new_empty(log_leaf.shape, dtype=torch.int8)
    scores = inputs[0].new_empty(B)
    strides = (tensor.stride(0) for tensor in inputs)
    _launch(_find_derivation, log_leaf, *inputs, best, splits, vertices, lengths, scores, *strides)
    return vertices, lengths, scores.to(dtype)


# --- launching --------------------------------------------------------------------------------------------------------


def _rows(values: Tensor) -> Tensor:
    """(…, V) in a dtype to compute in, vertices next to each other; anything else may be expanded."""
    values = in_accumulation_dtype(values.detach())
    return values if values.stride(-1) == 1 else values.contiguous()


def _for_paths(weights: Tensor, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
    """→ vertices (B, N), two rows of α at even positions (B, 2, H + 1), k of each best vertex (B, N, H)."""
    B, H = len(weights), _pairs(topology_of(weights).depth)
    vertices = weights.new_empty(B, tokens, dtype=torch.long)
    return vertices, weights.new_empty(B, 2, H + 1), weights.new_empty(B, tokens, H, dtype=torch.int8)


def _pairs(depth: int) -> int:
    """H, the number of lanes; at depth 0 there is half a pair."""
    return 1 << max(0, depth - 1)


def _warps(depth: int) -> int:
    """How many warps work on a sentence: no more than there are lanes for."""
    return max(1, min(16, _pairs(depth) // 32))


@outside_graphs
def _launch(kernel: triton.JITFunction, per_vertex: Tensor, *args: Tensor | int, **constants: bool) -> None:
    """One program for each sentence of per_vertex (B, …, V)."""
    B, depth = len(per_vertex), topology_of(per_vertex).depth
    if B == 0:
        return
    with torch.cuda.device_of(per_vertex):  # Triton launches on the current device, wherever the tensors are
        kernel[(B,)](
            *args,
            D=depth,
            H=_pairs(depth),
            K=triton.next_power_of_2(max(1, depth)),
            num_warps=_warps(depth),
            **constants,
        )


# --- inside the kernels -----------------------------------------------------------------------------------------------
#
# Sizes that change from batch to batch are not specialised on, or every new one might compile the kernel again.

# Neighbouring threads have to be neighbouring lanes, and each has to have all levels of its lane: then nothing but
# even positions is ever exchanged. Where no dimension has contiguous addresses, as here, Triton gives neighbouring
# threads the first one, and since 3.7 the last one. So levels, k = 1 … K, are the other one.
LEVELS = tl.constexpr(0 if tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7) else 1)


@triton.jit
def _lanes(H: tl.constexpr):
    """0 … H − 1"""
    return tl.expand_dims(tl.arange(0, H), LEVELS)


@triton.jit
def _levels(K: tl.constexpr):
    """1 … K"""
    return tl.expand_dims(tl.arange(0, K), 1 - LEVELS) + 1


@triton.jit
def _arcs(D: tl.constexpr, H: tl.constexpr, K: tl.constexpr):
    """Even positions, and the vertices of stride 2^k, k = 1 … D, that end there.

    → p (H); for each k and p: whether there is such a vertex, where it starts, its heap index, all (K, H). The next
    index is that of the vertex of the same level that starts at p.
    """
    p, k = 2 * _lanes(H) + 2, _levels(K)
    stride = tl.full(k.shape, 1, tl.int32) << k
    there = (k <= D) & ((p & (stride - 1)) == 0)
    vertex = (tl.full(k.shape, 1 << D, tl.int32) >> k) - 2 + (p >> k)
    return p, there, p - stride, vertex


@triton.jit
def _length(at, N):
    """0 … N: an unchecked length must not make a kernel leave its arrays."""
    return tl.maximum(tl.minimum(tl.load(at), N), 0)


@triton.jit
def _weights(row, there, vertex, p, n, length, D: tl.constexpr):
    """The weights of the n-th of length tokens: of the left leaves and of the right leaves (H), all others (K, H).

    −inf unless n < length. row: points at the token's weights of the root
    """
    on = n + tl.zeros_like(p) < length
    deepest = row + ((1 << D) - 2)  # + p: the leaf that ends at p
    left = tl.load(deepest + (p - 1), mask=on, other=float("-inf"))
    right = tl.load(deepest + p, mask=on & (p <= (1 << D)), other=float("-inf"))
    return left, right, tl.load(row + vertex, mask=on & there, other=float("-inf"))


@triton.jit
def _shares(leaf, x):
    """The softmax over what ends at each position, leaf (H) and x (K, H), before division.

    → the maximum (−inf where all is), then exp of leaf and of x less the maximum, and their sum, 1 or more, or 0.
    """
    high = tl.maximum(tl.max(x, LEVELS, keep_dims=True), leaf)
    known = tl.where(high == float("-inf"), 0.0, high)
    e_leaf, e = tl.exp(leaf - known), tl.exp(x - known)
    return high, e_leaf, e, tl.sum(e, LEVELS, keep_dims=True) + e_leaf


@triton.jit
def _write(row, p, odd, even, D: tl.constexpr):
    """One row of α, (L + 1): −inf at position 0, and what the lanes have."""
    tl.store(row, float("-inf"))
    tl.store(row + (p - 1), odd)
    tl.store(row + p, even, mask=p <= (1 << D))


@triton.jit(do_not_specialize=["N", "stride_b", "stride_n"])
def _fill_table(
    weights,
    lengths,
    table,
    N,
    stride_b,
    stride_n,
    MAXIMISE: tl.constexpr,
    D: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
):
    """weights (B, N, V), lengths (B,) → table (B, N + 1, L + 1)"""
    b = tl.program_id(0).to(tl.int64)
    p, there, start, vertex = _arcs(D, H, K)
    length = _length(lengths + b, N).to(tl.int32)
    row = table + b * (N + 1) * ((1 << D) + 1)
    weights += b * stride_b

    never = tl.full(p.shape, float("-inf"), table.dtype.element_ty)
    odd = never
    _write(row, p, never, never, D)
    tl.debug_barrier()  # or the 0 might be written before the −inf
    tl.store(row, 0.0)
    left, right, rest = _weights(weights, there, vertex, p, 0, length, D)
    for n in range(length):
        tl.debug_barrier()
        x = tl.load(row + start, mask=there, other=float("-inf")) + rest
        first = tl.load(row + (p - 2)) + left
        leaf = odd + right
        weights += stride_n
        left, right, rest = _weights(weights, there, vertex, p, n + 1, length, D)  # on their way while we compute
        if MAXIMISE:
            even = tl.maximum(tl.max(x, LEVELS, keep_dims=True), leaf)
        else:
            high, _, _, total = _shares(leaf, x)
            even = high + tl.log(tl.maximum(total, 0.5))
        odd = first
        row += (1 << D) + 1
        _write(row, p, odd, even, D)
    for _ in range(length, N):
        row += (1 << D) + 1
        _write(row, p, never, never, D)


@triton.jit(do_not_specialize=["N", "stride_b", "stride_n", "grad_stride_b", "grad_stride_n"])
def _gradient(
    weights,
    lengths,
    table,
    grad,
    out,
    N,
    stride_b,
    stride_n,
    grad_stride_b,
    grad_stride_n,
    D: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
):
    """weights and out (B, N, V), lengths (B,), table (B, N + 1, L + 1), grad (B, N).

    γ and μ as in kernels/torch.py, marginals. γ at an even position is added up from the μ of the token after, which
    the other lanes have just written.
    """
    L: tl.constexpr = 1 << D
    V: tl.constexpr = 2 * L - 1
    b = tl.program_id(0).to(tl.int64)
    p, there, start, vertex = _arcs(D, H, K)
    length = _length(lengths + b, N)
    last = length - 1  # int64
    length = length.to(tl.int32)
    dtype: tl.constexpr = out.dtype.element_ty
    zero = tl.full(p.shape, 0.0, dtype)

    out += (b * N + last) * V
    row = out
    for _ in range(length, N):
        row += V
        _write_vertices(row, p, there, vertex, zero, zero, tl.full(vertex.shape, 0.0, dtype), D)

    table += (b * (N + 1) + last) * (L + 1)
    weights += b * stride_b + last * stride_n
    grad += b * grad_stride_b + last * grad_stride_n
    _, right, rest = _weights(weights, there, vertex, p, 0, length, D)
    odd = zero  # γ
    for n in range(length):  # tokens after this one
        tl.debug_barrier()
        x = tl.load(table + start, mask=there, other=float("-inf")) + rest
        leaf = tl.load(table + (p - 1)) + right
        on = p < tl.where(n > 0, L, 0)
        next_left = tl.load(out + (V + L - 1) + p, mask=on, other=0.0)
        next_rest = tl.load(out + (V + 1) + vertex, mask=there & on, other=0.0)
        completed = tl.load(grad)
        weights -= stride_n
        _, right, rest = _weights(weights, there, vertex, p, n + 1, length, D)

        _, e_leaf, e, total = _shares(leaf, x)
        even = tl.sum(next_rest, LEVELS, keep_dims=True) + next_left + tl.where(p == L, completed, 0.0)
        odd += tl.where(p - 1 == L, completed, 0.0)  # depth 0
        scale = tl.where(total > 0, even / tl.maximum(total, 0.5), 0.0)
        e_leaf *= scale
        _write_vertices(out, p, there, vertex, odd, e_leaf, e * scale, D)
        odd = e_leaf
        table -= L + 1
        grad -= grad_stride_n
        out -= V


@triton.jit
def _write_vertices(row, p, there, vertex, left, right, rest, D: tl.constexpr):
    """One number for each vertex: of the left leaves and of the right leaves (H), of all others (K, H)."""
    deepest = row + ((1 << D) - 2)
    tl.store(deepest + (p - 1), left)
    tl.store(deepest + p, right, mask=p <= (1 << D))
    tl.store(row + vertex, rest, mask=there)


# --- inside the searches ----------------------------------------------------------------------------------------------
#
# Only two rows of α are kept, and of those only even positions: position 2j stands at j.


@triton.jit
def _write_even(row, p, even):
    tl.store(row, float("-inf"))
    tl.store(row + p // 2, even)


@triton.jit
def _begin(row, p, odd):
    """α_0, and a barrier."""
    _write_even(row, p, odd)
    tl.debug_barrier()  # or the 0 might be written before the −inf
    tl.store(row, 0.0)
    tl.debug_barrier()


@triton.jit
def _advance(row, odd, left, right, rest, p, there, start, D: tl.constexpr, K: tl.constexpr):
    """The recursion with maxima → α_n at odd and even positions (H), and k of the vertex that attained the latter.

    Of several, the one of the smallest k.
    """
    x = tl.load(row + start // 2, mask=there, other=float("-inf")) + rest
    first = tl.load(row + (p // 2 - 1)) + left
    leaf = odd + right
    even = tl.maximum(tl.max(x, LEVELS, keep_dims=True), leaf)
    level = tl.min(tl.where(x == even, _levels(K), D), LEVELS, keep_dims=True)
    return first, even, tl.where(leaf == even, 0, level)


@triton.jit
def _trace(levels, vertices, length, N, D: tl.constexpr, H: tl.constexpr):
    """Leaves from the last to the first: levels (N, H), k of the best vertex at each even position → vertices (N,)."""
    for n in range(length, N):
        tl.store(vertices + n, -1)
    position = tl.full((), 1 << D, tl.int32)
    for n in range(length):
        last = length - 1 - n
        k = tl.load(levels + last * H + (position // 2 - 1), mask=position % 2 == 0, other=0).to(tl.int32)
        tl.store(vertices + last, (tl.full((), 1 << D, tl.int32) >> k) - 2 + (position >> k))
        position -= tl.full((), 1, tl.int32) << k


@triton.jit(do_not_specialize=["N", "stride_b", "stride_n"])
def _find_path(
    weights,
    lengths,
    rows,
    levels,
    vertices,
    N,
    stride_b,
    stride_n,
    D: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
):
    """weights (B, N, V), lengths (B,) → vertices (B, N); on the way rows (B, 2, H + 1), levels (B, N, H)"""
    b = tl.program_id(0).to(tl.int64)
    p, there, start, vertex = _arcs(D, H, K)
    length = _length(lengths + b, N).to(tl.int32)
    weights += b * stride_b
    here = rows + b * 2 * (H + 1)
    ahead = here + (H + 1)
    levels += b * N * H

    odd = tl.full(p.shape, float("-inf"), rows.dtype.element_ty)
    _begin(here, p, odd)
    left, right, rest = _weights(weights, there, vertex, p, 0, length, D)
    to = levels
    for n in range(length):
        odd, even, level = _advance(here, odd, left, right, rest, p, there, start, D, K)
        weights += stride_n
        left, right, rest = _weights(weights, there, vertex, p, n + 1, length, D)
        _write_even(ahead, p, even)
        tl.store(to + (p // 2 - 1), level.to(tl.int8))
        to += H
        here, ahead = ahead, here
        tl.debug_barrier()
    score = tl.max(odd) if D == 0 else tl.load(here + H)
    _trace(levels, vertices + b * N, tl.where(score > float("-inf"), length, 0), N, D, H)


@triton.jit(do_not_specialize=["N", "stride_b"])
def _find_path_within(
    weights,
    rows,
    levels,
    vertices,
    lengths,
    scores,
    N,
    stride_b,
    D: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
):
    """weights (B, V) → vertices (B, N), lengths (B,), scores (B,); on the way as in _find_path"""
    b = tl.program_id(0).to(tl.int64)
    p, there, start, vertex = _arcs(D, H, K)
    here = rows + b * 2 * (H + 1)
    ahead = here + (H + 1)
    levels += b * N * H

    odd = tl.full(p.shape, float("-inf"), rows.dtype.element_ty)
    _begin(here, p, odd)
    left, right, rest = _weights(weights + b * stride_b, there, vertex, p, 0, N, D)
    to = levels
    score = tl.max(odd)
    length = tl.full((), 0, tl.int32)
    n = tl.full((), 0, tl.int32)
    going = n < N
    while going:
        odd, even, level = _advance(here, odd, left, right, rest, p, there, start, D, K)
        _write_even(ahead, p, even)
        tl.store(to + (p // 2 - 1), level.to(tl.int8))
        to += H
        here, ahead = ahead, here
        tl.debug_barrier()
        n += 1
        complete = tl.max(tl.where(p == (1 << D), even, float("-inf")))
        complete = tl.maximum(complete, tl.max(tl.where(p - 1 == (1 << D), odd, float("-inf"))))  # depth 0
        unfinished = tl.max(tl.where(p < (1 << D), tl.maximum(odd, even), tl.where(p == (1 << D), odd, float("-inf"))))
        length = tl.where(complete > score, n, length)
        score = tl.maximum(complete, score)
        going = (n < N) & (unfinished > score)  # longer sentences only multiply by factors of at most one
    tl.store(lengths + b, length)
    tl.store(scores + b, score)
    _trace(levels, vertices + b * N, length, N, D, H)


@triton.jit(do_not_specialize=["leaf_stride", "split_stride", "token_stride"])
def _find_derivation(
    log_leaf,
    log_split,
    token_scores,
    best,
    splits,
    vertices,
    lengths,
    scores,
    leaf_stride,
    split_stride,
    token_stride,
    D: tl.constexpr,
    H: tl.constexpr,
    K: tl.constexpr,
):
    """log_leaf, log_split, token_scores (B, V) → vertices (B, L), lengths (B,), scores (B,); best, splits (B, V)"""
    L: tl.constexpr = 1 << D
    b = tl.program_id(0).to(tl.int64)
    log_leaf += b * leaf_stride
    log_split += b * split_stride
    token_scores += b * token_stride
    best += b * (2 * L - 1)
    splits += b * (2 * L - 1)

    lane = tl.arange(0, L)
    for k in tl.static_range(D + 1):
        on = lane < (L >> k)
        v = lane + ((L >> k) - 1)  # level D − k
        value = tl.load(log_leaf + v, mask=on) + tl.load(token_scores + v, mask=on)
        if k > 0:
            split = tl.load(log_split + v, mask=on) + tl.load(best + 2 * v + 1, mask=on)
            split += tl.load(best + 2 * v + 2, mask=on)
            tl.store(splits + v, (split > value).to(tl.int8), mask=on)
            value = tl.maximum(value, split)
        tl.store(best + v, value, mask=on)
        tl.debug_barrier()

    # The leaf over each place of the deepest level: the first vertex from the root down that does not split.
    score = tl.load(best)
    leaf = tl.zeros([L], tl.int32)
    going = lane >= 0
    start = lane
    for d in tl.static_range(D + 1):
        v = (lane >> (D - d)) + ((1 << d) - 1)
        leaf = tl.where(going, v, leaf)
        start = tl.where(going, (lane >> (D - d)) << (D - d), start)
        if d < D:
            going = going & (tl.load(splits + v) != 0)
    is_first = lane == tl.where(score > float("-inf"), start, -1)
    count = tl.cumsum(is_first.to(tl.int32), 0)
    length = tl.sum(is_first.to(tl.int32))
    vertices += b * L
    tl.store(vertices + (count - 1), leaf, mask=is_first)
    tl.store(vertices + lane, -1, mask=lane >= length)
    tl.store(lengths + b, length)
    tl.store(scores + b, score)
