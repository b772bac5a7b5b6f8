import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from torch_ctree.models import Encoding, Seq2Seq
from torch_ctree.models.decoders import lanmt
from torch_ctree.models.decoders.gaussian import Gaussian, fixed_noise
from torch_ctree.models.decoders.lanmt import LaNMT, Stack, Target, stretched
from torch_ctree.models.transformer import Layer

from .. import plain
from ..build import OUTPUTS, make_batch, sentences, some_batch, some_pairs, tiny_model, unpadded

double = torch.float64
every_output = pytest.mark.parametrize("output", OUTPUTS)
ONE = {"latent": 1, "target_words": 2, "depth": 1}
"""A single number between source and target, if the source has one word; and six targets."""


def tiny(seed: int = 0, **settings) -> Seq2Seq:
    torch.manual_seed(seed)
    still = {"dropout": 0.0, "attention_dropout": 0.0}
    model = tiny_model(seed, **{"encoder": "transformer", "decoder": "lanmt", "output": "mlp", **still, **settings})
    with torch.no_grad():  # what is said shall depend on the latents
        decoder_of(model).widen.weight.mul_(2)
    return model


def decoder_of(model: Seq2Seq) -> LaNMT:
    assert isinstance(model.decoder, LaNMT)
    return model.decoder


def near(expected: Tensor, samples: Tensor) -> bool:
    """Whether a mean is within what chance explains."""
    return bool((samples.mean() - expected).abs() < 4 * samples.std() / math.sqrt(len(samples)))


# --- by hand ----------------------------------------------------------------------------------------------------------


def stacked(stack: Stack, xs: list[plain.Vector], other: list[plain.Vector] | None = None) -> list[plain.Vector]:
    for layer in stack.layers:
        assert isinstance(layer, Layer)
        xs = plain.transformer(layer, xs, other, sees_all=True)
    return [plain.layernorm(stack.norm, x) for x in xs]


def gaussian_by_hand(layer: nn.Linear, state: plain.Vector) -> tuple[plain.Vector, plain.Vector]:
    """Means and standard deviations."""
    numbers = plain.linear(layer, state)
    half = len(numbers) // 2
    return numbers[:half], [math.log(1 + math.exp(raw)) for raw in numbers[half:]]


def log_density_by_hand(x: plain.Vector, mean: plain.Vector, deviation: plain.Vector) -> float:
    return math.fsum(
        -0.5 * ((a - m) / d) ** 2 - math.log(d * math.sqrt(2 * math.pi))
        for a, m, d in zip(x, mean, deviation, strict=True)
    )


def stretched_by_hand(latents: list[plain.Vector], length: int, reach: float) -> list[plain.Vector]:
    found = []
    for n in range(length):
        centre = (n + 0.5) * len(latents) / length
        shares = plain.softmax([-((s + 0.5 - centre) ** 2) / (2 * reach**2) for s in range(len(latents))])
        found.append(plain.average(shares, latents))
    return found


