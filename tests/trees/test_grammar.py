"""The oracles enumerate derivations one by one. A derivation is (log-probability, leaves, tokens, spans)."""

import itertools
import math
import re
from collections import Counter
from functools import cache
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributions import Distribution
from torch.nn.functional import pad

from torch_ctree.trees import GrammarPosterior, LatentGrammar, LatentTree, charts, naive
from torch_ctree.trees.grammar import DEEPEST
from torch_ctree.trees.topology import topology

from ..measure import Recorder, all_states, chi_square_p_value, leaves

double = torch.float64
inf = math.inf


def parameters(batch, states, vocabulary, scale=1.0, dtype=double):
    sizes = ((batch, states), (batch, states, states), (batch, states, states), (batch, states, vocabulary))
    return tuple(scale * torch.randn(size, dtype=dtype) for size in sizes)


def random_grammar(batch, states, vocabulary, scale=1.0, dtype=double, **kwargs):
    root = torch.randint(states, (batch,))
    return LatentGrammar(*parameters(batch, states, vocabulary, scale, dtype), root=root, **kwargs)


# --- the oracle -------------------------------------------------------------------------------------------------------


class Naive:
    """One sentence's grammar in Python's numbers."""

    def __init__(self, dist, b=0):
        self.leaf = dist.leaf_logits[b].double().sigmoid().tolist()
        self.left = dist.left_logits[b].double().softmax(-1).tolist()
        self.right = dist.right_logits[b].double().softmax(-1).tolist()
        self.token = dist.token_logits[b].double().softmax(-1).tolist()
        self.root = int(dist.root[b])

    def parses(self, tokens, start=0, state=None, vertex=0):
        """Every (probability, leaves, spans) of given tokens."""
        state = self.root if state is None else state
        end = start + len(tokens)
        if len(tokens) == 1:
            yield self.leaf[state] * self.token[state][tokens[0]], (vertex,), ((start, end),)
            return
        for k in range(1, len(tokens)):
            for s, t in itertools.product(range(len(self.leaf)), repeat=2):
                p = (1 - self.leaf[state]) * self.left[state][s] * self.right[state][t]
                for p_left, v_left, spans_left in self.parses(tokens[:k], start, s, 2 * vertex + 1):
                    for p_right, v_right, spans_right in self.parses(tokens[k:], start + k, t, 2 * vertex + 2):
                        spans = ((start, end), *spans_left, *spans_right)
                        yield p * p_left * p_right, v_left + v_right, spans

    def stated(self, tokens, state=None, vertex=0):
        """Every (probability, {vertex: state}) of given tokens."""
        state = self.root if state is None else state
        if len(tokens) == 1:
            yield self.leaf[state] * self.token[state][tokens[0]], {vertex: state}
            return
        for k in range(1, len(tokens)):
            for s, t in itertools.product(range(len(self.leaf)), repeat=2):
                p = (1 - self.leaf[state]) * self.left[state][s] * self.right[state][t]
                for p_left, of_left in self.stated(tokens[:k], s, 2 * vertex + 1):
                    for p_right, of_right in self.stated(tokens[k:], t, 2 * vertex + 2):
                        yield p * p_left * p_right, {vertex: state, **of_left, **of_right}

    def derivations(self, depth, state=None, vertex=0):
        """Every (probability, leaves, tokens) within a depth; the cut is a leaf with the leaf's probability."""
        state = self.root if state is None else state
        for x, p in enumerate(self.token[state]):
            yield self.leaf[state] * p, (vertex,), (x,)
        if depth == 0:
            return
        for s, t in itertools.product(range(len(self.leaf)), repeat=2):
            p = (1 - self.leaf[state]) * self.left[state][s] * self.right[state][t]
            for p_left, v_left, x_left in self.derivations(depth - 1, s, 2 * vertex + 1):
                for p_right, v_right, x_right in self.derivations(depth - 1, t, 2 * vertex + 2):
                    yield p * p_left * p_right, v_left + v_right, x_left + x_right


def log(p):
    return math.log(p) if p > 0 else -inf


def tree_grammar(leaf_logits, token_logits, **kwargs):
    """LatentTree's parameters (B, V), (B, V, K) as a grammar whose states are the vertices."""
    B, V = leaf_logits.shape
    inner = V // 2
    leaf_logits = leaf_logits.clone()
    leaf_logits[:, inner:] = inf
    child = 2 * torch.arange(V) + 1
    left, right = (torch.full((B, V, V), -inf, dtype=leaf_logits.dtype) for _ in range(2))
    left[:, torch.arange(V), child.clamp_max(V - 1)] = 0
    right[:, torch.arange(V), (child + 1).clamp_max(V - 1)] = 0
    return LatentGrammar(leaf_logits, left, right, token_logits, torch.zeros(B, dtype=torch.long), **kwargs)


def counting_grammar(states, dtype=double):
    """Every weight a power of two, so that a sentence's probability says how many derivations it has."""
    zeros = torch.zeros(1, states, dtype=dtype)
    square = torch.zeros(1, states, states, dtype=dtype)
    return LatentGrammar(zeros, square, square, torch.zeros(1, states, 1, dtype=dtype), torch.tensor([0]))


def plain_log_prob(leaf_logits, left_logits, right_logits, token_logits, root, tokens):
    """The inside algorithm in logarithms, cell by cell, for autograd."""
    N = tokens.shape[1]
    left, right = left_logits.log_softmax(-1), right_logits.log_softmax(-1)
    leaf, split = torch.nn.functional.logsigmoid(leaf_logits), torch.nn.functional.logsigmoid(-leaf_logits)
    emission = token_logits.log_softmax(-1)

    @cache
    def beta(i, j):
        if j == i + 1:
            return leaf + emission.gather(2, tokens[:, None, i : i + 1].expand(-1, leaf.shape[1], -1))[..., 0]
        parts = [
            (left + beta(i, k)[:, None]).logsumexp(-1) + (right + beta(k, j)[:, None]).logsumexp(-1)
            for k in range(i + 1, j)
        ]
        return split + torch.stack(parts).logsumexp(0)

    return beta(0, N).gather(1, root[:, None])[:, 0]


