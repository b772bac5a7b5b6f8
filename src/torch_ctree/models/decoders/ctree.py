"""The CTree decoder: a complete tree of states, grown level by level from the root."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from torch_ctree.data import Encoder
from torch_ctree.models import fused
from torch_ctree.models.activation import Activation
from torch_ctree.models.attention import Attention, Memory
from torch_ctree.models.configuration import Context, ModelConfig
from torch_ctree.models.decoders.decoder import (
    WORDS_SHOWN,
    Decoded,
    TreeDecoder,
    as_answers,
    chosen_depth,
    likely,
    stacked,
)
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.errors import ModelError
from torch_ctree.models.expanding import expanded
from torch_ctree.models.leaf import Leaf
from torch_ctree.models.output import output_layer
from torch_ctree.models.production import Production
from torch_ctree.trees import Derivation, LatentTree
from torch_ctree.trees.search import penalised
from torch_ctree.trees.topology import with_ancestors
from torch_ctree.trees.vertex import Vertex


class Expansion(NamedTuple):
    """The complete tree, vertices in heap order."""

    states: Tensor  # (B, V, H)
    contexts: Tensor | None  # (B, V, H), where the output layer wants them
    leaf_logits: Tensor  # (B, V)


class CTree(TreeDecoder):
    """p(target | source) as a ``LatentTree`` whose parameters a recursive network makes (§4).

    At each vertex: a context by attention over the source's nodes, the probability to be a leaf, the words, two
    children. The same functions serve every level, so that a tree can be grown deeper than in training.
    """

    goes_by: ClassVar[tuple[str, ...]] = ("length_penalty",)

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__()
        width = config.width
        self.depth = config.depth
        self.search_by(config)
        self.context: Context = config.context
        self.activation = Activation(width)
        self.root = nn.Linear(width, width)
        self.attention = Attention(width, config.attention_dropout)
        self.production = Production(width, self.activation)
        self.leaf = Leaf(width)
        self.output = output_layer(config, words, source_words, self.attention)
        self.dropout = Dropout(config.dropout)

    def distribution(self, encoding: Encoding, depth: int | None = None) -> LatentTree:
        """The distribution over (target, tree) pairs, (B,)."""
        tree = self.expand(encoding, chosen_depth(depth, self.depth))
        emission = self.output.emission(tree.states, tree.contexts, encoding)
        return LatentTree(tree.leaf_logits, emission, validate_args=False)

    def introduce(self, source: Encoder, target: Encoder) -> None:
        """To the output layer."""
        self.output.introduce(source, target)

    def expand(self, encoding: Encoding, depth: int) -> Expansion:
        """Grow the complete tree from the source's root."""
        with fused.small(encoding.root):
            nodes = self.attention.over(encoding, self.context)
            state = self.activation(self.root(encoding.root))[:, None]  # (B, 1, H)
        context = encoding.root[:, None]
        found = expanded(
            self.production, self.attention, self.leaf, state[:, 0], encoding.root, nodes, depth, self.dropout.p,
            contexts=self.output.needs_contexts,
        )  # fmt: skip
        if found is not None:
            return self._with_deepest(*found, nodes)
        states, contexts, leaf_logits = [state], [context], []
        for _ in range(depth):
            leaf_logits.append(self.leaf.logit(state, context, self.dropout))
            state = self.production(self.dropout(state), context).flatten(1, 2)  # (B, 2^d, H)
            states.append(state)
            if len(states) <= depth or self.output.needs_contexts:
                context = self.attention(state, nodes)
                contexts.append(context)
        leaf_logits.append(state.new_zeros(state.shape[:2]))  # the deepest are leaves whatever they say
        wanted = torch.cat(contexts, 1) if self.output.needs_contexts else None
        return Expansion(torch.cat(states, 1), wanted, torch.cat(leaf_logits, 1))

    def _with_deepest(self, states: Tensor, leaf_logits: Tensor, contexts: Tensor | None, nodes: Memory) -> Expansion:
        """Where contexts are wanted, with those of the deepest vertices too, which have no children."""
        if contexts is not None:
            deepest = self.attention(states[:, contexts.shape[1] :], nodes)
            contexts = torch.cat([contexts, deepest], 1)
        return Expansion(states, contexts, leaf_logits)

    def search_by(self, config: ModelConfig) -> None:
        """How much longer answers are preferred."""
        self.penalty = config.length_penalty

    def best(self, distribution: LatentTree) -> Derivation:
        """The best (target, tree) pairs, exactly."""
        return distribution.argmax(length_penalty=self.penalty)

    @torch.no_grad()
    def describe(
        self, encoding: Encoding, trees: Derivation, spell: Callable[[int], str], depth: int | None = None
    ) -> list[dict[int, Vertex]]:
        """All of it: a vertex is the same in every tree, but for the word that it says."""
        depth = chosen_depth(depth, self.depth)
        tree = self.expand(encoding, depth)
        emission = self.output.emission(tree.states, tree.contexts, encoding)
        split = torch.sigmoid(-tree.leaf_logits[0]).tolist()
        rows = [row[:length] for row, length in zip(trees.vertices.tolist(), trees.lengths.tolist(), strict=True)]
        numbers = with_ancestors([vertex for row in rows for vertex in row])
        log_probs, tokens = (x[0, numbers] for x in emission.topk(min(WORDS_SHOWN, emission.vocabulary)))
        attention = self._looks(tree, encoding, numbers)
        found = self.output.found(tree.states[:, numbers], encoding)
        known = {
            vertex: Vertex(
                number=vertex,
                split=0.0 if vertex >= (1 << depth) - 1 else split[vertex],
                words=likely(log_probs[n], tokens[n], spell),
                attention=attention.get(vertex, ()),
                found=() if found is None else tuple(found[0, n].tolist()),
            )
            for n, vertex in enumerate(numbers)
        }
        said = emission.log_prob_at(trees.tokens[:, None], trees.vertices.clamp_min(0)[:, None])[:, 0].exp().tolist()
        return [
            {v: known[v] for v in with_ancestors(row)}
            | {v: replace(known[v], emission=p) for v, p in zip(row, of, strict=False)}
            for row, of in zip(rows, said, strict=True)
        ]

    def _looks(self, tree: Expansion, encoding: Encoding, numbers: list[int]) -> dict[int, tuple[float, ...]]:
        """How much each vertex attends to a source word, at all its nodes; the root does not, nor may the deepest."""
        if self.context != "nodes":
            return {}
        last = len(tree.leaf_logits[0]) if self.output.needs_contexts else len(tree.leaf_logits[0]) // 2
        looking = [vertex for vertex in numbers if 0 < vertex < last]
        weights = self.attention.weights(tree.states[:, looking], self.attention.over(encoding, self.context))[0]
        weights = weights.unflatten(-1, encoding.internal.shape[1:3]).sum(-1)
        return {vertex: tuple(row) for vertex, row in zip(looking, weights.tolist(), strict=True)}

    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The k best (target, tree) pairs, exactly: (k, B, …). max_length: only for k = 1

        With a length penalty they are the best ones of k lengths: what is best for its length is known of these.
        """
        if k > 1 and max_length is not None:
            raise ModelError(f"max_length: got {max_length} for the {k} best; expected it for the best answer alone")
        with torch.no_grad():
            dist = self.distribution(encoding, depth)
            if k == 1:
                return as_answers(stacked(dist.argmax(max_length, self.penalty)))
            return as_answers(_of_lengths(dist.argmax_by_length(), k, self.penalty) if self.penalty else dist.topk(k))


def _of_lengths(each: Derivation, k: int, penalty: float) -> Derivation:
    """The best derivations of each length, (lengths, B, …) → the k best for their length, best first, (k, B, …)"""
    order = penalised(each.log_prob, each.lengths + 1, penalty).argsort(dim=0, descending=True, stable=True)[:k]
    best = each[order, torch.arange(order.shape[1], device=order.device)]
    missing = (0, 0, 0, k - len(order))  # where there are not so many lengths, no answer
    return Derivation(
        nn.functional.pad(best.tokens, (0, 0, *missing)),
        nn.functional.pad(best.lengths, missing),
        nn.functional.pad(best.vertices, (0, 0, *missing), value=-1),
        nn.functional.pad(best.log_prob, missing, value=-math.inf),
    )
