import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.experiments.tiny import SCAN, failed, result
from torch_ctree.experiments import Published
from torch_ctree.experiments.summary import BLOCKS, Sample, alone, bars, here, number, published, sample, spread

LENGTH = next(column for column in SCAN.columns if column.key == "length")


def test_a_sample():
    found = Sample((0.1, 0.3, 0.8))
    assert found.mean == pytest.approx(0.4)
    assert found.deviation == pytest.approx(math.sqrt((0.09 + 0.01 + 0.16) / 2))
    assert Sample((0.3,)).deviation is None


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=20))
def test_histograms(thousandths):
    """Every value is counted once, in its own tenth."""
    found = Sample(tuple(value / 1000 for value in thousandths)).histogram
    expected = [sum(value // 100 == n or (n == 9 and value == 1000) for value in thousandths) for n in range(10)]
    assert list(found) == expected


@given(st.lists(st.integers(0, 10), min_size=1, max_size=10).filter(any))
def test_bars_are_as_high_as_counts(counts):
    drawn = bars(counts)
    heights = [BLOCKS.index(block) for block in drawn]
    assert [not height for height in heights] == [not count for count in counts]
    assert [height == 7 for height in heights] == [count == sum(counts) for count in counts]
    for (a, b), (c, d) in zip(
        zip(counts, heights, strict=True), list(zip(counts, heights, strict=True))[1:], strict=False
    ):
        assert a < c or b >= d


@pytest.mark.parametrize(
    ("value", "digits", "text"), [(100, 1, "100.0"), (0.16, 1, "0.16"), (44.7, 1, "44.7"), (0.0, 2, "0.00")]
)
def test_numbers_as_printed(value, digits, text):
    assert number(value, digits) == text


def test_what_was_published():
    row = {row.name: row for row in SCAN.rows}["OM-CTree + LA"].published
    assert published(row["length"], SCAN) == ["44.7 ± 33.5", "▁▅▂▂▁▁▁▁▂▃"]
    assert published(Published(12.5, 6.6), SCAN) == ["12.5 ± 6.6"]
    assert published(Published(0.5), SCAN) == ["0.5"]
    assert published(None, SCAN) == ["–"]


@pytest.mark.parametrize(
    ("results", "lines"),
    [
        ([], ["–"]),
        ([result(value=0.5)], ["50.0", "▁▁▁▁▁█▁▁▁▁", "1 of 10 runs"]),
        ([result(value=0.1), result(value=0.3)], ["20.0 ± 14.1", "▁▅▁▅▁▁▁▁▁▁", "2 of 10 runs"]),
        ([result(value=1.0), failed()], ["100.0", "▁▁▁▁▁▁▁▁▁█", "1 of 10 runs, 1 failed"]),
        ([failed(), failed()], ["–", "0 of 10 runs, 2 failed"]),
        ([result(value=0.0)] * 10, ["0.0 ± 0.0", "█▁▁▁▁▁▁▁▁▁"]),
    ],
)
def test_ours(results, lines):
    assert here(results, LENGTH, SCAN) == lines


def test_one_run():
    assert alone(result(value=0.1984), LENGTH, SCAN) == "19.8"
    assert alone(failed(), LENGTH, SCAN) == "failed"


def test_runs_without_a_number_are_left_out():
    assert sample([{"tree_f1": None}, {"tree_f1": 0.5}], "tree_f1") == Sample((0.5,))
    assert spread(Sample(()), 100, 1) == "–"