def score_by_hand(model: Seq2Seq, source: Sequence[int], target: Sequence[int], longest: int, noise: Tensor) -> float:
    decoder, width = decoder_of(model), model.config.width
    encoding = model.encode(make_batch([source], [[0]]))
    seen, states = plain.source(encoding, 0), plain.numbers(encoding.contextual[0])
    table = plain.numbers(decoder.embedding.weight)
    read = stacked(decoder.target, [plain.add(table[word], plain.wave(n, width)) for n, word in enumerate(target)])
    prior = [gaussian_by_hand(decoder.from_prior, x) for x in stacked(decoder.prior, states)]
    posterior = [gaussian_by_hand(decoder.from_posterior, x) for x in stacked(decoder.posterior, states, read)]
    weights = []
    for draw in plain.numbers(noise):
        latents = [
            [m + d * e for m, d, e in zip(mean, deviation, some, strict=True)]
            for (mean, deviation), some in zip(posterior, draw, strict=True)
        ]
        weight = 0.0
        for latent, p, q in zip(latents, prior, posterior, strict=True):
            weight += log_density_by_hand(latent, *p) - log_density_by_hand(latent, *q)
        wide = [plain.linear(decoder.widen, latent) for latent in latents]
        mean = plain.scaled(1 / len(wide), plain.add(*wide))
        first, _, second = decoder.length
        assert isinstance(first, nn.Linear)
        assert isinstance(second, nn.Linear)
        logits = plain.linear(second, plain.relu(plain.linear(first, mean)))
        lengths = [logits[50 + length - len(source)] for length in range(1, longest + 1)]
        weight += plain.log_softmax(lengths)[len(target) - 1]
        xs = [
            plain.add(plain.linear(decoder.widen, x), plain.wave(n, width))
            for n, x in enumerate(stretched_by_hand(latents, len(target), decoder.log_reach.exp().item()))
        ]
        for state, word in zip(stacked(decoder.words, xs, seen.nodes), target, strict=True):
            context = [] if decoder.attention is None else plain.context(decoder.attention, state, seen.nodes)
            weight += plain.log_softmax(plain.word_logits(decoder.output, state, context, seen))[word]
        weights.append(weight)
    largest = max(weights)
    return largest + math.log(math.fsum(math.exp(weight - largest) for weight in weights) / len(weights))


@every_output
@pytest.mark.parametrize("layers", [1, 2])
def test_score_by_hand(output, layers, monkeypatch):
    monkeypatch.setattr(lanmt, "DRAWS", 2)
    model = tiny(output=output, decoder_layers=layers, latent=3, heads=2)
    sources, targets = some_pairs()
    for depth in (2, 3):
        scores = model.score(make_batch(sources, targets), depth).tolist()
        expected = [
            score_by_hand(model, source, target, 1 << depth, fixed_noise(2, len(source), 3, torch.zeros(0).double()))
            for source, target in zip(sources, targets, strict=True)
        ]
        assert scores == pytest.approx(expected, rel=1e-9)


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reach", [0.3, 1.0, 4.0])
def test_latents_stretched_by_hand(reach):
    lengths, targets, latents = [5, 1, 3], [2, 7, 3], torch.randn(3, 5, 2, dtype=double)
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    found = stretched(latents, mask, torch.tensor(targets), 7, torch.tensor(reach, dtype=double))
    assert found.shape == (3, 7, 2)
    assert found.isfinite().all()
    for b, (source, target) in enumerate(zip(lengths, targets, strict=True)):
        expected = stretched_by_hand(plain.numbers(latents[b, :source]), target, reach)
        torch.testing.assert_close(found[b, :target], torch.tensor(expected, dtype=double))


def test_a_short_reach_keeps_the_order():
    """As long as its source, a target has its latents; twice as long, each of them twice; one word has the middle."""
    latents, mask = torch.randn(3, 3, 2, dtype=double), torch.ones(3, 3, dtype=torch.bool)
    found = stretched(latents, mask, torch.tensor([3, 6, 1]), 6, torch.tensor(0.01, dtype=double))
    torch.testing.assert_close(found[0, :3], latents[0])
    torch.testing.assert_close(found[1], latents[1].repeat_interleave(2, 0))
    torch.testing.assert_close(found[2, 0], latents[2, 1])


@pytest.mark.parametrize("longest", [1, 4, 16])
@pytest.mark.parametrize("farthest", [1, 3, 50])
def test_lengths_sum_to_one(longest, farthest, monkeypatch):
    """Of any source; lengths that are too far from its own are as probable as the farthest that is told from them."""
    monkeypatch.setattr(lanmt, "FARTHEST", farthest)
    model, lengths = tiny(), torch.tensor([1, 3, 9])
    latents, mask = torch.randn(3, 9, 8, dtype=double), torch.arange(9) < lengths[:, None]
    found = decoder_of(model).log_lengths(latents, mask, longest)
    assert found.shape == (3, longest)
    torch.testing.assert_close(found.exp().sum(1), torch.ones(3, dtype=double))
    longer = torch.arange(1, longest + 1) - lengths[:, None]
    for row, differences in zip(found, longer.clamp(-farthest, farthest).tolist(), strict=True):
        assert len(row.unique()) == len(set(differences))
        for difference in set(differences):
            assert len({row[n].item() for n, other in enumerate(differences) if other == difference}) == 1


