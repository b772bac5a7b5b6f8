"""Which parts of a sentence are constituents, from what is known of its leaves."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import pad

from torch_ctree.trees.topology import level, topology_of


def spans(q: Tensor, marginals: Tensor) -> Tensor:
    """q, μ (B, N, V) → (B, N, N): the probability that the tokens i … j are all that some vertex has below it.

    q: q_n(v), how probably leaf n is v given that it ends where v ends; see ``kernels.torch.log_conditionals``
    marginals: μ_n(v), how probably it is v

    Read from the last leaf to the first, a tree is a chain of positions. A vertex v has the tokens i … j below it if
    leaf j ends at end(v) and leaf i starts at start(v): what lies between cannot have come from elsewhere. Leaves lead
    from the one to the other with probability K_v[i, j] = q_j(v), if v is a leaf itself, plus
    Σ_k K_left[i, k] · K_right[k + 1, j]. Widths are stored in place of j: below a vertex of height h are at most 2^h
    tokens.
    """
    tree, (B, N, _) = topology_of(q), q.shape
    ends = tree.on(q.device).ends
    ended = marginals.new_zeros(B, N, tree.positions + 1).index_add(2, ends, marginals)  # where leaf n ends
    found = q.new_zeros(B, N, N)  # [start, width − 1]
    below = q.new_empty(B, 0, N, 0)
    for depth in reversed(range(tree.depth + 1)):
        vertices = level(depth)
        table = _joined(below, q[:, :, vertices].mT, min(N, 1 << (tree.depth - depth)))
        widths = table.shape[-1]
        at_end = pad(ended[:, :, ends[vertices]].mT, (0, widths - 1)).unfold(-1, widths, 1)  # (B, 2^d, N, widths)
        found[..., :widths] += (table * at_end).sum(1)
        below = table
    result = found.new_zeros(B, N, N)
    for width in range(N):
        result.diagonal(width, 1, 2).copy_(found[:, : N - width, width])
    return result.clamp_(max=1)


def _joined(below: Tensor, leaves: Tensor, widths: int) -> Tensor:
    """K of a level's vertices, (B, 2^d, N, widths), from that of the level below and from leaves (B, 2^d, N)."""
    N = leaves.shape[-1]
    table = leaves.new_zeros(*leaves.shape, widths)
    table[..., 0] = leaves
    left, right = below[:, 0::2], below[:, 1::2]
    for width in range(1, min(below.shape[-1], widths - 1) + 1):  # of the left part
        most = min(below.shape[-1], widths - width)
        table[:, :, : N - width, width : width + most] += (
            left[:, :, : N - width, width - 1, None] * right[:, :, width:, :most]
        )
    return table
