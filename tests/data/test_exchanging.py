"""Against the definition, written out: every phrase of every pair, every surrounding."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import Example, Pairs, exchanged
from torch_ctree.data.exchanging import LONGEST

QUESTIONS = [
    ("a cat does sleep .", "a cat does sleep ."),
    ("a cat that does eat does sleep .", "a cat that does eat does sleep ."),
    ("a dog does bark ?", "does a dog bark"),
    ("a cat does bark ?", "does a cat bark"),
    ("a dog by a lake does bark ?", "does a dog by a lake bark"),
]


def phrases(source: list[str], target: list[str]):
    """(phrase, words before and after it in the source, in the target), of each that stands once on both sides."""

    def places(words: list[str]) -> list[tuple[str, str, str]]:
        ends = [(i, j) for i in range(len(words)) for j in range(i + 1, len(words) + 1) if j - i < len(words)]
        return [(" ".join(words[i:j]), " ".join(words[:i]), " ".join(words[j:])) for i, j in ends if j - i <= LONGEST]

    for (phrase, *here), (same, *there) in product(places(source), places(target)):
        once = all(sum(place[0] == phrase for place in places(words)) == 1 for words in (source, target))
        if phrase == same and once:
            yield phrase, (*here, *there)


def classes(found: set[tuple[str, tuple[str, ...]]]) -> dict[str, set[str]]:
    """Words that may be exchanged for one another, by each of them: until nothing more is to be added."""
    same: dict[str, set[str]] = {}
    for (one, here), (other, there) in product(found, found):
        if here == there and " " not in one + other:
            joined = same.get(one, {one}) | same.get(other, {other})
            same |= dict.fromkeys(joined, joined)
    return same


def everything(pairs: list[tuple[str, str]]) -> set[tuple[str, str]]:
    """All that can be made of them by one exchange."""
    found = {(phrase, around) for s, t in pairs for phrase, around in phrases(s.split(), t.split())}
    alike = {(one, other) for one, here in found for other, there in found if here == there and one != other}
    joined = lambda *parts: " ".join(" ".join(parts).split())  # noqa: E731
    made = {
        (joined(around[0], new, around[1]), joined(around[2], new, around[3]))
        for old, new in alike
        for phrase, around in found
        if phrase == old
    }
    same = classes(found)
    structure = lambda source: [min(same.get(word, {word})) for word in source.split()]  # noqa: E731
    known = [structure(source) for source, _ in pairs]
    begin, end = ({target.split()[at] for _, target in pairs} for at in (0, -1))
    longest = [max(len(pair[side].split()) for pair in pairs) for side in (0, 1)]
    return {
        (source, target)
        for source, target in made
        if structure(source) not in known
        and target.split()[0] in begin
        and target.split()[-1] in end
        and len(source.split()) <= longest[0]
        and len(target.split()) <= longest[1]
    }


def test_questions():
    """Relative clauses come into questions, where there was none."""
    made = exchanged(Pairs.of(QUESTIONS), 1000)
    assert set(made) == everything(QUESTIONS)
    assert Example("a cat that does eat does bark ?", "does a cat that does eat bark") in set(made)
    assert len(set(made.sources())) == len(made)


@given(st.lists(st.tuples(*[st.text("abc", min_size=1, max_size=6)] * 2), min_size=1, max_size=6), st.integers(0, 3))
def test_nothing_else_is_made(letters, seed):
    pairs = [(" ".join(source), " ".join(target)) for source, target in letters]
    made = list(exchanged(Pairs.of(pairs), 20, seed))
    assert set(made) <= everything(pairs)
    assert len({source for source, _ in made}) == len(made) <= 20


@given(st.lists(st.text("abcd", min_size=2, max_size=5), min_size=2, max_size=5, unique=True))
def test_all_of_it_is_made(words):
    """Of targets that are the source with its last word first, where a source has one target and chance enough."""
    pairs = [(" ".join(word), " ".join(word[-1] + word[:-1])) for word in words]
    expected = everything(pairs)
    found = {source for source, _ in exchanged(Pairs.of(pairs), 500)}
    assert found == {source for source, _ in expected}


def test_words_in_each_others_places_are_nothing_new():
    """Nor by way of a third one: a and b have stood in the same surroundings, and so have b and c."""
    words = [("x a", "a y"), ("x b", "b y"), ("z b", "b v"), ("z c", "c v"), ("w a", "a u")]
    assert len(exchanged(Pairs.of(words), 100)) == 0
    longer = [*words, ("x d e", "d e y")]
    assert set(exchanged(Pairs.of(longer), 100)) == {("w d e", "d e u"), ("z d e", "d e v")} == everything(longer)


def test_targets_that_are_not_longer():
    pairs = Pairs.of(QUESTIONS)
    every = set(exchanged(pairs, 1000))
    sizes = {len(target.split()) for _, target in every}
    assert len(sizes) > 1
    for longest in sizes:
        short = {pair for pair in every if len(pair.target.split()) <= longest}
        assert set(exchanged(pairs, 1000, longest=longest)) == short


def test_as_many_as_wanted_the_same_every_time():
    pairs = Pairs.of(QUESTIONS)
    assert list(exchanged(pairs, 2, 7)) == list(exchanged(pairs, 2, 7))
    assert len(exchanged(pairs, 2, 7)) == 2
    assert len({tuple(exchanged(pairs, 2, seed)) for seed in range(5)}) > 1


def test_not_those_of_other_sets():
    pairs = Pairs.of(QUESTIONS)
    every = set(exchanged(pairs, 1000))
    barred = next(iter(sorted(every))).source
    assert set(exchanged(pairs, 1000, without={barred})) == {pair for pair in every if pair.source != barred}


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("", "")],
        [("jump", "JUMP"), ("walk", "WALK"), ("jump twice", "JUMP JUMP")],  # nothing in common
        [("a", "a"), ("b", "b"), ("c", "c")],  # nothing around it
        [("x a y", "a z"), ("x b w", "b z")],  # never the same around it
        [("a x a", "a y"), ("b x b", "b y")],  # twice in the source
        [("a x", "a a y"), ("b x", "b b y")],  # twice in the target
        [("a x", "a y"), ("a x", "a y")],  # the same pair again
    ],
)
def test_where_nothing_can_be_made(pairs):
    assert len(exchanged(Pairs.of(pairs), 10)) == 0


def test_more_pairs_than_are_looked_at_at_once(monkeypatch):
    expected = list(exchanged(Pairs.of(QUESTIONS), 50))
    monkeypatch.setattr("torch_ctree.data.exchanging.AT_ONCE", 2)
    assert set(exchanged(Pairs.of(QUESTIONS), 50)) == set(expected)


@pytest.mark.parametrize(("size", "made"), [(LONGEST, 1), (LONGEST + 1, 0)])
def test_how_long_phrases_are(size, made):
    long = " ".join(f"w{n}" for n in range(size))
    pairs = [(f"x {long}", f"{long} y"), ("x b", "b y"), ("z b", "b v")]
    assert list(exchanged(Pairs.of(pairs), 100)) == [(f"z {long}", f"{long} v")][:made]


@pytest.mark.parametrize("n", range(3))
def test_surroundings_are_told_apart(n):
    """The same words around a phrase, elsewhere."""
    sentences = ["x a p q r", "p b x q r", "x p c q r", "p x q d r", "e x p q r"]
    pairs = [(text, " ".join(text.split()[n:] + text.split()[:n])) for text in sentences]
    assert len(exchanged(Pairs.of(pairs), 100)) == len(everything(pairs)) == 0


def test_blanks_mean_nothing():
    wide = [(source.replace(" ", "  "), f" {target}\t") for source, target in QUESTIONS]
    assert list(exchanged(Pairs.of(wide), 5)) == list(exchanged(Pairs.of(QUESTIONS), 5))
