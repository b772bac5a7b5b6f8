"""Sweeps of real runs. Processes take seconds to start: as much as possible is asked of each."""

import json
import os
import signal
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from tests.experiments.tiny import SCAN, WILD, failed, reproduce, result, small_presets
from tests.processes import start
from tests.tiny_multi30k import contents, put
from tests.training.jobs import until
from tests.training.runs import outcome, train
from torch_ctree import data
from torch_ctree.circumstances import circumstances
from torch_ctree.data import DataError, Task
from torch_ctree.evaluation import answer_all, evaluate, predict_all
from torch_ctree.experiments import TABLES
from torch_ctree.experiments.page import html
from torch_ctree.experiments.report import markdown
from torch_ctree.experiments.results import KEYS, read_result, read_results, write_result
from torch_ctree.experiments.sweep import (
    Job,
    Plan,
    Writer,
    _summary,
    check,
    entries_of,
    jobs_of,
    origin_of,
    sweep,
    work,
)
from torch_ctree.models import Seq2Seq
from torch_ctree.training import TrainingError, read
from torch_ctree.training.pool import Outcome

CHECKOUT = Path(__file__).parents[2] / "configs"
PLAN = Plan(Path("results"), Path("runs"), None, "ctree reproduce scan", "abc")
ROWS = {row.slug: row for row in SCAN.own}


def jobs(rows="om-ctree", splits="length", seeds=(0,), plan=PLAN) -> list[Job]:
    return jobs_of(entries_of(SCAN, [ROWS[row] for row in rows.split(",")], splits.split(","), seeds), plan)


def test_first_seeds_first():
    found = entries_of(SCAN, [ROWS["om-ctree"], ROWS["torch-ctree"]], ["jump", "length"], [3, 5])
    assert [(entry.seed, entry.row.slug, entry.split) for entry in found] == [
        (seed, row, split) for seed in (3, 5) for row in ("om-ctree", "torch-ctree") for split in ("jump", "length")
    ]


def test_a_run_and_all_that_is_said_of_it(small):
    (job,) = jobs()
    said: list[str] = []
    found = work(job, said.append)
    assert found is not None
    train(job.config, Path("alone"))
    assert outcome(job.folder) == outcome(Path("alone"))
    assert said[-1] == "testing"
    write_result(job.path, found | {"at_once": 1})
    found = read_result(Path("results/scan/om-ctree/length-0.json"))
    assert set(KEYS) <= set(found)
    here = circumstances(next(Seq2Seq.from_pretrained(job.folder).parameters()).device, "abc")
    assert {name: found[name] for name in ("hardware", "versions", "commit")} == {
        name: here[name] for name in ("hardware", "versions", "commit")
    }
    assert (found["command"], found["preset"], found["epochs"], found["attempts"]) == (
        "ctree reproduce scan",
        "paper-scan-length-om-ctree",
        3,
        1,
    )
    assert found["settings"]["optimisation"]["max_epochs"] == 3
    lines = (job.folder / "metrics.csv").read_text().splitlines()
    best = dict(zip(lines[0].split(","), lines[found["best_epoch"]].split(","), strict=True))
    assert float(best["validation_accuracy"]) == found["validation_accuracy"]
    task = job.config.data.load()
    expected = evaluate(predict_all(Seq2Seq.from_pretrained(job.folder), task, "test"), task)
    assert found["metrics"]["exact_match"] == expected.exact_match
    assert sum(share["total"] for share in found["metrics"]["by_length"].values()) == expected.pairs == 13
    assert found["metrics"]["cells"]["none"]["twice"]["total"] == sum("twice" in text for text in task.test.sources())


def test_many_of_which_one_fails_and_then_again(small):
    """What is done is not done again; what failed is, where need be with what it had."""
    small_presets(small, paper_scan_jump_om_ctree=WILD)
    todo = jobs(splits="jump,length", seeds=(0, 1))
    said = StringIO()
    console = Console(file=said, width=200)
    outcomes = sweep(todo, console, at_once=2, ray=None, gpus_each=None)
    errors = [outcome.error for outcome in outcomes]
    assert [error is None for error in errors] == [False, True, False, True]
    paths = [Path(f"results/scan/om-ctree/{name}.json") for name in ("jump-0", "length-0", "jump-1", "length-1")]
    for path, error in zip(paths, errors, strict=True):
        found = read_result(path)
        assert found.get("error") == error
        assert ("metrics" in found) == (error is None)
        assert found["at_once"] == 2
        assert found["seconds"] > 0
    assert f"OM-CTree, jump-1: failed: {errors[2]}; " in said.getvalue()
    assert "OM-CTree, length-1: done: 3 epochs, exact match " in said.getvalue()
    assert [job.path for job in jobs(splits="jump,length", seeds=(0, 1))] == [paths[0], paths[2]]

    before = paths[1].read_bytes()
    small_presets(small)  # mended
    with pytest.raises(TrainingError, match=r"om-ctree/jump-0: made with optimisation\.lr 1e\+30, and its row"):
        jobs(splits="jump")
    again = jobs(splits="jump,length", seeds=(1,), plan=replace(PLAN, runs=Path("others")))
    (done,) = sweep(again, console, at_once=1, ray=None, gpus_each=None)
    assert done.error is None
    assert "metrics" in read_result(paths[2])
    assert paths[1].read_bytes() == before


