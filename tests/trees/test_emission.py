import math
import subprocess
import sys

import pytest
import torch

from torch_ctree import CopyEmission, Derivation, Emission, LatentTree, LinearEmission, TokenLogits
from torch_ctree.trees.emission import _rounded

from ..measure import Operations, Recorder, chi_square_p_value

double = torch.float64


@pytest.fixture
def layer():
    states = torch.randn(2, 15, 6, dtype=double, requires_grad=True)
    weight = torch.randn(11, 6, dtype=double, requires_grad=True)
    bias = torch.randn(11, dtype=double, requires_grad=True)
    return states, weight, bias


KINDS = pytest.mark.parametrize("kind", ["logits", "linear", "copy"])


def an_emission(kind, states, weight, bias, **settings):
    """One that says the words of a linear layer; "copy" repeats some words too."""
    if kind == "logits":
        return TokenLogits(torch.nn.functional.linear(states, weight, bias))
    linear = LinearEmission(states, weight, bias, **settings)
    if kind == "linear":
        return linear
    copy_logits, scores = torch.randn_like(states[..., 0]), torch.randn_like(states[..., :5])
    source = torch.tensor([1, -1, 0, 1, len(weight) - 1])
    return CopyEmission(linear, copy_logits, scores, source.expand(*states.shape[:-2], 5))


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("block_elements", [1, 40, 10**6])
def test_a_linear_layer_equals_its_logits(layer, with_bias, block_elements):
    states, weight, bias = layer
    bias = bias if with_bias else None
    linear = LinearEmission(states, weight, bias, block_elements=block_elements)
    logits = TokenLogits(torch.nn.functional.linear(states, weight, bias))
    tokens = torch.randint(11, (2, 9))
    torch.testing.assert_close(linear.log_prob(tokens), logits.log_prob(tokens))
    for S in (1, 3):  # at fewer places than there are vertices, and at more
        at = torch.randint(15, (S, 2, 9))
        expected = logits.log_prob(tokens).expand(S, 2, 9, 15).gather(-1, at[..., None])[..., 0]
        for emission in (linear, logits):
            torch.testing.assert_close(emission.log_prob_at(tokens.expand(S, 2, 9), at), expected)
    for mine, theirs in zip(linear.topk(4), logits.topk(4), strict=True):
        torch.testing.assert_close(mine, theirs)
    parameters = [p for p in (states, weight, bias) if p is not None]
    upstream = torch.randn(2, 9, 15, dtype=double)
    mine = torch.autograd.grad(linear.log_prob(tokens), parameters, upstream)
    theirs = torch.autograd.grad(logits.log_prob(tokens), parameters, upstream)
    torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("places", [2, 20])
def test_gradcheck_of_the_linear_layer_at_some_vertices(layer, places):
    tokens, at = torch.randint(11, (2, places)), torch.randint(15, (2, places))
    assert torch.autograd.gradcheck(lambda s, w, b: LinearEmission(s, w, b).log_prob_at(tokens, at), layer)


def test_gradcheck_of_the_linear_layer(layer):
    tokens = torch.randint(11, (2, 3))
    assert torch.autograd.gradcheck(
        lambda s, w, b: LinearEmission(s, w, b, block_elements=50).log_prob(tokens), layer, nondet_tol=1e-12
    )


def test_second_derivatives_of_given_logits():
    logits, tokens = torch.randn(2, 7, 3, dtype=double, requires_grad=True), torch.randint(3, (2, 4))
    assert torch.autograd.gradgradcheck(lambda x: TokenLogits(x).log_prob(tokens), logits)


def test_given_logits_under_transforms():
    logits, tokens = torch.randn(5, 2, 7, 3, dtype=double), torch.randint(3, (5, 2, 4))

    def score(logits, tokens):
        return TokenLogits(logits).log_prob(tokens).exp().sum()

    mapped = torch.func.vmap(torch.func.grad(score))(logits, tokens)
    for gradient, one, sentence in zip(mapped, logits, tokens, strict=True):
        one.requires_grad_()
        torch.testing.assert_close(torch.autograd.grad(score(one, sentence), one)[0], gradient)


