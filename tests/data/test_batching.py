import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import Batch, Batches, DataError, Encoded, Pairs, Vocabulary
from torch_ctree.data.order import Purpose
from torch_ctree.data.splitting import random_rows

WORDS = Vocabulary([str(n) for n in range(30)])


def sentence(length: int, start: int) -> str:
    return " ".join(str((start + n) % 30) for n in range(length))


def encoded(lengths) -> Encoded:
    """Pairs of these (source, target) lengths, each with words of its own."""
    return Encoded.of(
        Pairs.of((sentence(s, n), sentence(t, 7 * n + 3)) for n, (s, t) in enumerate(lengths)), WORDS, WORDS
    )


lengths = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 12)), min_size=1, max_size=60)
options = st.one_of(
    st.fixed_dictionaries({"batch_size": st.integers(1, 20)}),
    st.fixed_dictionaries({"max_tokens": st.integers(21, 90)}),
    st.fixed_dictionaries({"batch_size": st.integers(1, 20), "max_tokens": st.integers(21, 90)}),
)


def rows(epoch) -> list[list[int]]:
    return [batch.rows.tolist() for batch in epoch]


@given(lengths, options, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 3))
def test_every_pair_once_within_the_limits(lengths, options, shuffle, bucketed, fixed, epoch):
    pairs = encoded(lengths)
    pad_to = pairs.longest if fixed else None
    batches = Batches(pairs, **options, shuffle=shuffle, bucketed=bucketed, pad_to=pad_to).epoch(epoch)
    seen = []
    for batch in batches:
        assert len(batch) <= options.get("batch_size", len(lengths) if not fixed else 10**6)
        assert len(batch) * (batch.source.shape[1] + batch.target.shape[1]) <= options.get("max_tokens", 10**6)
        for i, row in enumerate(batch.rows.tolist()):
            if row < 0:
                assert fixed
                continue
            seen.append(row)
            source, target = lengths[row]
            assert batch.source[i].tolist() == WORDS.encode(sentence(source, row)) + [0] * (
                batch.source.shape[1] - source
            )
            assert batch.target[i].tolist() == WORDS.encode(sentence(target, 7 * row + 3)) + [0] * (
                batch.target.shape[1] - target
            )
            assert (batch.source_lengths[i], batch.target_lengths[i]) == (source, target)
    assert sorted(seen) == list(range(len(lengths)))


@given(lengths, options, st.booleans(), st.booleans(), st.integers(1, 5), st.integers(0, 3))
def test_short_epochs_are_the_beginnings_of_whole_ones(lengths, options, shuffle, bucketed, most, epoch):
    pairs = encoded(lengths)
    whole, short = (
        Batches(pairs, **options, shuffle=shuffle, bucketed=bucketed, most=limit).epoch(epoch) for limit in (None, most)
    )
    assert rows(short) == rows(whole)[:most]
    assert len(short) == min(most, len(whole))


@given(lengths, options, st.booleans())
def test_masks_and_lengths_agree(lengths, options, fixed):
    pairs = encoded(lengths)
    for batch in Batches(pairs, **options, pad_to=pairs.longest if fixed else None).epoch(0):
        assert batch.source_mask.sum(1).tolist() == batch.source_lengths.tolist()
        assert batch.target_mask.sum(1).tolist() == batch.target_lengths.tolist()
        assert batch.source_mask.shape == batch.source.shape
        assert not batch.source[~batch.source_mask].any()
        assert not batch.target[~batch.target_mask].any()
        if not fixed:  # no wider than its longest sentence
            assert batch.source_mask.any(0).all()
            assert batch.target_mask.any(0).all()
            assert batch.real.all()


