import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from torch_ctree import training
from torch_ctree.cli import main
from torch_ctree.cli import train as command
from torch_ctree.models import Seq2Seq
from torch_ctree.training import TrainConfig, running
from torch_ctree.training.configuration import SECTIONS
from torch_ctree.training.pool import Outcome
from torch_ctree.training.together import Run

from .conftest import TINY

FAST = ["--model.width", "4", "--model.slots", "2", "--optimisation.max_epochs", "1"]


@pytest.fixture
def chosen(monkeypatch, tmp_path):
    """The settings and the folder of each run that would be trained."""
    runs: list[tuple[TrainConfig, Path]] = []

    def train(config, folder, resume, console):
        runs.append((config, folder))
        return running.Finished(folder, {"epoch": 1, "validation_accuracy": 0.5}, 1, 1)

    monkeypatch.setattr(running, "train", train)
    monkeypatch.chdir(tmp_path)
    return runs


@pytest.mark.parametrize("data", [["--data", "pairs.tsv"], ["--data=pairs.tsv"], ["--data.name", "pairs.tsv"]])
def test_your_own_pairs(ctree, pairs, monkeypatch, data):
    monkeypatch.chdir(pairs.parent)
    said = ctree("train", *data, *FAST).splitlines()
    assert said[0] == f"{pairs}: 49 pairs to train on, 5 to validate"
    assert said[1].endswith("seed 0 → runs/pairs-0")
    assert said[2] == "tree depth 3, chosen from the data: the longest target has 4 tokens, and there is room for 8"
    assert [line.split()[:2] for line in said[3:-3]] == [["epoch", "1"]]
    assert said[-3].startswith("best: epoch 1, validation accuracy ")
    assert said[-3].endswith("; the model is in runs/pairs-0")
    assert said[-2] == "report: runs/pairs-0/report.html"
    assert said[-1] == "next: ctree evaluate runs/pairs-0"
    model = Seq2Seq.from_pretrained("runs/pairs-0")
    assert (model.config.width, model.config.depth) == (4, 3)
    assert training.build(training.read(Path("runs/pairs-0/config.yaml"))).data.name == str(pairs)


def test_a_preset(ctree, chosen):
    said = ctree("train", "scan-length")
    ((config, folder),) = chosen
    assert config == training.build(training.read(training.preset("scan-length")))
    assert folder == Path("runs/scan-length-0")
    assert said.endswith("next: ctree evaluate runs/scan-length-0\n")


def test_a_preset_yields_to_a_file_and_both_to_flags(ctree, chosen):
    Path("mine.yaml").write_text("seed: 3\nmodel: {width: 32, slots: 7}\n")
    given = ["scan-jump", "--config", "mine.yaml", "--model.slots", "2", "--optimisation.lr", "1e-3"]
    ctree("train", *given)
    ctree("train", *given, "--seed", "4")
    (config, folder), (other, other_folder) = chosen
    assert (config.data.name, config.model.depth) == ("scan-jump", 20)  # the preset's
    assert (config.seed, config.model.width) == (3, 32)  # the file's
    assert (config.model.slots, config.optimisation.lr) == (2, 1e-3)  # the flags'
    assert (other.seed, folder, other_folder) == (4, Path("runs/scan-jump-3"), Path("runs/scan-jump-4"))


def test_what_a_run_is_called(ctree, chosen, pairs):
    Path("tiny.yaml").write_text("data: {name: scan-length}\n")
    pairs.rename("two words.tsv")
    ctree("train", "--config", "tiny.yaml")
    said = ctree("train", "--data", "two words.tsv", "--seed", "2")
    ctree("train", "--data", "scan-jump")
    ctree("train", "--data", "scan-jump", "--run", "here/there")
    assert [str(folder) for _, folder in chosen] == [
        "runs/tiny-0",
        "runs/two words-2",
        "runs/scan-jump-0",
        "here/there",
    ]
    assert said.endswith("next: ctree evaluate 'runs/two words-2'\n")  # as a shell takes it


def test_a_smaller_one(ctree, chosen):
    ctree("train", "multi30k", "--small", "--model.width", "32")
    ctree("train", "multi30k-de-en", "--small")
    ctree("train", "multi30k")
    (short, _), (long, _), (large, _) = chosen
    assert [str(folder) for _, folder in chosen] == [
        "runs/multi30k-small-0",
        "runs/multi30k-de-en-small-0",
        "runs/multi30k-0",
    ]
    assert short.model == replace(long.model, width=32)
    assert long.data == large.data
    assert long.model.width < large.model.width


def test_there_may_be_none(refused):
    said = refused("train", "scan-jump", "--small")
    assert said == (
        "ctree: small: there is no smaller scan-jump; expected one of multi30k-de-en, multi30k-en-de, or no --small\n"
    )
    assert refused("train", "multi30", "--small") == "ctree: multi30: no such preset; did you mean multi30k?\n"
    assert "small: no preset is named" in refused("train", "--small", "--data", "pairs.tsv")


