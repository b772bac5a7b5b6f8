"""A mixture with words of the source: compared with one that has every word of every vertex in a tensor."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree import CopyEmission, LatentTree, LinearEmission, TokenLogits
from torch_ctree.trees.copying import with_copies

from ..measure import Operations, chi_square_p_value

double = torch.float64
B, V, K, S, N = 3, 7, 6, 5, 8
SOURCES = torch.tensor(
    [
        [4, 2, 4, 4, 0],  # a word three times
        [-1, 1, 3, 1, -1],  # what cannot be repeated, in front and as padding
        [-1, -1, -1, -1, -1],  # nothing
    ]
)


def parameters(scale=1.0):
    """States, weight, bias; the gate's logits, scores of positions."""
    shapes = ((B, V, 4), (K, 4), (K,), (B, V), (B, V, S))
    return [(scale * torch.randn(shape, dtype=double)).requires_grad_() for shape in shapes]


def a_mixture(states, weight, bias, copy_logits, scores):
    return mixed((states, weight, bias), copy_logits, scores, SOURCES)


def mixed(layer, copy_logits, scores, source):
    return CopyEmission(LinearEmission(*layer, block_elements=40), copy_logits, scores, source)


def by_definition(states, weight, bias, copy_logits, scores):
    """(B, V, K) probabilities, position by position."""
    own = torch.nn.functional.linear(states, weight, bias).softmax(-1)
    rows = []
    for b, v in itertools.product(range(B), range(V)):
        can = [j for j, token in enumerate(SOURCES[b].tolist()) if token >= 0 and scores[b, v, j] > -math.inf]
        row = own[b, v]
        if can:
            c, shares = copy_logits[b, v].sigmoid(), scores[b, v, can].softmax(0)
            row = (1 - c) * row
            for j, share in zip(can, shares, strict=True):
                row = row + c * share * torch.eye(K, dtype=double)[SOURCES[b, j]]
        rows.append(row)
    return torch.stack(rows).view(own.shape)


def log_probs(emission):
    """(B, V, K)"""
    return emission.log_prob(torch.arange(K).expand(B, K)).mT


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
def test_it_is_the_mixture(scale):
    made = parameters(scale)
    emission, expected = a_mixture(*made), by_definition(*made)
    torch.testing.assert_close(log_probs(emission).exp(), expected)
    tokens, vertices = torch.randint(K, (2, B, N)), torch.randint(V, (2, B, N))
    batch = torch.arange(B)[:, None]
    torch.testing.assert_close(emission.log_prob_at(tokens, vertices).exp(), expected[batch, vertices, tokens])
    torch.testing.assert_close(emission.log_prob(tokens[0]).exp(), expected[batch, :, tokens[0]])


def test_all_tokens_in_their_order_are_the_default():
    layer = [x.detach() for x in parameters()[:3]]
    *_, copy_logits, scores = made = parameters()
    own = LinearEmission(*layer).log_prob(torch.arange(K).expand(B, K)).detach().requires_grad_()
    results = []
    for tokens in (None, torch.arange(K).expand(B, K)):
        value = with_copies(own, copy_logits, scores, SOURCES, tokens)
        results.append((value, *torch.autograd.grad(value, (own, *made[3:]), torch.ones_like(value).cumsum(1))))
    torch.testing.assert_close(*results)


def test_gradients_are_those_of_the_mixture():
    made, tokens = parameters(), torch.randint(K, (B, N))
    upstream = torch.randn(B, N, V, dtype=double)
    mine = torch.autograd.grad(a_mixture(*made).log_prob(tokens), made, upstream)
    dense = by_definition(*made).log()[torch.arange(B)[:, None], :, tokens]
    torch.testing.assert_close(mine, torch.autograd.grad(dense, made, upstream))
    assert not mine[3][2].any()  # where there is nothing to repeat
    assert not mine[4][2].any()


