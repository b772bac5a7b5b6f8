"""English question formation (McCoy, Frank and Linzen, 2020), made from its grammar.

A source is a sentence and an order: ``decl`` asks for the sentence itself, ``quest`` for its question, whose first word
is the auxiliary of the main clause:

    my newt that doesn't read does smile . quest  →  does my newt that doesn't read smile ?

No ``quest`` in training has a relative clause on its subject, so that "front the first auxiliary" explains training as
well as "front the main one". The generalisation set has nothing but such questions, and tells the two apart: the
auxiliaries of its relative and its main clause agree in number and differ in being negated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import accumulate
from math import lcm
from pathlib import Path
from typing import NamedTuple

from torch_ctree.data.disk import copy
from torch_ctree.data.errors import DataError, bad_line
from torch_ctree.data.files import folder_with, read_tsv
from torch_ctree.data.order import Purpose, random_bits
from torch_ctree.data.pairs import Example, Pairs
from torch_ctree.data.task import Binary, Gold, leaves, to_nltk

SIZES = {"train": 100_000, "validation": 1_000, "test": 10_000, "gen": 10_000}
FOLDER = "question"
FILES = {"train": "question.train", "validation": "question.dev", "test": "question.test", "gen": "question.gen"}

_NOUNS = (
    *("newt", "orangutan", "peacock", "quail", "raven", "salamander", "tyrannosaurus"),
    *("unicorn", "vulture", "walrus", "xylophone", "yak", "zebra"),
)
LEXICON: dict[str, tuple[str, ...]] = {
    "Det": ("the", "some", "my", "your", "our", "her"),
    "N_S": _NOUNS,
    "N_P": tuple(noun + ("es" if noun.endswith("s") else "s") for noun in _NOUNS),
    "V_intrans": ("giggle", "smile", "sleep", "swim", "wait", "move", "change", "read", "eat"),
    "V_trans": (
        *("entertain", "amuse", "high_five", "applaud", "confuse"),
        *("admire", "accept", "remember", "comfort"),
    ),
    "Aux_S": ("does", "doesn't"),
    "Aux_P": ("do", "don't"),
    "Prep": ("around", "near", "with", "upon", "by", "behind", "above", "below"),
    "Rel": ("who", "that"),
}
_CATEGORY = {word: category for category, words in LEXICON.items() for word in words}


# Making sentences. A template is a sentence with categories for words; each has its weight, and words fill it evenly.


class Template(NamedTuple):
    """A sentence as categories, such as Det N_S Aux_S V_intrans."""

    slots: tuple[str, ...]
    main: int
    """Where the auxiliary of the main clause stands."""
    order: str
    """decl or quest"""


@dataclass(frozen=True)
class Weights:
    """How often each structure is chosen, relative to its alternatives."""

    subject: tuple[int, int, int]
    """bare, with a prepositional phrase, with a relative clause"""
    verb: tuple[int, int]
    """intransitive, transitive"""
    object: tuple[int, int, int]
    """as for the subject"""
    subject_clause: tuple[int, int, int]
    """``who does wait``, ``who the yak does amuse``, ``who does amuse the yak``, on the subject"""
    object_clause: tuple[int, int, int]
    """the same, on the object"""


# The simplest weights that fit the official development set; the generalisation set follows the published grammar with
# every rule equally likely (``who the yak does amuse`` has two, one for each number).
ORDINARY = Weights(subject=(5, 2, 3), verb=(1, 4), object=(3, 3, 4), subject_clause=(1, 2, 1), object_clause=(2, 1, 1))
GENERALISATION = Weights(
    subject=(0, 0, 1), verb=(1, 1), object=(1, 1, 1), subject_clause=(1, 2, 1), object_clause=(1, 2, 1)
)

Phrases = Iterator[tuple[Fraction, tuple[str, ...]]]


def _shared(weights: tuple[int, ...], choices: list[list[tuple[str, ...]]]) -> Phrases:
    """Each kind's share of the weights, divided evenly among the forms it has."""
    for weight, forms in zip(weights, choices, strict=True):
        for form in forms:
            yield Fraction(weight, sum(weights) * len(forms)), form


def _clauses(number: str, weights: tuple[int, int, int]) -> Phrases:
    aux = f"Aux_{number}"
    return _shared(
        weights,
        [
            [("Rel", aux, "V_intrans")],
            [("Rel", "Det", f"N_{other}", f"Aux_{other}", "V_trans") for other in "SP"],
            [("Rel", aux, "V_trans", "Det", f"N_{other}") for other in "SP"],
        ],
    )


