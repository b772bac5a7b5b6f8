import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import kl_divergence

from torch_ctree import TreePrior
from torch_ctree.trees import naive
from torch_ctree.trees.topology import topology

from ..measure import chi_square_p_value, leaves, padded

double = torch.float64


def random_prior(depth, batch=(), scale=1.0):
    return TreePrior((scale * torch.randn(*batch, topology(depth).vertices, dtype=double)).requires_grad_())


def all_trees(depth, batch=()):
    """Every tree, once for each member of the batch: vertices (trees, *batch, N), lengths (trees, *batch)."""
    vertices, lengths = padded(naive.trees(depth))
    ones = (1,) * len(batch)
    return (
        vertices.reshape(len(vertices), *ones, -1).expand(-1, *batch, -1),
        lengths.reshape(-1, *ones).expand(-1, *batch),
    )


def test_m_is_the_closed_form_of_equation_5():
    logits = torch.randn(31, dtype=double)
    leaf = torch.sigmoid(logits)
    leaf[15:] = 1
    log_m = TreePrior(logits).log_m()
    for v in range(31):
        expected, above, power = leaf[v], v, 1.0
        while above > 0:
            above, power = (above - 1) // 2, power / 2
            expected = expected * (1 - leaf[above]) ** power
        assert log_m[v].item() == pytest.approx(expected.log().item())


@pytest.mark.parametrize("depth", range(5))
def test_both_ways_to_a_trees_probability_agree_with_the_definition(depth):
    prior = random_prior(depth)
    vertices, lengths = padded(naive.trees(depth))
    expected = torch.tensor([naive.log_prior(prior.leaf_logits, tree) for tree in naive.trees(depth)], dtype=double)
    torch.testing.assert_close(prior.log_prob(vertices, lengths), expected)
    torch.testing.assert_close(prior.log_prob_recursive(vertices, lengths), expected)


@given(depth=st.integers(0, 4), scale=st.sampled_from([0.0, 1.0, 10.0, 1e4, math.inf]), seed=st.integers(0, 999))
def test_the_probabilities_of_all_trees_sum_to_one(depth, scale, seed):
    sign = torch.randn(topology(depth).vertices, dtype=double, generator=torch.Generator().manual_seed(seed))
    prior = TreePrior(sign * scale if scale < math.inf else sign.sign() * scale)
    vertices, lengths = padded(naive.trees(depth))
    assert prior.log_prob(vertices, lengths).exp().sum().item() == pytest.approx(1)
    assert prior.log_prob_recursive(vertices, lengths).exp().sum().item() == pytest.approx(1)
    assert prior.length_log_prob().exp().sum().item() == pytest.approx(1)


@pytest.mark.parametrize("depth", range(5))
def test_entropy_kl_and_lengths_by_enumeration(depth):
    prior, other = random_prior(depth, (3,)), random_prior(depth, (3,))
    vertices, lengths = all_trees(depth, (3,))
    log_p, log_q = prior.log_prob(vertices, lengths), other.log_prob(vertices, lengths)
    torch.testing.assert_close(prior.entropy(), -(log_p.exp() * log_p).sum(0))
    torch.testing.assert_close(prior.kl(other), (log_p.exp() * (log_p - log_q)).sum(0))
    torch.testing.assert_close(kl_divergence(prior, other), prior.kl(other))
    for n in range(1, 2**depth + 1):
        expected = torch.where(lengths == n, log_p, -math.inf).logsumexp(0)
        torch.testing.assert_close(prior.length_log_prob()[:, n - 1], expected)


def test_kl_to_itself_is_zero():
    prior = random_prior(4, (2,))
    assert prior.kl(prior).abs().max() < 1e-12


@pytest.mark.parametrize(
    "quantity",
    [
        lambda p: p.entropy(),
        lambda p: p.kl(TreePrior(torch.ones_like(p.leaf_logits))),
        lambda p: p.length_log_prob(6),
        lambda p: p.log_m(),
        lambda p: p.log_prob(*padded(naive.trees(3))),
        lambda p: p.log_prob_recursive(*padded(naive.trees(3))),
    ],
)
def test_gradients(quantity):
    logits = torch.randn(15, dtype=double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: quantity(TreePrior(x)), logits)


