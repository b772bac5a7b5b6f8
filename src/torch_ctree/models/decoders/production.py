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

    This is the tree decoder with its tree fixed, always branching to the right. As in the tree, a word does not see
    those before it.
    """

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__(config, words, source_words)
        self.activation = Activation(config.width)
        self.root = nn.Linear(config.width, config.width)
        self.production = Production(config.width, self.activation)

    def begin(self, encoding: Encoding) -> State:
        """A state and its context, as the root of the tree has them."""
        return self.activation(self.root(encoding.root)), encoding.root

    def step(self, state: State, word: Tensor, nodes: Memory) -> Step:
        """word (B,): the one before."""
        hidden, context = state
        said, following = self.production(self.dropout(hidden), context).unbind(1)
        return Step((following, self.attention(following[:, None], nodes)[:, 0]), said[:, None])
