"""A sentence together with its tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_ctree.trees.topology import brackets

if TYPE_CHECKING:
    from nltk import Tree

Vocabulary = Sequence[str] | Mapping[int, str] | Callable[[int], str]


@dataclass(frozen=True, eq=False)
class Derivation:
    """Sentences with their trees, padded to the longest.

    A sentence that has no tree (see ``log_prob``) has vertices of −1.
    """

    tokens: Tensor
    """(*batch, N): token ids, anything past a sentence's length."""
    lengths: Tensor
    """(*batch,)"""
    vertices: Tensor
    """(*batch, N): the leaf that emits each token, as a heap index, −1 past a sentence's length."""
    log_prob: Tensor
    """(*batch,): of the whole derivation under the distribution it came from; −inf where there is none."""

    def __getitem__(self, index: Any) -> Derivation:
        """The derivations at an index of the batch dimensions, as for a tensor."""
        fields = (self.tokens, self.lengths, self.vertices, self.log_prob)
        return Derivation(*(field[index] for field in fields))

    def to(self, device: torch.device | str) -> Derivation:
        """The same derivations on a device."""
        return Derivation(
            self.tokens.to(device), self.lengths.to(device), self.vertices.to(device), self.log_prob.to(device)
        )

    def trees(self, vocabulary: Vocabulary | None = None) -> list[Tree]:
        """One ``nltk.Tree`` a sentence, in the order of the flattened batch.

        vocabulary: how a token id is spelled: a list or mapping of strings, or a function; by default the number.
            Inner nodes are labelled "·"; leaves are the strings.
        """
        import nltk  # noqa: PLC0415  (trees stay usable with torch and numpy alone)

        def spell(token: int) -> str:
            if vocabulary is None:
                return str(token)
            return vocabulary(token) if callable(vocabulary) else vocabulary[token]

        def build(shape: list | int, words: list[str]) -> nltk.Tree | str:
            return nltk.Tree("·", [build(part, words) for part in shape]) if isinstance(shape, list) else words[shape]

        result = []
        N = self.tokens.shape[-1]
        rows = zip(self.tokens.reshape(-1, N).tolist(), self.vertices.reshape(-1, N).tolist(), strict=True)
        for i, (length, (tokens, vertices)) in enumerate(zip(self.lengths.flatten().tolist(), rows, strict=True)):
            if vertices[0] < 0:
                raise ValueError(f"sentence {i} has no tree: its log_prob is {self.log_prob.flatten()[i].item()}")
            shape = brackets(vertices[:length])
            tree = build(shape, [spell(token) for token in tokens[:length]])
            result.append(tree if isinstance(tree, nltk.Tree) else nltk.Tree("·", [tree]))
        return result