def _noun_phrases(number: str, weights: tuple[int, int, int], clauses: tuple[int, int, int]) -> Phrases:
    noun = ("Det", f"N_{number}")
    kinds = _shared(weights, [[()], [("Prep", "Det", f"N_{other}") for other in "SP"], [("Rel",)]])
    for share, rest in kinds:
        if rest != ("Rel",):
            yield share, noun + rest
        else:
            yield from ((share * part, noun + clause) for part, clause in _clauses(number, clauses))


def _predicates(weights: Weights) -> Phrases:
    for share, verb in _shared(weights.verb, [[("V_intrans",)], [("V_trans",)]]):
        if verb == ("V_intrans",):
            yield share, verb
            continue
        for number in "SP":
            for part, noun_phrase in _noun_phrases(number, weights.object, weights.object_clause):
                yield share * part / 2, verb + noun_phrase


def _sentences(weights: Weights) -> Iterator[tuple[Fraction, tuple[str, ...], tuple[str, ...]]]:
    """Subjects and what follows them, the auxiliary first, with their share."""
    for number in "SP":
        for share, subject in _noun_phrases(number, weights.subject, weights.subject_clause):
            for part, predicate in _predicates(weights):
                yield share * part / 2, subject, (f"Aux_{number}", *predicate)


@cache
def ordinary() -> dict[Template, int]:
    """The templates of training, development and test set with their weights."""
    shares = {}
    for share, subject, rest in _sentences(ORDINARY):
        for order in ("decl", "quest"):
            if order == "decl" or "Rel" not in subject:
                shares[Template(subject + rest, len(subject), order)] = share
    return _whole(shares)


@cache
def generalisation() -> dict[Template, int]:
    """The templates of the generalisation set with their weights."""
    shares = {}
    for share, subject, rest in _sentences(GENERALISATION):
        # The clause's auxiliary agrees in number with the main one, so that only its place tells them apart.
        if rest[0] in subject and "Rel" not in rest:
            shares[Template(subject + rest, len(subject), "quest")] = share
    return _whole(shares)


def _whole(shares: Mapping[Template, Fraction]) -> dict[Template, int]:
    """The same proportions in whole numbers; what never comes is dropped."""
    scale = lcm(*(share.denominator for share in shares.values()))
    return {template: int(share * scale) for template, share in shares.items() if share}


def sentences(templates: Mapping[Template, int], *key: int) -> Iterator[Example]:
    """Examples without end, each drawn from the templates; the key decides which."""
    bits = random_bits(Purpose.QUESTIONS, *key)
    chosen, bounds = list(templates), list(accumulate(templates.values()))
    words = [[LEXICON[slot] for slot in template.slots] for template in chosen]
    while True:
        for first, *rest in bits.random_raw((1024, 1 + max(map(len, words)))).tolist():
            n = bisect_right(bounds, first % bounds[-1])
            filled = [options[number % len(options)] for options, number in zip(words[n], rest, strict=False)]
            yield _example(chosen[n], filled)


def _example(template: Template, words: list[str]) -> Example:
    source = " ".join([*words, ".", template.order])
    if template.order == "decl":
        return Example(source, " ".join([*words, "."]))
    main = template.main
    return Example(source, " ".join([words[main], *words[:main], *words[main + 1 :], "?"]))


def _tells_apart(example: Example) -> bool:
    """Whether a question of the generalisation set has two different auxiliaries."""
    return len({word for word in example.source.split() if _CATEGORY.get(word, "").startswith("Aux")}) == 2


def generate(
    seed: int, sizes: Mapping[str, int] | None = None, given: Mapping[str, Pairs] | None = None
) -> dict[str, Pairs]:
    """Every set, from one seed; no source comes twice, within a set or among them.

    sizes: pairs of each set; by default those of the published ones
    given: sets that are there already, such as the official ones: they stay as they are, and none of their sources is
        made again
    """
    sizes, sets = sizes or SIZES, dict(given or {})
    taken = {example.source for pairs in sets.values() for example in pairs}
    for number, name in enumerate(SIZES):
        if name in sets:
            continue
        rows: list[Example] = []
        drawn = sentences(generalisation() if name == "gen" else ordinary(), seed, number)
        while len(rows) < sizes[name]:
            example = next(drawn)
            if example.source not in taken and (name != "gen" or _tells_apart(example)):
                taken.add(example.source)
                rows.append(example)
        sets[name] = Pairs.of(rows)
    return {name: sets[name] for name in SIZES}


# Reading sentences: the trees, and the official files.


