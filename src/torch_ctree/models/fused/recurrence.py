"""A layer of two GRUs that read in both directions: one kernel forward, one backward, and a few products of torch's.

What the words say to the gates is one product over all of them, x · Wᵀ + b. The rest is one turn after the other: a
program takes some sentences in one direction through all their turns, with its weights in fast memory. The gates are
kept for the way back, which leaves the gradient of every product at every turn; that of the weights is then one more.

With h the state before a turn and x, s what the word and the state say to a gate, weights and biases included:

    r = σ(x_r + s_r),  z = σ(x_z + s_z),  n = tanh(x_n + r s_n),  h' = (1 − z) n + z h
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.amp.autocast_mode import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from torch_ctree.devices import dot_precision
from torch_ctree.models.fused.functions import tanh
from torch_ctree.models.fused.sums import column_sums

ROWS = 16
"""Sentences that a program takes at a time: as few as a matrix unit wants."""
FEWEST_UNITS, MOST_UNITS = 16, 64
"""Of one direction. The weights of more do not fit into the fast memory of most multiprocessors."""
GATES, KEPT = tl.constexpr(3), tl.constexpr(4)
"""r, z, n, in torch's order; kept for the way back are r, z, n, s_n."""


# --- kernels ----------------------------------------------------------------------------------------------------------


@triton.jit
def _times(weight, rows, PRECISION: tl.constexpr):
    """weight (out, in), rows (R, in) → (out, R). Rows are few: this way round, a matrix unit does more at a time."""
    return tl.dot(weight, tl.trans(rows), input_precision=PRECISION)


@triton.jit
def _token(row, turn, direction, sizes, turns):
    """(R,): the token of each sentence that is read at a turn, among those of the program; padding in its own turn."""
    turned = (direction == 1) & (turn < sizes)
    return row * turns + tl.where(turned, sizes - 1 - turn, turn)


@triton.jit
def _three(of, places, mask, H: tl.constexpr):
    """What stands at some places for each of the gates."""
    r = tl.load(of + places, mask=mask, other=0.0)
    z = tl.load(of + places + H, mask=mask, other=0.0)
    n = tl.load(of + places + 2 * H, mask=mask, other=0.0)
    return r, z, n


