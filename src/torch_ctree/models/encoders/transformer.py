"""The encoder of a Transformer."""

from __future__ import annotations

from torch import Tensor, nn

from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders.encoding import Encoding, SourceEncoder
from torch_ctree.models.encoders.recurrence import real
from torch_ctree.models.transformer import Layer, positions, seeing_all


class Transformer(SourceEncoder):
    """``layers`` layers in which every word sees every other; the root is the mean of their states."""

    def __init__(self, config: ModelConfig, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.width)
        self.layers = nn.ModuleList(Layer(config, with_source=False) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.dropout = Dropout(config.dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Encoding:
        """tokens (B, S), lengths (B,) → Encoding with M = 1"""
        embeddings, mask = self.embedding(tokens), real(lengths, tokens.shape[1])
        x = self.dropout(embeddings + positions(0, tokens.shape[1], embeddings))
        states = self.norm(seeing_all(self.layers, x, mask))
        root = states.masked_fill(~mask[..., None], 0).sum(1) / lengths[:, None]
        return Encoding(root, states[:, :, None], states, states, embeddings, tokens, mask)
