"""The report of a run: what is in its folder, on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torch_ctree.data.disk import write
from torch_ctree.data.errors import count, in_one_line
from torch_ctree.evaluation import Prediction, by_cell
from torch_ctree.viewing.report import errors, examples
from torch_ctree.viewing.report.folder import WHAT, Epoch, MissingError, RunFolder, is_finite
from torch_ctree.viewing.report.page import (
    NOTHING,
    Html,
    Section,
    abreast,
    bar,
    code,
    facts,
    folded,
    joined,
    missing,
    page,
    paragraph,
    picture,
    table,
    tag,
)

REPORT = "report.html"
NO_NUMBER = "–"
CONFUSIONS = 10
"""That are shown, at most."""
METRICS = {
    "exact_match": "exact match",
    "first_word": "first word",
    "token_accuracy": "token accuracy",
    "loss": "loss, nats a word",
    "bleu": "BLEU",
    "bleu_written": "BLEU, as written",
    "tree_f1": "tree F1",
}
"""What an evaluation has, and what it is called."""
BLEUS = ("bleu", "bleu_written")
ODD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
"""What comes of a file that is not as this version has it."""


@dataclass(frozen=True)
class Beside:
    """What was published of a model like this one, to stand beside its numbers."""

    source: str = ""
    """Whose numbers these are."""
    numbers: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(Set, metric) → as it is shown."""


def write_run_report(folder: Path, published: Beside | None = None) -> Path:
    """Make ``report.html`` in the folder of a run, from what is there → where it is.

    Whatever is missing is said in its place, with the command that makes it.

    published: numbers to show beside those of the run
    """
    path = folder / REPORT
    write(path, run_report(folder, published or Beside()))
    return path


def run_report(folder: Path, published: Beside) -> str:
    """The page."""
    run = RunFolder(folder)
    parts: list[tuple[str, Callable[[], Sequence[Html]]]] = [
        ("How good it is", lambda: _results(run, published)),
        ("How it learned", lambda: _curves(run)),
        ("What goes wrong", lambda: _errors(run)),
        ("The best and the worst answers", lambda: _examples(run)),
        ("Settings", lambda: _settings(run)),
        ("Files", lambda: _files(run)),
    ]
    sections = [_section(title, make) for title, make in parts]
    from torch_ctree import __version__  # noqa: PLC0415  (it imports everything)

    ending = f"Made from the files in this folder by torch-ctree {__version__}."
    return page(run.name, _lead(run, published), sections, ending)


def _section(title: str, make: Callable[[], Sequence[Html]]) -> Section:
    """A part of the page, or why there is none."""
    try:
        return Section(title, make())
    except MissingError as error:
        return Section(title, [missing(f"{error.why}; made by ", code(error.command))])
    except ODD as error:
        said = f"{type(error).__name__}: {in_one_line(error, 200)}"
        return Section(title, [missing(f"The files of this run are not as this version has them ({said}).")])


def percent(value: Any) -> str:
    """A share of one."""
    return f"{value:.2%}" if is_finite(value) else NO_NUMBER


# --- above everything -------------------------------------------------------------------------------------------------


def _lead(run: RunFolder, published: Beside) -> list[Html]:
    """What was trained, and the most important numbers; as much of it as is there."""
    found: list[tuple[str, str, str]] = []
    about: list[Html] = []
    with suppress(MissingError, *ODD):
        about.append(paragraph(_about(run.settings), kind="lead"))
    with suppress(MissingError, *ODD):
        found += _tested(run, published)
    with suppress(MissingError, *ODD):
        found += _validated(run.epochs)
    return [*about, *([facts(found)] if found else [])]


def _about(settings: Mapping[str, Any]) -> str:
    data, model = settings["data"], settings["model"]
    return f"{data['name']}: {model['encoder']} + {model['decoder']}, seed {settings['seed']}"


def _tested(run: RunFolder, published: Beside) -> list[tuple[str, str, str]]:
    """The exact match of each set, and whatever else has been published."""
    found = []
    for name, result in run.evaluation.items():
        for metric in ("exact_match", *(known for set_, known in published.numbers if set_ == name)):
            printed = published.numbers.get((name, metric))
            fact = (f"{METRICS[metric]}, {name}", percent(result[metric]), f"published {printed}" if printed else "")
            if fact not in found:
                found.append(fact)
    return found