@triton.jit(do_not_specialize=["batch", "turns"])
def _read(
    x, ahead, ahead_bias, back, back_bias, lengths, states, last, kept, batch, turns,
    KEEP: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """x (B, S, 2, 3H) → states (B, S, 2, H), last (B, 2, H); with KEEP also kept (B, S, 2, 4H).

    ahead, back: the weights (3H, H) of both directions
    """
    direction, block = tl.program_id(0), tl.program_id(1)
    row, h = tl.arange(0, ROWS), tl.arange(0, H)
    there, column = (block * ROWS + row) < batch, h[None, :]
    sizes = tl.load(lengths + block * ROWS + row, mask=there, other=1).to(tl.int32)
    sizes = tl.minimum(tl.maximum(sizes, 1), turns)
    first = block.to(tl.int64) * ROWS * turns * 2 + direction  # what follows are small numbers
    x, states, kept = x + first * GATES * H, states + first * H, kept + first * KEPT * H
    weight, bias = (back if direction == 1 else ahead), (back_bias if direction == 1 else ahead_bias)
    whole = weight + h[:, None] * H + h[None, :]
    w_r, w_z, w_n = tl.load(whole), tl.load(whole + H * H), tl.load(whole + 2 * H * H)
    b_r, b_z, b_n = tl.load(bias + column), tl.load(bias + H + column), tl.load(bias + 2 * H + column)

    state = tl.zeros((ROWS, H), tl.float32)
    token = _token(row, 0, direction, sizes, turns)[:, None]
    x_r, x_z, x_n = _three(x, token * (2 * GATES * H) + column, there[:, None], H)
    for turn in range(turns):
        s_n = tl.trans(_times(w_n, state, PRECISION)) + b_n
        s_r = tl.trans(_times(w_r, state, PRECISION)) + b_r
        s_z = tl.trans(_times(w_z, state, PRECISION)) + b_z
        # What the next turn needs is on its way during this one. Loads stand behind products: this makes Triton keep
        # everything in the layout of loads rather than of products, which would have to be changed at every store.
        then = _token(row, tl.minimum(turn + 1, turns - 1), direction, sizes, turns)[:, None]
        next_r, next_z, next_n = _three(x, then * (2 * GATES * H) + column, there[:, None], H)
        r, z = tl.sigmoid(x_r + s_r), tl.sigmoid(x_z + s_z)
        n = tanh(x_n + r * s_n)
        state = n + z * (state - n)
        tl.store(states + token * (2 * H) + column, state, mask=there[:, None])
        if KEEP:
            to = kept + token * (2 * KEPT * H) + column
            tl.store(to, r, mask=there[:, None])
            tl.store(to + H, z, mask=there[:, None])
            tl.store(to + 2 * H, n, mask=there[:, None])
            tl.store(to + 3 * H, s_n, mask=there[:, None])
        to_last = last + ((block * ROWS + row).to(tl.int64) * 2 + direction)[:, None] * H + column
        tl.store(to_last, state, mask=(there & (turn == sizes - 1))[:, None])
        token, x_r, x_z, x_n = then, next_r, next_z, next_n


@triton.jit
def _turn_back(
    kept, states, of_states, row, turn, direction, sizes, turns, there, column,
    OF_STATES: tl.constexpr, H: tl.constexpr,
):  # fmt: skip
    """What the way back needs of one turn: its token, r, z, n, s_n, the state before, the gradient of that after."""
    token = _token(row, turn, direction, sizes, turns)[:, None]
    r, z, n = _three(kept, token * (2 * KEPT * H) + column, there[:, None], H)
    s_n = tl.load(kept + token * (2 * KEPT * H) + 3 * H + column, mask=there[:, None], other=0.0)
    before, begun = _token(row, turn - 1, direction, sizes, turns)[:, None], tl.zeros_like(row) + turn > 0
    state = tl.load(states + before * (2 * H) + column, mask=(there & begun)[:, None], other=0.0)
    if OF_STATES:
        grad = tl.load(of_states + token * (2 * H) + column, mask=there[:, None], other=0.0)
    else:
        grad = tl.zeros_like(state)
    return token, r, z, n, s_n, state, grad


@triton.jit(do_not_specialize=["batch", "turns"])
def _read_back(
    ahead, back, lengths, states, kept, of_states, of_last, of_x, of_s, befores, batch, turns,
    OF_STATES: tl.constexpr, OF_LAST: tl.constexpr, H: tl.constexpr, ROWS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The derivative: → of_x, of_s (B, S, 2, 3H), of what words and states say; and befores (B, S, 2, H).

    Those are the states before each turn, where its token is. OF_STATES, OF_LAST: whether there are such gradients
    """
    direction, block = tl.program_id(0), tl.program_id(1)
    row, h = tl.arange(0, ROWS), tl.arange(0, H)
    there, column = (block * ROWS + row) < batch, h[None, :]
    sizes = tl.load(lengths + block * ROWS + row, mask=there, other=1).to(tl.int32)
    sizes = tl.minimum(tl.maximum(sizes, 1), turns)
    first = block.to(tl.int64) * ROWS * turns * 2 + direction
    kept, of_x, of_s = kept + first * KEPT * H, of_x + first * GATES * H, of_s + first * GATES * H
    states, of_states, befores = states + first * H, of_states + first * H, befores + first * H
    turned = (back if direction == 1 else ahead) + h[:, None] + h[None, :] * H
    w_r, w_z, w_n = tl.load(turned), tl.load(turned + H * H), tl.load(turned + 2 * H * H)
    grad = tl.zeros((ROWS, H), tl.float32)
    from_last = tl.zeros((ROWS, H), tl.float32)
    if OF_LAST:
        place = ((block * ROWS + row).to(tl.int64) * 2 + direction)[:, None] * H + column
        from_last = tl.load(of_last + place, mask=there[:, None], other=0.0)

    token, r, z, n, s_n, state, given = _turn_back(
        kept, states, of_states, row, turns - 1, direction, sizes, turns, there, column, OF_STATES, H
    )
    for step in range(turns):
        turn = turns - 1 - step
        grad += given
        if OF_LAST:
            grad += tl.where((turn == sizes - 1)[:, None], from_last, 0.0)
        of_n = grad * (1.0 - z) * (1.0 - n * n)
        of_z = grad * (state - n) * z * (1.0 - z)
        of_r = of_n * s_n * r * (1.0 - r)
        of_s_n = of_n * r
        through = _times(w_r, of_r, PRECISION) + _times(w_z, of_z, PRECISION) + _times(w_n, of_s_n, PRECISION)
        grad = grad * z + tl.trans(through)
        then, next_r, next_z, next_n, next_s_n, next_state, next_given = _turn_back(
            kept, states, of_states, row, tl.maximum(turn - 1, 0), direction, sizes, turns, there, column, OF_STATES, H
        )
        to = token * (2 * GATES * H) + column
        tl.store(of_x + to, of_r, mask=there[:, None])
        tl.store(of_x + to + H, of_z, mask=there[:, None])
        tl.store(of_x + to + 2 * H, of_n, mask=there[:, None])
        tl.store(of_s + to, of_r, mask=there[:, None])
        tl.store(of_s + to + H, of_z, mask=there[:, None])
        tl.store(of_s + to + 2 * H, of_s_n, mask=there[:, None])
        tl.store(befores + token * (2 * H) + column, state, mask=there[:, None])
        token, r, z, n = then, next_r, next_z, next_n
        s_n, state, given = next_s_n, next_state, next_given


# --- the function -----------------------------------------------------------------------------------------------------


class _Read(torch.autograd.Function):
    """x (B, S, 2, 3H), lengths (B,), weights and biases of both directions → states (B, S, 2H), last (B, 2H)

    keep: whether there may be a way back
    """

    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(
        ctx: Any, x: Tensor, lengths: Tensor, ahead: Tensor, ahead_bias: Tensor, back: Tensor, back_bias: Tensor,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        B, S, _, _ = x.shape
        H = ahead.shape[1]
        states, last = x.new_empty(B, S, 2 * H), x.new_empty(B, 2 * H)
        kept = x.new_empty(B, S, 2, 4 * H) if keep else x
        _read[(2, triton.cdiv(B, ROWS))](
            x, ahead, ahead_bias, back, back_bias, lengths, states, last, kept, B, S,
            KEEP=keep, H=H, ROWS=ROWS, PRECISION=dot_precision(), num_warps=4, num_stages=1,
        )  # fmt: skip
        ctx.save_for_backward(lengths, ahead, back, states, kept if keep else None)
        ctx.set_materialize_grads(False)
        return states, last

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cuda")
    def backward(ctx: Any, of_states: Tensor | None, of_last: Tensor | None) -> tuple[Tensor | None, ...]:
        lengths, ahead, back, states, kept = ctx.saved_tensors
        B, S, _ = states.shape
        H = ahead.shape[1]
        of_x, of_s, befores = (states.new_empty(B, S, 2, width) for width in (3 * H, 3 * H, H))
        _read_back[(2, triton.cdiv(B, ROWS))](
            ahead, back, lengths, states, kept, states if of_states is None else of_states.contiguous(),
            states if of_last is None else of_last.contiguous(), of_x, of_s, befores, B, S,
            OF_STATES=of_states is not None, OF_LAST=of_last is not None,
            H=H, ROWS=ROWS, PRECISION=dot_precision(), num_warps=4, num_stages=1,
        )  # fmt: skip
        of_said = of_s.view(-1, 2, 3 * H).permute(1, 2, 0)  # (2, 3H, B · S)
        of_ahead, of_back = torch.bmm(of_said, befores.view(-1, 2, H).transpose(0, 1))
        of_ahead_bias, of_back_bias = column_sums(of_s.view(-1, 6 * H)).view(2, -1)
        return of_x, None, of_ahead, of_ahead_bias, of_back, of_back_bias, None


def fits(units: int, turns: int) -> bool:
    """Whether the kernels can do it: what they count must fit into 32 bits, too."""
    possible = FEWEST_UNITS <= units <= MOST_UNITS and triton.next_power_of_2(units) == units
    return possible and ROWS * (turns + 1) * 8 * units < 1 << 31


def read(x: Tensor, lengths: Tensor, ahead: nn.GRU, back: nn.GRU) -> tuple[Tensor, Tensor]:
    """x (B, S, inputs), lengths (B,) → states (B, S, 2H), last (B, 2H), of GRUs with H units and one layer each."""
    weight = torch.cat([ahead.weight_ih_l0, back.weight_ih_l0])
    bias = torch.cat([ahead.bias_ih_l0, back.bias_ih_l0])
    said = nn.functional.linear(x, weight, bias).unflatten(-1, (2, -1))
    return _Read.apply(
        said.contiguous(), lengths.contiguous(), ahead.weight_hh_l0, ahead.bias_hh_l0, back.weight_hh_l0,
        back.bias_hh_l0, torch.is_grad_enabled(),
    )  # pyright: ignore[reportReturnType]  # fmt: skip
