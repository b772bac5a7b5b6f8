"""Tokenised text back into plain text: which blanks between words and marks go, and which stay.

Tokenising loses where the blanks were, and which quotation mark was an opening one. The tables here say what is usual;
what a writer did against the usual does not come back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Flag

ESCAPES = {"quot": '"', "apos": "'", "amp": "&", "lt": "<", "gt": ">", "#124": "|", "#91": "[", "#93": "]"}
APOSTROPHES = frozenset("'’")
QUOTES = frozenset("\"'“”‘’«»‹›")
CLITICS = frozenset(("s", "t", "m", "d", "re", "ve", "ll"))
"""What is left of a word after an apostrophe: it's, can't, I'm."""
PREFIXES = frozenset(("o", "d", "l"))
"""What stands before an apostrophe in names and loans: O'Hara, d'oeuvres."""
ELISIONS = frozenset(("em", "til", "tis", "twas", "cause"))
"""Words that begin with an apostrophe of their own."""

_ESCAPE = re.compile(f"&({'|'.join(ESCAPES)});")
_JOINED = re.compile(r"@(\W)@")
_SUFFIX = re.compile(r"-\w.*")
_INITIAL_BEFORE = re.compile(r"(.*\W)?[^\W\d]")
_INITIAL_AFTER = re.compile(r"[^\W\d](\W.*)?")


class Join(Flag):
    """On which sides a token is written without a blank."""

    NONE = 0
    LEFT = 1
    RIGHT = 2
    BOTH = LEFT | RIGHT


@dataclass(frozen=True)
class Rules:
    """Where the marks of a language stand."""

    opening: frozenset[str]
    """Written together with what follows."""
    closing: frozenset[str]
    """Written together with what stands before."""
    before_number: frozenset[str]
    """Written together with a number that follows."""
    between: frozenset[str] = frozenset("/_")
    """Written together with both."""


GENERAL = Rules(
    opening=frozenset("([{¿¡#@“‘„‚«‹"),
    closing=frozenset((*")]},.;:!?…%”»›", "..", "...")),
    before_number=frozenset("$£€¥"),
)
RULES = {
    "de": Rules(
        opening=frozenset("([{#@„‚»›"),
        closing=frozenset((*")]},.;:!?…“”‘«‹", "..", "...")),
        before_number=frozenset(),
    )
}
"""Where a language differs from the general rules, which are those of English."""


def detokenize(text: str, language: str = "en") -> str:
    """Plain text from tokenised text.

    Marks close up to the words they belong to, quotation marks open and close by turns, escapes such as ``&quot;``
    become the characters they stand for, and ``@-@`` a hyphen. Upper and lower case stay as they are: where tokenising
    lower-cased the text, its capitals are lost. One blank is left between words, and none at the ends.

    text: words and marks with blanks between them.
    language: ``"en"``, ``"de"``, or any other, which gets the same rules as English.

    >>> print(detokenize("the girl &apos;s t @-@ shirt says &quot; hello ! &quot; ( in red ) ."))
    the girl's t-shirt says "hello!" (in red).
    """
    line = _Line(_whole_entities([unescape(token) for token in text.split()]), RULES.get(language, GENERAL))
    result, before = [], Join.RIGHT
    for at, token in enumerate(line.tokens):
        join = line.join(at)
        blank = "" if Join.RIGHT in before or Join.LEFT in join else " "
        result.append(blank + _JOINED.sub(r"\1", token))
        before = join
    return "".join(result)


def unescape(token: str) -> str:
    """``&quot;`` → ``"``, and so on."""
    return _ESCAPE.sub(lambda escape: ESCAPES[escape[1]], token)


def _whole_entities(tokens: list[str]) -> list[str]:
    """An entity such as ``&amp;`` that the plain text had, and tokenising took apart, put together again."""
    result: list[str] = []
    for token in tokens:
        if token == ";" and result[-2:-1] == ["&"] and result[-1] in ESCAPES:
            result[-2:] = [f"&{result[-1]};"]
        else:
            result.append(token)
    return result


@dataclass
class _Line:
    """The tokens of a text, asked from left to right how they are joined."""

    tokens: list[str]
    rules: Rules
    open_quotes: set[str] = field(default_factory=set)

    def around(self, at: int) -> tuple[str, str]:
        """The tokens before and after; nothing at the ends."""
        return "".join(self.tokens[max(0, at - 1) : at]), "".join(self.tokens[at + 1 : at + 2])

    def join(self, at: int) -> Join:
        """Where one token is joined."""
        token, (before, after) = self.tokens[at], self.around(at)
        if token == '"':
            return self.quote(at)
        if token in APOSTROPHES:
            return self.apostrophe(at)
        if token in self.rules.between or _JOINED.fullmatch(token) or _is_between(before, token, after):
            return Join.BOTH
        if token in self.rules.opening or (token in self.rules.before_number and after[:1].isdigit()):
            return Join.RIGHT
        if (
            token in self.rules.closing
            or _is_ending(before, token)
            or (self.has_closed(before) and _SUFFIX.fullmatch(token))
        ):
            return Join.LEFT
        return Join.NONE

    def has_closed(self, before: str) -> bool:
        """Whether the token before ended a quotation; a suffix may follow it, as in "stop"-sign."""
        return before in QUOTES - self.rules.opening and before not in self.open_quotes

    def quote(self, at: int) -> Join:
        """Opening and closing by turns; the last token can only close."""
        mark = self.tokens[at]
        if mark in self.open_quotes or at + 1 == len(self.tokens):
            self.open_quotes.discard(mark)
            return Join.LEFT
        self.open_quotes.add(mark)
        return Join.RIGHT

    def apostrophe(self, at: int) -> Join:
        """An apostrophe by itself: within a word, a quotation mark, or at the end or the start of a word."""
        before, after = self.around(at)
        if before[-1:].isalnum() and (
            _first_word(after) in CLITICS or (before.lower() in PREFIXES and after.isalpha())
        ):
            return Join.BOTH
        if self.tokens[at] == "'" and ("'" in self.open_quotes or self.opens(at)):
            return self.quote(at)
        return Join.RIGHT if not before or after.lower() in ELISIONS else Join.LEFT

    def opens(self, at: int) -> bool:
        """Whether an apostrophe opens a quotation: another must close it, and they are not as in boys' and girls'."""
        if "'" not in self.tokens[at + 2 :]:
            return False
        end = self.tokens.index("'", at + 2)
        return not (_is_plural(self.around(at)[0]) and _is_plural(self.tokens[end - 1]))


def _is_between(before: str, token: str, after: str) -> bool:
    """The colon of 11:27, and the sign of A&B."""
    if token == ":":
        return before[-1:].isdigit() and after[:1].isdigit()
    return token in {"&", "&amp;"} and bool(_INITIAL_BEFORE.fullmatch(before) and _INITIAL_AFTER.fullmatch(after))


def _is_ending(before: str, token: str) -> bool:
    """The rest of a word, with its apostrophe: 's, 'll, n't, and the second half of ma'am."""
    word = token.lower().replace("’", "'")
    if word == "n't" or (word[0] == "'" and word[1:] in CLITICS):
        return True
    return before[-1:].isalnum() and word[0] == "'" and word[1:].isalpha() and word[1:] not in ELISIONS


def _first_word(token: str) -> str:
    return re.split(r"\W", token.lower())[0]


def _is_plural(token: str) -> bool:
    return token.endswith("s") and token[0] not in APOSTROPHES