@pytest.fixture
def school(monkeypatch):
    """Table 1 with a row that learns from another one's answers."""
    student = replace(ROWS["om-ctree"], name="Student", teacher="OM-CTree")
    table = replace(SCAN, rows=(*SCAN.rows, student))
    monkeypatch.setitem(TABLES, "scan", table)
    monkeypatch.setitem(ROWS, "student", student)
    monkeypatch.setattr("tests.experiments.test_sweep.SCAN", table)


def test_students_come_after_their_teachers(small, school):
    todo = jobs("student,om-ctree", seeds=(0, 1))
    assert [(job.known["row"], job.config.seed) for job in todo] == [
        *(("OM-CTree", seed) for seed in (0, 1)),
        *(("Student", seed) for seed in (0, 1)),
    ]
    said = StringIO()
    outcomes = sweep(todo, Console(file=said, width=200), at_once=2, ray=None, gpus_each=None)
    assert [outcome.error for outcome in outcomes] == [None] * 4
    for seed in (0, 1):
        teacher, answers = (Path(f"runs/scan/om-ctree/length-{seed}/{name}") for name in ("", "distilled.jsonl"))
        learned = read(Path(f"runs/scan/student/length-{seed}/config.yaml"))["data"]["distilled"]
        assert Path(learned) == answers.resolve()
        model = Seq2Seq.from_pretrained(teacher)
        train = todo[0].config.data.load().train
        assert list(data.distilled(train, answers).targets()) == [
            answer or target for answer, target in zip(answer_all(model, train.sources()), train.targets(), strict=True)
        ]
        found = read_result(Path(f"results/scan/student/length-{seed}.json"))
        assert found["settings"]["data"]["distilled"] == f"OM-CTree, length-{seed}"
        assert found["at_once"] == 2
    assert said.getvalue().count("its teacher, answers") == 2
    assert jobs("student,om-ctree", seeds=(0, 1)) == []


def test_a_teacher_that_is_done_is_asked_once_for_all(small, school):
    (teacher,) = jobs()
    found = work(teacher, lambda line: None)
    assert found is not None
    write_result(teacher.path, found | {"at_once": 1})
    (student,) = jobs("student")
    for folder in ("one", "other"):
        said: list[str] = []
        assert work(replace(student, folder=Path(folder)), said.append) is not None
        assert ("OM-CTree, length-0, its teacher, answers" in said) == (folder == "one")
    assert outcome(Path("one")) == outcome(Path("other"))
    taught_by = Path("runs/scan/om-ctree/length-0")
    (taught_by / "model.safetensors").unlink()  # its answers are still there
    assert work(replace(student, folder=Path("third")), print) is not None
    assert outcome(Path("one")) == outcome(Path("third"))
    (taught_by / "distilled.jsonl").unlink()
    with pytest.raises(TrainingError) as refused:
        work(replace(student, folder=Path("fourth")), print)
    assert str(refused.value) == (
        f"{taught_by.resolve()}: the model of its teacher, OM-CTree, length-0, is not here; bring it back, or remove "
        "results/scan/om-ctree/length-0.json, and it is trained anew"
    )
    teacher.path.unlink()
    (again, _) = jobs("om-ctree,student")
    assert again == teacher


def test_a_student_without_a_teacher(small, school):
    with pytest.raises(TrainingError) as refused:
        jobs("student")
    assert str(refused.value) == (
        "Student: learns from the answers of OM-CTree, length-0, of which there is no result; train that first, or "
        "both: --rows om-ctree,student"
    )
    small_presets(small, paper_scan_length_om_ctree=WILD)
    said = StringIO()
    outcomes = sweep(jobs("om-ctree,student"), Console(file=said, width=200), at_once=1, ray=None, gpus_each=None)
    assert [one.result for one in outcomes] == [None, None]
    assert outcomes[1].error == "no result of its teacher, OM-CTree, length-0"
    assert "Student, length-0: no result of its teacher, OM-CTree, length-0" in said.getvalue()
    assert not Path("results/scan/student").exists()  # it never began


