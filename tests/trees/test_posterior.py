import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree import LatentTree, TreePosterior
from torch_ctree.trees import naive

from ..measure import chi_square_p_value, leaves
from .test_distribution import random_dist

double = torch.float64


def of_weights(log_weights, lengths=None):
    """A posterior straight from weights (B, N, V)."""
    lengths = torch.full(log_weights.shape[:-2], log_weights.shape[-2]) if lengths is None else lengths
    return TreePosterior(log_weights, torch.zeros(log_weights.shape[:-1], dtype=torch.long), lengths)


def entropy_of(probabilities):
    return -sum(p * math.log(p) for p in probabilities if p > 0)


@pytest.mark.parametrize("depth", range(5))
def test_everything_by_enumeration(depth):
    for N in {1, 2, 3, 2**depth - 1, 2**depth}:
        if not 1 <= N <= 2**depth:
            continue
        weights = 2 * torch.randn(2, N, 2 ** (depth + 1) - 1, dtype=double)
        post = of_weights(weights)
        best, ranked = post.argmax(), post.topk(4)
        for b in range(2):
            exact = naive.posterior(weights[b])
            torch.testing.assert_close(post.marginals()[b], naive.marginals(weights[b]))
            torch.testing.assert_close(post.span_marginals()[b], naive.span_marginals(weights[b]))
            assert post.entropy()[b].item() == pytest.approx(entropy_of(exact.values()), abs=1e-12)
            order = sorted(exact, key=lambda tree: -exact[tree])
            assert leaves(best.vertices[b]) == order[:1]
            assert best.log_prob[b].item() == pytest.approx(math.log(exact[order[0]]), abs=1e-9)
            assert leaves(ranked.vertices[:, b])[: len(order)] == order[:4]
            expected = [math.log(exact[tree]) for tree in order[:4]] + [-math.inf] * (4 - len(order))
            assert ranked.log_prob[:, b].tolist() == pytest.approx(expected, abs=1e-9)


def test_spans_of_sentences_of_many_lengths():
    """A tree of N leaves has 2N − 1 constituents, the words and the whole among them."""
    weights = 30 * torch.randn(2, 3, 20, 63)
    lengths = torch.tensor([[20, 1, 7], [13, 20, 2]])
    spans = of_weights(weights, lengths).span_marginals()
    assert spans.shape == (2, 3, 20, 20)
    torch.testing.assert_close(spans.sum((-2, -1)), 2.0 * lengths - 1)
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(3)).tolist():
        one, N = spans[tuple(place)], int(lengths[tuple(place)])
        assert (one.diagonal()[:N] > 1 - 1e-5).all()
        assert one[0, N - 1] > 1 - 1e-5
        assert (one[N:] == 0).all()
        assert (one[:, N:] == 0).all()
        assert (one.tril(-1) == 0).all()


def test_log_prob_of_every_tree_sums_to_one():
    post = of_weights(torch.randn(5, 15, dtype=double))
    trees = naive.fitting(3, 5)
    log_prob = post.log_prob(torch.tensor(trees))
    assert log_prob.shape == (len(trees),)
    assert log_prob.exp().sum().item() == pytest.approx(1)


@given(depth=st.integers(0, 4), scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]), seed=st.integers(0, 999), data=st.data())
def test_properties(depth, scale, seed, data):
    N = data.draw(st.integers(1, 2**depth))
    lengths = torch.tensor([N, data.draw(st.integers(1, N))])
    generator = torch.Generator().manual_seed(seed)
    weights = scale * torch.randn(2, N, 2 ** (depth + 1) - 1, dtype=double, generator=generator)
    post = of_weights(weights, lengths)
    alive = (torch.arange(N) < lengths[:, None]).double()
    torch.testing.assert_close(post.marginals().sum(-1), alive)
    counts = torch.tensor([math.log(naive.count(depth, n)) for n in lengths.tolist()], dtype=double)
    entropy = post.entropy()
    assert (entropy >= 0).all()
    assert (entropy <= counts + 1e-9).all()
    if scale == 0:
        torch.testing.assert_close(entropy, counts)
    k = 3
    ranked = post.topk(k)
    assert (ranked.log_prob[:-1] >= ranked.log_prob[1:]).all()
    assert (ranked.log_prob <= 1e-9).all()
    torch.testing.assert_close(ranked.log_prob[0], post.argmax().log_prob)


