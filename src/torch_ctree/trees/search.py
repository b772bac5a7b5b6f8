"""The best derivations, exactly: over (sentence, tree) pairs, and over the trees of a given sentence.

Nothing here is differentiable; score what is found with ``LatentTree.joint_log_prob`` for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from torch_ctree.trees.compiling import outside_graphs
from torch_ctree.trees.kernels.torch import segment_max, topk
from torch_ctree.trees.likelihood import Kernel, SearchKernel, kernel_of
from torch_ctree.trees.prior import reached
from torch_ctree.trees.topology import leaves_from_mask, level, longest, topology_of


@outside_graphs
def _searching(kernel: Kernel) -> SearchKernel | None:
    """The kernel, if it can search by itself."""
    return kernel if isinstance(kernel, SearchKernel) else None


# --- (sentence, tree) pairs -------------------------------------------------------------------------------------------


class Found(NamedTuple):
    """The best (sentence, tree) pairs; length 0 and a score of −inf where there are not so many."""

    vertices: Tensor  # (*batch, N), padded with −1
    lengths: Tensor  # (*batch,)
    scores: Tensor  # (*batch,)
    tokens: Tensor  # (*batch, N)


def best_derivations(
    log_leaf: Tensor, log_split: Tensor, token_scores: Tensor, tokens: Tensor, k: int, kernel: Kernel | None = None
) -> Found:
    """The k best (sentence, tree) pairs of any length, best first.

    log_leaf, log_split: (B, V), log l_v and log(1 − l_v); token_scores, tokens: (B, V, J), the J best tokens of each
    vertex, best first, J the smaller of k and the vocabulary; kernel: by default the device's → Found (k, B, …)

    No length is fixed, so a vertex's best derivations depend on its own subtree alone (the recursion π, Eq. 3, with
    maxima): one pass over the levels from the bottom up finds them, and one from the top down reads them off.
    """
    if k == 1 and (searching := _searching(kernel or kernel_of(log_leaf))):
        found = _found(*searching.best_derivation(log_leaf, log_split, token_scores[..., 0]), tokens[..., 0])
        return Found(*(part[None] for part in found))
    J = token_scores.shape[-1]
    depth = topology_of(log_leaf).depth
    # If ranks i and j of two children make one of the k best, so do all (i + 1)(j + 1) pairs that are no worse.
    pairs = torch.tensor([(i, j) for i in range(k) for j in range(k) if (i + 1) * (j + 1) <= k], device=log_leaf.device)
    left, right = pairs.unbind(1)

    best = log_leaf.new_empty(0)
    choices = []  # of each level, deepest first: (B, 2^d, k), < J a token, else J + a pair of ranks
    for d in reversed(range(depth + 1)):
        candidates = log_leaf[:, level(d), None] + token_scores[:, level(d)]  # (B, 2^d, J)
        if d < depth:
            split = log_split[:, level(d), None] + best[:, 0::2][..., left] + best[:, 1::2][..., right]
            candidates = torch.cat([candidates, split], dim=-1)
        missing = max(0, k - candidates.shape[-1])
        best, choice = topk(torch.nn.functional.pad(candidates, (0, missing), value=-math.inf), k)
        choices.append(choice.clamp_max(J - 1) if d == depth else choice)
    scores = best[:, 0].T  # (k, B)

    rank = torch.arange(k, device=log_leaf.device)[:, None, None].expand(k, len(log_leaf), 1)
    splits, ranks = [], []
    for d in range(depth + 1):
        choice = choices[depth - d].expand(k, -1, -1, -1).gather(-1, rank[..., None])[..., 0]  # (k, B, 2^d)
        splits.append(choice >= J)
        ranks.append(choice.clamp_max(J - 1))
        pair = (choice - J).clamp_min(0)
        rank = torch.stack([left[pair], right[pair]], dim=-1).flatten(-2)  # (k, B, 2^(d+1))
    split, token_rank = torch.cat(splits, dim=-1), torch.cat(ranks, dim=-1)  # (k, B, V)
    is_leaf = ~split & reached(split) & (scores > -math.inf)[..., None]
    vertices, lengths = leaves_from_mask(is_leaf)
    token = tokens.expand(k, -1, -1, -1).gather(-1, token_rank[..., None])[..., 0]  # (k, B, V)
    return Found(vertices, lengths, scores, token.gather(-1, vertices.clamp_min(0)))


def _found(vertices: Tensor, lengths: Tensor, scores: Tensor, tokens: Tensor) -> Found:
    """vertices (B, wider than any sentence), lengths (B,), scores (B,), each vertex's token (B, V) → Found (B, …)"""
    vertices = vertices[:, : longest(lengths)]
    return Found(vertices, lengths, scores, tokens.gather(-1, vertices.clamp_min(0)))


