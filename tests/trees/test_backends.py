"""The contract of tree_log_likelihood: every backend passes every test here."""

import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

from torch_ctree import TreePrior, devices, tree_log_likelihood
from torch_ctree.trees import naive
from torch_ctree.trees.kernels import numba as numba_kernel
from torch_ctree.trees.kernels import torch as torch_kernel
from torch_ctree.trees.likelihood import kernel_for
from torch_ctree.trees.topology import topology

from ..measure import Recorder

GPU = torch.device(
    "cuda" if torch.cuda.is_available() else "cpu"
)  # where Triton's kernels run, compiled or interpreted
triton = pytest.param("triton", marks=pytest.mark.skipif(not devices.triton_runs(GPU), reason="Triton cannot run here"))
BACKENDS = ["paper", "torch", "numba", triton]
backends = pytest.mark.parametrize("backend", BACKENDS)
with_hand_written_derivative = pytest.mark.parametrize("backend", ["torch", "numba", triton])
double = torch.float64


def device_of(backend):
    return GPU if backend == "triton" else torch.device("cpu")


def interpreted(backend):
    """Whether a token takes milliseconds: tests then take smaller trees, fewer sentences."""
    return device_of(backend).type == "cpu" and backend == "triton"


def examples(backend, **strategies):
    """Hypothesis, with few examples where they are slow."""
    given_strategies = given(**strategies)
    return lambda test: settings(max_examples=3 if interpreted(backend) else 40)(given_strategies(test))()


def likelihood(log_weights, lengths, backend):
    device = device_of(backend)
    return tree_log_likelihood(log_weights.to(device), lengths.to(device), backend=backend).cpu()


def value_and_gradient(log_weights, lengths, backend):
    log_weights = log_weights.detach().clone().requires_grad_()
    value = likelihood(log_weights, lengths, backend)
    (gradient,) = torch.autograd.grad(value.sum(), log_weights)
    return value.detach(), gradient


# --- against enumeration ----------------------------------------------------------------------------------------------


@cache
def enumerated(depth, N):
    """Random weights, and the log-likelihood and marginals that enumeration gives for them."""
    generator = torch.Generator().manual_seed(100 * depth + N)
    weights = 3 * torch.randn(2, N, topology(depth).vertices, dtype=double, generator=generator)
    values = torch.tensor([naive.log_likelihood(sentence) for sentence in weights], dtype=double)
    return weights, values, torch.stack([naive.marginals(sentence) for sentence in weights])


@backends
@pytest.mark.parametrize("depth", range(5))
def test_equals_enumeration_for_every_length(backend, depth):
    for N in range(1, 2**depth + 2, 4 if interpreted(backend) and depth == 4 else 1):  # the last one fits no tree
        weights, values, marginals = enumerated(depth, N)
        value, gradient = value_and_gradient(weights, torch.full((2,), N), backend)
        torch.testing.assert_close(value, values)
        torch.testing.assert_close(gradient, marginals)


@backends
@pytest.mark.parametrize("depth", range(9))
def test_counts_trees(backend, depth):
    # With weights of one the likelihood is the number of trees: the Catalan numbers, then the recurrence.
    if interpreted(backend) and depth > 3:
        pytest.skip("slow in Triton's interpreter")
    N = min(2**depth + 1, 60)
    lengths = torch.arange(1, N + 1)
    weights = torch.zeros(N, N, topology(depth).vertices, dtype=double)
    value = likelihood(weights, lengths, backend)
    counts = [naive.count(depth, n) for n in lengths.tolist()]
    expected = torch.tensor([math.log(count) if count else -math.inf for count in counts], dtype=double)
    torch.testing.assert_close(value, expected)


@backends
def test_the_probabilities_of_all_trees_sum_to_one(backend):
    depths = st.integers(0, 3 if interpreted(backend) else 6)

    @examples(backend, depth=depths, scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]), seed=st.integers(0, 99))
    def check(depth, scale, seed):
        generator = torch.Generator().manual_seed(seed)
        log_m = TreePrior(scale * torch.randn(topology(depth).vertices, dtype=double, generator=generator)).log_m()
        lengths = torch.arange(1, 2**depth + 1)
        by_length = likelihood(log_m.expand(len(lengths), len(lengths), -1), lengths, backend)
        assert by_length.exp().sum().item() == pytest.approx(1)


