import gzip
import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torch_ctree.data import DataError
from torch_ctree.evaluation import Prediction, read_predictions, write_predictions

ONE = Prediction("test", 0, "jump twice", "JUMP JUMP", "JUMP WALK", -1.5)
FULL = Prediction("gen", 7, "der Bär", "the bear", "a bear", -0.25, "(· a bear)", -3.0, "(· the bear)")
ROW = {"set": "test", "row": 0, "source": "jump twice", "target": "JUMP JUMP", "output": "JUMP WALK", "log_prob": -1.5}

NASTY = ["", " ", "熊 🐻", "a\tb", 'say "no" \\n', "a\nb\r\nc\r", "a\u2028b\u2029c\x85d\x0b\x0c\x1c", "\0", "\ufeffa"]


@pytest.fixture
def file(tmp_path):
    def make(content: bytes, name="test.jsonl"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return make


def message(path) -> str:
    """The one line that the reader says of a bad file."""
    with pytest.raises(DataError) as caught:
        read_predictions(path)
    assert len(str(caught.value).splitlines()) == 1
    assert str(path) in str(caught.value)
    return str(caught.value)


def changed(**values) -> bytes:
    return json.dumps(ROW | values).encode()


@pytest.mark.parametrize("name", ["test.jsonl", "new/folder/test.jsonl", "test.jsonl.gz", "TEST.JSONL.GZ"])
def test_round_trip(tmp_path, name):
    write_predictions(tmp_path / name, [ONE, FULL])
    assert read_predictions(tmp_path / name) == [ONE, FULL]
    assert read_predictions(str(tmp_path / name)) == [ONE, FULL]


def test_the_name_says_whether_it_is_packed(tmp_path):
    for name in ("a.jsonl", "a.jsonl.gz"):
        write_predictions(tmp_path / name, [ONE])
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.parametrize("text", NASTY)
def test_every_character_comes_back(tmp_path, text):
    nasty = Prediction(text, 1, text, text, text, 0.0, text, 0.0, text)
    write_predictions(tmp_path / "a.jsonl", [nasty, ONE, nasty])
    assert read_predictions(tmp_path / "a.jsonl") == [nasty, ONE, nasty]


texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.lists(
        st.builds(
            Prediction,
            texts,
            st.integers(0, 2**63),
            *[texts] * 3,
            numbers,
            tree=st.none() | texts,
            target_log_prob=st.none() | numbers,
            target_tree=st.none() | texts,
        ),
        min_size=1,
    )
)
def test_whatever_is_written_is_read(tmp_path_factory, predictions):
    path = tmp_path_factory.mktemp("predictions") / "a.jsonl"
    write_predictions(path, predictions)
    assert read_predictions(path) == predictions


def test_lines_are_plain_json_in_utf8(tmp_path):
    write_predictions(tmp_path / "a.jsonl", [ONE, FULL])
    content = (tmp_path / "a.jsonl").read_bytes()
    assert "der Bär".encode() in content
    assert content.count(b"\n") == 2
    assert content.endswith(b"\n")
    first, second = map(json.loads, content.splitlines())
    assert first == ROW | {"tree": None, "target_log_prob": None, "target_tree": None}
    assert list(second) == list(first)
    assert second == vars(FULL)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_json_does_not_have(tmp_path, value):
    write_predictions(tmp_path / "a.jsonl", [replace(FULL, log_prob=value, target_log_prob=value)])
    row = json.loads((tmp_path / "a.jsonl").read_text(), parse_constant=pytest.fail)
    assert row["log_prob"] is row["target_log_prob"] is None
    (back,) = read_predictions(tmp_path / "a.jsonl")
    assert math.isnan(back.log_prob)
    assert replace(back, log_prob=0.0) == replace(FULL, log_prob=0.0, target_log_prob=None)


def test_predictions_may_come_one_by_one(tmp_path):
    write_predictions(tmp_path / "a.jsonl", (replace(ONE, row=n) for n in range(3)))
    assert [prediction.row for prediction in read_predictions(tmp_path / "a.jsonl")] == [0, 1, 2]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_a_file_is_whole_or_as_it_was(tmp_path, name):
    def broken():
        yield FULL
        raise RuntimeError("out of memory")

    for before in ([], [ONE]):
        if before:
            write_predictions(tmp_path / name, before)
        with pytest.raises(RuntimeError, match="out of memory"):
            write_predictions(tmp_path / name, broken())
        assert [path.name for path in tmp_path.iterdir()] == [name] * len(before)
    assert read_predictions(tmp_path / name) == [ONE]


