"""The real library, on data sets in folders of this machine."""

import json
import sys

import pytest

from torch_ctree import data
from torch_ctree.data import DataError

datasets = pytest.importorskip("datasets")


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()


def put(folder, rows, name="train"):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"hf:{folder}"


ROWS = [{"source": f"s {n}", "target": f"t {n}"} for n in range(20)]


def test_sets_of_a_data_set(tmp_path):
    for name in ("train", "validation", "test"):
        place = put(tmp_path / "set", ROWS, name)
    task = data.load(place)
    assert [list(task.sets), len(task.train), task.test[3]] == [["train", "validation", "test"], 20, ("s 3", "t 3")]


def test_missing_sets_are_taken_from_training(tmp_path):
    task = data.load(put(tmp_path / "set", ROWS))
    assert [len(pairs) for pairs in task.sets.values()] == [16, 2, 2]


@pytest.mark.parametrize("wrap", [lambda row: row, lambda row: {"translation": row}])
def test_columns_plain_or_in_a_translation(tmp_path, wrap):
    rows = [wrap({"de": f"d {n}", "en": f"e {n}"}) for n in range(20)]
    task = data.load(put(tmp_path / "set", rows), columns=("de", "en"))
    assert sorted([*task.train, *task.validation, *task.test])[0] == ("d 0", "e 0")


def test_a_column_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"no column 'de'; it has 'source', 'target'. Say which with columns$"):
        data.load(put(tmp_path / "set", ROWS), columns=("de", "en"))


def test_an_empty_side(tmp_path):
    rows = [*ROWS[:2], {"source": "s", "target": " "}]
    with pytest.raises(DataError, match=r"train, row 3: 'target' is ' '; expected text$"):
        data.load(put(tmp_path / "set", rows))


def test_a_data_set_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match=r"^hf:.*none: cannot be loaded: ") as caught:
        data.load(f"hf:{tmp_path / 'none'}")
    assert "\n" not in str(caught.value)


def test_two_sets_of_one_kind(tmp_path):
    for name in ("a", "b", "c"):
        place = put(tmp_path / "set", ROWS, name)
    sets = [("train", "a"), ("dev", "b"), ("validation", "c")]
    files = "".join(f"  - {{split: {name}, path: {file}.jsonl}}\n" for name, file in sets)
    (tmp_path / "set" / "README.md").write_text(f"---\nconfigs:\n- config_name: default\n  data_files:\n{files}---\n")
    with pytest.raises(DataError, match="has train, dev, validation; expected one set for each of train, validation"):
        data.load(place)


def test_no_name():
    with pytest.raises(DataError, match=r"^hf:: no name; expected hf:owner/name$"):
        data.load("hf:")


def test_without_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        DataError, match=r"^hf:owner/name: needs the datasets library; pip install 'torch-ctree\[hub\]'$"
    ):
        data.load("hf:owner/name")
