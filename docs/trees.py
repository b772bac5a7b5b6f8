"""Draw the trees of the documentation: what the model that ships answers, as SVG in ``docs/pieces/``.

Pages include them whole, so that they have the colours of the page, light or dark.
"""

from __future__ import annotations

from pathlib import Path

from torch_ctree import Seq2Seq
from torch_ctree.data.disk import write
from torch_ctree.models.explaining import explain, explain_target
from torch_ctree.viewing import Look, still, svg
from torch_ctree.viewing.pictures import as_svg, attention, span_triangle
from torch_ctree.viewing.side_by_side import k_best

FOLDER = Path(__file__).parent / "pieces"
SOURCE = "walk left twice after jump"
LONGER = "jump around left after walk opposite right twice"
AMBIGUOUS = "jump twice and walk left", "I_JUMP I_JUMP I_JUMP I_TURN_LEFT I_WALK"
"""One jump more than is meant: the model has two trees for it."""


def drawings(model: Seq2Seq) -> dict[str, str]:
    """All of them, by the names of their files."""
    answer, longer = (explain(model, source)[0] for source in (SOURCE, LONGER))
    parsed = explain_target(model, *AMBIGUOUS, k=2)
    assert answer.tree is not None
    assert longer.tree is not None
    return {
        "tree": still(svg(answer.tree, title=f"The tree of the answer to: {SOURCE}")),
        "tree-folded": still(svg(longer.tree, Look(fold=True), title=f"The folded tree of the answer to: {LONGER}")),
        "tree-best": still(k_best(parsed.trees, Look(confidence=True))),
        "tree-spans": as_svg(span_triangle(parsed.spans, parsed.text.split(), width=6)),
        "tree-attention": as_svg(attention(answer.tree, answer.source, width=6)),
    }


def main() -> None:
    for name, drawing in drawings(Seq2Seq.from_pretrained("example")).items():
        write(FOLDER / f"{name}.svg", drawing.strip() + "\n")


if __name__ == "__main__":
    main()
