"""The same answers on a GPU. Skipped where there is none."""

import warnings

import pytest
import torch

from torch_ctree import LatentTree, LinearEmission, tree_log_likelihood
from torch_ctree.trees.kernels import torch as torch_kernel
from torch_ctree.trees.likelihood import kernel_for

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

double = torch.float64


def both_devices(make):
    """make(device) on the CPU and on the GPU, the latter brought back."""

    def to_cpu(value):
        return value.cpu() if isinstance(value, torch.Tensor) else [to_cpu(part) for part in value]

    return make(torch.device("cpu")), to_cpu(make(torch.device("cuda")))


@pytest.mark.parametrize("backend", ["paper", "torch", "auto"])
def test_likelihood_and_gradient(backend):
    weights, lengths = 5 * torch.randn(7, 20, 127, dtype=double), torch.randint(1, 21, (7,))

    def make(device):
        leaf = weights.to(device).requires_grad_()
        value = tree_log_likelihood(leaf, lengths.to(device), backend=backend)
        return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]

    cpu, cuda = both_devices(make)
    torch.testing.assert_close(list(cpu), cuda)


def test_auto_chooses_what_can_run():
    assert kernel_for(torch.device("cuda")) is torch_kernel


@pytest.mark.parametrize("kind", ["logits", "linear"])
def test_the_distribution(kind):
    leaf_logits, states, weight = torch.randn(3, 31, dtype=double), torch.randn(3, 31, 4), torch.randn(6, 4)
    tokens, lengths = torch.randint(6, (3, 9)), torch.tensor([9, 4, 7])

    def make(device):
        s, w = states.double().to(device), weight.double().to(device)
        dist = LatentTree(leaf_logits.to(device), s @ w.T if kind == "logits" else LinearEmission(s, w))
        sentence = tokens.to(device), lengths.to(device)
        post = dist.posterior(*sentence)
        assert dist.sample((5,)).tokens.device.type == post.sample((5,)).vertices.device.type == device.type
        derivations = (dist.argmax(), dist.argmax(3), dist.topk(4), post.argmax(), post.topk(4))
        return [
            dist.log_prob(*sentence),
            dist.length_log_prob(),
            dist.prior.entropy(),
            post.marginals(),
            post.entropy(),
            *(found.log_prob for found in derivations),
            *(found.vertices for found in derivations),
            *(dist.joint_log_prob(found) for found in derivations),
        ]

    cpu, cuda = both_devices(make)
    torch.testing.assert_close(cpu, cuda)


def test_unchecked_training_never_waits_for_the_gpu():
    weights = torch.randn(4, 10, 63, device="cuda", requires_grad=True)
    lengths = torch.tensor([10, 3, 7, 1], device="cuda")
    tree_log_likelihood(weights, lengths).sum().backward()  # anything cached is cached now
    with warnings.catch_warnings(action="ignore"):  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        tree_log_likelihood(weights, lengths, validate_args=False).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_tensors_on_different_devices():
    weights, lengths = torch.zeros(1, 2, 3, device="cuda"), torch.tensor([2])
    with pytest.raises(ValueError, match=r"lengths: got a tensor on cpu; expected one on cuda"):
        tree_log_likelihood(weights, lengths)
    with pytest.raises(ValueError, match=r"backend: got 'numba' with log_weights on cuda"):
        tree_log_likelihood(weights, lengths.cuda(), backend="numba")
    with pytest.raises(ValueError, match=r"tokens: got a tensor on cpu; expected one on cuda"):
        LatentTree(torch.zeros(3, device="cuda"), torch.zeros(3, 2, device="cuda")).log_prob(lengths)
