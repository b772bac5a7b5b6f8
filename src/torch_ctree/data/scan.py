"""SCAN (Lake and Baroni, 2018): commands and the actions they stand for, all 20,910 made from the grammar.

    C → S and S | S after S | S        S → V twice | V thrice | V
    V → U around D | U opposite D | U D | walk | look | run | jump
    U → walk | look | run | jump | turn                D → left | right

Every split but ``simple``, which was drawn at random once, follows from a rule about the commands. ``length``, ``jump``
and ``turn-left`` have the rows of the official files, in another order; the template splits have their sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from torch_ctree.data.disk import copy
from torch_ctree.data.errors import DataError, bad_line
from torch_ctree.data.files import folder_with, lines, read_bytes
from torch_ctree.data.order import Purpose, permutation
from torch_ctree.data.pairs import Example, Pairs
from torch_ctree.data.task import Binary, Gold, leaves, to_nltk

VERBS = ("walk", "look", "run", "jump")
DIRECTIONS = ("left", "right")
MODIFIERS = ("opposite", "around")
REPETITIONS = {"twice": 2, "thrice": 3}
CONJUNCTIONS = ("and", "after")


# The grammar: commands, their actions, and the trees of both.


@cache
def everything() -> Pairs:
    """All 20,910 commands with their actions."""
    single = [*VERBS]  # phrases
    for verb in (*VERBS, "turn"):
        single += [f"{verb} {direction}" for direction in DIRECTIONS]
        single += [f"{verb} {modifier} {direction}" for modifier, direction in product(MODIFIERS, DIRECTIONS)]
    single += [f"{phrase} {times}" for phrase, times in product(tuple(single), REPETITIONS)]
    commands = [*single, *(f"{a} {word} {b}" for word, a, b in product(CONJUNCTIONS, single, single))]
    return Pairs.of((command, actions(command)) for command in commands)


def actions(command: str) -> str:
    """What a command stands for.

    >>> actions("look left after jump twice")
    'I_JUMP I_JUMP I_TURN_LEFT I_LOOK'
    """
    first, conjunction, second = divide(command)
    parts = (first, second) if conjunction else (first,)
    return " ".join(_actions(phrase) for phrase in (reversed(parts) if conjunction == "after" else parts))


def divide(command: str) -> tuple[str, str, str]:
    """A command → its first phrase, the conjunction and the second phrase, the last two empty where there is none."""
    words = command.split()
    for n, word in enumerate(words):
        if word in CONJUNCTIONS:
            return " ".join(words[:n]), word, " ".join(words[n + 1 :])
    return command, "", ""


def phrases(command: str) -> list[str]:
    """The one or two phrases of a command."""
    return [phrase for phrase in divide(command)[::2] if phrase]


def gold(example: Example) -> Gold:
    """The trees of a command and of its actions, by the recursion that gives them their meaning.

    A node over commands is labelled with its symbol in the grammar, one over actions with the word that it carries out.
    Parts without an order among them, such as the three of ``thrice``, are halved, the larger half to the right.
    """
    first, conjunction, second = divide(example.source)
    source, target = _phrase(first)
    if conjunction:
        other, then = _phrase(second)
        source = ("C", source, ("·", conjunction, other))
        target = (conjunction, target, then) if conjunction == "and" else (conjunction, then, target)
    return Gold(to_nltk(source), to_nltk(target))


@cache
def _actions(phrase: str) -> str:
    return " ".join(leaves(_phrase(phrase)[1]))


@cache
def _phrase(phrase: str) -> tuple[Binary, Binary]:
    """The trees of a phrase and of its actions."""
    words = phrase.split()
    times = words.pop() if words and words[-1] in REPETITIONS else None
    source, target = _act(phrase, words)
    if times:
        return ("S", source, times), _halved(times, [target] * REPETITIONS[times])
    return source, target


def _act(phrase: str, words: list[str]) -> tuple[Binary, Binary]:
    """``walk``, ``turn left``, ``jump around right``: an act before it is repeated."""
    match words:
        case [verb] if verb in VERBS:
            return verb, f"I_{verb.upper()}"
        case [("walk" | "look" | "run" | "jump" | "turn") as verb, ("left" | "right") as direction]:
            turn = f"I_TURN_{direction.upper()}"
            return ("V", verb, direction), turn if verb == "turn" else (direction, turn, f"I_{verb.upper()}")
        case [verb, ("around" | "opposite") as modifier, ("left" | "right") as direction]:
            source = ("V", verb, ("·", modifier, direction))
            _, once = _act(phrase, [verb, direction])
            if modifier == "around":
                return source, _halved(modifier, [once] * 4)
            _, turn = _act(phrase, ["turn", direction])
            back = (modifier, turn, turn)
            return source, back if verb == "turn" else (modifier, back, f"I_{verb.upper()}")
    raise DataError(f"{phrase!r} is not a phrase of SCAN; its commands look like 'jump around left twice and walk'")


def _halved(label: str, parts: list[Binary]) -> Binary:
    """Two or more parts as a full binary tree."""
    middle = len(parts) // 2
    left, right = (half[0] if len(half) == 1 else _halved("·", half) for half in (parts[:middle], parts[middle:]))
    return label, left, right


# The splits.


class Split(NamedTuple):
    """Which commands are the test, which belong to neither set, and which one training shows again and again."""

    test: Callable[[Example], bool]
    left_out: Callable[[Example], bool] = lambda example: False
    shown: str | None = None
    copies: int = 1


def _has(*phrases: str) -> Callable[[Example], bool]:
    """Whether a command contains one of these phrases, as whole words."""
    return lambda example: any(f" {phrase} " in f" {example.source} " for phrase in phrases)


def _template(phrase: str) -> Split:
    """Loula, Baroni and Lake (2018): ``turn`` with the phrase is left out, the other verbs with it are the test."""
    return Split(test=_has(*(f"{verb} {phrase}" for verb in VERBS)), left_out=_has(f"turn {phrase}"))


SPLITS = {
    "length": Split(test=lambda example: len(example.target.split()) > 22),
    "jump": Split(test=_has("jump"), shown="jump", copies=1467),
    "turn-left": Split(test=_has("turn left"), shown="turn left", copies=2189),
    "around-right": _template("around right"),
    "jump-around-right": Split(test=_has("jump around right"), left_out=_has("turn around right")),
    "opposite-right": _template("opposite right"),
    "right": _template("right"),
}
"""The splits that follow from a rule. ``copies`` is what the official files of the two primitive splits have."""

FOLDER = "SCAN"
SIMPLE = ("simple_split/tasks_train_simple.txt", "simple_split/tasks_test_simple.txt")
SIMPLE_SHARE = 0.2  # of all commands that ``simple`` tests on


def by_rule(name: str) -> tuple[Pairs, Pairs]:
    """The training and the test set of a split."""
    split = SPLITS[name]
    rows = everything()
    train, test = [], []
    for n, example in enumerate(rows):
        if example.source == split.shown:
            train += [n] * split.copies
        elif split.test(example) and not split.left_out(example):
            test.append(n)
        elif not split.left_out(example):
            train.append(n)
    return rows.take(train), rows.take(test)


def simple(seed: int) -> tuple[Pairs, Pairs]:
    """A random training and test set of our own."""
    rows = everything()
    order = permutation(len(rows), Purpose.SIMPLE_SPLIT, seed)
    tested = round(SIMPLE_SHARE * len(rows))
    return rows.take(np.sort(order[tested:])), rows.take(np.sort(order[:tested]))


def official_folder(root: Path) -> Path:
    """Where root has, or would have, the official files."""
    return folder_with(root, FOLDER, SIMPLE)


def official_simple(folder: Path) -> tuple[Pairs, Pairs] | None:
    """The official random split, where its two files are in the folder."""
    files = [folder / name for name in SIMPLE]
    if not any(file.exists() for file in files):
        return None
    train, test = (read_official(file) for file in files)
    known, found = len(everything()), len({example.source for pairs in (train, test) for example in pairs})
    if not found == len(train) + len(test) == known:
        raise DataError(
            f"{folder / 'simple_split'}: {found:,} commands in {len(train) + len(test):,} rows; expected {known:,}, "
            "each once; get the two files again, or remove them for a split by seed"
        )
    return train, test


def prepare(root: Path, folder: Path | None) -> list[Path]:
    """Copy the official files of ``simple`` from a folder into root/SCAN and return them; no others are needed."""
    if folder is None:
        raise DataError(
            "scan: made from its grammar, nothing to download; --from FOLDER takes the official simple split"
        )
    found = official_folder(folder)
    if official_simple(found) is None:
        raise DataError(f"{folder}: no {SIMPLE[0]} in it; expected the folder with the official SCAN files")
    return [copy(found / name, root / FOLDER / name) for name in SIMPLE]


def read_official(path: Path) -> Pairs:
    """A file of the published form, ``IN: command OUT: actions``; every row is checked against the grammar."""
    text = read_bytes(path)
    starts, ends = lines(text, path)
    return Pairs.of(_row(text[a:b].decode(), path, n) for n, (a, b) in enumerate(zip(starts, ends, strict=True), 1))


def _row(line: str, path: Path, n: int) -> Example:
    head, found, done = line.partition(" OUT: ")
    if not found or not head.startswith("IN: "):
        raise bad_line(path, n, f"got {line[:40]!r}; expected 'IN: command OUT: actions'")
    example = Example(head.removeprefix("IN: ").strip(), done.strip())
    try:
        meant = actions(example.source)
    except DataError as error:
        raise bad_line(path, n, str(error)) from error
    if meant != example.target:
        raise bad_line(path, n, f"{example.source!r} does not mean {example.target[:40]!r}…; get the file again")
    return example
