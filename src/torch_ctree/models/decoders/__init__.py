"""What says the target."""

from torch_ctree.models.decoders.ctree import CTree as CTree
from torch_ctree.models.decoders.decoder import Decoded as Decoded
from torch_ctree.models.decoders.decoder import Decoder as Decoder
from torch_ctree.models.decoders.decoder import TreeDecoder as TreeDecoder
from torch_ctree.models.decoders.decoder import as_answers as as_answers
from torch_ctree.models.decoders.grammar import Grammar as Grammar
from torch_ctree.models.decoders.lanmt import LaNMT as LaNMT
from torch_ctree.models.decoders.production import ProductionSequence
from torch_ctree.models.decoders.rnn import GRUDecoder, LSTMDecoder
from torch_ctree.models.decoders.transformer import TransformerDecoder

DECODERS: dict[str, type[Decoder]] = {
    "ctree": CTree,
    "grammar": Grammar,
    "production": ProductionSequence,
    "gru": GRUDecoder,
    "lstm": LSTMDecoder,
    "transformer": TransformerDecoder,
    "lanmt": LaNMT,
}
"""By the name that ``ModelConfig.decoder`` gives; add your own."""
