"""What README and docs show is what happens."""

import json
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.processes import said_by
from torch_ctree import ModelConfig, Seq2Seq, data
from torch_ctree.cli import main as ctree
from torch_ctree.cli import parser
from torch_ctree.cli.train import translated
from torch_ctree.data import questions, scan
from torch_ctree.trees import naive, paper

ROOT = Path(__file__).parent.parent
DOCS = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").glob("*.md"))
NUMBER = r"-?\d+\.\d+"


def blocks(path: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / path).read_text(), flags=re.DOTALL)


@pytest.fixture
def run(tmp_path_factory) -> Callable[..., str]:
    """Runs a program → what it printed."""
    return partial(said_by, tmp_path_factory.mktemp("said") / "output")


def run_afresh(code: str) -> str:
    """By a Python that has nothing imported yet."""
    program = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout


def assert_alike(printed: str, shown: str) -> None:
    """But for the last digits of numbers."""
    assert re.sub(NUMBER, "#", printed) == re.sub(NUMBER, "#", shown)
    for mine, theirs in zip(re.findall(NUMBER, printed), re.findall(NUMBER, shown), strict=True):
        assert float(mine) == pytest.approx(float(theirs), abs=1e-2)


def test_the_first_example_prints_what_stands_below_it():
    assert_alike(run_afresh(blocks("README.md", "python")[0]), blocks("README.md", "text")[0])


@pytest.mark.parametrize(
    ("path", "n"), [("docs/index.md", 0), *(("docs/data.md", n) for n in range(3)), ("docs/models.md", 0)]
)
def test_an_example_prints_what_stands_below_it(run, path, n):
    assert_alike(run("-c", blocks(path, "python")[n]), blocks(path, "text")[n])


def test_the_algorithm_pages_code_runs(run):
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


def test_the_nine_sentences_run(run):
    printed = run(str(ROOT / "examples" / "nine_sentences.py"))
    assert "log p('the dog chased the old cat')" in printed
    assert "(· (· the dog)" in printed


def test_the_demo_runs_in_small(run, tmp_path, monkeypatch):
    """Too small to learn much, on a hundredth of SCAN; make demo itself takes minutes."""
    few = scan.everything()[::97]
    (tmp_path / "few.tsv").write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in few))
    settings = ["--data", "few.tsv", "--model.width", "8", "--optimisation.max_epochs", "1"]
    monkeypatch.chdir(tmp_path)
    printed = run(str(ROOT / "examples" / "demo.py"), *settings)
    assert "$ ctree train demo --run runs/demo-0 " in printed
    assert "\ntest: 22 pairs\n" in printed
    assert printed.count("$ ctree decode runs/demo-0 ") == 3
    assert (tmp_path / "runs" / "demo-0" / "model.safetensors").exists()


def test_an_encoder_of_ones_own(run):
    run("-c", blocks("docs/models.md", "python")[-1])


def test_the_grammar_says_what_it_never_saw(run):
    assert run("-c", blocks("docs/models.md", "python")[1]) == blocks("docs/models.md", "text")[-1]


def test_your_own_data_from_pairs_to_answers(run, tmp_path, monkeypatch, capsys):
    page = "docs/own-data.md"
    make, python = blocks(page, "python")
    monkeypatch.chdir(tmp_path)
    run("-c", make)
    (tmp_path / "small.yaml").write_text(blocks(page, "yaml")[0])
    commands = [line for block in blocks(page, "sh") for line in block.splitlines()]
    assert [command.split()[1] for command in commands] == ["data", "train", "evaluate", "decode", "parse"]
    for command in commands:
        ctree(shlex.split(command)[1:])
    printed = capsys.readouterr().out
    assert "tree depth 4, chosen from the data" in printed
    assert "le chat noir voit un loup blanc" in printed
    run("-c", python)


def test_commands_that_documents_show_are_there():
    """Each with the flags it has."""
    for path in ("README.md", "docs/quickstart.md", "docs/reproducing.md"):
        for line in "\n".join(blocks(path, "sh")).splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["ctree"]:
                parser().parse_args(translated(words[1:]))


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


def test_the_models_pages_numbers():
    text = " ".join((ROOT / "docs" / "models.md").read_text().split())
    sizes = [len(data.Vocabulary.build(side)) for side in (scan.everything().sources(), scan.everything().targets())]
    assert f"{sizes[0]} source words and {sizes[1]} target words" in text
    words = [data.Vocabulary([f"w{n}" for n in range(size)]) for size in (*sizes, *(size + 4 for size in sizes))]
    count = Seq2Seq(ModelConfig(depth=8), *words[:2]).parameter_count
    more = Seq2Seq(ModelConfig(depth=8), *words[2:]).parameter_count
    assert f"**{count:,}** parameters" in text
    assert f"has {more:,}: the {more - count:,} more" in text
