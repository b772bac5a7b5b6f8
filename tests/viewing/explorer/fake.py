"""What looks like a trained model to the page, and is a few rules."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_ctree.data import DataError, Vocabulary
from torch_ctree.evaluation.predictions import Prediction
from torch_ctree.trees.vertex import Vertex

TIMES = {"twice": 2, "thrice": 3}
SOURCE = Vocabulary(["jump", "walk", "run", "look", "twice", "thrice", "and", "<b>"])
TARGET = Vocabulary(["JUMP", "WALK", "RUN", "LOOK", "<B>"])


@dataclass(frozen=True)
class Explained:
    source: tuple[str, ...]
    text: str
    log_prob: float
    tree: Vertex | None


@dataclass(frozen=True)
class Parsed:
    source: tuple[str, ...]
    text: str
    log_prob: float
    entropy: float | None
    trees: tuple[tuple[Vertex, float], ...]
    spans: tuple[tuple[float, ...], ...]


def answer(source: str) -> list[str]:
    """jump twice and walk → JUMP JUMP WALK"""
    words: list[str] = []
    for word in source.split():
        if word in TIMES:
            words += words[-1:] * (TIMES[word] - 1)
        elif word != "and":
            words.append(word.upper())
    return words


def tree(words: Sequence[str], source: Sequence[str], cut: int = 1) -> Vertex:
    """Cut after so many words, again and again, with numbers that differ from vertex to vertex."""
    attention = tuple((n + 1) / sum(range(1, len(source) + 1)) for n in range(len(source)))
    known = {"attention": attention, "words": ((words[0], 0.75), ("LOOK", 0.125))}
    if len(words) == 1:
        found = tuple(float(n == 0) for n in range(len(source)))
        return Vertex(words[0], split=0.0, emission=0.75, found=found, **known)
    cut = min(cut, len(words) - 1)
    parts = tree(words[:cut], source, cut), tree(words[cut:], source, cut)
    return Vertex(children=parts, split=1 - 1 / (4 * len(words)), confidence=1 / len(words), **known)


@dataclass
class Fake:
    """Answers by the rules; with shouting=False in lower case, which is always wrong."""

    name: str = "fake"
    shouting: bool = True
    has_trees: bool = True
    most_words: int = 100
    source: Vocabulary = SOURCE
    target: Vocabulary = TARGET
    tested: list[Prediction] = field(default_factory=list)
    asked: list[tuple[object, ...]] = field(default_factory=list)

    def _words(self, source: str) -> list[str]:
        return answer(source) if self.shouting else [word.lower() for word in answer(source)]

    def answers(self, source: str, k: int) -> list[Explained]:
        self.asked.append(("answers", source, k))
        words = self._words(source)
        if not words:
            return []
        shapes = [tree(words, source.split(), cut) if self.has_trees else None for cut in range(1, k + 1)]
        return [Explained(tuple(source.split()), " ".join(words), -0.5 * n, shape) for n, shape in enumerate(shapes, 1)]

    def sample(self, source: str, seed: int) -> Explained:
        self.asked.append(("sample", source, seed))
        words = self._words(source)[: seed + 1]
        return Explained(tuple(source.split()), " ".join(words), -1.0, tree(words, source.split()))

    def parse(self, source: str, target: str, k: int) -> Parsed:
        self.asked.append(("parse", source, target, k))
        words = target.split()
        if len(words) > 8:
            return Parsed(tuple(source.split()), target, float("-inf"), 0.0, (), ())
        if words == ["RUN"]:
            raise DataError("target: this one may not be")
        spans = tuple(tuple(1 / (1 + j - i) if i <= j else 0.0 for j in range(len(words))) for i in range(len(words)))
        trees = tuple((tree(words, source.split(), cut), 1 / 2**cut) for cut in range(1, k + 1))
        return Parsed(tuple(source.split()), target, -2.0, 0.25, trees, spans)

    def examples(self) -> list[Prediction]:
        return self.tested


def prediction(source: str, output: str | None = None) -> Prediction:
    """A pair of the test set, with the right answer unless there is another."""
    target = " ".join(answer(source))
    return Prediction("test", 0, source, target, target if output is None else output, -1.0)
