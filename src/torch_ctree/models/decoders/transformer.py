"""The decoder of a Transformer."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from torch_ctree.models.attention import Memory
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.decoders.sequence import Places, Reading, State, Step
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.transformer import Heads, Layer, positions


class TransformerDecoder(Reading):
    """Layers in which every word sees those before it, and the source.

    The keys and values of words that have been said are kept: a step computes those of one word.
    """

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__(config, words, source_words)
        self.layers = nn.ModuleList(Layer(config, with_source=True) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.width)

    def nodes(self, encoding: Encoding) -> Memory:
        """What a state attends to, and the layers, each with keys and values of its own."""
        nodes = super().nodes(encoding)
        sources = (cast(Heads, layer.source) for layer in self.layers)
        return nodes._replace(layers=tuple(source.keys_and_values(nodes.values) for source in sources))

    def begin(self, encoding: Encoding) -> State:
        """Keys and values of no word yet, (B, 0, 2H) for each layer"""
        return (encoding.root.new_empty(len(encoding.root), 0, 2 * encoding.root.shape[-1]),) * len(self.layers)

    def step(self, state: State, word: Tensor, nodes: Memory) -> Step:
        """word (B,): the one before."""
        features, state = self.run(state, word[:, None], nodes)
        return Step(state, self.place(features, nodes))

    def forced(self, encoding: Encoding, words: Tensor, nodes: Memory) -> Places:
        """All words in one call: (B, N) → N places"""
        return self.place(self.run(self.begin(encoding), words, nodes)[0], nodes)

    def run(self, state: State, words: Tensor, nodes: Memory) -> tuple[Tensor, State]:
        """words (B, N) → outputs (B, N, H), and the keys and values of these words and of those before"""
        before, count = state[0].shape[1], words.shape[1]
        x = self.read(words)
        x = self.dropout(x + positions(before, count, x))
        seen = torch.ones(1, count, before + count, dtype=torch.bool, device=x.device).tril(before)
        after = []
        for layer, known, source in zip(self.layers, state, nodes.layers, strict=True):
            x, kept = layer(x, known, seen, (source, nodes.mask))
            after.append(kept)
        return self.norm(x), tuple(after)