# --- derivatives ------------------------------------------------------------------------------------------------------


@backends
@pytest.mark.parametrize(("depth", "N"), [(0, 1), (1, 2), (2, 3), (3, 5), (3, 8)])
def test_gradcheck(backend, depth, N):
    weights = torch.randn(3, N, topology(depth).vertices, dtype=double, requires_grad=True)
    lengths = torch.tensor([N, 1, max(1, N - 1)])
    assert gradcheck(lambda w: likelihood(w, lengths, backend), weights, fast_mode=interpreted(backend))


@backends
def test_gradgradcheck(backend):
    weights = torch.randn(2, 4, 15, dtype=double, requires_grad=True)
    lengths = torch.tensor([4, 3])
    assert gradgradcheck(lambda w: likelihood(w, lengths, backend), weights, fast_mode=interpreted(backend))


@backends
def test_second_derivative_is_finite_where_tokens_are_impossible(backend):
    weights = torch.randn(1, 4, 15, dtype=double)
    weights[0, 1, ::2] = -math.inf
    weights.requires_grad_()
    value = likelihood(weights, torch.tensor([4]), backend)
    (gradient,) = torch.autograd.grad(value, weights, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), weights)
    assert second.isfinite().all()
    assert second.abs().max() > 0


@backends
def test_marginals_of_each_token_sum_to_one(backend):
    weights = 10 * torch.randn(4, 20, 127)
    lengths = torch.tensor([20, 1, 7, 13])
    _, gradient = value_and_gradient(weights, lengths, backend)
    alive = torch.arange(20) < lengths[:, None]
    torch.testing.assert_close(gradient.sum(-1), alive.float(), atol=1e-4, rtol=0)
    assert (gradient >= 0).all()


@backends
def test_small_marginals_keep_their_digits(backend):
    # Two trees of three leaves, one e^60 times as probable as the other, in either order.
    for better in (1, 2):
        weights = torch.zeros(1, 3, 7, dtype=double)
        weights[0, 0 if better == 1 else 2, better] = 60
        _, gradient = value_and_gradient(weights, torch.tensor([3]), backend)
        worse = 3 - better
        assert gradient[0, 0 if worse == 1 else 2, worse].item() == pytest.approx(math.exp(-60), rel=1e-12)


@backends
def test_upstream_gradients_scale_each_sentence(backend):
    weights = torch.randn(3, 5, 15, dtype=double, requires_grad=True)
    lengths = torch.tensor([5, 2, 4])
    upstream = torch.tensor([2.0, -1.0, 0.0], dtype=double)
    (scaled,) = torch.autograd.grad(likelihood(weights, lengths, backend), weights, upstream)
    _, plain = value_and_gradient(weights, lengths, backend)
    torch.testing.assert_close(scaled, plain * upstream[:, None, None])


# --- batches, shapes, dtypes ------------------------------------------------------------------------------------------


@backends
def test_a_ragged_batch_equals_its_sentences_one_by_one(backend):
    depths, tokens, sentences = (3, 4, 3) if interpreted(backend) else (5, 12, 20)

    @examples(backend, data=st.data())
    def check(data):
        depth = data.draw(st.integers(0, depths))
        N = data.draw(st.integers(1, tokens))
        lengths = torch.tensor(data.draw(st.lists(st.integers(1, N), min_size=1, max_size=sentences)))
        generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**20)))
        weights = torch.randn(len(lengths), N, topology(depth).vertices, dtype=double, generator=generator)
        weights = data.draw(st.sampled_from([1.0, 30.0, 1e4])) * weights
        padding = torch.arange(N) >= lengths[:, None]
        weights[padding] = data.draw(st.sampled_from([0.0, math.nan, math.inf, -math.inf]))  # nobody may read it
        value, gradient = value_and_gradient(weights, lengths, backend)
        assert (gradient[padding] == 0).all()
        for b, n in enumerate(lengths.tolist()):
            alone, alone_gradient = value_and_gradient(weights[b : b + 1, :n], lengths[b : b + 1], backend)
            torch.testing.assert_close(value[b], alone[0])
            torch.testing.assert_close(gradient[b, :n], alone_gradient[0])


