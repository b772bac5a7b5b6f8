"""Ordered Memory's loop over positions and slots as few kernels: two for each slot and one for each position.

The kernels, and what each of them does, are in ``ordered_memory_kernels``; here they are launched. The names are those
of ``encoders.ordered_memory``. Gradients of weights come at the end, from one product over all positions and slots.

Within a position, everything is kept as (M, B, …): row i B + b is slot i of sentence b.
"""

# pyright: reportArgumentType=false, reportCallIssue=false
# (kernels' constants are given as numbers, and unpacked tensors are not counted)

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.amp.autocast_mode import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from torch_ctree.devices import dot_precision, multiprocessors
from torch_ctree.models.fused import ordered_memory_kernels as kernels
from torch_ctree.models.fused.sums import column_sums

MOST_UNITS = 1024
"""Tiles of wider rows do not fit into the fast memory of one multiprocessor."""

ROWS, COLUMNS = 16, 32
"""Sentences and columns of a product that one program makes, on a GPU that has room for all of them at a time."""


class Weights(NamedTuple):
    """All that is learnt: layers as (out, in), and the two layer norms."""

    key: Tensor  # (H, H)
    key_bias: Tensor
    key_gain: Tensor
    key_shift: Tensor
    score: Tensor  # (1, H)
    score_bias: Tensor  # changes nothing: attention is a softmax
    node: Tensor  # (4H, H)
    node_bias: Tensor
    memory: Tensor  # (4H, H)
    out: Tensor  # (4H, 4H)
    out_bias: Tensor
    gain: Tensor
    shift: Tensor


def fits(width: int) -> bool:
    """Whether the kernels can do it."""
    return width <= MOST_UNITS


def candidates(x: Tensor, queries: Tensor, weights: Weights, slots: int, p: float, eps: float, seed: Tensor) -> Tensor:
    """x, queries (B, S, H) → M̂ of every position, (B, S, M, H)

    p: dropout, 0 for none; eps: of both layer norms; seed: (1,), as of ``chance.new_seed``; not read if p is 0
    """
    if x.shape[1] == 1:
        return x[:, :, None].repeat(1, 1, slots, 1)
    return _Candidates.apply(x, queries, seed, slots, p, eps, *weights)