def test_gradcheck():
    tokens, vertices = torch.randint(K, (B, 3)), torch.randint(V, (2, B, 3))
    assert torch.autograd.gradcheck(lambda *made: a_mixture(*made).log_prob(tokens), parameters())
    assert torch.autograd.gradcheck(
        lambda *made: a_mixture(*made).log_prob_at(tokens.expand(2, B, 3), vertices), parameters()
    )


@given(scale=st.sampled_from([0.0, 1.0, 30.0, 1000.0]), positions=st.integers(1, 6), seed=st.integers(0, 99))
def test_it_sums_to_one(scale, positions, seed):
    torch.manual_seed(seed)
    layer = scale / 30 * torch.randn(B, V, 4, dtype=double), torch.randn(K, 4, dtype=double)
    copies = scale * torch.randn(B, V, dtype=double), scale * torch.randn(B, V, positions, dtype=double)
    emission = CopyEmission(LinearEmission(*layer), *copies, torch.randint(-1, K, (B, positions)))
    torch.testing.assert_close(log_probs(emission).logsumexp(-1), torch.zeros(B, V, dtype=double), atol=1e-9, rtol=0)


def test_where_it_stands_does_not_matter_nor_what_pads():
    *layer, copy_logits, scores = parameters()
    expected = log_probs(mixed(layer, copy_logits, scores, SOURCES))
    order = torch.randperm(S)
    shuffled = mixed(layer, copy_logits, scores[..., order], SOURCES[:, order])
    torch.testing.assert_close(log_probs(shuffled), expected)
    padded = mixed(
        layer, copy_logits, torch.nn.functional.pad(scores, (1, 2)), torch.nn.functional.pad(SOURCES, (1, 2), value=-1)
    )
    torch.testing.assert_close(log_probs(padded), expected)
    forbidden = mixed(layer, copy_logits, scores.masked_fill(SOURCES[:, None] < 0, -math.inf), SOURCES.clamp_min(0))
    torch.testing.assert_close(log_probs(forbidden), expected)


def test_a_word_twice_is_repeated_by_both():
    *layer, copy_logits, _ = parameters()
    scores = torch.randn(B, V, 2, dtype=double)
    twice = log_probs(mixed(layer, copy_logits, scores, torch.full((B, 2), 3)))
    once = log_probs(mixed(layer, copy_logits, scores[..., :1], torch.full((B, 1), 3)))
    torch.testing.assert_close(twice, once)


def test_without_anything_to_repeat_it_is_the_layer():
    *layer, copy_logits, scores = parameters()
    own = LinearEmission(*layer)
    nothing = torch.full((B, S), -1)
    for emission in (
        CopyEmission(own, copy_logits, scores, nothing),
        CopyEmission(own, torch.full_like(copy_logits, -math.inf), scores, SOURCES),
        CopyEmission(own, copy_logits, torch.full_like(scores, -math.inf), SOURCES.clamp_min(0)),
    ):
        assert torch.equal(log_probs(emission), log_probs(own))
        for mine, theirs in zip(emission.topk(4), own.topk(4), strict=True):
            torch.testing.assert_close(mine, theirs)


# --- extremes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, double])
@pytest.mark.parametrize("gate", [-1e4, -200.0, 200.0, 1e4])
def test_gates_that_are_sure(gate, dtype):
    """In logarithms nothing is lost, and every derivative is finite."""
    made = [x.detach().to(dtype).requires_grad_() for x in parameters()]
    with torch.no_grad():
        made[3].fill_(gate)
        made[4][..., 0] = -1e4  # hardly looked at
    emission = a_mixture(*made)
    value = log_probs(emission)
    assert value.isfinite().all()
    own = log_probs(LinearEmission(*made[:3]))
    torch.testing.assert_close(value[2], own[2])
    if gate > 0:  # in the first source there are no 1, 3, 5
        torch.testing.assert_close(value[0, :, [1, 3, 5]], own[0, :, [1, 3, 5]] - gate)
        looks = made[4][0].log_softmax(-1)
        torch.testing.assert_close(value[0, :, 2], looks[:, 1])
        hardly = torch.logaddexp(looks[:, 4], own[0, :, 0] - gate)
        torch.testing.assert_close(value[0, :, 0], hardly)
    else:
        torch.testing.assert_close(value, own)
    for gradient in torch.autograd.grad(value.sum(), made):
        assert gradient.isfinite().all()


