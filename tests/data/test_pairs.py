import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import DataError, Example, Pairs

texts = st.text()
rows = st.lists(st.tuples(texts, texts), max_size=8)


@given(rows)
def test_reads_as_the_list_it_was_made_of(rows):
    pairs = Pairs.of(rows)
    assert len(pairs) == len(rows)
    assert list(pairs) == [Example(*row) for row in rows]
    assert [pairs[n] for n in range(-len(rows), len(rows))] == [Example(*row) for row in rows] * 2


@given(rows, st.data())
def test_slices_and_takes_as_a_list(rows, data):
    pairs = Pairs.of(rows)
    part = data.draw(st.slices(len(rows)))
    assert list(pairs[part]) == rows[part]
    if rows:
        chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
        assert list(pairs.take(chosen)) == [rows[n] for n in chosen]


def test_many_more_than_one_stretch():
    pairs = Pairs.of((str(n), "x" * (n % 3)) for n in range(10_000))
    assert list(pairs) == [(str(n), "x" * (n % 3)) for n in range(10_000)]


def test_parts_share_the_text():
    pairs = Pairs.of([("a b", "c"), ("d", "e f")])
    assert pairs[1:]._source_text is pairs._source_text
    assert pairs.take(np.array([1]))._target_text is pairs._target_text


def test_no_such_row():
    pairs = Pairs.of([("a", "b")] * 3)
    with pytest.raises(IndexError):
        pairs[3]
    for row in (3, -1):
        with pytest.raises(IndexError, match=f"^rows: got {row}; expected 0 to 2$"):
            pairs.take([0, row])


def test_a_mask_is_not_row_numbers():
    pairs = Pairs.of([("a", "b")] * 3)
    for rows in ([True, False, True], [1.0]):
        with pytest.raises(TypeError, match="expected row numbers"):
            pairs.take(np.array(rows))
    with pytest.raises(TypeError):
        pairs[[0, 1]]  # type: ignore[call-overload]
    assert len(pairs.take([])) == 0


def test_half_a_surrogate_is_no_text():
    with pytest.raises(DataError, match=r"^'a\\ud800': half a surrogate"):
        Pairs.of([("a\ud800", "b")])


def test_shows_itself():
    assert repr(Pairs.of([("a", "b")] * 2000)) == "<2,000 pairs: Example(source='a', target='b'), …>"
    assert repr(Pairs.of([])) == "<0 pairs>"


@given(rows)
def test_fingerprints_are_equal_where_texts_are(rows):
    sources, whole = Pairs.of(rows).source_fingerprints(), Pairs.of(rows).fingerprints()
    for n in range(len(rows)):
        for m in range(n):
            same = [rows[n][side].split() == rows[m][side].split() for side in (0, 1)]
            assert (sources[n] == sources[m]) == same[0]
            assert (whole[n] == whole[m]) == all(same)
