"""The interval recursion in plain tensor operations: any device, and differentiable as often as wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from torch_ctree.trees.topology import Topology, topology


def forward(log_weights: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log_weights (B, N, V), lengths (B,) → completions (B, N), alphas (B, N + 1, L + 1). See the package."""
    memory = alphas(log_weights, lengths)
    return memory[:, 1:, -1], memory


def backward(log_weights: Tensor, lengths: Tensor, memory: Tensor, grad: Tensor) -> Tensor:
    """→ (B, N, V): the posterior probability that vertex v emits token n, times grad. See the package's docstring."""
    rows = [marginals for marginals, _ in backward_steps(log_weights, lengths, memory, grad)]
    return torch.stack(rows[::-1], dim=1)


def alphas(log_weights: Tensor, lengths: Tensor, maximise: bool = False) -> Tensor:
    """log_weights (B, N, V), lengths (B,) → alphas (B, N + 1, L + 1). See the package's docstring."""
    tree = _tree(log_weights)
    ends = tree.on(log_weights.device).ends
    reduce = segment_max if maximise else segment_logsumexp

    first = log_weights.new_full((log_weights.shape[0], tree.positions + 1), -math.inf)
    first[:, 0] = 0
    rows = [first]
    for n in range(log_weights.shape[1]):
        rows.append(reduce(_extend(log_weights, lengths, rows[n], n), ends, tree.positions + 1))
    return torch.stack(rows, dim=1)


def backward_steps(
    log_weights: Tensor, lengths: Tensor, alphas: Tensor, grad: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """The posterior, unrolled from the last token to the first.

    Yields for n = N … 1 the marginals μ_n(v) (B, V), times grad, and log q_n(v) (B, V), where q_n(v) is the probability
    that leaf n is v given that leaf n ends where v ends. With γ_n[p] the probability that leaf n ends at p,
    μ_n(v) = γ_n[end(v)] · q_n(v) and γ_{n−1}[p] = Σ over v with start(v) = p of μ_n(v). Unlike α·w·β / Z, this never
    subtracts two large logarithms, so marginals sum to one however extreme the weights.
    """
    tree = _tree(log_weights)
    starts, ends = tree.on(log_weights.device).starts, tree.on(log_weights.device).ends
    size = tree.positions + 1
    whole = torch.nn.functional.one_hot(ends.new_tensor(tree.positions), size)  # (L + 1,)
    gamma = log_weights.new_zeros(log_weights.shape[0], size)
    for n in reversed(range(log_weights.shape[1])):
        gamma = gamma + grad[:, n, None] * whole
        log_q = segment_log_softmax(_extend(log_weights, lengths, alphas[:, n], n), ends, size)
        marginals = gamma[:, ends] * log_q.exp()
        yield marginals, log_q
        gamma = torch.zeros_like(gamma).index_add(1, starts, marginals)


def _tree(log_weights: Tensor) -> Topology:
    return topology(log_weights.shape[-1].bit_length() - 1)


def _extend(log_weights: Tensor, lengths: Tensor, alpha: Tensor, n: int) -> Tensor:
    """The score of every vertex as leaf n + 1: alpha (B, L + 1) → (B, V), −inf for sentences that have ended."""
    row = log_weights[:, n].masked_fill(n >= lengths[:, None], -math.inf)
    return alpha[:, _tree(log_weights).on(log_weights.device).starts] + row


def segment_max(values: Tensor, segments: Tensor, size: int) -> Tensor:
    """values (B, S), segments (S,) in 0 … size − 1 → (B, size): each segment's maximum, −inf where it is empty."""
    empty = values.new_full((values.shape[0], size), -math.inf)
    return empty.scatter_reduce(1, segments.expand_as(values), values, "amax")


def segment_logsumexp(values: Tensor, segments: Tensor, size: int) -> Tensor:
    """values (B, S), segments (S,) in 0 … size − 1 → (B, size): −inf, with a zero gradient, where all is −inf."""
    shift, total = _shifted_sums(values, segments, size)
    positive = total > 0
    return torch.where(positive, torch.where(positive, total, 1).log() + shift, -math.inf)


def segment_log_softmax(values: Tensor, segments: Tensor, size: int) -> Tensor:
    """values (B, S), segments (S,) in 0 … size − 1 → (B, S), normalised in each segment; −inf where all is −inf."""
    shift, total = _shifted_sums(values, segments, size)
    return (values - shift[:, segments]) - torch.where(total > 0, total, 1).log()[:, segments]


def _shifted_sums(values: Tensor, segments: Tensor, size: int) -> tuple[Tensor, Tensor]:
    shift = segment_max(values.detach(), segments, size)
    shift = shift.masked_fill(shift == -math.inf, 0)
    total = torch.zeros_like(shift).index_add(1, segments, (values - shift[:, segments]).exp())
    return shift, total


def topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(…, K) → (…, k) twice: the k largest and their places. ``torch.topk`` sorts where k = 1 needs not."""
    return values.max(-1, keepdim=True) if k == 1 else values.topk(k, dim=-1)