@pytest.mark.parametrize("extreme", [1e4, -1e4, math.inf, -math.inf])
def test_gradients_are_finite_at_extremes(extreme):
    logits = torch.full((15,), extreme)
    logits[2] = -extreme
    logits.requires_grad_()
    prior = TreePrior(logits)
    uniform = TreePrior(torch.zeros(15))
    certain = prior.length_log_prob()
    for value in (prior.entropy(), prior.kl(uniform), uniform.kl(TreePrior(logits.clamp(-50, 50))), certain.max()):
        assert value.isfinite()
        (gradient,) = torch.autograd.grad(value, logits, retain_graph=True, allow_unused=True)
        assert gradient is None or gradient.isfinite().all()
    assert prior.entropy() == 0
    assert certain.exp().max() == 1


def test_kl_is_infinite_where_the_other_rules_a_tree_out():
    assert TreePrior(torch.zeros(7)).kl(TreePrior(torch.full((7,), math.inf))) == math.inf
    assert TreePrior(torch.full((7,), math.inf)).kl(TreePrior(torch.zeros(7))).item() == pytest.approx(math.log(2))


def test_the_deepest_levels_logits_do_not_matter():
    logits = torch.randn(15, dtype=double)
    changed = logits.clone()
    changed[7:] += torch.randn(8)
    vertices, lengths = padded(naive.trees(3))
    assert torch.equal(TreePrior(logits).log_m(), TreePrior(changed).log_m())
    assert torch.equal(
        TreePrior(logits).log_prob_recursive(vertices, lengths),
        TreePrior(changed).log_prob_recursive(vertices, lengths),
    )


def test_lengths_beyond_what_the_depth_holds_have_probability_zero():
    log_prob = random_prior(2).length_log_prob(7)
    assert log_prob[:4].isfinite().all()
    assert (log_prob[4:] == -math.inf).all()


def test_samples_have_the_right_frequencies():
    prior = random_prior(3)
    expected = {tree: math.exp(naive.log_prior(prior.leaf_logits, tree)) for tree in naive.trees(3)}
    drawn = prior.sample((20_000,))
    assert torch.equal(drawn.lengths, (drawn.vertices >= 0).sum(-1))
    assert chi_square_p_value(leaves(drawn.vertices), expected) > 1e-3


def test_sample_and_expand_shapes():
    prior = random_prior(2, (3, 1))
    wide = prior.expand((5, 3, 2))
    assert wide.batch_shape == (5, 3, 2)
    drawn = wide.sample((4,))
    assert drawn.vertices.shape[:-1] == drawn.lengths.shape == (4, 5, 3, 2)
    assert wide.log_prob(*drawn).shape == (4, 5, 3, 2)
    torch.testing.assert_close(wide.entropy(), prior.entropy().expand(5, 3, 2))
    assert wide.length_log_prob(3).shape == (5, 3, 2, 3)


def test_half_precision_logits():
    logits = torch.randn(2, 15)
    exact = TreePrior(logits.bfloat16().float()).log_m()
    assert torch.equal(TreePrior(logits.bfloat16()).log_m(), exact)


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"leaf_logits: got shape \(2, 6\); expected V = 2\*\*\(D\+1\) - 1 vertices"):
        TreePrior(torch.zeros(2, 6))
    with pytest.raises(ValueError, match=r"leaf_logits: got shape \(\)"):
        TreePrior(torch.tensor(0.0))
    with pytest.raises(ValueError, match=r"leaf_logits: got dtype torch.int64; expected one of float16"):
        TreePrior(torch.zeros(7, dtype=torch.long))
    with pytest.raises(ValueError, match=r"leaf_logits: got list; expected a torch.Tensor"):
        TreePrior([0.0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"leaf_logits: got nan at \[1, 2\]"):
        TreePrior(torch.tensor([[0.0, 0, 0], [0, 0, math.nan]]))
    TreePrior(torch.full((3,), math.nan), validate_args=False)
    with pytest.raises(ValueError, match=r"other: got a prior of depth 2; expected depth 1"):
        TreePrior(torch.zeros(3)).kl(TreePrior(torch.zeros(7)))
    with pytest.raises(ValueError, match=r"max_length: got 0; expected a whole number, 1 or more"):
        TreePrior(torch.zeros(3)).length_log_prob(0)


@pytest.mark.parametrize("tree", [[1, 1], [2, 1], [1, 3], [1, 7], [0, 2], [3, 4]])
def test_vertices_that_are_no_tree(tree):
    prior = TreePrior(torch.zeros(7))
    with pytest.raises(ValueError, match=rf"vertices: got \[{tree[0]}, {tree[1]}\] at \[1\]; expected the leaves"):
        prior.log_prob(torch.tensor([[1, 2], tree]), torch.tensor([2, 2]))