@backends
def test_a_mirror_image_has_the_same_likelihood(backend):
    tokens = st.integers(1, 5 if interpreted(backend) else 12)

    @examples(
        backend, depth=st.integers(0, 5), N=tokens, scale=st.sampled_from([0.1, 3.0, 1e3]), seed=st.integers(0, 99)
    )
    def check(depth, N, scale, seed):
        weights = scale * torch.randn(2, N, topology(depth).vertices, generator=torch.Generator().manual_seed(seed))
        tree = topology(depth)
        mirror = torch.tensor(tree.heap[tree.vertices - 1 - tree.inorder])
        lengths = torch.full((2,), N)
        value = likelihood(weights.double(), lengths, backend)
        mirrored = likelihood(weights.double().flip(1)[..., mirror], lengths, backend)
        torch.testing.assert_close(value, mirrored)


@pytest.mark.parametrize("backend", ["paper", "numba", triton])
def test_backends_agree(backend):
    tokens, sentences = (7, 3) if interpreted(backend) else (30, 17)

    @examples(
        backend,
        depth=st.integers(0, 6),
        N=st.integers(1, tokens),
        batch=st.integers(1, sentences),
        seed=st.integers(0, 99),
    )
    def check(depth, N, batch, seed):
        generator = torch.Generator().manual_seed(seed)
        weights = 5 * torch.randn(batch, N, topology(depth).vertices, generator=generator)
        lengths = torch.randint(1, N + 1, (batch,), generator=generator)
        for mine, theirs in zip(
            value_and_gradient(weights, lengths, backend), value_and_gradient(weights, lengths, "torch"), strict=True
        ):
            torch.testing.assert_close(mine, theirs, atol=1e-4, rtol=1e-5)


@backends
def test_weights_that_are_not_contiguous(backend):
    weights = torch.randn(15, 5, 3, dtype=double)
    lengths = torch.tensor([5, 3, 4])
    strided = value_and_gradient(weights.permute(2, 1, 0), lengths, backend)
    plain = value_and_gradient(weights.permute(2, 1, 0).contiguous(), lengths, backend)
    torch.testing.assert_close(strided, plain)
    same_for_all = torch.randn(15, dtype=double).expand(3, 5, 15)
    torch.testing.assert_close(
        value_and_gradient(same_for_all, lengths, backend),
        value_and_gradient(same_for_all.contiguous(), lengths, backend),
    )


@backends
def test_an_empty_batch(backend):
    value, gradient = value_and_gradient(torch.zeros(0, 3, 7), torch.zeros(0, dtype=torch.long), backend)
    assert value.shape == (0,)
    assert gradient.shape == (0, 3, 7)


@backends
@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_lengths_of_any_integer_type(backend, dtype):
    weights = torch.randn(2, 3, 7)
    lengths = torch.tensor([3, 2])
    expected = likelihood(weights, lengths, backend)
    assert torch.equal(likelihood(weights, lengths.to(dtype), backend), expected)


@backends
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(backend, dtype):
    weights = (5 * torch.randn(3, 20, 63)).to(dtype)
    lengths = torch.tensor([20, 9, 14])
    value, gradient = value_and_gradient(weights, lengths, backend)
    exact, exact_gradient = value_and_gradient(weights.float(), lengths, backend)
    assert value.dtype == torch.float32
    assert gradient.dtype == dtype
    assert torch.equal(value, exact)
    torch.testing.assert_close(gradient, exact_gradient.to(dtype))


@backends
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_dtype_stays(backend, dtype):
    value, gradient = value_and_gradient(torch.randn(2, 3, 7, dtype=dtype), torch.tensor([3, 2]), backend)
    assert value.dtype == gradient.dtype == dtype


@backends
def test_the_weights_are_not_edited(backend):
    weights = torch.randn(2, 3, 7)
    before = weights.clone()
    value_and_gradient(weights, torch.tensor([3, 2]), backend)
    assert torch.equal(weights, before)