def best_derivation_within(leaf_scores: Tensor, tokens: Tensor, max_length: int, kernel: Kernel | None = None) -> Found:
    """The best (sentence, tree) pair of at most max_length tokens.

    leaf_scores, tokens: (B, V), log m(v) + max over x of log p(x | v), never above 0, and that x; kernel: by default
    the device's → Found (B, …)

    The paper's DecodeJoint on intervals. It stops as soon as no unfinished prefix scores above the best finished
    sentence: longer sentences multiply a prefix by factors of at most one, so none of them can win.
    """
    leaf_scores = leaf_scores.clamp_max(0)  # what rounding may have lifted above
    if searching := _searching(kernel or kernel_of(leaf_scores)):
        return _found(*searching.best_path_within(leaf_scores, max_length), tokens)
    tree = topology_of(leaf_scores)
    tensors = tree.on(leaf_scores.device)

    alpha = leaf_scores.new_full((len(leaf_scores), tree.positions + 1), -math.inf)
    alpha[:, 0] = 0
    alphas = [alpha]
    scores = leaf_scores.new_full((len(leaf_scores),), -math.inf)
    lengths = torch.zeros_like(scores, dtype=torch.long)
    for n in range(1, min(max_length, tree.positions) + 1):
        alpha = segment_max(alpha[:, tensors.starts] + leaf_scores, tensors.ends, tree.positions + 1)
        alphas.append(alpha)
        lengths = torch.where(alpha[:, -1] > scores, n, lengths)
        scores = torch.maximum(alpha[:, -1], scores)
        if bool((alpha[:, :-1].amax(-1) <= scores).all()):
            break
    rows = torch.stack(alphas, dim=1)[:, : longest(lengths) + 1]
    weights = leaf_scores[:, None].expand(-1, rows.shape[1] - 1, -1)
    vertices = trace(rows, weights, lengths)
    return Found(vertices, lengths, scores, tokens.gather(-1, vertices.clamp_min(0)))


def best_derivation_of_each_length(
    leaf_scores: Tensor, tokens: Tensor, max_length: int, kernel: Kernel | None = None
) -> Found:
    """The best (sentence, tree) pairs of 1, 2, … max_length tokens.

    leaf_scores, tokens, kernel: as for ``best_derivation_within`` → Found (max_length, B, …)

    What a leaf says does not depend on how many there are: one table of maxima has, at its last position, the best
    score after each number of tokens, and from there each derivation is read off.
    """
    weights, table = _of_each_length(leaf_scores, max_length, kernel)
    scores = table[:, 1:, -1].T.to(leaf_scores.dtype)  # (max_length, B)
    lengths = torch.arange(1, max_length + 1, device=scores.device)[:, None].expand_as(scores)
    vertices = trace(table, weights, lengths)  # (max_length, B, max_length)
    found = tokens.expand(max_length, -1, -1).gather(-1, vertices.clamp_min(0))
    return Found(vertices, lengths.masked_fill(scores == -math.inf, 0), scores, found)


def best_derivation_for_its_length(
    leaf_scores: Tensor, tokens: Tensor, max_length: int, penalty: float, kernel: Kernel | None = None
) -> Found:
    """The best (sentence, tree) pair by log p / ((6 + n) / 6)^penalty, of 1 to max_length tokens n.

    leaf_scores, tokens, kernel: as for ``best_derivation_within`` → Found (B, …)
    """
    weights, table = _of_each_length(leaf_scores, max_length, kernel)
    scores = table[:, 1:, -1].to(leaf_scores.dtype)  # (B, max_length)
    words = torch.arange(1, max_length + 1, device=scores.device)
    best = penalised(scores, words + 1, penalty).argmax(-1, keepdim=True)
    scores = scores.gather(-1, best)[:, 0]
    lengths = (best[:, 0] + 1).masked_fill(scores == -math.inf, 0)
    N = longest(lengths)
    vertices = trace(table[:, : N + 1], weights[:, :N], lengths)
    return Found(vertices, lengths, scores, tokens.gather(-1, vertices.clamp_min(0)))


