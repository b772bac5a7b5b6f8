"""The charts of a grammar: sums over all trees and states of given tokens, their derivatives, and maxima.

β, L and R are those of ``grammar``; ``cells`` says how they are stored. On GPUs the sums and their derivatives are
Triton's work (``kernels.grammar``), where that can run; all else is torch's.

The numbers are probabilities, not logarithms, so that sums over states are matrix products. Each cell has its own power
of two, chosen such that its most probable state is near the top of the floating-point range: exact, whatever the
length. Two things are limited: a state that is less probable in a cell than the best one by more than about e^125
(e^1000 in float64) counts as impossible there, and so does a transition or a split of probability below e^-87 (e^-708).
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor

from torch_ctree.devices import in_kernels
from torch_ctree.trees.cells import (
    Chart,
    Outside,
    Transitions,
    as_parts,
    cells_of,
    exponential,
    first_cell,
    logarithm,
    parts_of,
    scaled,
    value_at_root,
)
from torch_ctree.trees.compiling import outside_graphs

MOST_OPERATORS = 64
"""That Triton kernels are for: their matrices of operators are kept in fast memory."""

LARGEST = 1 << 26
"""Elements of the tensors that maxima over states go through."""


def _kernels(numbers: Tensor, transitions: Transitions) -> ModuleType | None:
    """Those of Triton, where they do the work: they are for float32, and for more than one operator."""
    if numbers.dtype != torch.float32 or not 1 < transitions.operators <= MOST_OPERATORS or not in_kernels(numbers):
        return None
    from torch_ctree.trees.kernels import grammar  # noqa: PLC0415  (imports Triton)

    return grammar


def _split_weights(chart: Chart, width: int) -> tuple[Tensor, Tensor]:
    """How split points compare: weights (B, spans, width − 1), 1 at most, and their scale (B, spans)."""
    left, right = parts_of(chart.left_scale, chart.right_scale, width)
    terms = left + right
    scale = terms.amax(-1).clamp_min(torch.finfo(terms.dtype).min)  # a finite number where nothing is possible
    return torch.exp2(terms - scale[..., None]), scale


def inside(leaves: Tensor, log_split: Tensor, left: Transitions, right: Transitions) -> Chart:
    """leaves (B, N, Q): log leaf(s) + log emit(s, x_i); log_split (B, Q); left, right: probabilities."""
    if kernels := _kernels(leaves, left):
        return kernels.inside(leaves, log_split, left, right)
    B, N, Q = leaves.shape
    C = N * (N + 1) // 2
    parts, scales = (B, N, N - 1, Q), (B, N, N - 1)
    sizes = ((B, C, Q), (B, C), parts, parts, scales, scales)
    chart = Chart(*(leaves.new_empty(size) for size in sizes))
    split = log_split.exp()[:, None]
    for width in range(1, N + 1):
        if width == 1:
            value, scale = exponential(leaves)
        else:
            weight, scale = _split_weights(chart, width)
            lefts, rights = parts_of(chart.left, chart.right, width)
            value = (weight[..., None] * lefts).mul_(rights).sum(2) * split  # (B, spans, Q)
        value, scale = scaled(value, scale)
        chart.beta[:, cells_of(N, width)], chart.scale[:, cells_of(N, width)] = value, scale
        if width < N:
            as_left, as_right = as_parts(chart.left, chart.right, width)
            arrived = left.arrived(value)
            as_left[:], as_right[:] = left.up(value, arrived), right.up(value, arrived)
            for part in as_parts(chart.left_scale, chart.right_scale, width):
                part[:] = scale
    return chart


def evidence(chart: Chart, choice: Tensor, root: Tensor, lengths: Tensor) -> Tensor:
    """log p(x), (B,): choice (B, P, O), probabilities; root, lengths (B,)."""
    scale = chart.scale.gather(1, first_cell(chart.left.shape[1], lengths)[:, None])[:, 0]
    return logarithm(value_at_root(chart, choice, root, lengths), scale)


def outside(
    chart: Chart,
    log_split: Tensor,
    left: Transitions,
    right: Transitions,
    root: Tensor,
    lengths: Tensor,
    grad: Tensor,
) -> Outside:
    """Derivatives of Σ_b grad[b] · log p(x_b): root, lengths, grad (B,). What is impossible has derivative 0.

    The products of a width are made again here: kept, they would take N times the memory of the chart.
    """
    if kernels := _kernels(chart.beta, left):
        return kernels.outside(chart, log_split, left, right, root, lengths, grad)
    B, N = chart.left.shape[:2]
    split = log_split.exp()[:, None]
    of_left, of_right = torch.zeros_like(chart.left), torch.zeros_like(chart.right)
    lefts, rights = (torch.empty_like(chart.beta[:, :-1]) for _ in range(2))
    splits, choice, spans = torch.zeros_like(log_split), torch.zeros_like(left.choice), chart.beta.new_zeros(B, N, N)
    at_root = value_at_root(chart, left.choice, root, lengths)
    at_root = torch.where(at_root > 0, grad / at_root, 0)
    seed = torch.where(torch.arange(left.places, device=root.device) == root[:, None], at_root[:, None], 0)  # (B, P)
    posterior, largest = chart.beta[:, :0], torch.finfo(grad.dtype).max
    for width in reversed(range(1, N + 1)):
        cells = cells_of(N, width)
        beta = chart.beta[:, cells]  # (B, spans, Q)
        arrived = left.arrived(beta)  # (B, spans, P)
        of_places, of_stays = torch.zeros_like(arrived), left.kept(beta) * 0
        if width < N:
            pairs = zip(as_parts(of_left, of_right, width), as_parts(chart.left, chart.right, width), strict=True)
            lefts[:, cells], rights[:, cells] = (_bounded(gradient, value, grad) for gradient, value in pairs)
            pairs = zip(left.down(lefts[:, cells]), right.down(rights[:, cells]), strict=True)
            of_places, of_stays = (one + other for one, other in pairs)
        of_places[:, 0] += torch.where(lengths[:, None] == width, seed, 0)
        of_places = _bounded(of_places, arrived, grad)
        of_going = of_places[..., None] * left.choice[:, None]  # (B, spans, P, O)
        choice += (of_going * left.by_place(beta)).sum(1)
        of_going[..., left.arriving :] += of_stays
        of_beta = _bounded(of_going.flatten(2), beta, grad)
        posterior = of_beta * beta
        spans.diagonal(width - 1, 1, 2).copy_(posterior.sum(-1))
        if width > 1:
            splits += posterior.sum(1)
            weight, scale = _split_weights(chart, width)
            shift = (scale - chart.scale[:, cells]).masked_fill(chart.scale[:, cells] == -math.inf, 0)
            half = torch.exp2(shift / 2)[..., None] * split.sqrt()
            of_sum = (of_beta * half * half).clamp_(-largest, largest)  # halves, so that nothing between overflows
            of_product = weight[..., None] * of_sum[:, :, None]  # (B, spans, width − 1, Q)
            (to_left, to_right), (at_left, at_right) = (
                parts_of(of_left, of_right, width),
                parts_of(chart.left, chart.right, width),
            )
            to_left.addcmul_(of_product, at_right)
            to_right.addcmul_(of_product, at_left)
    return Outside(posterior, splits, choice, lefts, rights, spans)


def _bounded(gradient: Tensor, value: Tensor, grad: Tensor) -> Tensor:
    """Derivatives by scaled probabilities (B, spans, Q), 0 where these are 0. Sentences' derivatives grad (B,).

    Derivative times value is a posterior probability times grad: whatever has under- or overflown, it is no more.
    """
    limit = (grad.abs()[:, None, None] / value).clamp_max_(torch.finfo(grad.dtype).max)
    return torch.where(value > 0, gradient.clamp(-limit, limit), 0)


def by_logits(result: Outside, beta: Tensor, left: Transitions, right: Transitions, grad: Tensor) -> list[Tensor]:
    """By the logits of left and of right transitions, (B, Q, W) each; beta of the chart. It may use up the result."""
    if kernels := _kernels(beta, left):
        return kernels.by_logits(result, beta, left, right, grad)
    parts = (result.left, left), (result.right, right)
    return [_of_logits(part, beta[:, :-1], transitions, grad) for part, transitions in parts]


def _of_logits(of_part: Tensor, beta: Tensor, transitions: Transitions, grad: Tensor) -> Tensor:
    """By the logits of transitions, (B, Q, W), from the derivatives of L or R and β, (B, C − 1, Q) each; grad (B,)."""
    small = 2**-24 * of_part  # so that the inverse of the least probability is finite
    product, taken = transitions.pairs(small, beta, transitions.arrived(beta)), transitions.values
    counts = torch.where(taken > 0, product, 0).mul_(2**24 * taken)  # how often each is taken, expected
    most = grad.abs()[:, None, None] * beta.shape[1]
    return _of_softmax(counts.clamp(-most, most), taken)


def _of_softmax(of_logarithms: Tensor, probabilities: Tensor) -> Tensor:
    """By logits, from the derivatives of the logarithms of probabilities: (…, n) each → (…, n)."""
    return of_logarithms - probabilities * of_logarithms.sum(-1, keepdim=True)


class _Inside(torch.autograd.Function):
    """log p(x) with its hand-written derivative.

    By the logits of transitions, not by their probabilities: the latter is as large as a probability is small.
    """

    @staticmethod
    def forward(
        ctx: Any,
        leaves: Tensor,
        log_split: Tensor,
        left_logits: Tensor,
        right_logits: Tensor,
        operator_logits: Tensor,
        root: Tensor,
        lengths: Tensor,
    ) -> Tensor:
        with torch.autocast(leaves.device.type, enabled=False):
            left, right, choice = (x.softmax(-1) for x in (left_logits, right_logits, operator_logits))
            chart = inside(leaves, log_split, Transitions(left, choice), Transitions(right, choice))
            ctx.save_for_backward(log_split, left, right, choice, root, lengths, *chart)
            return evidence(chart, choice, root, lengths)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # torch's own once_differentiable says nothing where only the logits want a graph
            raise RuntimeError("log_prob: got create_graph=True; expected a first derivative, the only one there is")
        log_split, *sides, choice, root, lengths = ctx.saved_tensors[:6]
        chart = Chart(*ctx.saved_tensors[6:])
        left, right = (Transitions(side, choice) for side in sides)
        with torch.autocast(grad.device.type, enabled=False):
            result = outside(chart, log_split, left, right, root, lengths, grad)
            of_left, of_right = by_logits(result, chart.beta, left, right, grad)
            of_choice = _of_softmax(result.choice, choice)
        return result.leaves, result.splits, of_left, of_right, of_choice, None, None


@outside_graphs
def inside_log_prob(
    leaves: Tensor, log_split: Tensor, left: Transitions, right: Transitions, root: Tensor, lengths: Tensor
) -> Tensor:
    """log p(x), (B,), differentiable once, by the first four arguments.

    leaves (B, N, Q): log leaf(s) + log emit(s, x_i); log_split (B, Q); left, right: logits; root: places (B,); lengths
    (B,)
    """
    found = _Inside.apply(leaves, log_split, left.values, right.values, left.choice, root, lengths)
    return cast(Tensor, found)


# --- maxima -----------------------------------------------------------------------------------------------------------


def best_children(transitions: Transitions, values: Tensor) -> Tensor:
    """Of states, (B, n, Q), the best child's value as each parent's state sees it, (B, n, Q); in small pieces."""
    step = max(1, LARGEST // max(1, transitions.values.numel()))
    rows = [transitions.best_child(some)[0] for some in values.split(step, dim=1)]
    return torch.cat(rows, dim=1) if rows else values


def best_chart(
    leaves: Tensor, log_split: Tensor, log_left: Transitions, log_right: Transitions
) -> tuple[Tensor, Tensor, Tensor]:
    """The inside algorithm with maxima, in logarithms → values (B, C, Q); of left and right parts, as in ``Chart``."""
    B, N, Q = leaves.shape
    values = leaves.new_empty(B, N * (N + 1) // 2, Q)
    left, right = (leaves.new_empty(B, N, N - 1, Q) for _ in range(2))
    for width in range(1, N + 1):
        if width == 1:
            value = leaves
        else:
            lefts, rights = parts_of(left, right, width)
            value = (lefts + rights).amax(2) + log_split[:, None]
        values[:, cells_of(N, width)] = value
        if width < N:
            as_left, as_right = as_parts(left, right, width)
            as_left[:], as_right[:] = best_children(log_left, value), best_children(log_right, value)
    return values, left, right