@dataclass(frozen=True)
class _Plan:
    """Sizes, and how they are cut into programs.

    The products are small, so that what counts is how long one program takes: few rows each, and many programs.
    """

    B: int
    S: int
    M: int
    H: int
    p: float
    eps: float
    precision: str
    multiprocessors: int

    @property
    def wide(self) -> int:
        return max(16, triton.next_power_of_2(self.H))  # tl.dot takes no fewer than 16

    @property
    def slots(self) -> int:
        return max(2, triton.next_power_of_2(self.M))

    def by_slot(self, constants: dict[str, Any], columns: int, halves: int = 1) -> tuple[int, int, int]:
        """The grid of a kernel for one slot that makes so many columns."""
        return triton.cdiv(self.B, ROWS), triton.cdiv(columns, constants["COLUMNS"]), halves

    def by_position(self) -> tuple[int]:
        """The grid of a kernel for all slots of whole sentences."""
        return (triton.cdiv(self.B, max(16, self.slots) // self.slots),)

    def product(self, block: int, warps: int, stages: int, columns: int = COLUMNS) -> dict[str, Any]:
        """Constants of a kernel for one slot."""
        if self.precision == "ieee":
            block = min(block, 32)  # no matrix units: it is all unrolled
        sizes = {"H": self.H, "PRECISION": self.precision, "ROWS": ROWS, "COLUMNS": columns}
        return {**sizes, "BLOCK": block, "num_warps": warps, "num_stages": stages}

    @property
    def crowded(self) -> bool:
        """Whether a slot has more programs than run at a time, so that fewer and larger ones take less in all."""
        programs = triton.cdiv(self.B, ROWS) * triton.cdiv(4 * self.H, COLUMNS)
        return programs > 2 * self.multiprocessors and self.wide <= 128

    @property
    def hidden(self) -> dict[str, Any]:
        """Of ``hidden_layer``.

        Up to 128 units, one block for all of them is a little faster alone, but takes so much fast memory that little
        else can run beside it.
        """
        warps, stages = (4, 1) if self.wide <= 128 else (8, 2)
        return self.product(min(64, self.wide), warps, stages, 2 * COLUMNS if self.crowded else COLUMNS)

    @property
    def hidden_back(self) -> dict[str, Any]:
        """Of ``hidden_back``."""
        return self.product(min(32, self.wide), 4, 2, 2 * COLUMNS) if self.crowded else self.hidden

    @property
    def plain(self) -> dict[str, Any]:
        """Of ``output_layer`` and ``node_back``."""
        return self.product(min(128, 4 * self.wide), 4, 2)

    @property
    def position(self) -> dict[str, Any]:
        """Of ``attend`` and ``attend_back``."""
        block = self.wide if self.wide <= 128 else max(16, 8192 // self.wide)
        if self.precision == "ieee":
            block = min(block, 16)
        return {
            "H": self.H,
            "M": self.M,
            "P": self.p,
            "PRECISION": self.precision,
            "SCALE": 1 / math.sqrt(self.H),
            "ROWS": max(16, self.slots),
            "SLOTS": self.slots,
            "WIDE": self.wide,
            "BLOCK": block,
            "num_warps": 8,
            "num_stages": 2,
        }


class _Kept(NamedTuple):
    """What the way back needs, for each position but the first."""

    memory: Tensor  # (S − 1, M, B, H)
    outputs: Tensor  # (S − 1, M, B, 4H)
    hidden: Tensor  # (S − 1, M, B, 4H), after dropout
    keys: Tensor  # (S − 1, M, B, H), before layer norm
    fed_key: Tensor  # (S − 1, M, B, H): what the layers were given, after dropout
    fed_node: Tensor
    fed_memory: Tensor
    fields: Tensor  # (S − 1, FIELDS, M, B)


def _forward(plan: _Plan, x: Tensor, queries: Tensor, seed: Tensor, weights: Weights) -> tuple[Tensor, _Kept]:
    """x, queries: contiguous → (B, S, M, H)"""
    B, S, M, H = plan.B, plan.S, plan.M, plan.H
    found = x.new_empty(B, S, M, H)
    found[:, 0] = x[:, :1]  # the first word fills every slot
    kept = _Kept(
        *(x.new_empty(S - 1, M, B, width) for width in (H, 4 * H, 4 * H, H, H, H, H)),
        x.new_empty(S - 1, kernels.FIELDS, M, B),
    )
    for t in range(1, S):
        _attend_at(plan, t, x, queries, seed, found, kept, weights)
        for i in range(M):
            _reduce_at(plan, t, i, x, seed, found, kept, weights)
    below, below_row = _below(plan, x, found, S - 1, M - 1)
    last = (kept.outputs[-1], kept.memory[-1], kept.fields[-1])
    constants = {"H": H, "M": M, "EPS": plan.eps, "ROWS": 4, "WIDE": plan.wide, "BLOCK": min(plan.wide, 128)}
    kernels.finish[(triton.cdiv(B, 4),)](
        x[:, -1], below, found[:, -1, -1], *last, weights.gain, weights.shift, B, S * M * H, S * H, below_row,
        **constants,
    )  # fmt: skip
    return found, kept


def _below(plan: _Plan, x: Tensor, found: Tensor, t: int, slot: int) -> tuple[Tensor, int]:
    """The node of the slot before, x for the first one; and from one sentence's to the next one's."""
    if slot == 0:
        return x[:, t], plan.S * plan.H
    return found[:, t, slot - 1], plan.S * plan.M * plan.H


def _attend_at(
    plan: _Plan, t: int, x: Tensor, queries: Tensor, seed: Tensor, found: Tensor, kept: _Kept, weights: Weights
) -> None:
    now, before = t - 1, max(t - 2, 0)
    below, below_row = _below(plan, x, found, t - 1, plan.M - 1)
    kernels.attend[plan.by_position()](
        found[:, t - 1], x[:, t - 1], below, queries[:, t], seed,
        kept.outputs[before], kept.memory[before], kept.fields[before],
        kept.memory[now], kept.fields[now], kept.keys[now], kept.fed_key[now], kept.fed_memory[now],
        weights.key, weights.key_bias, weights.key_gain, weights.key_shift, weights.score, weights.gain, weights.shift,
        t, plan.B, plan.S * plan.M * plan.H, plan.S * plan.H, below_row,
        FIRST=t == 1, EPS=plan.eps, **plan.position,
    )  # fmt: skip


def _reduce_at(
    plan: _Plan, t: int, slot: int, x: Tensor, seed: Tensor, found: Tensor, kept: _Kept, weights: Weights
) -> None:
    now, before = t - 1, max(slot - 1, 0)
    below, below_row = _below(plan, x, found, t, before)
    kernels.hidden_layer[plan.by_slot(plan.hidden, 4 * plan.H)](
        x[:, t], below, found[:, t, before], seed,
        kept.outputs[now], kept.memory[now], kept.fields[now], kept.hidden[now], kept.fed_node[now],
        kept.fed_memory[now], weights.node, weights.node_bias, weights.memory, weights.gain, weights.shift,
        t, slot, plan.B, plan.S * plan.M * plan.H, plan.S * plan.H, below_row,
        M=plan.M, P=plan.p, EPS=plan.eps, FIRST=slot == 0, WIDE=plan.wide, **plan.hidden,
    )  # fmt: skip
    kernels.output_layer[plan.by_slot(plan.plain, 4 * plan.H)](
        kept.hidden[now, slot], kept.outputs[now, slot], weights.out, weights.out_bias, plan.B,
        **plan.plain,
    )  # fmt: skip


class _Back(NamedTuple):
    """What the way back leaves behind, for the gradients of x and the weights."""

    nodes: Tensor  # (S − 1, M + 1, B, H): of x below the first slot, and of M̂
    first: Tensor  # (M, B, H): of M̂ at the first position
    memory: Tensor  # (2, M, B, H): at this position and at the one before, in turn
    outputs: Tensor  # (S − 1, M, B, 4H)
    pre: Tensor  # (S − 1, M, B, 4H), of the hidden layer before relu
    keys: Tensor  # (S − 1, M, B, H)
    fields: Tensor  # (S − 1, BACK_FIELDS, M, B)


def _backward(
    plan: _Plan, x: Tensor, queries: Tensor, seed: Tensor, found: Tensor, kept: _Kept, weights: Weights, grad: Tensor
) -> _Back:
    """grad (B, S, M, H): contiguous"""
    B, S, M, H = plan.B, plan.S, plan.M, plan.H
    back = _Back(
        x.new_empty(S - 1, M + 1, B, H), x.new_empty(M, B, H), x.new_empty(2, M, B, H),
        *(torch.empty_like(buffer) for buffer in (kept.outputs, kept.hidden, kept.keys)),
        x.new_empty(S - 1, kernels.BACK_FIELDS, M, B),
    )  # fmt: skip
    back.nodes[-1, 1:] = grad[:, -1].transpose(0, 1)
    back.memory[(S - 1) % 2].zero_()  # nothing reads the last one's memory but its own slots
    both = torch.cat([weights.node, weights.memory], 1)  # (4H, 2H)
    for t in range(S - 1, 0, -1):
        for i in range(M - 1, -1, -1):
            _reduce_back_at(plan, t, i, x, seed, found, kept, weights, both, back)
        _attend_back_at(plan, t, queries, seed, found, kept, weights, grad, back)
    return back


def _reduce_back_at(
    plan: _Plan, t: int, slot: int, x: Tensor, seed: Tensor, found: Tensor, kept: _Kept, weights: Weights,
    both: Tensor, back: _Back,
) -> None:  # fmt: skip
    now = t - 1
    below, below_row = _below(plan, x, found, t, slot)
    d_node = back.nodes[now, slot + 1]
    kernels.hidden_back[plan.by_slot(plan.hidden_back, 4 * plan.H)](
        x[:, t], below, kept.outputs[now], kept.memory[now], kept.fields[now], kept.hidden[now],
        weights.out, weights.gain, weights.shift, d_node, back.outputs[now], back.pre[now], back.fields[now],
        slot, plan.B, plan.S * plan.H, below_row,
        M=plan.M, P=plan.p, **plan.hidden_back,
    )  # fmt: skip
    kernels.node_back[plan.by_slot(plan.plain, plan.H, 2)](
        seed, kept.outputs[now], kept.fields[now], d_node, back.pre[now], back.nodes[now, slot],
        back.memory[t % 2], both, t, slot, plan.B,
        M=plan.M, P=plan.p, **plan.plain,
    )  # fmt: skip


def _attend_back_at(
    plan: _Plan, t: int, queries: Tensor, seed: Tensor, found: Tensor, kept: _Kept, weights: Weights, grad: Tensor,
    back: _Back,
) -> None:  # fmt: skip
    now, before, after = t - 1, max(t - 2, 0), min(t, plan.S - 2)
    d_found = back.nodes[before, 1:] if t > 1 else back.first
    kernels.attend_back[plan.by_position()](
        found[:, t - 1], queries[:, t], seed,
        kept.fields[before], kept.memory[before], kept.fields[now], kept.keys[now],
        weights.key, weights.key_gain, weights.key_shift, weights.score,
        grad[:, t - 1], back.memory[t % 2], back.memory[(t - 1) % 2], d_found, back.keys[now], back.fields[now],
        back.fields[after], t, int(t < plan.S - 1), plan.B, plan.S * plan.M * plan.H, plan.S * plan.H,
        FIRST=t == 1, **plan.position,
    )  # fmt: skip


def _gradients(
    plan: _Plan, queries: Tensor, seed: Tensor, kept: _Kept, weights: Weights, back: _Back
) -> tuple[Tensor, Tensor, Weights]:
    """Of x, of the queries and of the weights."""
    d_x, d_queries = torch.empty_like(queries), torch.empty_like(queries)
    d_vectors = queries.new_empty(plan.S - 1, plan.B, 5, plan.H)
    block = min(plan.wide, 128)
    kernels.inputs_back[(plan.B, plan.S, triton.cdiv(plan.H, block))](
        queries, seed, kept.fields, kept.keys, kept.outputs, weights.key_gain, weights.key_shift, weights.score,
        weights.gain, weights.shift, back.first, back.nodes, back.fields, d_x, d_queries, d_vectors,
        plan.B, plan.S, kept.fields.stride(0), back.fields.stride(0),
        H=plan.H, M=plan.M, P=plan.p, SLOTS=plan.slots, BLOCK=block,
    )  # fmt: skip
    score, key_gain, key_shift, gain, shift = column_sums(d_vectors.view(-1, 5 * plan.H)).view(5, -1)
    keys, pre, outputs = (tensor.flatten(0, 2) for tensor in (back.keys, back.pre, back.outputs))
    return (
        d_x,
        d_queries,
        Weights(
            key=keys.T @ kept.fed_key.flatten(0, 2),
            key_bias=column_sums(keys),
            key_gain=key_gain,
            key_shift=key_shift,
            score=score[None],
            score_bias=torch.zeros_like(weights.score_bias),
            node=pre.T @ kept.fed_node.flatten(0, 2),
            node_bias=column_sums(pre),
            memory=pre.T @ kept.fed_memory.flatten(0, 2),
            out=outputs.T @ kept.hidden.flatten(0, 2),
            out_bias=column_sums(outputs),
            gain=gain,
            shift=shift,
        ),
    )


class _Candidates(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(
        ctx: Any, x: Tensor, queries: Tensor, seed: Tensor, slots: int, p: float, eps: float, *weights: Tensor
    ) -> Tensor:
        x, queries = x.contiguous(), queries.contiguous()
        weights = tuple(weight.contiguous() for weight in weights)
        ctx.plan = _Plan(*x.shape[:2], slots, x.shape[2], p, eps, dot_precision(), multiprocessors(x.device))
        found, kept = _forward(ctx.plan, x, queries, seed, Weights(*weights))
        ctx.save_for_backward(x, queries, seed, found, *kept, *weights)
        return found

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, queries, seed, found, *rest = ctx.saved_tensors
        kept, weights = _Kept(*rest[: len(_Kept._fields)]), Weights(*rest[len(_Kept._fields) :])
        back = _backward(ctx.plan, x, queries, seed, found, kept, weights, grad.contiguous())
        d_x, d_queries, d_weights = _gradients(ctx.plan, queries, seed, kept, weights, back)
        return d_x, d_queries, None, None, None, None, *d_weights
