import json
import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

from torch_ctree import Derivation
from torch_ctree.data.errors import DataError
from torch_ctree.data.subwords import Subwords

TEXTS = ["the lowest tower", "the lower tower", "große Männer laufen", "große Männer sitzen"] * 3
SUBWORDS = Subwords.train(TEXTS, size=290)
LOWER = Subwords.train(TEXTS, size=290, lowercase=True)

STRANGE = [
    "the tower",
    "größer, als man denkt!",
    "日本語 と 中文",
    "a 👩‍👩‍👧 family 🏳️‍🌈",
    "e\u0301 is not é",
    "don't   'stop' — “now”",
    " leading, trailing ",
    "  ",
    "tabs\tand\r\nlines\n",
    "\x00\x7f\u2028\ufeff\ufffd",
    "▁ Ġ <unk> @@ ##",
    "x" * 5000,
]


@pytest.mark.parametrize("text", STRANGE)
def test_decode_undoes_encode(text):
    assert SUBWORDS.decode(SUBWORDS.encode(text)) == text


@given(st.text(min_size=1))
def test_decode_undoes_encode_on_any_text(text):
    assert SUBWORDS.decode(SUBWORDS.encode(text)) == text


@given(st.text(min_size=1))
def test_the_saved_file_decodes_in_the_library_itself(text):
    tokens = SUBWORDS.encode(text)
    assert SUBWORDS._tokenizer.decode(tokens, skip_special_tokens=False) == SUBWORDS.decode(tokens)


@given(st.lists(st.integers(0, 255)))
def test_any_tokens_make_some_text(tokens):
    assert SUBWORDS.decode(tokens) == SUBWORDS._tokenizer.decode(tokens, skip_special_tokens=False)


def test_lower_casing():
    assert LOWER.decode(LOWER.encode("The TOWER, Größer ÄÖÜ")) == "the tower, größer äöü"
    assert LOWER.encode("THE") == LOWER.encode("the")
    assert SUBWORDS.encode("THE") != SUBWORDS.encode("the")


def test_the_first_word_is_spelled_like_any_other():
    the, tower = SUBWORDS.encode("the"), SUBWORDS.encode("tower")
    assert SUBWORDS.encode("tower the the") == tower + the + the


@pytest.mark.parametrize("subwords", [SUBWORDS, LOWER])
def test_no_token_in_nothing(subwords):
    with pytest.raises(DataError, match=r"'' has no word in it"):
        subwords.encode("")


def test_decode_of_nothing():
    assert SUBWORDS.decode([]) == ""


@pytest.mark.parametrize("token", [-1, len(SUBWORDS), 10**12])
def test_a_token_that_is_not_there(token):
    with pytest.raises(IndexError, match=rf"token {token}: expected 0 to {len(SUBWORDS) - 1}"):
        SUBWORDS.decode([0, token])


def test_frequent_words_become_one_piece():
    assert [SUBWORDS[token] for token in SUBWORDS.encode("the große tower")] == ["▁the", "▁große", "▁tower"]


def test_spelling():
    assert [SUBWORDS[token] for token in SUBWORDS.encode("ö\n")] == ["▁", r"\xc3", r"\xb6", r"\n"]
    assert "".join(
        SUBWORDS[token] for token in SUBWORDS.encode("Männer the towest ▁")
    ) == "▁Männer▁the▁towest▁" + "".join([r"\xe2", r"\x96", r"\x81"])


def test_every_spelling_can_be_printed():
    assert all(piece.isprintable() and " " not in piece for piece in SUBWORDS)


def test_it_is_a_sequence():
    assert list(SUBWORDS) == [SUBWORDS[token] for token in range(len(SUBWORDS))]
    assert SUBWORDS[2:5] == [SUBWORDS[2], SUBWORDS[3], SUBWORDS[4]]
    assert "▁große" in SUBWORDS
    with pytest.raises(IndexError):
        SUBWORDS[len(SUBWORDS)]


def test_all_bytes_are_there():
    assert {piece for piece in SUBWORDS._bytes if len(piece) == 1} == {bytes([byte]) for byte in range(256)}
    assert len(set(SUBWORDS._bytes)) == len(SUBWORDS)


def test_it_spells_the_leaves_of_a_tree():
    torch = pytest.importorskip("torch")
    tokens = torch.tensor([SUBWORDS.encode("the tower")])
    tree = Derivation(tokens, torch.tensor([2]), torch.tensor([[1, 2]]), torch.zeros(1))
    assert tree.trees(SUBWORDS)[0].leaves() == ["▁the", "▁tower"]


@pytest.mark.parametrize("size", [256, 257, 280])
def test_size(size):
    subwords = Subwords.train(TEXTS, size)
    assert len(subwords) == size
    assert subwords.decode(subwords.encode("große Türme")) == "große Türme"


@pytest.mark.parametrize("size", [255, 1, 0, -3])
def test_too_small_a_size(size):
    with pytest.raises(DataError, match=rf"size: got {size}; expected 256 or more"):
        Subwords.train(TEXTS, size)


def test_too_large_a_size_gives_what_there_is():
    assert len(Subwords.train(["aa aa"], 8000)) == 256 + 2  # "aa" or " a", then " aa"


def test_what_comes_once_is_no_piece():
    assert len(Subwords.train(["abc def"], 8000)) == 256


def test_no_text_leaves_the_bytes():
    assert len(Subwords.train([])) == 256