def test_of_a_word_that_is_hardly_looked_at_both_places_count():
    """Far below what an exponential can hold."""
    scores = torch.tensor([0.0, -5000.0, -5001.0]).expand(1, 1, 3).clone().requires_grad_()
    own = LinearEmission(torch.zeros(1, 1, 2), torch.zeros(4, 2), torch.tensor([0.0, 0.0, -9000.0, 0.0]))
    emission = CopyEmission(own, torch.zeros(1, 1), scores, torch.tensor([[1, 2, 2]]))
    value = emission.log_prob(torch.tensor([[2]]))
    both = math.log1p(math.exp(-1))
    assert value.item() == pytest.approx(-5000 + both + math.log(0.5), rel=1e-6)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    share = 1 / (1 + math.exp(-1))
    assert gradient.flatten().tolist() == pytest.approx([-1, share, 1 - share], abs=1e-3)


def test_a_word_that_nothing_can_say():
    """Not the layer, nor the source: log 0, and derivatives that are none."""
    made = parameters()
    with torch.no_grad():
        made[2][5] = -math.inf
    value = a_mixture(*made).log_prob(torch.full((B, 1), 5))
    assert (value == -math.inf).all()
    gradients = torch.autograd.grad(value, made[3:], torch.zeros_like(value))
    assert not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    made = [x.detach().to(dtype).requires_grad_() for x in parameters()]
    value = a_mixture(*made).log_prob(torch.randint(K, (B, N)))
    assert value.dtype == torch.float32
    value.sum().backward()
    assert all(x.grad is not None and x.grad.dtype == dtype and x.grad.isfinite().all() for x in made)


# --- search and sampling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize("k", range(1, K + 1))
def test_topk_is_exact(k, scale):
    for _ in range(10):
        made = parameters(scale)
        emission, expected = a_mixture(*made), by_definition(*made).log()
        best, tokens = emission.topk(k)
        torch.testing.assert_close(best, expected.topk(k).values)
        torch.testing.assert_close(expected.gather(-1, tokens), best)
        assert all(len(set(row)) == k for row in tokens.reshape(-1, k).tolist())
        assert not best.requires_grad


def test_samples_of_trees_have_the_frequencies_of_the_mixture():
    made = parameters(2.0)
    emission, expected = a_mixture(*made), by_definition(*made)
    drawn = emission.sample(torch.arange(V).expand(4000, B, V))
    assert drawn.shape == (4000, B, V)
    for b, v in itertools.product(range(B), range(V)):
        assert chi_square_p_value(drawn[:, b, v].tolist(), dict(enumerate(expected[b, v].tolist()))) > 1e-4


@pytest.mark.parametrize("own", ["linear", "logits"])
def test_a_tree_of_it_is_a_tree_of_its_logits(own):
    made = parameters()
    leaf_logits = torch.randn(B, V, dtype=double)
    inner = LinearEmission(*made[:3]) if own == "linear" else TokenLogits(made[0] @ made[1].T + made[2])
    mine = LatentTree(leaf_logits, CopyEmission(inner, made[3], made[4], SOURCES))
    theirs = LatentTree(leaf_logits, by_definition(*made).log())
    tokens, lengths = torch.randint(K, (2, B, 4)), torch.randint(1, 5, (2, B))
    torch.testing.assert_close(mine.log_prob(tokens, lengths), theirs.log_prob(tokens, lengths))
    torch.testing.assert_close(mine.posterior(tokens, lengths).entropy(), theirs.posterior(tokens, lengths).entropy())
    for found, expected in (
        (mine.argmax(), theirs.argmax()),
        (mine.argmax(1), theirs.argmax(1)),
        (mine.topk(9), theirs.topk(9)),
    ):
        torch.testing.assert_close(found.log_prob, expected.log_prob)
        torch.testing.assert_close(mine.joint_log_prob(found), found.log_prob)
    drawn = mine.sample((50,))
    torch.testing.assert_close(drawn.log_prob, theirs.joint_log_prob(drawn))
    wide = mine.expand((2, B))
    torch.testing.assert_close(wide.log_prob(tokens, lengths), mine.log_prob(tokens, lengths))
    torch.testing.assert_close(wide.argmax().log_prob, mine.argmax().log_prob.expand(2, B))
    assert repr(mine.emission) == f"CopyEmission(vertices={V}, vocabulary={K})"