@pytest.mark.parametrize(
    ("prediction", "said"),
    [
        (replace(ONE, output="a \ud800"), r"'output' is 'a \ud800'; expected text"),
        (replace(ONE, row=-1), "'row' is -1; expected a whole number, 0 or more"),
        (replace(ONE, tree=["a"]), "'tree' is ['a']; expected text or null"),
    ],
)
def test_nothing_is_written_that_cannot_be_read(tmp_path, prediction, said):
    with pytest.raises(DataError) as caught:
        write_predictions(tmp_path / "a.jsonl", [ONE, prediction])
    assert str(caught.value) == f"{tmp_path / 'a.jsonl'}, line 2: {said}"
    assert not list(tmp_path.iterdir())


def test_no_predictions(tmp_path, file):
    with pytest.raises(DataError, match=r"a\.jsonl: no predictions; expected one or more to write"):
        write_predictions(tmp_path / "a.jsonl", [])
    assert not list(tmp_path.iterdir())
    assert "the file is empty; expected a prediction a line" in message(file(b""))


def test_files_made_by_hand(file):
    line = json.dumps(ROW).encode()
    for content in (line, line + b"\n", line + b"\r\n", b"\xef\xbb\xbf" + line + b"\n"):
        assert read_predictions(file(content)) == [ONE]
    assert read_predictions(file(changed(tree="(· a)"))) == [replace(ONE, tree="(· a)")]


def test_whole_numbers_become_floats(file):
    (back,) = read_predictions(file(changed(log_prob=0, target_log_prob=-2)))
    assert (type(back.log_prob), back.log_prob) == (float, 0.0)
    assert (type(back.target_log_prob), back.target_log_prob) == (float, -2.0)


@pytest.mark.parametrize("name", ["set", "row", "source", "target", "output", "log_prob"])
def test_a_field_is_missing(file, name):
    row = {key: value for key, value in ROW.items() if key != name}
    assert f"line 1: has no {name!r}; it has {', '.join(map(repr, row))}" in message(file(json.dumps(row).encode()))


@pytest.mark.parametrize("name", ["set", "source", "target", "output"])
@pytest.mark.parametrize("value", [None, 1, ["a"], {}, True, "\ud800"])
def test_what_is_no_text(file, name, value):
    assert f"line 1: {name!r} is {value!r}; expected text" in message(file(changed(**{name: value})))


@pytest.mark.parametrize("name", ["tree", "target_tree"])
@pytest.mark.parametrize("value", [1, ["a"], False])
def test_what_is_no_tree(file, name, value):
    assert f"line 1: {name!r} is {value!r}; expected text or null" in message(file(changed(**{name: value})))


@pytest.mark.parametrize("value", [None, -1, 1.0, "1", True])
def test_what_is_no_row(file, value):
    assert f"'row' is {value!r}; expected a whole number, 0 or more" in message(file(changed(row=value)))


@pytest.mark.parametrize("name", ["log_prob", "target_log_prob"])
@pytest.mark.parametrize("value", ["-1", True, [], math.inf, math.nan, 10**400])
def test_what_is_no_log_probability(file, name, value):
    said = message(file(changed(**{name: value})))
    assert f"line 1: {name!r} is " in said
    assert "; expected a finite number or null" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (json.dumps(ROW)[:50].encode(), "not JSON ("),
        (b"", "not JSON (Expecting value, column 1); expected one object a line"),
        (b"[]", "list; expected an object with set, row, source, target, output, log_prob"),
        (b"null", "NoneType; expected an object"),
        (b"[" * 100_000, "JSON that goes on too long"),
        (b'{"row": ' + b"1" * 5000 + b"}", "JSON that goes on too long"),
        (b"\xff", "byte 0xff is not UTF-8"),
        (b"\0", "a NUL byte"),
        (changed(Tree="(· a)", x=1), "has 'Tree', 'x'; expected nothing but set, row, source"),
    ],
)
def test_damaged_lines(file, line, said):
    assert f"line 2: {said}" in message(file(json.dumps(ROW).encode() + b"\n" + line + b"\n"))


def test_a_file_cut_off_anywhere_within_a_line(file, tmp_path):
    write_predictions(tmp_path / "whole.jsonl", [FULL])
    content = (tmp_path / "whole.jsonl").read_bytes().removesuffix(b"\n")
    for end in range(1, len(content)):
        assert "line 1: " in message(file(content[:end]))


def test_no_file(tmp_path, file):
    assert "cannot be read: No such file" in message(tmp_path / "none.jsonl")
    assert "cannot be read: Is a directory" in message(tmp_path)
    assert "not a whole gzip file" in message(file(b"{}", "a.jsonl.gz"))
