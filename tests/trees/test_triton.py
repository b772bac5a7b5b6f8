"""What only the Triton kernels have: searches on the device. On a GPU where there is one, interpreted where not."""

import math
from functools import partial

import pytest
import torch

from torch_ctree import devices
from torch_ctree.trees import likelihood, naive, search
from torch_ctree.trees.kernels import torch as torch_kernel
from torch_ctree.trees.likelihood import SearchKernel, kernel_for
from torch_ctree.trees.topology import topology

from ..measure import leaves

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not devices.triton_runs(DEVICE), reason="Triton cannot run here")
DTYPES = [torch.float32, torch.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES)
sizes = pytest.mark.parametrize(("depth", "N"), [(0, 2), (1, 2), (1, 3), (2, 4), (3, 5), (4, 16), (5, 6), (6, 3)])


@pytest.fixture
def kernel() -> SearchKernel:
    kernel = kernel_for(DEVICE, "triton")
    assert isinstance(kernel, SearchKernel)
    return kernel


@pytest.fixture(params=[False, True], ids=["", "poisoned"])
def memory(request):
    """Run once as usual, once where memory that nobody has written holds NaN and large integers."""
    torch.use_deterministic_algorithms(request.param)
    yield
    torch.use_deterministic_algorithms(False)


def on_device(*tensors):
    return [tensor.to(DEVICE) for tensor in tensors]


def to_cpu(found):
    return search.Found(*(part.cpu() for part in found))


def assert_same(mine, theirs):
    for part, expected in zip(to_cpu(mine), theirs, strict=True):
        assert torch.equal(part, expected)


def random_weights(depth, N, dtype, batch=3):
    """Some tokens impossible at some vertices, garbage past the end → weights (B, N, V), lengths (B,)."""
    weights = 3 * torch.randn(batch, N, topology(depth).vertices, dtype=dtype)
    weights[torch.rand_like(weights) < 0.1] = -math.inf
    lengths = torch.randint(1, N + 1, (batch,))
    lengths[0] = N
    weights[torch.arange(N) >= lengths[:, None]] = math.nan
    return weights, lengths


# --- the table --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
@dtypes
@pytest.mark.parametrize("maximise", [False, True])
@pytest.mark.parametrize(("depth", "N"), [(0, 2), (1, 3), (3, 5), (5, 4)])
def test_the_table(kernel, depth, N, dtype, maximise):
    weights, lengths = random_weights(depth, N, dtype)
    mine = kernel.alphas(*on_device(weights, lengths), maximise)
    torch.testing.assert_close(mine.cpu(), torch_kernel.alphas(weights, lengths, maximise))


def test_the_gradient_of_every_completion(kernel):
    weights, lengths = random_weights(4, 6, torch.float64)
    completions, alphas = torch_kernel.forward(weights, lengths)
    grad = torch.randn(3, 6, dtype=torch.float64).masked_fill(completions == -math.inf, 0)
    expected = torch_kernel.backward(weights, lengths, alphas, grad)
    weights, lengths, grad = on_device(weights, lengths, grad)
    mine, memory = kernel.forward(weights, lengths)
    torch.testing.assert_close(mine.cpu(), completions)
    for strided in (grad, grad.T.contiguous().T):
        torch.testing.assert_close(kernel.backward(weights, lengths, memory, strided).cpu(), expected)


def test_unchecked_lengths_leave_nothing_else_touched(kernel):
    weights, lengths = on_device(torch.randn(3, 4, 7), torch.tensor([9, 0, -2]))  # nobody promised to check
    completions, memory = kernel.forward(weights, lengths)
    gradient = kernel.backward(weights, lengths, memory, torch.ones_like(completions))
    assert (completions[1:] == -math.inf).all()
    assert (gradient[1:] == 0).all()
    torch.testing.assert_close(gradient[0].sum().cpu(), torch.tensor(10.0))  # as if it were 4: 1 + 2 + 3 + 4 tokens


# --- the best tree of a sentence --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
@dtypes
@sizes
def test_best_trees_as_in_torch(kernel, depth, N, dtype):
    weights, lengths = random_weights(depth, N, dtype)
    mine = search.best_trees(*on_device(weights, lengths), kernel=kernel).cpu()
    assert torch.equal(mine, search.best_trees(weights, lengths, kernel=torch_kernel))


def test_best_trees_by_enumeration(kernel):
    weights = torch.randn(4, 5, 15, dtype=torch.float64)
    lengths = torch.tensor([5, 3, 4, 1])
    mine = search.best_trees(*on_device(weights, lengths), kernel=kernel)
    for row, n, found in zip(weights, lengths.tolist(), leaves(mine), strict=True):
        trees = [tree for tree in naive.trees(3) if len(tree) == n]
        scores = [row[torch.arange(n), list(tree)].sum().item() for tree in trees]
        assert found == trees[scores.index(max(scores))]


def test_equal_scores_are_resolved_as_in_torch(kernel):
    weights, lengths = torch.zeros(4, 6, 31), torch.tensor([6, 1, 3, 5])
    mine = search.best_trees(*on_device(weights, lengths), kernel=kernel).cpu()
    assert torch.equal(mine, search.best_trees(weights, lengths, kernel=torch_kernel))
    scores = -torch.randint(2, (5, 15)).float()
    tokens = torch.arange(15).expand(5, -1)
    for max_length in (1, 3, 8):
        mine = search.best_derivation_within(*on_device(scores, tokens), max_length=max_length, kernel=kernel)
        assert_same(mine, search.best_derivation_within(scores, tokens, max_length, kernel=torch_kernel))


