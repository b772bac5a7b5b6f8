"""GRU and LSTM decoders with attention."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_ctree.models.attention import Memory
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.decoders.sequence import Places, Reading, State, Step
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.errors import ModelError


class RNNDecoder(Reading):
    """A recurrent network that starts from tanh(linear(root)) and reads the words before; attention follows it."""

    recurrence: nn.GRU | nn.LSTM

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        if config.output == "linear":  # attention follows the network, and words would not see it
            expected = "mlp or lexical-attention or copy"
            raise ModelError(f"output: got 'linear' with the decoder 'gru' or 'lstm'; expected {expected}")
        super().__init__(config, words, source_words)
        self.layers = config.decoder_layers
        self.root = nn.Linear(config.width, self.layers * config.width)

    def begin(self, encoding: Encoding) -> State:
        """(B, layers, H), and for an LSTM its cells too"""
        return (torch.tanh(self.root(encoding.root)).unflatten(-1, (self.layers, -1)),)

    def step(self, state: State, word: Tensor, nodes: Memory) -> Step:
        """word (B,): the one before."""
        features, state = self.run(state, word[:, None])
        return Step(state, self.place(features, nodes))

    def forced(self, encoding: Encoding, words: Tensor, nodes: Memory) -> Places:
        """All words in one call: (B, N) → N places"""
        return self.place(self.run(self.begin(encoding), words)[0], nodes)

    def run(self, state: State, words: Tensor) -> tuple[Tensor, State]:
        """words (B, N) → outputs (B, N, H), and the state after them"""
        before = [part.transpose(0, 1).contiguous() for part in state]  # (layers, B, H)
        out, after = self.recurrence(self.dropout(self.read(words)), before[0] if len(before) == 1 else tuple(before))
        after = after if isinstance(after, tuple) else (after,)
        return self.dropout(out), tuple(part.transpose(0, 1) for part in after)


class GRUDecoder(RNNDecoder):
    """With gated recurrent units."""

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__(config, words, source_words)
        self.recurrence = nn.GRU(config.width, config.width, self.layers, batch_first=True)


class LSTMDecoder(RNNDecoder):
    """With long short-term memory; its cells start at zero."""

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__(config, words, source_words)
        self.recurrence = nn.LSTM(config.width, config.width, self.layers, batch_first=True)

    def begin(self, encoding: Encoding) -> State:
        """Hidden states and cells, (B, layers, H) each"""
        (hidden,) = super().begin(encoding)
        return hidden, torch.zeros_like(hidden)
