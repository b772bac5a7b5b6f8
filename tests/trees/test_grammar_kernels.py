"""The charts of a grammar in Triton, against those in torch. On a GPU where there is one, interpreted where not."""

import math
from typing import Any

import pytest
import torch

from torch_ctree import devices
from torch_ctree.trees import LatentGrammar, cells, charts
from torch_ctree.trees.cells import Transitions

kernels = pytest.importorskip("torch_ctree.trees.kernels.grammar", exc_type=ImportError)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = [
    pytest.mark.skipif(not devices.triton_runs(DEVICE), reason="Triton cannot run here"),
    pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning"),  # bounded after that
]
inf = math.inf
sizes = pytest.mark.parametrize(
    ("N", "P", "A", "arriving"), [(1, 3, 2, 1), (2, 2, 2, 1), (3, 3, 1, 1), (4, 4, 3, 1), (4, 2, 5, 3), (3, 2, 2, 2)]
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.fixture(params=["", "small"] if DEVICE.type == "cuda" else ["small"])
def blocks(request, monkeypatch):
    """So small that every loop goes round; on a GPU also as they are, which other tests have in the interpreter."""
    if request.param:
        small = {"STATES": 4, "SPLITS": 2, "TILE": 8, "SCALES": 2, "ROWS": 2, "COLUMNS": 4}
        if DEVICE.type == "cpu":
            small |= {"SPANS": 2}  # compiled products have 16 at least
        for name, value in small.items():
            monkeypatch.setattr(kernels, name, value)


@pytest.fixture
def memory():
    """Memory that nobody has written holds NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def grammar(N, P, A, arriving=1, B=2, scale=1.0, impossible=0.0):
    """P places, A operators → leaves (B, N, Q), log_split (B, Q), logits of left and right, root; some impossible

    arriving: operators that nobody stays with
    """
    Q, W = P * A, P + A - arriving
    shapes = ((B, N, Q), (B, Q), (B, Q, W), (B, Q, W), (B, P, A))
    leaves, split, left, right, choice = (scale * torch.randn(shape) for shape in shapes)
    for logits in (leaves, split, left, right, choice):
        if impossible:
            logits[torch.rand_like(logits) < impossible] = -inf
    for logits in (left, right, choice):
        logits[(logits == -inf).all(-1)] = 0
    leaves, split = torch.nn.functional.logsigmoid(leaves) - 1, torch.nn.functional.logsigmoid(split)
    return leaves, split, Transitions(left, choice), Transitions(right, choice), torch.randint(P, (B,))


def probabilities(transitions):
    return Transitions(*(x.softmax(-1) for x in transitions))


def on_device(*given) -> list[Any]:
    return [Transitions(*(y.to(DEVICE) for y in x)) if isinstance(x, Transitions) else x.to(DEVICE) for x in given]


def random_lengths(N, B=2):
    return torch.tensor([N, *torch.randint(1, N + 1, (B - 1,)).tolist()])


def both(given, lengths, grad, dtype=torch.float32):
    """Charts and derivatives in torch (at last in the dtype), and here."""
    leaves, split, left, right, root = given
    one, other = (probabilities(Transitions(*(y.to(dtype) for y in x))) for x in (left, right))
    there = [probabilities(x) for x in (left, right)]
    expected = charts.inside(leaves.to(dtype), split.to(dtype), one, other)
    theirs = charts.outside(expected, split.to(dtype), one, other, root, lengths, grad.to(dtype))
    leaves, split, left, right, root, lengths, grad = on_device(leaves, split, *there, root, lengths, grad)
    found = kernels.inside(leaves, split, left, right)
    ours = kernels.outside(found, split, left, right, root, lengths, grad)
    return (expected, theirs), (cells.Chart(*(x.cpu() for x in found)), cells.Outside(*(x.cpu() for x in ours)))


def assert_same_chart(found, expected, **tolerance):
    N = expected.left.shape[1]
    torch.testing.assert_close(found.beta, expected.beta, **tolerance)
    assert torch.equal(found.scale, expected.scale)
    for width in range(1, N):
        for names in (("left", "right"), ("left_scale", "right_scale")):
            pairs = (cells.as_parts(getattr(x, names[0]), getattr(x, names[1]), width) for x in (found, expected))
            for one, other in zip(*pairs, strict=True):
                torch.testing.assert_close(one, other, **tolerance)


def assert_same_outside(found, expected, **tolerance):
    for name, one, other in zip(found._fields, found, expected, strict=True):
        torch.testing.assert_close(one, other, **tolerance, msg=lambda text, name=name: f"{name}: {text}")


# --- the chart and its derivatives ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("blocks", "memory")
@sizes
def test_as_in_torch(N, P, A, arriving):
    expected, found = both(grammar(N, P, A, arriving), random_lengths(N), torch.randn(2))
    assert_same_chart(found[0], expected[0], rtol=1e-5, atol=0)
    assert_same_outside(found[1], expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("blocks", "memory")
@pytest.mark.parametrize(("N", "P", "A", "impossible"), [(3, 3, 3, 0.2), (4, 2, 4, 0.6)])
def test_impossible_transitions_splits_and_leaves(N, P, A, impossible):
    expected, found = both(grammar(N, P, A, B=4, impossible=impossible), random_lengths(N, 4), torch.randn(4))
    assert_same_chart(found[0], expected[0], rtol=1e-5, atol=0)
    assert_same_outside(found[1], expected[1], rtol=1e-4, atol=1e-6)


def test_impossible_sentences():
    given = grammar(4, 3, 2, B=3)
    given[0][0, 2] = -inf  # no state emits that token
    given[1][1] = -inf  # no state splits
    expected, found = both(given, torch.tensor([4, 4, 2]), torch.ones(3))
    assert_same_chart(found[0], expected[0], rtol=1e-5, atol=0)
    assert_same_outside(found[1], expected[1], rtol=1e-4, atol=1e-6)
    for part in found[1]:
        assert (part[:2] == 0).all()


@pytest.mark.parametrize(("N", "P", "A", "scale"), [(4, 3, 3, 150.0), (5, 2, 2, 20.0)])
def test_extreme_logits(N, P, A, scale):
    given, lengths, grad = grammar(N, P, A, B=3, scale=scale), random_lengths(N, 3), torch.tensor([1.0, -2.0, 0.0])
    (expected, theirs), (found, ours) = both(given, lengths, grad)
    assert_same_chart(found, expected, rtol=1e-4, atol=0)
    for name in ("leaves", "splits", "choice", "spans"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-4, atol=1e-5)
    # A derivative is as large as a probability is small: what it is multiplied with says how many digits it has.
    L, R = ([], [])
    for width in range(1, N):
        for parts, part in zip((L, R), cells.as_parts(expected.left, expected.right, width), strict=True):
            parts.append(part)
    for mine, their, values in ((ours.left, theirs.left, L), (ours.right, theirs.right, R)):
        value = torch.cat(values, 1).double()
        torch.testing.assert_close(mine * value, their * value, rtol=1e-4, atol=1e-5)


def test_scales_far_from_zero():
    given = grammar(6, 3, 2)
    leaves = given[0] - 500 * torch.rand(2, 6, 1)
    (expected, theirs), (found, ours) = both((leaves, *given[1:]), random_lengths(6), torch.ones(2))
    assert expected.scale.min() < -1500
    assert_same_chart(found, expected, rtol=1e-5, atol=0)
    assert_same_outside(ours, theirs, rtol=1e-4, atol=1e-6)


def test_no_less_exact_than_in_torch():
    given, lengths, grad = grammar(7, 4, 3, scale=3.0), torch.tensor([7, 5]), torch.ones(2)
    (_, exact), (_, ours) = both(given, lengths, grad, torch.float64)
    for name in ("leaves", "splits", "choice", "spans"):
        torch.testing.assert_close(getattr(ours, name).double(), getattr(exact, name), rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(DEVICE.type != "cuda", reason="in the interpreter nothing happens at once")
def test_the_same_each_time():
    given, lengths, grad = grammar(5, 4, 3), torch.tensor([5, 4]), torch.ones(2)
    (_, first), (_, second) = (both(given, lengths, grad)[1] for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


def test_strides():
    leaves, split, left, right, root = grammar(4, 3, 2)
    grad, lengths = torch.tensor(1.5).expand(2), torch.tensor(3).expand(2)

    def turned(x):
        return x.mT.contiguous().mT

    transitions = [Transitions(turned(x.values), turned(x.choice)) for x in (left, right)]
    strided = turned(leaves), split.T.contiguous().T, *transitions, root[:1].expand(2)
    expected, found = both(strided, lengths, grad)
    assert_same_chart(found[0], expected[0], rtol=1e-5, atol=0)
    assert_same_outside(found[1], expected[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("N", "P", "A"), [*([(17, 1, 2)] if DEVICE.type == "cuda" else []), (2, 2, 17)])
def test_more_spans_or_operators_than_a_product_takes_at_least(N, P, A):
    expected, found = both(grammar(N, P, A, B=1), torch.tensor([N]), torch.ones(1))
    assert_same_chart(found[0], expected[0], rtol=1e-5, atol=0)
    assert_same_outside(found[1], expected[1], rtol=1e-4, atol=1e-6)


def test_an_empty_batch():
    leaves, split, left, right, _ = grammar(3, 2, 2)
    none = [Transitions(*(y[:0] for y in x)) for x in (left, right)]
    given = on_device(leaves[:0], split[:0], *none)
    chart = kernels.inside(*given)
    nobody = torch.zeros(0, dtype=torch.long, device=DEVICE)
    found = kernels.outside(chart, *given[1:], nobody, nobody, given[0].new_zeros(0))
    assert found.spans.shape == (0, 3, 3)


@pytest.mark.usefixtures("blocks", "memory")
@pytest.mark.parametrize(
    ("N", "P", "A", "arriving", "scale"),
    [(1, 2, 2, 1, 1.0), (3, 3, 1, 1, 1.0), (4, 3, 3, 1, 60.0), (3, 2, 5, 3, 1.0), (3, 2, 2, 2, 1.0)],
)
def test_by_logits(N, P, A, arriving, scale):
    leaves, split, left, right, root = grammar(N, P, A, arriving, scale=scale, impossible=0.1)
    left, right, lengths, grad = probabilities(left), probabilities(right), random_lengths(N), torch.tensor([1.0, -2.0])
    chart = charts.inside(leaves, split, left, right)
    result = charts.outside(chart, split, left, right, root, lengths, grad)
    given = ((result.left, left), (result.right, right))
    expected = [charts._of_logits(part, chart.beta[:, :-1], side, grad) for part, side in given]
    result = cells.Outside(*on_device(*result))
    found = kernels.by_logits(result, *on_device(chart.beta, left, right, grad))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-6)


# --- log p(x) ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("N", "arriving", "scale", "impossible"), [(1, 1, 1.0, 0.0), (4, 1, 1.0, 0.3), (4, 1, 60.0, 0.0), (4, 2, 1.0, 0.0)]
)
def test_log_prob_and_its_gradients(N, arriving, scale, impossible, monkeypatch):
    leaves, split, left, right, root = grammar(N, 4, 3, arriving, B=3, scale=scale, impossible=impossible)
    lengths, grad = random_lengths(N, 3), torch.tensor([1.0, -0.5, 2.0])

    def value_and_gradients(device):
        inputs = [x.to(device).detach().requires_grad_() for x in (leaves, split, left[0], right[0], left[1])]
        sides = Transitions(inputs[2], inputs[4]), Transitions(inputs[3], inputs[4])
        ends = root.to(device), lengths.to(device)
        value = charts.inside_log_prob(inputs[0], inputs[1], *sides, *ends)
        return value.detach().cpu(), [x.cpu() for x in torch.autograd.grad(value, inputs, grad.to(device))]

    value, gradients = value_and_gradients("cpu")
    monkeypatch.setattr(charts, "_kernels", lambda *_: kernels)
    found, ours = value_and_gradients(DEVICE)
    torch.testing.assert_close(found, value)
    for one, other in zip(ours, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_through_the_distribution(monkeypatch):
    P, A, K = 3, 2, 4
    logits = [torch.randn(2, *shape) for shape in ((P * A,), (P * A, P + A - 1), (P * A, P + A - 1), (P * A, K))]
    tokens, lengths = torch.randint(K, (2, 5)), torch.tensor([5, 3])
    state = torch.arange(P * A)
    for side in logits[1:3]:
        side[:, state, state // A] = -inf  # nobody goes to where he is

    def log_prob_and_spans(device):
        roots, operators = torch.tensor([0, 2], device=device), torch.ones(2, P, A, device=device)
        leaf, left, right, token = (x.to(device) for x in logits)
        dist = LatentGrammar(leaf, left, right, token, roots, operators)
        posterior = dist.posterior(tokens.to(device), lengths.to(device))
        best = posterior.consensus().to("cpu")
        return posterior.log_evidence().cpu(), posterior.span_marginals().cpu(), best.vertices, best.log_prob

    expected = log_prob_and_spans("cpu")
    monkeypatch.setattr(charts, "_kernels", lambda *_: kernels)
    for one, other in zip(log_prob_and_spans(DEVICE), expected, strict=True):
        torch.testing.assert_close(one, other)


# --- launches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", [2, 3])
def test_launches(N, monkeypatch):
    """Two kernels and two products a width, both ways."""
    launched, launch = [], kernels._launch

    def counted(kernel, *args, **kwargs):
        launched.append(kernel)
        launch(kernel, *args, **kwargs)

    monkeypatch.setattr(kernels, "_launch", counted)
    both(grammar(N, 2, 2), random_lengths(N), torch.ones(2))
    assert len(launched) == 4 * N - 1  # nobody is the parent of the widest


@pytest.mark.skipif(DEVICE.type != "cuda", reason="CUDA graphs want a GPU")
def test_in_a_cuda_graph():
    given = on_device(*grammar(6, 3, 4))
    leaves, split, left, right, root = given
    left, right = probabilities(left), probabilities(right)
    lengths, grad = torch.tensor([6, 4], device=DEVICE), torch.ones(2, device=DEVICE)

    def run():
        return kernels.outside(kernels.inside(leaves, split, left, right), split, left, right, root, lengths, grad)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = run()
    leaves.copy_(torch.randn_like(leaves) - 2)
    graph.replay()
    for one, other in zip(captured, run(), strict=True):
        assert torch.equal(one, other)