def test_text_stays_text(ctree, chosen):
    Path("10").write_text("a\tb\n")
    ctree("train", "--data", "10", "--data.hold_out", "null", "--data.columns", "1,2", "--run", "r")
    assert (chosen[0][0].data.name, chosen[0][0].data.hold_out, chosen[0][0].data.columns) == ("10", None, "1,2")


def test_list(ctree):
    rows = ctree("train", "--list").splitlines()
    assert [row.split()[0] for row in rows[1:]] == [*sorted(training.presets()), *training.ALIASES]
    assert all(len(row.split()) > 1 for row in rows[1:])


def test_help_explains_every_setting(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "--help"])
    assert stopped.value.code == 0
    said = capsys.readouterr().out
    assert said.startswith("usage: ctree train [PRESET] [options] [settings]\n")
    for section, kind in SECTIONS.items():
        for name in kind.__annotations__:
            assert f"  --{section}.{name} " in said
    assert all(noise not in said for noise in ("type:", "null", "``", "default: False", "==SUPPRESS=="))
    assert max(map(len, said.splitlines())) <= 80


def test_resume_without_a_preset(ctree, own, tmp_path):
    run = shutil.copytree(own, tmp_path / "run")
    before = (run / "model.safetensors").read_bytes()
    said = ctree("train", "--resume", "--run", run)
    assert "best: epoch" in said
    assert (run / "model.safetensors").read_bytes() == before  # there was nothing left to do
    ctree("train", "--resume", "--run", run, "--optimisation.max_epochs", "13")
    assert (run / "metrics.csv").read_text().count("\n") == 1 + 13


@pytest.mark.parametrize("has_begun", [False, True])
def test_stopping(monkeypatch, capsys, chosen, has_begun):
    def train(config, folder, resume, console):
        folder.mkdir(parents=True)
        if has_begun:
            (folder / "config.yaml").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "train", train)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "scan-length", "--run", "a b"])
    assert stopped.value.code == 130
    then = "; go on with: ctree train --resume --run 'a b'" if has_begun else ""
    assert capsys.readouterr() == (f"stopped{then}\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "nothing to train on; name a preset (see 'ctree train --list') or --data pairs.tsv"),
        (["scan-lenght"], "scan-lenght: no such preset; did you mean scan-length?"),
        (["xyzzy"], "xyzzy: no such preset; see 'ctree train --list'"),
        (["pairs.tsv"], "pairs.tsv: no such preset; did you mean --data pairs.tsv?"),
        (["tiny.yaml"], "tiny.yaml: no such preset; did you mean --config tiny.yaml?"),
        (["--data"], "--data.name: expected one argument"),
        (["--data", ""], "nothing to train on"),
        (["--data="], "nothing to train on"),
        (["--data", "none.tsv"], "none.tsv: no such task or file"),
        (["--model.widht", "8"], "--model.widht; did you mean --model.width? (see 'ctree train --help')"),
        (["demo", "--modle.width=8"], "--modle.width=8; did you mean --model.width?"),
        (["demo", "--optimization.lr", "1"], "did you mean --optimisation.lr?"),
        (["demo", "--sed", "1"], "did you mean --seed?"),
        (["demo", "again"], "unrecognized arguments: again"),
        (["demo", "--seed", "x"], "seed: Expected a int. Got value: x"),
        (["demo", "--seed", "-1"], "seed: got -1; expected a whole number, 0 or more"),
        (["demo", "--seeds", "9-0"], "seeds: got '9-0'; expected seeds such as 0-9 or 0,3,7"),
        (["demo", "--seeds", "0-5", "--seed", "1"], "seed: got 1 and --seeds 0-5; expected one of the two"),
        (["demo", "--seeds", "0-5", "--at-once", "0"], "at-once: got 0; expected a whole number, 1 or more"),
        (["demo", "--at-once", "3"], "at-once: got 3; expected --seeds with it"),
        (["demo", "--seeds", "0,1", "--trainer.devices", "2"], "trainer.devices: got 2; expected 1 where many runs"),
        (["demo", "--seeds", "0,1", "--run", "pairs.tsv"], "pairs.tsv: a file, not a folder for runs"),
        (["--seeds", "0,1", "--resume", "--run", "none"], "nothing to go on with; name a preset"),
        (["--data", "none.tsv", "--seeds", "0,1"], "none.tsv: no such task or file"),
        (["--data", "pairs.tsv", "--seeds", "0,1", "--model.depth", "1"], "raise --model.depth to 2"),
        (["demo", "--run", ""], "run: got nothing; expected a path"),
        (["demo", "--config", ""], "config: got nothing; expected a path"),
        (["demo", "--model.width", "x"], "model.width: got 'x'; expected a whole number"),
        (["demo", "--model.width", ""], "model.width: got None; expected a whole number"),
        (["demo", "--model.width", "7"], "model.width: got 7; expected an even number"),
        (["demo", "--model.depth", "99"], "model.depth: got 99; expected a whole number from 0 to 20"),
        (["demo", "--model.output", "x"], "model.output: got 'x'; expected mlp"),
        (["demo", "--model.dropout", "nan"], "model.dropout: got nan; expected a number from 0"),
        (["demo", "--optimisation.lr", "fast"], "optimisation.lr: got 'fast'; expected a number"),
        (["demo", "--trainer.deterministic", "2"], "trainer.deterministic: got 2; expected true or false"),
        (["--config", "none.yaml"], "none.yaml: cannot be read: No such file or directory"),
        (["--config", "."], ".: cannot be read: Is a directory"),
        (["--config", "pairs.tsv"], "pairs.tsv, line 1: not YAML"),
        (["--config", "list.yaml"], "list.yaml: got ['a']; expected settings"),
        (["--config", "strange.yaml"], "model.widht: no such setting; did you mean model.width?"),
        (["--config", "latin.yaml"], "latin.yaml: cannot be read: 'utf-8' codec can't decode"),
        (["--resume"], "nothing to go on with; name a preset, or the folder of a run"),
        (["--resume", "--run", "none"], "none: no run here to go on with"),
        (
            ["--data", "pairs.tsv", "--run", "pairs.tsv"],
            "pairs.tsv: no folder for a run: File exists",
        ),
        (["--data", "pairs.tsv", "--model.depth", "1"], "raise --model.depth to 2 or leave them out"),
        (["--data", "pairs.tsv", "--model.encoder", "birn"], "model.encoder: got 'birn'; did you mean 'birnn'?"),
    ],
)
def test_bad_command_lines(refused, pairs, monkeypatch, words, said):
    monkeypatch.chdir(pairs.parent)
    Path("tiny.yaml").write_text(TINY)
    Path("list.yaml").write_text("- a\n")
    Path("strange.yaml").write_text("model: {widht: 8}\n")
    Path("latin.yaml").write_bytes(b"data: {name: caf\xe9}\n")
    assert said in refused("train", *words)
    assert not Path("runs").exists()


