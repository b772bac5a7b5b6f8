"""Capitals for text that has lost them: how a word was usually written, after the word that stands before it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch_ctree.data.detokenizing import detokenize, unescape

ENDS = frozenset(".!?")
"""After these, a sentence begins."""
LONGEST_ENDING, SHORTEST_ENDING = 8, 2
"""Of words that were never seen, so many letters at their end tell whether they have a capital."""
GAP = 6
"""So many letters of the plain text may stand between two tokens: they were cut in another way."""
Counts = defaultdict[str, Counter[str]]


class Recaser:
    """Learns from texts in both forms.

    plain: texts as they were written
    tokenised: the same texts in lower case, with blanks between all tokens

    >>> recaser = Recaser(["The dog sleeps. A dog sees New York.", "In New York"],
    ...                   ["the dog sleeps . a dog sees new york .", "in new york"])
    >>> recaser("new york sees the dog . sleeps new york")
    'New York sees the dog . Sleeps New York'
    """

    def __init__(self, plain: Iterable[str], tokenised: Iterable[str]) -> None:
        self.words: Counts = defaultdict(Counter)
        """How a word is written within sentences, and after which word."""
        self.endings: Counts = defaultdict(Counter)
        """How the first letter is written of words that end so."""
        for text, tokens in zip(plain, tokenised, strict=True):
            self._learn(text, tokens.split())
        for word in [word for word in self.words if " " not in word]:
            first = _usual(self.words[word])[0]
            for ending in _endings(word):
                self.endings[ending]["upper" if first.isupper() else "lower"] += 1

    def _learn(self, text: str, tokens: list[str]) -> None:
        before, begins = "", True
        for token, form in zip(tokens, _aligned(text, tokens), strict=True):
            if form is not None and not begins:  # where a sentence begins, everything has a capital
                self.words[token][form] += 1
                self.words[f"{before} {token}"][form] += 1
            before, begins = token, _begins_after(token, begins)

    def __call__(self, text: str) -> str:
        """Tokens in lower case, with blanks between → the same with capitals."""
        found, before, begins = [], "", True
        for token in text.split():
            form = self._form(before, token)
            found.append(form[0].upper() + form[1:] if begins else form)
            before, begins = token, _begins_after(token, begins)
        return " ".join(found)

    def _form(self, before: str, token: str) -> str:
        """As after the word before, else as anywhere, else as words that end alike."""
        for known in (f"{before} {token}", token):
            if known in self.words:
                return _usual(self.words[known])
        ending = next((ending for ending in _endings(token) if ending in self.endings), None)
        has_capital = ending is not None and _usual(self.endings[ending]) == "upper"
        return token[0].upper() + token[1:] if has_capital else token


@dataclass(frozen=True, eq=False)
class Written:
    """The targets of a task as they were written, and what makes tokenised text in lower case look like them."""

    targets: Mapping[str, Sequence[str]]
    """Set → its targets, in their order."""
    recaser: Recaser
    language: str

    def plain(self, text: str) -> str:
        """Tokens in lower case, with blanks between → text with capitals, and without these blanks."""
        return detokenize(self.recaser(text), self.language)


def _aligned(text: str, tokens: list[str]) -> Iterator[str | None]:
    """For each token how the text has it, where it is found."""
    lower, at = "".join(letter.lower() if len(letter.lower()) == 1 else letter for letter in text), 0
    for token in map(unescape, tokens):
        place = lower.find(token, at)
        if not 0 <= place - at <= GAP:
            yield None
            continue
        at = place + len(token)
        yield text[place:at]


def _begins_after(token: str, begins: bool) -> bool:
    """Whether the next token begins a sentence."""
    return token in ENDS or (begins and not any(letter.isalnum() for letter in token))


def _endings(word: str) -> Iterator[str]:
    """Longest first."""
    if word.isalpha():
        yield from (word[-size:] for size in range(min(len(word), LONGEST_ENDING), SHORTEST_ENDING - 1, -1))


def _usual(forms: Counter[str]) -> str:
    """What comes most often; of equals, what was seen first."""
    return max(forms, key=forms.__getitem__)
