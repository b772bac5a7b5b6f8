"""What reads the source."""

from torch_ctree.models.encoders.birnn import BiRNN
from torch_ctree.models.encoders.encoding import Encoding as Encoding
from torch_ctree.models.encoders.encoding import SourceEncoder as SourceEncoder
from torch_ctree.models.encoders.ordered_memory import OrderedMemory
from torch_ctree.models.encoders.spans import Spans
from torch_ctree.models.encoders.transformer import Transformer

ENCODERS: dict[str, type[SourceEncoder]] = {
    "ordered-memory": OrderedMemory,
    "birnn": BiRNN,
    "spans": Spans,
    "transformer": Transformer,
}
"""By the name that ``ModelConfig.encoder`` gives; add your own."""
