import gzip
import os
import subprocess
import sys

import pytest

from torch_ctree import data
from torch_ctree.cli import main
from torch_ctree.data import multi30k, scan

from ..tiny_multi30k import put


def pairs_file(path, n=30):
    path.write_text("".join(f"source {n}\ttarget number {n}\n" for n in range(n)))
    return path


def test_list_names_every_task(ctree):
    printed = ctree("data", "list")
    assert all(name in printed for name in data.TASKS)


def test_show_rows_with_their_trees(ctree):
    printed = ctree("data", "show", "scan-length", "--n", "5")
    assert printed.startswith("scan-length train: 15,291 pairs (made from the grammar; the published split")
    sources = {pair.source for pair in data.load("scan-length").train}
    shown = [line for line in printed.splitlines() if line in sources]
    assert len(shown) == 5
    assert "┌" in printed  # a tree that fits is drawn
    assert "─┬─" in printed  # one that does not grows sideways
    assert ctree("data", "show", "scan-length", "--n", "5") == printed
    assert ctree("data", "show", "scan-length", "--n", "5", "--seed", "1") != printed  # other rows are held out


def test_show_another_set_and_what_is_held_out(ctree):
    assert "scan-jump test: 7,706 pairs" in ctree("data", "show", "scan-jump", "--set", "test", "--n", "1")
    printed = ctree("data", "show", "scan-jump", "--set", "validation", "--n", "3", "--hold-out", "around thrice")
    assert "validation: around thrice" in printed
    sources = {pair.source for pair in data.load("scan-jump").train} | {
        pair.source for pair in data.load("scan-jump").validation
    }
    shown = [line for line in printed.splitlines() if line in sources]
    assert len(shown) == 3
    assert all(any({"around", "thrice"} <= set(phrase.split()) for phrase in scan.phrases(line)) for line in shown)


def test_show_your_own(ctree, tmp_path):
    assert "target number" in ctree("data", "show", pairs_file(tmp_path / "pairs.tsv"), "--n", "1")


def test_check(ctree, tmp_path):
    printed = ctree("data", "check", "scan-length")
    assert "tree depth: 6, for targets of up to 48 words" in printed
    assert "training words: 13 in sources, 6 in targets" in printed
    assert max(map(len, printed.splitlines()[:4])) <= 80
    path = pairs_file(tmp_path / "pairs.tsv")
    path.write_text(path.read_text() + "source 1\tother\nsource 1\tother\n" + "long\t" + "w " * 33 + "\n")
    printed = ctree("data", "check", path, "--test", pairs_file(tmp_path / "test.tsv", 4))
    assert "tree depth: 6, for targets of up to 33 words" in printed
    assert "train: 1 sources have more than one target" in printed
    test = next(line.split() for line in printed.splitlines() if line.startswith("test"))
    train = {pair.source for pair in data.load(path, test=tmp_path / "test.tsv").train}
    assert test[-1] == str(len(train & {f"source {n}" for n in range(4)}))


def test_check_reads_parallel_files_and_json_lines(ctree, tmp_path):
    for name in ("a.de", "b.en"):
        (tmp_path / name).write_text("".join(f"word {n}\n" for n in range(10)))
    assert "train" in ctree("data", "check", f"{tmp_path}/a.de,{tmp_path}/b.en")
    (tmp_path / "c.jsonl").write_text("".join(f'{{"q": "word {n}", "a": "x"}}\n' for n in range(10)))
    assert "train" in ctree("data", "check", tmp_path / "c.jsonl", "--columns", "q,a")


def test_prepare_from_a_folder(ctree, tiny, tmp_path):
    put(tmp_path / "given")
    printed = ctree("data", "prepare", "multi30k", "--from", tmp_path / "given", "--root", tmp_path / "root")
    assert printed == f"16 files of multi30k are in {tmp_path}/root\n"
    assert "ein hund ." in ctree("data", "show", "multi30k-de-en", "--root", tmp_path / "root")
    assert "Ein Hund." in ctree("data", "show", "multi30k-de-en", "--form", "raw", "--root", tmp_path / "root")


def test_prepare_offline(refused, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "URL", "http://127.0.0.1:9/")
    said = refused("data", "prepare", "multi30k", "--root", tmp_path)
    assert "cannot be reached" in said
    assert "`ctree data prepare multi30k --from FOLDER` takes local copies" in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\tb\nc d\n", "pairs.tsv, line 2: 1 column; expected 2"),
        (b"a\tb\nc\td\xff\n", "pairs.tsv, line 2: byte 0xff is not UTF-8"),
        (b"a\tb\n\td\n", "pairs.tsv, line 2: the source is empty"),
        (b"a\tb\nc\td", "pairs.tsv, line 2: the file ends in the middle of this line"),
        (b"", "pairs.tsv: the file is empty"),
    ],
)
def test_bad_files(refused, tmp_path, content, said):
    (tmp_path / "pairs.tsv").write_bytes(content)
    assert said in refused("data", "check", tmp_path / "pairs.tsv")
    assert said in refused("data", "show", tmp_path / "pairs.tsv")