def test_a_run_is_never_written_over(refused, own, pairs):
    before = {path: path.read_bytes() for path in own.iterdir() if path.is_file()}
    said = refused("train", "--data", pairs, "--run", own)
    assert said == f"ctree: {own}: there is a run already; go on with it (--resume), or name another folder (--run)\n"
    assert before == {path: path.read_bytes() for path in own.iterdir() if path.is_file()}


# --- many seeds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", [7]),
        ("0-3", [0, 1, 2, 3]),
        ("0,3,7", [0, 3, 7]),
        ("0-2,8", [0, 1, 2, 8]),
        ("8, 0-2", [8, 0, 1, 2]),
        ("3-3", [3]),
        ("1,0-2,1", [1, 0, 2]),
    ],
)
def test_seeds(text, expected):
    assert command.parse_seeds(text) == expected


@pytest.mark.parametrize("text", ["", ",", "1,", "-1", "9-0", "1-", "a", "0..9", "0-9-12", "1.5", "1_0", "٣", "0-1000"])
def test_bad_seeds(text):
    with pytest.raises(training.TrainingError) as error:
        command.parse_seeds(text)
    assert str(error.value).startswith(f"seeds: got {text!r}; expected seeds such as 0-9 or 0,3,7")


@pytest.fixture
def side_by_side(monkeypatch, tmp_path):
    """The runs that would be trained side by side, and how many at once; those with an odd seed fail."""
    calls: list[tuple[list[Run], int]] = []

    def train(runs, at_once, console):
        calls.append((list(runs), at_once))
        return [
            Outcome(run, None, f"out of memory [{run.config.seed}]", 1234.5)
            if run.config.seed % 2
            else Outcome(run, {"epoch": 2, "validation_accuracy": 0.5 + run.config.seed / 10}, None, 61.4)
            for run in runs
        ]

    monkeypatch.setattr(command, "train_together", train)
    monkeypatch.setattr(command, "default_at_once", lambda config: 10)
    monkeypatch.chdir(tmp_path)
    return calls


