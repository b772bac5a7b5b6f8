"""log m(v), the factor of p(T) that a leaf stands for, as one kernel forward and one backward, for GPUs.

With the recurrence of Eq. 6–7 written out, log m(v) = log l_v + Σ_j 2^(−j) log(1 − l_u), u the j-th vertex above v.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
import triton
import triton.language as tl
from torch import Tensor

from torch_ctree.trees.topology import topology_of


@triton.jit
def _log_sigmoid(x):
    e = tl.exp(-tl.abs(x))
    u = 1.0 + e  # its logarithm times e / (u − 1) makes good what this sum has rounded off
    return tl.minimum(x, 0.0) - tl.where(u == 1.0, e, tl.log(u) * (e / tl.where(u == 1.0, 1.0, u - 1.0)))


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _forward(leaf_logits, out, D: tl.constexpr, BLOCK: tl.constexpr):
    """leaf_logits (B, V) → out (B, V). A program does one block of one sentence's vertices."""
    V: tl.constexpr = (2 << D) - 1
    row = tl.program_id(0).to(tl.int64) * V
    v = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_deepest = v >= V // 2
    own = tl.load(leaf_logits + row + v, mask=v < V // 2, other=0.0)
    total = tl.where(is_deepest, 0.0, _log_sigmoid(own))
    share = 1.0
    for j in tl.static_range(1, D + 1):
        above = ((v + 1) >> j) - 1
        share = share / 2
        logit = tl.load(leaf_logits + row + above, mask=(above >= 0) & (v < V), other=0.0)
        total += tl.where(above >= 0, share * _log_sigmoid(-logit), 0.0)
    tl.store(out + row + v, total, mask=v < V)


@triton.jit
def _backward(leaf_logits, grad, below, out, D: tl.constexpr, HALF: tl.constexpr):
    """The derivative, a program for each sentence: leaf_logits, grad (B, V) → out (B, V).

    below (B, V): scratch for T[v] = ½ Σ over the children c of v of T[c] + grad[c], what log(1 − l_v) is worth.
    """
    V: tl.constexpr = (2 << D) - 1
    row, a = tl.program_id(0).to(tl.int64) * V, tl.arange(0, HALF)
    last = (1 << D) - 1 + 2 * a
    for side in tl.static_range(2):
        tl.store(below + row + last + side, tl.zeros((HALF,), tl.float32), mask=last + side < V)
        tl.store(out + row + last + side, tl.zeros((HALF,), tl.float32), mask=last + side < V)
    for n in tl.static_range(D):
        tl.debug_barrier()
        size = 1 << (D - 1 - n)
        v, there = size - 1 + a, a < size
        worth = tl.zeros((HALF,), tl.float32)
        for side in tl.static_range(2):
            child = row + 2 * v + 1 + side
            worth += tl.load(below + child, mask=there, other=0.0) + tl.load(grad + child, mask=there, other=0.0)
        worth = worth / 2
        tl.store(below + row + v, worth, mask=there)
        leaf = _sigmoid(tl.load(leaf_logits + row + v, mask=there, other=0.0))
        own = tl.load(grad + row + v, mask=there, other=0.0)
        tl.store(out + row + v, own * (1.0 - leaf) - worth * leaf, mask=there)


class _LogM(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaf_logits: Tensor, plain: Callable[[Tensor], Tensor]) -> Tensor:
        depth, out = topology_of(leaf_logits).depth, torch.empty_like(leaf_logits)
        B, V = leaf_logits.shape
        block = min(512, triton.next_power_of_2(V))
        _forward[(B, triton.cdiv(V, block))](leaf_logits, out, D=depth, BLOCK=block)
        ctx.save_for_backward(leaf_logits)
        ctx.plain = plain
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (leaf_logits,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: someone wants to differentiate the gradient
            (found,) = torch.autograd.grad(ctx.plain(leaf_logits), leaf_logits, grad, create_graph=True)
            return found, None
        out, depth = torch.empty_like(leaf_logits), topology_of(leaf_logits).depth
        half = max(1, 1 << (depth - 1)) if depth else 1
        _backward[(len(leaf_logits),)](
            leaf_logits, grad.contiguous(), torch.empty_like(leaf_logits), out, D=depth, HALF=half
        )
        return out, None


def log_m(leaf_logits: Tensor, plain: Callable[[Tensor], Tensor]) -> Tensor:
    """leaf_logits (*batch, V), float32 → log m(v), (*batch, V)

    plain: the same in torch's operations, for second derivatives
    """
    flat = leaf_logits.reshape(-1, leaf_logits.shape[-1]).contiguous()
    with torch.cuda.device_of(flat):  # Triton launches on the current device, wherever the tensors are
        return cast(Tensor, _LogM.apply(flat, plain)).view(leaf_logits.shape)
