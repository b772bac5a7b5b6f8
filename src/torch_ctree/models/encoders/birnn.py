"""A deep bidirectional GRU: the encoder of the paper's BiRNN and Seq rows."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders.encoding import Encoding, SourceEncoder
from torch_ctree.models.encoders.recurrence import Bidirectional, real


class BiRNN(SourceEncoder):
    """``layers`` bidirectional layers; the root is tanh(linear(the last states of all layers and directions)).

    With dropout between layers, and of the root.
    """

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.width)
        self.layers = nn.ModuleList(Bidirectional(config.width, config.width) for _ in range(config.layers))
        self.dropout = Dropout(config.dropout)
        self.root = nn.Linear(config.layers * config.width, config.width)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Encoding:
        """tokens (B, S), lengths (B,) → Encoding with M = 1"""
        embeddings = states = self.embedding(tokens)
        lasts = []
        for n, layer in enumerate(self.layers):
            states, last = layer(self.dropout(states) if n else states, lengths)
            lasts.append(last)
        root = self.dropout(torch.tanh(self.root(torch.cat(lasts, -1))))
        mask = real(lengths, tokens.shape[1])
        return Encoding(root, states[:, :, None], states, states, embeddings, tokens, mask)
