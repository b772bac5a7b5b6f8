"""The charts of a grammar: sums over all trees and states of given tokens, their derivatives, and maxima.

β, L and R are those of ``grammar``. The cells (start, width) are stored one width after another, C = N(N + 1)/2 of
them. L is stored as [start, width − 1] and R as [end − 1, N − 1 − width], so that the two parts of all spans of a
width, at all split points, are plain slices that run in the same direction (``_parts``).

The numbers are probabilities, not logarithms, so that sums over states are matrix products. Each cell has its own power
of two, chosen such that its most probable state is near the top of the floating-point range: exact, whatever the
length. Two things are limited: a state that is less probable in a cell than the best one by more than about e^125
(e^1000 in float64) counts as impossible there, and so does a transition or a split of probability below e^-87 (e^-708).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from torch_ctree.trees.compiling import outside_graphs

LN2 = math.log(2)

TOP = {torch.float32: 56, torch.float64: 480}
"""Binary logarithm of what a cell's best state is scaled to: N products of two such numbers must not overflow."""

LARGEST = 1 << 26
"""Elements of the tensors that maxima over states go through."""

Whole = TypeVar("Whole", int, Tensor)


class Chart(NamedTuple):
    """The inside probabilities of a batch, cell by cell as 2^scale · beta."""

    beta: Tensor  # (B, C, Q)
    scale: Tensor  # (B, C), whole numbers; −inf where no state is possible
    left: Tensor  # (B, N, N − 1, Q) [start, width − 1]: L, scaled like beta
    right: Tensor  # (B, N, N − 1, Q) [end − 1, N − 1 − width]: R
    left_scale: Tensor  # (B, N, N − 1)
    right_scale: Tensor  # (B, N, N − 1)


class Transitions(NamedTuple):
    """From the states of vertices to those of their left children, or of their right ones.

    A state is a place and one of O operators, Q = P · O. A child is at any place with operator 0, or at its parent's
    with any other: those are the W = P + O − 1 columns. With one operator that is any state.
    """

    values: Tensor  # (B, Q, W)
    operators: int  # O

    @property
    def places(self) -> int:
        """P"""
        return self.values.shape[1] // self.operators

    def children(self) -> Tensor:
        """(Q, W): the states of the columns."""
        state = torch.arange(self.values.shape[1], device=self.values.device)[:, None]
        places = torch.arange(self.places, device=state.device).expand(len(state), -1)
        own = state - state % self.operators + torch.arange(1, self.operators, device=state.device)
        return torch.cat([places * self.operators, own], dim=-1)

    def of(self, sentence: Tensor, state: Tensor, child: Tensor) -> Tensor:
        """(F,) each, and the child can be one → (F,)."""
        place, operator = child // self.operators, child % self.operators
        column = torch.where(operator == 0, place, self.places - 1 + operator)
        return self.values[sentence, state, column]

    def best(self, sentence: Tensor, state: Tensor, values: Tensor) -> Tensor:
        """Sentences and states (F,), in logarithms, with children's values (F, Q) → the best child's state, (F,)."""
        children = self.children()[state]  # (F, W)
        column = (self.values[sentence, state] + values.gather(1, children)).argmax(-1, keepdim=True)
        return children.gather(1, column)[:, 0]

    def up(self, beta: Tensor) -> Tensor:
        """Of children's states, (B, n, Q), the mean as their parents' states see it: (B, n, Q)."""
        by_place = beta.unflatten(-1, (-1, self.operators))
        seen = by_place[..., 0] @ self._anywhere.mT
        if self.operators > 1:
            seen += torch.einsum("bnpk,bpok->bnpo", by_place[..., 1:], self._at_home).flatten(2)
        return seen

    def down(self, gradient: Tensor) -> Tensor:
        """The derivative of ``up``: by what parents see, (B, n, Q), that by children's states, (B, n, Q)."""
        anywhere = gradient @ self._anywhere
        if self.operators == 1:
            return anywhere
        at_home = torch.einsum("bnpo,bpok->bnpk", gradient.unflatten(-1, (-1, self.operators)), self._at_home)
        return torch.cat([anywhere[..., None], at_home], dim=-1).flatten(2)

    def pairs(self, parents: Tensor, children: Tensor) -> Tensor:
        """Σ_n parents[n, s] · children[n, t] for the columns t of every state s: (B, n, Q) each → (B, Q, W)."""
        up, down = (x.unflatten(-1, (-1, self.operators)) for x in (parents, children))
        anywhere = parents.mT @ down[..., 0]
        if self.operators == 1:
            return anywhere
        return torch.cat([anywhere, torch.einsum("bnpo,bnpk->bpok", up, down[..., 1:]).flatten(1, 2)], dim=-1)

    @property
    def _anywhere(self) -> Tensor:
        """(B, Q, P)"""
        return self.values[..., : self.places]

    @property
    def _at_home(self) -> Tensor:
        """(B, P, O, O − 1)"""
        return self.values[..., self.places :].unflatten(1, (-1, self.operators))