@every_output
def test_given_the_latents_all_targets_sum_to_one(output):
    model = tiny(output=output, target_words=2)
    everything = list(sentences(2, 4))
    batch = make_batch([[3, 1, 2]] * len(everything), everything)
    latents = torch.randn(3, 8, dtype=double).expand(len(everything), -1, -1)
    target = Target(batch.target, batch.target_lengths)
    joint = decoder_of(model).log_joint(model.encode(batch), latents, target, 4)
    assert joint.exp().sum().item() == pytest.approx(1)


def test_a_target_that_is_too_long_is_impossible():
    model = tiny(depth=1)
    score = model.score(make_batch([[1], [2, 3]], [[0, 1, 2], [1, 2]]))
    assert score[0] == -math.inf
    assert score[1] > -math.inf
    score.exp().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


# --- the bound --------------------------------------------------------------------------------------------------------


class Exact:
    """Of a source of one word with one number: all there is to know, on a grid."""

    def __init__(self, model: Seq2Seq, source: int, target: tuple[int, ...]) -> None:
        self.model, self.decoder, self.pair = model, decoder_of(model), ([source], list(target))
        encoding, said = self.repeated(1)
        self.prior, self.posterior = self.decoder.prior_of(encoding), self.decoder.posterior_of(encoding, said)
        ends = [(p.mean, 12 * p.log_deviation.exp()) for p in (self.prior, self.posterior)]
        low, high = (op([(m + sign * d).item() for m, d in ends]) for op, sign in ((min, -1), (max, 1)))
        self.grid = torch.linspace(low, high, 4001, dtype=double)[:, None, None]
        self.joint = self.decoder.log_joint(*self.at(self.grid), 2)

    def repeated(self, times: int) -> tuple[Encoding, Target]:
        batch = make_batch([self.pair[0]] * times, [self.pair[1]] * times)
        return self.model.encode(batch), Target(batch.target, batch.target_lengths)

    def at(self, latents: Tensor) -> tuple[Encoding, Tensor, Target]:
        encoding, target = self.repeated(len(latents))
        return encoding, latents, target

    def integral(self, values: Tensor) -> Tensor:
        return torch.trapezoid(values, self.grid[:, 0, 0])

    @property
    def log_prob(self) -> Tensor:
        """log ∫ p(z) p(target | z) dz"""
        return self.integral((self.joint + self.prior.log_density(self.grid)[:, 0]).exp()).log()

    @property
    def evidence_lower_bound(self) -> Tensor:
        """∫ q(z) log p(target | z) dz − KL(q ‖ p)"""
        expected = self.integral(self.posterior.log_density(self.grid)[:, 0].exp() * self.joint)
        return expected - self.posterior.divergence(self.prior)[0, 0]


@pytest.fixture(scope="module")
def exact() -> list[Exact]:
    with torch.no_grad():
        return [Exact(model, 3, target) for model in (tiny(**ONE), tiny(1, **ONE)) for target in sentences(2, 2)]


def test_all_targets_sum_to_one(exact):
    for some in (exact[:6], exact[6:]):
        assert sum(one.log_prob.exp().item() for one in some) == pytest.approx(1, abs=1e-6)


def drawn(one: Exact, count: int, rows: int, monkeypatch) -> Tensor:
    """The scores that other draws would give."""
    generator = torch.Generator().manual_seed(0)
    with monkeypatch.context() as patch, torch.no_grad():
        patch.setattr(lanmt, "DRAWS", count)
        patch.setattr(
            lanmt,
            "fixed_noise",
            lambda n, places, d, like: torch.randn(n, rows, places, d, generator=generator).to(like),
        )
        encoding, target = one.repeated(rows)
        return one.decoder.score(encoding, target.tokens, target.lengths)


