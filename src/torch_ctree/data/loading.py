"""One way to every task: ``load``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from torch_ctree.data import multi30k, own, questions, scan, splitting
from torch_ctree.data.errors import DataError, check_whole, count, place, told
from torch_ctree.data.order import Purpose, permutation
from torch_ctree.data.pairs import Pairs
from torch_ctree.data.recasing import Recaser, Written
from torch_ctree.data.task import SETS, Task

FOLDER = "CTREE_DATA"
"""The environment variable that names the data folder."""

TASKS = {
    "scan-simple": "SCAN commands and actions, a random fifth to test on",
    "scan-length": "SCAN, longer outputs than any trained on",
    "scan-jump": "SCAN, jump trained on alone, tested within commands",
    "scan-turn-left": "SCAN, turn left trained on alone, tested within commands",
    "scan-around-right": "SCAN, around right never trained on, around left is",
    "scan-jump-around-right": "SCAN, jump around right never trained on",
    "scan-opposite-right": "SCAN, opposite right never trained on, opposite left is",
    "scan-right": "SCAN, right never trained on after a verb, left is",
    "questions": "English questions, of a structure never trained on",
    "multi30k-de-en": "Multi30k translation from German (downloaded)",
    "multi30k-en-de": "Multi30k translation from English (downloaded)",
}
SCAN = ("scan-simple", *(f"scan-{split}" for split in scan.SPLITS))


def data_folder(root: str | Path | None = None) -> Path:
    """Where data files are: root; else what CTREE_DATA names; else a folder in the user's cache."""
    named = root or os.environ.get(FOLDER)
    if named:
        return place(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "torch-ctree"


def _is_named(root: str | Path | None) -> bool:
    return bool(root or os.environ.get(FOLDER))


def _folder_to_read(root: str | Path | None) -> Path:
    """The data folder, which must be there if somebody named it."""
    folder = data_folder(root)
    if _is_named(root) and not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one that holds data files")
    return folder


def load(
    name: str | Path,
    root: str | Path | None = None,
    seed: int = 0,
    *,
    hold_out: str | None = None,
    form: str | None = None,
    validation: str | Path | None = None,
    test: str | Path | None = None,
    columns: str | tuple[str, str] | None = None,
) -> Task:
    """A task by name, or your own sentence pairs.

    name: of a task (``TASKS``, or ``ctree data list``); or a file of pairs, one a line: ``pairs.tsv`` (source, tab,
        target) or ``pairs.jsonl``; or two parallel files, ``text.de,text.en``; or a folder with ``train``,
        ``validation`` and ``test`` in one of these forms (parallel files then end in .source and .target); or
        ``hf:owner/name``, a data set of the Hugging Face Hub
    root: the folder with data files that are not made here (Multi30k) or have an official version (``SCAN/``,
        ``question/``); by default the folder named by the environment variable CTREE_DATA, or else a cache
    seed: of whatever is random: the pairs that are made or the way they are divided
    hold_out: what to validate on, in place of the task's own way: ``"random"``, a tenth of the training rows;
        ``"longest"``, those with the longest targets; ``"combination"``, on SCAN, all with one pair of modifier and
        repetition that the seed chooses; or words such as ``"around thrice"``, all that have a phrase with these words
    form: of Multi30k: ``"tokenised"``, the default (and lower-cased, blanks between words), or ``"raw"``
    validation: a file of your own pairs to validate on; by default a tenth is taken from the rest
    test: a file of your own pairs to test on; by default a tenth is taken from the rest
    columns: where source and target are in JSON lines and Hub data sets, such as ``"de,en"``; by default
        ``"source,target"``

    ``train`` and ``validation`` together are the official training set, or, for tasks that have one, ``validation`` is
    the official development set.
    """
    name = str(name)
    check_whole("seed", seed, 0)
    _refuse(name, name in TASKS, "your own pairs", validation=validation, test=test, columns=columns)
    _refuse(name, not name.startswith("multi30k-"), "Multi30k", form=form)
    if not name.strip():
        raise DataError("name: got nothing; expected a task, a file or a folder (see 'ctree data list')")
    if hold_out == "combination" and name not in SCAN:
        raise DataError(
            f"{name}: hold_out='combination' is for SCAN; expected 'random', 'longest' or words of a source"
        )
    with told():
        if name in SCAN:
            return _scan(name, root, seed, hold_out or "random")
        if name == "questions":
            return _held_out(_questions(root, seed), hold_out, seed)
        if name in TASKS:
            return _held_out(_multi30k(name, root, form or "tokenised"), hold_out, seed)
        return _own(name, seed, hold_out, {"validation": validation, "test": test}, columns)


def _refuse(name: str, unfit: bool, meant: str, **options: object) -> None:
    """Options that a task does not have are an error rather than ignored."""
    for option, value in options.items():
        if unfit and value is not None:
            raise DataError(f"{name}: takes no {option}, which is for {meant}; leave it out")


def _scan(name: str, root: str | Path | None, seed: int, hold_out: str) -> Task:
    split = name.removeprefix("scan-")
    if split != "simple":
        (train, test), origin = scan.by_rule(split), "made from the grammar; the published split"
    elif official := scan.official_simple(folder := scan.official_folder(_folder_to_read(root))):
        (train, test), origin = official, f"the official random split in {folder}"
    else:
        (train, test), origin = scan.simple(seed), f"made from the grammar; a random split of our own, seed {seed}"
    if hold_out == "combination":
        hold_out = _combination(train, seed)
    task = Task(name, {"train": train, "validation": train[:0], "test": test}, origin, scan.gold)
    return _held_out(task, hold_out, seed, scan.phrases)


def _combination(train: Pairs, seed: int) -> str:
    """A modifier and a repetition that training has together in a phrase."""
    phrases = {phrase for pair in train for phrase in scan.phrases(pair.source)}
    pairs = product(scan.MODIFIERS, scan.REPETITIONS)
    known = [words for words in pairs if any(set(words) <= set(phrase.split()) for phrase in phrases)]
    return " ".join(known[permutation(len(known), Purpose.COMBINATION, seed)[0]])


def _questions(root: str | Path | None, seed: int) -> Task:
    folder = questions.official_folder(_folder_to_read(root))
    official = questions.official(folder)
    made = [name for name in questions.SIZES if name not in official]
    parts = [f"{', '.join(made)} made from the grammar, seed {seed}"] if made else []
    parts += [f"{', '.join(official)} from the official files in {folder}"] if official else []
    return Task("questions", questions.generate(seed, given=official), "; ".join(parts), questions.gold)


def _multi30k(name: str, root: str | Path | None, form: str) -> Task:
    source, target = name.split("-")[1:]
    folder = _folder_to_read(root)
    if not _is_named(root):
        multi30k.prepare(folder, forms=[form])
    sets = multi30k.read(source, target, form, folder)
    may_be_had = not _is_named(root) or multi30k.is_there(folder, "raw")
    written = partial(_written, name, root, sets) if form == "tokenised" and may_be_had else None
    return Task(name, sets, f"the {form} files in {folder}", languages=(source, target), written=written)


def _written(name: str, root: str | Path | None, tokenised: Mapping[str, Pairs]) -> Written:
    """Of Multi30k: capitals are learned from its training set."""
    plain = _multi30k(name, root, "raw")
    recaser = Recaser(plain.train.targets(), tokenised["train"].targets())
    targets = {key: list(pairs.targets()) for key, pairs in plain.sets.items()}
    return Written(targets, recaser, name.split("-")[2])


def _own(
    name: str,
    seed: int,
    hold_out: str | None,
    files: dict[str, str | Path | None],
    columns: str | tuple[str, str] | None,
) -> Task:
    if not own.is_place(name):
        near = get_close_matches(name, TASKS, n=1)
        hint = f"did you mean {near[0]}?" if near else "see 'ctree data list' for the tasks"
        raise DataError(f"{name}: no such task or file; {hint}")
    if files["validation"] is not None and hold_out is not None:
        raise DataError(f"{name}: got a validation file and hold_out={hold_out!r}; expected one of them")
    sets = own.read_sets(name, columns)
    sets |= {key: own.read_file(str(file), columns) for key, file in files.items() if file is not None}
    _check_enough(name, sets)
    origin = name
    if "test" not in sets:
        sets["train"], sets["test"] = splitting.random_sources(sets["train"], Purpose.TEST_SET, seed)
        origin += f"; a tenth to test on, seed {seed}"
    if "validation" not in sets:
        hold_out = hold_out or "random"
        sets["validation"] = sets["train"][:0]
    order = [*SETS, *(key for key in sets if key not in SETS)]
    return _held_out(Task(name, {key: sets[key] for key in order}, origin), hold_out, seed, by_source=True)


def _check_enough(name: str, sets: dict[str, Pairs]) -> None:
    """As many different sources as there are sets to be made of them."""
    if "train" not in sets:
        raise DataError(f"{name}: no training set; it has {', '.join(sets)}")
    needed = 1 + ("test" not in sets) + ("validation" not in sets)
    sources = len(np.unique(sets["train"].source_fingerprints())) if needed > 1 else needed
    if sources < needed:
        raise DataError(f"{name}: {count(sources, 'different source')}; expected {needed} at least, one for each set")


# Validation.


def _whole(source: str) -> Sequence[str]:
    return [source]


def _held_out(
    task: Task,
    how: str | None,
    seed: int,
    phrases: Callable[[str], Sequence[str]] = _whole,
    by_source: bool = False,
) -> Task:
    """The task with a validation set taken from its training set, in one of the ways of ``load``."""
    if how is None:
        return task
    if how == "random":
        divide = splitting.random_sources if by_source else splitting.random_rows
        train, validation = divide(task.train, Purpose.VALIDATION_SET, seed)
    elif how == "longest":
        train, validation = splitting.longest_targets(task.train)
    else:
        train, validation = splitting.with_words(task.train, how.split(), phrases)
    sets = {**task.sets, "train": train, "validation": validation}  # whose targets ``written`` does not know
    return replace(task, sets=sets, written=None, origin=f"{task.origin}; validation: {how}, seed {seed}")
