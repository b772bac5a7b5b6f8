import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Distribution

from torch_ctree import LatentTree, TokenLogits
from torch_ctree.trees import naive
from torch_ctree.trees.topology import topology

from ..measure import chi_square_p_value, leaves

double = torch.float64


def random_dist(depth, vocabulary, batch=(), scale=1.0, **kwargs):
    V = topology(depth).vertices
    leaf_logits = scale * torch.randn(*batch, V, dtype=double)
    return LatentTree(leaf_logits, scale * torch.randn(*batch, V, vocabulary, dtype=double), **kwargs)


def leaf_scores(dist):
    """(V, K): log m(v) + log p(x | v) of a distribution without batch dimensions, by definition."""
    return dist.prior.log_m()[:, None] + dist.emission.logits.log_softmax(-1)


def all_sentences(vocabulary, length):
    return torch.tensor(list(itertools.product(range(vocabulary), repeat=length)))


# --- log_prob ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", range(5))
def test_log_prob_by_enumeration(depth):
    dist = random_dist(depth, 3)
    for n in range(1, 2**depth + 1):
        tokens = torch.randint(3, (n,))
        expected = naive.log_likelihood(leaf_scores(dist)[:, tokens].T)
        assert dist.log_prob(tokens).item() == pytest.approx(expected)


@given(
    depth=st.integers(0, 3),
    vocabulary=st.integers(1, 2),
    scale=st.sampled_from([0.0, 1.0, 100.0]),
    seed=st.integers(0, 99),
)
@pytest.mark.parametrize("backend", ["paper", "torch", "numba"])
def test_all_sentences_of_all_lengths_sum_to_one(backend, depth, vocabulary, scale, seed):
    torch.manual_seed(seed)
    dist = random_dist(depth, vocabulary, scale=scale)
    total = 0.0
    for n in range(1, 2**depth + 1):
        by_length = dist.log_prob(all_sentences(vocabulary, n), backend=backend).exp().sum().item()
        assert by_length == pytest.approx(dist.length_log_prob()[n - 1].exp().item())
        total += by_length
    assert total == pytest.approx(1)


def test_gradients_reach_the_logits():
    leaf_logits = torch.randn(2, 7, dtype=double, requires_grad=True)
    token_logits = torch.randn(2, 7, 3, dtype=double, requires_grad=True)
    tokens, lengths = torch.tensor([[0, 1, 2], [2, 2, 0]]), torch.tensor([3, 2])
    assert torch.autograd.gradcheck(
        lambda a, b: LatentTree(a, b).log_prob(tokens, lengths), (leaf_logits, token_logits)
    )


def test_what_pads_a_sentence_does_not_matter():
    dist = random_dist(3, 4)
    tokens, lengths = torch.randint(4, (5, 6)), torch.tensor([1, 2, 3, 6, 4])
    expected = dist.log_prob(tokens, lengths)
    for padding in (-100, -1, 3, 4, 10**6):
        padded = tokens.masked_fill(torch.arange(6) >= lengths[:, None], padding)
        assert torch.equal(dist.log_prob(padded, lengths), expected)
        torch.testing.assert_close(dist.posterior(padded, lengths).entropy(), dist.posterior(tokens, lengths).entropy())


@pytest.mark.parametrize("backend", ["paper", "torch", "numba"])
def test_the_backend_can_be_chosen(backend):
    dist = random_dist(3, 4, (2,))
    tokens, lengths = torch.randint(4, (2, 5)), torch.tensor([5, 3])
    torch.testing.assert_close(dist.log_prob(tokens, lengths, backend=backend), dist.log_prob(tokens, lengths))


@pytest.mark.parametrize(
    ("batch", "given_shape"),
    [
        ((), ()),
        ((), (4,)),
        ((3,), (3,)),
        ((3,), (2, 3)),
        ((3,), (1,)),
        ((3, 1), (3, 4)),
        ((3, 1), (2, 1, 4)),
        ((2, 3), (5, 2, 3)),
    ],
)
def test_batch_shapes_broadcast(batch, given_shape):
    dist = random_dist(2, 3, batch)
    tokens = torch.randint(3, (*given_shape, 4))
    lengths = torch.randint(1, 5, given_shape)
    shape = torch.broadcast_shapes(batch, given_shape)
    assert isinstance(dist.emission, TokenLogits)
    logits = dist.emission.logits
    value = dist.log_prob(tokens, lengths)
    entropy = dist.posterior(tokens, lengths).entropy()
    assert value.shape == entropy.shape == shape
    for index in itertools.product(*map(range, shape)):
        alone = LatentTree(dist.leaf_logits.expand(*shape, -1)[index], logits.expand(*shape, -1, -1)[index])
        sentence = tokens.expand(*shape, -1)[index], lengths.expand(shape)[index]
        torch.testing.assert_close(value[index], alone.log_prob(*sentence))
        torch.testing.assert_close(entropy[index], alone.posterior(*sentence).entropy())


