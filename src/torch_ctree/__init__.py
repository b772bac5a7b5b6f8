"""torch-ctree: latent binary trees for PyTorch."""

from typing import TYPE_CHECKING, Any

from torch_ctree.trees import CopyEmission as CopyEmission
from torch_ctree.trees import Derivation as Derivation
from torch_ctree.trees import Emission as Emission
from torch_ctree.trees import LatentTree as LatentTree
from torch_ctree.trees import LinearEmission as LinearEmission
from torch_ctree.trees import TokenLogits as TokenLogits
from torch_ctree.trees import TreePosterior as TreePosterior
from torch_ctree.trees import TreePrior as TreePrior
from torch_ctree.trees import tree_log_likelihood as tree_log_likelihood

if TYPE_CHECKING:
    from torch_ctree.models import ModelConfig as ModelConfig
    from torch_ctree.models import Seq2Seq as Seq2Seq

__version__ = "0.1.0"

_MODELS = ("ModelConfig", "Seq2Seq")


def __getattr__(name: str) -> Any:
    """Models bring in more than torch and numpy: only when they are asked for."""
    if name in _MODELS:
        from torch_ctree import models  # noqa: PLC0415

        return getattr(models, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, models included."""
    return sorted([*globals(), *_MODELS])
