import math
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import DataError
from torch_ctree.evaluation import bleu
from torch_ctree.evaluation.translation import NGRAMS, bleu_counts, bleu_of


def from_scratch(outputs: list[str], references: list[str]) -> float:
    """BLEU as in Papineni et al. (2002), without smoothing, of text cut at blanks."""
    pairs = [(output.split(), reference.split()) for output, reference in zip(outputs, references, strict=True)]
    log_precisions = []
    for n in (1, 2, 3, 4):
        clipped = total = 0
        for output, reference in pairs:
            mine, other = (Counter(zip(*(words[k:] for k in range(n)), strict=False)) for words in (output, reference))
            clipped += sum(min(times, other[gram]) for gram, times in mine.items())
            total += sum(mine.values())
        if not clipped:
            return math.nan  # smoothing would set in
        log_precisions.append(math.log(clipped / total))
    c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * math.exp(sum(log_precisions) / 4 + min(0.0, 1 - r / c))


OUTPUTS = [
    "a man in a blue shirt is standing on a ladder .",
    "the the the the old cat sleeps on the mat",
    "two dogs run .",
]
REFERENCES = [
    "a man in a blue shirt stands on a ladder cleaning a window .",
    "the old cat sleeps on the mat today and tomorrow",
    "two young dogs run through the snow .",
]


def test_against_the_formula():
    assert bleu(OUTPUTS, REFERENCES, tokenised=True).score == pytest.approx(from_scratch(OUTPUTS, REFERENCES))
    # The other way round the outputs are longer, and there is no brevity penalty.
    assert bleu(REFERENCES, OUTPUTS, tokenised=True).score == pytest.approx(from_scratch(REFERENCES, OUTPUTS))


words = st.lists(st.sampled_from("ab"), min_size=4, max_size=12).map(" ".join)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=5))
def test_of_any_text(pairs):
    outputs, references = (list(side) for side in zip(*pairs, strict=True))
    expected = from_scratch(outputs, references)
    score = bleu(outputs, references, tokenised=True).score
    assert score == pytest.approx(expected) if not math.isnan(expected) else 0 <= score < 100


def test_perfect_and_hopeless():
    assert bleu(REFERENCES, REFERENCES, tokenised=True).score == pytest.approx(100)
    assert bleu(REFERENCES, REFERENCES, tokenised=False).score == pytest.approx(100)
    assert bleu(["x"] * 3, REFERENCES, tokenised=True).score == 0
    assert bleu([""] * 3, REFERENCES, tokenised=True).score == 0


def test_four_words_are_needed():
    assert bleu(["a b c"], ["a b c"], tokenised=True).score == 0
    assert bleu(["a b c", "a b c d"], ["a b c", "a b c d"], tokenised=True).score == pytest.approx(100)


def test_case_counts():
    assert bleu(["the old cat sleeps now"], ["The old cat sleeps now"], tokenised=True).score < 100


def test_plain_text_is_cut_and_tokenised_text_is_not():
    plain, tokenised = "the old cat sleeps, doesn't it?", "the old cat sleeps , doesn't it ?"
    other, other_tokenised = "the old cat sleeps, or so.", "the old cat sleeps , or so ."
    assert bleu([plain], [other], tokenised=False).score == pytest.approx(from_scratch([tokenised], [other_tokenised]))
    assert bleu([plain], [other], tokenised=True).score != bleu([plain], [other], tokenised=False).score
    assert bleu([plain], [tokenised], tokenised=False).score == pytest.approx(100)


def test_the_amount_of_white_space_does_not_matter():
    assert bleu([" a  b\tc d "], ["a b c d"], tokenised=True).score == pytest.approx(100)


@pytest.mark.parametrize(("tokenised", "cut"), [(True, "none"), (False, "13a")])
def test_the_signature_says_how(tokenised, cut):
    signature = bleu(OUTPUTS, REFERENCES, tokenised).signature
    assert dict(part.split(":") for part in signature.split("|")) == {
        "nrefs": "1",
        "case": "mixed",
        "eff": "no",
        "tok": cut,
        "smooth": "exp",
        "version": sys.modules["sacrebleu"].__version__,
    }


@pytest.mark.parametrize("tokenised", [True, False])
def test_full_stops_that_stand_apart_are_no_warning(tokenised, caplog, capfd):
    bleu(["a b c d ."] * 200, ["a b c d ."] * 200, tokenised)
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


def test_other_numbers_of_texts():
    with pytest.raises(DataError, match=r"^outputs: got 2; expected 3 texts, one for each reference$"):
        bleu(OUTPUTS[:2], REFERENCES, tokenised=True)
    with pytest.raises(DataError, match=r"^outputs: got 3; expected 1 text, one for each reference$"):
        bleu(OUTPUTS, REFERENCES[:1], tokenised=True)
    with pytest.raises(DataError, match=r"^outputs: got none; expected one or more$"):
        bleu([], [], tokenised=True)
    with pytest.raises(DataError, match=r"^outputs: got the string 'a b'; expected several strings"):
        bleu("a b", ["a", "b", "c"], tokenised=True)


def test_nothing_slow_is_imported_before_it_is_needed():
    code = "import sys, torch_ctree.evaluation; print({'nltk', 'sacrebleu'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"


@given(st.lists(st.tuples(*[st.text("ab. ", max_size=12)] * 2), min_size=1, max_size=6), st.booleans())
def test_sums_of_counts_are_as_good_as_the_texts(pairs, tokenised):
    counts = [bleu_counts(output, reference, tokenised) for output, reference in pairs]
    together = [sum(column) for column in zip(*counts, strict=True)]
    assert len(together) == NGRAMS
    outputs, references = ([pair[side] for pair in pairs] for side in (0, 1))
    assert bleu_of(together) == pytest.approx(bleu(outputs, references, tokenised).score)