class Outside(NamedTuple):
    """The derivatives of the log-probability, from the widest cell to the narrowest."""

    leaves: Tensor  # (B, N, Q): of the logarithm of leaf(s) · emit(s, x_i)
    splits: Tensor  # (B, Q): of log split(s)
    left: Tensor  # (B, C − 1, Q): of L, cell by cell; the widest is nobody's child
    right: Tensor  # (B, C − 1, Q): of R
    spans: Tensor  # (B, N, N) [start, end − 1]: posterior probabilities


def first_cell(tokens: int, width: Whole) -> Whole:
    """The number of the cell (0, width)."""
    return (width - 1) * (2 * tokens - width + 2) // 2


def _cells(tokens: int, width: int) -> slice:
    """The cells of a width, by start."""
    return slice(first_cell(tokens, width), first_cell(tokens, width + 1))


def _parts(left: Tensor, right: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """(B, N, N − 1, …) each → (B, spans, width − 1, …) each: left and right parts of all spans, at all split points."""
    N = left.shape[1]
    return left[:, : N - width + 1, : width - 1], right[:, width - 1 :, N - width :]


def _part(left: Tensor, right: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """(B, N, N − 1, …) each → (B, spans, …) each: all spans of a width as left and as right parts of wider ones."""
    N = left.shape[1]
    return left[:, : N - width + 1, width - 1], right[:, width - 1 :, N - 1 - width]


def _split_weights(chart: Chart, width: int) -> tuple[Tensor, Tensor]:
    """How split points compare: weights (B, spans, width − 1), 1 at most, and their scale (B, spans)."""
    left, right = _parts(chart.left_scale, chart.right_scale, width)
    terms = left + right
    scale = terms.amax(-1).clamp_min(torch.finfo(terms.dtype).min)  # a finite number where nothing is possible
    return torch.exp2(terms - scale[..., None]), scale


def _scaled(value: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """2^scale · value (B, spans, Q), the same with the largest value at the top."""
    top = TOP[value.dtype]
    largest = value.amax(-1)
    shift = (top - torch.frexp(largest).exponent).clamp_max(2 * top).to(value.dtype)
    return value * torch.exp2(shift)[..., None], (scale - shift).masked_fill(largest == 0, -math.inf)


def inside(leaves: Tensor, log_split: Tensor, left: Transitions, right: Transitions) -> Chart:
    """leaves (B, N, Q): log leaf(s) + log emit(s, x_i); log_split (B, Q); left, right: probabilities."""
    B, N, Q = leaves.shape
    C = N * (N + 1) // 2
    parts, scales = (B, N, N - 1, Q), (B, N, N - 1)
    sizes = ((B, C, Q), (B, C), parts, parts, scales, scales)
    chart = Chart(*(leaves.new_empty(size) for size in sizes))
    split = log_split.exp()[:, None]
    for width in range(1, N + 1):
        if width == 1:
            scale = (leaves.amax(-1) / LN2).floor().clamp_min(torch.finfo(leaves.dtype).min)
            value = torch.exp(leaves - LN2 * scale[..., None])
        else:
            weight, scale = _split_weights(chart, width)
            lefts, rights = _parts(chart.left, chart.right, width)
            value = (weight[..., None] * lefts).mul_(rights).sum(2) * split  # (B, spans, Q)
        value, scale = _scaled(value, scale)
        chart.beta[:, _cells(N, width)], chart.scale[:, _cells(N, width)] = value, scale
        if width < N:
            as_left, as_right = _part(chart.left, chart.right, width)
            as_left[:], as_right[:] = left.up(value), right.up(value)
            for part in _part(chart.left_scale, chart.right_scale, width):
                part[:] = scale
    return chart


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
    B, N = chart.left.shape[:2]
    Q = log_split.shape[-1]
    split = log_split.exp()[:, None]
    of_left, of_right = torch.zeros_like(chart.left), torch.zeros_like(chart.right)
    lefts, rights = (torch.empty_like(chart.beta[:, :-1]) for _ in range(2))
    splits, spans = torch.zeros_like(log_split), chart.beta.new_zeros(B, N, N)
    at_root = _value_at_root(chart, root, lengths)
    at_root = torch.where(at_root > 0, grad / at_root, 0)
    seed = torch.where(torch.arange(Q, device=root.device) == root[:, None], at_root[:, None], 0)  # (B, Q)
    posterior, largest = seed[:, None], torch.finfo(grad.dtype).max
    for width in reversed(range(1, N + 1)):
        cells = _cells(N, width)
        beta = chart.beta[:, cells]  # (B, spans, Q)
        of_beta = torch.zeros_like(beta)
        if width < N:
            pairs = zip(_part(of_left, of_right, width), _part(chart.left, chart.right, width), strict=True)
            lefts[:, cells], rights[:, cells] = (_bounded(gradient, value, grad) for gradient, value in pairs)
            of_beta = left.down(lefts[:, cells]) + right.down(rights[:, cells])
        of_beta[:, 0] += torch.where(lengths[:, None] == width, seed, 0)
        of_beta = _bounded(of_beta, beta, grad)
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
                _parts(of_left, of_right, width),
                _parts(chart.left, chart.right, width),
            )
            to_left.addcmul_(of_product, at_right)
            to_right.addcmul_(of_product, at_left)
    return Outside(posterior, splits, lefts, rights, spans)


def _value_at_root(chart: Chart, root: Tensor, lengths: Tensor) -> Tensor:
    """(B,): the scaled probability that the root state yields the sentence."""
    sentence = torch.arange(len(root), device=root.device)
    return chart.beta[sentence, first_cell(chart.left.shape[1], lengths), root]


def _bounded(gradient: Tensor, value: Tensor, grad: Tensor) -> Tensor:
    """Derivatives by scaled probabilities (B, spans, Q), 0 where these are 0. Sentences' derivatives grad (B,).

    Derivative times value is a posterior probability times grad: whatever has under- or overflown, it is no more.
    """
    limit = (grad.abs()[:, None, None] / value).clamp_max_(torch.finfo(grad.dtype).max)
    return torch.where(value > 0, gradient.clamp(-limit, limit), 0)


def _of_logits(of_part: Tensor, beta: Tensor, transitions: Transitions, grad: Tensor) -> Tensor:
    """By the logits of transitions, (B, Q, W), from the derivatives of L or R and β, (B, C − 1, Q) each; grad (B,)."""
    product = transitions.pairs(2**-24 * of_part, beta)  # so that the inverse of the least probability is finite
    taken = transitions.values
    counts = torch.where(taken > 0, product, 0).mul_(2**24 * taken)  # how often each is taken, expected
    most = grad.abs()[:, None, None] * beta.shape[1]
    counts = counts.clamp(-most, most)
    return counts - taken * counts.sum(-1, keepdim=True)


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
        operators: int,
        root: Tensor,
        lengths: Tensor,
    ) -> Tensor:
        with torch.autocast(leaves.device.type, enabled=False):
            left, right = left_logits.softmax(-1), right_logits.softmax(-1)
            chart = inside(leaves, log_split, Transitions(left, operators), Transitions(right, operators))
            ctx.operators = operators
            ctx.save_for_backward(log_split, left, right, root, lengths, *chart)
            scale = chart.scale.gather(1, first_cell(leaves.shape[1], lengths)[:, None])[:, 0]
            mantissa, exponent = torch.frexp(_value_at_root(chart, root, lengths))
            return mantissa.log() + LN2 * (scale + exponent)  # the two large numbers are whole: no digits are lost

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # torch's own once_differentiable says nothing where only the logits want a graph
            raise RuntimeError("log_prob: got create_graph=True; expected a first derivative, the only one there is")
        log_split, *sides, root, lengths = ctx.saved_tensors[:5]
        chart = Chart(*ctx.saved_tensors[5:])
        left, right = (Transitions(side, ctx.operators) for side in sides)
        with torch.autocast(grad.device.type, enabled=False):
            result = outside(chart, log_split, left, right, root, lengths, grad)
            of_left, of_right = (
                _of_logits(of_part, chart.beta[:, :-1], transitions, grad)
                for of_part, transitions in ((result.left, left), (result.right, right))
            )
        return result.leaves, result.splits, of_left, of_right, None, None, None


@outside_graphs
def inside_log_prob(
    leaves: Tensor, log_split: Tensor, left: Transitions, right: Transitions, root: Tensor, lengths: Tensor
) -> Tensor:
    """log p(x), (B,), differentiable once, by the first four arguments.

    leaves (B, N, Q): log leaf(s) + log emit(s, x_i); log_split (B, Q); left, right: logits; root, lengths (B,)
    """
    found = _Inside.apply(leaves, log_split, left.values, right.values, left.operators, root, lengths)
    return cast(Tensor, found)


# --- maxima -----------------------------------------------------------------------------------------------------------


def best_child(transitions: Transitions, values: Tensor) -> Tensor:
    """max over child states t of log p(t | s) + values[b, n, t]: logarithms, (B, n, Q) → (B, n, Q)."""
    step = max(1, LARGEST // max(1, transitions.values.numel()))
    children = transitions.children()
    rows = [(transitions.values[:, None] + some[..., children]).amax(-1) for some in values.split(step, dim=1)]
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
            lefts, rights = _parts(left, right, width)
            value = (lefts + rights).amax(2) + log_split[:, None]
        values[:, _cells(N, width)] = value
        if width < N:
            as_left, as_right = _part(left, right, width)
            as_left[:], as_right[:] = best_child(log_left, value), best_child(log_right, value)
    return values, left, right