def test_prior_and_emission_broadcast_against_each_other():
    dist = LatentTree(torch.zeros(7), torch.randn(3, 7, 2))
    assert dist.batch_shape == (3,)
    assert dist.leaf_logits.shape == (3, 7)
    assert LatentTree(torch.zeros(4, 1, 7), torch.randn(3, 7, 2)).batch_shape == (4, 3)


def test_expand():
    dist = random_dist(2, 3, (3, 1))
    wide = dist.expand((2, 3, 4))
    tokens = torch.randint(3, (2, 3, 4, 3))
    assert wide.batch_shape == (2, 3, 4)
    torch.testing.assert_close(wide.log_prob(tokens), dist.log_prob(tokens))
    assert wide.argmax().lengths.shape == (2, 3, 4)
    torch.testing.assert_close(wide.argmax().log_prob, dist.argmax().log_prob.expand(2, 3, 4))


def test_an_empty_batch():
    dist = random_dist(2, 3, (0,))
    tokens, lengths = torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long)
    post = dist.posterior(tokens, lengths)
    assert dist.log_prob(tokens, lengths).shape == post.entropy().shape == dist.prior.entropy().shape == (0,)
    assert dist.length_log_prob().shape == (0, 4)
    for found in (dist.argmax(), dist.argmax(1), dist.sample(), post.argmax(), post.sample()):
        assert found.log_prob.shape == (0,)
        assert found.trees() == []
    assert dist.argmax_by_length(3).log_prob.shape == (3, 0)
    assert dist.topk(2).log_prob.shape == post.topk(2).log_prob.shape == dist.sample((2,)).log_prob.shape == (2, 0)


def test_it_is_a_distribution():
    dist = random_dist(2, 3, (3,))
    assert isinstance(dist, Distribution)
    assert dist.batch_shape == (3,)
    assert dist.event_shape == ()
    assert not dist.has_rsample
    assert repr(dist) == "LatentTree(batch_shape=(3,), depth=2, TokenLogits(vertices=7, vocabulary=3))"


def test_inference_mode_first_and_training_after():
    with torch.inference_mode():
        dist = LatentTree(torch.zeros(31), torch.zeros(31, 2))
        dist.log_prob(torch.tensor([0, 1]))
        post = dist.posterior(torch.tensor([0, 1]))
        assert post.marginals().sum().item() == pytest.approx(2)
        assert post.entropy().item() == pytest.approx(0, abs=1e-6)  # two tokens have one tree
        for found in (post.argmax(), post.topk(1)[0], post.sample(), dist.sample(), dist.argmax(), dist.argmax(1)):
            assert found.log_prob.isfinite()
    logits = torch.zeros(31, requires_grad=True)
    LatentTree(logits, torch.zeros(31, 2)).log_prob(torch.tensor([0, 1])).backward()
    assert logits.grad is not None


@pytest.fixture
def validation():
    """The compiler switches validation off for all distributions; this switches it on again after the test."""
    yield
    Distribution.set_default_validate_args(True)


@pytest.mark.usefixtures("validation")
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_compiled_distribution():
    def score(leaf_logits, token_logits, tokens):
        dist = LatentTree(leaf_logits, token_logits, validate_args=False)
        return dist.log_prob(tokens), dist.argmax().log_prob, dist.posterior(tokens).entropy(), dist.length_log_prob()

    arguments = torch.randn(2, 7), torch.randn(2, 7, 3), torch.randint(3, (2, 3))
    torch.testing.assert_close(torch.compile(score, backend="eager")(*arguments), score(*arguments))


def test_two_backward_passes_through_one_distribution():
    logits = torch.randn(7, requires_grad=True)
    dist = LatentTree(logits, torch.randn(7, 2))
    dist.log_prob(torch.tensor([0, 1])).backward()
    dist.prior.entropy().backward()
    dist.posterior(torch.tensor([0, 1, 0])).entropy().backward()


# --- sampling ---------------------------------------------------------------------------------------------------------


def test_samples_have_the_right_frequencies_and_scores():
    dist = random_dist(2, 2)
    scores = leaf_scores(dist)
    expected = {(tree, tokens): math.exp(score) for score, tree, tokens in naive.best_derivations(scores, 10**6)}
    assert sum(expected.values()) == pytest.approx(1)
    drawn = dist.sample((20_000,))
    sentences = [tuple(row[:n]) for row, n in zip(drawn.tokens.tolist(), drawn.lengths.tolist(), strict=True)]
    assert chi_square_p_value(zip(leaves(drawn.vertices), sentences, strict=True), expected) > 1e-3
    torch.testing.assert_close(drawn.log_prob, dist.joint_log_prob(drawn))


def test_sample_shapes_and_dependence_on_the_seed():
    dist = random_dist(3, 4, (2, 3))
    drawn = dist.sample((5,))
    assert drawn.lengths.shape == drawn.log_prob.shape == (5, 2, 3)
    assert drawn.tokens.shape == drawn.vertices.shape == (5, 2, 3, int(drawn.lengths.max()))
    assert dist.log_prob(drawn.tokens, drawn.lengths).shape == (5, 2, 3)
    torch.manual_seed(7)
    first = dist.sample((2,))
    torch.manual_seed(7)
    assert torch.equal(first.tokens, dist.sample((2,)).tokens)


