"""Draw the trees of a translation model's answers, for papers and pages: ``python docs/translation_trees.py RUN``.

They are the first of the set whose answers have 5 to 16 words, marks included, so that nobody chose them. Each is a
file, ``tree-01.svg`` and so on, and ``trees.svg`` has all of them below one another. Pieces of a word are drawn as the
word where they are a constituent, and noun phrases that are constituents are labelled.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from torch_ctree import training
from torch_ctree.data.disk import write
from torch_ctree.data.errors import DataError
from torch_ctree.evaluation import Prediction, phrase_spans, read_predictions, words_of
from torch_ctree.evaluation.evaluating import PREDICTIONS, from_brackets
from torch_ctree.training.configuration import CONFIG
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import Look, labelled, still, svg, whole_words
from torch_ctree.viewing.layout import MARGIN, WORD, Text, layout
from torch_ctree.viewing.pictures.style import PAPER
from torch_ctree.viewing.svg import group, line, picture
from torch_ctree.viewing.text import ems

SHORTEST, LONGEST = 5, 16
"""Words of an answer."""
TREES = 20
LABEL = "NP"
LOOK = Look(sideways=False)
HEAD = 22.0
"""Of a line of text above a tree, in the unit of layouts."""


def chosen(predictions: Sequence[Prediction], trees: int = TREES) -> list[Prediction]:
    """The first, in the order of the set, whose answers have a tree and as many words as are easily seen."""
    ordered = sorted(predictions, key=lambda one: one.row)
    return list(islice((one for one in ordered if one.tree and SHORTEST <= length(one.tree) <= LONGEST), trees))


def length(tree: str) -> int:
    return len(words_of(from_brackets(tree).leaves()))


def drawn(tree: str, language: str | None) -> Vertex:
    """The tree over words, with noun phrases labelled."""
    pieces = from_brackets(tree)
    phrases = phrase_spans(pieces.leaves(), language) if language else set()
    return whole_words(labelled(pieces, phrases, LABEL))


def sheet(trees: Sequence[tuple[Prediction, Vertex]]) -> str:
    """An SVG of trees below one another, each below its number in the set and its source."""
    groups, width, y = [], 0.0, 0.0
    for one, tree in trees:
        place, head = layout(tree, LOOK), f"{one.row + 1}. {one.source}"
        title = line(Text(MARGIN, HEAD - 5, head, WORD, "start"))
        moved = f'<g transform="translate(0 {HEAD:.0f})">{group(place)}</g>'
        groups.append(f'<g transform="translate(0 {y:.0f})">{title}{moved}</g>')
        y += HEAD + place.height
        width = max(width, place.width, ems(head) * WORD + 2 * MARGIN)
    paper = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return still(picture(width, y, f"{len(trees)} trees of answers", paper + "".join(groups)))


def language_of(run: Path) -> str | None:
    """Of a run's answers, as its task has it; None of other runs, and of files."""
    path = run / CONFIG
    name = training.build(training.read(path)).data.name if path.is_file() else ""
    return name.rsplit("-", 1)[-1] if name.startswith("multi30k-") else None


def draw(run: Path, out: Path, name: str = "test") -> list[Path]:
    """Write all files → where they are.

    run: the folder of a run that has been evaluated, or a file of predictions
    name: of the set
    """
    predictions = read_predictions(run / PREDICTIONS if run.is_dir() else run)
    language = language_of(run if run.is_dir() else run.parent)
    trees = [(one, drawn(str(one.tree), language)) for one in chosen([one for one in predictions if one.set == name])]
    if not trees:
        raise SystemExit(f"{run}: no tree of {SHORTEST} to {LONGEST} words in the {name} set")
    drawings = {
        f"tree-{n:02}.svg": still(svg(tree, LOOK, title=f"The tree of the answer to: {one.source}"))
        for n, (one, tree) in enumerate(trees, 1)
    }
    drawings["trees.svg"] = sheet(trees)
    for file, drawing in drawings.items():
        write(out / file, drawing.strip() + "\n")
    return [out / file for file in drawings]


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the trees of a translation model's answers.")
    parser.add_argument(
        "run", type=Path, help="the folder of a run that ctree evaluate has tested, or predictions.jsonl"
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder for the drawings")
    parser.add_argument("--set", default="test", help="the set whose answers are drawn (default: test)")
    given = parser.parse_args()
    try:
        *_, whole = draw(given.run, given.out, given.set)
    except DataError as error:
        raise SystemExit(str(error)) from error
    print(whole)


if __name__ == "__main__":
    main()
