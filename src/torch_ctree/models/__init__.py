"""Encoders, decoders, and the models made of them."""

from torch_ctree.models.configuration import ModelConfig as ModelConfig
from torch_ctree.models.decoders import DECODERS as DECODERS
from torch_ctree.models.decoders import Decoded as Decoded
from torch_ctree.models.decoders import Decoder as Decoder
from torch_ctree.models.encoders import ENCODERS as ENCODERS
from torch_ctree.models.encoders import Encoding as Encoding
from torch_ctree.models.encoders import SourceEncoder as SourceEncoder
from torch_ctree.models.errors import ModelError as ModelError
from torch_ctree.models.seq2seq import Answer as Answer
from torch_ctree.models.seq2seq import Seq2Seq as Seq2Seq
