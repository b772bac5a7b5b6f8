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

    A state is a place and one of O operators, Q = P · O. A child goes to a place and there takes an operator by
    ``choice``; or it stays at its parent's with an operator other than 0: those are the W = P + O − 1 columns.
    """

    values: Tensor  # (B, Q, W)
    choice: Tensor  # (B, P, O)

    @property
    def places(self) -> int:
        """P"""
        return self.choice.shape[1]

    @property
    def operators(self) -> int:
        """O"""
        return self.choice.shape[2]

    def by_place(self, states: Tensor) -> Tensor:
        """(…, Q) → (…, P, O)"""
        return states.unflatten(-1, (self.places, self.operators))

    # --- sums: the values are probabilities ---------------------------------------------------------------------------

    def arrived(self, beta: Tensor) -> Tensor:
        """Of states, (B, n, Q), the mean at each place, (B, n, P): the same for left and right."""
        return beta if self.operators == 1 else (self.by_place(beta) * self.choice[:, None]).sum(-1)

    def up(self, beta: Tensor, arrived: Tensor) -> Tensor:
        """Of children's states, (B, n, Q), and of their places, the mean as their parents' states see it: (B, n, Q)."""
        seen = arrived @ self._going.mT
        if self.operators > 1:
            seen += torch.einsum("bnpk,bpok->bnpo", self.by_place(beta)[..., 1:], self._staying).flatten(2)
        return seen

    def down(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives of ``up``: by places, (B, n, P), and by states other than of operator 0, (B, n, P, O − 1)."""
        return gradient @ self._going, torch.einsum("bnpo,bpok->bnpk", self.by_place(gradient), self._staying)

    def pairs(self, parents: Tensor, children: Tensor, arrived: Tensor) -> Tensor:
        """Σ_n parents[n, s] · children[n, t] for the columns t of every state s: (B, n, Q) each → (B, Q, W)."""
        going = parents.mT @ arrived
        if self.operators == 1:
            return going
        staying = torch.einsum("bnpo,bnpk->bpok", self.by_place(parents), self.by_place(children)[..., 1:])
        return torch.cat([going, staying.flatten(1, 2)], dim=-1)

    @property
    def _going(self) -> Tensor:
        """(B, Q, P)"""
        return self.values[..., : self.places]

    @property
    def _staying(self) -> Tensor:
        """(B, P, O, O − 1)"""
        return self.values[..., self.places :].unflatten(1, (self.places, self.operators))

    # --- maxima: the values are logarithms ----------------------------------------------------------------------------

    def best_operator(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Of states, (B, n, Q), the best at each place, and its operator: (B, n, P) each."""
        best, operator = (self.by_place(values) + self.choice[:, None]).max(-1)
        return best, operator

    def best_child(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """max over child states t of log p(t | s) + values[n, t], and that child: (B, n, Q) → (B, n, Q) each."""
        arrived, operator = self.best_operator(values)
        best, place = (self._going[:, None] + arrived[:, :, None]).max(-1)
        child = place * self.operators + operator.gather(2, place)
        if self.operators == 1:
            return best, child
        home = self.by_place(values)[:, :, :, None, 1:]  # (B, n, P, 1, O − 1)
        stay, operator = (x.flatten(2) for x in (self._staying[:, None] + home).max(-1))
        own = torch.arange(values.shape[-1], device=values.device) // self.operators * self.operators
        return torch.maximum(best, stay), torch.where(stay > best, own + 1 + operator, child)

    def of(self, sentence: Tensor, state: Tensor, child: Tensor) -> Tensor:
        """log p(child | state): (F,) each → (F,)."""
        place, operator = child // self.operators, child % self.operators
        going = self.values[sentence, state, place] + self.choice[sentence, place, operator]
        stays = (state // self.operators == place) & (operator > 0)
        column = (self.places - 1 + operator).clamp_max(self.values.shape[-1] - 1)
        return torch.where(stays, self.values[sentence, state, column], going)


class Outside(NamedTuple):
    """The derivatives of the log-probability, from the widest cell to the narrowest."""

    leaves: Tensor  # (B, N, Q): of the logarithm of leaf(s) · emit(s, x_i)
    splits: Tensor  # (B, Q): of log split(s)
    choice: Tensor  # (B, P, O): of the logarithm of the operators' probabilities
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
            arrived = left.arrived(value)
            as_left[:], as_right[:] = left.up(value, arrived), right.up(value, arrived)
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
    split = log_split.exp()[:, None]
    of_left, of_right = torch.zeros_like(chart.left), torch.zeros_like(chart.right)
    lefts, rights = (torch.empty_like(chart.beta[:, :-1]) for _ in range(2))
    splits, choice, spans = torch.zeros_like(log_split), torch.zeros_like(left.choice), chart.beta.new_zeros(B, N, N)
    at_root = _value_at_root(chart, left.choice, root, lengths)
    at_root = torch.where(at_root > 0, grad / at_root, 0)
    seed = torch.where(torch.arange(left.places, device=root.device) == root[:, None], at_root[:, None], 0)  # (B, P)
    posterior, largest = chart.beta[:, :0], torch.finfo(grad.dtype).max
    for width in reversed(range(1, N + 1)):
        cells = _cells(N, width)
        beta = chart.beta[:, cells]  # (B, spans, Q)
        arrived = left.arrived(beta)  # (B, spans, P)
        of_places, of_stays = torch.zeros_like(arrived), left.by_place(beta)[..., 1:] * 0
        if width < N:
            pairs = zip(_part(of_left, of_right, width), _part(chart.left, chart.right, width), strict=True)
            lefts[:, cells], rights[:, cells] = (_bounded(gradient, value, grad) for gradient, value in pairs)
            pairs = zip(left.down(lefts[:, cells]), right.down(rights[:, cells]), strict=True)
            of_places, of_stays = (one + other for one, other in pairs)
        of_places[:, 0] += torch.where(lengths[:, None] == width, seed, 0)
        of_places = _bounded(of_places, arrived, grad)
        of_going = of_places[..., None] * left.choice[:, None]  # (B, spans, P, O)
        choice += (of_going * left.by_place(beta)).sum(1)
        of_going[..., 1:] += of_stays
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
                _parts(of_left, of_right, width),
                _parts(chart.left, chart.right, width),
            )
            to_left.addcmul_(of_product, at_right)
            to_right.addcmul_(of_product, at_left)
    return Outside(posterior, splits, choice, lefts, rights, spans)


def _value_at_root(chart: Chart, choice: Tensor, root: Tensor, lengths: Tensor) -> Tensor:
    """(B,): the scaled probability that the root's place yields the sentence."""
    sentence = torch.arange(len(root), device=root.device)
    beta = chart.beta[sentence, first_cell(chart.left.shape[1], lengths)].unflatten(-1, choice.shape[1:])  # (B, P, O)
    return (beta[sentence, root] * choice[sentence, root]).sum(-1)


def _bounded(gradient: Tensor, value: Tensor, grad: Tensor) -> Tensor:
    """Derivatives by scaled probabilities (B, spans, Q), 0 where these are 0. Sentences' derivatives grad (B,).

    Derivative times value is a posterior probability times grad: whatever has under- or overflown, it is no more.
    """
    limit = (grad.abs()[:, None, None] / value).clamp_max_(torch.finfo(grad.dtype).max)
    return torch.where(value > 0, gradient.clamp(-limit, limit), 0)


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
            scale = chart.scale.gather(1, first_cell(leaves.shape[1], lengths)[:, None])[:, 0]
            mantissa, exponent = torch.frexp(_value_at_root(chart, choice, root, lengths))
            return mantissa.log() + LN2 * (scale + exponent)  # the two large numbers are whole: no digits are lost

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # torch's own once_differentiable says nothing where only the logits want a graph
            raise RuntimeError("log_prob: got create_graph=True; expected a first derivative, the only one there is")
        log_split, *sides, choice, root, lengths = ctx.saved_tensors[:6]
        chart = Chart(*ctx.saved_tensors[6:])
        left, right = (Transitions(side, choice) for side in sides)
        with torch.autocast(grad.device.type, enabled=False):
            result = outside(chart, log_split, left, right, root, lengths, grad)
            of_left, of_right = (
                _of_logits(of_part, chart.beta[:, :-1], transitions, grad)
                for of_part, transitions in ((result.left, left), (result.right, right))
            )
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
            lefts, rights = _parts(left, right, width)
            value = (lefts + rights).amax(2) + log_split[:, None]
        values[:, _cells(N, width)] = value
        if width < N:
            as_left, as_right = _part(left, right, width)
            as_left[:], as_right[:] = best_children(log_left, value), best_children(log_right, value)
    return values, left, right
