"""Multi30k, task 1 (Elliott et al. 2016): descriptions of pictures in English, and their German translations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from torch_ctree.data import disk, files
from torch_ctree.data.downloads import DownloadError, digest, fetch
from torch_ctree.data.errors import DataError
from torch_ctree.data.pairs import Pairs

COMMIT = "a3d2e0d26b56f3846f66a952536ffed4e401d05a"
URL = f"https://raw.githubusercontent.com/multi30k/dataset/{COMMIT}/data/task1/"
FOLDER = "multi30k"
LANGUAGES = ("de", "en")
SETS = {  # what it is here, what it is in the files' names
    "train": "train",
    "validation": "val",
    "test": "test_2016_flickr",
    "test_2017": "test_2017_flickr",
}
FORMS = {  # folder/name of a set in a language
    "raw": "raw/{}.{}.gz",
    "tokenised": "tok/{}.lc.norm.tok.{}",  # lower-cased, normalised, tokenised
}
SHA256 = {
    "raw/test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "raw/test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "raw/test_2017_flickr.de.gz": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "raw/test_2017_flickr.en.gz": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "raw/train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "raw/train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "raw/val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "raw/val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "tok/test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "tok/test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "tok/test_2017_flickr.lc.norm.tok.de": "02067e4a9402786a4fcb8c1b6f4307e4a5073ced64800abead5273b54f5f31f6",
    "tok/test_2017_flickr.lc.norm.tok.en": "c9d1dfd7a26add989382e534af235af9f0f658b2a30e7eb0efdaf142496ee54f",
    "tok/train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "tok/train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "tok/val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "tok/val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
}
LAYOUTS = ("", FOLDER, "data/task1", "task1")  # where a folder may hold raw/ and tok/; the last two in a public clone
PREPARE = f"ctree data prepare {FOLDER}"
GET = f"`{PREPARE}` gets them"


def read(source: str, target: str, form: str, root: Path) -> dict[str, Pairs]:
    """The four sets, from files whose checksums are right.

    source: the language to translate from, "de" or "en".
    target: the other one.
    form: "raw" for the text as it was written, "tokenised" for words between blanks in lower case.
    root: the folder that holds multi30k/, or multi30k/ itself.
    """
    if {source, target} != set(LANGUAGES):
        raise DataError(f"multi30k: got {source!r} to {target!r}; expected 'de' to 'en' or 'en' to 'de'")
    names = _names(form)
    folder = _folder(root, form)
    cure = f"`{PREPARE} --root {quote(str(root))}`"
    missing = [folder / name for name in names if not (folder / name).is_file()]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        raise DataError(f"{missing[0]}{more} is missing; {cure} downloads it, with --from FOLDER it takes local copies")
    for name in names:
        _checked(folder / name, SHA256[name], f"{cure} gets it again")
    return {
        name: files.read_parallel(*(folder / FORMS[form].format(stem, language) for language in (source, target)))
        for name, stem in SETS.items()
    }


def is_there(root: Path, form: str) -> bool:
    """Whether root has all files of a form, in the place where ``read`` looks for them."""
    folder = _folder(root, form)
    return all((folder / name).is_file() for name in _names(form))


def _folder(root: Path, form: str) -> Path:
    return files.folder_with(root, FOLDER, [Path(FORMS[form]).parts[0]])


def prepare(root: Path, folder: Path | None = None, forms: Iterable[str] = tuple(FORMS)) -> list[Path]:
    """Put the files into root/multi30k/ and return them. Those that are there and right are left alone.

    root: the folder that holds, or will hold, multi30k/.
    forms: which of the two to download.
    folder: take local copies from here rather than download: a folder with raw/ and tok/, or one of them, in it, one
        with multi30k/ in it, or a clone of the public repository. Forms that are not complete there are not taken.
    """
    if folder is None:
        return _download(root / FOLDER, [name for form in forms for name in _names(form)])
    contents = {
        name: _checked(copy, SHA256[name], f"get it from {URL}{name}") for name, copy in _copies(folder).items()
    }
    for name, content in contents.items():
        if not _is_right(root / FOLDER, name):
            disk.write(root / FOLDER / name, content)
    return [root / FOLDER / name for name in contents]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other process downloads there: several trainings may be started at once on a new machine."""
    from filelock import FileLock  # noqa: PLC0415  (only needed here)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):
            yield
    except OSError as error:
        raise DataError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _is_right(folder: Path, name: str) -> bool:
    return (folder / name).is_file() and digest(folder / name) == SHA256[name]


def _download(folder: Path, names: list[str]) -> list[Path]:
    if not all(_is_right(folder, name) for name in names):
        with _alone(folder):
            _fetch_all(folder, names)
    return [folder / name for name in names]


def _fetch_all(folder: Path, names: list[str]) -> None:
    for name in names:
        try:
            fetch(URL + name, folder / name, SHA256[name], label=f"{FOLDER}/{name}")
        except DownloadError as error:
            raise DownloadError(f"{error}; `{PREPARE} --from FOLDER` takes local copies") from error


def _names(form: str) -> list[str]:
    if form not in FORMS:
        raise DataError(f"multi30k: got form {form!r}; expected {' or '.join(map(repr, FORMS))}")
    return [FORMS[form].format(stem, language) for stem in SETS.values() for language in LANGUAGES]


def _copies(folder: Path) -> dict[str, Path]:
    """The files, by name, of each form that a folder has complete."""
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected one with Multi30k's raw/ or tok/ in it")
    missing = {
        (form, folder / layout): [name for name in _names(form) if not (folder / layout / name).is_file()]
        for form in FORMS
        for layout in LAYOUTS
    }
    whole = {form: base for (form, base), lacking in missing.items() if not lacking}
    if not whole:
        form, base = min(missing, key=lambda place: len(missing[place]))
        raise DataError(f"{base}: lacks {', '.join(missing[form, base])}; get what is missing from {URL}")
    return {name: base / name for form, base in whole.items() for name in _names(form)}


def _checked(path: Path, sha256: str, cure: str) -> bytes:
    """The content of a file that is the published one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    got = digest(content)
    if got != sha256:
        raise DataError(f"{path}: SHA-256 is {got[:12]}…, expected {sha256[:12]}…: not the published file; {cure}")
    return content
