from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import Side, load, recombined

ROWS = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5).map(tuple), max_size=12)


def neighbours(row: tuple[int, ...], place: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return row[max(0, place - 1) : place], row[place + 1 : place + 2]


def all_of_them(rows: list[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """By definition: from left to right, at every place what is there or another token with the same neighbours."""
    stands = {(*neighbours(row, place), row[place]) for row in rows for place in range(len(row))}
    made = set(rows)
    for place in range(max(map(len, rows), default=0)):
        made |= {
            (*row[:place], token, *row[place + 1 :])
            for row in made
            for token in range(5)
            if place < len(row) and (*neighbours(row, place), token) in stands
        }
    return made - set(rows)


@given(ROWS, st.integers(1, 30), st.integers(0, 3))
def test_what_is_new_is_made_of_what_is_known(rows, most, seed):
    new = recombined(Side.of(rows), most, seed)
    found = new.source.rows()
    assert set(found) <= all_of_them(rows)
    assert len(set(found)) == len(found) <= most
    assert len(new) == len(new.target.ends) == len(found)
    assert recombined(Side.of(rows[::-1]), most, seed).source.rows() == found  # their order does not matter


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3).map(tuple), max_size=4))
def test_all_are_found_where_there_are_few(rows):
    assert set(recombined(Side.of(rows), 1000).source.rows()) == all_of_them(rows)


def test_two_seeds_find_two():
    rows = [(a, b, c) for a in range(5) for b in range(5) for c in range(5) if a + b + c != 6]
    one, other = (recombined(Side.of(rows), 5, seed).source.rows() for seed in range(2))
    assert len(one) == len(other) == 5
    assert one != other


@given(ROWS)
def test_rows_there_and_back(rows):
    side = Side.of(rows)
    assert side.rows() == rows
    assert side.lengths.tolist() == [len(row) for row in rows]


def test_of_scan():
    """What LENGTH leaves out is among it: ``around … thrice``, and two of those."""
    task = load("scan-length")
    words = sorted({word for pair in task.train for word in pair.source.split()})
    known = {tuple(map(words.index, pair.source.split())) for pair in task.train}
    new = recombined(Side.of(sorted(known)), 256)
    texts = [" ".join(words[token] for token in row) for row in new.source.rows()]
    assert len(texts) == 256
    assert not known & set(new.source.rows())
    assert any("walk around left thrice" in text for text in texts)
    assert any(text.count("around") == text.count("thrice") == 2 and "turn" not in text for text in texts)