@pytest.mark.parametrize("N", [1, 2, 4, 8])
def test_entropy_and_marginals_are_differentiable(N):
    weights = torch.randn(2, N, 15, dtype=double, requires_grad=True)
    lengths = torch.tensor([N, max(1, N - 1)])
    assert torch.autograd.gradcheck(lambda w: of_weights(w, lengths).entropy(), weights)
    assert torch.autograd.gradcheck(lambda w: of_weights(w, lengths).marginals(), weights)


def test_entropy_as_a_regulariser():
    leaf_logits = torch.randn(15, dtype=double, requires_grad=True)
    token_logits = torch.randn(15, 3, dtype=double, requires_grad=True)
    tokens = torch.tensor([0, 1, 2, 1])

    def entropy():
        return LatentTree(leaf_logits, token_logits).posterior(tokens).entropy()

    before = entropy()
    gradients = torch.autograd.grad(before, (leaf_logits, token_logits))
    with torch.no_grad():
        leaf_logits += 0.1 * gradients[0]
        token_logits += 0.1 * gradients[1]
    assert entropy() > before


def test_entropy_gradient_is_finite_where_tokens_are_impossible():
    weights = torch.randn(2, 4, 15)
    weights[0, 1, ::2] = -math.inf
    weights[1, 2] = -math.inf
    weights.requires_grad_()
    entropy = of_weights(weights).entropy()
    entropy.sum().backward()
    assert weights.grad is not None
    assert weights.grad.isfinite().all()
    assert (weights.grad[1] == 0).all()


def test_entropy_does_not_cancel_in_float32():
    # Two trees, equally likely, each with a log-weight near −1e4.
    weights = torch.full((1, 3, 7), -1e4 / 3)
    assert of_weights(weights).entropy().item() == pytest.approx(math.log(2), abs=1e-6)


def test_samples_have_the_right_frequencies():
    weights = torch.randn(2, 5, 15, dtype=double)
    drawn = of_weights(weights).sample((10_000,))
    assert drawn.vertices.shape == (10_000, 2, 5)
    for b in range(2):
        exact = naive.posterior(weights[b])
        assert chi_square_p_value(leaves(drawn.vertices[:, b]), exact) > 1e-3
        assert drawn.log_prob[0, b].item() == pytest.approx(math.log(exact[leaves(drawn.vertices[0, b])[0]]))


def test_shapes_with_samples_and_batch():
    dist = random_dist(3, 4, (2, 3))
    tokens, lengths = torch.randint(4, (5, 2, 3, 6)), torch.randint(1, 7, (5, 2, 3))
    post = dist.posterior(tokens, lengths)
    assert post.batch_shape == (5, 2, 3)
    assert post.marginals().shape == (5, 2, 3, 6, 15)
    assert post.entropy().shape == post.log_evidence().shape == post.argmax().log_prob.shape == (5, 2, 3)
    assert post.topk(2).vertices.shape == (2, 5, 2, 3, 6)
    assert post.sample((7, 2)).vertices.shape == (7, 2, 5, 2, 3, 6)
    assert post.sample().vertices.shape == (5, 2, 3, 6)
    assert torch.equal(post.sample((2,)).tokens[0], tokens)
    torch.testing.assert_close(post.log_evidence(), dist.log_prob(tokens, lengths))


def test_posterior_and_evidence_make_the_joint():
    dist = random_dist(3, 4, (3,))
    tokens, lengths = torch.randint(4, (3, 6)), torch.tensor([6, 2, 5])
    best = dist.posterior(tokens, lengths).argmax()
    torch.testing.assert_close(best.log_prob + dist.log_prob(tokens, lengths), dist.joint_log_prob(best))


def test_a_sentence_of_probability_zero_has_no_trees():
    weights = torch.randn(2, 3, 7)
    weights[0, 1] = -math.inf
    post = of_weights(weights)
    assert (post.marginals()[0] == 0).all()
    assert (post.span_marginals()[0] == 0).all()
    assert post.span_marginals()[1].sum().item() == pytest.approx(5)
    assert post.entropy()[0] == 0
    for found in (post.argmax(), post.topk(2)[0], post.sample((3,))[0]):
        assert (found.vertices[0] == -1).all()
        assert found.log_prob[0] == -math.inf
        assert (found.vertices[1] >= 0).all()


def test_vertices_that_are_not_the_sentences():
    post = of_weights(torch.randn(1, 3, 7))
    with pytest.raises(ValueError, match=r"vertices: got \[1, 2, 2\] at \[0\]"):
        post.log_prob(torch.tensor([[1, 2, 2]]))
