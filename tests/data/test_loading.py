import gzip
import json
from collections import Counter

import pytest

from torch_ctree import data
from torch_ctree.data import DataError, Pairs, loading, multi30k, questions, scan

from ..tiny_multi30k import put

ROWS = [(f"source {n}", f"target {n}") for n in range(40)]


def write(path, rows=ROWS):
    path.write_text("".join(f"{s}\t{t}\n" for s, t in rows))
    return path


def sizes(task):
    return {name: len(pairs) for name, pairs in task.sets.items()}


def message(*arguments, **options) -> str:
    with pytest.raises(DataError) as caught:
        data.load(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# SCAN.


@pytest.mark.parametrize("split", [*scan.SPLITS])
def test_scan_train_and_validation_are_the_official_training_set(split):
    task = data.load(f"scan-{split}")
    train, test = scan.by_rule(split)
    assert Counter(task.train) + Counter(task.validation) == Counter(train)
    assert Counter(task.test) == Counter(test)
    assert len(task.validation) == round(0.1 * len(train))
    assert list(task.sets) == ["train", "validation", "test"]
    assert task.gold is scan.gold


def test_the_seed_decides_the_validation_rows():
    first, again, other = (data.load("scan-length", seed=seed) for seed in (1, 1, 2))
    assert list(first.validation) == list(again.validation) != list(other.validation)
    assert list(first.test) == list(other.test)


def test_simple_by_seed_and_from_the_official_files(tmp_path):
    task = data.load("scan-simple", seed=5)
    assert sizes(task) == {"train": 15_055, "validation": 1_673, "test": 4_182}
    assert Counter([*task.train, *task.validation, *task.test]) == Counter(scan.everything())
    assert "seed 5" in task.origin
    train, test = scan.simple(11)
    for folder in (tmp_path, tmp_path / "SCAN"):
        for name, pairs in ((scan.SIMPLE[0], train), (scan.SIMPLE[1], test)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("".join(f"IN: {p.source} OUT: {p.target}\n" for p in pairs))
    for root in (tmp_path, tmp_path / "SCAN"):
        given = data.load("scan-simple", root, seed=5)
        assert list(given.test) == list(test)
        assert "official" in given.origin


def phrases(sources):
    """The words of each phrase, once."""
    return [set(phrase.split()) for phrase in {phrase for source in set(sources) for phrase in scan.phrases(source)}]


def phrases_with(found, *words):
    return [phrase for phrase in found if set(words) <= phrase]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("split", ["simple", "length", "jump"])
def test_a_combination_is_held_out(split, seed):
    task = data.load(f"scan-{split}", seed=seed, hold_out="combination")
    trained = phrases(task.train.sources())
    held = [words for words in scan_combinations() if not phrases_with(trained, *words)]
    assert len(held) == 1
    assert all(phrases_with(phrases([source]), *held[0]) for source in set(task.validation.sources()))
    for word in held[0]:  # each of the two is still trained on
        assert phrases_with(trained, word)


def scan_combinations():
    return [(modifier, times) for modifier in scan.MODIFIERS for times in scan.REPETITIONS]


def test_seeds_choose_among_the_combinations():
    seen = {
        data.load("scan-length", seed=seed, hold_out="combination").origin.split("validation: ")[1]
        for seed in range(12)
    }
    assert {text.split(",")[0] for text in seen} == {" ".join(words) for words in scan_combinations()}


def test_words_are_held_out():
    task = data.load("scan-length", hold_out="jump opposite thrice")
    trained = phrases(task.train.sources())
    assert not phrases_with(trained, "jump", "opposite", "thrice")
    assert phrases_with(trained, "walk", "opposite", "thrice")
    assert Counter(task.train) + Counter(task.validation) == Counter(scan.by_rule("length")[0])


def test_the_longest_are_held_out():
    task = data.load("scan-length", hold_out="longest")
    assert max(len(p.target.split()) for p in task.train) < min(len(p.target.split()) for p in task.validation)
    assert 0 < len(task.validation) <= 1699


def test_words_that_never_come():
    assert message("scan-length", hold_out="sideways").startswith("holding out 'sideways' leaves 16,990")


# Questions.


@pytest.fixture
def few(monkeypatch):
    """Question formation in small."""
    small = {"train": 300, "validation": 20, "test": 30, "gen": 40}
    monkeypatch.setattr(questions, "SIZES", small)
    return small


def test_questions(few):
    task = data.load("questions", seed=3)
    assert sizes(task) == few
    assert task.gen is task.sets["gen"]
    assert task.gold is questions.gold
    assert task.origin == "train, validation, test, gen made from the grammar, seed 3"
    assert list(task.train) == list(data.load("questions", seed=3).train) != list(data.load("questions", seed=4).train)


def test_full_size_questions_and_the_official_files(official):
    task = data.load("questions", official)
    assert sizes(task) == questions.SIZES
    given = questions.official(official / "question")
    assert list(task.gen) == list(given["gen"])
    taken = {example.source for pairs in given.values() for example in pairs}
    assert not any(example.source in taken for example in task.train)


def test_official_questions_are_used(few, tmp_path):
    other = questions.generate(9)
    (tmp_path / "question").mkdir()
    write(tmp_path / "question" / "question.test", other["test"])
    for root in (tmp_path, tmp_path / "question"):
        task = data.load("questions", root)
        assert list(task.test) == list(other["test"])
        assert not {p.source for p in task.test} & {p.source for p in task.train}
        assert "test from the official files in" in task.origin


def test_only_questions_have_a_generalisation_set():
    with pytest.raises(AttributeError, match="scan-jump has no generalisation set; it has train, validation, test"):
        _ = data.load("scan-jump").gen


# Multi30k.


def test_multi30k_from_a_folder(tiny, tmp_path):
    put(tmp_path / "multi30k")
    task = data.load("multi30k-de-en", tmp_path)
    assert task.train[0] == ("ein hund .", "a dog .")
    assert task.languages == ("de", "en")
    assert list(task.sets) == ["train", "validation", "test", "test_2017"]
    assert data.load("multi30k-en-de", tmp_path, form="raw").train[0] == ("A dog.", "Ein Hund.")


def test_multi30k_by_the_environment(tiny, tmp_path, monkeypatch):
    put(tmp_path / "multi30k")
    monkeypatch.setenv("CTREE_DATA", str(tmp_path))
    assert len(data.load("multi30k-de-en").train) == 3


def test_multi30k_without_files(tiny, tmp_path, monkeypatch):
    said = message("multi30k-de-en", tmp_path)
    assert f"is missing; `ctree data prepare multi30k --root {tmp_path}` downloads it" in said
    monkeypatch.setattr(multi30k, "URL", "http://127.0.0.1:9/")
    assert "`ctree data prepare multi30k --from FOLDER` takes local copies" in message("multi30k-de-en")


def test_multi30k_in_a_form_it_does_not_have(tmp_path):
    assert "got form 'cooked'; expected 'raw' or 'tokenised'" in message("multi30k-de-en", tmp_path, form="cooked")
    assert "got form 'cooked'; expected 'raw' or 'tokenised'" in message("multi30k-de-en", form="cooked")


# Your own pairs.


def test_one_file_is_divided_by_seed(tmp_path):
    path = write(tmp_path / "pairs.tsv")
    task = data.load(path, seed=2)
    assert sizes(task) == {"train": 32, "validation": 4, "test": 4}
    assert sorted([*task.train, *task.validation, *task.test]) == sorted(ROWS)
    assert list(task.test) == list(data.load(str(path), seed=2).test) != list(data.load(path, seed=3).test)
    assert task.gold is None


def test_one_source_is_never_in_two_sets(tmp_path):
    rows = [(f"source {n % 13}", f"target {n}") for n in range(60)]
    task = data.load(write(tmp_path / "pairs.tsv", rows))
    sets = [{pair.source for pair in pairs} for pairs in task.sets.values()]
    assert sum(map(len, sets)) == len(set.union(*sets)) == 13


def test_white_space_makes_no_other_source(tmp_path):
    rows = [(source, f"t {n}") for n in range(30) for source in (f"a{n} b", f"a{n}  b", f" a{n} b ")]
    for hold_out in (None, "longest"):
        lengths = [(source, target + " x" * (n % 7)) for n, (source, target) in enumerate(rows)]
        task = data.load(write(tmp_path / "pairs.tsv", lengths), hold_out=hold_out)
        sets = [{" ".join(pair.source.split()) for pair in pairs} for pairs in task.sets.values()]
        assert sum(map(len, sets)) == len(set.union(*sets)) == 30


def test_sets_given_as_files(tmp_path):
    path, dev, test = (
        write(tmp_path / name, rows) for name, rows in [("a.tsv", ROWS), ("b.tsv", ROWS[:3]), ("c.tsv", ROWS[:2])]
    )
    assert sizes(data.load(path, validation=dev, test=test)) == {"train": 40, "validation": 3, "test": 2}
    assert sizes(data.load(path, validation=dev)) == {"train": 36, "validation": 3, "test": 4}
    assert sizes(data.load(path, test=test)) == {"train": 36, "validation": 4, "test": 2}
    assert "got a validation file and hold_out='random'; expected one of them" in message(
        path, validation=dev, hold_out="random"
    )


def test_parallel_files(tmp_path):
    for side, name in enumerate(("text.de", "text.en")):
        (tmp_path / name).write_text("".join(f"{row[side]}\n" for row in ROWS))
    task = data.load(f"{tmp_path}/text.de,{tmp_path}/text.en")
    assert sorted([*task.train, *task.validation, *task.test]) == sorted(ROWS)
    assert "expected one, or two parallel ones with a comma between them" in message("a,b,c")
    assert "expected one, or two parallel ones with a comma between them" in message(f"{tmp_path}/text.de,")
    folder = tmp_path / "with,comma"
    folder.mkdir()
    for name in ("text.de", "text.en"):
        (folder / name).write_bytes((tmp_path / name).read_bytes())
    assert len(data.load(f"{folder}/text.de, {folder}/text.en").train) == 32


@pytest.mark.parametrize("suffix", [".source .target", ".src .tgt", ".source.gz .target.gz"])
def test_parallel_files_in_a_folder(tmp_path, suffix):
    for side, end in enumerate(suffix.split()):
        content = "".join(f"{row[side]}\n" for row in ROWS).encode()
        (tmp_path / f"train{end}").write_bytes(gzip.compress(content) if end.endswith("gz") else content)
    assert len(data.load(tmp_path).train) == 32


@pytest.mark.parametrize("name", ["a.jsonl", "a.JSONL", "a.tsv.jsonl", "a.jsonl.gz", "A.JSONL.GZ"])
def test_json_lines_by_their_name(tmp_path, name):
    content = "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in ROWS).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    assert len(data.load(tmp_path / name).train) == 32
    assert len(data.load(write(tmp_path / "b.jsonl.tsv")).train) == 32


def test_columns_of_files_that_have_none(tmp_path):
    assert "takes no columns, which are for JSON lines" in message(write(tmp_path / "pairs.tsv"), columns="a,b")
    assert "columns: got 'a,a'; expected two names" in message(tmp_path / "pairs.tsv", columns="a,a")


def test_what_the_system_says(tmp_path):
    assert "File name too long" in message("x" * 300 + ".tsv")
    assert "Could not determine home" in message("~no-such-user/x.tsv")
    assert message("") == "name: got nothing; expected a task, a file or a folder (see 'ctree data list')"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert "loop" in message(tmp_path / "loop")
    assert "no such file" in message(write(tmp_path / "pairs.tsv"), test="scan-length")


def test_json_lines_with_columns_of_other_names(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"q": s, "a": t}) + "\n" for s, t in ROWS))
    assert len(data.load(path, columns=("q", "a")).train) == len(data.load(path, columns="q, a").train) == 32
    assert "columns: got 'q'; expected two names" in message(path, columns="q")
    assert "line 1: has no 'source'; it has 'q', 'a'" in message(path)


