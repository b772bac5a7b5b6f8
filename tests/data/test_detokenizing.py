import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data.detokenizing import detokenize

GENERAL = [
    ("two men , one woman .", "two men, one woman."),
    ("a ; b : c ! d ?", "a; b: c! d?"),
    ("well ... no", "well... no"),
    ("a man ( tall ) waits", "a man (tall) waits"),
    ("a ( b [ c ] ) , d", "a (b [c]), d"),
    ("a [ b ]", "a [b]"),
    ("number # 8 .", "number #8."),
    ("and / or", "and/or"),
    ("user _ name", "user_name"),
    ("1 + 1 = 2", "1 + 1 = 2"),
    ("at 11 : 27 sharp", "at 11:27 sharp"),
    ("10,000 people , 2.5 each", "10,000 people, 2.5 each"),
    ("well @-@ known", "well-known"),
    ("and @/@ or", "and/or"),
    ("t-shirt - red", "t-shirt - red"),
]

ESCAPES = [
    ("&quot; a &quot;", '"a"'),
    ("it &apos;s", "it's"),
    ("salt &amp; pepper", "salt & pepper"),
    ("a &lt; b &gt; c", "a < b > c"),
    ("a &#124; b", "a | b"),
    ("&#91; a &#93;", "[a]"),
    ("&amp;quot;", "&quot;"),
    ("&copy;", "&copy;"),
]

ENTITIES = [
    ("stone &amp; amp ; tile", "stone &amp; tile"),
    ("a q &amp; amp ; a .", "a q&amp;a."),
    ("one &amp; two ; three", "one & two; three"),
    ("; a", "; a"),
]

QUOTES = [
    ('says " hello "', 'says "hello"'),
    ('" a " and " b " .', '"a" and "b".'),
    ('a " b . "', 'a "b."'),
    ('he said , " no ! " and left', 'he said, "no!" and left'),
    ('a b "', 'a b"'),
    ('"', '"'),
    ("a “ b ” c", "a “b” c"),
    ("the ‘ a ’ and ‘ b ’ signs", "the ‘a’ and ‘b’ signs"),
    ("the « a » sign", "the «a» sign"),
    ("a ' grand opening ' sign", "a 'grand opening' sign"),
    ("says ' free dinner ' .", "says 'free dinner'."),
    ("jackson 's ' thriller ' video", "jackson's 'thriller' video"),
    ("' a ' is a letter", "'a' is a letter"),
    ("rock ' n ' roll", "rock 'n' roll"),
    ('a " stop " -sign', 'a "stop"-sign'),
]

ENGLISH = [
    ("the girl 's bike", "the girl's bike"),
    ("they 're here , i 'm not", "they're here, i'm not"),
    ("we 've , he 'd , you 'll", "we've, he'd, you'll"),
    ("it doesn 't", "it doesn't"),
    ("it does n't", "it doesn't"),
    ("it does n’t , it ’s", "it doesn’t, it’s"),
    ("they ' re here", "they're here"),
    ("yes , ma 'am", "yes, ma'am"),
    ('" macbeth " \'s end', '"macbeth"\'s end'),
    ("hors d 'oeuvres", "hors d'oeuvres"),
    ("hors d ' oeuvres", "hors d'oeuvres"),
    ("o 'hara and o ' neill", "o'hara and o'neill"),
    ("a farmers ' market", "a farmers' market"),
    ("boys ' and girls ' shoes", "boys' and girls' shoes"),
    ("with lassos ' .", "with lassos'."),
    ("hook 'em horns", "hook 'em horns"),
    ("hook ' em horns", "hook 'em horns"),
    ("' twas night", "'twas night"),
    ("number 5 's head", "number 5's head"),
    ("a 50 % sale", "a 50% sale"),
    ("$ 2.52 and € 3", "$2.52 and €3"),
    ("the $ sign", "the $ sign"),
    ("m & m 's", "m&m's"),
    ("bed & breakfast", "bed & breakfast"),
    ("plan a & others", "plan a & others"),
]

GERMAN = [
    ('ein " halt " -schild .', 'ein "halt"-schild.'),
    ("ein „ halt “ -schild", "ein „halt“-schild"),
    ("ein » halt « -schild", "ein »halt«-schild"),
    ("schutzhelm und -handschuhe", "schutzhelm und -handschuhe"),
    ('er ruft " -schild "', 'er ruft "-schild"'),
    ("obst- und gemüse", "obst- und gemüse"),
    ("zwei – ein mann und eine frau – gehen", "zwei – ein mann und eine frau – gehen"),
    ("joe ' s cafe", "joe's cafe"),
    ("eines wendy ' s-restaurants", "eines wendy's-restaurants"),
    ("von mcdonald ' s.", "von mcdonald's."),
    ("mickey maus ' nase", "mickey maus' nase"),
    ('auf dem steht : " it \' s a day " .', 'auf dem steht: "it\'s a day".'),
    ("rabatt von 50 % .", "rabatt von 50 %."),
    ("für 5 € .", "für 5 €."),
    ("freund / in , der / die", "freund/in, der/die"),
    ("texas-a &amp; m-spielerin", "texas-a&m-spielerin"),
    ("am 4. juli", "am 4. juli"),
]


@pytest.mark.parametrize(("text", "expected"), GENERAL + ESCAPES + ENTITIES + QUOTES)
@pytest.mark.parametrize("language", ["en", "fr"])
def test_general_rules(text, expected, language):
    assert detokenize(text, language) == expected


@pytest.mark.parametrize(("text", "expected"), GENERAL + ESCAPES + ENTITIES)
def test_general_rules_hold_in_german(text, expected):
    assert detokenize(text, "de") == expected


@pytest.mark.parametrize(("text", "expected"), ENGLISH)
def test_english(text, expected):
    assert detokenize(text, "en") == expected


def test_english_is_the_default():
    assert detokenize("the girl &apos;s 50 %") == "the girl's 50%"


@pytest.mark.parametrize(("text", "expected"), GERMAN)
def test_german(text, expected):
    assert detokenize(text, "de") == expected


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_nothing_stays_nothing(text):
    assert detokenize(text) == ""


def test_white_space_becomes_single_blanks():
    assert detokenize(" a  b\tc . \n") == "a b c."


def test_case_is_kept():
    assert detokenize("Tom 'S T-Shirt") == "Tom'S T-Shirt"


@pytest.mark.parametrize("language", ["en", "de"])
@pytest.mark.parametrize(
    "text",
    [
        'The girl\'s T-shirt says "Hello!" (in red).',
        "Two men, one woman; isn't it 11:27? The boys' dog's 'toy'.",
        "A&B, salt & pepper, #8, and/or, 'twas, rock 'n' roll: well-known...",
    ],
)
def test_plain_text_is_left_alone(text, language):
    assert detokenize(text, language) == text


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1)), st.sampled_from(["en", "de", "fr"]))
def test_words_alone_keep_their_blanks(words, language):
    assert detokenize(" ".join(words), language) == " ".join(words)


@given(st.lists(st.sampled_from(["a", "says", "5", *"\"'’“”„.,:;&()/%$#@-", "'s", "-b", "@-@", "amp"])), st.booleans())
def test_only_blanks_change(tokens, german):
    text = detokenize(" ".join(tokens), "de" if german else "en")
    assert text.replace(" ", "") == "".join(tokens).replace("@-@", "-")
    assert text == " ".join(text.split())
