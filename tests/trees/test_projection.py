"""The emission's kernels against torch's operations. Where there is no GPU, in Triton's interpreter: small sizes."""

import math

import pytest
import torch

from torch_ctree import LatentTree, LinearEmission, TokenLogits
from torch_ctree.devices import triton_runs
from torch_ctree.trees import emission

projection = pytest.importorskip("torch_ctree.trees.projection")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")
close = torch.testing.assert_close


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    """New tensors hold NaN, or a token that does not exist, until they are written."""

    def fill(make):
        return lambda *args, **kwargs: (new := make(*args, **kwargs)).fill_(math.nan if new.is_floating_point() else -7)

    for owner, name in ((torch, "empty_like"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(owner, name, fill(getattr(owner, name)))


@pytest.fixture
def in_kernels(monkeypatch):
    """Emissions use the kernels, in the interpreter too; leave it to make them not do so again."""
    monkeypatch.setattr(emission, "_kernels_run", lambda _: True)
    monkeypatch.setattr(emission, "dot_precision", lambda: "tf32")  # or torch would multiply
    return monkeypatch


def random(*shape, dtype=torch.float32, grad=True):
    """Numbers that TF32 has too."""
    return emission._rounded(torch.randn(*shape)).to(DEVICE, dtype).requires_grad_(grad)


def words(K, *shape):
    return torch.randint(K, shape, device=DEVICE)


def composed(logits, tokens, offset=None):
    """``token_log_prob`` in torch's operations, and in float64."""
    index = tokens[:, None, :].expand(-1, logits.shape[1], -1)
    result = logits.double().log_softmax(-1).gather(-1, index).mT
    return result if offset is None else result + offset.double()[:, None, :]


def compare(mine, theirs, parameters, upstream=None, **tolerance):
    """Values and gradients; what was computed in float64 as float32."""
    close(mine, theirs.to(mine.dtype), **tolerance)
    upstream = torch.randn(mine.shape).to(mine) if upstream is None else upstream
    mine = torch.autograd.grad(mine, parameters, upstream.to(mine.dtype))
    theirs = torch.autograd.grad(theirs, parameters, upstream.to(theirs.dtype))
    for one, other in zip(mine, theirs, strict=True):
        close(one, other, **tolerance)


# --- given logits -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("K", "V", "N"), [(1, 7, 3), (2, 1, 1), (6, 127, 9), (7, 63, 1), (33, 65, 5), (200, 15, 4)])
def test_given_logits(K, V, N):
    logits, tokens, offset = random(2, V, K), words(K, 2, N), random(2, V)
    compare(projection.token_log_prob(logits, tokens), composed(logits, tokens), [logits])
    mine, theirs = projection.token_log_prob(logits, tokens, offset), composed(logits, tokens, offset)
    compare(mine, theirs, [logits, offset])


def test_one_token_all_over():
    logits, tokens = random(2, 7, 6), torch.full((2, 20), 3, device=DEVICE)
    compare(projection.token_log_prob(logits, tokens), composed(logits, tokens), [logits])


def test_strides_that_are_not_those_of_a_new_tensor():
    shared, flipped, tokens = random(1, 15, 6), random(6, 15, 3), words(6, 3, 4)
    for logits in (shared.expand(3, -1, -1), flipped.permute(2, 1, 0)):
        parameters = [shared if logits.stride(0) == 0 else flipped]
        upstream = torch.randn(3, 15, 4, device=DEVICE).mT
        compare(projection.token_log_prob(logits, tokens), composed(logits, tokens), parameters, upstream)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits(dtype):
    logits, tokens = random(2, 15, 6, dtype=dtype), words(6, 2, 4)
    compare(projection.token_log_prob(logits, tokens), composed(logits, tokens), [logits], atol=1e-5, rtol=1e-2)


def test_forbidden_tokens():
    values = torch.randn(1, 7, 6, device=DEVICE)
    values[0, :4, 2] = -math.inf
    values[0, 5, 1:] = -math.inf
    logits, tokens = values.clone().requires_grad_(), torch.tensor([[2, 0, 1]], device=DEVICE)
    mine, theirs = projection.token_log_prob(logits, tokens), TokenLogits(logits).log_prob(tokens)
    assert mine[0, 0, :4].eq(-math.inf).all()
    compare(mine, theirs, [logits], torch.randn(1, 3, 7).masked_fill(theirs.detach().cpu() == -math.inf, 0).to(DEVICE))
    dist = LatentTree(torch.zeros(7, device=DEVICE), logits[0])
    (gradient,) = torch.autograd.grad(dist.log_prob(tokens[0]), logits)
    assert gradient.isfinite().all()
    assert gradient[values == -math.inf].eq(0).all()


def test_a_vertex_that_says_nothing_has_no_gradient():
    logits = random(1, 3, 4)
    silent = logits.masked_fill(torch.tensor([[True], [False], [False]], device=DEVICE), -math.inf)
    value = projection.token_log_prob(silent, words(4, 1, 2))
    assert torch.autograd.grad(value[..., 1:].sum(), logits)[0].isfinite().all()


def test_a_token_that_does_not_exist():
    assert projection.token_log_prob(random(1, 3, 4), torch.tensor([[0, 4, -1]], device=DEVICE)).isnan()[0, 1:].all()


def test_derivatives_of_derivatives():
    logits, offset, tokens = random(2, 7, 5), random(2, 7), words(5, 2, 4)
    seconds = []
    for function in (projection.token_log_prob, composed):
        first = torch.autograd.grad(function(logits, tokens, offset).exp().sum(), (logits, offset), create_graph=True)
        seconds.append(torch.autograd.grad(torch.stack([g.square().sum() for g in first]).sum(), (logits, offset)))
    close(*seconds)


def test_transforms_go_around_the_kernels(monkeypatch):
    """As they do in ``_kernels_run`` on a GPU; here, that the question is the right one."""
    tokens, logits = words(4, 2), random(3, 7, 4, grad=False)
    seen = []
    monkeypatch.setattr(
        emission, "_kernels_run", lambda _: bool(seen.append(torch._C._are_functorch_transforms_active()))
    )

    def value(logits):
        return TokenLogits(logits).log_prob(tokens).exp().sum()

    mapped = torch.func.vmap(torch.func.grad(value))(logits)
    assert seen == [True]
    logits.requires_grad_()
    close(mapped, torch.autograd.grad(torch.stack([value(one) for one in logits]).sum(), logits)[0])
    assert seen == [True] + [False] * 3


# --- an output layer --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def layer(request):
    """130 rows, 300 tokens, 40 units: more than one block of each on a GPU, and none of them full."""
    return random(130, 40), random(300, 40), random(300) if request.param else torch.zeros(300, device=DEVICE)


def exact(rows, weight, bias):
    return (rows.double() @ weight.double().T + bias.double()).log_softmax(-1)


def total_of(rows, weight, bias):
    return (rows.double() @ weight.double().T + bias.double()).logsumexp(-1).float()


@pytest.mark.parametrize("processors", [1, 2, 100])
def test_log_normalisers_and_best_tokens(layer, processors, monkeypatch):
    """With as many slices of the vocabulary as there are processors to fill."""
    monkeypatch.setattr(projection, "multiprocessors", lambda _: processors)
    layer = [tensor.detach() for tensor in layer]
    close(projection.log_normaliser(*layer), total_of(*layer))
    expected, tokens = exact(*layer).max(-1)
    best, found, total = projection.best_tokens(*layer)
    close(best, expected.float(), atol=1e-5, rtol=1e-5)
    close(found, tokens)
    close(total, total_of(*layer))


@pytest.fixture
def tf32():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("tf32")
def test_in_tf32(layer):
    layer = [tensor.detach() for tensor in layer]
    close(projection.log_normaliser(*layer), total_of(*layer), atol=3e-2, rtol=0)
    best, found, _ = projection.best_tokens(*layer)
    close(best, exact(*layer).amax(-1).float(), atol=3e-2, rtol=0)
    close(best, exact(*layer).gather(-1, found[:, None])[:, 0].float(), atol=3e-2, rtol=0)


@pytest.mark.parametrize(("R", "K", "H"), [(1, 1, 1), (3, 7, 5), (70, 65, 64), (0, 3, 4)])
def test_other_sizes_of_layers(R, K, H):
    layer = random(R, H, grad=False), random(K, H, grad=False), random(K, grad=False)
    close(projection.log_normaliser(*layer), total_of(*layer))
    expected, tokens = exact(*layer).max(-1)
    best, found, _ = projection.best_tokens(*layer)
    close(best, expected.float(), atol=1e-5, rtol=1e-5)
    close(found, tokens)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_layer(layer, dtype):
    if dtype == torch.bfloat16 and DEVICE.type == "cpu":
        pytest.skip("Triton's interpreter takes bfloat16 for integers in tl.dot")
    layer = [tensor.detach().to(dtype) for tensor in layer]
    close(projection.log_normaliser(*layer), total_of(*layer))
    close(projection.best_tokens(*layer)[0], exact(*layer).amax(-1).float(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("processors", [1, 100])
def test_of_equal_tokens_the_first_wins(processors, monkeypatch):
    monkeypatch.setattr(projection, "multiprocessors", lambda _: processors)
    weight = torch.zeros(300, 8, device=DEVICE)
    weight[[5, 6, 70, 299]] = 1
    rows = torch.ones(3, 8, device=DEVICE) * torch.tensor([[1.0], [0.0], [-1.0]], device=DEVICE)
    best, tokens, _ = projection.best_tokens(rows, weight, torch.zeros(300, device=DEVICE))
    assert tokens.tolist() == [5, 0, 0] == (rows @ weight.T).argmax(-1).tolist()
    close(best, (rows @ weight.T).log_softmax(-1).amax(-1))


def test_a_bias_that_forbids():
    """One whole block of the vocabulary, and the first token of the next."""
    rows, weight, bias = random(5, 8, grad=False), random(300, 8, grad=False), torch.zeros(300, device=DEVICE)
    bias[:200] = -math.inf
    close(projection.log_normaliser(rows, weight, bias), total_of(rows, weight, bias))
    close(projection.best_tokens(rows, weight, bias)[1], exact(rows, weight, bias).argmax(-1))


@pytest.mark.parametrize(("R", "K"), [(1, 1), (7, 130), (300, 33), (0, 5)])
def test_softmax_in_place(R, K):
    logits, upstream = torch.randn(R, K, device=DEVICE), torch.randn(R, device=DEVICE)
    expected = logits.softmax(-1) * upstream[:, None]
    close(projection.softmax_(logits, logits.logsumexp(-1), upstream), expected.sum(0), atol=1e-5, rtol=1e-5)
    close(logits, expected)


# --- in their places --------------------------------------------------------------------------------------------------


def both_ways(in_kernels, value, parameters):
    """value() with the kernels and without, and their gradients."""
    found = []
    for on in (True, False):
        in_kernels.setattr(emission, "_kernels_run", lambda _, on=on: on)
        result = value()
        found.append((result, torch.autograd.grad(result.sum(), parameters)))
    close(*found, atol=1e-5, rtol=1e-4)


def test_a_distribution_of_given_logits(in_kernels):
    leaf, logits, tokens = random(2, 1, 15), random(3, 15, 6), words(6, 4, 2, 3, 5)
    both_ways(in_kernels, lambda: LatentTree(leaf, logits).log_prob(tokens), [leaf, logits])


def test_weights_in_one_kernel(in_kernels):
    log_m, logits, tokens = random(2, 3, 15), random(2, 3, 15, 6), words(6, 2, 3, 5)
    both_ways(in_kernels, lambda: TokenLogits(logits).log_weights(tokens, log_m), [log_m, logits])
    close(TokenLogits(logits).log_weights(tokens, log_m), log_m[..., None, :] + TokenLogits(logits).log_prob(tokens))


def test_a_distribution_with_an_output_layer(in_kernels):
    leaf, states, weight, bias = random(2, 15), random(2, 15, 12), random(70, 12), random(70)
    tokens = words(70, 2, 6)
    tokens[:, 3] = tokens[:, 2]

    def value():
        dist = LatentTree(leaf, LinearEmission(states, weight, bias, block_elements=8 * 70))
        return dist.log_prob(tokens) + dist.joint_log_prob(dist.argmax())

    both_ways(in_kernels, value, [leaf, states, weight, bias])


def test_the_best_token_of_an_output_layer(in_kernels):
    layer = LinearEmission(random(2, 3, 7, 12), random(70, 12), random(70))
    given = words(70, 2, 3, 5)
    best, tokens = layer.topk(1)
    *both, log_probs = layer.topk_and_log_prob(1, given)
    close(tuple(both), (best, tokens))
    in_kernels.setattr(emission, "_kernels_run", lambda _: False)
    assert best.shape == tokens.shape == (2, 3, 7, 1)
    close((best, tokens), layer.topk(1), atol=1e-5, rtol=1e-5)
    close(log_probs, layer.log_prob(given), atol=1e-5, rtol=1e-5)


def test_an_output_layer_is_rounded_before_it_multiplies(in_kernels):
    """Everywhere alike, so that what is too small in one place is not divided by what is not in another."""
    states, weight, tokens = torch.randn(2, 7, 12, device=DEVICE), torch.randn(70, 12, device=DEVICE), words(70, 2, 5)
    rounded = TokenLogits(emission._rounded(states) @ emission._rounded(weight).T)
    layer = LinearEmission(states, weight)
    close(layer.log_prob(tokens), rounded.log_prob(tokens), atol=1e-5, rtol=1e-5)
    close(layer.topk(1), rounded.topk(1), atol=1e-5, rtol=1e-5)
    vertices = torch.randint(7, (2, 5), device=DEVICE)
    close(layer.log_prob_at(tokens, vertices), rounded.log_prob_at(tokens, vertices), atol=1e-5, rtol=1e-5)
    in_kernels.setattr(emission, "_kernels_run", lambda _: False)
    close(layer.log_prob(tokens), TokenLogits(states @ weight.T).log_prob(tokens), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("batch", [(), (0,)])
def test_no_batch(in_kernels, batch):
    logits, states, weight = random(*batch, 7, 4), random(*batch, 7, 3), random(4, 3)
    tokens = words(4, *batch, 2)
    both_ways(in_kernels, lambda: TokenLogits(logits).log_prob(tokens), [logits])
    both_ways(in_kernels, lambda: LinearEmission(states, weight).log_prob(tokens), [states, weight])


@pytest.mark.skipif(DEVICE.type != "cpu", reason="about the CPU")
def test_on_a_cpu_nobody_waits_for_the_interpreter():
    assert not emission._kernels_run(random(1))


def test_transforms_of_float32():
    logits, tokens = random(3, 7, 4), words(4, 2)

    def value(logits):
        return TokenLogits(logits).log_prob(tokens).exp().sum()

    mapped = torch.func.vmap(torch.func.grad(value))(logits.detach())
    close(mapped, torch.autograd.grad(torch.stack([value(one) for one in logits]).sum(), logits)[0])


@pytest.mark.skipif(DEVICE.type != "cuda", reason="about a GPU")
def test_on_a_gpu():
    assert emission._kernels_run(random(1))
    assert not emission._kernels_run(random(1, dtype=torch.float64))


@pytest.mark.skipif(DEVICE.type != "cuda", reason="about a GPU")
@pytest.mark.parametrize("kind", ["logits", "linear"])
def test_a_step_can_be_captured_and_is_always_the_same(kind):
    logits, states, weight = random(2, 31, 6), random(2, 31, 16), random(300, 16)
    parameters, tokens = ([logits], words(6, 2, 9)) if kind == "logits" else ([states, weight], words(300, 2, 9))

    def step():
        layer = TokenLogits(logits) if kind == "logits" else LinearEmission(states, weight)
        return torch.autograd.grad(layer.log_prob(tokens).exp().sum(), parameters)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        expected = [step() for _ in range(3)][-1]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    for _ in range(3):
        graph.replay()
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.skipif(DEVICE.type != "cuda", reason="about a GPU's memory")
def test_a_large_vocabulary_in_little_memory():
    B, V, K, H, N = 64, 511, 10_000, 512, 48
    leaf, states, weight, bias = random(B, V), random(B, V, H), random(K, H), random(K)
    tokens, lengths = words(K, B, N), torch.randint(1, N + 1, (B,), device=DEVICE)

    def step():
        LatentTree(leaf, LinearEmission(states, weight, bias), validate_args=False).log_prob(
            tokens, lengths
        ).sum().backward()

    step()  # compiles, and makes cuBLAS take its workspace
    leaf.grad = states.grad = weight.grad = bias.grad = None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    assert torch.cuda.max_memory_allocated() - before < 300 * 2**20
