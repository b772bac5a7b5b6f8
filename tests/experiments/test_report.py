from tests.experiments.tiny import QUESTIONS, SCAN, failed, result
from torch_ctree.experiments import write_report
from torch_ctree.experiments.report import comparison, failures, markdown, standing
from torch_ctree.experiments.results import read_results

from .test_results import put

SOME = {
    ("OM-CTree", "length"): [result(value=0.2), result(seed=1, value=0.4), failed(seed=3)],
    ("torch-ctree", "jump"): [result("torch-ctree", "jump", seed, 1.0) for seed in range(10)],
}


def test_published_and_ours_stand_together():
    lines = comparison(SCAN, SOME)
    assert lines[0] == ["model", "", "Simple", "+ Turn Left", "+ Jump", "Length", "Around right", "Opposite right"]
    assert lines[1][:3] == ["Bastings et al. (2018)", "quoted", "100.0 ± 0.0"]
    at = next(n for n, line in enumerate(lines) if line[0] == "OM-CTree")
    assert lines[at][1:6] == [
        "paper",
        "99.9 ± 0.1\n▁▁▁▁▁▁▁▁▁█",
        "93.0 ± 7.5\n▁▁▁▁▁▁▁▂▂▆",
        "0.1 ± 0.2\n█▁▁▁▁▁▁▁▁▁",
        "40.3 ± 22.5\n▁▂▃▃▂▂▂▁▁▂",
    ]
    ours = "30.0 ± 14.1\n▁▁▅▁▅▁▁▁▁▁\n2 of 10 runs, 1 failed"
    assert lines[at + 1] == ["", "here", "–", "–", "–", ours, "–", "–"]
    assert lines[-1] == ["torch-ctree", "here", "–", "–", "100.0 ± 0.0\n▁▁▁▁▁▁▁▁▁█", "–", "–", "–"]
    assert len(lines) == 1 + 4 + 2 * 4 + 1


def test_how_much_there_is():
    assert standing(SCAN, SOME) == "12 runs done, 1 failed, 287 of 300 still to do"
    every = {(row.name, split): [result()] * 10 for row in SCAN.own for split in SCAN.splits}
    assert standing(SCAN, every) == "300 runs done"
    assert standing(QUESTIONS, {}) == "0 runs done, 15 of 15 still to do"
    assert failures(SOME) == ["OM-CTree, length, seed 3: out of memory"]


def test_the_page():
    page = markdown(SCAN, SOME)
    for line in (
        "# SCAN: Table 1",
        "- OM-CTree, length, seed 3: out of memory",
        "| model |  | seed 0 | seed 1 | seed 2 | seed 3 | seed 4 | seed 5 | seed 6 | seed 7 | seed 8 | seed 9 |",
        "| OM-CTree | Length | 20.0 | 40.0 | – | failed | – | – | – | – | – | – |",
        "| OM-CTree | length | test | 100 | 75.00 ± 0.00 | 30.0 ± 14.1 | – |",
        "| model | split | set | 17–24 | 25–32 |",
        "| OM-CTree | length | test | 30.0 | 30.0 |",
        "| torch-ctree | jump | – | – | – | – | – | – | – | – | – | – | – | 100.0 |",
        "| OM-CTree | length | 2 | 3 | 61 | – | 2 | a machine | abc | ctree reproduce scan |",
    ):
        assert f"{line}\n" in page
    assert "<br>▁▁▅▁▅▁▁▁▁▁<br>2 of 10 runs, 1 failed |" in page


def test_a_page_without_runs():
    page = markdown(QUESTIONS, {})
    assert "| Seq-Seq | quoted | 0.88 | 0.03 | – |\n" in page
    assert "| Seq-CTree | paper | 1.00 ± 0.00 | 0.83 ± 0.19 | – |\n" in page
    assert "##" not in page


def test_two_sets_of_one_task():
    inner = {**result()["metrics"], "exact_match": 0.25, "first_word": 0.875}
    del inner["cells"]
    metrics = {**inner, "exact_match": 1.0, "gen": inner}
    some = {("OM-CTree", "questions"): [result(split="questions", task="questions", metrics=metrics)]}
    page = markdown(QUESTIONS, some)
    assert "| OM-CTree | Full (Test) | 1.00 |\n| OM-CTree | First-word (Gen.) | 0.88 |\n" in page
    assert "| OM-CTree | Full (Gen.) | 0.25 |\n" in page
    assert "| OM-CTree | questions | gen | 50.0 | 50.0 |\n" in page
    assert "phrase" not in page


def test_made_from_files(tmp_path):
    for found in SOME["OM-CTree", "length"]:
        put(tmp_path, found)
    path, found = write_report(SCAN, tmp_path)
    assert path == tmp_path / "scan.md"
    assert found == read_results(SCAN, tmp_path)
    assert path.read_text() == markdown(SCAN, found)
