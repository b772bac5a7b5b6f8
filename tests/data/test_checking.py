import pytest

from torch_ctree.data import Lengths, Pairs, Task, check


def task(train, test) -> Task:
    return Task("mine", {"train": Pairs.of(train), "test": Pairs.of(test)}, "here")


TRAIN = [("a b", "x"), ("a b", "x"), ("c", "x y z"), ("a b", "y")]
TEST = [("a b", "x"), ("c d d", "x w"), ("d", "y")]


def test_sizes_and_lengths():
    report = check(task(TRAIN, TEST))
    assert (report["train"].pairs, report["test"].pairs) == (4, 3)
    assert report["train"].source.lengths == Lengths(1, 7 / 4, 2)
    assert report["test"].target.lengths == Lengths(1, 4 / 3, 2)
    assert (report["train"].source.words, report["train"].target.words) == (3, 3)


def test_unknown_words_are_counted_as_they_come():
    report = check(task(TRAIN, TEST))
    assert report["train"].source.unknown == report["train"].target.unknown == 0
    assert report["test"].source.unknown == pytest.approx(3 / 6)
    assert report["test"].target.unknown == pytest.approx(1 / 4)


def test_repeated_contradicted_and_leaked():
    report = check(task(TRAIN, TEST))
    assert (report["train"].repeated, report["train"].contradicted, report["train"].in_train) == (1, 1, 0)
    assert (report["test"].repeated, report["test"].contradicted, report["test"].in_train) == (0, 0, 1)


def test_an_empty_set():
    report = check(task(TRAIN, []))["test"]
    assert (report.pairs, report.source.lengths, report.source.unknown) == (0, Lengths(0, 0, 0), 0)