def test_one_source_without_a_batch():
    states, weight, bias, copy_logits, scores = parameters()
    whole = a_mixture(states, weight, bias, copy_logits, scores)
    for b in range(B):
        alone = CopyEmission(LinearEmission(states[b], weight, bias), copy_logits[b], scores[b], SOURCES[b])
        torch.testing.assert_close(alone.log_prob(torch.arange(K)), whole.log_prob(torch.arange(K).expand(B, K))[b])
        assert LatentTree(torch.zeros(V, dtype=double), alone).sample((4,)).log_prob.shape == (4,)


# --- what it costs ----------------------------------------------------------------------------------------------------


WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "is_nonzero", "equal")


@pytest.mark.parametrize("checked", [False, True])
def test_a_step_waits_for_nobody(checked):
    """What reads a number from a device, or has a shape that depends on numbers, cannot be in a CUDA graph.

    Nor is anything added with atomics. Where values are checked, they are read.
    """
    made, tokens = parameters(), torch.randint(K, (B, 4))
    with Operations() as operations:
        dist = LatentTree(torch.zeros(B, V, dtype=double), a_mixture(*made), validate_args=checked)
        dist.emission.log_weights(tokens, dist.prior.log_m()).sum().backward()
    assert checked == any(name.startswith(WAITING) for name in operations.names)
    assert not any(name.startswith(("scatter_add", "index_add", "index_put")) for name in operations.names)


def test_bad_mixtures():
    own = LinearEmission(torch.zeros(2, 7, 4), torch.zeros(5, 4))
    gates, scores, source = torch.zeros(2, 7), torch.zeros(2, 7, 3), torch.zeros(2, 3, dtype=torch.long)
    for made, message in [
        ((gates[0], scores, source), r"copy_logits: got shape \(7,\); expected \(2, 7\), as in own"),
        ((gates.long(), scores, source), r"copy_logits: got dtype torch.int64; expected one of"),
        (
            (gates, scores[:, :3], source),
            r"scores: got shape \(2, 3, 3\); expected \(2, 7, positions\) with at least one",
        ),
        ((gates, scores[..., :0], source[:, :0]), r"scores: got shape \(2, 7, 0\)"),
        ((gates, scores.to("meta"), source), r"scores: got a tensor on meta; expected one on cpu"),
        ((gates, scores, source[:, :2]), r"source: got shape \(2, 2\); expected \(2, 3\), one token a position"),
        ((gates, scores, source.float()), r"source: got dtype torch.float32"),
    ]:
        with pytest.raises(ValueError, match=message):
            CopyEmission(own, *made)
    leaves = torch.zeros(2, 7)
    for made, message in [
        ((gates + math.nan, scores, source), r"copy_logits: got nan at \[0, 0\]"),
        ((gates, scores + math.inf, source), r"scores: got inf at \[0, 0, 0\]; expected numbers or -inf"),
        ((gates, scores, source + 5), r"source: got 5 at \[0, 0\]; expected 0 to 4, or -1 for what cannot be repeated"),
        ((gates, scores, source - 2), r"source: got -2 at \[0, 0\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            LatentTree(leaves, CopyEmission(own, *made))
