"""Exact inference over latent full binary trees. Needs torch and numpy alone; Numba and NLTK are imported when used."""

from torch_ctree.trees.copying import CopyEmission as CopyEmission
from torch_ctree.trees.derivation import Derivation as Derivation
from torch_ctree.trees.distribution import LatentTree as LatentTree
from torch_ctree.trees.emission import Emission as Emission
from torch_ctree.trees.emission import LinearEmission as LinearEmission
from torch_ctree.trees.emission import TokenLogits as TokenLogits
from torch_ctree.trees.grammar import LatentGrammar as LatentGrammar
from torch_ctree.trees.grammar_posterior import GrammarPosterior as GrammarPosterior
from torch_ctree.trees.likelihood import tree_log_likelihood as tree_log_likelihood
from torch_ctree.trees.posterior import TreePosterior as TreePosterior
from torch_ctree.trees.prior import Leaves as Leaves
from torch_ctree.trees.prior import TreePrior as TreePrior
