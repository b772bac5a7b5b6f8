"""What models answered to their test set: some that are right and some that are wrong, to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch_ctree.evaluation.predictions import Prediction
from torch_ctree.viewing.explorer.answers import Answers
from torch_ctree.viewing.report.page import Html, joined, tag

EACH = 4
"""Examples of a kind."""
MOST = 60
"""Letters of a source that are shown."""


def is_right(prediction: Prediction) -> bool:
    """Whether the answer is just what was expected."""
    return prediction.output.split() == prediction.target.split()


def kinds(
    predictions: Mapping[str, Sequence[Prediction]], names: Sequence[str] = ()
) -> list[tuple[str, list[Prediction]]]:
    """All of each kind, right ones first: (what kind, examples).

    Of several models, by which were right; what not all of them were tested on is left out.

    predictions: by the name of a model, at least one
    names: of all models, of which some may have no predictions
    """
    tables = [{(one.source, one.target): one for one in some} for some in predictions.values()]
    found: dict[tuple[bool, ...], list[Prediction]] = {}
    if len(tables) == 1:
        found = {(True,): [], (False,): []}  # that there are none says something too
    for pair, one in tables[0].items():
        if all(pair in table for table in tables):
            found.setdefault(tuple(is_right(table[pair]) for table in tables), []).append(one)
    tested, beside = list(predictions), len(names) > 1
    return [(_kind(tested, right, beside), found[right]) for right in sorted(found, reverse=True)]


def spread(predictions: Sequence[Prediction], count: int = EACH) -> list[Prediction]:
    """Some, from the shortest to the longest source."""
    by_length = sorted(predictions, key=lambda one: (len(one.source.split()), one.row))
    count = min(count, len(by_length))
    return [by_length[n * (len(by_length) - 1) // max(1, count - 1)] for n in range(count)]


def _kind(names: Sequence[str], right: Sequence[bool], beside: bool) -> str:
    """What examples have in common.

    beside: whether there is another model
    """
    if len(set(right)) == 1:
        whose = " with both" if len(names) > 1 else f" with {names[0]}" if beside else ""
        return ("Right" if right[0] else "Wrong") + whose
    return "Right only with " + ", ".join(name for name, was_right in zip(names, right, strict=True) if was_right)


def examples(models: Sequence[Answers]) -> Html:
    """Buttons for some of each kind."""
    predictions = {model.name: found for model in models if (found := model.examples())}
    if not predictions:
        return tag("p", "No examples yet: ", tag("code", "ctree evaluate RUN"), " writes them into a run’s folder.")
    rows = [_row(kind, some) for kind, some in kinds(predictions, [model.name for model in models])]
    return joined(*rows) if rows else tag("p", "No examples: these two were not tested on the same sentences.")


def _row(kind: str, some: Sequence[Prediction]) -> Html:
    heading = tag("h4", kind, " ", tag("small", f"{len(some):,}"))
    return tag("div", heading, tag("ul", *map(_button, spread(some))), class_="examples")


def _button(one: Prediction) -> Html:
    given = {"title": one.source, "data_source": one.source, "data_target": one.target}
    return tag("li", tag("button", _short(one.source), type="button", **given))


def _short(text: str) -> str:
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
