import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree import LatentTree, TokenLogits
from torch_ctree.trees import naive, paper, search
from torch_ctree.trees.search import best_derivation_within

from ..measure import leaves
from .test_distribution import leaf_scores, random_dist


def single(dist, index):
    return LatentTree(dist.leaf_logits[index], dist.emission.logits[index])


@pytest.mark.parametrize(("depth", "vocabulary"), [(0, 1), (0, 4), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)])
@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_k_best_by_enumeration(depth, vocabulary, k):
    dist = random_dist(depth, vocabulary, (3,))
    found = dist.topk(k)
    torch.testing.assert_close(found.log_prob[0], dist.argmax().log_prob)
    for b in range(3):
        expected = naive.best_derivations(leaf_scores(single(dist, b)), k)
        scores = [score for score, _, _ in expected] + [-math.inf] * (k - len(expected))
        assert found.log_prob[:, b].tolist() == pytest.approx(scores)
        for rank, (_, tree, tokens) in enumerate(expected):
            assert leaves(found.vertices[rank, b]) == [tree]
            assert tuple(found.tokens[rank, b, : found.lengths[rank, b]].tolist()) == tokens
        for rank in range(len(expected), k):
            assert found.lengths[rank, b] == 0
            assert (found.vertices[rank, b] == -1).all()


@given(
    depth=st.integers(0, 3),
    max_length=st.integers(1, 9),
    scale=st.sampled_from([0.3, 2.0, 50.0]),
    seed=st.integers(0, 999),
)
def test_best_within_a_length_by_enumeration(depth, max_length, scale, seed):
    torch.manual_seed(seed)
    dist = random_dist(depth, 2, scale=scale)
    scores, tokens = leaf_scores(dist).max(-1)
    short = [tree for tree in naive.trees(depth) if len(tree) <= max_length]
    expected = max(sum(scores[v].item() for v in tree) for tree in short)
    within = best_derivation_within(scores[None], tokens[None], max_length)
    found = dist.argmax(max_length)
    assert found.tokens.shape[-1] == found.lengths.item() <= max_length
    assert within.scores.item() == pytest.approx(expected)
    assert found.log_prob.item() == pytest.approx(expected)
    assert found.log_prob.item() == pytest.approx(dist.joint_log_prob(found).item())
    assert leaves(found.vertices)[0] in short


@given(depth=st.integers(0, 3), scale=st.sampled_from([0.3, 2.0, 50.0]), seed=st.integers(0, 999))
def test_best_of_each_length_by_enumeration(depth, scale, seed):
    torch.manual_seed(seed)
    dist = random_dist(depth, 2, (3,), scale=scale)
    found = dist.argmax_by_length()
    assert found.tokens.shape == (2**depth, 3, 2**depth)
    assert found.lengths.tolist() == [[n] * 3 for n in range(1, 2**depth + 1)]
    for b in range(3):
        scores, tokens = leaf_scores(single(dist, b)).max(-1)
        for n in range(1, 2**depth + 1):
            best = max(naive.fitting(depth, n), key=lambda tree: sum(scores[v].item() for v in tree))
            tree, says = found.vertices[n - 1, b, :n].tolist(), found.tokens[n - 1, b, :n].tolist()
            assert found.log_prob[n - 1, b].item() == pytest.approx(sum(scores[v].item() for v in best))
            assert sum(scores[v].item() for v in tree) == pytest.approx(sum(scores[v].item() for v in best))
            assert tuple(tree) in naive.fitting(depth, n)
            assert says == tokens[tree].tolist()
            assert (found.vertices[n - 1, b, n:] == -1).all()
    torch.testing.assert_close(dist.joint_log_prob(found), found.log_prob)


@pytest.mark.parametrize("backend", ["torch", "numba"])
@pytest.mark.parametrize("max_length", [1, 3, 10, 40, 64])
def test_the_best_of_all_lengths_is_the_best(backend, max_length):
    dist = splitting_dist(6, 20)
    found, best = dist.argmax_by_length(max_length), dist.argmax(max_length)
    score, place = found.log_prob.max(0)
    torch.testing.assert_close(score, best.log_prob)
    assert torch.equal(place + 1, best.lengths)
    scores, tokens = dist.emission.topk(1)
    scores = dist.prior.log_m() + scores[..., 0]
    again = search.best_derivation_of_each_length(scores, tokens[..., 0], max_length, search.kernel_of(scores, backend))
    torch.testing.assert_close(again.scores, found.log_prob)
    torch.testing.assert_close(dist.joint_log_prob(found), found.log_prob)


