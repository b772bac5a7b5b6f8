"""The reports that commands leave in the folders of runs."""

import re
from pathlib import Path

from rich.console import Console

from tests.viewing.report.folders import write_run
from tests.viewing.report.markup import Page
from torch_ctree import training
from torch_ctree.cli import train as command
from torch_ctree.cli.report import keep_report
from torch_ctree.training import TrainConfig
from torch_ctree.training.pool import Outcome

FAST = ["--model.width", "4", "--optimisation.max_epochs", "1"]


def test_after_training_and_after_evaluating(ctree, pairs, monkeypatch):
    monkeypatch.chdir(pairs.parent)
    ctree("train", "--data", "pairs.tsv", *FAST)
    report = Path("runs/pairs-0/report.html")
    made = Page(report.read_text())
    assert "validation accuracy" in made.said
    assert made.said.count("is not here; made by ctree evaluate") == 3
    ctree("evaluate", "runs/pairs-0")
    made = Page(report.read_text())
    assert "made by ctree" not in made.said
    assert "tree of the answer" in made.said
    before = report.read_bytes()
    report.unlink()
    assert ctree("report", "runs/pairs-0") == "report: runs/pairs-0/report.html\n"
    assert re.sub(rb"\d\d:\d\d", b"", report.read_bytes()) == re.sub(rb"\d\d:\d\d", b"", before)


def test_published_numbers_of_a_row(ctree, tmp_path):
    run = write_run(tmp_path / "run")
    config = training.build(training.merged(training.read(training.preset("paper-scan-length")), {"seed": 7}))
    config.save(run / "config.yaml")
    ctree("report", run)
    assert "published 44.7 ± 33.5%" in Page((run / "report.html").read_text()).said


def test_training_is_done_even_without_a_report(ctree, pairs, monkeypatch):
    monkeypatch.chdir(pairs.parent)
    Path("runs/pairs-0/report.html").mkdir(parents=True)  # where the file should be
    said = ctree("train", "--data", "pairs.tsv", *FAST).splitlines()
    assert said[-3].startswith("best: ")
    assert said[-2].startswith("no report: runs/pairs-0/report.html: cannot be written: ")
    assert said[-2].endswith("; this tries again: ctree report runs/pairs-0")
    assert said[-1] == "next: ctree evaluate runs/pairs-0"


def test_many_runs_have_one_each(ctree, monkeypatch, tmp_path):
    def train(runs, at_once, console):
        return [Outcome(run, {"epoch": 2, "validation_accuracy": 0.5}, None, 1.0) for run in runs]

    monkeypatch.setattr(command, "train_together", train)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/scan-length-1/report.html").mkdir(parents=True)
    monkeypatch.setattr(command, "_check_new", lambda folders: None)
    said = ctree("train", "scan-length", "--seeds", "0-2").splitlines()
    assert sum(line.startswith("no report: ") for line in said) == 1
    assert "reports: report.html in the folder of each finished run" not in said
    assert [Path(f"runs/scan-length-{seed}/report.html").is_file() for seed in range(3)] == [True, False, True]


def test_whatever_goes_wrong(tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise RuntimeError("two\nlines")

    run = write_run(tmp_path / "run")
    monkeypatch.setattr("torch_ctree.cli.report.write_run_report", fail)
    keep_report(run, TrainConfig(), Console(width=500))
    assert capsys.readouterr().out == f"no report: two lines; this tries again: ctree report {run}\n"