@backends
def test_no_result_depends_on_uninitialised_memory(backend):
    weights, lengths = torch.randn(9, 6, 31), torch.tensor([6, 1, 3, 2, 5, 4, 6, 6, 2])
    plain = value_and_gradient(weights, lengths, backend)
    torch.use_deterministic_algorithms(True)  # torch.empty then fills with NaN
    try:
        assert torch.empty(3).isnan().all()
        poisoned = value_and_gradient(weights, lengths, backend)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(plain, poisoned, rtol=0, atol=0)


# --- extremes ---------------------------------------------------------------------------------------------------------


@backends
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_huge_weights(backend, dtype):
    weights = 1e4 * torch.randn(4, 8, 31, dtype=dtype).sign()
    lengths = torch.tensor([8, 5, 1, 3])
    value, gradient = value_and_gradient(weights, lengths, backend)
    for b, n in enumerate(lengths.tolist()):
        assert value[b].item() == pytest.approx(naive.log_likelihood(weights[b, :n].double()), rel=1e-6)
        exact = naive.marginals(weights[b, :n].double()).to(dtype)
        torch.testing.assert_close(gradient[b, :n], exact, atol=2e-2 if dtype == torch.float32 else 1e-8, rtol=0)


@backends
def test_a_token_that_nobody_can_emit(backend):
    weights = torch.randn(3, 4, 15)
    weights[0, 2] = -math.inf
    weights[1, 0, 1:] = -math.inf  # only the root can say it: impossible for four tokens
    value, gradient = value_and_gradient(weights, torch.tensor([4, 4, 4]), backend)
    assert value[:2].tolist() == [-math.inf, -math.inf]
    assert value[2].isfinite()
    assert (gradient[:2] == 0).all()
    assert gradient[2].sum().item() == pytest.approx(4, abs=1e-5)


@backends
def test_a_vertex_that_cannot_emit_has_no_gradient(backend):
    weights = torch.randn(1, 4, 15)
    weights[0, 1, 8] = -math.inf
    value, gradient = value_and_gradient(weights, torch.tensor([4]), backend)
    assert value.isfinite().all()
    assert gradient[0, 1, 8] == 0
    assert gradient.isfinite().all()


@backends
def test_a_full_tree_has_one_derivation(backend):
    weights = torch.randn(1, 16, 31, dtype=double)
    value, gradient = value_and_gradient(weights, torch.tensor([16]), backend)
    assert value.item() == pytest.approx(weights[0, torch.arange(16), torch.arange(15, 31)].sum().item())
    assert torch.equal(gradient[0].nonzero(), torch.stack([torch.arange(16), torch.arange(15, 31)], dim=1))


@backends
def test_depth_zero_and_length_one(backend):
    weights = torch.randn(2, 3, 1)
    value = likelihood(weights, torch.tensor([1, 2]), backend)
    assert value[0] == weights[0, 0, 0]
    assert value[1] == -math.inf
    deep = torch.randn(1, 1, 511)
    assert likelihood(deep, torch.tensor([1]), backend).item() == pytest.approx(deep[0, 0, 0].item())


@backends
def test_sentences_no_tree_can_hold(backend):
    value, gradient = value_and_gradient(torch.randn(2, 9, 15), torch.tensor([9, 8]), backend)
    assert value[0] == -math.inf
    assert value[1].isfinite()
    assert (gradient[0] == 0).all()
    assert gradient.isfinite().all()


# --- cost -------------------------------------------------------------------------------------------------------------


def recorded(depth, N, backend):
    weights = torch.zeros(2, N, topology(depth).vertices, device=device_of(backend), requires_grad=True)
    lengths = torch.full((2,), N, device=device_of(backend))
    tree_log_likelihood(weights, lengths, backend=backend).sum().backward()  # anything cached is cached now
    with Recorder() as recorder:
        tree_log_likelihood(weights, lengths, backend=backend).sum().backward()
    return recorder.sizes


@with_hand_written_derivative
def test_no_tensor_is_larger_than_the_weights(backend):
    lanes = 4 if backend == "numba" or interpreted(backend) else 1  # two sentences padded to eight; bytes counted
    limit = 2 * 16 * topology(7).vertices
    assert max(recorded(7, 16, backend)) <= limit * lanes
    assert max(recorded(7, 2, backend)) <= 8 * topology(7).vertices * lanes  # and none like V × V


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_work_doubles_with_each_level_and_grows_linearly_with_tokens(backend):
    def work(depth, N):
        return sum(recorded(depth, N, backend))

    assert work(10, 16) < 2.05 * work(9, 16)
    assert work(9, 32) < 2.05 * work(9, 16)


