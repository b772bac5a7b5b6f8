"""How good answers and trees are."""

from torch_ctree.evaluation.accuracy import Share as Share
from torch_ctree.evaluation.accuracy import by_length as by_length
from torch_ctree.evaluation.accuracy import exact_match as exact_match
from torch_ctree.evaluation.accuracy import first_word as first_word
from torch_ctree.evaluation.accuracy import token_accuracy as token_accuracy
from torch_ctree.evaluation.bleu import Bleu as Bleu
from torch_ctree.evaluation.bleu import bleu as bleu
from torch_ctree.evaluation.brackets import TreeF1 as TreeF1
from torch_ctree.evaluation.brackets import balanced as balanced
from torch_ctree.evaluation.brackets import left_branching as left_branching
from torch_ctree.evaluation.brackets import right_branching as right_branching
from torch_ctree.evaluation.brackets import spans as spans
from torch_ctree.evaluation.brackets import tree_f1 as tree_f1
from torch_ctree.evaluation.predictions import Prediction as Prediction
from torch_ctree.evaluation.predictions import read_predictions as read_predictions
from torch_ctree.evaluation.predictions import write_predictions as write_predictions
