from dataclasses import replace

import pytest

from tests.training.runs import pairs
from torch_ctree.data import Pairs, Subwords, Task, Vocabulary
from torch_ctree.data.files import write_jsonl
from torch_ctree.training import TrainConfig, TrainingError, build
from torch_ctree.training.preparation import prepare

TRAIN = [("walk", "W"), ("walk twice", "W W"), ("run", "R"), ("run thrice", "R R R")]


def task(train=TRAIN, validation=(("walk", "W"),), name: str = "own.tsv") -> Task:
    return Task(name, {"train": Pairs.of(train), "validation": Pairs.of(validation), "test": Pairs.of([])}, "made here")


def config(name: str = "own.tsv", **sections) -> TrainConfig:
    return build({"data": {"name": name}, **sections})


@pytest.mark.parametrize(("longest", "depth"), [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (8, 4), (9, 5)])
def test_the_depth_is_chosen_from_the_data(longest, depth):
    """The fewest levels with a leaf for every word, and one more."""
    text = " ".join("W" * longest)
    for prepared in (
        prepare(config(), task([*TRAIN[:1], ("walk", text)])),
        prepare(config(), task(TRAIN[:1], [("walk", text)])),  # wherever the longest is
    ):
        assert prepared.model.depth == depth
        (said,) = prepared.remarks
        tokens = "1 token" if longest == 1 else f"{longest} tokens"
        assert said == (
            f"tree depth {depth}, chosen from the data: the longest target has {tokens}, "
            f"and there is room for {2**depth}"
        )


def test_a_depth_that_was_chosen_stays():
    prepared = prepare(config(model={"depth": 2}), task())
    assert prepared.model.depth == 2
    assert prepared.remarks == []


def test_too_long_for_the_tree():
    long = [("walk", "W"), ("run", "R R R"), ("run run", "R R R R R")]
    with pytest.raises(
        TrainingError,
        match=r"^train set: 2 targets of more than 2 tokens, which no tree of depth 1 holds \(the first is pair 2, "
        r"with 3\); raise --model\.depth to 3 or leave them out$",
    ):
        prepare(config(model={"depth": 1}), task(long))
    with pytest.raises(
        TrainingError, match=r"^validation set: 1 target of more than 4 .* pair 3, with 5\); raise .* 3 "
    ):
        prepare(config(model={"depth": 2}), task(validation=long))
    assert prepare(config(model={"depth": 3}), task(long)).model.depth == 3  # as said


def texts(prepared, pairs) -> list[tuple[str, str]]:
    sides = zip(pairs.source.rows(), pairs.target.rows(), strict=True)
    return [(prepared.source.decode(source), prepared.target.decode(target)) for source, target in sides]


def asked(n: int, animal: str = "cat", more: str = "") -> tuple[str, str]:
    """A pair that has nothing but the animal in common with those of another number."""
    return f"x{n} {animal} y{n}{more}", f"z{n} {animal}{more.upper()}"


def test_pairs_with_phrases_exchanged():
    """None of them in another set, nor longer than those that are known; words, depth and validation set as without."""
    train = [asked(0), asked(0, "big dog"), asked(1), asked(2), asked(3, more=" w")]
    other = task(train, [(f" {asked(2, 'big  dog')[0]}", asked(2, "big dog")[1])])
    before, after = (prepare(config(data={"name": "own.tsv", "exchange": share}), other) for share in (0, 2))
    assert texts(before, before.train) == train
    assert texts(after, after.train) == [*train, asked(1, "big dog")]
    assert after.remarks == ["1 new pair, with phrases exchanged: 1 to train on, 0 to validate", *before.remarks]
    assert (after.model, list(after.validation.source.rows())) == (before.model, list(before.validation.source.rows()))
    with pytest.raises(TrainingError, match=r"^data\.exchange: no phrase .* expected 0$"):
        prepare(config(data={"name": "own.tsv", "exchange": 1}), task())


@pytest.mark.parametrize(("limit", "made"), [(None, [1, 3]), (4, [1, 3]), (3, [1])])
def test_no_new_pairs_that_are_too_long_to_be_trained_on(limit, made):
    train = [asked(0), asked(0, "big dog"), asked(1), asked(3, more=" w"), ("a b c d e", "A B C D E")]
    chosen = config(data={"name": "own.tsv", "exchange": 2}, optimisation={"max_target": limit})
    prepared = prepare(chosen, task(train))
    wanted = {asked(n, "big dog", " w" if n == 3 else "") for n in made}
    assert set(texts(prepared, prepared.train)) - set(train) == wanted


