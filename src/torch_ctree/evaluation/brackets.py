"""How much two trees of a sentence agree: unlabelled brackets, and the simple trees that any parser is measured by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from torch_ctree.data.errors import DataError, count, shown
from torch_ctree.data.vocabulary import several

if TYPE_CHECKING:
    from nltk import Tree

Span = tuple[int, int]
"""The first word of a constituent, from 0, and the first one past it."""

LABEL = "·"
SHORTEST = 3  # words: the brackets of two go around one word or around all
_NOTHING = object()


@dataclass(frozen=True)
class TreeF1:
    """How much the trees found agree with the gold ones."""

    sentence_f1: float
    """The mean over sentences, each with the same weight."""
    corpus_f1: float
    """Over the brackets of all sentences together, so that long sentences weigh more."""
    precision: float
    """Of all brackets found, the share that gold trees have."""
    recall: float
    """Of all gold brackets, the share that was found."""
    sentences: int
    """How many sentences were counted."""
    left_out: int
    """How many have fewer than three words, and so but one tree."""


def spans(tree: Tree) -> set[Span]:
    """Where the constituents of a tree begin and end.

    Without those of one word and of the whole sentence: every tree has them, so that they tell nothing.

    >>> from nltk import Tree
    >>> sorted(spans(Tree.fromstring("(S (NP the (N old cat)) (VP sleeps))")))
    [(0, 3), (1, 3)]
    """
    words, found = _read(tree)
    return _telling(found, len(words))


def tree_f1(pairs: Iterable[tuple[Tree, Tree]]) -> TreeF1:
    """Compare trees with gold trees of the same sentences, as sets of ``spans``; labels do not matter.

    Two trees without such spans agree.

    pairs: of a tree found and its gold tree, with the same words.
    """
    matches, left_out = [], 0
    for n, (found, gold) in enumerate(pairs):
        (words, found_spans), (gold_words, gold_spans) = _read(found), _read(gold)
        _check_same_words(words, gold_words, n)
        if len(words) < SHORTEST:
            left_out += 1
            continue
        matches.append(_Match.of(_telling(found_spans, len(words)), _telling(gold_spans, len(words))))
    if not matches:
        what = f"{count(left_out, 'pair')} with fewer than {SHORTEST} words" if left_out else "none"
        raise DataError(f"pairs: got {what}; expected one or more with {SHORTEST} words at least")
    total = _Match(*(sum(numbers) for numbers in zip(*matches, strict=True)))
    return TreeF1(
        sentence_f1=sum(match.f1 for match in matches) / len(matches),
        corpus_f1=total.f1,
        precision=total.precision,
        recall=total.recall,
        sentences=len(matches),
        left_out=left_out,
    )


def right_branching(words: Sequence[str]) -> Tree:
    """The tree where every constituent is a word and the rest of the sentence.

    >>> print(right_branching(["the", "old", "cat"]))
    (· the (· old cat))
    """
    *rest, last = _some(words)
    tree = last
    for word in reversed(rest):
        tree = _node(word, tree)
    return _node(tree) if isinstance(tree, str) else tree


def left_branching(words: Sequence[str]) -> Tree:
    """The tree where every constituent is a beginning of the sentence and a word.

    >>> print(left_branching(["the", "old", "cat"]))
    (· (· the old) cat)
    """
    tree, *rest = _some(words)
    for word in rest:
        tree = _node(tree, word)
    return _node(tree) if isinstance(tree, str) else tree


def balanced(words: Sequence[str]) -> Tree:
    """The tree where every constituent is cut in the middle; of an odd number, the left half gets one word more.

    >>> print(balanced(["the", "old", "cat", "sleeps", "now"]))
    (· (· (· the old) cat) (· sleeps now))
    """

    def build(part: Sequence[str]) -> Tree | str:
        middle = (len(part) + 1) // 2
        return part[0] if len(part) == 1 else _node(build(part[:middle]), build(part[middle:]))

    tree = build(_some(words))
    return _node(tree) if isinstance(tree, str) else tree


class _Match(NamedTuple):
    """How many spans two trees share, and how many each has."""

    both: int
    found: int
    gold: int

    @classmethod
    def of(cls, found: set[Span], gold: set[Span]) -> _Match:
        return cls(len(found & gold), len(found), len(gold))

    @property
    def f1(self) -> float:
        return _share(2 * self.both, self.found + self.gold, nothing=1.0)

    @property
    def precision(self) -> float:
        return _share(self.both, self.found, nothing=float(not self.gold))

    @property
    def recall(self) -> float:
        return _share(self.both, self.gold, nothing=float(not self.found))


def _share(part: int, of: int, nothing: float) -> float:
    return part / of if of else nothing


def _read(tree: Tree) -> tuple[list[Any], set[Span]]:
    """The words of a tree, and the spans of all its nodes."""
    import nltk  # noqa: PLC0415  (slow to import, and only needed here)

    words, found = [], set()
    ahead: list[tuple[Any, int | None]] = [(tree, None)]  # no recursion: a tree may be as deep as it has words
    while ahead:
        part, start = ahead.pop()
        if start is not None:  # back at a node whose words have all been read
            found.add((start, len(words)))
        elif isinstance(part, nltk.Tree):
            ahead.append((part, len(words)))
            ahead += ((child, None) for child in reversed(part))
        else:
            words.append(part)
    return words, found


def _telling(found: set[Span], length: int) -> set[Span]:
    """The spans of two words or more, but not of all."""
    return {(start, end) for start, end in found if 1 < end - start < length}


def _check_same_words(found: list[Any], gold: list[Any], n: int) -> None:
    if found == gold:
        return
    both = enumerate(zip_longest(found, gold, fillvalue=_NOTHING), 1)
    at, words = next((at, words) for at, words in both if words[0] != words[1])
    a, b = ("no word" if word is _NOTHING else shown(word) for word in words)
    raise DataError(f"pairs[{n}]: word {at} is {a} in the tree found and {b} in the gold tree; expected the same words")


def _some(words: Sequence[str]) -> Sequence[str]:
    """Words, as they are; no tree has none."""
    if not several(words, "words"):
        raise DataError("words: got none; expected one or more")
    return words


def _node(*parts: Tree | str) -> Tree:
    import nltk  # noqa: PLC0415  (slow to import, and only needed here)

    return nltk.Tree(LABEL, parts)