class _Reader:
    """Reads a sentence from left to right, by the categories of its words."""

    def __init__(self, sentence: str) -> None:
        self.sentence = sentence
        self.words = sentence.split()
        self.place = 0

    def next_is(self, category: str) -> bool:
        return self.place < len(self.words) and _CATEGORY.get(self.words[self.place], "").startswith(category)

    def take(self, category: str) -> str:
        if not self.next_is(category):
            found = self.words[self.place] if self.place < len(self.words) else "the end"
            raise DataError(f"{self.sentence!r}: {found} at word {self.place + 1}; expected {category}")
        self.place += 1
        return self.words[self.place - 1]

    def noun(self) -> tuple[Binary, str]:
        """A determiner and a noun → their tree, and S or P."""
        determiner, noun = self.take("Det"), self.take("N_")
        return ("NP", determiner, noun), _CATEGORY[noun][-1]

    def noun_phrase(self) -> tuple[Binary, str]:
        noun, number = self.noun()
        if self.next_is("Prep"):
            return ("NP", noun, ("PP", self.take("Prep"), self.noun()[0])), number
        if self.next_is("Rel"):
            return ("NP", noun, ("RC", self.take("Rel"), self.clause(number))), number
        return noun, number

    def clause(self, number: str) -> Binary:
        """What follows ``who`` or ``that``."""
        if self.next_is("Det"):
            subject, number = self.noun()
            return "S", subject, ("VP", self.take(f"Aux_{number}"), self.take("V_trans"))
        return "VP", self.take(f"Aux_{number}"), self.predicate(bare_object=True)

    def predicate(self, bare_object: bool = False) -> Binary:
        """A verb, and its object where it has one."""
        if self.next_is("V_intrans"):
            return self.take("V_intrans")
        return "VP", self.take("V_trans"), (self.noun() if bare_object else self.noun_phrase())[0]


def gold(example: Example) -> Gold:
    """The trees of a source and of its target, by the grammar."""
    source, target = _trees(example.source)
    return Gold(to_nltk(source), to_nltk(target))


def _trees(source: str) -> tuple[Binary, Binary]:
    sentence, _, order = source.rpartition(" . ")
    reader = _Reader(sentence or source)
    subject, number = reader.noun_phrase()
    aux = reader.take(f"Aux_{number}")
    predicate = reader.predicate()
    if reader.place < len(reader.words) or order not in ("decl", "quest"):
        raise DataError(f"{source!r}: expected a sentence of the grammar, then '. decl' or '. quest'")
    declarative = ("S", subject, ("VP", aux, predicate))
    question = ("SQ", aux, ("S", subject, predicate))
    target = ("ROOT", declarative, ".") if order == "decl" else ("ROOT", question, "?")
    return ("ROOT", ("·", declarative, "."), order), target


def official_folder(root: Path) -> Path:
    """Where root has, or would have, the official files."""
    return folder_with(root, FOLDER, FILES.values())


def official(folder: Path) -> dict[str, Pairs]:
    """The official sets whose files are in the folder.

    Every row is checked against the grammar and against what its set may hold, and the sets against each other.
    """
    sets = {name: _read(folder / file, name) for name, file in FILES.items() if (folder / file).exists()}
    for name, pairs in sets.items():
        others = {source for other, rows in sets.items() if other != name for source in rows.sources()}
        for line, source in enumerate(pairs.sources(), 1):
            if source in others:
                raise bad_line(
                    folder / FILES[name], line, "another of the sets has this source too; get the files again"
                )
    return sets


def prepare(root: Path, folder: Path | None) -> list[Path]:
    """Copy the official files from a folder into root/question and return them."""
    if folder is None:
        raise DataError("questions: made from its grammar, nothing to download; --from FOLDER takes the official sets")
    found = official_folder(folder)
    sets = official(found)
    if not sets:
        raise DataError(
            f"{folder}: none of {', '.join(FILES.values())} in it; expected the folder with the official files"
        )
    return [copy(found / FILES[name], root / FOLDER / FILES[name]) for name in sets]


def _read(path: Path, name: str) -> Pairs:
    pairs = read_tsv(path)
    for line, example in enumerate(pairs, 1):
        try:
            source, target = _trees(example.source)
        except DataError as error:
            raise bad_line(path, line, f"not of this task: {error}") from error
        if example.target != " ".join(leaves(target)):
            raise bad_line(path, line, f"the target is {example.target!r}; expected {' '.join(leaves(target))!r}")
        if _is_withheld(source) != (name == "gen"):
            what = "is not" if name == "gen" else "is"
            raise bad_line(path, line, f"{what} a question with a relative clause on its subject; get the file again")
    if len(pairs) != SIZES[name]:
        raise DataError(f"{path}: {len(pairs):,} pairs; expected {SIZES[name]:,}; get the file again")
    return pairs


def _is_withheld(source: Binary) -> bool:
    """Whether a source asks for a question and has a relative clause on its subject: ((S .) quest), S = (subject …)."""
    match source:
        case (_, (_, (_, (_, _, ("RC", _, _)), _), _), "quest"):
            return True
    return False
