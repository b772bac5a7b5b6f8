import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree import LatentTree
from torch_ctree.data import DataError, Subwords, Vocabulary, load_encoder
from torch_ctree.data.encoding import same_words

words = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1)


@given(st.lists(st.lists(words, min_size=1), min_size=1))
def test_decode_undoes_encode(sentences):
    texts = [" ".join(sentence) for sentence in sentences]
    vocabulary = Vocabulary.build(texts)
    assert [vocabulary.decode(vocabulary.encode(text)) for text in texts] == texts
    assert sorted(vocabulary) == sorted({word for sentence in sentences for word in sentence})


def test_the_most_frequent_first_and_equals_by_alphabet():
    assert list(Vocabulary.build(["b c c", "d b c", "a"])) == ["c", "b", "a", "d"]


def test_numbers_depend_on_counts_not_on_order():
    assert Vocabulary.build(["a b", "b c"]) == Vocabulary.build(["b c", "b a"])


def test_a_strange_word_is_an_error_that_names_it():
    vocabulary = Vocabulary(["jump", "walk", "twice"])
    with pytest.raises(
        DataError, match=r"^'walk twce': 'twce' is not in the vocabulary of 3 words; did you mean 'twice'\?$"
    ):
        vocabulary.encode("walk twce")
    with pytest.raises(DataError, match=r"'熊' is not .* known are jump, walk, twice$"):
        vocabulary.encode("熊")


def test_a_strange_word_becomes_unknown_only_on_request():
    vocabulary = Vocabulary.build(["a b", "a"], unknown="<unk>")
    assert vocabulary.encode("a x b y") == [vocabulary.words.index(word) for word in ("a", "<unk>", "b", "<unk>")]
    assert vocabulary.decode(vocabulary.encode("a x")) == "a <unk>"
    assert "x" not in vocabulary
    assert len(vocabulary) == 3


def test_rare_words_need_a_word_that_stands_for_them():
    texts = ["a a b", "a c"]
    with pytest.raises(DataError, match="min_count: 2 leaves 2 of 3 words out; expected 1, or unknown='<unk>'"):
        Vocabulary.build(texts, min_count=2)
    assert list(Vocabulary.build(texts, min_count=2, unknown="<unk>")) == ["<unk>", "a"]
    assert list(Vocabulary.build(["a a"], min_count=2)) == ["a"]


def test_the_unknown_word_may_be_in_the_texts():
    assert list(Vocabulary.build(["a <unk>", "a"], unknown="<unk>")) == ["a", "<unk>"]
    with pytest.raises(DataError, match="'<unk>' is not among the words"):
        Vocabulary(["a"], unknown="<unk>")


def test_a_rare_unknown_word_is_not_lost():
    assert list(Vocabulary.build(["a a <unk>"], min_count=2, unknown="<unk>")) == ["<unk>", "a"]


def test_a_word_comes_once():
    with pytest.raises(DataError, match="'b' comes twice"):
        Vocabulary(["a", "b", "b"])


@pytest.mark.parametrize("text", ["", "  ", "\u3000"])
def test_no_word(text):
    with pytest.raises(DataError, match="has no word in it"):
        Vocabulary(["a"]).encode(text)


@pytest.mark.parametrize("unknown", [None, "<unk>"])
def test_saved_and_loaded(tmp_path, unknown):
    vocabulary = Vocabulary.build(["der Bär", "熊 \U0001f43b 'quoted\""], unknown=unknown)
    vocabulary.save(tmp_path / "run" / "words.json")
    assert Vocabulary.load(tmp_path / "run" / "words.json") == vocabulary
    assert hash(Vocabulary.load(tmp_path / "run" / "words.json")) == hash(vocabulary)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "not a whole JSON file"),
        ("{", "not a whole JSON file"),
        ("[]", "not a vocabulary of words"),
        ("{}", "not a vocabulary of words"),
        ('{"version": "1.0", "model": {}}', "not a vocabulary of words"),
        ('{"kind": "words", "words": ["a", "a"], "unknown": null}', "a damaged vocabulary"),
        ('{"kind": "words", "words": ["a b"], "unknown": null}', "a damaged vocabulary"),
        ('{"kind": "words", "words": [1], "unknown": null}', "a damaged vocabulary"),
        ('{"kind": "words", "words": 3, "unknown": null}', "a damaged vocabulary"),
        ('{"kind": "words", "words": ["a"], "unknown": "b"}', "a damaged vocabulary"),
        ('{"kind": "words", "words": ["a"]}', "a damaged vocabulary"),
    ],
)
def test_a_file_that_is_not_one(tmp_path, content, said):
    (tmp_path / "words.json").write_text(content)
    with pytest.raises(DataError, match=f"^{re.escape(str(tmp_path / 'words.json'))}: {said}"):
        Vocabulary.load(tmp_path / "words.json")


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read: No such file"):
        Vocabulary.load(tmp_path / "none.json")


