import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import DataError, Example, Pairs, distilled
from torch_ctree.data.distilling import DISTILLED
from torch_ctree.data.files import is_text, read_jsonl, write_jsonl

TRAIN = Pairs.of([("walk", "WALK"), ("jump twice", "JUMP JUMP"), ("walk", "WALK")])
ANSWERS = ["W", "J J", "W W"]
TEXT = st.text(max_size=8).filter(is_text)


def answered(path, answers=ANSWERS, sources=("walk", "jump twice", "walk")):
    write_jsonl(path, zip(sources, answers, strict=True))
    return path


def test_answers_in_place_of_targets(tmp_path):
    file = answered(tmp_path / DISTILLED)
    expected = [Example(pair.source, answer) for pair, answer in zip(TRAIN, ANSWERS, strict=True)]
    assert list(distilled(TRAIN, file)) == list(distilled(TRAIN, tmp_path)) == expected  # the file, or its folder


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_whatever_is_written_is_read(tmp_path_factory, pairs):
    path = tmp_path_factory.mktemp("any") / "new folder" / "pairs.jsonl"
    write_jsonl(path, pairs)
    assert list(read_jsonl(path)) == pairs


def test_other_sources_are_refused_with_their_line(tmp_path):
    path = answered(tmp_path / "a.jsonl", sources=("walk", "jump", "walk"))
    said = f"^{re.escape(str(path))}, line 2: answers 'jump'; expected 'jump twice'; make it with 'ctree distill'"
    with pytest.raises(DataError, match=said):
        distilled(TRAIN, path)
    with pytest.raises(DataError, match=r"a\.jsonl: answers to 3 sources; expected 2; make it"):
        distilled(TRAIN[:2], path)


def test_what_is_no_such_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=rf"{DISTILLED}: is not here; make it with 'ctree distill'"):
        distilled(TRAIN, tmp_path)
    (tmp_path / "b.jsonl").write_text(json.dumps({"source": "walk"}) + "\n")
    with pytest.raises(DataError, match=r"line 1: has no 'target'"):
        distilled(TRAIN, tmp_path / "b.jsonl")
