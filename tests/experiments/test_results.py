import json
import math

import pytest

from tests.experiments.tiny import QUESTIONS, SCAN, failed, result
from torch_ctree.data import DataError
from torch_ctree.experiments.results import Entry, read_result, read_results, write_result

ROW = next(row for row in SCAN.own if row.name == "OM-CTree + LA")


def put(folder, found):
    row = next(row for row in SCAN.own if row.name == found["row"])
    path = Entry(SCAN, row, found["split"], found["seed"]).path(folder)
    write_result(path, found)
    return path


def test_places(tmp_path):
    entry = Entry(SCAN, ROW, "turn-left", 3)
    assert entry.path(tmp_path) == tmp_path / "scan" / "om-ctree-la" / "turn-left-3.json"
    assert str(entry.place) == "scan/om-ctree-la/turn-left-3"


def test_what_is_written_is_read(tmp_path):
    some = [result(seed=seed) for seed in (10, 2, 0)] + [result(split="jump"), failed(row="torch-ctree")]
    for found in some:
        put(tmp_path, found)
    assert read_results(SCAN, tmp_path) == {
        ("OM-CTree", "length"): [some[2], some[1], some[0]],  # by seed, not by name
        ("OM-CTree", "jump"): [some[3]],
        ("torch-ctree", "length"): [some[4]],
    }
    assert read_results(QUESTIONS, tmp_path) == {}


def test_what_is_no_number_is_null(tmp_path):
    path = put(tmp_path, result(seconds=1.0, more=[math.inf, {"x": math.nan}]))
    assert json.loads(path.read_text())["more"] == [None, {"x": None}]


def without(key):
    return json.dumps({name: value for name, value in result().items() if name != key})


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"task": "sc', ": not a whole JSON file"),
        ("[]", r": got \[\]; expected the result of a run"),
        (json.dumps({**result(), "seed": "0"}), ": 'seed' is '0'; expected the result of a run"),
        (json.dumps({**result(), "seed": True}), ": 'seed' is True; expected the result of a run"),
        (json.dumps({"task": "scan"}), ": 'row' is None; expected the result of a run"),
        (json.dumps({**result(), "metrics": None}), ": neither metrics nor an error; expected the result of a run"),
        (without("hardware"), ": 'hardware' is None; expected the result of a run"),
        (without("at_once"), ": 'at_once' is None; expected the result of a run"),
        (json.dumps({**result(), "examples": None}), ": 'examples' is None; expected the result of a run"),
        (json.dumps({**result(), "metrics": {"pairs": 1}}), ": 'exact_match' is None; expected the result of a run"),
    ],
)
def test_bad_files_are_named(tmp_path, content, said):
    path = tmp_path / "length-0.json"
    path.write_text(content)
    with pytest.raises(DataError, match=f"^{path}{said}"):
        read_result(path)


@pytest.mark.parametrize("change", [{"row": "Transformer"}, {"split": "right"}, {"seed": 1}, {"row": "torch-ctree"}])
def test_a_file_in_anothers_place(tmp_path, change):
    path = put(tmp_path, result())
    write_result(path, result() | change)
    with pytest.raises(DataError, match=f"^{path}: says row .*; its place is another$"):
        read_results(SCAN, tmp_path)


def test_a_set_that_is_missing(tmp_path):
    path = Entry(QUESTIONS, QUESTIONS.own[0], "questions", 0).path(tmp_path)
    write_result(path, result(QUESTIONS.own[0].name, "questions") | {"task": "questions"})
    with pytest.raises(DataError, match=f"^{path}: got None; expected the metrics of a set$"):
        read_results(QUESTIONS, tmp_path)
