"""From text to batches: the paper's tasks, and your own sentence pairs."""

from torch_ctree.data.batching import Batch as Batch
from torch_ctree.data.batching import Batches as Batches
from torch_ctree.data.batching import Epoch as Epoch
from torch_ctree.data.checking import Lengths as Lengths
from torch_ctree.data.checking import SetReport as SetReport
from torch_ctree.data.checking import SideReport as SideReport
from torch_ctree.data.checking import check as check
from torch_ctree.data.detokenizing import detokenize as detokenize
from torch_ctree.data.distilling import distilled as distilled
from torch_ctree.data.encoding import Encoded as Encoded
from torch_ctree.data.encoding import Encoder as Encoder
from torch_ctree.data.encoding import Side as Side
from torch_ctree.data.encoding import load_encoder as load_encoder
from torch_ctree.data.errors import DataError as DataError
from torch_ctree.data.exchanging import exchanged as exchanged
from torch_ctree.data.loading import TASKS as TASKS
from torch_ctree.data.loading import data_folder as data_folder
from torch_ctree.data.loading import load as load
from torch_ctree.data.pairs import Example as Example
from torch_ctree.data.pairs import Pairs as Pairs
from torch_ctree.data.recombining import recombined as recombined
from torch_ctree.data.subwords import Subwords as Subwords
from torch_ctree.data.task import Gold as Gold
from torch_ctree.data.task import Task as Task
from torch_ctree.data.vocabulary import Vocabulary as Vocabulary