# --- validation -------------------------------------------------------------------------------------------------------


def sentence_errors():
    ok_tokens, ok_lengths = torch.tensor([[0, 1, 2], [1, 1, 0]]), torch.tensor([3, 2])
    return [
        (ok_tokens, torch.tensor([3, 0]), r"lengths: got 0 at \[1\]; expected 1 to 3, the number of token columns"),
        (ok_tokens, torch.tensor([4, 2]), r"lengths: got 4 at \[0\]; expected 1 to 3"),
        (ok_tokens, torch.tensor([3]), r"lengths: got shape \(1,\); expected \(2,\), one length a sentence"),
        (ok_tokens, torch.tensor([3.0, 2.0]), r"lengths: got dtype torch.float32; expected one of uint8"),
        (ok_tokens, [3, 2], r"lengths: got list; expected a torch.Tensor of integers"),
        (ok_tokens, ok_lengths.to("meta"), r"lengths: got a tensor on meta; expected one on cpu"),
        (torch.tensor([[0, 1, 3], [1, 1, 0]]), ok_lengths, r"tokens: got 3 at \[0, 2\]; expected 0 to 2"),
        (torch.tensor([[0, -1, 2], [1, 1, 0]]), ok_lengths, r"tokens: got -1 at \[0, 1\]; expected 0 to 2"),
        (ok_tokens.double(), ok_lengths, r"tokens: got dtype torch.float64; expected one of"),
        (ok_tokens.to("meta"), ok_lengths, r"tokens: got a tensor on meta; expected one on cpu"),
        (ok_tokens.tolist(), ok_lengths, r"tokens: got list; expected a torch.Tensor of integers"),
        (torch.tensor(1), torch.tensor(1), r"tokens: got shape \(\); expected \(…, tokens\)"),
        (torch.zeros(2, 0, dtype=torch.long), ok_lengths, r"tokens: got shape \(2, 0\)"),
        (ok_tokens[:, None].expand(2, 5, 3), ok_lengths[:, None].expand(2, 5), r"tokens: got batch shape \(2, 5\)"),
    ]


@pytest.mark.parametrize(("tokens", "lengths", "message"), sentence_errors())
@pytest.mark.parametrize("method", ["log_prob", "posterior"])
def test_bad_sentences(method, tokens, lengths, message):
    dist = LatentTree(torch.zeros(2, 7), torch.zeros(2, 7, 3))
    with pytest.raises(ValueError, match=message):
        getattr(dist, method)(tokens, lengths)


def test_a_sentence_too_long_for_the_depth():
    dist = random_dist(3, 2)
    tokens = torch.zeros(3, 20, dtype=torch.long)
    with pytest.raises(ValueError, match=r"lengths: got 17 at \[1\]; expected at most 8.* depth 3: .* needs depth 5"):
        dist.log_prob(tokens, torch.tensor([8, 17, 1]))
    unchecked = random_dist(3, 2, validate_args=False)
    assert unchecked.log_prob(tokens, torch.tensor([8, 17, 1]))[1] == -math.inf


def test_bad_parameters():
    with pytest.raises(ValueError, match=r"emission: got 15 vertices; expected 7, as in leaf_logits"):
        LatentTree(torch.zeros(7), torch.zeros(15, 2))
    with pytest.raises(ValueError, match=r"emission: got shape \(6, 2\); expected V = 2\*\*\(D\+1\) - 1"):
        LatentTree(torch.zeros(7), torch.zeros(6, 2))
    with pytest.raises(ValueError, match=r"emission: got shape \(7,\); expected \(…, vertices, vocabulary\)"):
        LatentTree(torch.zeros(7), torch.zeros(7))
    with pytest.raises(ValueError, match=r"emission: got tensors on meta; expected cpu"):
        LatentTree(torch.zeros(7), torch.zeros(7, 2, device="meta"))
    with pytest.raises(ValueError, match=r"emission: got batch shape \(3,\); expected one that broadcasts with \(2,\)"):
        LatentTree(torch.zeros(2, 7), torch.zeros(3, 7, 2))
    with pytest.raises(ValueError, match=r"emission: got nan at \[3, 1\]"):
        LatentTree(
            torch.zeros(7), torch.zeros(7, 2).index_put((torch.tensor(3), torch.tensor(1)), torch.tensor(math.nan))
        )
    nobody = torch.zeros(7, 2)
    nobody[4] = -math.inf
    with pytest.raises(ValueError, match=r"emission: got no finite largest logit at vertex \[4\]"):
        LatentTree(torch.zeros(7), nobody)
    with pytest.raises(ValueError, match=r"leaf_logits: got nan"):
        LatentTree(torch.full((7,), math.nan), torch.zeros(7, 2))
    LatentTree(torch.full((7,), math.nan), nobody, validate_args=False)


@pytest.mark.usefixtures("validation")
def test_validation_follows_the_global_switch():
    Distribution.set_default_validate_args(False)
    LatentTree(torch.full((7,), math.nan), torch.zeros(7, 2))
