import gzip
import json

import pytest

from torch_ctree.data import DataError
from torch_ctree.data.files import CHUNK, read_jsonl, read_pairs, read_parallel, read_tsv

ROWS = [("jump twice", "JUMP JUMP"), ("der Bär schläft", "the bear sleeps"), ("熊", "🐻")]


def tsv(rows) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in rows).encode()


@pytest.fixture
def file(tmp_path):
    def make(content: bytes, name="pairs.tsv"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return path

    return make


def message(read, *paths) -> str:
    """The one line that a reader says of a bad file."""
    with pytest.raises(DataError) as caught:
        read(*paths)
    assert "\n" not in str(caught.value)
    assert str(paths[0]) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.txt", "pairs.tsv.gz"])
def test_tab_separated(file, name):
    assert list(read_pairs(file(tsv(ROWS), name))) == ROWS


def test_every_kind_of_white_space_is_empty(file):
    for n in range(0x110000):
        if chr(n).isspace() and chr(n) not in "\n\t":
            assert "line 1: the target is empty" in message(read_tsv, file(f"a\t{chr(n)}\nb\tc\n".encode()))


def test_words_may_begin_with_a_byte_of_white_space(file):
    rows = [("ä", "… ℃"), ("«a»", "「b」"), ("ᚠ", "\u2029x")]
    assert list(read_tsv(file(tsv(rows)))) == rows


def test_line_breaks_of_windows_and_a_byte_order_mark(file):
    content = b"\xef\xbb\xbf" + tsv(ROWS).replace(b"\n", b"\r\n")
    assert list(read_tsv(file(content))) == ROWS


def test_a_carriage_return_within_a_line_stays(file):
    assert list(read_tsv(file(b"a\rb\tc\nd\te\n"))) == [("a\rb", "c"), ("d", "e")]


def test_parallel_files(file):
    source = file("".join(f"{s}\n" for s, _ in ROWS).encode(), "text.de")
    target = file("".join(f"{t}\n" for _, t in ROWS).encode(), "text.en.gz")
    assert list(read_parallel(source, target)) == ROWS


@pytest.mark.parametrize("end", ["\n", ""])
def test_json_lines(file, end):
    lines = [json.dumps({"source": s, "target": t, "more": 1}) for s, t in ROWS]
    assert list(read_pairs(file(("\n".join(lines) + end).encode(), "pairs.jsonl"))) == ROWS
    renamed = [json.dumps({"de": s, "en": t}) for s, t in ROWS]
    assert list(read_jsonl(file("\n".join(renamed).encode(), "x.jsonl"), ("de", "en"))) == ROWS


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"only one", "1 column; expected 2"),
        (b"one\ttwo\tthree", "3 columns; expected 2"),
        (b"", "is empty; delete it"),
        (b"\ttarget", "the source is empty"),
        (b"source\t", "the target is empty"),
        (b"source\t  ", "the target is empty"),
        (b"source\t\xc2\xa0\xe2\x80\x83\xe3\x80\x80", "the target is empty"),
        (b" \ttarget", "the source is empty"),
        (b"source\t\x1c\x1f\xc2\x85", "the target is empty"),
        (b"caf\xe9\tcoffee", "byte 0xe9 is not UTF-8"),
        (b"ok\tcut off \xe2\x82", "byte 0xe2 is not UTF-8"),
    ],
)
@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_bad_line_is_named(file, before, line, said):
    content = tsv([("a", "b")] * before) + line + b"\n" + tsv([("c", "d")])
    assert f", line {before + 1}: {said}" in message(read_tsv, file(content))


def test_a_file_cut_off_in_the_middle_of_a_line(file):
    content = tsv(ROWS)
    for end in (len(content) - 1, len(content) - 6):  # before the last line break; before the last word's end
        assert "line 3: the file ends in the middle of this line" in message(read_tsv, file(content[:end]))


def test_what_is_not_utf8_at_all(file):
    for encoding in ("utf-16-le", "utf-16-be"):
        content = tsv([("ab", "cd")]).decode().encode(encoding)
        assert "line 1: a NUL byte, so not text in UTF-8" in message(read_tsv, file(content))
    assert "line 1: the lines end in carriage returns alone" in message(read_tsv, file(b"a\tb\rc\td\r"))


def test_a_bad_byte_far_into_the_file(file):
    content = b"abc\tdef\n" * (CHUNK // 8 + 10) + b"\xff\tx\n" + b"abc\tdef\n"
    assert f"line {CHUNK // 8 + 11}: byte 0xff" in message(read_tsv, file(content))


def test_parallel_files_that_do_not_match(file):
    three, two = file(b"a\nb\nc\n", "three.de"), file(b"a\nb\n", "two.en")
    assert "has 3 lines and" in message(read_parallel, three, two)
    assert "two.en 2;" in message(read_parallel, three, two)
    empty = file(b"a\n\n", "empty.en")
    said = "line 2: the target is empty; fill it in, or delete this line in both files"
    assert said in message(lambda t, s: read_parallel(s, t), empty, two)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"source": "a", "target": "b"', "not JSON"),
        ("[" * 100_000, "JSON in too many brackets"),
        ('{"source": "a", "tar', "not JSON (Unterminated string starting at, column 17)"),
        ('["a", "b"]', "list; expected an object"),
        ('{"source": "a", "goal": "b"}', "has no 'target'; it has 'source', 'goal'"),
        ('{"source": "a", "target": ""}', "'target' is ''; expected text"),
        ('{"source": 3, "target": "b"}', "'source' is 3; expected text"),
        ('{"source": "a", "target": "\\ud800"}', r"'target' is '\ud800'; expected text"),
        ("", "not JSON"),
    ],
)
def test_bad_json_lines(file, line, said):
    good = '{"source": "a", "target": "b"}\n'
    assert f", line 2: {said}" in message(read_pairs, file((good + line + "\n" + good).encode(), "pairs.jsonl"))


def test_json_lines_cut_off(file):
    content = b'{"source": "a", "target": "b"}\n{"source": "a", "tar'
    assert ", line 2: not JSON" in message(read_jsonl, file(content, "pairs.jsonl"))


@pytest.mark.parametrize("read", [read_tsv, read_jsonl])
def test_no_pair_at_all(file, read):
    assert "the file is empty" in message(read, file(b""))


def test_no_such_file(tmp_path):
    assert "cannot be read: No such file or directory" in message(read_tsv, tmp_path / "none.tsv")
    assert "cannot be read: Is a directory" in message(read_tsv, tmp_path)


def test_a_gzip_file_cut_off_or_damaged(file):
    whole = gzip.compress(tsv(ROWS * 100))
    for content in (whole[:-10], whole[:30] + b"xx" + whole[32:], b"not gzip"):
        path = file(b"", "pairs.tsv.gz")
        path.write_bytes(content)
        assert "not a whole gzip file" in message(read_tsv, path)