def test_the_score_is_a_bound_that_becomes_tight(exact, monkeypatch):
    for one in exact:
        bounds = [drawn(one, count, 4000 // count, monkeypatch) for count in (1, 4, 16, 64)]
        assert near(one.evidence_lower_bound, bounds[0])
        error = [4 * bound.std() / math.sqrt(len(bound)) for bound in bounds]
        gaps = [one.log_prob - bound.mean() for bound in bounds]
        assert all(gap > -e for gap, e in zip(gaps, error, strict=True))
        assert all(b < a + e + f for (a, e), (b, f) in itertools.pairwise(zip(gaps, error, strict=True)))
        assert gaps[-1] < gaps[0] / 4 + error[-1]
        for bound in bounds:  # too high by t nats with a probability of e^−t at most
            assert (bound > one.log_prob + 1).double().mean() < math.exp(-1)


def test_with_many_draws_it_is_exact(exact, monkeypatch):
    monkeypatch.setattr(lanmt, "DRAWS", 1000)
    for one in exact[:2]:
        encoding, target = one.repeated(1)
        with torch.no_grad():
            score = one.decoder.score(encoding, target.tokens, target.lengths)
        assert score.item() == pytest.approx(one.log_prob.item(), abs=0.1)


# --- learning ---------------------------------------------------------------------------------------------------------


def gaussians(model: Seq2Seq, batch) -> tuple[Gaussian, Gaussian]:
    encoding, target = model.encode(batch), Target(batch.target, batch.target_lengths)
    return decoder_of(model).prior_of(encoding), decoder_of(model).posterior_of(encoding, target)


def objective(model: Seq2Seq, batch) -> Tensor:
    torch.manual_seed(0)
    return decoder_of(model).objective(model.encode(batch), batch.target, batch.target_lengths)


def test_without_free_bits_it_learns_by_the_bound(exact):
    for one in exact[:3]:
        encoding, target = one.repeated(4000)
        torch.manual_seed(0)
        one.decoder.train().free_bits = 0.0
        with torch.no_grad():
            found = one.decoder.objective(encoding, target.tokens, target.lengths)
        one.decoder.eval()
        assert near(one.evidence_lower_bound, found)


@pytest.mark.parametrize("free", [0.0, 0.7, 5.0, 1e4])
def test_free_bits_for_each_word_of_the_source(free):
    batch = some_batch()
    model, costly = tiny(free_bits=free).train(), tiny(free_bits=0.0).train()
    prior, posterior = gaussians(model, batch)
    divergence = posterior.divergence(prior).tolist()
    saved = [
        math.fsum(max(x, free) - x for x in row[:length])
        for row, length in zip(divergence, batch.source_lengths.tolist(), strict=True)
    ]
    assert (objective(costly, batch) - objective(model, batch)).tolist() == pytest.approx(saved)


def test_what_is_free_does_not_pull():
    """Where all is free, nothing tells the prior what to be."""
    for free, pulled in ((0.0, True), (1e6, False)):
        model = tiny(free_bits=free).train()
        objective(model, some_batch()).sum().backward()
        weight = decoder_of(model).from_prior.weight.grad
        assert (weight is not None and bool(weight.any())) == pulled


@pytest.mark.parametrize(("steps", "shares"), [(None, [1] * 7), (4, [1, 1, 1, 0.5, 0, 0, 0]), (1, [1] + 6 * [0])])
def test_the_budget_falls_in_the_second_half(steps, shares):
    model, batch = tiny(free_bits=3.0, free_bits_steps=steps).train(), some_batch()
    found = []
    for _ in shares:
        found.append(decoder_of(model).budget().item())
        objective(model, batch)
        model.score(batch)  # which does not count
    assert found == pytest.approx([3 * share for share in shares])
    model.eval().loss(batch)
    assert decoder_of(model).steps.item() == len(shares)


def test_when_it_evaluates_the_loss_is_that_of_the_score():
    model, batch = tiny(), some_batch()
    torch.testing.assert_close(model.losses(batch), -model.score(batch) / batch.target_lengths)


def test_every_part_learns():
    model = tiny(free_bits=0.0, decoder_layers=2, width=8).train()
    model.loss(some_batch()).backward()
    for name, parameter in decoder_of(model).named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 1e-10 or name == "attention.key.2.bias", name


@every_output
def test_nothing_in_a_training_step_looks_at_a_number(output):
    """Nor comes any from the host: a CUDA graph could not record it."""
    model, batch = tiny(output=output, dropout=0.1, free_bits_steps=10).train(), some_batch()
    with Watched() as watched:
        model.loss(batch).backward()
    assert watched.waits == set()
    with Watched() as watched:
        model.decode(batch)
    assert watched.waits == {"_local_scalar_dense"}  # so it is seen, where it may be


class Watched(TorchDispatchMode):
    """Notes what a GPU could not do by itself: what hangs on a number, or numbers from the host."""

    WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "unique")

    def __init__(self) -> None:
        super().__init__()
        self.waits: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        by_mask = name.startswith("index") and any(x is not None and x.dtype == torch.bool for x in _indices(args))
        if by_mask or name.startswith(self.WAITING):
            self.waits.add(name)
        return func(*args, **(kwargs or {}))


def _indices(args) -> list[Tensor]:
    return list(args[1]) if isinstance(args[1], list | tuple) else []


# --- answers ----------------------------------------------------------------------------------------------------------


def refined(model: Seq2Seq, source: list[int], answer: tuple[int, ...] | None) -> Tensor:
    """The latents before any answer, or after one."""
    prior, posterior = gaussians(model, make_batch([source], [answer or (0,)]))
    return prior.mean if answer is None else posterior.mean


def given(model: Seq2Seq, source: list[int], latents: Tensor) -> dict[tuple[int, ...], float]:
    """log p of every sentence of 1 … 4 words."""
    everything = list(sentences(2, 4))
    batch = make_batch([source] * len(everything), everything)
    target = Target(batch.target, batch.target_lengths)
    joint = decoder_of(model).log_joint(model.encode(batch), latents.expand(len(everything), -1, -1), target, 4)
    return dict(zip(everything, joint.tolist(), strict=True))


def most_probable_length(scores: dict[tuple[int, ...], float], most: int) -> int:
    shares = {
        length: math.fsum(math.exp(score) for key, score in scores.items() if len(key) == length)
        for length in range(1, most + 1)
    }
    return max(shares, key=lambda length: shares[length])


def best_of_length(scores: dict[tuple[int, ...], float], length: int) -> tuple[int, ...]:
    return max((key for key in scores if len(key) == length), key=lambda key: scores[key])


@every_output
@pytest.mark.parametrize("refinements", [0, 1, 2])
@pytest.mark.parametrize("max_length", [None, 3, 9])
def test_answers_by_enumeration(output, refinements, max_length):
    """One of each length, given the latents that its own answers lead to."""
    most = min(max_length or 4, 4)
    for seed, source in itertools.product(range(4), ([1], [3, 0, 4])):
        model = tiny(seed, output=output, target_words=2, refinements=refinements)
        latents = refined(model, source, None)
        for _ in range(refinements):
            scores = given(model, source, latents)
            latents = refined(model, source, best_of_length(scores, most_probable_length(scores, most)))
        scores = given(model, source, latents)
        best = model.decode(make_batch([source], [[0]]), max_length=max_length)
        assert unpadded(best.tokens, best.lengths) == [best_of_length(scores, most_probable_length(scores, most))]
        several = decoder_of(model).topk(model.encode(make_batch([source], [[0]])), 6, max_length)
        expected = sorted((best_of_length(scores, n) for n in range(1, most + 1)), key=lambda key: -scores[key])
        assert unpadded(several.tokens, several.lengths) == expected + (6 - most) * [()]
        ranked = [scores[key] for key in expected] + (6 - most) * [-math.inf]
        assert several.log_prob.flatten().tolist() == pytest.approx(ranked)


def test_the_most_probable_lengths_come_first():
    """Of two answers, neither has a less probable length than any that is not among them."""
    for seed in range(6):
        model, source = tiny(seed, target_words=2, refinements=0), [3, 0, 4]
        scores = given(model, source, refined(model, source, None))
        two = model.topk(make_batch([source], [[0]]), 2).lengths.flatten().tolist()
        first = most_probable_length(scores, 4)
        second = most_probable_length({key: score for key, score in scores.items() if len(key) != first}, 4)
        assert set(two) == {first, second}


def test_refining_ends_where_an_answer_comes_back():
    """Once an answer leads to itself, all that follow are the same."""
    came_back = changed = 0
    for seed in range(8):
        model, batch, answers = tiny(seed, depth=3), some_batch(), []
        for count in range(6):
            decoder_of(model).refinements = count
            best = model.decode(batch)
            answers.append(unpadded(best.tokens, best.lengths))
        for said in zip(*answers, strict=True):
            same = [n for n, (one, other) in enumerate(itertools.pairwise(said)) if one == other]
            changed += said[0] != said[1]
            if same:
                came_back += 1
                assert set(said[same[0] :]) == {said[same[0]]}
    assert came_back > 16
    assert changed


def test_depth_when_answering():
    model, batch = tiny(), some_batch()
    for depth in (0, 1, 3):
        best = model.topk(batch, 3, depth)
        there = best.log_prob > -math.inf
        assert there.sum(0).tolist() == [min(3, 1 << depth)] * 4
        assert (best.lengths[there] >= 1).all()
        assert (best.lengths[there] <= 1 << depth).all()
        assert not best.lengths[~there].any()


def test_without_the_nodes_there_is_the_root():
    model = tiny(context="root")
    encoding, batch = model.encode(some_batch()), some_batch()
    changed = Encoding(encoding.root, torch.randn_like(encoding.internal), *(getattr(encoding, name) for name in (
        "leaves", "contextual", "embeddings", "tokens", "mask",
    )))  # fmt: skip
    scores = [model.decoder.score(seen, batch.target, batch.target_lengths) for seen in (encoding, changed)]
    torch.testing.assert_close(*scores)


def test_it_agrees_with_itself():
    """Half of all targets say everything in one way, half in another: words apart from each other would mix them."""
    torch.manual_seed(0)
    settings = {"encoder": "transformer", "decoder": "lanmt", "output": "linear", "free_bits_steps": 300, "layers": 1}
    model = tiny_model(width=16, depth=2, target_words=4, dropout=0.0, attention_dropout=0.0, **settings)
    model = type(model)(model.config, model.source, model.target).train()
    sources = [list(source) for source in itertools.product(range(2), repeat=3)] * 2
    targets = [[word + 2 * (n < 8) for word in source] for n, source in enumerate(sources)]
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        model.loss(make_batch(sources, targets)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
    model.eval()
    best = model.decode(make_batch(sources[:8], targets[:8]))
    said = unpadded(best.tokens, best.lengths)
    for source, answer in zip(sources, said, strict=False):
        assert [word % 2 for word in answer] == source
        assert len({word // 2 for word in answer}) == 1
    apart = -math.log(8)  # of every mixture of both ways, had its words nothing to agree by
    mixed = make_batch(sources[:8], [[word + 2 * (n % 2) for n, word in enumerate(source)] for source in sources[:8]])
    assert (model.score(mixed) < apart - 0.5).all()
    assert (model.score(make_batch(sources, targets)) > apart + 0.2).all()
