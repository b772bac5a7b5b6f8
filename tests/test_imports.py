import subprocess
import sys

import torch_ctree

LISTING = """
import sys, torch, numpy
before = set(sys.modules)
import torch_ctree.trees
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_trees_bring_in_nothing_but_torch_and_numpy():
    out = subprocess.run([sys.executable, "-c", LISTING], check=True, capture_output=True, text=True).stdout.split()
    assert set(out) <= {"torch_ctree", "torch", "numpy"} | sys.stdlib_module_names


def test_public_names():
    assert {"LatentTree", "tree_log_likelihood", "Derivation", "Emission"} <= set(dir(torch_ctree))
