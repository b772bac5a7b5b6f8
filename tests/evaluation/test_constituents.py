import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk import Tree

from torch_ctree.data import DataError
from torch_ctree.evaluation import PhraseShare, chance, phrase_share, phrase_spans, spans
from torch_ctree.evaluation.constituents import SIMPLE

MAN: str = "a man sees the old dog ."


def share(*trees: str, language: str = "en") -> PhraseShare:
    found = phrase_share(map(Tree.fromstring, trees), language)
    assert found is not None
    return found


def every(leaves: list[str]) -> list[Tree | str]:
    """All binary trees over some leaves."""
    if len(leaves) == 1:
        return [leaves[0]]
    cuts = range(1, len(leaves))
    return [Tree("·", [a, b]) for cut in cuts for a in every(leaves[:cut]) for b in every(leaves[cut:])]


# --- chance -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", range(2, 9))
def test_against_every_tree(n):
    trees = [tree for tree in every([str(leaf) for leaf in range(n)]) if isinstance(tree, Tree)]
    found = [spans(tree) for tree in trees]
    for start in range(n):
        for end in range(start + 2, n + 1):
            if end - start < n:
                expected = sum((start, end) in one for one in found) / len(trees)
                assert chance(end - start, n) == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 100, 700])
def test_what_all_spans_come_to(n):
    """A binary tree over n leaves has 2n − 1 vertices; leaves, and the whole, are in each."""
    assert chance(1, n) == chance(n, n) == 1
    assert sum((n - part + 1) * chance(part, n) for part in range(1, n + 1)) == pytest.approx(2 * n - 1)


@pytest.mark.parametrize("part", [0, 4, -1])
def test_no_part(part):
    with pytest.raises(DataError, match=rf"^part: got {part}; expected 1 to 3 leaves$"):
        chance(part, 3)


# --- shares -----------------------------------------------------------------------------------------------------------


def test_by_hand():
    found = share("(· (· (· a man) (· sees (· the (· old dog)))) .)")
    assert (found.share, found.phrases, found.sentences) == (1, 2, 1)
    assert found.baselines == {
        "right-branching": 0,  # the full stop ends every constituent
        "left-branching": 1 / 2,  # a man
        "balanced": 1 / 2,  # of 7 words: (a man) (sees the), then (old dog) .
        "random": (chance(2, 7) + chance(3, 7)) / 2,
    }


def test_several_sentences():
    some = "(· (· a man) (· sees (· the dog)))", "(· they (· see (· (· a big) dog)))", "(· they run)"
    found = share(*some)
    assert (found.share, found.phrases, found.sentences) == (1, 3, 2)
    assert found.baselines["right-branching"] == 2 / 3
    assert found.baselines["left-branching"] == 1 / 3


def test_crossed_and_missed():
    assert share("(· a (· man (· sees (· the (· (· old dog) .)))))").share == 0
    assert share("(· (· a (· man sees)) (· (· (· the old) dog) .))").share == 1 / 2


def test_german():
    found = share("(· (· ein mann) (· sieht (· den (· alten hund))))", language="de")
    assert (found.share, found.phrases) == (1, 2)


def test_flat_trees():
    assert share("(· (· a man) sees (· the old dog) .)").share == 1


@pytest.mark.parametrize("trees", [[], ["(· they run)"], ["(· a man)"], ["(· the (· old dog))"], ["(· man)"]])
def test_none(trees):
    """A phrase that is the whole sentence is in every tree."""
    assert phrase_share(map(Tree.fromstring, trees), "en") is None


def test_pieces():
    """Ein Hünd|chen schläft."""
    assert phrase_spans(["▁Ein", "▁Hünd", "chen", "▁schläft", "."], "de") == {(0, 3)}
    whole = share("(· (· ▁Ein (· ▁Hünd chen)) (· ▁schläft .))", language="de")
    assert (whole.share, whole.phrases, whole.baselines["left-branching"]) == (1, 1, 1)
    assert whole.baselines["random"] == chance(3, 5)
    assert share("(· (· ▁Ein ▁Hünd) (· chen (· ▁schläft .)))", language="de").share == 0


leaves = st.lists(
    st.sampled_from(["a", "the", "two", "man", "dog", "old", "sees", ",", "and", "."]), min_size=2, max_size=12
)


@given(leaves, st.randoms(use_true_random=False))
def test_any_tree(words, random):
    """The share is that of the phrases among the constituents, and simple trees have the share of their baseline."""

    below = set()

    def grown(start: int, end: int) -> Tree | str:
        below.add((start, end))
        if end - start == 1:
            return words[start]
        cut = random.randrange(start + 1, end)
        return Tree("·", [grown(start, cut), grown(cut, end)])

    tree = grown(0, len(words))
    assert isinstance(tree, Tree)
    found = phrase_share([tree], "en")
    places = {(a, b) for a, b in phrase_spans(words, "en") if b - a < len(words)}
    if not places:
        assert found is None
        return
    assert found is not None
    assert found.share == len(places & below) / len(places)
    assert found.phrases == len(places)
    assert all(0 <= share <= 1 for share in (found.share, *found.baselines.values()))
    for name, make in SIMPLE.items():
        made = phrase_share([make(words)], "en")
        assert made is not None
        assert made.share == found.baselines[name]


def test_random_is_the_mean_over_all_trees():
    words = MAN.split()
    trees = [tree for tree in every(words) if isinstance(tree, Tree)]
    shares = [found.share for tree in trees if (found := phrase_share([tree], "en"))]
    expected = phrase_share(trees[:1], "en")
    assert expected is not None
    assert sum(shares) / len(trees) == pytest.approx(expected.baselines["random"])