def test_a_wrong_checksum_leaves_nothing_behind(refused, tiny, tmp_path):
    given = put(tmp_path / "given")
    (given / "raw" / "train.de.gz").write_bytes(gzip.compress(b"other\n"))
    said = refused("data", "prepare", "multi30k", "--from", given, "--root", tmp_path / "root")
    assert "raw/train.de.gz: SHA-256 is" in said
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["data", "show", "scan-lenght"], "no such task or file; did you mean scan-length?"),
        (
            ["data", "show", "scan-length", "--set", "gen"],
            "scan-length has no set 'gen'; it has train, validation, test",
        ),
        (["data", "show", "scan-length", "--n", "x"], "n: Expected a int. Got value: x"),
        (["data", "show", "scan-length", "--n", "0"], "n: got 0; expected 1 or more"),
        (["data", "show"], "expected name (see 'ctree data show --help')"),
        (["data", "show", "pairs.tsv", "--seed", "a.b"], "seed: Expected a int. Got value: a.b"),
        (["data", "list", "pairs.tsv"], "nrecognized arguments: pairs.tsv"),
        (["data", "shwo", "x"], "invalid choice: 'shwo'"),
        (["data"], "expected one of {list,show,prepare,check}"),
        (["dta"], "invalid choice: 'dta'"),
        (["data", "list", "--loud"], "nrecognized arguments: --loud"),
        (["data", "prepare", "scan-foo"], "nothing to prepare"),
        (["data", "prepare", "pairs.tsv"], "nothing to prepare; expected one of multi30k, scan, questions"),
        (["data", "prepare", "scan-simple"], "made from its grammar, nothing to download"),
        (["data", "check", "scan-length", "--seed", "-1"], "seed: got -1; expected a whole number, 0 or more"),
    ],
)
def test_bad_command_lines(refused, words, said):
    assert said in refused(*words)


def test_help(capsys):
    main([])
    assert "usage: ctree" in capsys.readouterr().out
    for words in (["--help"], ["data", "--help"], ["data", "show", "--help"]):
        with pytest.raises(SystemExit) as stopped:
            main(words)
        assert stopped.value.code == 0
        assert "usage: ctree" in capsys.readouterr().out


def test_what_is_shown_is_what_is_there(ctree, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f":smile: [bold]{n} \x1b[31m\t\x07 b\n" for n in range(9)))
    printed = ctree("data", "show", tmp_path / "pairs.tsv", "--n", "1")
    assert ":smile: [bold]" in printed
    assert r"\x1b[31m" in printed
    assert r"\x07 b" in printed


def test_an_option_is_never_taken_for_nothing(refused, tmp_path):
    path = pairs_file(tmp_path / "pairs.tsv")
    for word in ("null", "#x", "~"):
        assert "ctree: " in refused("data", "check", path, "--test", tmp_path / word / "none")
    assert "no such file" in refused("data", "check", path, "--test", "null")


@pytest.mark.parametrize("columns", ["0", "20", "40", "200"])
def test_no_terminal_is_too_narrow(ctree, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    assert all(name in ctree("data", "list") for name in data.TASKS)
    assert "validation  1,467 1–9 (6.7)" in ctree("data", "check", "scan-jump")


def test_names_stand_in_errors_as_they_are(refused, tmp_path):
    assert "two  blanks.tsv: no such" in refused("data", "check", "two  blanks.tsv")


@pytest.mark.parametrize(
    ("environment", "redirect", "code", "said"),
    [
        ({"PYTHONIOENCODING": "ascii"}, "", 0, ""),
        ({}, "> /dev/full", 2, "ctree: cannot write: No space left on device\n"),
        ({}, ">&-", 0, ""),
    ],
)
def test_outputs_of_all_kinds(environment, redirect, code, said):
    command = f"{sys.executable} -m torch_ctree data show scan-length --n 1 {redirect}"
    done = subprocess.run(
        ["bash", "-c", command], check=False, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert (done.returncode, done.stderr) == (code, said)


def test_as_a_program():
    command = [sys.executable, "-W", "error", "-m", "torch_ctree", "data"]
    assert "scan-length" in subprocess.run([*command, "list"], check=True, capture_output=True, text=True).stdout
    bad = subprocess.run([*command, "show", "none.tsv"], check=False, capture_output=True, text=True)
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)


def test_whoever_reads_may_stop():
    command = f"{sys.executable} -m torch_ctree data show questions --n 3000 | head -n 1"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert done.stdout.startswith("questions train: ")
    assert done.stderr == ""