def test_every_emission_can_add_the_prior(layer):
    tokens, log_m = torch.randint(11, (2, 5)), torch.randn(2, 15, dtype=double)
    ready = (an_emission(kind, *layer) for kind in ("logits", "linear", "copy"))
    for emission in (*ready, SameEverywhere(layer[2], 15, (2,))):
        expected = log_m[:, None, :] + emission.log_prob(tokens)
        torch.testing.assert_close(emission.log_weights(tokens, log_m), expected)


@KINDS
def test_log_probs_of_all_tokens_sum_to_one(layer, kind):
    emission = an_emission(kind, *layer)
    every = emission.log_prob(torch.arange(11).expand(2, 11))  # (2, K, V)
    torch.testing.assert_close(every.exp().sum(1), torch.ones(2, 15, dtype=double))


def test_rounding_to_what_tf32_has():
    """Eleven binary digits: the nearest such number, of large, tiny and negative ones too. What is none stays."""
    x = torch.cat([torch.randn(1000) * 10.0**power for power in range(-30, 31, 10)])
    unit = torch.exp2((torch.frexp(x.double()).exponent - 11).double())  # frexp's fractions begin with a half
    assert torch.equal(_rounded(x).double(), x.sign() * (x.double().abs() / unit + 0.5).floor() * unit)
    assert torch.equal(_rounded(_rounded(x)), _rounded(x))
    odd = torch.tensor([0x7FFFFFFF, 0x7FC00000, 0x7F800000, -0x800000, 0, -0x80000000], dtype=torch.int32)
    assert torch.equal(_rounded(odd.view(torch.float32)).view(torch.int32), odd)  # NaN, as GPUs have it too; ±inf, ±0


@pytest.mark.parametrize("k", [1, 3])
@KINDS
def test_the_best_tokens_and_given_ones_in_one_go(layer, kind, k):
    emission, tokens = an_emission(kind, *layer), torch.randint(11, (2, 5))
    with Operations() as operations:
        found = emission.topk_and_log_prob(k, tokens)
    torch.testing.assert_close(found, (*emission.topk(k), emission.log_prob(tokens).detach()))
    assert not any(part.requires_grad for part in found)
    if kind == "linear":  # logits are made once
        assert operations.names.count("addmm.out") == 1


@KINDS
def test_tokens_are_drawn_from_their_vertex(kind):
    emission = an_emission(kind, torch.randn(7, 5), torch.randn(3, 5), None, block_elements=5)
    drawn = emission.sample(torch.arange(7).expand(3000, 7))
    assert drawn.shape == (3000, 7)
    probabilities = emission.log_prob(torch.arange(3)).exp().T.tolist()
    for v in range(7):
        expected = dict(enumerate(probabilities[v]))
        assert chi_square_p_value(drawn[:, v].tolist(), expected) > 1e-3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_precision_layer(layer, dtype):
    states, weight, bias = (p.detach().to(dtype).requires_grad_() for p in layer)
    value = LatentTree(torch.zeros(2, 15, dtype=dtype), LinearEmission(states, weight, bias)).log_prob(
        torch.randint(11, (2, 5))
    )
    assert value.dtype == torch.float32
    value.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == dtype and p.grad.isfinite().all() for p in (states, weight, bias))


@pytest.mark.parametrize("kind", ["linear", "copy"])
@pytest.mark.parametrize("mode", ["forward", "backward", "topk", "sample"])
def test_vertices_and_vocabulary_never_meet_in_one_tensor(mode, kind):
    V, K, H, N = 127, 3000, 8, 12
    layer = torch.randn(V, H, requires_grad=True), torch.randn(K, H, requires_grad=True), None
    emission = an_emission(kind, *layer, block_elements=4 * K)
    dist = LatentTree(torch.zeros(V), emission)
    tokens = torch.randint(K, (N,))
    with Recorder() as recorder:
        if mode == "forward":
            dist.log_prob(tokens)
        elif mode == "backward":
            dist.log_prob(tokens).backward()
        elif mode == "topk":
            dist.topk(3)
        else:
            dist.sample((5,))
    assert max(recorder.sizes) <= K * H < V * K / 10


