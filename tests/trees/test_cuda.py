"""The same answers on a GPU. Skipped where there is none."""

import warnings

import pytest
import torch

from torch_ctree import LatentTree, LinearEmission, tree_log_likelihood
from torch_ctree.devices import in_tf32, triton_runs
from torch_ctree.trees import search
from torch_ctree.trees.likelihood import SearchKernel, kernel_for

from .test_backends import triton

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

double = torch.float64


def both_devices(make):
    """make(device) on the CPU and on the GPU, the latter brought back."""

    def to_cpu(value):
        return value.cpu() if isinstance(value, torch.Tensor) else [to_cpu(part) for part in value]

    return make(torch.device("cpu")), to_cpu(make(torch.device("cuda")))


@pytest.mark.parametrize("backend", ["paper", "torch", "auto", triton])
def test_likelihood_and_gradient(backend):
    weights, lengths = 5 * torch.randn(7, 20, 127, dtype=double), torch.randint(1, 21, (7,))

    def make(device):
        leaf = weights.to(device).requires_grad_()
        # On a CPU Triton would need its interpreter.
        value = tree_log_likelihood(leaf, lengths.to(device), backend=backend if device.type == "cuda" else "auto")
        return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]

    cpu, cuda = both_devices(make)
    torch.testing.assert_close(list(cpu), cuda)


def test_auto_chooses_what_can_run():
    backend = "triton" if triton_runs(torch.device("cuda")) else "torch"
    assert kernel_for(torch.device("cuda")) is kernel_for(torch.device("cuda"), backend)


@pytest.mark.parametrize("dtype", [torch.float32, double])
@pytest.mark.parametrize(("depth", "N", "batch"), [(3, 6, 2000), (8, 48, 30), (9, 20, 7), (10, 60, 5), (11, 9, 3)])
def test_sizes_that_tests_on_a_cpu_cannot_afford(depth, N, batch, dtype):
    weights = 3 * torch.randn(batch, N, 2 ** (depth + 1) - 1, dtype=dtype, device="cuda")
    lengths = torch.randint(1, N + 1, (batch,), device="cuda")
    results = []
    for backend in ("auto", "torch"):
        leaf = weights.clone().requires_grad_()
        value = tree_log_likelihood(leaf, lengths, backend=backend)
        results.append([value.detach(), *torch.autograd.grad(value.sum(), leaf)])
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-4)
    kernels = kernel_for(weights.device), kernel_for(weights.device, "torch")
    best = [search.best_trees(weights.double(), lengths, kernel=kernel) for kernel in kernels]
    assert torch.equal(*best)
    scores, tokens = -weights[:, 0].double().abs(), torch.zeros_like(weights[:, 0], dtype=torch.long)
    for mine, theirs in zip(
        *(search.best_derivation_within(scores, tokens, N, kernel=kernel) for kernel in kernels), strict=True
    ):
        assert torch.equal(mine, theirs)


def test_the_same_bits_every_time():
    weights, lengths = torch.randn(500, 30, 127, device="cuda"), torch.randint(1, 31, (500,), device="cuda")
    first, *others = (_value_and_gradient(weights, lengths) for _ in range(5))
    assert all(torch.equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def _value_and_gradient(weights, lengths):
    leaf = weights.clone().requires_grad_()
    value = tree_log_likelihood(leaf, lengths, validate_args=False)
    return value.detach(), torch.autograd.grad(value.sum(), leaf)[0]


def test_a_step_and_a_search_in_a_cuda_graph():
    weights, lengths = torch.randn(6, 9, 63, device="cuda"), torch.tensor([9, 3, 7, 1, 2, 9], device="cuda")
    kernel = kernel_for(weights.device)
    if not isinstance(kernel, SearchKernel):
        pytest.skip("no Triton")

    def work():
        return (
            *_value_and_gradient(weights, lengths),
            kernel.best_paths(weights, lengths),
            *kernel.best_path_within(-weights[:, 0].abs(), 9),
            *kernel.best_derivation(*(-weights[:, n].abs() for n in range(3))),
        )

    work()  # compiles
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = work()
    weights.copy_(torch.randn_like(weights))
    lengths.copy_(lengths.flip(0))
    graph.replay()
    for mine, expected in zip(captured, work(), strict=True):
        torch.testing.assert_close(mine, expected, rtol=0, atol=0)


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


@pytest.mark.parametrize("vocabulary", [3, 80, 1000])
def test_probabilities_sum_to_one_in_tf32(vocabulary):
    """Also where logits are large: what multiplies in a kernel and what multiplies in torch see the same numbers."""
    states, weight = 3 * torch.randn(2, 31, 64, device="cuda"), torch.randn(vocabulary, 64, device="cuda")
    every = torch.arange(vocabulary, device="cuda").expand(2, -1)
    with in_tf32():
        emission = LinearEmission(states, weight)
        log_prob = emission.log_prob(every)  # (2, K, 31)
        best, tokens = emission.topk(1)
        vertices = torch.arange(31, device="cuda").expand(2, 31)
        at = emission.log_prob_at(tokens[..., 0], vertices)
    total = log_prob.double().logsumexp(1)
    torch.testing.assert_close(total, torch.zeros_like(total), rtol=0, atol=2e-4)
    torch.testing.assert_close(log_prob.amax(1), best[..., 0], rtol=0, atol=2e-4)
    torch.testing.assert_close(at, best[..., 0], rtol=0, atol=2e-4)


def test_unchecked_training_never_waits_for_the_gpu():
    weights = torch.randn(4, 10, 63, device="cuda", requires_grad=True)
    lengths = torch.tensor([10, 3, 7, 1], device="cuda")
    tree_log_likelihood(weights, lengths).sum().backward()  # anything cached is cached now
    with torch.no_grad():
        search.best_trees(weights, lengths)
    with warnings.catch_warnings(action="ignore"):  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        tree_log_likelihood(weights, lengths, validate_args=False).sum().backward()
        with torch.no_grad():
            search.best_trees(weights, lengths)
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
