"""What only the Numba kernel can get wrong: its own exp and log, lanes, threads, forks, its cache."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
import torch

from torch_ctree import tree_log_likelihood
from torch_ctree.trees.kernels import numba as kernel
from torch_ctree.trees.kernels import torch as torch_kernel


def test_exp_and_log1p_to_the_last_bits():
    @numba.njit
    def apply(t, exp, log):
        for i in range(len(t)):
            exp[i] = kernel._exp_minus(t[i])
            log[i] = kernel._log1p(exp[i] / (2 + exp[i]))

    t = np.concatenate([np.linspace(0, 2, 20_001), np.linspace(2, 699.9, 20_001), [0.0, 5e-324, 1e-17]])
    exp, log = np.empty_like(t), np.empty_like(t)
    apply(t, exp, log)
    np.testing.assert_allclose(exp, np.exp(-t), rtol=1e-15)
    np.testing.assert_allclose(log, np.log1p(exp), rtol=1e-15)

    beyond = np.array([700.0, 1e300, np.inf, np.nan])
    apply(beyond, exp[:4], log[:4])
    assert (exp[:4] == 0).all()
    assert (log[:4] == 0).all()


@pytest.mark.parametrize("batch", [1, 7, 8, 9, 16, 17, 33])
def test_any_number_of_sentences_fills_the_lanes(batch):
    weights = torch.randn(batch, 6, 31, dtype=torch.double)
    lengths = torch.randint(1, 7, (batch,))
    torch.testing.assert_close(
        tree_log_likelihood(weights, lengths, backend="numba"), tree_log_likelihood(weights, lengths, backend="torch")
    )
    for maximise in (False, True):
        mine = kernel.alphas(weights, lengths, maximise)
        theirs = torch_kernel.alphas(weights, lengths, maximise)
        torch.testing.assert_close(mine, theirs)


def test_threads_do_not_change_a_bit(monkeypatch):
    weights, lengths = torch.randn(50, 6, 31), torch.randint(1, 7, (50,))

    def run():
        completions, memory = kernel.forward(weights, lengths)
        return completions, kernel.backward(weights, lengths, memory, torch.ones_like(completions))

    alone = run()
    monkeypatch.setattr(kernel, "NO_THREADS_BELOW", 0)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        together = run()
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))


def test_several_python_threads_at_once(monkeypatch):
    monkeypatch.setattr(kernel, "NO_THREADS_BELOW", 0)
    weights, lengths = torch.randn(40, 6, 31), torch.randint(1, 7, (40,))
    expected = tree_log_likelihood(weights, lengths, backend="numba")
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: tree_log_likelihood(weights, lengths, backend="numba"), range(20)))
    assert all(torch.equal(result, expected) for result in results)


FORK = """
import os, sys, torch
from torch_ctree import tree_log_likelihood
from torch_ctree.trees.kernels import numba as kernel
kernel.NO_THREADS_BELOW = 0
torch.set_num_threads(2)
weights, lengths = torch.randn(40, 6, 31), torch.full((40,), 6)
expected = tree_log_likelihood(weights, lengths, backend="numba")
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(tree_log_likelihood(weights, lengths, backend="numba"), expected) else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_computes_too():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=120)


def test_no_place_for_a_cache(monkeypatch):
    calls = []

    def refuse(**options):
        calls.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(kernel.numba, "njit", refuse)
    assert kernel._compiled()(len) is len
    assert [call.get("cache", False) for call in calls] == [True, False]