# --- choosing a backend -----------------------------------------------------------------------------------------------


def test_auto_is_numba_on_the_cpu(monkeypatch):
    called = []
    real = numba_kernel.forward
    monkeypatch.setattr(numba_kernel, "forward", lambda *args: called.append(1) or real(*args))
    tree_log_likelihood(torch.zeros(1, 1, 1), torch.tensor([1]))
    assert called


def test_auto_is_torch_where_numba_is_not_installed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("torch_ctree.trees.kernels.numba.forward", None)
    assert tree_log_likelihood(torch.zeros(1, 2, 3), torch.tensor([2])).item() == 0


@pytest.fixture
def cuda(monkeypatch):
    """A GPU, as far as one can tell without computing on it."""
    monkeypatch.setattr(devices, "_missing", lambda device: "")
    yield torch.device("cuda", 0)
    devices._say.cache_clear()


@pytest.mark.skipif(not devices.triton_runs(GPU), reason="Triton cannot run here")
def test_auto_is_triton_on_a_gpu(cuda):
    assert kernel_for(cuda) is kernel_for(GPU, "triton")


def test_auto_is_torch_where_triton_cannot_run_and_says_so_once(cuda, monkeypatch):
    monkeypatch.setattr(devices, "_missing", lambda device: "the package 'triton' is not installed")
    devices._say.cache_clear()
    with pytest.warns(UserWarning, match=r"no Triton kernels on this GPU: the package 'triton' is not installed"):
        assert kernel_for(cuda) is torch_kernel
    assert kernel_for(cuda) is torch_kernel  # a warning would be an error


# --- transforms -------------------------------------------------------------------------------------------------------


@with_hand_written_derivative
def test_vmap_and_its_gradients(backend):
    weights, lengths = torch.randn(4, 3, 5, 15, dtype=double), torch.randint(1, 6, (4, 3))

    def total(w, n):
        return tree_log_likelihood(w, n, backend=backend, validate_args=False).sum()

    device = device_of(backend)
    for in_dims, given_lengths in ((0, lengths), ((0, None), lengths[0])):
        mapped = torch.func.vmap(torch.func.grad_and_value(total), in_dims=in_dims)(
            weights.to(device), given_lengths.to(device)
        )
        for i in range(4):
            n = lengths[i] if given_lengths.dim() == 2 else lengths[0]
            value, gradient = value_and_gradient(weights[i], n, backend)
            torch.testing.assert_close(mapped[1][i].cpu(), value.sum())
            torch.testing.assert_close(mapped[0][i].cpu(), gradient)


@with_hand_written_derivative
def test_backward_through_vmap(backend):
    device = device_of(backend)
    weights = torch.randn(2, 4, 3, 5, 15, device=device, requires_grad=True)
    lengths = torch.randint(1, 6, (2, 4, 3), device=device)

    def value(w, n):
        return tree_log_likelihood(w, n, backend=backend, validate_args=False)

    torch.func.vmap(torch.func.vmap(value))(weights, lengths).sum().backward()
    assert weights.grad is not None
    torch.testing.assert_close(weights.grad.sum((-1, -2)), lengths.float())


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # the compiler looks at it
@with_hand_written_derivative
def test_inside_a_compiled_function(backend):
    device = device_of(backend)
    weights = torch.randn(3, 5, 15, dtype=double, device=device)
    lengths = torch.tensor([5, 2, 3], device=device)

    def double_of(w):
        return 2 * tree_log_likelihood(3 * w, lengths, backend=backend, validate_args=False)

    expected = 2 * tree_log_likelihood(3 * weights, lengths, backend=backend)
    leaf = weights.clone().requires_grad_()
    compiled = torch.compile(double_of, backend="eager")(leaf)
    torch.testing.assert_close(compiled.detach(), expected)
    compiled.sum().backward()
    assert leaf.grad is not None
    torch.testing.assert_close(leaf.grad.sum((-1, -2)), 6.0 * lengths.double())
