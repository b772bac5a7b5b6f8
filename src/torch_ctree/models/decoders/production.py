"""OM-Seq Cell: the tree's production function, used from left to right."""

from __future__ import annotations

from torch import Tensor, nn

from torch_ctree.models.activation import Activation
from torch_ctree.models.attention import Memory
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.decoders.sequence import SequenceDecoder, State, Step
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.production import Production


class ProductionSequence(SequenceDecoder):
    """Each state has two children: the left one says a word, the right one is the next state.

    This is the tree decoder with its tree fixed, always branching to the right, and with the word before added to the
    context.
    """

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__(config, words, source_words)
        self.activation = Activation(config.width)
        self.root = nn.Linear(config.width, config.width)
        self.production = Production(config.width, self.activation)

    def begin(self, encoding: Encoding) -> State:
        """As the root of the tree."""
        return (self.activation(self.root(encoding.root)),)

    def step(self, state: State, word: Tensor, nodes: Memory) -> Step:
        """word (B,): the one before."""
        state_ = self.dropout(state[0])
        context = self.attention(state_[:, None], nodes)[:, 0] + self.activation(self.embedding(word))
        said, following = self.production(state_, context).unbind(1)
        return Step((following,), said[:, None])