def test_no_time_for_a_student(small, school):
    todo = jobs("om-ctree,student", plan=replace(PLAN, deadline=time.time()))
    outcomes = sweep(todo, Console(quiet=True), at_once=1, ray=None, gpus_each=None)
    assert [(one.result, one.error) for one in outcomes] == [(None, None)] * 2


def test_translation_needs_the_texts_as_they_were_written(tiny, tmp_path):
    table = TABLES["multi30k"]
    put(tmp_path / "multi30k", [name for name in contents() if name.startswith("tok/")])
    entries = entries_of(table, [table.row("Transformer")], ["en-de"], [0])
    todo = jobs_of(entries, replace(PLAN, results=tmp_path / "results", runs=tmp_path / "runs", root=str(tmp_path)))
    with pytest.raises(TrainingError, match=r"no files of the form raw; `ctree data prepare multi30k` gets them$"):
        check(todo)
    put(tmp_path / "multi30k")
    check(todo)


@pytest.fixture
def translation(tiny, small, tmp_path, monkeypatch) -> Plan:
    """Table 3 on a tiny Multi30k, with models that learn nothing in no time → where its runs go."""
    put(tmp_path / "multi30k")
    for row in TABLES["multi30k"].own:
        for name in row.presets.values():
            settings = read(CHECKOUT / f"{name}.yaml")
            settings["model"] |= {"width": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "depth": 3}
            settings["optimisation"] |= {"max_epochs": 1}
            settings["vocabulary"] = {}
            settings["trainer"] = {"accelerator": "cpu"}
            (small / f"{name}.yaml").write_text(yaml.safe_dump(settings))
    return replace(PLAN, root=str(tmp_path))


def test_table_3_from_beginning_to_end(translation):
    """Every kind of model; what the result files have is what the pages show."""
    table = TABLES["multi30k"]
    names = ("Transformer", "LSTM", "LaNMT + distill", "OM-CTree + distill")
    todo = jobs_of(entries_of(table, [table.row(name) for name in names], ["en-de"], [0]), translation)
    check(todo)
    for job in todo:
        found = work(job, lambda line: None)
        assert found is not None
        assert _summary(found) == f"1 epoch, BLEU {found['metrics']['bleu']:.2f} on the test set"
        write_result(job.path, found | {"at_once": 1})
    results = read_results(table, Path("results"))
    metrics = {row: some[0]["metrics"] for (row, _), some in results.items()}
    assert sorted(metrics) == sorted(names)
    for name, found in metrics.items():
        for of_set in (found, found["test_2017"]):
            assert of_set["pairs"] == 2
            assert 0 <= of_set["bleu"] <= 100
            assert "tok:none" in of_set["bleu_signature"]
            assert "tok:13a" in of_set["bleu_written_signature"]
            assert ("target_phrases" in of_set) == (name == "OM-CTree + distill")
    tree = results["OM-CTree + distill", "en-de"][0]
    assert tree["settings"]["data"]["distilled"] == "Transformer, en-de-0"
    assert [one["source"] for one in tree["examples"]["test"]["first"]] == ["a ball .", "sand ."]
    page = markdown(table, results)
    assert "## Noun phrases that are constituents, in percent" in page
    assert (
        f"| OM-CTree + distill | en-de | test | true targets | {100 * tree['metrics']['target_phrases']['share']:.1f} |"
        in page
    )
    assert "OM-CTree + distill" in html({"multi30k": results}, Path("runs"))


def test_results_of_other_settings_are_left_alone(small):
    (job,) = jobs()
    write_result(job.path, result(settings=json.loads(json.dumps(job.known["settings"]))))
    before = job.path.read_bytes()
    assert jobs() == []
    small_presets(small, paper_scan_length_om_ctree={"data": {"root": str(small)}, "trainer": {"fast": False}})
    assert jobs() == []  # neither is of interest
    small_presets(small, paper_scan_length_om_ctree={"model": {"width": 16}})
    said = (
        f"{job.path}: made with model.width 8, and its row now has 16; move it away, or name another folder (--results)"
    )
    with pytest.raises(TrainingError) as refused:
        jobs()
    assert str(refused.value) == said
    assert job.path.read_bytes() == before
    write_result(job.path, result(settings={"model": {"wisdom": 3}}))
    with pytest.raises(TrainingError, match=rf"^{job.path}: model\.wisdom: no such setting; .*; move it away, or"):
        jobs()
    job.path.write_text("{")
    with pytest.raises(DataError, match=rf"^{job.path}: not a whole JSON file"):
        jobs()


