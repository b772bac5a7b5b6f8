"""The script that draws trees of translations, from the folder of a run."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.translation_trees import chosen, draw, drawn, language_of
from torch_ctree.evaluation import Prediction, write_predictions
from torch_ctree.training import DataConfig, TrainConfig
from torch_ctree.viewing import brackets

ROOT = Path(__file__).parent.parent
TREE = "(· (· (· ▁Ein (· ▁Hünd chen)) (· ▁sieht (· ▁den ▁Ball))) .)"


def answer(row: int, tree: str | None = TREE, name: str = "test") -> Prediction:
    return Prediction(name, row, f"a <little> dog {row}", "-", "-", -1.0, tree)


def flat(words: int) -> str:
    return f"(· {' '.join(['w'] * words)})"


@pytest.fixture
def run(tmp_path) -> Path:
    """Its answers are in no order, and some are of another set."""
    folder = tmp_path / "a run"
    folder.mkdir()
    TrainConfig(data=DataConfig(name="multi30k-en-de")).save(folder / "config.yaml")
    rows = [answer(row, None if row == 3 else TREE) for row in reversed(range(30))]
    write_predictions(folder / "predictions.jsonl", [*rows, answer(0, name="test_2017")])
    return folder


def test_the_first_that_can_be_seen():
    some = [answer(n, flat(words)) for n, words in enumerate([4, 5, 16, 17, 10])]
    assert [one.row for one in chosen(some[::-1])] == [1, 2, 4]
    assert [one.row for one in chosen(some, trees=2)] == [1, 2]
    assert chosen([answer(0, None)]) == []
    assert [one.row for one in chosen([answer(n) for n in range(30)])] == list(range(20))


def test_words_are_counted_and_not_pieces():
    pieces = " ".join(["▁w", *["x"] * 16, *["▁w"] * 4])
    assert len(chosen([answer(0, f"(· {pieces})")])) == 1


def test_words_and_phrases():
    assert brackets(drawn(TREE, "de")) == "(· (· (NP Ein Hündchen) (· sieht (NP den Ball))) .)"
    assert "NP" not in brackets(drawn(TREE, None))


def test_all_files(run, tmp_path):
    files = draw(run, tmp_path / "out")
    assert [file.name for file in files] == [*(f"tree-{n:02}.svg" for n in range(1, 21)), "trees.svg"]
    whole = ElementTree.parse(files[-1]).getroot()
    said = [text.text for text in whole.iter("{http://www.w3.org/2000/svg}text")]
    numbers = [int(match[1]) for text in said if (match := re.match(r"(\d+)\. a <little> dog", str(text)))]
    assert numbers == [1, 2, 3, *range(5, 22)]  # from 1; one has no tree
    assert said.count("NP") == 2 * 20
    assert said.count("Hündchen") == 20
    before = files[-1].read_bytes()
    assert draw(run, tmp_path / "out")[-1].read_bytes() == before


def test_files_of_predictions(run, tmp_path):
    """The language is looked for beside them."""
    there = draw(run / "predictions.jsonl", tmp_path / "there")[-1].read_text()
    (run / "config.yaml").unlink()
    assert language_of(run) is None
    alone = draw(run / "predictions.jsonl", tmp_path / "alone")[-1].read_text()
    assert (">NP<" in there, ">NP<" in alone) == (True, False)
    assert len(draw(run, tmp_path / "other", "test_2017")) == 2


def test_nothing_to_draw(run, tmp_path):
    with pytest.raises(SystemExit, match="no tree of 5 to 16 words in the gen set"):
        draw(run, tmp_path / "out", "gen")


def test_the_command(run, tmp_path):
    command = [sys.executable, "docs/translation_trees.py", str(run), "--out", str(tmp_path / "out")]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert said.stdout == f"{tmp_path / 'out' / 'trees.svg'}\n"