@pytest.mark.parametrize("pairs", [1, 2, 5])
def test_some_of_the_new_pairs_are_validated_on(pairs):
    """One of ten, and no more than there are others: in no set twice."""
    train = [asked(0, "big dog"), *map(asked, range(41))]
    validation = [("walk " * n, "W") for n in range(1, pairs + 1)]
    prepared = prepare(config(data={"name": "own.tsv", "exchange": 2}), task(train, validation))
    trained, validated = texts(prepared, prepared.train), texts(prepared, prepared.validation)
    held = min(4, pairs)
    assert len(validated) == pairs + held
    made = [*trained[len(train) :], *validated[pairs:]]
    assert sorted(made) == sorted(asked(n, "big dog") for n in range(1, 41))
    assert prepared.remarks[0] == (f"40 new pairs, with phrases exchanged: {40 - held} to train on, {held} to validate")


def test_a_student_has_the_true_new_pairs(tmp_path):
    """Some of them are validated on, where no other model's answers belong."""
    train = [asked(0, "big dog"), *map(asked, range(41))]
    answers = tmp_path / "distilled.jsonl"
    write_jsonl(answers, [(source, "w") for source, _ in train])
    other = task(train, [("walk", "W")])
    made = {"name": "own.tsv", "exchange": 2}
    plain, student = (prepare(config(data=made | more), other) for more in ({}, {"distilled": str(answers)}))
    assert texts(student, student.validation) == texts(plain, plain.validation)
    assert texts(student, student.train)[len(train) :] == texts(plain, plain.train)[len(train) :]
    assert {target for _, target in texts(student, student.train)[: len(train)]} <= {"w", "<unk>"}


def test_words():
    prepared = prepare(config(), task())
    assert isinstance(prepared.source, Vocabulary)
    assert {"walk", "run", "twice", "thrice", "<unk>"} == {prepared.source[n] for n in range(len(prepared.source))}
    assert len(prepared.train) == 4
    assert [prepared.target.decode(row) for row in map(prepared.target.encode, ("W R",))] == ["W R"]


STRANGE = [("hop twice", "H H"), ("skip", "W"), ("jump", "W"), ("dance", "W")]


def test_unknown_words_are_replaced_in_your_own_pairs():
    prepared = prepare(config(), task(validation=STRANGE))
    assert prepared.remarks[1:] == [
        "4 words of the validation sources not known from training, read as <unk>: dance, hop, jump, … "
        "(--vocabulary.kind subwords knows parts of words)",
        "1 word of the validation targets not known from training, read as <unk>: H "
        "(--vocabulary.kind subwords knows parts of words)",
    ]
    source = prepared.source
    assert isinstance(source, Vocabulary)
    assert source.encode("hop twice") == source.encode("skip twice") != source.encode("walk twice")


@pytest.mark.parametrize("settings", [config("scan-simple"), config(vocabulary={"unknown": "error"})])
def test_unknown_words_are_refused_where_all_should_be_known(settings):
    with pytest.raises(
        TrainingError,
        match=r"^validation set, source 1: .*'hop' is not in the vocabulary.*; or read unknown words as <unk>: "
        r"--vocabulary\.unknown replace$",
    ):
        prepare(settings, task(validation=STRANGE))
    replaced = replace(settings, vocabulary=replace(settings.vocabulary, unknown="replace"))
    assert len(prepare(replaced, task(validation=STRANGE)).validation) == 4


def test_rare_words_are_unknown():
    prepared = prepare(config(vocabulary={"min_count": 2}), task())
    source = prepared.source
    assert isinstance(source, Vocabulary)
    assert "walk" in source
    assert "twice" not in source
    with pytest.raises(TrainingError, match=r"^vocabulary\.min_count: got 2, where unknown words are refused"):
        prepare(config(vocabulary={"min_count": 2, "unknown": "error"}), task())


def test_subwords():
    prepared = prepare(config(vocabulary={"kind": "subwords", "size": 300}), task(pairs(), STRANGE))
    assert isinstance(prepared.source, Subwords)
    assert prepared.source.decode(prepared.source.encode("hop twice")) == "hop twice"  # nothing is unknown
    assert len(prepared.source) <= 300
    assert len(prepared.remarks) == 1


def test_an_empty_set():
    for name, empty in (("train", task(train=[])), ("validation", task(validation=[]))):
        with pytest.raises(TrainingError, match=rf"^own\.tsv: the {name} set is empty; expected pairs$"):
            prepare(config(), empty)
