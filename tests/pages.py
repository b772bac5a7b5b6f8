"""Pages as they are read: all their blocks of code, one after the other, in one process and one folder.

Of what a page shows nothing is left out in silence. A command that takes minutes or hours has less to do, or is read by
the parser only, for a reason that stands here.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from tests.tiny_multi30k import contents, put
from torch_ctree import data
from torch_ctree.cli import main, parser
from torch_ctree.cli.train import translated
from torch_ctree.data import loading, multi30k, scan
from torch_ctree.data.downloads import digest

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
RUN = ("python", "sh", "yaml")
"""Languages of blocks that do something. ``text`` is what they print, or a formula."""
NUMBER = r"-?\d+\.\d+"
LESS = {
    r"ctree train (?!.*--(config|resume))": ("--model.width", "4", "--optimisation.max_epochs", "1"),
    r"ctree reproduce (?!--list)": ("--budget", "0s"),
}
"""What commands get that would take minutes or hours, besides a small SCAN."""
NOT_RUN = {
    r"ctree bench$": "minutes; tests/cli/test_bench.py",
    r"ctree view\b": "serves a page until it is stopped; tests/browser",
    r"ctree train .*--seeds": "processes side by side; tests/cli/test_train.py and tests/training/test_together.py",
    r"ctree train .*--trainer\.devices": "two GPUs",
    r"python (benchmarks|examples|docs)/\w+\.py": "their own tests; ship.py writes into the package",
}
"""Commands that are only read by the parser, each with a reason."""
FILES = {
    "pairs.tsv": "".join(f"{verb} {n}\t{verb}{n}\n" for verb in "abcd" for n in range(8)),
    "commands.txt": "jump twice\nwalk left\nlook and run twice\n",
    "mine.yaml": "model: {width: 4}\noptimisation: {max_epochs: 1}\n",
}
"""The reader's own."""
RESULTS = ("results/scan/torch-ctree/length-0.json", "results/questions/torch-ctree/questions-0.json")
"""Of whoever has begun with the paper's tables."""


class Block(NamedTuple):
    """What stands between fences."""

    language: str
    text: str
    shown: str | None
    """The block of text just below it: what it prints."""
    named: str | None
    """The last file with such an ending that is named above it."""


def blocks(page: str) -> list[Block]:
    """All of a page."""
    text = (ROOT / page).read_text()
    found = list(FENCE.finditer(text))
    result = []
    for here, after in zip(found, [*found, None][1:], strict=True):
        is_below = after is not None and after[2] == "text" and not text[here.end() : after.start()].strip()
        named = re.findall(rf"`([\w.-]+\.{here[2]})`", text[: here.start()])
        result.append(Block(here[2], here[3], after[3] if after and is_below else None, named[-1] if named else None))
    return result


def play(page: str, folder: Path) -> None:
    """Do all that a page shows. What it prints must be what stands below it."""
    os.chdir(folder)
    os.environ["COLUMNS"] = "100"
    for name, text in FILES.items():
        Path(name).write_text(text)
    Path("data").mkdir()
    for name in RESULTS:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, name)
    multi30k.SHA256 = {name: digest(content) for name, content in contents().items()}  # in small, as if downloaded
    put(loading.data_folder() / "multi30k")
    namespace = {"__name__": "__main__"}
    if "explorer.page" in (ROOT / page).read_text():
        do_not_serve()
    for block in blocks(page):
        said = StringIO()
        if block.language == "python":
            with redirect_stdout(said):
                exec(compile(block.text, page, "exec"), namespace)
        elif block.language == "sh":
            with redirect_stdout(said), patch.object(scan, "everything", few):
                for line in block.text.splitlines():
                    shell(line)
        elif block.language == "yaml":
            assert block.named, f"{page}: a file without a name"
            Path(block.named).write_text(block.text)
        if block.shown is not None:
            assert_alike(said.getvalue(), block.shown)
        print(said.getvalue())


everything = scan.everything


def few() -> data.Pairs:
    """A little of SCAN: short commands, and some of LENGTH's test set."""
    lengths = [len(target.split()) for target in everything().targets()]
    short, long = ([n for n, length in enumerate(lengths) if test(length)] for test in ((6).__ge__, (24).__eq__))
    return everything().take(short[::12] + long[:3])


def do_not_serve() -> None:
    """The explorer's page is made, but not served, which would not end."""
    from torch_ctree.viewing.explorer import page as explorer  # noqa: PLC0415  (takes seconds)

    explorer.serve = lambda models, k, **_: explorer.page(models, k)


def indented(page: str) -> list[str]:
    """Commands that stand there without fences, to be typed by those who take part."""
    return re.findall(r"^    ((?:ctree|make) .*)", FENCE.sub("", (ROOT / page).read_text()), re.MULTILINE)


def shell(line: str, only_read: bool = False) -> None:
    """One line."""
    words = shlex.split(line, comments=True)
    command = " ".join(words)
    if not words:
        return
    if words[0] == "ctree":
        parser().parse_args(translated(words[1:]))
    if any(re.match(pattern, command) for pattern in NOT_RUN):
        return
    if words[0] == "ctree":
        if only_read:
            return
        less = [word for pattern, more in LESS.items() if re.match(pattern, command) for word in more]
        main([*words[1:], *less])
    elif words[0] == "make":
        assert all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for target in words[1:])
    elif words[:2] == ["pip", "install"]:
        (extras,) = re.findall(r"\[([\w,]+)\]", words[-1])
        there = (ROOT / "pyproject.toml").read_text()
        assert all(re.search(rf"^{extra} = \[", there, re.MULTILINE) for extra in extras.split(","))
    else:
        raise AssertionError(f"what becomes of {command!r} is not known")


def assert_alike(printed: str, shown: str) -> None:
    """But for the last digits of numbers."""
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", shown)
    for mine, theirs in zip(re.findall(NUMBER, printed), re.findall(NUMBER, shown), strict=True):
        assert float(mine) == pytest.approx(float(theirs), abs=1e-2)
