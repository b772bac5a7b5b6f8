"""The complete tree of states, level by level: a few kernels for a level, and one product for each weight's gradient.

The rows of a level are (sentence, vertex from left to right); levels stand one after the other in one buffer, so that
the gradient of a weight is one product over all of them in the end.

Or a chain: the tree in which right children alone have children, so that a level has one vertex that has any.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false, reportIndexIssue=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false
# (Triton's tensors are no Python numbers)
from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from torch.amp.autocast_mode import custom_bwd, custom_fwd
from torch.autograd.function import once_differentiable

from torch_ctree.models.fused.attention import (
    Gradients,
    Leaves,
    Normalisation,
    Sources,
    Totals,
    attend,
    attend_back,
    fits,
)
from torch_ctree.models.fused.expansion_kernels import children, children_backward, enter, leave, relu_backward
from torch_ctree.models.fused.sums import column_sums

STATE, QUERY, LEAF = 1, 21, 41
"""Where dropout stands: these plus the level."""
FURTHER = 1 << 10
"""In a chain they are multiples of this: it has more levels than a tree."""
ROWS, WARPS = 2, 1
"""Vertices that a program takes at a time: in one warp, sums over units need not wait for others."""
ROWS_SUMMED = 32
"""The same where sums go over vertices."""
MANY, REPEAT = 4096, 4
"""Where a level has so many vertices, a program of ``children_backward`` takes some more of them in turn."""


class Weights(NamedTuple):
    """All that is trained in the expansion."""

    query: Tensor  # (H, H)
    query_bias: Tensor  # (H,)
    query_norm: Tensor  # (H,)
    query_norm_bias: Tensor  # (H,)
    first: Tensor  # (2H, 2H)
    first_bias: Tensor  # (2H,)
    second: Tensor  # (4H, 2H)
    second_bias: Tensor  # (4H,)
    norm: Tensor  # (H,)
    norm_bias: Tensor  # (H,)
    leaf: Tensor  # (2H + 1,): the weight of states, of contexts, and the bias

    def multiplied(self, dtype: torch.dtype) -> Weights:
        """As the products want them: those of linear layers in their dtype."""
        names = ("query", "query_bias", "first", "first_bias", "second", "second_bias")
        return self._replace(**{name: getattr(self, name).to(dtype) for name in names})


class Settings(NamedTuple):
    """All that is not."""

    depth: int
    p: float
    p_query: float
    query_eps: float
    eps: float
    contexts: bool
    """Whether contexts are wanted too."""
    dtype: torch.dtype = torch.float32
    """Of what the products multiply; sums are in float32, and so are states."""
    chain: bool = False
    """Whether right children alone have children."""

    def width(self, d: int) -> int:
        """How many vertices of a level have children."""
        return 1 if self.chain else 1 << d

    def above(self, d: int) -> int:
        """How many vertices above a level have children."""
        return d if self.chain else (1 << d) - 1

    def first(self, d: int) -> int:
        """The first vertex of a level that has children: in heap order, or, in a chain, level by level."""
        return 2 * d if self.chain else (1 << d) - 1

    def shifted(self, of_vertices: Tensor, d: int) -> Tensor:
        """(B, V, …) → from where a kernel, which knows a level's width, finds the vertices below it."""
        return of_vertices[:, 2 * d :] if self.chain else of_vertices

    def rows(self, d: int, batch: int) -> slice:
        """Of one level among all of them."""
        return slice(batch * self.above(d), batch * (self.above(d) + self.width(d)))

    def places(self, d: int) -> tuple[int, int, int]:
        """Of dropout at a level: of states, of queries, of leaves' logits."""
        state, query, leaf = (FURTHER * n for n in (1, 2, 3)) if self.chain else (STATE, QUERY, LEAF)
        return state + d, query + d, leaf + d


class _Buffers(NamedTuple):
    """What the forward pass leaves for the backward pass: the rows of all inner levels but, for queries, the root's."""

    cat: Tensor  # (R, 2H): [dropout(state); context]
    hidden: Tensor  # (R, 2H): relu
    made: Tensor  # (R, 4H): gates and candidates
    dropped: Tensor  # (R − B, H): dropout(state), what queries are made of
    queries: Tensor  # (R − B, H): before normalisation

    @classmethod
    def empty(cls, root: Tensor, s: Settings) -> _Buffers:
        B, H = root.shape
        rows = B * s.above(s.depth)
        sizes = ((rows, 2 * H), (rows, 2 * H), (rows, 4 * H), (rows - B, H), (rows - B, H))
        return cls(*(root.new_empty(size, dtype=s.dtype) for size in sizes))

    def level(self, s: Settings, d: int, batch: int) -> _Buffers:
        """The rows of one level; there are no queries at the root."""
        inner = s.rows(d, batch)
        asked = slice(max(0, inner.start - batch), inner.stop - batch)
        return _Buffers(self.cat[inner], self.hidden[inner], self.made[inner], self.dropped[asked], self.queries[asked])


