"""What README and docs show is what happens."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from torch_ctree.data import questions, scan
from torch_ctree.trees import naive, paper

ROOT = Path(__file__).parent.parent
DOCS = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").glob("*.md"))
NUMBER = r"-?\d+\.\d+"


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


def run(*arguments: str) -> str:
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("path", "n"), [("README.md", 0), ("docs/index.md", 0), ("docs/data.md", 0), ("docs/data.md", 1)]
)
def test_an_example_prints_what_stands_below_it(path, n):
    printed, shown = run("-c", blocks(path, "python")[n]), blocks(path, "text")[n]
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", shown)
    for mine, theirs in zip(re.findall(NUMBER, printed), re.findall(NUMBER, shown), strict=True):
        assert float(mine) == pytest.approx(float(theirs), abs=1e-2)


def test_the_algorithm_pages_code_runs():
    code = blocks("docs/algorithm.md", "python")
    assert len(code) >= 2
    assert all("assert" in block for block in code)
    run("-c", "\n".join(code))


def test_the_algorithm_pages_numbers():
    text = " ".join((ROOT / "docs" / "algorithm.md").read_text().split())
    values = json.loads((ROOT / "docs" / "figures" / "numbers.json").read_text())
    assert f"`log p(x) = −{-values['log p(x)']}`" in text
    assert f"it is {values['entropy']:.2f} nats" in text
    assert f"log {values['trees']} = {values['entropy if all were equally probable']}" in text
    assert f"677 trees, {naive.count(4, 9)} of which have nine leaves" in text
    assert f"about {naive.count(8, 48) / 1e19:.0f} × 10¹⁹ trees have 48 leaves" in text
    for depth in (2, 4, 6, 8, 10):
        V = 2 ** (depth + 1) - 1
        pairs = len(paper.successive_leaves(depth).successive)
        assert f"| {depth} | {V:,} | {pairs:,} | {V * V:,} | {2**depth + 1:,} |" in text


def test_the_demo_runs():
    printed = run(str(ROOT / "examples" / "demo.py"))
    assert "log p('the dog chased the old cat')" in printed
    assert "(· (· the dog)" in printed


@pytest.mark.parametrize("path", ["README.md", "CONTRIBUTING.md", "benchmarks/README.md", *map(str, DOCS)])
def test_files_that_documents_name_are_there(path):
    text = (ROOT / path).read_text()
    named = re.findall(r"benchmarks/(?:results/)?[\w-]+\.(?:md|json|py)", text)
    linked = [Path(path).parent / link for link in re.findall(r"\]\(([\w./-]+\.md)", text)]
    missing = [str(file) for file in (*named, *linked) if not (ROOT / file).exists()]
    assert missing == []


def test_the_data_pages_numbers():
    text = " ".join((ROOT / "docs" / "data.md").read_text().split())
    train, test = scan.by_rule("length")
    lengths = [{len(target.split()) for target in pairs.targets()} for pairs in (train, test)]
    assert f"all {len(scan.everything()):,} commands" in text
    assert f"up to {max(lengths[0])} actions | {min(lengths[1])} to {max(lengths[1])} actions" in text
    copies = Counter(scan.by_rule("jump")[0].sources())["jump"]
    assert f"`jump` alone stands {copies:,} times" in text
    sizes = questions.SIZES
    assert f"{sizes['train']:,} sentences" in text
    assert f"{sizes['test']:,} more; `gen`: {sizes['gen']:,} questions" in text