@pytest.mark.parametrize("word", ["", "a b", " a", "a\n", "\u3000"])
def test_a_word_has_no_white_space(word):
    with pytest.raises(DataError, match=r"^words: got .*; expected words"):
        Vocabulary(["a", word])


@pytest.mark.parametrize("token", [-1, 2])
def test_a_token_that_is_not_there(token):
    with pytest.raises(IndexError, match=f"^token {token}: expected 0 to 1$"):
        Vocabulary(["a", "b"]).decode([0, token])


def test_a_string_is_not_several():
    for make in (Vocabulary, Vocabulary.build, Subwords.train):
        with pytest.raises(DataError, match="got the string 'a man'; expected several strings"):
            make("a man")


def test_long_words_are_cut_in_messages():
    with pytest.raises(DataError) as caught:
        Vocabulary(["a"]).encode("x" * 100_000)
    assert len(str(caught.value)) < 300


def test_either_kind_of_encoder_is_loaded(tmp_path):
    words, subwords = Vocabulary(["a", "b"]), Subwords.train(["a b a b"], size=260)
    for encoder in (words, subwords):
        encoder.save(tmp_path / "encoder.json")
        assert load_encoder(tmp_path / "encoder.json") == encoder
    with pytest.raises(DataError, match="expected a file that Vocabulary"):
        Vocabulary.load(tmp_path / "encoder.json")
    (tmp_path / "encoder.json").write_text("[]")
    with pytest.raises(DataError, match="not a file of subwords"):
        load_encoder(tmp_path / "encoder.json")


def test_a_truncated_file_is_noticed(tmp_path):
    Vocabulary(["a", "b"]).save(tmp_path / "words.json")
    whole = (tmp_path / "words.json").read_bytes()
    assert json.loads(whole)
    for end in range(len(whole)):
        (tmp_path / "words.json").write_bytes(whole[:end])
        with pytest.raises(DataError):
            Vocabulary.load(tmp_path / "words.json")


def test_shows_itself_and_spells_trees():
    vocabulary = Vocabulary(["the", "dog"])
    assert repr(vocabulary) == "<Vocabulary of 2 words; others are an error>"
    assert repr(Vocabulary(["?"], "?")) == "<Vocabulary of 1 words; others become '?'>"
    assert vocabulary[0:2] == ("the", "dog")
    dist = LatentTree(torch.zeros(3), torch.zeros(3, 2))
    tree = dist.posterior(torch.tensor([0, 1])).argmax().trees(vocabulary)[0]
    assert str(tree) == "(· the dog)"


def test_which_words_are_the_same():
    source = Vocabulary(["<unk>", "Anna", "sees", "?", "anna"], "<unk>")
    assert same_words(source, Vocabulary(["?", "voit", "Anna"])) == [-1, 2, -1, 0, -1]
    assert same_words(source, Vocabulary(["<unk>", "sees"], "<unk>")) == [-1, -1, 1, -1, -1]  # others are not the same
    assert same_words(Vocabulary(["<unk>"]), Vocabulary(["<unk>"], "<unk>")) == [-1]
    assert same_words(Vocabulary(["<unk>"]), Vocabulary(["<unk>"])) == [0]  # a word like any other


def test_which_pieces_are_the_same():
    """By their bytes: what is shown of a byte may be what a text shows, and a word is none of its pieces."""
    source = Subwords.train(["low lower lowest \\xc3"] * 9, size=270)
    target = Subwords.train(["slow \\xc3 lower"] * 9, size=270)
    found = same_words(source, target)
    assert len(found) == len(source)
    texts = [{piece: n for n, piece in enumerate(side.spellings)} for side in (source, target)]
    assert {n: m for n, m in enumerate(found) if m >= 0} == {
        n: texts[1][p] for p, n in texts[0].items() if p in texts[1]
    }
    assert sum(number >= 0 for number in found) >= 256  # all bytes
    for n, m in enumerate(found):
        assert m < 0 or source[n] == target[m]
    assert {-1} == {*same_words(source, Vocabulary(["low", "a"])), *same_words(Vocabulary(["low", "a"]), source)}


def test_what_does_not_say_how_it_is_spelled():
    class Letters:
        def __len__(self):
            return 3

    assert same_words(Letters(), Vocabulary(["a"])) == [-1, -1, -1]  # pyright: ignore[reportArgumentType]
    assert same_words(Vocabulary(["a"]), Letters()) == [-1]  # pyright: ignore[reportArgumentType]