@given(lengths, options, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_order_depends_on_seed_and_epoch_alone(lengths, options, seed, epoch, bucketed):
    pairs = encoded(lengths)
    batches = Batches(pairs, **options, seed=seed, bucketed=bucketed)
    whole = rows(batches.epoch(epoch))
    batches.epoch(epoch + 1)  # what was asked for before does not matter
    assert rows(batches.epoch(epoch)) == whole
    assert rows(Batches(pairs, **options, seed=seed, bucketed=bucketed).epoch(epoch)) == whole
    for done in range(len(whole) + 1):  # a run that stopped after some batches goes on with the others
        assert rows(batches.epoch(epoch)[done:]) == whole[done:]


@pytest.mark.parametrize("options", [{"batch_size": 10}, {"max_tokens": 200}])
def test_epochs_and_seeds_differ(options):
    pairs = encoded([(1 + n % 4, 1 + n % 5) for n in range(200)])
    orders = [rows(Batches(pairs, **options, seed=seed).epoch(epoch)) for seed in range(3) for epoch in range(3)]
    assert len({str(order) for order in orders}) == 9


def test_without_shuffling_the_order_is_that_of_the_data():
    batches = Batches(encoded([(1, 1), (5, 2), (2, 2), (1, 9)]), batch_size=3, shuffle=False)
    assert rows(batches.epoch(0)) == rows(batches.epoch(1)) == [[0, 1, 2], [3]]


def test_buckets_hold_like_lengths():
    rng = np.random.default_rng(0)
    pairs = encoded(rng.integers(1, 13, (500, 2)).tolist())
    waste = {}
    for bucketed in (False, True):
        batches = Batches(pairs, batch_size=20, bucketed=bucketed).epoch(0)
        waste[bucketed] = sum((~batch.target_mask).sum().item() for batch in batches)
    assert waste[True] < 0.1 * waste[False]


def test_bucketed_batches_come_in_random_order():
    batches = Batches(encoded([(1, 1 + n % 12) for n in range(240)]), max_tokens=100).epoch(0)
    widths = [batch.target.shape[1] for batch in batches]
    assert widths != sorted(widths)
    assert widths != sorted(widths, reverse=True)


def test_fixed_shapes():
    pairs = encoded([(2, 3)] * 7 + [(4, 1)])
    limits: list[dict[str, Any]] = [{"batch_size": 5}, {"max_tokens": 38}, {"batch_size": 5, "max_tokens": 1000}]
    for options in limits:
        batches = list(Batches(pairs, **options, pad_to=pairs.longest).epoch(0))
        assert {(tuple(b.source.shape), tuple(b.target.shape)) for b in batches} == {((5, 4), (5, 3))}
        last = min(batches, key=lambda batch: batch.real.sum())
        assert last.real.tolist() == [True] * 3 + [False] * 2
        assert (last.source[3:] == last.source[0]).all()  # a filling row repeats a pair, so that it computes like one
        assert (last.target_lengths[3:] == last.target_lengths[0]).all()
    wider = Batches(pairs, batch_size=3, pad_to=(6, 8)).epoch(0)[0]
    assert (wider.source.shape, wider.target.shape) == ((3, 6), (3, 8))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"batch_size: got None; expected a number of pairs, or max_tokens"),
        ({"batch_size": 0}, "batch_size: got 0; expected a whole number, 1 or more"),
        ({"max_tokens": -1}, "max_tokens: got -1; expected a whole number, 1 or more"),
        ({"batch_size": 2, "most": 0}, "most: got 0; expected a whole number, 1 or more"),
        ({"batch_size": 2, "seed": -1}, "seed: got -1; expected a whole number, 0 or more"),
        ({"batch_size": 2, "pad_to": (5,)}, r"pad_to: got \(5,\); expected \(5, 7\) or more"),
        ({"batch_size": 2, "pad_to": 20}, r"pad_to: got 20; expected \(5, 7\) or more"),
        ({"batch_size": 2, "pad_to": (5.5, 7)}, r"pad_to: got \(5\.5, 7\); expected"),
        ({"batch_size": 1.5}, r"batch_size: got 1\.5; expected a whole number, 1 or more"),
        ({"max_tokens": 1e3}, r"max_tokens: got 1000\.0; expected a whole number"),
        ({"max_tokens": 11}, "max_tokens: got 11; pair 2 alone has 12; expected as many or more"),
        ({"batch_size": 2, "pad_to": (4, 7)}, r"pad_to: got \(4, 7\); expected \(5, 7\) or more"),
        ({"max_tokens": 13, "pad_to": (5, 9)}, "max_tokens: got 13; pad_to alone has 14"),
    ],
)
def test_what_cannot_be(options, said):
    with pytest.raises(DataError, match=rf"^{said}"):
        Batches(encoded([(1, 1), (5, 7)]), **options)