def penalised(log_prob: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    """log p / ((5 + n) / 6)^penalty, for sentences of n tokens, the end among them (Wu et al., 2016)."""
    return log_prob / ((5 + tokens) / 6) ** penalty


def _of_each_length(leaf_scores: Tensor, max_length: int, kernel: Kernel | None) -> tuple[Tensor, Tensor]:
    """(B, V) → the same for each of so many tokens, (B, N, V), and the table of the best, (B, N + 1, L + 1)"""
    weights = leaf_scores[:, None].expand(-1, max_length, -1)
    lengths = torch.full((len(leaf_scores),), max_length, device=leaf_scores.device)
    return weights, (kernel or kernel_of(leaf_scores)).alphas(weights, lengths, maximise=True)


# --- trees of a given sentence ----------------------------------------------------------------------------------------


def best_trees(log_weights: Tensor, lengths: Tensor, kernel: Kernel | None = None) -> Tensor:
    """The best tree of each sentence: log_weights (B, N, V), lengths (B,) → vertices (B, N).

    kernel: by default the device's
    """
    kernel = kernel or kernel_of(log_weights)
    if searching := _searching(kernel):
        return searching.best_paths(log_weights, lengths)
    return trace(kernel.alphas(log_weights, lengths, maximise=True), log_weights, lengths)


def trace(
    alphas: Tensor, log_weights: Tensor, lengths: Tensor, choose: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Leaves read off the table from the last to the first.

    alphas (B, N + 1, L + 1), log_weights (B, N, V), lengths (*sample, B); choose: (*sample, B, D + 1) scores of the
    vertices that may come next → (*sample, B), the place of the one taken; by default the best
    → vertices (*sample, B, N), padded with −1, all −1 where no tree is possible
    """
    tree = topology_of(log_weights)
    tensors = tree.on(log_weights.device)
    sentence = torch.arange(lengths.shape[-1], device=lengths.device)[:, None]  # (B, 1)
    position = torch.full_like(lengths, tree.positions)
    leaves = []
    for n in reversed(range(log_weights.shape[1])):
        candidates = tensors.ending_at[position]  # (*sample, B, D + 1)
        known = candidates.clamp_min(0)
        scores = alphas[sentence, n, tensors.starts[known]] + log_weights[sentence, n, known]
        scores = scores.masked_fill(candidates < 0, -math.inf)
        taken = scores.argmax(-1) if choose is None else choose(scores)
        vertex = known.gather(-1, taken[..., None])[..., 0]
        position = torch.where(n < lengths, tensors.starts[vertex], position)
        leaves.append(torch.where(n < lengths, vertex, -1))
    scores = alphas[sentence[:, 0], lengths, -1]  # (*sample, B)
    return torch.stack(leaves[::-1], dim=-1).masked_fill(scores[..., None] == -math.inf, -1)


def k_best_trees(log_weights: Tensor, lengths: Tensor, k: int) -> Tensor:
    """The k best trees of each sentence, best first: log_weights (B, N, V), lengths (B,) → vertices (k, B, N).

    All −1 where there are not so many.

    The same recursion with the k best scores at each position, and pointers to where each of them came from.
    """
    B, N, _ = log_weights.shape
    tree = topology_of(log_weights)
    tensors = tree.on(log_weights.device)
    known = tensors.ending_at.clamp_min(0)  # (L + 1, D + 1)
    padding = (tensors.ending_at < 0)[..., None]

    best = log_weights.new_full((B, tree.positions + 1, k), -math.inf)
    best[:, 0, 0] = 0
    scores = log_weights.new_full((B, k), -math.inf)
    pointers = []  # of each token: (B, L + 1, k), place in ending_at × k + rank before it
    for n in range(N):
        candidates = best[:, tensors.starts[known]] + log_weights[:, n, known][..., None]  # (B, L + 1, D + 1, k)
        best, pointer = topk(candidates.masked_fill(padding, -math.inf).flatten(2), k)
        pointers.append(pointer)
        scores = torch.where((lengths == n + 1)[:, None], best[:, -1], scores)

    sentence = torch.arange(B, device=lengths.device)
    position = torch.full((k, B), tree.positions, device=lengths.device)
    rank = torch.arange(k, device=lengths.device)[:, None].expand(k, B)
    leaves = []
    for n in reversed(range(N)):
        pointer = pointers[n][sentence, position, rank]  # (k, B)
        vertex = known[position, pointer // k]
        leaves.append(torch.where(n < lengths, vertex, -1))
        position = torch.where(n < lengths, tensors.starts[vertex], position)
        rank = torch.where(n < lengths, pointer % k, rank)
    return torch.stack(leaves[::-1], dim=-1).masked_fill(scores.T[..., None] == -math.inf, -1)