def test_many_seeds(ctree, side_by_side):
    said = ctree("train", "scan-length", "--seeds", "0,2,4", "--model.slots", "2")
    assert [" ".join(line.split()) for line in said.splitlines()] == [
        "seed best epoch validation accuracy seconds folder",
        "0 2 50.00% 61 runs/scan-length-0",
        "2 2 70.00% 61 runs/scan-length-2",
        "4 2 90.00% 61 runs/scan-length-4",
        "validation accuracy 70.00% ± 20.00% (mean and standard deviation of 3 runs)",
        "reports: report.html in the folder of each finished run",
        "next: ctree evaluate runs/scan-length-0",
    ]
    ((runs, at_once),) = side_by_side
    assert at_once == 10
    assert [(run.config.seed, run.folder, run.resume) for run in runs] == [
        (seed, Path(f"runs/scan-length-{seed}"), False) for seed in (0, 2, 4)
    ]
    assert {run.config.model.slots for run in runs} == {2}


def test_many_seeds_of_a_translation(side_by_side, capsys, monkeypatch):
    trained = command.train_together
    monkeypatch.setattr(
        command,
        "train_together",
        lambda *given: [
            replace(one, result=one.result and one.result | {"validation_bleu": 30.0 + one.job.config.seed})
            for one in trained(*given)
        ],
    )
    with pytest.raises(SystemExit):
        main(["train", "scan-length", "--seeds", "0-2"])
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["seed", "best", "epoch", "validation", "accuracy", "BLEU", "seconds", "folder"]
    assert said[1].split() == ["0", "2", "50.00%", "30.00", "61", "runs/scan-length-0"]
    assert said[2].split() == ["1", "failed", "1,234", "runs/scan-length-1"]
    assert said[5] == "validation BLEU 31.00 ± 1.41 (mean and standard deviation of 2 runs)"


def test_one_of_many(ctree, side_by_side):
    said = ctree("train", "scan-length", "--seeds", "2", "--at-once", "3", "--run", "two words")
    assert said.splitlines()[2:] == [
        "validation accuracy 70.00%",
        "reports: report.html in the folder of each finished run",
        "next: ctree evaluate 'two words/scan-length-2'",
    ]
    ((runs, at_once),) = side_by_side
    assert (runs[0].folder, at_once) == (Path("two words/scan-length-2"), 3)


def test_some_fail(side_by_side, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["train", "scan-length", "--seeds", "0-2"])
    assert stopped.value.code == 1
    said, errors = capsys.readouterr()
    assert errors == ""
    assert said.splitlines()[2].split() == ["1", "failed", "1,234", "runs/scan-length-1"]
    assert said.splitlines()[4:] == [
        "validation accuracy 60.00% ± 14.14% (mean and standard deviation of 2 runs)",
        "runs/scan-length-1 failed: out of memory [1]",
        "reports: report.html in the folder of each finished run",
        "next: ctree evaluate runs/scan-length-0",
        "1 of 3 runs failed; the same command with --resume tries again",
    ]


def test_many_are_never_written_over(ctree, refused, side_by_side):
    Path("runs/scan-length-2").mkdir(parents=True)
    ctree("train", "scan-length", "--seeds", "0,2")  # there is nothing in it
    for seed in (2, 4):
        Path(f"runs/scan-length-{seed}").mkdir(exist_ok=True)
        Path(f"runs/scan-length-{seed}/config.yaml").touch()
    assert refused("train", "scan-length", "--seeds", "0-9") == (
        "ctree: runs/scan-length-0: there is a run already (and in 2 more); "
        "go on with it (--resume), or name another folder (--run)\n"
    )
    assert len(side_by_side) == 1
    ctree("train", "scan-length", "--seeds", "0,2,4", "--resume")
    assert [run.resume for run in side_by_side[1][0]] == [False, True, True]


@pytest.mark.parametrize("has_begun", [False, True])
def test_stopping_many(monkeypatch, capsys, tmp_path, has_begun):
    def train(runs, at_once, console):
        runs[0].folder.mkdir(parents=True)
        if has_begun:
            (runs[0].folder / "config.yaml").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "train_together", train)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "scan-length", "--seeds", "0-2"])
    assert stopped.value.code == 130
    then = "; go on with the same command and --resume" if has_begun else ""
    assert capsys.readouterr() == (f"stopped{then}\n", "")


def test_as_a_program(pairs):
    (pairs.parent / "tiny.yaml").write_text(TINY)
    command = [sys.executable, "-W", "error", "-m", "torch_ctree", "train", "--data", "pairs.tsv", *FAST]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=pairs.parent)
    assert done.stdout.endswith("next: ctree evaluate runs/pairs-0\n")
    assert done.stderr == ""
    assert yaml.safe_load((pairs.parent / "runs/pairs-0/config.yaml").read_text())["model"]["width"] == 4


def test_a_grammar_wants_phrases(refused, pairs, monkeypatch):
    """Said before anything is trained."""
    monkeypatch.chdir(pairs.parent)
    assert refused("train", "--data", "pairs.tsv", "--model.decoder", "grammar") == (
        "ctree: model.encoder: got 'ordered-memory'; expected one that reads phrases, such as 'spans', "
        "for the decoder 'grammar'\n"
    )
    assert not Path("runs").exists()
