"""The paper's own algorithms, as printed: SuccessiveLeaves, the table M, DecodeJoint.

For reading beside the paper (Tan, Shen, O'Donnell, Sordoni and Courville, 2020) and as the baseline that the interval
form is measured against. Two liberties: probabilities are kept as logarithms, and vertices are heap indices. Nothing
else in the library depends on this module; it is reached by ``tree_log_likelihood(…, backend="paper")``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from torch_ctree.trees.topology import past_end


@dataclass(frozen=True)
class Transitions:
    """The output of SuccessiveLeaves."""

    successive: frozenset[tuple[int, int]]
    """S: pairs (v_j, v_i) such that v_i can be the leaf right after v_j."""
    left_boundary: frozenset[int]
    """B_l"""
    right_boundary: frozenset[int]
    """B_r"""


@cache
def successive_leaves(depth: int, vertex: int = 0) -> Transitions:
    """Algorithm SuccessiveLeaves (appendix B) at a vertex that has ``depth`` levels below it."""
    if depth == 0:
        return Transitions(frozenset(), frozenset({vertex}), frozenset({vertex}))
    left = successive_leaves(depth - 1, 2 * vertex + 1)
    right = successive_leaves(depth - 1, 2 * vertex + 2)
    across = {(v_j, v_i) for v_j in left.right_boundary for v_i in right.left_boundary}  # B'_r × B''_l
    return Transitions(
        left.successive | right.successive | across,
        left.left_boundary | {vertex},
        right.right_boundary | {vertex},
    )


def log_likelihood(log_weights: Tensor, lengths: Tensor) -> Tensor:
    """log p(x_1..N) by the table M(v, n): log_weights (B, N, V), lengths (B,) → (B,). Autograd does the rest."""
    B, N, V = log_weights.shape
    device = log_weights.device
    transitions = successive_leaves(V.bit_length() - 1)
    outside_left = torch.tensor([v not in transitions.left_boundary for v in range(V)], device=device)
    right_boundary = torch.tensor(sorted(transitions.right_boundary), device=device)
    before = predecessors(transitions, V).to(device)
    log_weights = log_weights.masked_fill(past_end(lengths, N)[..., None], -math.inf)

    table = [log_weights[:, 0].masked_fill(outside_left, -math.inf)]  # M(·, 1), (B, V)
    for n in range(1, N):
        with_nothing = torch.nn.functional.pad(table[-1], (0, 1), value=-math.inf)  # M(V, n) = 0 for the padding
        table.append(log_weights[:, n] + _logsumexp(with_nothing[:, before]))  # Eq. 10
    last = torch.stack(table, dim=1)[torch.arange(B, device=device), lengths - 1]  # M(·, N), (B, V)
    return _logsumexp(last[:, right_boundary])  # Eq. 11


def predecessors(transitions: Transitions, vertices: int) -> Tensor:
    """S as a table (V, most): row v_i lists the v_j with (v_j, v_i) in S, padded with V."""
    before: list[list[int]] = [[] for _ in range(vertices)]
    for v_j, v_i in sorted(transitions.successive):
        before[v_i].append(v_j)
    most = max(1, *map(len, before)) if vertices > 1 else 1
    return torch.tensor([row + [vertices] * (most - len(row)) for row in before])


def _logsumexp(values: Tensor) -> Tensor:
    """(…, K) → (…): like torch.logsumexp, but with a zero gradient, not NaN, where everything is −inf."""
    nothing = (values == -math.inf).all(-1)
    return values.masked_fill(nothing[..., None], 0).logsumexp(-1).masked_fill(nothing, -math.inf)


def decode_joint(leaf_scores: Tensor) -> tuple[list[int], float]:
    """Algorithm DecodeJoint (appendix C) for one sentence.

    leaf_scores (V,): log m(v) + max over x of log p(x | v)
    → the leaves of the best (sentence, tree), left to right, and its log-probability. The token of a leaf is the best
    one of its vertex.

    The paper's printed loop runs while max M* ≥ p*. A zero step (no vertex can follow) would then go on for ever when
    nothing was found, so it also ends when the frontier is empty.
    """
    V = len(leaf_scores)
    transitions = successive_leaves(V.bit_length() - 1)
    before = [[v_j for v_j in row if v_j < V] for row in predecessors(transitions, V).tolist()]
    scores = leaf_scores.tolist()

    best, best_length, best_vertex = -math.inf, 0, -1  # p*, N*, v*
    table = [{v: scores[v] if v in transitions.left_boundary else -math.inf for v in range(V)}]  # M*(·, 1)
    pointers: list[dict[int, int]] = [{}]  # M*_arg
    while max(table[-1].values()) >= best and max(table[-1].values()) > -math.inf:
        complete = max(transitions.right_boundary, key=lambda v: table[-1][v])
        if table[-1][complete] > best:
            best, best_length, best_vertex = table[-1][complete], len(table), complete
        frontier = table[-1]
        pointers.append({v: max(before[v], key=frontier.__getitem__) for v in range(V) if before[v]})
        table.append({v: scores[v] + frontier[pointers[-1][v]] if before[v] else -math.inf for v in range(V)})

    leaves = [best_vertex] if best_length else []
    for n in range(best_length - 1, 0, -1):  # backtrace
        leaves.insert(0, pointers[n][leaves[0]])
    return leaves, best
