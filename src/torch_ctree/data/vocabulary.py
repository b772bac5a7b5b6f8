"""Words and their numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import TypeVar, overload

from torch_ctree.data.disk import read_json, write
from torch_ctree.data.errors import DataError, shown

UNKNOWN = "<unk>"
KIND = "words"
"""What a file says of itself, so that it is not taken for another."""


T = TypeVar("T", bound=Iterable[str])


def several(texts: T, name: str) -> T:
    """Texts, as they are; a single string, which is letters one after the other, is a mistake."""
    if isinstance(texts, str):
        raise DataError(f"{name}: got the string {shown(texts)}; expected several strings, such as a list")
    return texts


def known(token: int, size: int) -> int:
    """A token that a vocabulary of this size has; −1, which fills up in many places, is none."""
    if not 0 <= token < size:
        raise IndexError(f"token {token}: expected 0 to {size - 1}")
    return token


class Vocabulary(Sequence[str]):
    """The words of one side, numbered from 0. Text is cut at white space.

    There is no number for padding: a ``Batch`` has lengths and masks.

    words: each once
    unknown: the word that stands for all others, one of words; by default any other word is an error. A word is never
        just dropped.

    >>> vocabulary = Vocabulary(["jump", "walk", "twice"])
    >>> vocabulary.encode("walk twice"), vocabulary.decode([0, 2])
    ([1, 2], 'jump twice')
    """

    def __init__(self, words: Sequence[str], unknown: str | None = None) -> None:
        self.words = tuple(several(words, "words"))
        self.unknown = unknown
        for word in self.words:
            if not isinstance(word, str) or word.split() != [word]:
                raise DataError(f"words: got {shown(word)}; expected words, text without white space")
        self._numbers = {word: n for n, word in enumerate(self.words)}
        if len(self._numbers) != len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise DataError(f"words: {twice!r} comes twice; expected every word once")
        if unknown is not None and unknown not in self._numbers:
            raise DataError(f"unknown: {unknown!r} is not among the words; expected one of them")

    @classmethod
    def build(cls, texts: Iterable[str], min_count: int = 1, unknown: str | None = None) -> Vocabulary:
        """The words of these texts, the most frequent first.

        min_count: words that come less often are left out, and then ``unknown`` must stand for them
        unknown: the word that stands for all others, such as ``"<unk>"``; it is added where it is not there
        """
        counts: Counter[str] = Counter()
        remaining = iter(several(texts, "texts"))
        while some := list(islice(remaining, 1000)):  # counting many at once is faster
            counts.update(" ".join(some).split())
        words = [
            word for word, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count >= min_count
        ]
        if len(words) < len(counts) and unknown is None:
            raise DataError(
                f"min_count: {min_count} leaves {len(counts) - len(words):,} of {len(counts):,} words out; "
                f"expected 1, or unknown={UNKNOWN!r} to stand for them"
            )
        if unknown is not None and unknown not in words:
            words.insert(0, unknown)
        return cls(words, unknown)

    def encode(self, text: str) -> list[int]:
        """Text → the numbers of its words."""
        words = text.split()
        if not words:
            raise DataError(f"{shown(text)} has no word in it")
        if self.unknown is not None:
            other = self._numbers[self.unknown]
            return [self._numbers.get(word, other) for word in words]
        try:
            return [self._numbers[word] for word in words]
        except KeyError as error:
            raise DataError(self._stranger(error.args[0], text)) from None

    def _stranger(self, word: str, text: str) -> str:
        near = get_close_matches(word, self.words, n=1)
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"known are {', '.join(self.words[:8])}{', …' if len(self) > 8 else ''}"
        )
        return f"{shown(text)}: {shown(word)} is not in the vocabulary of {len(self):,} words; {hint}"

    def decode(self, tokens: Iterable[int]) -> str:
        """Numbers → text."""
        return " ".join(self.words[known(token, len(self))] for token in tokens)

    @property
    def spellings(self) -> list[str | None]:
        """Every word; None in place of that which stands for others."""
        return [None if word == self.unknown else word for word in self.words]

    def __len__(self) -> int:
        """How many words."""
        return len(self.words)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        """The word with a number."""
        return self.words[index]

    def __contains__(self, word: object) -> bool:
        """Whether a word has a number of its own."""
        return word in self._numbers

    def __eq__(self, other: object) -> bool:
        """The same words with the same numbers, and the same rule for others."""
        return isinstance(other, Vocabulary) and (self.words, self.unknown) == (other.words, other.unknown)

    def __hash__(self) -> int:
        """By the words."""
        return hash((self.words, self.unknown))

    def __repr__(self) -> str:
        """The size and the rule."""
        rule = "others are an error" if self.unknown is None else f"others become {self.unknown!r}"
        return f"<Vocabulary of {len(self):,} words; {rule}>"

    def save(self, path: str | Path) -> None:
        """Write one JSON file, whole or not at all."""
        write(
            Path(path),
            json.dumps({"kind": KIND, "unknown": self.unknown, "words": self.words}, ensure_ascii=False, indent=0),
        )

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read what ``save`` wrote."""
        content = read_json(Path(path))
        if not isinstance(content, dict) or content.get("kind") != KIND:
            raise DataError(f"{path}: not a vocabulary of words; expected a file that Vocabulary.save wrote")
        try:
            return cls(list(content["words"]), content["unknown"])
        except (KeyError, TypeError, DataError) as error:
            raise DataError(f"{path}: a damaged vocabulary ({error}); save it again") from error
