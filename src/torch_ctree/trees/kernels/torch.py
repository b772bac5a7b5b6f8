"""The interval recursion in plain tensor operations: any device, and differentiable as often as wanted."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_ctree.trees.topology import past_end, topology_of


def forward(log_weights: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log_weights (B, N, V), lengths (B,) → completions (B, N), alphas (B, N + 1, L + 1). See the package."""
    memory = alphas(log_weights, lengths)
    return memory[:, 1:, -1], memory


def backward(log_weights: Tensor, lengths: Tensor, memory: Tensor, grad: Tensor) -> Tensor:
    """→ (B, N, V): the posterior probability that vertex v emits token n, times grad. See the package's docstring."""
    return marginals(log_conditionals(log_weights, lengths, memory), grad)


def alphas(log_weights: Tensor, lengths: Tensor, maximise: bool = False) -> Tensor:
    """log_weights (B, N, V), lengths (B,) → alphas (B, N + 1, L + 1). See the package's docstring."""
    tree = topology_of(log_weights)
    tensors = tree.on(log_weights.device)
    reduce = segment_max if maximise else segment_logsumexp
    log_weights = _masked(log_weights, lengths)

    alpha = log_weights.new_full((log_weights.shape[0], tree.positions + 1), -math.inf)
    alpha[:, 0] = 0
    rows = [alpha]
    for weights in log_weights.unbind(1):
        alpha = reduce(alpha[:, tensors.starts] + weights, tensors.ends, tree.positions + 1)
        rows.append(alpha)
    return torch.stack(rows, dim=1)


def log_conditionals(log_weights: Tensor, lengths: Tensor, alphas: Tensor) -> Tensor:
    """→ log q_n(v), (B, N, V): how probably leaf n is v, given the first n tokens and that leaf n ends where v ends."""
    tree = topology_of(log_weights)
    tensors = tree.on(log_weights.device)
    terms = alphas[:, :-1, tensors.starts] + _masked(log_weights, lengths)
    return segment_log_softmax(terms.flatten(0, 1), tensors.ends, tree.positions + 1).view_as(terms)


def marginals(log_conditionals: Tensor, grad: Tensor) -> Tensor:
    """The posterior, unrolled from the last token to the first: log q (B, N, V), grad (B, N) → μ · grad (B, N, V).

    With γ_n[p] the probability that leaf n ends at p, μ_n(v) = γ_n[end(v)] · q_n(v), and γ_{n−1}[p] is the sum of
    μ_n(v) over v with start(v) = p. Unlike α·w·β / Z, this never subtracts two large logarithms: marginals sum to one
    however extreme the weights.
    """
    tree = topology_of(log_conditionals)
    tensors = tree.on(grad.device)
    whole = torch.arange(tree.positions + 1, device=grad.device) == tree.positions
    gammas = grad[..., None] * whole  # (B, N, L + 1): where each γ_n begins
    q = log_conditionals.exp()
    rows = []
    later = torch.zeros_like(gammas[:, 0])
    for n in reversed(range(grad.shape[1])):
        row = (gammas[:, n] + later)[:, tensors.ends] * q[:, n]
        rows.append(row)
        later = torch.zeros_like(later).index_add(1, tensors.starts, row)
    return torch.stack(rows[::-1], dim=1)


def _masked(log_weights: Tensor, lengths: Tensor) -> Tensor:
    """−inf past each sentence's end."""
    return log_weights.masked_fill(past_end(lengths, log_weights.shape[1])[..., None], -math.inf)


def segment_max(values: Tensor, segments: Tensor, size: int) -> Tensor:
    """values (B, S), segments (S,) in 0 … size − 1 → (B, size): each segment's maximum, −inf where it is empty."""
    empty = values.new_full((values.shape[0], size), -math.inf)
    return empty.scatter_reduce(1, segments.expand_as(values), values, "amax")


def segment_logsumexp(values: Tensor, segments: Tensor, size: int) -> Tensor:
    """values (B, S), segments (S,) in 0 … size − 1 → (B, size): −inf, with a zero gradient, where all is −inf."""
    high, _, log_total = _shifted(values, segments, size)
    return high + log_total


def segment_log_softmax(values: Tensor, segments: Tensor, size: int) -> Tensor:
    """values (B, S), segments (S,) in 0 … size − 1 → (B, S), normalised in each segment; −inf where all is −inf."""
    _, shifted, log_total = _shifted(values, segments, size)
    return shifted - log_total[:, segments]


def _shifted(values: Tensor, segments: Tensor, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """→ each segment's maximum (B, size), the values less that (B, S), the log of the sum of their exp (B, size).

    Where all is −inf the maximum is −inf, the values too, and the log-sum some finite number without a gradient: an
    actual sum is never below one.
    """
    high = segment_max(values.detach(), segments, size)
    shifted = values - high.clamp_min(torch.finfo(high.dtype).min)[:, segments]
    total = torch.zeros_like(high).index_add(1, segments, shifted.exp())
    return high, shifted, total.clamp_min(0.5).log()


def in_accumulation_dtype(values: Tensor) -> Tensor:
    """float16 and bfloat16 as float32; float32 and float64 as they are."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(…, K) → (…, k) twice: the k largest and their places. ``torch.topk`` sorts where k = 1 needs not."""
    return values.max(-1, keepdim=True) if k == 1 else values.topk(k, dim=-1)