class _Sums(NamedTuple):
    """What the programs of all levels have summed up, (programs, width), and of each level."""

    all: Tensor
    of: tuple[Tensor, ...]

    @classmethod
    def empty(cls, root: Tensor, width: int, s: Settings, rows: list[int]) -> _Sums:
        """rows: of a program, level by level"""
        programs = [triton.cdiv(len(root) * s.width(d), each) for d, each in enumerate(rows)]
        buffer = root.new_empty(sum(programs), width)
        return cls(buffer, buffer.split(programs))


def _query_norm(w: Weights, s: Settings) -> Normalisation:
    return Normalisation(w.query_norm, w.query_norm_bias, s.query_eps)


def _leaves(states: Tensor, logits: Tensor, w: Weights, s: Settings, d: int) -> Leaves:
    """The logits of the vertices of one level."""
    first, place = s.first(d), s.places(d)[2]
    return Leaves(states[:, first:], states.stride(0), w.leaf, logits[:, first:], logits.stride(0), s.p, place)


class _Expansion(torch.autograd.Function):
    """See ``expand``."""

    @staticmethod
    @custom_fwd(device_type="cuda")
    def forward(
        ctx: Any, root: Tensor, context: Tensor, keys: Tensor, values: Tensor, mask: Tensor, seed: Tensor,
        settings: Settings, *weights: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
        (B, H), s, w, sources = root.shape, settings, Weights(*weights), Sources(keys, values, mask)
        states = root.new_empty(B, 2 * s.above(s.depth) + 1, H)
        logits = root.new_zeros(B, 2 * s.above(s.depth) + 1)
        buffers = _Buffers.empty(root, s)
        m = w.multiplied(s.dtype)
        states[:, 0] = root
        enter[(triton.cdiv(B, ROWS),)](
            root, context, buffers.cat, w.leaf, logits, seed, B, logits.stride(0),
            P=s.p, PLACE=s.places(0)[0], PLACE_LEAF=s.places(0)[2], H=H, ROWS=ROWS, num_warps=WARPS,
        )  # fmt: skip
        for d in range(s.depth):
            here, inner = buffers.level(s, d, B), d + 1 < s.depth
            if d:
                torch.addmm(m.query_bias, here.dropped, m.query.T, out=here.queries)
                leaves = _leaves(states, logits, w, s, d)
                attend(here.queries, _query_norm(w, s), sources, here.cat[:, H:], seed, leaves=leaves)
            torch.ops.aten._addmm_activation.out(m.first_bias, here.cat, m.first.T, out=here.hidden)
            torch.addmm(m.second_bias, here.hidden, m.second.T, out=here.made)
            below = buffers.level(s, d + 1, B) if inner else here
            place, place_query, _ = s.places(d + 1)
            children[(triton.cdiv(len(here.cat), ROWS),)](
                here.made, here.cat, w.norm, w.norm_bias, s.shifted(states, d), below.dropped, below.cat, seed,
                len(here.cat), s.width(d), states.stride(0), place, place_query, s.eps,
                P=s.p, P_QUERY=s.p_query, INNER=inner, ONLY=int(s.chain), EXACT=s.dtype == torch.float32,
                H=H, ROWS=ROWS, num_warps=WARPS,
            )  # fmt: skip
        ctx.save_for_backward(root, context, keys, values, mask, seed, states, *weights, *buffers)
        ctx.settings = settings
        ctx.set_materialize_grads(False)
        return states, logits, buffers.cat[:, H:].float() if s.contexts else root.new_empty(0)

    @staticmethod
    @once_differentiable
    @custom_bwd(device_type="cuda")
    def backward(
        ctx: Any, grad_states: Tensor | None, grad_logits: Tensor | None, grad_contexts: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        root, context, keys, values, mask, seed, states, *rest = ctx.saved_tensors
        w, buffers = Weights(*rest[: len(Weights._fields)]), _Buffers(*rest[len(Weights._fields) :])
        (B, H), s, sources = root.shape, ctx.settings, Sources(keys, values, mask)
        zero = states.new_zeros(())
        of_states = (zero.expand(states.shape) if grad_states is None else grad_states).contiguous()
        of_logits = (zero.expand(states.shape[:2]) if grad_logits is None else grad_logits).contiguous()
        grads = _Buffers(*(torch.empty_like(buffer) for buffer in buffers))
        m = w.multiplied(s.dtype)
        repeats = [REPEAT if B * s.width(d) >= MANY else 1 for d in range(s.depth)]
        sums = _Sums.empty(root, 6 * H, s, [ROWS * times for times in repeats])
        hidden_sums = _Sums.empty(root, 2 * H, s, [ROWS_SUMMED] * s.depth)
        left = Gradients.empty(s.above(s.depth) - 1, s.width(s.depth - 1), sources, s.dtype, leaves=True)
        of_gated = root
        for d in reversed(range(s.depth)):
            here, there, inner = buffers.level(s, d, B), grads.level(s, d, B), d + 1 < s.depth
            below, of_parent = grads.level(s, d + 1, B) if inner else there, root.new_empty(len(here.cat), H)
            children_backward[(len(sums.of[d]),)](
                here.made, here.cat, s.shifted(states, d), w.norm, w.norm_bias, s.shifted(of_states, d),
                below.dropped, below.cat, of_gated, w.leaf, s.shifted(of_logits, d), seed,
                there.made, of_parent, sums.of[d], len(here.cat), s.width(d), states.stride(0),
                of_logits.stride(0), *s.places(d + 1), s.eps,
                P=s.p, P_QUERY=s.p_query, INNER=inner, ONLY=int(s.chain), EXACT=s.dtype == torch.float32,
                H=H, ROWS=ROWS, REPEAT=repeats[d], num_warps=WARPS,
            )  # fmt: skip
            of_gated = of_parent
            torch.mm(there.made, m.second, out=there.hidden)
            columns = min(128, 2 * H)
            relu_backward[(len(hidden_sums.of[d]), 2 * H // columns)](
                there.hidden, here.hidden, hidden_sums.of[d], len(here.cat),
                WIDE=2 * H, ROWS=ROWS_SUMMED, COLUMNS=columns, num_warps=4,
            )  # fmt: skip
            torch.mm(there.hidden, m.first, out=there.cat)
            if grad_contexts is not None:
                there.cat[:, H:] += grad_contexts[s.rows(d, B)]
            if d:
                attend_back(
                    here.queries, _query_norm(w, s), sources, there.cat[:, H:], here.cat[:, H:], seed, left,
                    there.queries, s.above(d) - 1, inner, leaves=_leaves(states, of_logits, w, s, d),
                )  # fmt: skip
                torch.mm(there.queries, m.query, out=there.dropped)
        of_root, of_context = torch.empty_like(root), torch.empty_like(context)
        of_leaf = root.new_empty(triton.cdiv(B, ROWS), 2 * H + 1)
        leave[(triton.cdiv(B, ROWS),)](
            root, context, of_states, grads.cat, of_gated, w.leaf, of_logits, seed, of_root, of_context, of_leaf,
            B, states.stride(0), of_logits.stride(0),
            P=s.p, PLACE=s.places(0)[0], PLACE_LEAF=s.places(0)[2], H=H, ROWS=ROWS, num_warps=WARPS,
        )  # fmt: skip
        # a tree of one level asks nothing of the source
        asked = left.totals(sources, _query_norm(w, s)) if s.depth > 1 else None
        of_sources = (None, None) if asked is None else (asked.keys, asked.values)
        of_weights = _weight_gradients(buffers, grads, sums.all, hidden_sums.all, of_leaf.sum(0), asked)
        return of_root, of_context, *of_sources, None, None, None, *of_weights


def _weight_gradients(
    buffers: _Buffers, grads: _Buffers, sums: Tensor, hidden_sums: Tensor, of_leaf: Tensor, asked: Totals | None
) -> tuple[Tensor | None, ...]:
    """One product for each weight and one sum for each bias, in the order of ``Weights``."""

    def weight(outputs: Tensor, inputs: Tensor) -> Tensor:
        return (outputs.T @ inputs).float()

    H = buffers.dropped.shape[1]
    of_query: tuple[Tensor | None, ...] = (None,) * 4
    if asked is not None:
        of_bias = column_sums(grads.queries)
        of_query = weight(grads.queries, buffers.dropped), of_bias, asked.gamma, asked.beta
        of_leaf = of_leaf + asked.leaf
    of_first = weight(grads.hidden, buffers.cat), column_sums(hidden_sums)
    of_norm, of_norm_bias, of_second_bias = column_sums(sums).split([H, H, 4 * H])
    of_second = weight(grads.made, buffers.hidden), of_second_bias
    return *of_query, *of_first, *of_second, of_norm, of_norm_bias, of_leaf


def can_expand(positions: int, batch: int, width: int, s: Settings) -> bool:
    """Whether the kernels can do it: what they count must fit into 32 bits, too."""
    return 0 < s.depth < FURTHER and fits(positions, width, s.dtype) and batch * s.width(s.depth) * 4 * width < 1 << 31


def expand(
    root: Tensor, context: Tensor, sources: Sources, settings: Settings, weights: Weights, seed: Tensor
) -> tuple[Tensor, Tensor, Tensor | None]:
    """All below a root: root, context (B, H) → states (B, V, H), leaf logits (B, V), contexts of inner vertices.

    Contexts (B, V // 2, H) only where the settings ask for them.
    """
    states, logits, contexts = _Expansion.apply(
        root.contiguous(), context.contiguous(), *sources.ready(), seed, settings, *weights
    )  # pyright: ignore[reportGeneralTypeIssues]
    if not settings.contexts:
        return states, logits, None
    B, H = root.shape
    levels = torch.split(contexts, [B * settings.width(d) for d in range(settings.depth)])
    return states, logits, torch.cat([level.view(B, -1, H) for level in levels], 1)
