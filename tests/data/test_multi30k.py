import gzip
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from torch_ctree.data import multi30k
from torch_ctree.data.downloads import DownloadError, digest
from torch_ctree.data.errors import DataError
from torch_ctree.data.pairs import Example

from ..tiny_multi30k import TINY, contents, put

RAW = sorted(f"raw/{stem}.{language}.gz" for stem in TINY for language in ("de", "en"))
TOK = sorted(f"tok/{stem}.lc.norm.tok.{language}" for stem in TINY for language in ("de", "en"))
SIZES = {"train": 29000, "validation": 1014, "test": 1000, "test_2017": 1000}
ORDER = [
    pattern.format(stem, language)
    for pattern in multi30k.FORMS.values()
    for stem in multi30k.SETS.values()
    for language in ("de", "en")
]


def names_in(folder):
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    )


def message_of(error):
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.fixture
def public(tiny, tmp_path, monkeypatch):
    """A server of the tiny files; the folder it serves, and the files it was asked for."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format, *args):
            pass

        def do_GET(self):
            asked.append(self.path)
            super().do_GET()

    asked = []
    folder = put(tmp_path / "public")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(multi30k, "URL", f"http://127.0.0.1:{server.server_address[1]}/")
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield folder, asked
    server.shutdown()
    server.server_close()


def test_the_table():
    assert sorted(multi30k.SHA256) == RAW + TOK
    assert len(set(multi30k.SHA256.values())) == 16
    assert all(len(value) == 64 and set(value) <= set("0123456789abcdef") for value in multi30k.SHA256.values())
    assert list(multi30k.SETS) == list(SIZES)


@pytest.mark.parametrize("inside", ["", "multi30k"])
def test_read_raw(tiny, tmp_path, inside):
    put(tmp_path / inside)
    sets = multi30k.read("de", "en", "raw", tmp_path)
    assert list(sets) == list(SIZES)
    assert list(sets["train"]) == [
        Example("Ein Hund.", "A dog."),
        Example("Zwei Männer.", "Two men."),
        Example("Drei Bäume.", "Three trees."),
    ]
    assert list(sets["validation"]) == [Example("Ein Haus.", "A house."), Example("Schnee.", "Snow.")]
    assert sets["test"][0] == Example("Ein Ball.", "A ball.")
    assert sets["test_2017"][0] == Example("Ein Boot.", "A boat.")


@pytest.mark.parametrize("inside", ["", "multi30k"])
def test_read_tokenised(tiny, tmp_path, inside):
    put(tmp_path / inside)
    sets = multi30k.read("en", "de", "tokenised", tmp_path)
    assert list(sets["train"])[1:] == [Example("two men .", "zwei männer ."), Example("three trees .", "drei bäume .")]
    assert {name: len(pairs) for name, pairs in sets.items()} == {
        n: len(TINY[stem]["de"]) for n, stem in multi30k.SETS.items()
    }


@pytest.mark.parametrize(("form", "names"), [("raw", RAW), ("tokenised", TOK)])
def test_one_form_is_enough_to_read_it(tiny, tmp_path, form, names):
    put(tmp_path / "multi30k", names)
    assert len(multi30k.read("de", "en", form, tmp_path)["train"]) == 3


def test_a_raw_folder_of_something_else(tiny, tmp_path):
    (tmp_path / "raw").mkdir()
    put(tmp_path / "multi30k")
    assert len(multi30k.read("de", "en", "raw", tmp_path)["train"]) == 3


@pytest.mark.parametrize(("source", "target"), [("de", "de"), ("de", "fr"), ("cs", "en"), ("", "")])
def test_other_languages(tmp_path, source, target):
    with pytest.raises(DataError) as error:
        multi30k.read(source, target, "raw", tmp_path)
    assert message_of(error) == (f"multi30k: got {source!r} to {target!r}; expected 'de' to 'en' or 'en' to 'de'")


def test_another_form(tmp_path):
    with pytest.raises(DataError) as error:
        multi30k.read("de", "en", "tok", tmp_path)
    assert message_of(error) == "multi30k: got form 'tok'; expected 'raw' or 'tokenised'"


def test_a_missing_file(tiny, tmp_path):
    missing = put(tmp_path / "multi30k") / "raw" / "val.en.gz"
    missing.unlink()
    with pytest.raises(DataError) as error:
        multi30k.read("de", "en", "raw", tmp_path)
    assert message_of(error) == (
        f"{missing} is missing; `ctree data prepare multi30k --root {tmp_path}` downloads it, "
        "with --from FOLDER it takes local copies"
    )


def test_nothing_there(tmp_path):
    with pytest.raises(DataError) as error:
        multi30k.read("de", "en", "tokenised", tmp_path)
    first = tmp_path / "multi30k" / "tok" / "train.lc.norm.tok.de"
    assert message_of(error).startswith(f"{first} (and 7 more) is missing; `ctree data prepare multi30k --root")


def test_a_part_is_no_file(tiny, tmp_path):
    path = put(tmp_path / "multi30k") / RAW[0]
    path.rename(f"{path}.part")
    with pytest.raises(DataError, match="is missing"):
        multi30k.read("de", "en", "raw", tmp_path)


@pytest.mark.parametrize("name", [RAW[0], RAW[-1]])
def test_a_file_that_differs(tiny, tmp_path, name):
    path = put(tmp_path / "multi30k") / name
    path.write_bytes(gzip.compress(b"Something else.\n" * 2))
    with pytest.raises(DataError) as error:
        multi30k.read("de", "en", "raw", tmp_path)
    assert message_of(error) == (
        f"{path}: SHA-256 is {digest(path)[:12]}…, expected {digest(contents()[name])[:12]}…: "
        f"not the published file; `ctree data prepare multi30k --root {tmp_path}` gets it again"
    )


def test_download(public, tmp_path):
    _, asked = public
    root = tmp_path / "root"
    paths = multi30k.prepare(root)
    assert paths == [root / "multi30k" / name for name in ORDER]
    assert names_in(root / "multi30k") == RAW + TOK
    assert sorted(asked) == [f"/{name}" for name in RAW + TOK]
    assert all(path.read_bytes() == contents()[str(path.relative_to(root / "multi30k"))] for path in paths)
    assert len(multi30k.read("de", "en", "raw", root)["train"]) == 3


def test_downloads_at_once_are_one_download(public, tmp_path):
    _, asked = public
    threads = [threading.Thread(target=multi30k.prepare, args=(tmp_path / "root",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(asked) == [f"/{name}" for name in RAW + TOK]
    assert names_in(tmp_path / "root" / "multi30k") == RAW + TOK


def test_one_form_can_be_enough(public, tmp_path):
    multi30k.prepare(tmp_path / "root", forms=["tokenised"])
    assert names_in(tmp_path / "root" / "multi30k") == TOK


def test_what_is_there_needs_neither_network_nor_permission(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(multi30k, "URL", "http://nowhere.invalid/")
    folder = put(tmp_path / "multi30k")
    assert multi30k.prepare(tmp_path) == [folder / name for name in ORDER]
    assert not (folder / ".lock").exists()


def test_download_what_is_missing_or_wrong(public, tmp_path):
    _, asked = public
    folder = put(tmp_path / "multi30k")
    (folder / RAW[3]).unlink()
    (folder / TOK[2]).write_text("other")
    assert len(multi30k.prepare(tmp_path)) == 16
    assert sorted(asked) == [f"/{RAW[3]}", f"/{TOK[2]}"]
    assert (folder / TOK[2]).read_bytes() == contents()[TOK[2]]


def test_download_repairs_what_read_complains_about(public, tmp_path):
    """Even where the root is the folder multi30k itself, into which prepare does not write."""
    (put(tmp_path) / RAW[0]).write_text("other")
    with pytest.raises(DataError, match="gets it again"):
        multi30k.read("de", "en", "raw", tmp_path)
    multi30k.prepare(tmp_path)
    assert len(multi30k.read("de", "en", "raw", tmp_path)["train"]) == 3


def test_download_of_another_file(public, tmp_path):
    folder, _ = public
    (folder / TOK[0]).write_text("other")
    with pytest.raises(
        DownloadError, match=rf"{TOK[0]}: SHA-256 is .*`ctree data prepare multi30k --from FOLDER` takes"
    ):
        multi30k.prepare(tmp_path / "root")
    assert TOK[0] not in names_in(tmp_path / "root" / "multi30k")


def test_no_network(tiny, tmp_path, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as closed:
        url = f"http://127.0.0.1:{closed.server_address[1]}/"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(multi30k, "URL", url)
    with pytest.raises(DataError) as error:
        multi30k.prepare(tmp_path)
    assert message_of(error) == (
        f"{url}{ORDER[0]}: cannot be reached: Connection refused; "
        "`ctree data prepare multi30k --from FOLDER` takes local copies"
    )
    assert names_in(tmp_path) == []


def test_a_full_disk_is_not_the_network(public, tmp_path):
    (tmp_path / "root").write_text("in the way")
    with pytest.raises(DataError) as error:
        multi30k.prepare(tmp_path / "root")
    assert "--from" not in message_of(error)


@pytest.mark.parametrize("inside", ["", "multi30k", "data/task1", "task1"])
def test_copies(tiny, tmp_path, inside):
    put(tmp_path / "from" / inside)
    root = tmp_path / "root"
    paths = multi30k.prepare(root, tmp_path / "from")
    assert sorted(paths) == [root / "multi30k" / name for name in RAW + TOK]
    assert names_in(root) == [f"multi30k/{name}" for name in RAW + TOK]
    assert len(multi30k.read("en", "de", "tokenised", root)["test"]) == 2


@pytest.mark.parametrize("names", [RAW, TOK], ids=["raw", "tokenised"])
@pytest.mark.parametrize("more", [0, 3])
def test_copies_of_one_form(tiny, tmp_path, names, more):
    others = [name for name in RAW + TOK if name not in names]
    put(tmp_path / "from", names + others[:more])
    paths = multi30k.prepare(tmp_path, tmp_path / "from")
    assert sorted(paths) == [tmp_path / "multi30k" / name for name in names]
    assert names_in(tmp_path / "multi30k") == names


def test_copies_leave_alone_what_is_right(tiny, tmp_path):
    folder = put(tmp_path / "multi30k")
    (folder / RAW[0]).write_text("other")
    before = {name: (folder / name).stat().st_ino for name in RAW + TOK}
    multi30k.prepare(tmp_path, put(tmp_path / "from"))
    assert [name for name in RAW + TOK if (folder / name).stat().st_ino != before[name]] == [RAW[0]]
    assert (folder / RAW[0]).read_bytes() == contents()[RAW[0]]


def test_copies_onto_themselves(tiny, tmp_path):
    put(tmp_path / "multi30k")
    assert len(multi30k.prepare(tmp_path, tmp_path)) == 16
    assert names_in(tmp_path) == [f"multi30k/{name}" for name in RAW + TOK]


def test_copies_from_an_incomplete_folder(tiny, tmp_path):
    base = put(tmp_path / "from" / "data" / "task1", RAW[:3] + TOK[2:])
    with pytest.raises(DataError) as error:
        multi30k.prepare(tmp_path / "root", tmp_path / "from")
    assert message_of(error) == f"{base}: lacks {TOK[0]}, {TOK[1]}; get what is missing from {multi30k.URL}"
    assert not (tmp_path / "root").exists()


def test_copies_from_nothing(tmp_path):
    with pytest.raises(DataError, match=r"lacks raw/train\.de\.gz, raw/train\.en\.gz, raw/val\.de\.gz"):
        multi30k.prepare(tmp_path / "root", tmp_path)
    with pytest.raises(DataError, match=r"absent: no such folder; expected one with Multi30k's raw/ or tok/ in it"):
        multi30k.prepare(tmp_path / "root", tmp_path / "absent")


def test_copies_that_differ(tiny, tmp_path):
    path = put(tmp_path / "from") / TOK[-1]
    path.write_text("other\n")
    with pytest.raises(DataError) as error:
        multi30k.prepare(tmp_path / "root", tmp_path / "from")
    assert message_of(error).startswith(f"{path}: SHA-256 is ")
    assert message_of(error).endswith(f"not the published file; get it from {multi30k.URL}{TOK[-1]}")
    assert not (tmp_path / "root").exists()  # not even those that are right


@pytest.mark.parametrize("form", ["raw", "tokenised"])
def test_the_real_files(official, form):
    there, back = multi30k.read("de", "en", form, official), multi30k.read("en", "de", form, official)
    assert {name: len(pairs) for name, pairs in there.items()} == SIZES
    for name in SIZES:
        assert all((a.source, a.target) == (b.target, b.source) for a, b in zip(there[name], back[name], strict=True))


def test_the_words_of_the_real_files(official):
    """As the public repository counts them, German and English."""
    sets = multi30k.read("de", "en", "tokenised", official)
    words = {
        name: (sum(len(p.source.split()) for p in pairs), sum(len(p.target.split()) for p in pairs))
        for name, pairs in sets.items()
    }
    assert words == {
        "train": (360706, 377534),
        "validation": (12828, 13308),
        "test": (12103, 12968),
        "test_2017": (10758, 11376),
    }


def test_copies_of_the_real_files(official, tmp_path):
    paths = multi30k.prepare(tmp_path, official)
    assert all(digest(path) == multi30k.SHA256[str(path.relative_to(tmp_path / "multi30k"))] for path in paths)
    assert len(paths) == 16