def test_the_best_of_each_length_where_there_is_none():
    dist = LatentTree(torch.full((7,), -math.inf), torch.zeros(7, 2))  # all split: four tokens, whatever else
    found = dist.argmax_by_length(6)
    assert found.lengths.tolist() == [0, 0, 0, 4, 0, 0]
    assert found.log_prob.isneginf().tolist() == [True, True, True, False, True, True]
    assert (found.vertices[[0, 1, 2, 4, 5]] == -1).all()
    assert found.vertices[3].tolist() == [3, 4, 5, 6, -1, -1]
    assert dist.argmax_by_length().log_prob.tolist() == found.log_prob[:4].tolist()


def test_the_best_of_each_length_alone_and_in_a_batch():
    dist = random_dist(4, 5, (2, 3))
    together = dist.argmax_by_length(9)
    assert together.log_prob.shape == (9, 2, 3)
    assert isinstance(dist.emission, TokenLogits)
    for b in range(2):
        for c in range(3):
            alone = LatentTree(dist.leaf_logits[b, c], dist.emission.logits[b, c]).argmax_by_length(9)
            for one, other in zip(vars(alone).values(), vars(together[:, b, c]).values(), strict=True):
                assert torch.equal(one, other)


@given(
    depth=st.integers(0, 3),
    most=st.sampled_from([None, 1, 3, 9]),
    penalty=st.sampled_from([0.3, 1.0, 2.5]),
    scale=st.sampled_from([0.3, 2.0, 50.0]),
    seed=st.integers(0, 999),
)
def test_best_for_its_length_by_enumeration(depth, most, penalty, scale, seed):
    torch.manual_seed(seed)
    dist = random_dist(depth, 2, (3,), scale=scale)
    found = dist.argmax(most, length_penalty=penalty)
    for b in range(3):
        scores, tokens = leaf_scores(single(dist, b)).max(-1)
        short = [tree for tree in naive.trees(depth) if len(tree) <= (most or 8)]
        rank = {tree: sum(scores[v].item() for v in tree) / ((6 + len(tree)) / 6) ** penalty for tree in short}
        (tree,) = leaves(found.vertices[b][None])
        assert rank[tree] == pytest.approx(max(rank.values()))
        assert found.lengths[b] == len(tree)
        assert found.tokens[b, : len(tree)].tolist() == tokens[list(tree)].tolist()
    torch.testing.assert_close(dist.joint_log_prob(found), found.log_prob)
    assert found.tokens.shape[-1] == found.lengths.max()


@pytest.mark.parametrize("backend", ["torch", "numba"])
def test_the_best_for_its_length_on_every_backend(backend):
    dist = splitting_dist(5, 7)
    scores, tokens = dist.emission.topk(1)
    scores = dist.prior.log_m() + scores[..., 0]
    best = dist.argmax(20, length_penalty=0.7)
    found = search.best_derivation_for_its_length(scores, tokens[..., 0], 20, 0.7, search.kernel_of(scores, backend))
    assert torch.equal(found.vertices, best.vertices)
    torch.testing.assert_close(found.scores, best.log_prob)
    assert best.lengths.max() > dist.argmax(20).lengths.float().mean()


def test_the_best_for_its_length_where_there_is_none():
    split = LatentTree(torch.full((7,), -math.inf), torch.zeros(7, 2))  # all split: four tokens, whatever else
    assert split.argmax(length_penalty=1.0).lengths == 4
    found = split.argmax(3, length_penalty=1.0)
    assert (found.lengths.item(), found.log_prob.item(), found.vertices.tolist()) == (0, -math.inf, [-1])


@pytest.mark.parametrize("penalty", [-0.1, 7.5, 1e6, math.inf, math.nan])
def test_penalties_that_tell_no_lengths_apart(penalty):
    """Beyond the largest one all lengths would be equally good in float32, and the shortest the first of them."""
    with pytest.raises(ValueError, match=r"^length_penalty: got .*; expected a number from 0 to 7$"):
        random_dist(2, 2).argmax(length_penalty=penalty)
    torch.manual_seed(0)
    ranks = search.penalised(torch.tensor([-1.0, -1.0]), torch.tensor([2**20, 2**20 + 1]), 7)
    assert -1e-30 < ranks[0] < ranks[1] < 0  # of the deepest tree
    assert random_dist(3, 2).argmax(length_penalty=7).lengths == 8


