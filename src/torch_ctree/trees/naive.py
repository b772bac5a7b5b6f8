"""Every internal tree, one by one: the definition itself, slow on purpose.

The oracle of the tests and the place to start reading. A tree is the tuple of its leaves' heap indices, left to right.
There are 1, 2, 5, 26, 677, 458,330, … of them for depths 0, 1, 2, 3, 4, 5: stop at 4.

>>> list(trees(2))
[(0,), (1, 2), (1, 5, 6), (3, 4, 2), (3, 4, 5, 6)]
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

from torch import Tensor

from torch_ctree.trees.topology import brackets

Tree = tuple[int, ...]


def trees(depth: int, vertex: int = 0) -> Iterator[Tree]:
    """Every full binary tree below a vertex with ``depth`` levels under it: a leaf, or a left and a right tree."""
    yield (vertex,)
    if depth > 0:
        for left in trees(depth - 1, 2 * vertex + 1):
            for right in trees(depth - 1, 2 * vertex + 2):
                yield left + right


@cache
def count(depth: int, leaves: int) -> int:
    """The number of trees with so many leaves within a depth: c_D(1) = 1, c_D(n) = Σ_k c_{D−1}(k) · c_{D−1}(n − k).

    Where leaves ≤ depth + 1 the depth does not bind, and this is the Catalan number C(leaves − 1).
    """
    if leaves == 1:
        return 1
    if depth == 0:
        return 0
    return sum(count(depth - 1, k) * count(depth - 1, leaves - k) for k in range(1, leaves))


def log_prior(leaf_logits: Tensor, tree: Tree) -> float:
    """log p(T) by the recursion π (Eq. 3): leaf_logits (V,)."""
    first_deepest = len(leaf_logits) // 2

    def pi(vertex: int) -> float:
        leaf = 1.0 if vertex >= first_deepest else _sigmoid(leaf_logits[vertex].item())
        if vertex in tree:
            return leaf
        return (1 - leaf) * pi(2 * vertex + 1) * pi(2 * vertex + 2)

    return _log(pi(0))


def log_joint(log_weights: Tensor, tree: Tree) -> float:
    """Σ_n log_weights[n, n-th leaf]: log_weights (N, V), a tree with N leaves."""
    return math.fsum(log_weights[n, vertex].item() for n, vertex in enumerate(tree))


def fitting(depth: int, leaves: int) -> list[Tree]:
    """The trees with so many leaves."""
    return [tree for tree in trees(depth) if len(tree) == leaves]


def log_likelihood(log_weights: Tensor) -> float:
    """log Σ_T exp(log_joint): log_weights (N, V), one sentence."""
    N, V = log_weights.shape
    return _logsumexp([log_joint(log_weights, tree) for tree in fitting(V.bit_length() - 1, N)])


def posterior(log_weights: Tensor) -> dict[Tree, float]:
    """p(T | sentence) of every tree that fits: log_weights (N, V). Empty where the sentence is impossible."""
    N, V = log_weights.shape
    total = log_likelihood(log_weights)
    if total == -math.inf:
        return {}
    return {tree: math.exp(log_joint(log_weights, tree) - total) for tree in fitting(V.bit_length() - 1, N)}


def marginals(log_weights: Tensor) -> Tensor:
    """(N, V): the posterior probability that vertex v emits token n: log_weights (N, V)."""
    result = log_weights.new_zeros(log_weights.shape)
    for tree, probability in posterior(log_weights).items():
        for n, vertex in enumerate(tree):
            result[n, vertex] += probability
    return result


def constituents(tree: Tree) -> set[tuple[int, int]]:
    """The first and the last token of what each vertex has below it.

    >>> sorted(constituents((3, 4, 2)))
    [(0, 0), (0, 1), (0, 2), (1, 1), (2, 2)]
    """

    def below(part: list | int) -> list[int]:
        leaves = [leaf for half in part for leaf in below(half)] if isinstance(part, list) else [part]
        found.add((leaves[0], leaves[-1]))
        return leaves

    found: set[tuple[int, int]] = set()
    below(brackets(tree))
    return found


def span_marginals(log_weights: Tensor) -> Tensor:
    """(N, N): the posterior probability that tokens i … j are a constituent: log_weights (N, V)."""
    result = log_weights.new_zeros(len(log_weights), len(log_weights))
    for tree, probability in posterior(log_weights).items():
        for first, last in constituents(tree):
            result[first, last] += probability
    return result


def best_derivations(leaf_scores: Tensor, k: int) -> list[tuple[float, Tree, tuple[int, ...]]]:
    """The k best (log-probability, tree, tokens): leaf_scores (V, K), log m(v) + log p(x | v)."""
    depth = leaf_scores.shape[0].bit_length() - 1
    everything = [
        (math.fsum(leaf_scores[v, x].item() for v, x in zip(tree, tokens, strict=True)), tree, tokens)
        for tree in trees(depth)
        for tokens in _sentences(leaf_scores.shape[1], len(tree))
    ]
    return sorted(everything, reverse=True)[:k]


def _sentences(vocabulary: int, length: int) -> Iterator[tuple[int, ...]]:
    if length == 0:
        yield ()
        return
    for token in range(vocabulary):
        for rest in _sentences(vocabulary, length - 1):
            yield (token, *rest)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _logsumexp(values: list[float]) -> float:
    high = max(values, default=-math.inf)
    return high if high == -math.inf else high + math.log(math.fsum(math.exp(value - high) for value in values))
