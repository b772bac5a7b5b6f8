import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import DataError, Pairs
from torch_ctree.data.order import Purpose
from torch_ctree.data.splitting import longest_targets, random_rows, random_sources, with_words

VALIDATION = Purpose.VALIDATION_SET
rows = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["x", "x y", "x y z"])), min_size=2, max_size=40)


def divided(divide, pairs, *arguments, **options):
    """Both parts, or None where there are none to be had; together they are always the whole."""
    try:
        rest, held = divide(pairs, *arguments, **options)
    except DataError:
        return None
    assert sorted([*rest, *held]) == sorted(pairs)
    assert len(rest)
    assert len(held)
    return rest, held


@given(rows, st.integers(0, 9), st.floats(0, 1))
def test_random_rows(rows, seed, share):
    parts = divided(random_rows, Pairs.of(rows), VALIDATION, seed, share=share)
    if parts:
        assert len(parts[1]) == max(1, round(share * len(rows)))


@given(rows, st.integers(0, 9), st.floats(0, 1))
def test_random_sources_never_share_one(rows, seed, share):
    parts = divided(random_sources, Pairs.of(rows), VALIDATION, seed, share=share)
    if parts:
        rest, held = ({pair.source for pair in part} for part in parts)
        assert not rest & held
        assert len(held) == max(1, round(share * len({source for source, _ in rows})))


@given(rows, st.floats(0, 1))
def test_longest_targets_are_longer_than_all_others(rows, share):
    rows = [(f"{source} {n}", target) for n, (source, target) in enumerate(rows)]
    parts = divided(longest_targets, Pairs.of(rows), share=share)
    if parts:
        rest, held = ([len(pair.target.split()) for pair in part] for part in parts)
        assert max(rest) < min(held)
        assert len(held) <= share * len(rows) or len(set(held)) == 1


@given(rows, st.floats(0, 1))
def test_longest_targets_keep_sources_together(rows, share):
    parts = divided(longest_targets, Pairs.of(rows), share=share)
    if parts:
        rest, held = ({pair.source for pair in part} for part in parts)
        assert not rest & held


def test_longest_targets_take_what_they_may():
    pairs = Pairs.of([(f"s {n}", "x " * n) for n in range(1, 11)])
    assert [len(p.target.split()) for p in longest_targets(pairs, share=0.3)[1]] == [8, 9, 10]
    assert [len(p.target.split()) for p in longest_targets(pairs, share=0.05)[1]] == [10]


def test_words_must_come_in_one_phrase():
    pairs = Pairs.of([("walk around twice and run", "1"), ("walk around and run twice", "2"), ("run", "3")])
    rest, held = with_words(pairs, ["twice", "around"], lambda source: source.split(" and "))
    assert [pair.target for pair in held] == ["1"]
    assert [pair.target for pair in rest] == ["2", "3"]
    assert len(with_words(pairs, ["twice", "around"], lambda source: [source])[1]) == 2


def test_nothing_or_everything_held_out_is_an_error():
    pairs = Pairs.of([("a", "x"), ("a b", "x")])
    with pytest.raises(DataError, match="'c' leaves 2 of 2 pairs to train on and holds 0 out"):
        with_words(pairs, ["c"], lambda source: [source])
    with pytest.raises(DataError, match="'a' leaves 0 of 2"):
        with_words(pairs, ["a"], lambda source: [source])
    with pytest.raises(DataError, match="'longest' leaves 0 of 2"):
        longest_targets(pairs)
    with pytest.raises(DataError, match="'random' leaves 0 of 1"):
        random_rows(pairs[:1], VALIDATION, 0)


def test_the_same_sources_in_every_process():
    """Python's hashes differ from one process to the next; what is held out must not."""
    code = (
        "from torch_ctree.data import Pairs\n"
        "from torch_ctree.data.order import Purpose\n"
        "from torch_ctree.data.splitting import random_sources\n"
        "pairs = Pairs.of((f'source {n % 7}', str(n)) for n in range(40))\n"
        "print([pair.target for pair in random_sources(pairs, Purpose.TEST_SET, 3, share=0.3)[1]])"
    )
    environments = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    first, second = (subprocess.check_output([sys.executable, "-c", code], env=env) for env in environments)
    assert first == second != b"[]\n"