@pytest.mark.parametrize("name", ["validation", "valid", "val", "dev"])
def test_a_folder(tmp_path, name):
    write(tmp_path / "train.tsv")
    write(tmp_path / f"{name}.tsv", ROWS[:5])
    for side, suffix in enumerate(("src", "tgt")):
        (tmp_path / f"test.{suffix}").write_text("".join(f"{row[side]}\n" for row in ROWS[:6]))
    task = data.load(tmp_path)
    assert sizes(task) == {"train": 40, "validation": 5, "test": 6}
    assert list(task.test) == ROWS[:6]


def test_a_folder_that_is_not_clear(tmp_path):
    assert "no training set; expected train.tsv, train.jsonl, or train.source and train.target" in message(tmp_path)
    write(tmp_path / "train.tsv")
    (tmp_path / "train.jsonl").write_text('{"source": "a", "target": "b"}')
    assert "has train.tsv, train.jsonl; expected one of them" in message(tmp_path)
    (tmp_path / "train.jsonl").unlink()
    (tmp_path / "test.source").write_text("a\n")
    assert "test.target: cannot be read" in message(tmp_path)


def test_too_few_to_divide(tmp_path):
    assert "2 different sources; expected 3 at least" in message(write(tmp_path / "pairs.tsv", ROWS[:2]))
    assert sizes(data.load(write(tmp_path / "pairs.tsv", ROWS[:3]))) == {"train": 1, "validation": 1, "test": 1}
    same = write(tmp_path / "pairs.tsv", [("same", "x"), ("same ", "y"), (" same", "z")])
    assert "1 different source; expected 3 at least, one for each set" in message(same)