def test_numbers_of_numpy_are_numbers():
    batches = Batches(encoded([(1, 1)] * 5), batch_size=np.int64(2), seed=np.int32(1))  # type: ignore[arg-type]
    assert rows(batches.epoch(np.int64(3))) == rows(Batches(encoded([(1, 1)] * 5), batch_size=2, seed=1).epoch(3))  # type: ignore[arg-type]


def test_no_such_epoch():
    with pytest.raises(DataError, match=r"^epoch: got -1; expected a whole number, 0 or more"):
        Batches(encoded([(1, 1)]), batch_size=1).epoch(-1)


def test_splits_and_epochs_are_drawn_apart():
    """What was held out with a seed says nothing about the order of what was not."""
    n = 5000
    _, held = random_rows(Pairs.of((str(row), "x") for row in range(n)), Purpose.VALIDATION_SET, 3)
    held = {int(pair.source) for pair in held}
    numbers = Encoded.of(Pairs.of([("1", "1")] * n), WORDS, WORDS)
    for epoch in range(4):
        first = Batches(numbers, batch_size=500, seed=3).epoch(epoch)[0].rows.tolist()
        assert len(held & set(first)) < 100  # 50 are to be expected, of 500


def test_no_pairs_no_batches():
    empty = Encoded.of(Pairs.of([]), WORDS, WORDS)
    assert len(Batches(empty, batch_size=3).epoch(0)) == len(Batches(empty, max_tokens=3).epoch(0)) == 0
    assert empty.longest == (0, 0)


def test_a_word_that_is_not_known_is_named_with_its_side_and_row():
    with pytest.raises(DataError, match=r"^source 2: 'x': 'x' is not in the vocabulary"):
        Encoded.of(Pairs.of([("1", "2"), ("x", "3")]), WORDS, WORDS)
    with pytest.raises(DataError, match=r"^target 1: 'y': 'y' is not in the vocabulary"):
        Encoded.of(Pairs.of([("1", "y"), ("2", "3")]), WORDS, WORDS)


def test_a_batch_is_frozen_and_moves():
    batch = Batches(encoded([(1, 2), (3, 1)]), batch_size=2).epoch(0)[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.source = batch.target  # type: ignore[misc]
    moved = batch.to("meta")
    assert isinstance(moved, Batch)
    assert {field.device.type for field in (moved.source, moved.target_lengths, moved.rows, moved.source_mask)} == {
        "meta"
    }
    assert len(moved) == len(batch) == 2
    assert batch.source.dtype == batch.source_lengths.dtype == torch.int64


def test_a_batch_goes_to_a_worker():
    batch = Batches(encoded([(1, 2), (3, 1)]), batch_size=2).epoch(0)[0]
    again = pickle.loads(pickle.dumps(batch))
    assert torch.equal(again.source, batch.source)
    assert torch.equal(again.rows, batch.rows)


def test_through_a_torch_data_loader():
    batches = Batches(encoded([(1 + n % 3, 2) for n in range(11)]), batch_size=4)
    loaded = torch.utils.data.DataLoader(batches.epoch(2), batch_size=None, num_workers=2)
    assert rows(loaded) == rows(batches.epoch(2))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_batch_on_the_gpu():
    batch = Batches(encoded([(1, 2), (3, 1)]), batch_size=2).epoch(0)[0]
    moved = batch.pin_memory().to("cuda", non_blocking=True)
    assert moved.source.device.type == moved.target_mask.device.type == "cuda"
    assert torch.equal(moved.source.cpu(), batch.source)
    loader = torch.utils.data.DataLoader(Batches(encoded([(1, 2)] * 5), batch_size=2).epoch(0), None, pin_memory=True)
    assert all(batch.target.is_pinned() for batch in loader)
