import gzip
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import DataError, multi30k
from torch_ctree.evaluation import noun_phrases
from torch_ctree.evaluation.word_lists import English, German

BRACKET = re.compile(r"[\[\]]")


def marked(sentence: str, language: str) -> str:
    """The sentence with its phrases in brackets."""
    words = sentence.split()
    for start, end in noun_phrases(words, language):
        words[start], words[end - 1] = f"[{words[start]}", f"{words[end - 1]}]"
    return " ".join(words)


@pytest.mark.parametrize(
    "expected",
    [
        "[a man] in [a bright red shirt] rides [his bike] .",
        "[two men] stand in front of [a tennis court]",
        "[the two men] and [all the other people] wave",
        "[a woman] wearing [a blue and white dress]",
        "[a tall , thin man] runs [a race]",
        "[a smiling woman] smiling at [a swimming pool]",
        "[a man] building [a house] next to [a large building]",
        "[a snow covered hill]",
        "[a man] dressed in [a brightly colored shirt]",
        "[a man] unicycles down [the street]",
        "[the boy] walks on [the walks]",
        "[a sports bar] and [a christmas tree]",
        "[a small child &apos;s hand]",
        "[4 kids] hug each other , one another and [another kid]",
        "one takes [a picture] of one of them",
        "one wearing [a hat] , two playing",
        "[the next day] next to [the outside wall]",
        "people on streets",
        "a",
        "the .",
    ],
)
def test_english_by_hand(expected):
    assert marked(BRACKET.sub("", expected), "en") == expected


@pytest.mark.parametrize(
    "expected",
    [
        "[ein mann] in [einem hellen roten hemd] fährt mit [seinem fahrrad] .",
        "[ein junge] spielt , [ein blonder junge] spielt , [ein junger hund] schläft",
        "[die zwei männer] sitzen auf [der straße]",
        "[eine gruppe junger menschen] sieht [ein paar hunde]",
        "[ein schwarz gekleideter mann] und [zwei warm angezogene kinder]",
        "[ein schwarz-weißer hund] und [eine schwarze und braune katze]",
        "[ein alter , weißhaariger mann] steht am ufer [eines flusses]",
        "[ein sehr großer hund] mit [einem rosa halsband]",
        "[eine gelb- und blaue jacke]",
        "[ein mann] , der fußball spielt , [eine frau] , die [einen ball] wirft",
        "[die straße] , auf der kinder spielen",
        "[eine frau] , um [den ball] zu werfen",
        "[ein breites lächeln] im gesicht",
        "[ein mann] mittleren alters",
        "einer hält [5 bälle]",
        "kinder auf straßen",
        "ein",
        "der .",
    ],
)
def test_german_by_hand(expected):
    assert marked(BRACKET.sub("", expected), "de") == expected


@pytest.mark.parametrize("language", ["en", "de"])
def test_case_does_not_matter(language):
    for sentence in ("The Two Men See A RED Dog .", "Die Zwei Männer Und EIN Roter Hund ."):
        words = sentence.split()
        assert noun_phrases(words, language) == noun_phrases([word.lower() for word in words], language)


WORDS = {
    language: sorted(set().union(*(value for value in vars(lists).values() if isinstance(value, frozenset))))
    for language, lists in {"en": English, "de": German}.items()
}


@pytest.mark.parametrize("language", ["en", "de"])
@given(data=st.data())
def test_any_words(language, data):
    """Phrases are apart, in order, of two words or more, begin as they must and hold no marks at their ends."""
    some = st.sampled_from([*WORDS[language], "dog", "hund", ".", ",", '"', "(", "&quot;", "7"])
    words = data.draw(st.lists(some | st.text(max_size=4), max_size=15))
    found = noun_phrases(words, language)
    determiners = English.DETERMINERS if language == "en" else German.DETERMINERS
    reached = 0
    for start, end in found:
        assert reached <= start < end - 1 < len(words)
        assert words[start].lower() in determiners or words[start].isdecimal()
        assert any(map(str.isalnum, words[end - 1])) or words[end - 1] in English.POSSESSIVES
        reached = end


def test_words_that_end_a_phrase_are_in_none():
    for language, lists in {"en": English, "de": German}.items():
        opener = "the" if language == "en" else "das"
        for word in lists.STOPS:
            assert noun_phrases([opener, word], language) == []


def test_other_languages():
    with pytest.raises(DataError, match=r"^language: got 'fr'; expected 'en' or 'de'$"):
        noun_phrases(["le", "chat"], "fr")


def test_german_phrases_end_in_what_is_capitalised(official):
    """Of the training captions, read in lower case: the plain text has a capital for every noun."""
    raw = gzip.decompress((official / "multi30k/raw/train.de.gz").read_bytes()).decode()
    capitals: Counter[str] = Counter()
    for word in re.findall(r"(?<=\s)[^\W\d][\w-]*", raw):
        capitals[word.lower()] += 1 if word[0].isupper() else -1
    train = multi30k.read("en", "de", "tokenised", official)["train"]
    sentences = [train[row].target.split() for row in range(0, len(train), 10)]
    ends = [words[end - 1] for words in sentences for _, end in noun_phrases(words, "de")]
    known = [word for word in ends if capitals[word]]
    assert len(known) > 2 * len(sentences)
    assert sum(capitals[word] > 0 for word in known) / len(known) > 0.98