def test_names_that_are_not_there(tmp_path):
    assert message("scan-lenght") == "scan-lenght: no such task or file; did you mean scan-length?"
    assert message("nothing.tsv") == "nothing.tsv: no such task or file; see 'ctree data list' for the tasks"
    assert "no such folder" in message("scan-simple", tmp_path / "none")
    assert "no such folder" in message("questions", tmp_path / "none")
    assert len(data.load("scan-length", tmp_path / "none").test) == 3920  # which needs no folder
    for option in ("test", "validation", "columns"):
        assert (
            message("scan-jump", **{option: "x,y"})
            == f"scan-jump: takes no {option}, which is for your own pairs; leave it out"
        )
    assert message("scan-jump", form="raw") == "scan-jump: takes no form, which is for Multi30k; leave it out"
    assert "hold_out='combination' is for SCAN" in message("questions", hold_out="combination")
    assert message("scan-jump", seed=-1) == "seed: got -1; expected a whole number, 0 or more"


def test_every_task_has_a_line():
    scans = [f"scan-{split}" for split in ("simple", *scan.SPLITS)]
    assert list(data.TASKS) == [*scans, "questions", "multi30k-de-en", "multi30k-en-de"]


def test_where_data_are(monkeypatch, tmp_path):
    assert loading.data_folder("~/x").is_absolute()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert loading.data_folder() == tmp_path / "torch-ctree"
    monkeypatch.setenv("CTREE_DATA", "/elsewhere")
    assert str(loading.data_folder()) == "/elsewhere"
    assert isinstance(data.load("scan-jump", tmp_path).train, Pairs)