# --- log_prob ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "N"), [(1, 1), (1, 2), (1, 3), (1, 6), (2, 1), (2, 2), (2, 4), (2, 5), (3, 1), (3, 2), (3, 3), (3, 4)]
)
def test_log_prob_by_enumeration(states, N):
    dist = random_grammar(3, states, 3)
    tokens = torch.randint(3, (3, N))
    for b in range(3):
        expected = sum(p for p, *_ in Naive(dist, b).parses(tokens[b].tolist()))
        assert dist.log_prob(tokens)[b].item() == pytest.approx(log(expected))


@pytest.mark.parametrize("states", [1, 3])
def test_counting(states):
    # 1 root state; n leaves are stopped, n − 1 vertices split, and each of their children has one of the states.
    dist = counting_grammar(states)
    for n in range(1, 20):
        value = dist.log_prob(torch.zeros(1, n, dtype=torch.long)).item()
        catalan = math.comb(2 * n - 2, n - 1) // n
        assert value == pytest.approx(math.log(catalan) - (2 * n - 1) * math.log(2))


def test_all_sentences_of_a_grammar_that_ends_sum_to_one():
    leaf, left, right, token = parameters(1, 3, 2)
    later = torch.tensor([[0, 1, 1], [0, 0, 1], [0, 0, 1]]).bool()  # states only increase, and the last is a leaf
    leaf[0, 2] = inf
    left, right = left.masked_fill(~later, -inf), right.masked_fill(~later, -inf)
    dist = LatentGrammar(leaf, left, right, token, torch.tensor([0]))
    total = 0.0
    for n in range(1, 5):
        for tokens in itertools.product(range(2), repeat=n):
            total += dist.log_prob(torch.tensor([tokens])).exp().item()
    assert total == pytest.approx(1)


@pytest.mark.parametrize("depth", range(4))
def test_a_latent_tree_is_a_grammar_whose_states_are_the_vertices(depth):
    V = topology(depth).vertices
    leaf_logits, token_logits = torch.randn(4, V, dtype=double), torch.randn(4, V, 3, dtype=double)
    tree, dist = LatentTree(leaf_logits, token_logits), tree_grammar(leaf_logits, token_logits)
    N = 2**depth
    tokens, lengths = torch.randint(3, (4, N)), torch.randint(1, N + 1, (4,))
    torch.testing.assert_close(dist.log_prob(tokens, lengths), tree.log_prob(tokens, lengths))
    for most in (None, 1, 2, 3, N):
        found, expected = dist.argmax(most), tree.argmax(most)
        assert torch.equal(found.vertices, expected.vertices)
        assert torch.equal(found.tokens, expected.tokens)
        assert torch.equal(found.lengths, expected.lengths)
        torch.testing.assert_close(found.log_prob, expected.log_prob)
    found, expected = dist.posterior(tokens, lengths).argmax(), tree.posterior(tokens, lengths).argmax()
    assert torch.equal(found.vertices, expected.vertices)
    torch.testing.assert_close(found.log_prob, expected.log_prob)


def test_gradients_of_a_latent_tree():
    leaf_logits = torch.randn(2, 15, dtype=double, requires_grad=True)
    token_logits = torch.randn(2, 15, 3, dtype=double, requires_grad=True)
    tokens, lengths = torch.randint(3, (2, 6)), torch.tensor([6, 4])
    expected = torch.autograd.grad(
        LatentTree(leaf_logits, token_logits).log_prob(tokens, lengths).sum(), (leaf_logits, token_logits)
    )
    found = torch.autograd.grad(
        tree_grammar(leaf_logits, token_logits).log_prob(tokens, lengths).sum(), (leaf_logits, token_logits)
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("N", [1, 2, 5])
def test_gradcheck(N):
    logits = tuple(x.requires_grad_() for x in parameters(2, 3, 3))
    tokens, lengths, root = torch.randint(3, (2, N)), torch.tensor([N, max(1, N - 1)]), torch.tensor([1, 2])
    assert torch.autograd.gradcheck(lambda *x: LatentGrammar(*x, root=root).log_prob(tokens, lengths), logits)


@pytest.mark.parametrize(("dtype", "tolerance"), [(double, 1e-9), (torch.float32, 1e-4)])
def test_values_and_gradients_against_plain_logarithms(dtype, tolerance):
    logits = tuple(x.to(dtype).requires_grad_() for x in parameters(2, 4, 3, scale=4.0))
    exact = tuple(x.detach().double().requires_grad_() for x in logits)
    tokens, root, weights = torch.randint(3, (2, 16)), torch.tensor([0, 3]), torch.tensor([1.0, -2.0])
    value, expected = (
        LatentGrammar(*logits, root=root).log_prob(tokens),
        plain_log_prob(*exact, root=root, tokens=tokens),
    )
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=tolerance)
    found = torch.autograd.grad((weights * value).sum(), logits)
    for gradient, right in zip(found, torch.autograd.grad((weights * expected).sum(), exact), strict=True):
        torch.testing.assert_close(gradient.double(), right, rtol=1e-4, atol=tolerance)


def test_a_second_derivative_is_refused():
    logits = tuple(x.requires_grad_() for x in parameters(1, 2, 2))
    value = LatentGrammar(*logits, root=torch.tensor([0])).log_prob(torch.tensor([[0, 1]])).sum()
    with pytest.raises(RuntimeError, match="log_prob: got create_graph=True; expected a first derivative"):
        torch.autograd.grad(value, logits, create_graph=True)


def test_what_pads_a_sentence_does_not_matter():
    dist = random_grammar(5, 3, 4)
    tokens, lengths = torch.randint(4, (5, 6)), torch.tensor([1, 2, 3, 6, 4])
    expected, spans = dist.log_prob(tokens, lengths), dist.posterior(tokens, lengths).span_marginals()
    for padding in (-100, -1, 3, 4, 10**6):
        padded = tokens.masked_fill(torch.arange(6) >= lengths[:, None], padding)
        assert torch.equal(dist.log_prob(padded, lengths), expected)
        assert torch.equal(dist.posterior(padded, lengths).span_marginals(), spans)
        assert torch.equal(
            dist.posterior(padded, lengths).argmax().vertices, dist.posterior(tokens, lengths).argmax().vertices
        )


