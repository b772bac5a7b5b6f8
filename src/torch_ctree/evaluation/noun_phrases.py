"""Base noun phrases of English and German sentences, by a small rule and without a tagger: an approximation.

A phrase begins at a determiner, a possessive or a number, and goes on until a word that cannot be in it. Its words must
be two at least; phrases that begin with anything else are not found. What is wrong with it is in ``docs/data.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from torch_ctree.data.errors import DataError, shown
from torch_ctree.evaluation.brackets import Span
from torch_ctree.evaluation.word_lists import English, German

GoesOn = Callable[[Sequence[str], int, int], int]
"""The words, where a phrase begins, where it ends so far → where it ends then: the same where it ends there."""

_ENDING = re.compile(r"e[mnrs]?$")


def noun_phrases(words: Sequence[str], language: str) -> list[Span]:
    """Where the base noun phrases of a sentence begin and end, from left to right.

    words: with marks as words of their own, in any case; "&apos;s" and "'s" are words
    language: "en" or "de"

    >>> noun_phrases("a man in a bright red shirt rides his bike .".split(), "en")
    [(0, 2), (3, 7), (8, 10)]
    """
    if language not in RULES:
        raise DataError(f"language: got {shown(language)}; expected {' or '.join(map(repr, RULES))}")
    begins, goes_on = RULES[language]
    words = [word.lower() for word in words]
    found, at = [], 0
    while at < len(words):
        end = at
        if begins(words, at):
            end = at + 1
            while end < len(words) and (further := goes_on(words, at, end)) > end:
                end = further
            if end - at > 1:
                found.append((at, end))
        at = max(end, at + 1)
    return found


def _is_missing(word: str) -> bool:
    """Whether there is none, but a mark or the end."""
    return not any(map(str.isalnum, word)) or word in ("&quot;", "&amp;", "&apos;")


def _word(words: Sequence[str], at: int) -> str:
    """Nothing past both ends."""
    return words[at] if 0 <= at < len(words) else ""


# --- English ----------------------------------------------------------------------------------------------------------


def _begins_in_english(words: Sequence[str], at: int) -> bool:
    """A determiner or a number; "each other" and "one another" are pronouns."""
    pronouns = ("each other", "one another")
    if f"{words[at]} {_word(words, at + 1)}" in pronouns or f"{_word(words, at - 1)} {words[at]}" in pronouns:
        return False
    return words[at] in English.DETERMINERS or words[at].isdecimal()


def _goes_on_in_english(words: Sequence[str], start: int, end: int) -> int:
    word, before, after = words[end], words[end - 1], _word(words, end + 1)
    if word in English.POSSESSIVES:
        return end + 1 if end - start > 1 and not _ends_english(after) else end
    if _joins(words, start, end, English.CONJUNCTIONS, English.ADJECTIVES.__contains__):
        return end + 2
    if word in English.DETERMINERS:
        inside = before in English.BEFORE_DETERMINERS or (
            word in English.AFTER_DETERMINERS and before in English.DETERMINERS
        )
        return end + inside
    if _ends_english(word):
        return end
    if before in English.DETERMINERS | English.POSSESSIVES or _is_english_adjective(before):
        return end + _is_before_or_is_noun(word, before, after)
    return end + _is_after_noun(words[start], word, before, after)


def _ends_english(word: str) -> bool:
    """Whether a word cannot be in a phrase that has begun."""
    return _is_missing(word) or word in English.STOPS or word in English.DETERMINERS


def _is_english_adjective(word: str) -> bool:
    return word in English.ADJECTIVES or _is_participle(word)


def _is_participle(word: str) -> bool:
    """Or an adverb."""
    return len(word) > 4 and word.endswith(("ing", "ed", "ly")) and word not in English.NOUNS


def _is_before_or_is_noun(word: str, before: str, after: str) -> bool:
    """Of what follows a determiner or an adjective: a participle has to have a noun after it."""
    if before == "one" and _is_plural(word):
        return False  # one takes a picture
    if not _is_participle(word):
        return word not in English.STOPS_AFTER_NOUNS or not _ends_english(after)
    return not _ends_english(after) and before not in English.SEVERAL


def _is_after_noun(first: str, word: str, before: str, after: str) -> bool:
    """Of what follows a noun, perhaps: another noun, as in a tennis court."""
    if word in English.STOPS_AFTER_NOUNS or word in English.VERBS:
        return False
    if word.endswith("ing") and after in English.DETERMINERS:
        return False  # a man building a house
    if _is_participle(word):
        return word.endswith("ed") and not _ends_english(after)  # a snow covered hill
    return not _is_plural(word if first in English.ONE else before)  # a man unicycles; two men stand


def _is_plural(word: str) -> bool:
    looks_so = word.endswith("s") and not word.endswith(("ss", "us", "is", "'s")) and word not in English.SINGULARS
    return looks_so or word in English.PLURALS


# --- German -----------------------------------------------------------------------------------------------------------


def _begins_in_german(words: Sequence[str], at: int) -> bool:
    """A determiner that is no relative pronoun: after a comma, or a comma and a preposition, it may be one."""
    word = words[at]
    if word.isdecimal():
        return True
    is_relative = _word(words, at - 1) == "," or (
        _word(words, at - 1) in German.PREPOSITIONS - {"um"} and _word(words, at - 2) == ","
    )
    return word in German.DETERMINERS and not (word in German.ARTICLES and is_relative)


def _goes_on_in_german(words: Sequence[str], start: int, end: int) -> int:
    before, word, after = words[end - 1], words[end], _word(words, end + 1)
    is_adjective = _is_german_adjective(before) and not _is_junge(words, end - 1)
    if is_adjective and _joins(words, start, end, German.CONJUNCTIONS, _is_german_adjective):
        return end + 2
    is_open = end - start == 1 or is_adjective or before in German.MEASURES or before in German.BEFORE_ADJECTIVES
    if word in German.NUMBERS:
        return end + is_open
    if not is_open:  # before is a noun, or an adverb with its adjective: warmly dressed children
        return end + (_is_inflected_participle(word) and _is_in_german(word) and _is_in_german(after))
    if word in German.INTENSIFIERS - German.UNINFLECTED:
        return end + _is_in_german(after)
    return end + _is_in_german(word)


def _is_junge(words: Sequence[str], at: int) -> bool:
    """Whether an ending shows a noun where an adjective would have another: ein Junge, but ein junger Hund."""
    before = _word(words, at - 1)
    return words[at].endswith("e") and (
        before in German.BEFORE_STRONG or (before.endswith("er") and _is_german_adjective(before))
    )


def _is_in_german(word: str) -> bool:
    """Whether a word may be in a phrase that has begun."""
    return not _is_missing(word) and word not in German.STOPS | German.VERBS | German.DETERMINERS


def _is_german_adjective(word: str) -> bool:
    """By its ending."""
    if word in German.UNINFLECTED or word.endswith("-"):
        return True
    stem = _stem(word)
    return stem is not None and (
        stem in German.ADJECTIVES
        or (stem.endswith(German.ADJECTIVES_END) and not stem.endswith("schaft"))
        or _is_inflected_participle(word)
    )


def _is_inflected_participle(word: str) -> bool:
    stem = _stem(word)
    return stem is not None and any(re.fullmatch(participle, stem) for participle in German.PARTICIPLES)


def _stem(word: str) -> str | None:
    """Of what may be an adjective with an ending."""
    ending = _ENDING.search(word)
    return None if ending is None or word in German.NOUNS else word[: ending.start()]


# --- both -------------------------------------------------------------------------------------------------------------


def _joins(
    words: Sequence[str], start: int, end: int, conjunctions: frozenset[str], is_adjective: Callable[[str], bool]
) -> bool:
    """Whether a conjunction stands between two adjectives, before a noun: a blue and white shirt."""
    return (
        words[end] in conjunctions
        and end - start > 1
        and is_adjective(words[end - 1])
        and is_adjective(_word(words, end + 1))
    )


RULES: Mapping[str, tuple[Callable[[Sequence[str], int], bool], GoesOn]] = {
    "en": (_begins_in_english, _goes_on_in_english),
    "de": (_begins_in_german, _goes_on_in_german),
}
"""By language: what begins a phrase, and how far it goes on."""
