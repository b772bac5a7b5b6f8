"""The production function, applied again and again, in few kernels."""

from __future__ import annotations

from torch import Tensor

from torch_ctree.models import fused
from torch_ctree.models.attention import Attention, Memory
from torch_ctree.models.leaf import Leaf
from torch_ctree.models.production import Production

Expanded = tuple[Tensor, Tensor, Tensor | None]
"""States (B, V, H), their logits to be a leaf (B, V), and where they are wanted contexts of those with children."""


def expanded(
    production: Production,
    attention: Attention,
    leaf: Leaf,
    root: Tensor,
    context: Tensor,
    nodes: Memory,
    depth: int,
    dropout: float,
    *,
    contexts: bool = False,
    chain: bool = False,
) -> Expanded | None:
    """All below a root (B, H) and its context (B, H); None where there are no kernels for it.

    dropout: its probability, of states
    contexts: whether they are wanted
    chain: whether right children alone have children; then vertices are the root and two of each level
    """
    if not fused.usable(root):
        return None
    from torch_ctree.models.fused import chance, expansion  # noqa: PLC0415  (there may be no Triton)

    (ask, ask_norm), norm, training = attention.projection, production.activation.norm, production.training
    p, p_query = (dropout, attention.dropout) if training else (0.0, 0.0)
    dtype = fused.product_dtype(root)
    settings = expansion.Settings(depth, p, p_query, ask_norm.eps, norm.eps, contexts, dtype, chain)
    if not expansion.can_expand(nodes.values.shape[1], len(root), root.shape[1], settings):
        return None
    weights = expansion.Weights(
        *(ask.weight, ask.bias, ask_norm.weight, ask_norm.bias),
        *(production.first.weight, production.first.bias, production.second.weight, production.second.bias),
        *(norm.weight, norm.bias, leaf.row()),
    )
    sources = expansion.Sources(nodes.keys.transpose(1, 2), nodes.values, nodes.mask[:, 0])
    seed = chance.new_seed(root.device)
    with fused.at_home(root):
        return expansion.expand(root, context, sources, settings, weights, seed)
