"""Pieces of words and their numbers: byte-pair encoding, learnt from text.

The alphabet is the 256 bytes of UTF-8, so that every text can be spelled, whatever the characters in it, and comes back
exactly as it was. A word begins with the blank before it; the first word of a text is given one, and loses it again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from torch_ctree.data.disk import read_json, write
from torch_ctree.data.errors import DataError, shown
from torch_ctree.data.vocabulary import known, several

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BYTES = 256
BLANK = "▁"
PARALLELISM = "TOKENIZERS_PARALLELISM"


class Subwords(Sequence[str]):
    """A vocabulary of pieces of words, numbered from 0. It is used like ``Vocabulary``, and has no unknown words.

    tokenizer: as ``train`` and ``load`` make it

    >>> subwords = Subwords.train(["low lower lowest"] * 9, size=260)
    >>> [subwords[token] for token in subwords.encode("low löwe")]
    ['▁low', '▁', 'l', '\\\\xc3', '\\\\xb6', 'w', 'e']
    >>> subwords.decode(subwords.encode("low löwe"))
    'low löwe'
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        values = _byte_values()
        tokens = sorted((number, token) for token, number in tokenizer.get_vocab().items())
        self._bytes = [bytes(values[character] for character in token) for _, token in tokens]

    @classmethod
    def train(cls, texts: Iterable[str], size: int = 8000, *, lowercase: bool = False) -> Subwords:
        """The pieces that come most often in these texts; the same for the same texts.

        texts: what to learn from, and nothing else: the training set alone
        size: how many pieces, 256 of which are the bytes; fewer are found where no further one comes twice
        lowercase: whether every text, in training and later, is lower-cased; ``decode`` then gives lower case back
        """
        from tokenizers.pre_tokenizers import ByteLevel  # noqa: PLC0415  (importing data stays light)
        from tokenizers.trainers import BpeTrainer  # noqa: PLC0415

        if size < BYTES:
            raise DataError(f"size: got {size}; expected {BYTES} or more, one for each byte that text is made of")
        tokenizer = _untrained(lowercase)
        trainer = BpeTrainer(
            vocab_size=size,
            min_frequency=2,
            initial_alphabet=ByteLevel.alphabet(),
            show_progress=False,  # it writes empty lines to the standard output
        )
        with _one_thread():
            tokenizer.train_from_iterator(several(texts, "texts"), trainer)
        return cls(tokenizer)

    def encode(self, text: str) -> list[int]:
        """Text → the numbers of its pieces."""
        tokens = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not tokens:
            raise DataError(f"{shown(text)} has no word in it")
        return tokens

    def decode(self, tokens: Iterable[int]) -> str:
        """Numbers → text; bytes that are no UTF-8, which ``encode`` never gives, become "�"."""
        pieces = (self._bytes[known(token, len(self))] for token in tokens)
        return b"".join(pieces).decode(errors="replace").removeprefix(" ")

    @property
    def spellings(self) -> list[bytes]:
        """Every piece, as it is in a text."""
        return list(self._bytes)

    def __len__(self) -> int:
        """How many pieces."""
        return len(self._bytes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        r"""The piece with a number, to be read: ``▁`` is a blank, ``\xc3`` a byte that is half a character."""
        if isinstance(index, slice):
            return [_readable(piece) for piece in self._bytes[index]]
        return _readable(self._bytes[index])

    def __eq__(self, other: object) -> bool:
        """Whether both cut every text into the same pieces with the same numbers."""
        return isinstance(other, Subwords) and self._content() == other._content()

    def __hash__(self) -> int:
        """By the pieces."""
        return hash(tuple(self._bytes))

    def __repr__(self) -> str:
        """The size."""
        return f"<Subwords: {len(self):,} pieces>"

    def save(self, path: str | Path) -> None:
        """Write one JSON file in the format of ``tokenizers``, whole or not at all."""
        write(Path(path), self._content())

    @classmethod
    def load(cls, path: str | Path) -> Subwords:
        """Read what ``save`` wrote."""
        from tokenizers import Tokenizer  # noqa: PLC0415

        content = read_json(Path(path))
        try:
            tokenizer = Tokenizer.from_str(json.dumps(content))
        except Exception as error:  # the library knows no narrower one
            raise DataError(
                f"{path}: not a file of subwords ({error}); expected one that Subwords.save wrote"
            ) from error
        if not _is_ours(tokenizer):
            raise DataError(f"{path}: a tokenizer of another kind; expected a file that Subwords.save wrote")
        return cls(tokenizer)

    def _content(self) -> str:
        return self._tokenizer.to_str()


def _untrained(lowercase: bool) -> Tokenizer:
    """How text is cut, but for the pieces themselves."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: PLC0415

    tokenizer: Any = Tokenizer(models.BPE())  # its attributes are declared read-only
    cases = [normalizers.Lowercase()] if lowercase else []
    tokenizer.normalizer = normalizers.Sequence([*cases, normalizers.Prepend(" ")])
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def _is_ours(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer cuts text as ``train`` has it, and numbers all bytes and its pieces from 0 on."""
    vocabulary = tokenizer.get_vocab()
    return (
        _shell(tokenizer) in [_shell(_untrained(lowercase)) for lowercase in (False, True)]
        and sorted(vocabulary.values()) == list(range(len(vocabulary)))
        and vocabulary.keys() >= _byte_values().keys() >= set().union(*vocabulary)
    )


def _shell(tokenizer: Tokenizer) -> dict[str, Any]:
    """Everything about a tokenizer but its pieces."""
    content = json.loads(tokenizer.to_str())
    return content | {"model": {k: v for k, v in content["model"].items() if k not in {"vocab", "merges"}}}


def _byte_values() -> dict[str, int]:
    """The character that stands for each byte in ``tokenizers``: itself where it can be printed, or one past 255."""
    from tokenizers.pre_tokenizers import ByteLevel  # noqa: PLC0415

    alphabet = sorted(ByteLevel.alphabet())
    values = {character: ord(character) for character in alphabet if ord(character) < BYTES}
    others = [byte for byte in range(BYTES) if chr(byte) not in values]
    return values | dict(zip(alphabet[len(values) :], others, strict=True))


def _readable(piece: bytes) -> str:
    text = piece.decode(errors="backslashreplace").replace(" ", BLANK)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Work without threads, unless the user has said otherwise: a process that has them must not be forked."""
    if PARALLELISM in os.environ:
        yield
        return
    os.environ[PARALLELISM] = "false"
    try:
        yield
    finally:
        del os.environ[PARALLELISM]
