"""What takes long to import, or to load when it is first called: imported by the process that all others are made from.

No thread may be started here: those that are made from it would not have it.
"""

# ruff: noqa: F401
import lightning.pytorch
import pytest
import safetensors.torch
import torch
import torch.utils.tensorboard

import torch_ctree.benchmarking
import torch_ctree.cli
import torch_ctree.experiments.sweep
import torch_ctree.training.running
from torch_ctree.trees import tree_log_likelihood

torch.set_num_threads(1)
tree_log_likelihood(torch.zeros(1, 2, 3, requires_grad=True), torch.tensor([2])).sum().backward()
