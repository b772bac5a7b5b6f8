"""Attention of all vertices at once, as a function that has a derivative: what they find, or the logits of words."""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportCallIssue=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from torch.amp.autocast_mode import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from torch_ctree.models.fused.attention import Gradients, Normalisation, Sources, attend, attend_back
from torch_ctree.models.fused.chance import keep
from torch_ctree.models.fused.sums import column_sums
from torch_ctree.models.fused.words import spell, spell_back

QUERY_PLACE = 101
"""Of dropout before the queries."""


@triton.jit
def _drop(x, out, seed, size, P: tl.constexpr, PLACE: tl.constexpr, BLOCK: tl.constexpr):
    unit = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + unit, mask=unit < size).to(tl.float32)
    tl.store(out + unit, value * keep(tl.load(seed), PLACE, unit, P), mask=unit < size)


def _dropped(x: Tensor, seed: Tensor, p: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """Dropout of queries, and, of a gradient, its derivative; in another dtype if need be."""
    if p == 0:
        return x.to(dtype)
    out = torch.empty_like(x, dtype=dtype)
    grid = (triton.cdiv(x.numel(), 1024),)
    _drop[grid](x, out, seed, x.numel(), P=p, PLACE=QUERY_PLACE, BLOCK=1024, num_warps=4)
    return out


class Settings(NamedTuple):
    """What is no tensor."""

    eps: float
    """Of the queries' layer normalisation."""
    p_query: float
    """Of dropout before the queries."""
    p_out: float
    """Of dropout of what is found."""
    dtype: torch.dtype
    """Of what is multiplied."""


class _Attended(torch.autograd.Function):
    """See ``attended``."""

    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(
        ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, keys: Tensor,
        values: Tensor, mask: Tensor, seed: Tensor, words: Tensor | None, settings: Settings,
    ) -> Tensor:  # fmt: skip
        s, sources, norm = settings, Sources(keys, values, mask), Normalisation(gamma, beta, settings.eps)
        query = _dropped(states, seed, s.p_query, s.dtype).view(-1, states.shape[-1])
        weight = weight.to(s.dtype)
        x = torch.addmm(bias.to(s.dtype), query, weight.T)
        if words is None:
            out = torch.empty_like(states, dtype=s.dtype)
            attend(x, norm, sources, out, seed, s.p_out)
        else:
            out = states.new_empty(*states.shape[:2], len(words))
            spell(x, norm, sources, words, out, seed, s.p_out)
        ctx.save_for_backward(query, x, weight, gamma, beta, keys, values, mask, seed, words)
        ctx.settings = settings
        return out

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cuda")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, x, weight, gamma, beta, keys, values, mask, seed, words = ctx.saved_tensors
        s, sources, norm = ctx.settings, Sources(keys, values, mask), Normalisation(gamma, beta, ctx.settings.eps)
        grad, of_x = grad.contiguous(), torch.empty_like(x)
        if words is None:
            left = Gradients.empty(grad.shape[1], grad.shape[1], sources, x.dtype, leaves=False)
            attend_back(x, norm, sources, grad, None, seed, left, of_x, p_out=s.p_out)
            shared, of_bias, of_words = left.totals(sources, norm), column_sums(of_x), None
        else:
            shared = spell_back(x, norm, sources, words, grad, seed, of_x, s.p_out)
            of_bias, of_words = shared.sum, shared.words
        of_states = _dropped((of_x @ weight).view(*grad.shape[:2], -1), seed, s.p_query)
        of_query = (of_x.T @ query).float(), of_bias, shared.gamma, shared.beta
        return of_states, *of_query, shared.keys, shared.values, None, None, of_words, None


def attended(
    states: Tensor, query: nn.Linear, norm: nn.LayerNorm, sources: Sources, seed: Tensor, p_query: float, p_out: float,
    dtype: torch.dtype = torch.float32, words: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """dropout(softmax(layernorm(query(dropout(states))) · keysᵀ / √h) · values): states (B, Q, H) → (B, Q, H)

    With words (K, H), what is found times them, (B, Q, K) in float32; then ``words.fits`` must hold.

    dtype: of what is multiplied, and of what is found
    """
    words = None if words is None else words.float().contiguous()
    return _Attended.apply(
        states.contiguous(), query.weight, query.bias, norm.weight, norm.bias, *sources.ready(), seed, words,
        Settings(norm.eps, p_query, p_out, dtype),
    )  # pyright: ignore[reportReturnType]  # fmt: skip
