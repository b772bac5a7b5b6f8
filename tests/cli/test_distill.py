import json
import shutil

import pytest

from torch_ctree import Seq2Seq, data
from torch_ctree.training import read

SOURCES, TARGETS = "source", "target"


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def teacher(own, tmp_path, monkeypatch):
    """A run of one's own, used from another folder."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(own, tmp_path / "a teacher")


def test_a_student_learns_what_the_teacher_says(ctree, own, teacher):
    said = ctree("distill", teacher, "--batch-size", "7")
    train = data.load(own.parents[1] / "pairs.tsv").train
    model, found = Seq2Seq.from_pretrained(teacher), rows(teacher / "distilled.jsonl")
    assert [row[SOURCES] for row in found] == list(train.sources())
    assert [row[TARGETS] for row in found] == [model.answer(source)[0].text for source in train.sources()]
    right = sum(row[TARGETS] == target for row, target in zip(found, train.targets(), strict=True))
    assert said == (
        f"{len(train)} answers, {right / len(train):.2%} of them the true target\n"
        f"to learn from them: --data.distilled {teacher}/distilled.jsonl\n"
    )

    settings = ["--model.width", "4", "--optimisation.max_epochs", "1", "--run", "student"]
    said = ctree("train", "--data", own.parents[1] / "pairs.tsv", "--data.distilled", "a teacher", *settings)
    assert f"training targets: the answers in {teacher}" in said
    student = teacher.parent / "student"
    assert read(student / "config.yaml")["data"]["distilled"] == str(teacher)  # found from any folder
    words = Seq2Seq.from_pretrained(student).target
    assert isinstance(words, data.Vocabulary)
    assert set(words) == {"<unk>"}.union(*map(str.split, train.targets()))  # also what the teacher never says
    shutil.rmtree(teacher)
    assert ctree("evaluate", "student").startswith("test: 6 pairs\n")  # only training needs what it said


def test_what_a_teacher_says_by_another_search(ctree, own, teacher):
    ctree("distill", teacher, "--search", "risk", "--candidates", "4")
    train = data.load(own.parents[1] / "pairs.tsv").train
    model = Seq2Seq.from_pretrained(teacher).with_search("risk", candidates=4)
    found = [row[TARGETS] for row in rows(teacher / "distilled.jsonl")]
    assert found == [model.answer(source)[0].text for source in train.sources()]


def test_answers_that_are_none_leave_the_target(ctree, teacher, monkeypatch, own):
    monkeypatch.setattr(
        "torch_ctree.evaluation.teaching.answer_all", lambda model, sources, **_: [" " for _ in sources]
    )
    said = ctree("distill", teacher, "--out", "deep/answers.jsonl")
    train = data.load(own.parents[1] / "pairs.tsv").train
    assert [row[TARGETS] for row in rows(teacher.parent / "deep/answers.jsonl")] == list(train.targets())
    assert f"{len(train)} sources without an answer: the true target stands in its place\n" in said
    assert not (teacher / "distilled.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nowhere"], "nowhere: no such run"),
        (["example"], "example ships with torch-ctree and is left as it is: say where to write with --out"),
        (["a teacher", "--out", "answers.tsv"], "out: got 'answers.tsv'; expected a file whose name ends in .jsonl"),
        (["a teacher", "--out", "a folder.jsonl"], "a folder.jsonl: cannot be written: it is a folder"),
        (["a teacher", "--out", "a file/x.jsonl"], "a file/x.jsonl: cannot be written: "),
        (["a teacher", "--batch-size", "0"], "batch-size: got 0; expected 1 or more"),
        (["a teacher", "--root", "nowhere", "--device", "gpu7"], "device: got 'gpu7', which is not here"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(refused, teacher, words, expected):
    (teacher.parent / "a folder.jsonl").mkdir()
    (teacher.parent / "a file").touch()
    assert refused("distill", *words).startswith(f"ctree: {expected}")
    assert not (teacher / "distilled.jsonl").exists()
