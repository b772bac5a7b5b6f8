import pytest

from torch_ctree.viewing.text import ems, percent, visible


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (0.0, "0%"),
        (1e-9, "0%"),
        (1e-4, "<1%"),
        (0.0049, "<1%"),
        (0.0051, "1%"),
        (0.5, "50%"),
        (0.994, "99%"),
        (0.9951, ">99%"),
        (0.9999, ">99%"),
        (0.99999, "100%"),
        (1.0, "100%"),
        (1.00001, "100%"),
        (float("nan"), "?"),
        (float("inf"), "?"),
    ],
)
def test_percent(share, said):
    assert percent(share) == said


def test_visible():
    assert visible("a\x1b[2J\n\ud800") == r"a\x1b[2J\n\ud800"
    assert visible("熊 e\u0301 👨\u200d👩 شِعر") == "熊 e\u0301 👨\u200d👩 شِعر"


def test_ems():
    assert ems("") == 0
    assert ems("e\u0301") == ems("e")
    assert ems("熊") == 1
    assert ems("ill") < ems("eat") < ems("EAT") < ems("MWM")