def _validated(epochs: Sequence[Epoch]) -> list[tuple[str, str, str]]:
    attempts = len({epoch.get("attempt") for epoch in epochs})
    tries = f", {count(attempts, 'attempt')}" if attempts > 1 else ""
    more = f"highest of {count(len(epochs), 'epoch')}{tries}"
    found = [("validation accuracy", percent(max(epoch["validation_accuracy"] for epoch in epochs)), more)]
    scores = [epoch["validation_bleu"] for epoch in epochs if "validation_bleu" in epoch]
    return [*found, *([("validation BLEU", f"{max(scores):.2f}", more)] if scores else [])]


# --- how good it is ---------------------------------------------------------------------------------------------------


def _results(run: RunFolder, published: Beside) -> list[Html]:
    sets = run.evaluation
    if not sets:
        raise MissingError("evaluation.json has no set", run.evaluate)
    parts = [_other_weights(run), abreast(table(_metrics(sets, published)), _trees(sets), *_phrases(sets))]
    if published.numbers:
        parts.append(paragraph(f"Published: {published.source}.", kind="faint"))
    for metric in BLEUS:
        signatures = dict.fromkeys(result[metric]["signature"] for result in sets.values() if result.get(metric))
        parts += [paragraph(f"{METRICS[metric]}: ", code(signature), kind="faint") for signature in signatures]
    return [*parts, _by_length(sets)]


def _other_weights(run: RunFolder) -> Html:
    if not run.is_of_other_weights:
        return NOTHING
    said = "The model has changed since then: these numbers, and the answers below, are of other weights. "
    return missing(said, "This tests it as it is: ", code(run.evaluate))


def _metrics(sets: Mapping[str, Mapping[str, Any]], published: Beside) -> list[list[str]]:
    """Every number of every set, with the published ones of a set to its right."""
    printed = {name: {metric for set_, metric in published.numbers if set_ == name} for name in sets}
    header = [""]
    for name in sets:
        header += [name, *(["published"] if printed[name] else [])]
    lines = [header]
    for metric, called in METRICS.items():
        line = [called]
        for name, result in sets.items():
            line.append(_metric(metric, result))
            line += [published.numbers.get((name, metric), "")] if printed[name] else []
        if any(cell not in (NO_NUMBER, "") for cell in line[1:]):
            lines.append(line)
    pairs = [[f"{result['pairs']:,}", *([""] if printed[name] else [])] for name, result in sets.items()]
    return [*lines, ["pairs", *(cell for some in pairs for cell in some)]]


def _metric(name: str, result: Mapping[str, Any]) -> str:
    """As it is shown."""
    value = result.get(name)
    if name == "loss":
        return f"{value:.4f}" if is_finite(value) else "infinite"
    if name in BLEUS:
        return f"{value['score']:.2f}" if value else NO_NUMBER
    return percent(value["sentence_f1"] if name == "tree_f1" and value else value)


def _trees(sets: Mapping[str, Mapping[str, Any]]) -> Html:
    """How much the trees of the targets agree with the gold ones, beside trees that need no model."""
    there = {name: result for name, result in sets.items() if result.get("tree_f1")}
    if not there:
        return NOTHING
    simple = dict.fromkeys(kind for result in there.values() for kind in result["baselines"])
    lines = [["trees", *there]]
    lines.append(["of this model", *(percent(result["tree_f1"]["sentence_f1"]) for result in there.values())])
    lines += [[kind, *(percent(result["baselines"].get(kind)) for result in there.values())] for kind in simple]
    lines.append(["sentences", *(f"{result['tree_f1']['sentences']:,}" for result in there.values())])
    return table(lines, caption="Best trees of the true targets: F1 with the gold trees")


def _phrases(sets: Mapping[str, Mapping[str, Any]]) -> list[Html]:
    """How many noun phrases of answers and of targets are constituents, beside trees that need no model."""
    parts = []
    for key, whose in {"phrases": "the answers", "target_phrases": "the true targets"}.items():
        there = {name: result[key] for name, result in sets.items() if result.get(key)}
        simple = dict.fromkeys(kind for found in there.values() for kind in found["baselines"])
        lines = [["trees", *there], ["of this model", *(percent(found["share"]) for found in there.values())]]
        lines += [[kind, *(percent(found["baselines"].get(kind)) for found in there.values())] for kind in simple]
        lines.append(["noun phrases", *(f"{found['phrases']:,}" for found in there.values())])
        if there:
            parts.append(table(lines, caption=f"Noun phrases of {whose} that are constituents"))
    return parts


