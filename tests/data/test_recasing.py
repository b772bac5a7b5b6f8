import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree import data
from torch_ctree.data.recasing import Recaser, Written
from torch_ctree.evaluation import bleu

from ..tiny_multi30k import put

PLAIN = [
    "Ein Mann isst mit der Frau.",
    "Essen und Trinken beim Essen.",
    "Der Mann will essen. Das Trinkglas steht auf dem Tisch.",
    "Ein Glas fällt.",
    "Wir gehen gern ins Kino!",
]
TOKENISED = [
    "ein mann isst mit der frau .",
    "essen und trinken beim essen .",
    "der mann will essen . das trinkglas steht auf dem tisch .",
    "ein glas fällt .",
    "wir gehen gern ins kino !",
]


@pytest.fixture(scope="module")
def recaser() -> Recaser:
    return Recaser(PLAIN, TOKENISED)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("der mann trinken", "Der Mann Trinken"),  # as it was written within sentences
        ("wir essen", "Wir Essen"),  # as often this way as that: what was seen first
        ("wir will essen", "Wir will essen"),  # as after this word
        ("wir beim essen", "Wir beim Essen"),
        ("wir bierglas still", "Wir Bierglas still"),  # never seen: as a word that ends alike, or not at all
        ("wir zz zz", "Wir zz zz"),
        ("wir gehen . frau gehen ! mann", "Wir gehen . Frau gehen ! Mann"),
        ("« wir », gehen", "« Wir », gehen"),  # a sentence begins with its first letter
        ("wir 12 glas", "Wir 12 Glas"),
        ("", ""),
    ],
)
def test_capitals(recaser, text, expected):
    assert recaser(text) == expected


@given(st.text(alphabet="aäßiİ .!&;'", max_size=30))
def test_nothing_but_capitals_changes(text):
    recaser = Recaser(PLAIN, TOKENISED)
    tokens = " ".join(text.split())
    found = recaser(tokens)
    assert [token[1:] for token in found.split()] == [token[1:] for token in tokens.split()] or "ß" in tokens
    assert len(found.split()) == len(tokens.split())


def test_tokens_that_were_cut_in_another_way_teach_nothing():
    recaser = Recaser(["Das X12 Plakat von Rom"], ["das cyclops plakat von rom"])
    assert recaser("wir plakat von rom cyclops") == "Wir Plakat von Rom cyclops"
    assert Recaser(['Ein "Rom"'], ["ein &quot; rom &quot;"])("ein &quot; rom") == 'Ein " Rom'


def test_both_forms_must_have_as_many_texts():
    with pytest.raises(ValueError, match="zip"):
        Recaser(PLAIN, TOKENISED[:-1])


def test_plain_text(recaser):
    written = Written({}, recaser, "de")
    assert [written.plain(text) for text in TOKENISED[2:]] == PLAIN[2:]


def test_multi30k_knows_how_it_was_written(tiny, tmp_path):
    task = data.load("multi30k-de-en", root=put(tmp_path / "multi30k").parent)
    assert task.written is not None
    written = task.written()
    assert written.targets == {
        "train": ["A dog.", "Two men.", "Three trees."],
        "validation": ["A house.", "Snow."],
        "test": ["A ball.", "Sand."],
        "test_2017": ["A boat.", "Grass."],
    }
    assert [written.plain(target) for target in task.test.targets()] == written.targets["test"]
    assert data.load("multi30k-de-en", root=tmp_path, form="raw").written is None
    assert data.load("multi30k-de-en", root=tmp_path, hold_out="random").written is None  # of other rows
    (tmp_path / "multi30k/raw/val.de.gz").unlink()
    assert data.load("multi30k-de-en", root=tmp_path).written is None


@pytest.mark.parametrize(("pair", "least"), [("multi30k-de-en", 98), ("multi30k-en-de", 97)])
def test_most_of_the_validation_set_comes_back(official, pair, least):
    """Capitals are learned from the training set alone."""
    task = data.load(pair, root=official)
    assert task.written is not None
    written = task.written()
    found = [written.plain(text) for text in task.validation.targets()]
    assert bleu(found, written.targets["validation"], tokenised=False).score > least
