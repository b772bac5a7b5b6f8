"""torch-ctree: latent binary trees for PyTorch."""

from torch_ctree.trees import Derivation as Derivation
from torch_ctree.trees import Emission as Emission
from torch_ctree.trees import LatentTree as LatentTree
from torch_ctree.trees import LinearEmission as LinearEmission
from torch_ctree.trees import TokenLogits as TokenLogits
from torch_ctree.trees import TreePosterior as TreePosterior
from torch_ctree.trees import TreePrior as TreePrior
from torch_ctree.trees import tree_log_likelihood as tree_log_likelihood

__version__ = "0.1.0"
