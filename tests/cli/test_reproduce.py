"""``ctree reproduce`` and ``ctree report``."""

import json
from pathlib import Path

import pytest

from tests.experiments.test_results import put
from tests.experiments.tiny import WILD, failed, result, small_here, small_presets
from tests.processes import from_one
from tests.viewing.report.markup import Page
from torch_ctree.cli import main
from torch_ctree.cli.reproduce import parse_time
from torch_ctree.training import pool


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    return small_here(tmp_path, monkeypatch)


def test_a_part_of_the_table(small, capsys):
    """One run that goes well and one that fails; then only the other one is tried again."""
    small_presets(small, paper_scan_jump=WILD)
    words = [
        "reproduce",
        "scan",
        "--rows",
        "OM-CTree + LA",
        "--splits",
        "length,jump",
        "--seeds",
        "3",
        "--commit",
        "abc",
    ]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--at-once", "1"])
    assert stopped.value.code == 1
    said = capsys.readouterr().out
    assert said.startswith("2 runs: 0 done before, 2 to do\n")
    assert "\nfailed: OM-CTree + LA, jump, seed 3: epoch 1: the training loss is not a number any more" in said
    assert "\n1 run done, 1 failed, 298 of 300 still to do; all of it: results/scan.md\n" in said
    assert said.endswith("\n1 run failed; the same command tries again\n")
    found = json.loads(Path("results/scan/om-ctree-la/length-3.json").read_text())
    assert (found["task"], found["row"], found["split"], found["seed"]) == ("scan", "OM-CTree + LA", "length", 3)
    assert found["commit"] == "abc"
    assert 0 <= found["metrics"]["exact_match"] <= 1
    value = f"{100 * found['metrics']['exact_match']:.1f}"
    assert f"| OM-CTree + LA | Length | {value} |\n" in Path("results/scan.md").read_text()
    run = Path("runs/reproduce/scan/om-ctree-la/length-3")
    assert (run / "model.safetensors").exists()
    made = Page((run / "report.html").read_text())
    assert "made by" not in made.said  # nothing is missing
    assert "published 44.7 ± 33.5%" in made.said

    main([*words[:4], "--splits", "length", "--seeds", "3"])
    again = capsys.readouterr().out
    assert again.startswith("1 run: 1 done before, 0 to do\n")
    assert "still to do; all of it: results/scan.md\n" in again


def test_no_time_at_all(ctree, small, monkeypatch):
    monkeypatch.setattr(pool, "SPAWN", from_one())
    said = ctree(
        "reproduce", "scan", "--rows=om-ctree", "--splits=jump,length", "--seeds=0-9", "--budget=0", "--at-once=1"
    )
    assert said.startswith("20 runs: 0 done before, 20 to do\n")
    assert "\n0 runs done, 300 of 300 still to do; all of it: results/scan.md\n" in said
    assert said.endswith("\nthe time is over, with 20 runs left; go on with the same command\n")
    assert not Path("results/scan").exists()


def test_a_report(ctree, tmp_path):
    for found in (result(value=0.2), result(seed=1, value=0.4), failed(seed=2)):
        put(tmp_path, found)
    said = ctree("report", tmp_path)
    assert "30.0 ± 14.1" in said
    assert "Bastings et al. (2018)" in said
    assert "failed: OM-CTree, length, seed 2: out of memory\n" in said
    assert f"\n2 runs done, 1 failed, 297 of 300 still to do; all of it: {tmp_path}/scan.md\n" in said
    assert said.endswith(f"\nas a page: {tmp_path}/report.html\n")
    assert "30.0 ± 14.1" in Page((tmp_path / "report.html").read_text()).said
    assert not (tmp_path / "questions.md").exists()


def test_list(ctree):
    said = ctree("reproduce", "--list")
    for name in ("OM-Seq + LA", "birnn-ctree-la", "paper-scan-length-om-ctree", "scan-around-right", "paper-questions"):
        assert name in said
    assert "splits of questions: questions; 5 seeds" in said
    assert "OM-Seq" not in ctree("reproduce", "questions", "--list")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("20m", 1200), ("1.5h", 5400), (" 0.5 m ", 30), ("0", 0)]
)
def test_times(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "table: got nothing; expected scan or questions or multi30k"),
        (["multi30"], "table: got 'multi30'; expected scan or questions or multi30k"),
        (["multi30k", "--rows", "torch-ctree"], "torch-ctree: learns from the answers of Transformer, en-de-0, of "),
        (["scan", "--rows", "seq-seq"], "rows: got 'seq-seq'; expected some of om-seq-la, birnn-ctree-la, om-ctree, "),
        (["scan", "--rows", ""], "rows: got ''; expected some of om-seq-la, "),
        (["questions", "--splits", "jump"], "splits: got 'jump'; expected some of questions"),
        (["scan", "--seeds", "9-0"], "seeds: got '9-0'; expected seeds such as 0-9 or 0,3,7"),
        (["scan", "--budget", "soon"], "budget: got 'soon'; expected a time such as 90s, 20m or 1.5h"),
        (["scan", "--budget=-5m"], "budget: got '-5m'; expected a time such as 90s, 20m or 1.5h"),
        (["scan", "--at-once", "0"], "at-once: got 0; expected a whole number, 1 or more"),
        (["scan", "--at-once", "2", "--ray", "auto"], "at-once: got 2 with --ray; expected --gpus-each with it"),
        (["scan", "--gpus-each", "0.5"], "gpus-each: got 0.5; expected --ray ADDRESS with it"),
        (["scan", "--results", ""], "results: got nothing; expected a folder"),
        (["scan", "--runs", ""], "runs: got nothing; expected a folder"),
        (["scan", "--root", "nowhere"], "nowhere: no such folder; expected one that holds data files"),
    ],
)
def test_what_is_wrong_in_one_line(refused, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused("reproduce", *words)
    assert not any(tmp_path.iterdir())


def test_reports_of_nothing(refused, tmp_path):
    said = refused("report", tmp_path / "x")
    assert f"{tmp_path}/x: no results here; expected those of 'ctree reproduce', or the folder of a run" in said
    path = put(tmp_path, result())
    path.write_text("{")
    assert f"{path}: not a whole JSON file" in refused("report", tmp_path)


def test_other_settings(refused, small):
    path = put(Path("results"), result(seed=0))
    said = refused("reproduce", "scan", "--rows", "om-ctree", "--splits", "length", "--seeds", "0")
    assert f"{path}: made with data.name '', and its row now has " in said
