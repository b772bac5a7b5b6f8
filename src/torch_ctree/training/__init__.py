"""Training: settings, presets, runs."""

from torch_ctree.training.configuration import DataConfig as DataConfig
from torch_ctree.training.configuration import OptimisationConfig as OptimisationConfig
from torch_ctree.training.configuration import TrainConfig as TrainConfig
from torch_ctree.training.configuration import TrainerConfig as TrainerConfig
from torch_ctree.training.configuration import VocabularyConfig as VocabularyConfig
from torch_ctree.training.errors import TrainingError as TrainingError
from torch_ctree.training.presets import ALIASES as ALIASES
from torch_ctree.training.presets import preset as preset
from torch_ctree.training.presets import presets as presets
from torch_ctree.training.presets import small as small
from torch_ctree.training.reading import build as build
from torch_ctree.training.reading import merged as merged
from torch_ctree.training.reading import read as read
