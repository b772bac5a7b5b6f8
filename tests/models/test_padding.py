"""What fills up a batch never changes a result, nor a gradient: of every model."""

from dataclasses import replace

import pytest
import torch

from torch_ctree.data import Batch, Batches, Encoded, Pairs
from torch_ctree.models import Decoded, Seq2Seq

from .build import EVERYTHING, make_batch, some_batch, some_pairs, tiny_model, unpadded

every_model = pytest.mark.parametrize("settings", EVERYTHING.values(), ids=EVERYTHING)


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def gradients(model: Seq2Seq, batch: Batch) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model.loss(batch).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def same_answers(found: Decoded, expected: Decoded):
    assert unpadded(found.tokens, found.lengths) == unpadded(expected.tokens, expected.lengths)
    close(found.log_prob, expected.log_prob)
    if expected.derivation is not None:
        assert found.derivation is not None
        trees = (unpadded(d.vertices, d.lengths) for d in (found.derivation, expected.derivation))
        assert next(trees) == next(trees)


def same_but_for_ties(found: Decoded, expected: Decoded):
    """The k best, (k, 1, …); of equals any may come first, and of the last nobody knows whether it has an equal."""
    close(found.log_prob, expected.log_prob)
    scores = expected.log_prob[:, 0]
    differences = (scores[:, None] - scores).abs() + torch.eye(len(scores))
    for k in (differences.amin(-1) > 1e-6).nonzero()[:, 0].tolist():
        if k < len(scores) - 1:
            answers = (unpadded(some.tokens[k], some.lengths[k]) for some in (found, expected))
            assert next(answers) == next(answers)


def pairs_as_text(model: Seq2Seq) -> Encoded:
    sources, targets = some_pairs()
    texts = ((model.source.decode(s), model.target.decode(t)) for s, t in zip(sources, targets, strict=True))
    return Encoded.of(Pairs.of(texts), model.source, model.target)


@every_model
def test_each_pair_alone_and_with_longer_ones(settings):
    model, batch = tiny_model(**settings), some_batch()
    score, losses, best, several = model.score(batch), model.losses(batch), model.decode(batch), model.topk(batch, 4)
    for b, (source, target) in enumerate(zip(*some_pairs(), strict=True)):
        alone = make_batch([source], [target])
        close(model.score(alone)[0], score[b])
        close(model.loss(alone), losses[b])
        derivation = None if best.derivation is None else best.derivation[b : b + 1]
        mine = Decoded(best.tokens[b : b + 1], best.lengths[b : b + 1], best.log_prob[b : b + 1], derivation)
        same_answers(model.decode(alone), mine)
        if settings["decoder"] != "grammar":  # which draws its samples for all at once
            of_one = slice(b, b + 1)
            mine = Decoded(several.tokens[:, of_one], several.lengths[:, of_one], several.log_prob[:, of_one])
            same_but_for_ties(model.topk(alone, 4), mine)


@every_model
def test_padded_further_and_filled_up(settings):
    """``Batches`` with fixed shapes: more columns, and rows that do not count."""
    model = tiny_model(**settings)
    encoded = pairs_as_text(model)
    (tight,) = Batches(encoded, batch_size=4, shuffle=False).epoch(0)
    (wide,) = Batches(encoded, batch_size=7, shuffle=False, pad_to=(9, 8)).epoch(0)
    assert wide.source.shape == (7, 9)
    assert wide.rows.tolist() == [0, 1, 2, 3, -1, -1, -1]
    close(model.score(wide)[:4], model.score(tight))
    close(model.losses(wide), torch.nn.functional.pad(model.losses(tight), (0, 3)))
    close(model.loss(wide), model.loss(tight))
    few, many = gradients(model, tight), gradients(model, wide)
    assert few.keys() == many.keys()
    for name in few:
        close(many[name], few[name])
    best, wide_best = model.decode(tight), model.decode(wide)
    derivation = None if wide_best.derivation is None else wide_best.derivation[:4]
    same_answers(Decoded(wide_best.tokens[:4], wide_best.lengths[:4], wide_best.log_prob[:4], derivation), best)


@every_model
def test_any_word_can_be_padding(settings):
    model = tiny_model(**settings)
    zeros = make_batch(*some_pairs())
    score, gradient, best = model.score(zeros), gradients(model, zeros), model.decode(zeros)
    for seed in range(3):
        torch.manual_seed(seed)
        garbage = replace(
            zeros,
            source=torch.where(zeros.source_mask, zeros.source, torch.randint_like(zeros.source, len(model.source))),
            target=torch.where(zeros.target_mask, zeros.target, torch.randint_like(zeros.target, len(model.target))),
        )
        close(model.score(garbage), score)
        same_answers(model.decode(garbage), best)
        for name, value in gradients(model, garbage).items():
            close(value, gradient[name])


@every_model
def test_a_word_that_only_pads_gets_no_gradient(settings):
    model = tiny_model(**settings)
    sources, targets = [[1, 2, 3], [2], [3, 1]], [[1, 1, 1], [1], [1, 1]]
    found = gradients(model, make_batch(sources, targets))  # padded with 0, which no sentence has
    ends = ("encoder.embedding.weight", "output.source.weight", "decoder.embedding.weight")
    tables = [name for name in found if name.endswith(ends)]
    further = settings["output"] == "lexical-attention", settings["decoder"] in ("gru", "lstm", "transformer", "lanmt")
    assert len(tables) == 1 + sum(further)
    for name in tables:
        assert not found[name][0].any(), name
        assert found[name][1].any(), name


@every_model
def test_rows_that_fill_up_count_for_nothing(settings):
    """Whatever they hold; they get no gradient either."""
    model = tiny_model(**settings)
    (sources, targets), real = some_pairs(), some_batch()
    filled = make_batch([*sources, [2, 2, 2]], [*targets, [2, 2]])
    filled = replace(filled, rows=torch.tensor([0, 1, 2, 3, -1]))
    assert model.losses(filled)[-1] == 0
    close(model.loss(filled), model.loss(real))
    expected = gradients(model, real)
    for name, value in gradients(model, filled).items():
        close(value, expected[name])


def test_the_loss_is_the_mean_of_what_each_word_costs():
    model, batch = tiny_model(), some_batch()
    costs = [-s / n for s, n in zip(model.score(batch).tolist(), [3, 1, 4, 2], strict=True)]
    assert model.losses(batch).tolist() == pytest.approx(costs)
    assert model.loss(batch).item() == pytest.approx(sum(costs) / 4)


@every_model
def test_batches_are_not_changed(settings):
    model, batch, again = tiny_model(**settings), some_batch(), some_batch()
    gradients(model, batch)
    model.topk(batch, 2)
    for name in ("source", "source_lengths", "target", "target_lengths", "rows"):
        assert torch.equal(getattr(batch, name), getattr(again, name))