def alone(dist, b):
    logits = (dist.leaf_logits, dist.left_logits, dist.right_logits, dist.token_logits, dist.root)
    return LatentGrammar(*(x[b : b + 1] for x in logits))


def test_a_batch_is_its_sentences():
    dist = random_grammar(4, 3, 4)
    tokens, lengths = torch.randint(4, (4, 7)), torch.tensor([7, 1, 3, 5])
    value, best, greedy = dist.log_prob(tokens, lengths), dist.argmax(), dist.greedy()
    parsed = dist.posterior(tokens, lengths).argmax()
    for b, n in enumerate(lengths.tolist()):
        one = alone(dist, b)
        sentence = tokens[b : b + 1, :n]
        torch.testing.assert_close(value[b : b + 1], one.log_prob(sentence))
        for found, expected in (
            (best, one.argmax()),
            (greedy, one.greedy()),
            (parsed, one.posterior(sentence).argmax()),
        ):
            torch.testing.assert_close(found.log_prob[b : b + 1], expected.log_prob)
            assert leaves(found.vertices[b]) == leaves(expected.vertices)


def test_impossible_tokens():
    leaf, left, right, token = parameters(3, 3, 3, dtype=torch.float32)
    token[1, :, 2] = -inf  # in the second sentence nobody says 2
    token[0, :2, 1] = -inf
    left[:, 0, 1:] = -inf
    leaf[2, 0], leaf[2, 1] = inf, -inf
    logits = tuple(x.requires_grad_() for x in (leaf, left, right, token))
    dist = LatentGrammar(*logits, root=torch.tensor([0, 0, 1]))
    value = dist.log_prob(torch.tensor([[0, 1, 2], [0, 2, 1], [0, 1, 2]]))
    assert (value == -inf).tolist() == [False, True, False]
    value.sum().backward()
    for x in logits:
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert (x.grad[1] == 0).all()
        assert (x.grad[0] != 0).any()


def test_a_root_that_never_splits():
    dist = tree_grammar(torch.full((1, 7), inf), torch.zeros(1, 7, 2))
    assert dist.log_prob(torch.tensor([[0, 1]])).item() == -inf
    assert dist.log_prob(torch.tensor([[0]])).item() == pytest.approx(math.log(0.5), rel=1e-7)


@pytest.mark.parametrize(("scale", "tolerance"), [(1.0, 1e-3), (10.0, 1e-2), (30.0, 1e-2)])
def test_long_sentences_in_single_precision(scale, tolerance):
    logits = tuple(x.float().requires_grad_() for x in parameters(2, 12, 40, scale=scale))
    root, tokens = torch.tensor([3, 5]), torch.randint(40, (2, 48))
    exact = tuple(x.detach().double().requires_grad_() for x in logits)
    value, expected = (
        LatentGrammar(*logits, root=root).log_prob(tokens),
        LatentGrammar(*exact, root=root).log_prob(tokens),
    )
    assert (expected < -100).all()
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-4)
    value.sum().backward()
    expected.sum().backward()
    for x, y in zip(logits, exact, strict=True):
        assert x.grad is not None
        assert y.grad is not None
        torch.testing.assert_close(x.grad.double(), y.grad, rtol=tolerance, atol=tolerance)


def test_states_of_very_different_probabilities():
    # The root's state says 0 and the other says 1, and they never become one another.
    token = torch.tensor([[[0.0, -25.0], [-25.0, 0.0]]])
    stay = torch.tensor([[[0.0, -inf], [-inf, 0.0]]])
    logits = tuple(x.requires_grad_() for x in (torch.zeros(1, 2), stay, stay.clone(), token))
    value = LatentGrammar(*logits, root=torch.tensor([0])).log_prob(torch.ones(1, 4, dtype=torch.long))
    assert value.item() == pytest.approx(math.log(5) - 7 * math.log(2) - 100, rel=1e-6)
    value.backward()
    assert all(x.grad is not None and x.grad.isfinite().all() for x in logits)
    assert logits[3].grad is not None
    assert logits[3].grad[0, 0, 1].item() == pytest.approx(4)


@pytest.mark.parametrize("scale", [10.0, 50.0, 200.0, 1000.0])
def test_extreme_logits(scale):
    # Here single precision runs out of range: values may be lost, but gradients stay expected counts.
    for N in (1, 2, 7, 15):
        logits = tuple(
            x.masked_fill((torch.rand(x.shape) < 0.3) & (torch.arange(x.shape[-1]) > 0), -inf).requires_grad_()
            for x in parameters(8, 4, 3, scale=scale, dtype=torch.float32)
        )
        dist = LatentGrammar(*logits, root=torch.randint(4, (8,)))
        tokens = torch.randint(3, (8, N))
        value, post = dist.log_prob(tokens), dist.posterior(tokens)
        assert (value <= 1e-5).all()  # and no NaN
        value.sum().backward()
        assert all(x.grad is not None and (x.grad.abs() <= 2 * N).all() for x in logits)
        assert (post.span_marginals() <= 1 + 1e-4).all()
        assert (post.argmax().log_prob <= 0).all()
        assert (dist.greedy().log_prob <= dist.argmax().log_prob + 1e-2).all()


