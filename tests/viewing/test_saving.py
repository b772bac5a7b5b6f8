import json
import os
from xml.etree import ElementTree

import pytest
from nltk import Tree

from torch_ctree.data import DataError
from torch_ctree.viewing import FORMATS, Look, draw, from_json, save

from .trees import NASTY, balanced, known

TREE = known(balanced(["jump", "twice", "é"]))
LOOK = Look(probabilities=True)


def test_each_ending(tmp_path):
    for ending in FORMATS:
        save(TREE, tmp_path / f"tree{ending}", LOOK)
    read = {path.suffix: path.read_bytes() for path in tmp_path.iterdir()}
    assert read.keys() == FORMATS.keys()
    assert ElementTree.fromstring(read[".svg"]).tag.endswith("svg")
    assert read[".png"].startswith(b"\x89PNG")
    assert read[".pdf"].startswith(b"%PDF")
    assert read[".tex"].startswith(b"\\documentclass")
    assert read[".txt"].decode() == draw(TREE, LOOK) + "\n"
    assert Tree.fromstring(read[".mrg"].decode()).leaves() == ["jump", "twice", "é"]
    assert from_json(json.loads(read[".json"])) == TREE


@pytest.mark.parametrize("ending", [ending for ending in FORMATS if ending not in (".png", ".pdf")])
def test_words_of_all_kinds(tmp_path, ending):
    save(balanced(NASTY), tmp_path / f"tree{ending}")
    (tmp_path / f"tree{ending}").read_text(encoding="utf-8")


def test_endings_in_capitals(tmp_path):
    save("walk", str(tmp_path / "tree.TXT"))
    assert (tmp_path / "tree.TXT").read_text() == "walk\n"


@pytest.mark.parametrize("name", ["tree", "tree.gif", ".svg", "svg"])
def test_other_endings(tmp_path, name):
    with pytest.raises(DataError, match=r"got the ending '.*'; expected \.svg, .* or \.json"):
        save(TREE, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays_until_the_new_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "tree.svg"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="cannot be written: No space left on device"):
        save(TREE, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