def splitting_dist(depth, batch):
    """Mostly splits, so that good derivations are long."""
    V = 2 ** (depth + 1) - 1
    return LatentTree(torch.randn(batch, V) - 2, 6 * torch.randn(batch, V, 5))


@pytest.mark.parametrize("max_length", [1, 3, 10, 40, 64, None])
def test_three_searches_agree(max_length):
    dist = splitting_dist(6, 20)
    found = dist.argmax(max_length)
    torch.testing.assert_close(found.log_prob, dist.joint_log_prob(found))
    scores, tokens = dist.emission.topk(1)
    scores = dist.prior.log_m() + scores[..., 0]
    within = best_derivation_within(scores, tokens[..., 0], max_length or 64)
    torch.testing.assert_close(found.log_prob, within.scores)
    if max_length in (64, None):
        decoded = [paper.decode_joint(row) for row in scores]
        assert leaves(found.vertices) == [tuple(tree) for tree, _ in decoded]
        torch.testing.assert_close(found.log_prob, torch.tensor([score for _, score in decoded]))


def test_the_early_exit_never_changes_the_answer(monkeypatch):
    dist = splitting_dist(5, 40)
    scores = dist.prior.log_m() + dist.emission.topk(1)[0][..., 0]
    tokens = torch.zeros_like(scores, dtype=torch.long)
    steps = []
    real = search.segment_max
    monkeypatch.setattr(search, "segment_max", lambda *args: steps.append(1) or real(*args))
    for max_length in (4, 16, 32):
        steps.clear()
        early = best_derivation_within(scores, tokens, max_length)
        assert len(steps) <= max_length
        # All lengths, without stopping: the best completed score of each one.
        alphas = search.kernel_of(scores, "torch").alphas(
            scores[:, None].expand(-1, max_length, -1), torch.full((40,), max_length), maximise=True
        )
        best, length = alphas[:, 1:, -1].max(-1)
        assert torch.equal(early.scores, best)
        assert torch.equal(early.lengths, length + 1)


def test_the_early_exit_is_taken(monkeypatch):
    steps = []
    real = search.segment_max
    monkeypatch.setattr(search, "segment_max", lambda *args: steps.append(1) or real(*args))
    certain = torch.full((1, 127), -20.0)
    certain[0, 1:3] = -0.1  # two leaves; anything longer costs 20 a word
    found = best_derivation_within(certain, torch.zeros(1, 127, dtype=torch.long), 64)
    assert found.lengths.item() == 2
    assert len(steps) == 2


def test_where_nothing_is_possible_within_the_length():
    never = torch.full((7,), -math.inf)  # all split: four tokens, whatever else
    dist = LatentTree(never, torch.zeros(7, 2))
    assert dist.argmax().lengths == 4
    found = dist.argmax(3)
    assert found.lengths == 0
    assert found.log_prob == -math.inf
    assert (found.vertices == -1).all()


def test_equal_scores_give_a_real_derivation():
    dist = LatentTree(torch.zeros(2, 31), torch.zeros(2, 31, 3))
    for found in (dist.argmax(), dist.topk(7), dist.argmax(2)):
        torch.testing.assert_close(found.log_prob, dist.joint_log_prob(found))
    found = dist.topk(7)
    assert (
        len(
            {
                (tuple(v), tuple(t))
                for v, t in zip(found.vertices[:, 0].tolist(), found.tokens[:, 0].tolist(), strict=True)
            }
        )
        == 7
    )


def test_huge_logits():
    dist = LatentTree(1e4 * torch.randn(3, 31).sign(), 1e4 * torch.randn(3, 31, 4))
    found = dist.argmax()
    torch.testing.assert_close(found.log_prob, dist.joint_log_prob(found))
    assert found.log_prob.isfinite().all()


@pytest.mark.parametrize("k", [0, -1, 1.5, True, None])
def test_bad_k(k):
    dist = random_dist(2, 2)
    for method in (dist.topk, dist.posterior(torch.tensor([0, 1])).topk):
        with pytest.raises(ValueError, match=r"k: got .*; expected a whole number, 1 or more"):
            method(k)
    if k is not None:
        with pytest.raises(ValueError, match=r"max_length: got"):
            dist.argmax(k)
        with pytest.raises(ValueError, match=r"max_length: got"):
            dist.argmax_by_length(k)