def test_sentences_without_a_tree(kernel):
    weights = torch.randn(3, 9, 15)
    weights[1, 2] = -math.inf
    mine = search.best_trees(*on_device(weights, torch.tensor([9, 4, 8])), kernel=kernel).cpu()
    assert (mine[:2] == -1).all()
    assert mine[2].tolist() == [*range(7, 15), -1]


def test_weights_of_any_strides(kernel):
    weights, lengths = torch.randn(15, 5, 3), torch.tensor([5, 3, 4])
    for strided in (weights.permute(2, 1, 0), torch.randn(5, 3, 15).transpose(0, 1), torch.randn(15).expand(3, 5, 15)):
        expected = search.best_trees(strided, lengths, kernel=torch_kernel)
        assert torch.equal(search.best_trees(*on_device(strided, lengths), kernel=kernel).cpu(), expected)
        for sizes in (lengths, torch.tensor(4).expand(3)):
            mine = kernel.alphas(*on_device(strided, sizes)).cpu()
            torch.testing.assert_close(mine, torch_kernel.alphas(strided, sizes))


# --- the best sentence with its tree ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("memory")
@dtypes
@pytest.mark.parametrize(("depth", "max_length"), [(0, 1), (0, 3), (1, 2), (2, 3), (3, 2), (3, 8), (4, 20), (6, 5)])
def test_best_within_a_length_as_in_torch(kernel, depth, max_length, dtype):
    V = topology(depth).vertices
    scores = 0.01 - 2 * torch.rand(4, V, dtype=dtype)
    scores[0, : V // 2] = -math.inf  # all of the tree or nothing
    tokens = torch.randint(9, (4, V))
    mine = search.best_derivation_within(*on_device(scores, tokens), max_length=max_length, kernel=kernel)
    assert_same(mine, search.best_derivation_within(scores, tokens, max_length, kernel=torch_kernel))


def choices(depth, dtype, batch=4):
    """→ log_leaf, log_split, token_scores, tokens, as LatentTree has them."""
    V = topology(depth).vertices
    logits = torch.randn(batch, V, dtype=dtype) - 1
    log_leaf, log_split = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    log_leaf[:, V // 2 :], log_split[:, V // 2 :] = 0, -math.inf
    return log_leaf, log_split, -torch.rand(batch, V, 1, dtype=dtype), torch.randint(9, (batch, V, 1))


@pytest.mark.usefixtures("memory")
@dtypes
@pytest.mark.parametrize("depth", range(7))
def test_best_derivation_as_in_torch(kernel, depth, dtype):
    given = choices(depth, dtype)
    given[2][1] = -math.inf  # no tree at all
    mine = search.best_derivations(*on_device(*given), k=1, kernel=kernel)
    assert_same(mine, search.best_derivations(*given, 1, kernel=torch_kernel))


def test_best_derivation_with_ties_and_strides(kernel):
    log_leaf, log_split = torch.zeros(31).expand(3, 31), torch.zeros(3, 31)
    log_split[1] = 0.5
    tokens = torch.randint(4, (3, 31, 1))
    given = log_leaf, log_split, torch.zeros(31, 1, 3).permute(2, 0, 1), tokens
    mine = search.best_derivations(*on_device(*given), k=1, kernel=kernel)
    assert_same(mine, search.best_derivations(*given, 1, kernel=torch_kernel))
    assert mine.lengths.tolist() == [[1, 16, 1]]


def test_best_derivation_of_mixed_dtypes(kernel):
    log_leaf, log_split, scores, tokens = choices(4, torch.float32)
    given = log_leaf, log_split, scores.double(), tokens
    mine = search.best_derivations(*on_device(*given), k=1, kernel=kernel)
    assert mine.scores.dtype == torch.float64
    assert_same(mine, search.best_derivations(*given, 1, kernel=torch_kernel))


def test_more_than_the_best_are_found_without_it(kernel):
    given = choices(3, torch.float32)
    mine = search.best_derivations(*on_device(*given), k=3, kernel=kernel)
    assert_same(mine, search.best_derivations(*given, 3, kernel=torch_kernel))


def test_empty_batches(kernel):
    nothing = torch.zeros(0, 7, device=DEVICE)
    tokens = torch.zeros(0, 7, dtype=torch.long, device=DEVICE)
    assert search.best_trees(nothing[:, None], tokens[:, 0], kernel=kernel).shape == (0, 1)
    assert search.best_derivation_within(nothing, tokens, 3, kernel=kernel).lengths.shape == (0,)
    found = search.best_derivations(nothing, nothing, nothing[..., None], tokens[..., None], 1, kernel=kernel)
    assert found.lengths.shape == (1, 0)


def test_trees_that_are_too_deep():
    deepest = likelihood.DEEPEST_IN_TRITON
    with pytest.raises(ValueError, match=f"backend: got 'triton' with depth {deepest + 1}; expected {deepest} at most"):
        likelihood.kernel_for(DEVICE, "triton", deepest + 1)
    assert likelihood.kernel_for(DEVICE, "triton", deepest) is kernel_for(DEVICE, "triton")


@pytest.mark.parametrize(
    "best",
    [search.best_derivation_of_each_length, partial(search.best_derivation_for_its_length, penalty=0.7)],
    ids=["of each", "for its"],
)
def test_the_best_by_length(kernel, memory, best):
    """The table of maxima is the kernel's, what is read off it is as with tensor operations."""
    scores, tokens = 3 * torch.randn(7, 31) - 6, torch.randint(9, (7, 31))
    expected = best(scores, tokens, 12, kernel=kernel_for(torch.device("cpu"), "torch"))
    found = best(*on_device(scores, tokens), 12, kernel=kernel)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)