PEAK = """
import resource, torch
from torch_ctree import CopyEmission, LatentTree, LinearEmission

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB

def train(vocabulary, width):
    layer = torch.randn(8, 511, width, requires_grad=True), torch.randn(vocabulary, width, requires_grad=True)
    emission, scores = LinearEmission(*layer), torch.randn(8, 511, 20, requires_grad=True)
    if COPY:
        emission = CopyEmission(emission, scores[..., 0], scores, torch.randint(-1, vocabulary, (8, 20)))
    dist = LatentTree(torch.zeros(8, 511), emission)
    before = peak()
    dist.log_prob(torch.randint(vocabulary, (8, 20))).sum().backward()
    dist.argmax(), dist.sample((3,))
    return peak() - before

train(50, 4)  # compiles, imports
print(train(30_000, 32))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures memory in Linux's units")
@pytest.mark.parametrize("copy", [False, True])
def test_a_vocabulary_of_30000_costs_memory_for_the_targets_only(copy):
    command = [sys.executable, "-c", f"COPY = {copy}\n{PEAK}"]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    assert float(ran.stdout) < 150  # (vertices × vocabulary) alone would be 468 MiB


def test_bad_layers():
    states, weight = torch.zeros(7, 4), torch.zeros(5, 4)
    with pytest.raises(ValueError, match=r"weight: got shape \(5, 3\); expected \(vocabulary, 4\)"):
        LinearEmission(states, torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"bias: got shape \(4,\); expected \(5,\)"):
        LinearEmission(states, weight, torch.zeros(4))
    with pytest.raises(ValueError, match=r"states: got shape \(6, 4\); expected V"):
        LinearEmission(torch.zeros(6, 4), weight)
    with pytest.raises(ValueError, match=r"states: got shape \(7,\); expected \(…, vertices, width\)"):
        LinearEmission(torch.zeros(7), weight)
    with pytest.raises(ValueError, match=r"weight: got a tensor on meta"):
        LinearEmission(states, weight.to("meta"))
    with pytest.raises(ValueError, match=r"weight: got nan at \[0, 0\]"):
        LatentTree(torch.zeros(7), LinearEmission(states, torch.full((5, 4), math.nan)))


class SameEverywhere(Emission):
    """An emission of a user's own: one unigram distribution for all vertices."""

    def __init__(self, log_probs, vertices, batch_shape=()):
        self.log_probs, self.vertices, self.batch_shape = log_probs, vertices, torch.Size(batch_shape)
        self.vocabulary, self.device = len(log_probs), log_probs.device

    def log_prob(self, tokens):
        return self.log_probs[tokens][..., None].expand(*tokens.shape, self.vertices)

    def log_prob_at(self, tokens, vertices):
        return self.log_probs[tokens]

    def topk(self, k):
        best, tokens = self.log_probs.topk(k)
        shape = (*self.batch_shape, self.vertices, k)
        return best.expand(shape), tokens.expand(shape)

    def sample(self, vertices):
        return torch.multinomial(self.log_probs.exp(), vertices.numel(), replacement=True).reshape(vertices.shape)

    def expand(self, batch_shape):
        return SameEverywhere(self.log_probs, self.vertices, batch_shape)

    def check_values(self):
        assert self.log_probs.logsumexp(0).abs() < 1e-6


def test_an_emission_of_ones_own():
    log_probs = torch.randn(4, dtype=double).log_softmax(0)
    dist = LatentTree(torch.zeros(3, 7, dtype=double), SameEverywhere(log_probs, 7))
    tokens = torch.tensor([2, 0, 1])
    expected = dist.length_log_prob()[:, 2] + log_probs[tokens].sum()
    torch.testing.assert_close(dist.log_prob(tokens), expected)
    assert isinstance(dist.sample((2,)), Derivation)
    torch.testing.assert_close(dist.topk(3).log_prob, dist.joint_log_prob(dist.topk(3)))