def test_a_precision_in_place_of_the_presets_own(small):
    (job,) = jobs(plan=replace(PLAN, precision="32-exact"))
    assert job.config.trainer.precision == job.known["settings"]["trainer"]["precision"] == "32-exact"
    assert job.config.trainer.accelerator == "cpu"  # all else as it was
    write_result(job.path, result(settings=json.loads(json.dumps(job.known["settings"]))))
    assert jobs(plan=replace(PLAN, precision="32-exact")) == []
    with pytest.raises(TrainingError, match=r"made with trainer\.precision '32-exact', and its row now has '32-true'"):
        jobs()


def test_a_failure_does_not_write_over_a_result(small):
    """Of another sweep that was faster."""
    (job,) = jobs()
    done = result(settings=json.loads(json.dumps(job.known["settings"])))
    write_result(job.path, done)
    Writer([job]).ended(0, Outcome(job, None, "another process is training here", 1.0))
    assert read_result(job.path) == done
    write_result(job.path, failed())
    Writer([job]).ended(0, Outcome(job, None, "other", 1.0))
    assert read_result(job.path)["error"] == "other"


def test_when_time_is_over(small):
    late = replace(PLAN, deadline=time.time() - 1)
    (job,) = jobs(plan=late)
    said: list[str] = []
    assert work(job, said.append) is None
    assert (said, job.folder.exists()) == ([], False)
    Writer([job]).ended(0, Outcome(job, None, None, 0.0))
    assert not job.path.exists()


def test_stopped_with_a_checkpoint(small):
    small_presets(small, paper_scan_length_om_ctree={"optimisation": {"max_epochs": 5000, "min_lr": 0.0}})
    (job,) = jobs(plan=replace(PLAN, deadline=time.time() + 3))
    said: list[str] = []
    assert work(job, said.append) is None
    assert said[-1] == "stopped: the time is over; it goes on from here"
    assert (job.folder / "last.ckpt").exists()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_anywhere_it_goes_on(small, how):
    """Ctrl-C, and what nobody can hear; each run ends as if it had never been stopped."""
    words = ["scan", "--rows=om-ctree", "--splits=length", "--seeds=0-2", "--at-once=2", "--commit=abc"]
    results = Path("results/scan/om-ctree").absolute()
    process = start(reproduce, small, words, Path("output").absolute())
    until(lambda: list(results.glob("*.json")) or not process.is_alive())
    os.kill(process.pid, how)
    process.join()
    said = Path("output").read_text()
    assert process.exitcode == (130 if how == signal.SIGINT else -how)
    assert "Traceback" not in said
    if how == signal.SIGINT:
        assert said.splitlines()[-1] == "stopped; go on with the same command"
    before = {path: path.read_bytes() for path in results.glob("*.json")}
    assert before
    until(lambda: not any(_is_locked(lock) for lock in Path("runs").rglob("training.lock")))

    process = start(reproduce, small, words, Path("output").absolute())
    process.join()
    assert process.exitcode == 0
    assert f"3 runs: {len(before)} done before, {3 - len(before)} to do" in Path("output").read_text()
    assert all(path.read_bytes() == content for path, content in before.items())
    found = {path.stem: read_result(path) for path in results.glob("*.json")}
    assert set(found) == {"length-0", "length-1", "length-2"}
    for name, one in found.items():
        (job,) = jobs(
            splits="length", seeds=(int(name[-1]),), plan=replace(PLAN, results=Path("none"), runs=Path("none"))
        )
        train(job.config, Path(f"alone-{name}"))
        assert outcome(Path("runs/reproduce/scan/om-ctree") / name) == outcome(Path(f"alone-{name}"))
        assert one["epochs"] == 3


def _is_locked(path: Path) -> bool:
    from filelock import FileLock, Timeout  # noqa: PLC0415

    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True


@pytest.mark.parametrize("named", ["root", "variable"])
def test_the_origin_of_pairs_does_not_name_a_folder_of_this_machine(tmp_path, monkeypatch, named):
    root = str(tmp_path) if named == "root" else None
    monkeypatch.setenv("CTREE_DATA", "" if root else str(tmp_path))
    task = Task("scan-simple", {}, f"the official random split in {tmp_path / 'SCAN'}; validation: random, seed 0")
    assert origin_of(task, root) == "the official random split in SCAN; validation: random, seed 0"
