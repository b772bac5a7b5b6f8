"""Trains a model for a short time, tests it, and serves it beside the one that ships, by the commands a user types."""

import sys
from pathlib import Path

from torch_ctree.cli import main as ctree

LITTLE = ("--optimisation.max_epochs", "1", "--optimisation.epoch_steps", "120")

if __name__ == "__main__":
    folder, port = sys.argv[1:]
    own = str(Path(folder).parent)  # no official files there: the test set is that of the model that ships
    ctree(["train", "demo", "--run", folder, "--data.root", own, *LITTLE])
    ctree(["evaluate", folder])
    ctree(["view", "example", folder, "--port", port])