def _by_length(sets: Mapping[str, Mapping[str, Any]]) -> Html:
    from torch_ctree.viewing.pictures import accuracy_by_length  # noqa: PLC0415  (matplotlib takes a while to import)

    shares = {
        name: {int(words): (share["right"], share["total"]) for words, share in result["by_length"].items()}
        for name, result in sets.items()
    }
    about = "exact match by the number of words in the target"
    return picture(accuracy_by_length(shares), about, "Exact match by the number of words in the target")


# --- how it learned ---------------------------------------------------------------------------------------------------


def _curves(run: RunFolder) -> list[Html]:
    from torch_ctree.viewing.pictures import learning_curves  # noqa: PLC0415

    epochs = run.epochs
    attempts = len({epoch.get("attempt") for epoch in epochs})
    anew = f"; it began anew {count(attempts - 1, 'time')}" if attempts > 1 else ""
    caption = f"{count(len(epochs), 'epoch')}{anew}"
    columns = [name for name in epochs[0] if name not in ("epoch", "attempt")]
    numbers = [[f"{epoch[name]:g}" if name in epoch else NO_NUMBER for name in epochs[0]] for epoch in epochs]
    return [
        picture(learning_curves({run.name: epochs}), f"learning curves: {', '.join(columns)}", caption),
        folded("Every epoch", table([[name.replace("_", " ") for name in epochs[0]], *numbers], words=0)),
    ]


# --- answers ----------------------------------------------------------------------------------------------------------


def _errors(run: RunFolder) -> list[Html]:
    parts = []
    for name, predictions in run.predictions.items():
        wrong = errors.grouped(predictions)
        number = sum(len(group.predictions) for group in wrong)
        parts.append(tag("h3", f"{name}: {number:,} of {count(len(predictions), 'answer')} wrong"))
        parts += [_kinds(wrong, number), _confused(predictions)]
        if run.is_of_scan:
            parts.append(_cells(predictions))
    return parts


def _kinds(wrong: Sequence[errors.Group], number: int) -> Html:
    """A line for each kind, with its shortest example folded below."""
    lines: list[list[str]] = [["kind", "answers", "share", ""]]
    for group in wrong:
        share = len(group.predictions) / number
        name = joined(group.kind.name, tag("small", group.kind.about))
        lines.append([name, f"{len(group.predictions):,}", f"{share:.1%}", bar(share)])
    shown = [part for group in wrong for part in (tag("h4", group.kind.name), examples.of(group.example))]
    return joined(table(lines), folded("An example of each", *shown)) if wrong else NOTHING


def _confused(predictions: Sequence[Prediction]) -> Html:
    found = errors.confusions(predictions)
    lines = [["expected", "said", "times"]]
    lines += [[*words, f"{times:,}"] for words, times in found.most_common(CONFUSIONS)]
    more = f"; {len(found) - CONFUSIONS:,} more pairs of words" if len(found) > CONFUSIONS else ""
    return table(lines, words=2, caption=f"Which word for which, in answers of the right length{more}")


def _cells(predictions: Sequence[Prediction]) -> Html:
    from torch_ctree.viewing.pictures import heat_map  # noqa: PLC0415

    shares = by_cell(predictions)
    about = "exact match by what a phrase of the command does, and how often"
    means = {cell: share.accuracy for cell, share in shares.items()}
    return picture(
        heat_map({"": means}), about, "Exact match, in percent, by what a phrase of the command does, and how often"
    )


def _examples(run: RunFolder) -> list[Html]:
    parts = []
    for name, predictions in run.predictions.items():
        for group in examples.chosen(predictions):
            parts.append(tag("h3", f"{group.title} ({name})"))
            parts += map(examples.of, group.predictions)
    return parts


# --- settings and files -----------------------------------------------------------------------------------------------


def _settings(run: RunFolder) -> list[Html]:
    lines = [["setting", "value"]]
    for section, values in run.settings.items():
        inner = values if isinstance(values, Mapping) else {"": values}
        lines += [[f"{section}.{name}".rstrip("."), _value(value)] for name, value in inner.items()]
    return [folded(f"{count(len(lines) - 1, 'setting')}", table(lines, words=2))]


def _value(value: Any) -> str:
    """As YAML has it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _files(run: RunFolder) -> list[Html]:
    """What is in the folder."""
    lines: list[list[str]] = [["file", "bytes", "written"]]
    for name, what in WHAT.items():
        path = run.path / name
        if path.is_file():
            found = path.stat()
            date = datetime.fromtimestamp(found.st_mtime, UTC)
            lines.append([joined(name, tag("small", what)), f"{found.st_size:,}", f"{date:%Y-%m-%d %H:%M} UTC"])
    return [paragraph("In ", code(str(run.path.resolve())), kind="faint"), table(lines)]