def test_texts_may_come_one_at_a_time():
    assert Subwords.train((text for text in TEXTS), 290) == SUBWORDS


def test_an_error_among_the_texts_comes_through():
    def texts():
        yield "a"
        raise DataError("line 2")

    with pytest.raises(DataError, match=r"line 2"):
        Subwords.train(texts())


def test_equality():
    assert Subwords.train(TEXTS, 290) == SUBWORDS
    assert hash(SUBWORDS) == hash(Subwords.train(TEXTS, 290))
    assert Subwords.train(TEXTS, 289) != SUBWORDS
    assert SUBWORDS != LOWER
    assert list(SUBWORDS) != SUBWORDS


def test_the_order_of_the_texts_does_not_matter():
    assert Subwords.train(reversed(TEXTS), 290) == SUBWORDS


def test_repr():
    assert repr(SUBWORDS) == "<Subwords: 290 pieces>"


def test_pickling():
    assert pickle.loads(pickle.dumps(SUBWORDS)) == SUBWORDS


@pytest.mark.parametrize("subwords", [SUBWORDS, LOWER])
def test_save_and_load(subwords, tmp_path):
    path = tmp_path / "new" / "subwords.json"
    subwords.save(path)
    again = Subwords.load(str(path))
    assert again == subwords
    assert again.encode("Große TOWER 👋") == subwords.encode("Große TOWER 👋")
    assert [file.name for file in path.parent.iterdir()] == ["subwords.json"]
    assert Tokenizer.from_file(str(path)).encode("the tower").ids == subwords.encode("the tower")


def load_error(path):
    with pytest.raises(DataError) as error:
        Subwords.load(path)
    message = str(error.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def test_a_missing_file(tmp_path):
    assert load_error(tmp_path / "none.json") == "cannot be read: No such file or directory"


def test_a_folder(tmp_path):
    assert load_error(tmp_path) == "cannot be read: Is a directory"


def test_a_truncated_file(tmp_path):
    path = tmp_path / "subwords.json"
    SUBWORDS.save(path)
    content = path.read_bytes()
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        assert load_error(path).startswith("not a whole JSON file (")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"hello", b"\x89PNG\r\n"])
def test_a_file_that_is_no_json(content, tmp_path):
    path = tmp_path / "subwords.json"
    path.write_bytes(content)
    assert load_error(path).startswith("not a whole JSON file (")


@pytest.mark.parametrize("content", ["[]", "3", "null", "{}", '{"words": ["a"], "unknown": null}'])
def test_json_of_another_kind(content, tmp_path):
    path = tmp_path / "subwords.json"
    path.write_text(content)
    assert load_error(path).startswith("not a file of subwords (")


def test_a_tokenizer_of_another_kind(tmp_path):
    path = tmp_path / "subwords.json"
    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(path))
    assert load_error(path) == "a tokenizer of another kind; expected a file that Subwords.save wrote"


def without_a_byte(content):
    del content["model"]["vocab"]["!"]


def with_a_gap(content):
    content["model"]["vocab"]["!!"] = 500


def with_a_stranger(content):
    content["model"]["vocab"]["日"] = 290


def with_an_added_token(content):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    content["added_tokens"] = [{"id": 290, "content": "<s>", **flags}]


def without_decoder(content):
    content["decoder"] = None


def with_a_strange_merge(content):
    content["model"]["merges"].append(["日", "本"])


@pytest.mark.parametrize(
    "change",
    [without_a_byte, with_a_gap, with_a_stranger, with_an_added_token, without_decoder, with_a_strange_merge],
)
def test_a_file_that_was_changed(change, tmp_path):
    content = json.loads(SUBWORDS._content())
    change(content)
    path = tmp_path / "subwords.json"
    path.write_text(json.dumps(content))
    assert load_error(path).split(" (")[0].startswith(("a tokenizer of another kind", "not a file of subwords"))


def run(code, **environment):
    """A fresh process, in which nothing has been imported or forked yet."""
    inherited = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout


TRAIN = f"""
import os, hashlib
from torch_ctree.data.subwords import Subwords
Subwords.train([], 256)
threads = len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else 0
subwords = Subwords.train({TEXTS!r} * 100, 290)
"""


FORKING = """
subwords.encode("the tower")
assert not threads or len(os.listdir("/proc/self/task")) == threads
assert "TOKENIZERS_PARALLELISM" not in os.environ
child = os.fork()
if not child:
    os._exit(len(subwords.encode("the tower")))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
"""
SHOW = "print(hashlib.sha256(subwords._content().encode()).hexdigest())"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_every_process_learns_the_same():
    """A fork after training and encoding is quiet; and what the user says about threads holds."""
    learned = run(TRAIN + FORKING + SHOW, PYTHONHASHSEED="1")
    for seed, value in (("2", "true"), ("3", "false")):
        code = f'assert os.environ["TOKENIZERS_PARALLELISM"] == {value!r}\n'
        assert run(TRAIN + code + SHOW, PYTHONHASHSEED=seed, TOKENIZERS_PARALLELISM=value) == learned


def test_the_variable_is_unset_after_an_error(monkeypatch):
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    with pytest.raises(ZeroDivisionError):
        Subwords.train(str(1 // n) for n in (1, 0))
    assert "TOKENIZERS_PARALLELISM" not in os.environ


def test_importing_is_light():
    assert run("import sys, torch_ctree.data.subwords; print('tokenizers' in sys.modules)") == "False\n"