def test_dtypes_and_autocast():
    dist = random_grammar(2, 3, 4, dtype=torch.float32)
    tokens = torch.randint(4, (2, 9))
    expected = dist.log_prob(tokens)
    assert expected.dtype == torch.float32
    halves = (x.bfloat16() for x in (dist.leaf_logits, dist.left_logits, dist.right_logits, dist.token_logits))
    half = LatentGrammar(*halves, root=dist.root)
    assert half.log_prob(tokens).dtype == torch.float32
    torch.testing.assert_close(half.log_prob(tokens), expected, rtol=0.02, atol=0.1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(dist.log_prob(tokens), expected)
        spans = dist.posterior(tokens).span_marginals()
    assert torch.equal(spans, dist.posterior(tokens).span_marginals())


def test_memory_grows_with_the_square_of_the_length():
    logits = tuple(x.float().requires_grad_() for x in parameters(1, 16, 2))
    dist = LatentGrammar(*logits, root=torch.tensor([0]), validate_args=False)
    with Recorder() as recorder:
        value = dist.log_prob(torch.zeros(1, 32, dtype=torch.long))
    saved = sum(x.numel() for x in value.grad_fn.saved_tensors)  # type: ignore[union-attr]
    assert saved < 3 * 16 * 32 * 32
    assert max(recorder.sizes) <= 16 * 32 * 32


def test_nothing_waits_for_the_device():
    # Tensors without values: whatever looks at one, or makes a size depend on one, raises.
    with FakeTensorMode():
        logits = tuple(x.requires_grad_() for x in parameters(2, 3, 4))
        dist = LatentGrammar(*logits, root=torch.zeros(2, dtype=torch.long), validate_args=False)
        value = dist.log_prob(torch.zeros(2, 5, dtype=torch.long), torch.ones(2, dtype=torch.long))
        assert [x.shape for x in torch.autograd.grad(value.sum(), logits)] == [x.shape for x in logits]


@pytest.mark.filterwarnings("ignore:The AccumulateGrad node")  # the same leaves on two streams, as meant
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_in_a_cuda_graph():
    logits = tuple(x.cuda().requires_grad_() for x in parameters(2, 3, 4))
    root, tokens, lengths = torch.zeros(2).long().cuda(), torch.randint(4, (2, 6)).cuda(), torch.tensor([6, 3]).cuda()

    def step():
        value = LatentGrammar(*logits, root=root, validate_args=False).log_prob(tokens, lengths)
        return value, *torch.autograd.grad(value.sum(), logits)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    tokens.copy_(torch.randint(4, (2, 6)))
    graph.replay()
    torch.testing.assert_close(captured, step())


# --- search -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("states", "depth"), [(1, 0), (2, 0), (1, 3), (2, 2), (3, 1)])
@pytest.mark.parametrize("max_length", [None, 1, 2, 3])
def test_argmax_by_enumeration(states, depth, max_length):
    dist = random_grammar(6, states, 2, scale=2.0, depth=depth)
    best = dist.argmax(max_length)
    for b in range(6):
        exact = (x for x in Naive(dist, b).derivations(depth) if max_length is None or len(x[1]) <= max_length)
        p, vertices, tokens = max(exact)
        assert best.log_prob[b].item() == pytest.approx(math.log(p))
        assert leaves(best.vertices[b]) == [vertices]
        assert tuple(best.tokens[b, : best.lengths[b]].tolist()) == tokens
        assert best.lengths[b].item() == len(tokens)


def test_argmax_of_nothing():
    leaf, left, right, token = parameters(2, 2, 2)
    leaf[0] = -inf  # no derivation ends
    for most in (None, 1):
        best = LatentGrammar(leaf, left, right, token, torch.tensor([0, 0]), depth=3).argmax(most)
        assert best.lengths[0] == 0
        assert best.log_prob[0] == -inf
        assert (best.vertices[0] == -1).all()
        assert best.log_prob[1] > -inf


def test_argmax_prefers_the_shallow_one_of_equals():
    # State 0 repeats itself on the left at no cost in float32, and ends only through state 1.
    left = torch.tensor([[[0.0, -30.0], [-inf, 0.0]]])
    right = torch.tensor([[[-inf, 0.0], [-inf, 0.0]]])
    dist = LatentGrammar(torch.tensor([[-inf, inf]]), left, right, torch.zeros(1, 2, 1), torch.tensor([0]), depth=20)
    for most in (None, 2):
        best = dist.argmax(most)
        assert best.log_prob.item() == pytest.approx(-30)
        assert best.vertices.tolist() == [[1, 2]]


def deterministic(depth):
    """State s splits into two of state s + 1, and the last is a leaf that says what its sentence's number is."""
    Q = depth + 1
    leaf = torch.full((2, Q), -inf)
    leaf[:, -1] = inf
    follow = torch.full((2, Q, Q), -inf)
    follow[:, torch.arange(Q), (torch.arange(Q) + 1).clamp_max(depth)] = 0
    token = torch.full((2, Q, 2), -inf)
    token[torch.arange(2), :, torch.arange(2)] = 0
    return leaf, follow, follow, token, torch.tensor([0, 2])


def test_a_deterministic_grammar():
    dist = LatentGrammar(*deterministic(4))
    for found in (dist.greedy(), dist.argmax(), dist.sample()):
        assert found.lengths.tolist() == [16, 4]
        assert found.vertices[0].tolist() == list(range(15, 31))
        assert leaves(found.vertices[1]) == [(3, 4, 5, 6)]
        assert found.tokens.tolist() == [[0] * 16, [1] * 4 + [0] * 12]
        assert found.log_prob.tolist() == [0, 0]
    assert dist.log_prob(found.tokens, found.lengths).tolist() == [0, 0]


def test_greedy_does_what_is_most_probable():
    dist = random_grammar(20, 4, 3, depth=5)
    found = dist.greedy()
    for b in range(20):
        p = Naive(dist, b)
        state, rows, total = {0: p.root}, [], 0.0

        def walk(v, depth, state=state, p=p, rows=rows):
            s = state[v]
            if depth == 0 or p.leaf[s] >= 0.5:
                x = max(range(3), key=lambda k: p.token[s][k])
                rows.append((v, x))
                return math.log(p.leaf[s]) + math.log(p.token[s][x])
            best = [max(range(4), key=lambda t: side[s][t]) for side in (p.left, p.right)]
            state[2 * v + 1], state[2 * v + 2] = best
            score = math.log(1 - p.leaf[s]) + math.log(p.left[s][best[0]]) + math.log(p.right[s][best[1]])
            return score + walk(2 * v + 1, depth - 1) + walk(2 * v + 2, depth - 1)

        total = walk(0, 5)
        assert [
            (v, x) for v, x in zip(found.vertices[b].tolist(), found.tokens[b].tolist(), strict=True) if v >= 0
        ] == rows
        assert found.log_prob[b].item() == pytest.approx(total)


def test_samples_have_the_right_frequencies():
    leaf, left, right, token = parameters(2, 3, 2)
    leaf[:, 2] = inf  # two levels at most: 0 → 1, 2; 1 → 2
    later = torch.tensor([[0, 1, 1], [0, 0, 1], [0, 0, 1]]).bool()
    left, right = left.masked_fill(~later, -inf), right.masked_fill(~later, -inf)
    dist = LatentGrammar(leaf, left, right, token, torch.tensor([0, 1]))
    drawn = dist.sample(10_000)
    assert drawn.lengths.shape == drawn.log_prob.shape == (10_000, 2)
    for b in range(2):
        expected = {}
        for p, vertices, tokens in Naive(dist, b).derivations(2):
            expected[vertices, tokens] = expected.get((vertices, tokens), 0) + p
        assert sum(expected.values()) == pytest.approx(1)
        sentences = [
            tuple(row[:n]) for row, n in zip(drawn.tokens[:, b].tolist(), drawn.lengths[:, b].tolist(), strict=True)
        ]
        assert chi_square_p_value(zip(leaves(drawn.vertices[:, b]), sentences, strict=True), expected) > 1e-3
    # Every derivation has a score, and the scores of one sentence are those of its derivations.
    scores = {round(log(p), 9) for p, *_ in Naive(dist, 0).derivations(2)}
    assert {round(x, 9) for x in drawn.log_prob[:50, 0].tolist()} <= scores


def test_sample_shapes_depth_and_seed():
    dist = random_grammar(3, 4, 2, depth=2)
    drawn = dist.sample((5, 2))
    assert drawn.lengths.shape == (5, 2, 3)
    assert drawn.vertices.shape == drawn.tokens.shape == (5, 2, 3, int(drawn.lengths.max()))
    assert int(drawn.vertices.max()) <= 6
    assert dist.sample().lengths.shape == (3,)
    torch.manual_seed(3)
    first = dist.sample(4)
    torch.manual_seed(3)
    assert torch.equal(first.tokens, dist.sample(4).tokens)
    before = torch.get_rng_state()
    mine, same, other = (dist.sample(50, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(mine.log_prob, same.log_prob)
    assert not torch.equal(mine.log_prob, other.log_prob)


def test_what_has_no_probability_changes_no_sample():
    """As where sentences of other lengths are beside one."""
    dist = random_grammar(2, 4, 3, depth=6)
    left, right = (pad(x, (0, 2, 0, 2), value=-inf) for x in (dist.left_logits, dist.right_logits))
    leaf, tokens = pad(dist.leaf_logits, (0, 2), value=inf), pad(dist.token_logits, (0, 0, 0, 2))
    wider = LatentGrammar(leaf, left, right, tokens, dist.root, depth=6, validate_args=False)
    one, other = (some.sample(200, torch.Generator().manual_seed(0)) for some in (dist, wider))
    assert int(one.lengths.max()) > 2
    assert torch.equal(one.tokens, other.tokens)
    assert torch.equal(one.vertices, other.vertices)


def test_rows():
    dist = random_grammar(3, 4, 2, depth=2)
    tokens = torch.randint(2, (3, 3))
    some = dist.rows(torch.tensor([2, 0, 2]))
    assert some.batch_shape == (3,)
    assert some.depth == 2
    torch.testing.assert_close(some.log_prob(tokens[[2, 0, 2]]), dist.log_prob(tokens)[[2, 0, 2]])


# --- the posterior ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", [1, 2, 3, 4])
def test_posterior_by_enumeration(N):
    dist = random_grammar(4, 3, 2, scale=2.0)
    tokens = torch.randint(2, (4, N))
    post = dist.posterior(tokens)
    assert isinstance(post, GrammarPosterior)
    best, marginals = post.argmax(), post.span_marginals()
    torch.testing.assert_close(post.log_evidence(), dist.log_prob(tokens))
    for b in range(4):
        parses = list(Naive(dist, b).parses(tokens[b].tolist()))
        evidence = sum(p for p, *_ in parses)
        expected = torch.zeros(N, N, dtype=double)
        for p, _, spans in parses:
            for start, end in spans:
                expected[start, end - 1] += p / evidence
        torch.testing.assert_close(marginals[b], expected)
        p, vertices, _ = max(parses)
        assert leaves(best.vertices[b]) == [vertices]
        assert best.log_prob[b].item() == pytest.approx(math.log(p / evidence))


@pytest.mark.parametrize("N", [1, 2, 3, 4])
def test_consensus_and_trees_by_enumeration(N):
    dist = random_grammar(4, 3, 2, scale=2.0)
    tokens = torch.randint(2, (4, N))
    post = dist.posterior(tokens)
    best, marginals = post.consensus(), post.span_marginals()
    for b in range(4):
        parses = list(Naive(dist, b).parses(tokens[b].tolist()))
        evidence, shares, worth = sum(p for p, *_ in parses), Counter(), {}
        for p, vertices, spans in parses:
            shares[vertices] += p / evidence
            worth[vertices] = sum(marginals[b, start, end - 1].item() for start, end in spans)
        (found,) = leaves(best.vertices[b])
        assert worth[found] == pytest.approx(max(worth.values()))
        assert best.log_prob[b].item() == pytest.approx(math.log(shares[found]))
        for vertices, share in shares.items():
            every = torch.tensor([vertices] * 4)
            assert post.log_prob(every)[b].item() == pytest.approx(math.log(share))


@pytest.mark.parametrize("N", [1, 2, 3, 4])
def test_states_of_given_trees_by_enumeration(N):
    dist = random_grammar(3, 3, 2, scale=2.0)
    tokens = torch.randint(2, (3, N))
    post = dist.posterior(tokens)
    for given in naive.fitting(3, N):
        numbers, states = post.vertex_states(torch.tensor([given] * 3))
        assert states.shape == (3, 2 * N - 1, 3)
        for b in range(3):
            every = [(p, found) for p, found in Naive(dist, b).stated(tokens[b].tolist()) if set(given) <= set(found)]
            total, shares = sum(p for p, _ in every), Counter()
            for p, found in every:
                shares.update(dict.fromkeys(found.items(), p / total))
            assert set(numbers[b].tolist()) == set(every[0][1])
            for number, row in zip(numbers[b].tolist(), states[b].tolist(), strict=True):
                assert row == pytest.approx([shares[number, s] for s in range(3)])


def test_states_with_operators_of_trees_of_many_sizes():
    """As of the grammars with a column for every state, one for each operator of the root."""
    short, wholes, chosen = with_operators(3, 4)
    vertices, lengths = torch.tensor([[3, 4, 2], [1, 2, -1], [-1, -1, -1]]), torch.tensor([3, 2, 3])
    tokens = torch.randint(3, (3, 3))
    numbers, states = short.posterior(tokens, lengths).vertex_states(vertices)
    assert [sorted(row) for row in numbers.tolist()] == [[0, 1, 2, 3, 4], [-1, -1, 0, 1, 2], [-1] * 5]
    joint, expected = torch.zeros(3, 1, 1), torch.zeros_like(states)
    for log_chosen, whole in zip(chosen, wholes, strict=True):
        post = whole.posterior(tokens, lengths)
        same, found = post.vertex_states(vertices)
        assert torch.equal(same, numbers)
        p = (log_chosen + post.log_evidence() + post.log_prob(vertices)).exp()[:, None, None].detach()
        joint, expected = joint + p, expected + p * found
    torch.testing.assert_close(states[:2], (expected / joint)[:2])


def test_consensus_of_sentences_of_many_lengths():
    dist = random_grammar(4, 5, 4, dtype=torch.float32)
    tokens, lengths = torch.randint(4, (4, 30)), torch.tensor([30, 1, 11, 2])
    best = dist.posterior(tokens, lengths).consensus()
    for b, length in enumerate(lengths.tolist()):
        alone = LatentGrammar(
            *(x[b : b + 1] for x in (dist.leaf_logits, dist.left_logits, dist.right_logits, dist.token_logits)),
            root=dist.root[b : b + 1],
        )
        post = alone.posterior(tokens[b : b + 1, :length])
        same = post.consensus()
        assert best.vertices[b, :length].tolist() == same.vertices[0].tolist()
        torch.testing.assert_close(best.log_prob[b], same.log_prob[0], rtol=0, atol=1e-4)
        torch.testing.assert_close(post.log_prob(same.vertices), same.log_prob, rtol=0, atol=1e-4)
        assert post.log_prob(post.argmax().vertices).item() >= post.argmax().log_prob.item() - 1e-4  # of all states


def test_the_sum_over_trees_of_operators_states_is_that_of_all_states():
    short, wholes, chosen = with_operators(3, 4)
    tokens = torch.randint(3, (3, 4))
    vertices = torch.tensor([[3, 4, 5, 6], [1, 5, 13, 14], [7, 8, 4, 2]])
    each = chosen + torch.stack([w.log_prob(tokens) + w.posterior(tokens).log_prob(vertices) for w in wholes])
    found = short.log_prob(tokens) + short.posterior(tokens).log_prob(vertices)
    torch.testing.assert_close(found, each.logsumexp(0))


@pytest.mark.parametrize(
    ("vertices", "message"),
    [
        ([[1, 2, 5]], "vertices: got [1, 2, 5] in row 0; expected the 3 leaves"),
        ([[1, 5, -1]], "vertices: got [1, 5, -1] in row 0; expected the 3 leaves"),
        ([[1, 2, -1]], "vertices: got [1, 2, -1] in row 0; expected the 3 leaves"),
        ([[5, 6, 1]], "vertices: got [5, 6, 1] in row 0; expected the 3 leaves"),
        ([[1, 2]], "vertices: got shape (1, 2); expected (1, 3)"),
        ([[1.0, 5.0, 6.0]], "vertices: got dtype torch.float32"),
    ],
)
def test_what_is_no_tree(vertices, message):
    post = random_grammar(1, 2, 2).posterior(torch.zeros(1, 3, dtype=torch.long))
    with pytest.raises(ValueError, match=re.escape(message)):
        post.log_prob(torch.tensor(vertices))


def test_span_marginals_of_sentences_of_many_lengths():
    dist = random_grammar(3, 5, 4, dtype=torch.float32)
    tokens, lengths = torch.randint(4, (3, 20)), torch.tensor([20, 1, 11])
    marginals = dist.posterior(tokens, lengths).span_marginals()
    alive = torch.arange(20) < lengths[:, None]
    torch.testing.assert_close(marginals.diagonal(0, 1, 2), alive.float())
    torch.testing.assert_close(marginals[torch.arange(3), 0, lengths - 1], torch.ones(3))
    torch.testing.assert_close(marginals.sum((1, 2)), 2.0 * lengths - 1)
    assert (marginals[2, :, 11:] == 0).all()


def test_a_sentence_of_probability_zero_has_no_tree():
    leaf, left, right, token = parameters(2, 3, 2)
    token[0, :, 1] = -inf
    post = LatentGrammar(leaf, left, right, token, torch.tensor([0, 1])).posterior(torch.tensor([[0, 1], [0, 1]]))
    for best in (post.argmax(), post.consensus()):
        assert (best.vertices[0] == -1).all()
        assert best.log_prob[0] == -inf
        assert best.vertices[1].tolist() == [1, 2]
    assert (post.span_marginals()[0] == 0).all()


@pytest.mark.parametrize("branching", ["left", "right"])
def test_the_deepest_trees_have_brackets(branching):
    # One state that splits and one that is a leaf; N − 1 levels below one another.
    N = DEEPEST + 1
    again = torch.tensor([[[0.0, 0.0], [-inf, 0.0]]])
    end = torch.tensor([[[-inf, 0.0], [-inf, 0.0]]])
    sides = (again, end) if branching == "left" else (end, again)
    dist = LatentGrammar(torch.tensor([[-inf, inf]]), *sides, torch.zeros(1, 2, 1), torch.tensor([0]))
    fits, too_long = (dist.posterior(torch.zeros(1, n, dtype=torch.long)) for n in (N, N + 1))
    for best in (fits.argmax(), fits.consensus()):
        assert best.vertices.unique().shape == (N,)
        assert best.log_prob.item() == pytest.approx(0, abs=1e-4)
        assert best.trees()[0].height() == N
    for search in (too_long.argmax, too_long.consensus):
        with pytest.raises(ValueError, match="tokens: got a best tree deeper than 62"):
            search()


# --- sizes and errors -------------------------------------------------------------------------------------------------


def test_an_empty_batch():
    dist = random_grammar(0, 2, 2)
    tokens = torch.zeros(0, 3, dtype=torch.long)
    assert dist.log_prob(tokens).shape == dist.argmax().log_prob.shape == dist.greedy().log_prob.shape == (0,)
    assert dist.sample(2).log_prob.shape == (2, 0)
    assert dist.posterior(tokens).argmax().trees() == dist.posterior(tokens).consensus().trees() == []
    assert dist.posterior(tokens).span_marginals().shape == (0, 3, 3)
    assert dist.posterior(tokens).vertex_states(tokens)[0].shape == (0, 0)


def test_it_is_a_distribution():
    dist = random_grammar(2, 3, 4)
    assert isinstance(dist, Distribution)
    assert dist.batch_shape == (2,)
    assert repr(dist) == "LatentGrammar(batch_shape=(2,), states=3, vocabulary=4, depth=10)"


# --- places and operators ---------------------------------------------------------------------------------------------


def with_operators(places, operators, arriving=1, dtype=double, batch=3, vocabulary=3, **kwargs):
    """A grammar with operators; and for each operator of its root, the same with a column for every state.

    arriving: operators that nobody stays with
    """
    Q, columns = places * operators, places + operators - arriving
    leaf, tokens = torch.randn(batch, Q, dtype=dtype), torch.randn(batch, Q, vocabulary, dtype=dtype)
    own = torch.arange(places).repeat_interleave(operators)[:, None] == torch.arange(columns)
    left, right, choice = (torch.randn(batch, n, m, dtype=dtype) for n, m in 2 * [(Q, columns)] + [(places, operators)])
    left, right = (x.masked_fill(own, -inf) if operators > 1 else x for x in (left, right))
    for x in (left, right, choice):
        x.requires_grad_()
    root = torch.randint(places, (batch,))
    short = LatentGrammar(leaf, left, right, tokens, root, choice, **kwargs)
    left_side, right_side = (all_states(x, choice) for x in (left, right))
    wholes = [
        LatentGrammar(leaf, left_side, right_side, tokens, root * operators + o, validate_args=False, **kwargs)
        for o in range(operators)
    ]
    chosen = choice.log_softmax(-1)[torch.arange(batch), root].T  # (O, B)
    return short, wholes, chosen


SIZES = pytest.mark.parametrize(
    ("places", "operators", "arriving"), [(3, 1, 1), (2, 2, 1), (3, 4, 1), (3, 4, 3), (1, 4, 2), (2, 3, 3)]
)


@SIZES
@pytest.mark.parametrize(("dtype", "tolerance"), [(double, 1e-10), (torch.float32, 1e-4)])
def test_operators_change_the_form_and_not_the_sums(places, operators, arriving, dtype, tolerance):
    short, wholes, chosen = with_operators(places, operators, arriving, dtype)
    tokens, lengths = torch.randint(3, (3, 6)), torch.tensor([6, 1, 4])
    found = short.log_prob(tokens, lengths)
    each = chosen + torch.stack([whole.log_prob(tokens, lengths) for whole in wholes])
    torch.testing.assert_close(found, each.logsumexp(0), rtol=0, atol=tolerance)
    wanted = [short.left_logits, short.right_logits, short.operator_logits]
    gradients = (torch.autograd.grad(score.sum(), wanted) for score in (found, each.logsumexp(0)))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
    spans = torch.stack([whole.posterior(tokens, lengths).span_marginals() for whole in wholes])
    mean = (spans * each.detach().softmax(0)[..., None, None]).sum(0)
    torch.testing.assert_close(short.posterior(tokens, lengths).span_marginals(), mean, rtol=0, atol=tolerance)


@SIZES
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_operators_change_the_form_and_not_the_search(places, operators, arriving, depth):
    short, wholes, chosen = with_operators(places, operators, arriving, depth=depth)
    tokens, lengths = torch.randint(3, (3, 6)), torch.tensor([6, 1, 4])
    for search in (lambda dist: dist.argmax(), lambda dist: dist.argmax(2)):
        found, each = search(short), [search(whole) for whole in wholes]
        scores, best = (chosen + torch.stack([one.log_prob for one in each])).max(0)
        torch.testing.assert_close(found.log_prob, scores.detach())
        assert [leaves(found.vertices)[b] for b in range(3)] == [
            leaves(each[o].vertices)[b] for b, o in enumerate(best)
        ]
    found = short.posterior(tokens, lengths).argmax()
    evidence = [whole.posterior(tokens, lengths).log_evidence() for whole in wholes]
    each = [whole.posterior(tokens, lengths).argmax() for whole in wholes]
    scores, best = (chosen + torch.stack([one.log_prob for one in each]) + torch.stack(evidence)).max(0)
    torch.testing.assert_close(found.log_prob + short.log_prob(tokens, lengths), scores)
    assert leaves(found.vertices) == [leaves(each[o].vertices)[b] for b, o in enumerate(best)]


def test_greedy_with_operators():
    """Place 0 may only become places 1 and 2; the operators decide which of two tokens each says."""
    leaf = torch.tensor([[-1.0, -1.0, 1.0, 1.0, 1.0, 1.0]])
    go = torch.full((1, 6, 4), -inf)
    go[:, :2, 1:3], go[:, 2:, 0] = 0, 0
    left, right = go.clone(), go.clone()
    left[:, 1, 1], right[:, 1, 2], left[:, 0, 2] = 1, 1, 1
    tokens = 3 * torch.eye(2).repeat(3, 1)[None]
    for first, second, third in itertools.product(range(2), repeat=3):
        choice = torch.nn.functional.one_hot(torch.tensor([[first, second, third]]), 2).float()
        best = LatentGrammar(leaf, left, right, tokens, torch.tensor([0]), choice).greedy()
        assert best.tokens.tolist() == [[second, third] if first else [third, second]]
        likely, likeliest = math.log(1 / (1 + math.exp(-1))), math.log(1 / (1 + math.exp(-3)))
        children = 2 * likely if first else likely + math.log(1 / 2)
        # operators, to split and to be leaves, children, tokens
        assert best.log_prob.item() == pytest.approx(3 * likely + 3 * likely + children + 2 * likeliest, abs=1e-5)


def test_samples_with_operators():
    short, wholes, chosen = with_operators(2, 2, batch=1, vocabulary=2)
    root = short.root.item()
    can_split = torch.arange(4) // 2 == root  # and then goes on to the other place
    for dist in (short, *wholes):
        dist.leaf_logits = dist.leaf_logits.masked_fill(~can_split, inf)
        home = [2] if dist is short else [2 * root, 2 * root + 1]
        dist.left_logits, dist.right_logits = (
            x.index_fill(2, torch.tensor(home), -inf) for x in (dist.left_logits.detach(), dist.right_logits.detach())
        )
    expected = {}
    for whole, share in zip(wholes, chosen.exp()[:, 0].tolist(), strict=True):
        for p, vertices, tokens in Naive(whole, 0).derivations(1):
            expected[vertices, tokens] = expected.get((vertices, tokens), 0) + share * p
    assert sum(expected.values()) == pytest.approx(1)
    drawn = short.sample(10_000)
    sentences = (
        tuple(row[:n]) for row, n in zip(drawn.tokens[:, 0].tolist(), drawn.lengths[:, 0].tolist(), strict=True)
    )
    assert chi_square_p_value(zip(leaves(drawn.vertices[:, 0]), sentences, strict=True), expected) > 1e-3


@pytest.mark.parametrize("operators", [1, 2])
def test_best_children_in_pieces(monkeypatch, operators):
    places = 4 // operators
    choice = torch.randn(2, places, operators)
    transitions = charts.Transitions(torch.randn(2, 4, places + operators - 1), choice)
    values = torch.randn(2, 5, 4)
    expected = charts.best_children(transitions, values)
    monkeypatch.setattr(charts, "LARGEST", 2 * 16 * 2)
    assert torch.equal(charts.best_children(transitions, values), expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"leaf_logits": torch.zeros(2)}, r"leaf_logits: got shape \(2,\); expected \(sentences, states\)"),
        ({"left_logits": torch.zeros(2, 3, 2)}, r"left_logits: got shape \(2, 3, 2\); expected \(2, 3, 3\)"),
        ({"right_logits": torch.zeros(1, 3, 3)}, r"right_logits: got shape \(1, 3, 3\); expected \(2, 3, 3\)"),
        ({"right_logits": torch.zeros(2, 3, 3).long()}, r"right_logits: got dtype torch.int64"),
        ({"token_logits": torch.zeros(2, 4, 3)}, r"token_logits: got shape \(2, 4, 3\); expected \(2, 3, vocabulary\)"),
        ({"token_logits": torch.zeros(2, 3, 3, device="meta")}, r"token_logits: got a tensor on meta"),
        ({"root": torch.tensor([0])}, r"root: got shape \(1,\); expected \(2,\), one state a sentence"),
        ({"root": torch.tensor([0, 3])}, r"root: got 3 at \[1\]; expected 0 to 2, a place"),
        (
            {"operator_logits": torch.zeros(2, 2, 2)},
            r"operator_logits: got shape \(2, 2, 2\); expected \(2, places, operators\), together 3 states",
        ),
        ({"operator_logits": torch.zeros(2, 1, 3)}, r"left_logits: got a finite logit for the own place of the state"),
        (
            {"operator_logits": torch.zeros(2, 1, 3), "left_logits": torch.zeros(2, 3, 4)},
            r"left_logits: got shape \(2, 3, 4\); expected \(2, 3, 3\)",
        ),
        (
            {"operator_logits": torch.zeros(2, 1, 3), "right_logits": torch.zeros(2, 3, 2)},
            r"right_logits: got shape \(2, 3, 2\); expected \(2, 3, 3\)",
        ),
        ({"depth": 63}, r"depth: got 63; expected a whole number, 0 to 62"),
        ({"leaf_logits": torch.full((2, 3), math.nan)}, r"leaf_logits: got nan at \[0, 0\]"),
        ({"left_logits": torch.full((2, 3, 3), -inf)}, r"left_logits: got no finite largest logit in row \[0, 0\]"),
        ({"token_logits": torch.full((2, 3, 4), inf)}, r"token_logits: got no finite largest logit in row \[0, 0\]"),
    ],
)
def test_bad_parameters(changes, message):
    good: dict[str, Any] = {
        "leaf_logits": torch.zeros(2, 3),
        "left_logits": torch.zeros(2, 3, 3),
        "right_logits": torch.zeros(2, 3, 3),
        "token_logits": torch.zeros(2, 3, 4),
        "root": torch.tensor([0, 2]),
    }
    LatentGrammar(**good)
    with pytest.raises(ValueError, match=message):
        LatentGrammar(**(good | changes))


@pytest.mark.parametrize(
    ("tokens", "lengths", "message"),
    [
        (torch.zeros(3, 2).long(), None, r"tokens: got shape \(3, 2\); expected \(2, tokens\)"),
        (torch.zeros(2, 0).long(), None, r"tokens: got shape \(2, 0\); expected \(2, tokens\) with at least one token"),
        (torch.zeros(2, 2), None, r"tokens: got dtype torch.float32"),
        (torch.tensor([[0, 4], [0, 0]]), None, r"tokens: got 4 at \[0, 1\]; expected 0 to 3"),
        (torch.zeros(2, 2).long(), torch.tensor([1, 3]), r"lengths: got 3 at \[1\]; expected 1 to 2"),
    ],
)
def test_bad_sentences(tokens, lengths, message):
    dist = random_grammar(2, 3, 4)
    for method in (dist.log_prob, dist.posterior):
        with pytest.raises(ValueError, match=message):
            method(tokens, lengths)
    with pytest.raises(ValueError, match=r"max_length: got 0"):
        dist.argmax(0)
