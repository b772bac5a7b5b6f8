"""What README and docs show is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NUMBER = r"-?\d+\.\d+"


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


def run(*arguments: str) -> str:
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("path", ["README.md", "docs/index.md"])
def test_an_example_prints_what_stands_below_it(path):
    printed, shown = run("-c", blocks(path, "python")[0]), blocks(path, "text")[0]
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", shown)
    for mine, theirs in zip(re.findall(NUMBER, printed), re.findall(NUMBER, shown), strict=True):
        assert float(mine) == pytest.approx(float(theirs), abs=1e-2)


def test_the_algorithm_pages_code_runs():
    code = blocks("docs/algorithm.md", "python")
    assert len(code) >= 2
    assert all("assert" in block for block in code)
    run("-c", "\n".join(code))


def test_the_demo_runs():
    printed = run(str(ROOT / "examples" / "demo.py"))
    assert "log p('the dog chased the old cat')" in printed
    assert "(· (· the dog)" in printed
