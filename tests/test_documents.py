"""What README and docs show is what happens."""

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from docs.trees import FOLDER, drawings
from tests.pages import FENCE, NOT_RUN, RUN, assert_alike, blocks, indented, shell
from tests.processes import said_by
from torch_ctree import ModelConfig, Seq2Seq, data
from torch_ctree.data import questions, scan
from torch_ctree.models.pretrained import SHIPPED
from torch_ctree.trees import naive, paper

ROOT = Path(__file__).parent.parent
DOCS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("**/*.md") if path.parent.name != "pieces")
PAGES = ["README.md", "CONTRIBUTING.md", "examples/README.md", "benchmarks/README.md", *DOCS]
PLAYED = [page for page in PAGES if any(block.language in RUN for block in blocks(page))]


@pytest.fixture
def run(tmp_path_factory) -> Callable[..., str]:
    """Runs a program → what it printed."""
    return partial(said_by, tmp_path_factory.mktemp("said") / "output")


# --- every block ------------------------------------------------------------------------------------------------------

SAID = {
    "docs/own-data.md": ["tree depth 4, chosen from the data", "le chat noir voit un loup blanc"],
    "docs/tutorials/encoder.md": ["self-attention"],
    "docs/viewing.md": ["report: runs/demo-0/report.html"],
}
"""What pages print that they do not show."""


@pytest.mark.parametrize("page", PLAYED)
def test_what_a_page_shows_is_what_happens(run, tmp_path, page):
    said = run("-c", f"from pathlib import Path\nfrom tests.pages import play\nplay({page!r}, Path({str(tmp_path)!r}))")
    assert [text for text in SAID.get(page, []) if text not in said] == []


def test_every_block_is_of_a_kind_that_is_tested():
    kinds = {(page, kind) for page in PAGES for _, kind, _ in FENCE.findall((ROOT / page).read_text())}
    assert {kind for _, kind in kinds} <= {*RUN, "text"}
    for page in PAGES:
        text = (ROOT / page).read_text()
        assert text.count("```") == 2 * len(FENCE.findall(text))
        assert "~~~" not in text


@pytest.mark.parametrize("page", PAGES)
def test_commands_without_fences_are_there(page):
    for line in indented(page):
        shell(line, only_read=True)


def test_every_exception_is_needed():
    lines = [
        line for page in PAGES for block in blocks(page) if block.language == "sh" for line in block.text.splitlines()
    ]
    said = [line.partition("  #")[0].strip() for line in lines]
    assert [pattern for pattern in NOT_RUN if not any(re.match(pattern, line) for line in said)] == []


def test_the_first_python_of_the_readme_needs_nothing_before_it():
    block = next(block for block in blocks("README.md") if block.language == "python")
    program = [sys.executable, "-W", "error", "-c", block.text]
    printed = subprocess.run(program, check=True, capture_output=True, text=True).stdout
    assert block.shown is not None
    assert_alike(printed, block.shown)


# --- numbers, and files that are named --------------------------------------------------------------------------------


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


def example(name: str, **less: int) -> str:
    """A program that runs an example in small."""
    return f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom examples.{name} import main\nmain(**{less!r})"


def test_the_nine_sentences_run(run):
    printed = run(str(ROOT / "examples" / "nine_sentences.py"))
    assert "log p('the dog chased the old cat')" in printed
    assert "(· (· the dog)" in printed


def test_the_toy_grammar_is_found(run):
    """By one of three seeds, in fewer steps."""
    printed = run("-c", example("toy_grammar", seeds=3, steps=100))
    shares = dict(re.findall(r"^(\w+(?: \d)?) +tree F1 (\S+)", printed, re.MULTILINE))
    simple = [float(shares[name]) for name in ("right_branching", "left_branching", "balanced")]
    assert max(float(shares[f"LatentTree {seed}"]) for seed in range(3)) > max(simple) + 0.2


def test_the_language_model_learns(run):
    printed = run("-c", example("language_model", steps=40))
    found = {name: float(share) for name, share in re.findall(r"^(.+?) +perplexity (\S+)$", printed, re.MULTILINE)}
    assert found["latent tree"] < found["2-gram"] < found["1-gram"]
    assert printed.count("\n  (·") == 6


def test_the_plain_loop_learns_with_either_loss(run):
    printed = run("-c", example("plain_loop", epochs=1))
    assert (
        len(re.findall(r"^(?:cross-entropy|latent trees) +\d+\.\d% of the answers right$", printed, re.MULTILINE)) == 2
    )


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_every_example_is_listed(path):
    assert f"`python examples/{path.name}`" in (ROOT / "examples" / "README.md").read_text()


def test_the_trees_are_what_the_model_says():
    """``make docs`` draws them anew."""
    found = drawings(Seq2Seq.from_pretrained("example"))
    there = {path.stem: path.read_text() for path in FOLDER.glob("*.svg")}
    assert there.keys() == found.keys()
    for name in ("tree", "tree-folded"):
        assert "NAN" not in found[name].upper()
        assert re.sub(r"\d+%", "#", there[name]) == re.sub(r"\d+%", "#", found[name].strip() + "\n")


def test_what_is_said_of_the_model_that_ships():
    test = json.loads((SHIPPED / "evaluation.json").read_text())["test"]
    readme, quickstart = (" ".join((ROOT / page).read_text().split()) for page in ("README.md", "docs/quickstart.md"))
    right, f1 = (
        f"{test['exact_match']:.2%}".replace("%", " %"),
        f"{test['tree_f1']['sentence_f1']:.1%}".replace("%", " %"),
    )
    assert f"it has {right} right, and its trees agree with the true ones in {f1} " in readme
    assert f"balanced trees {test['baselines']['balanced']:.1%})".replace("%)", " %)") in readme
    count = Seq2Seq.from_pretrained("example").parameter_count
    size = (SHIPPED / "model.safetensors").stat().st_size
    assert (
        f"It has {count:,} parameters in {size / 1e6:.2f} MB, and {right} of the {test['pairs']:,} pairs" in quickstart
    )


@pytest.mark.parametrize("path", PAGES)
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
