"""How true the data made here are to the official ones, which a folder must hold.

python benchmarks/fidelity.py --root FOLDER

How often detokenising Multi30k's tokenised validation set gives the raw sentence back, what BLEU is left when its
capitals are put back as the training set has them, and how often each structure of question formation comes in the
official sets and in those made here. Writes benchmarks/results/fidelity.json and .md.
"""

from __future__ import annotations

import argparse
import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from torch_ctree import data
from torch_ctree.circumstances import circumstances, keep
from torch_ctree.data import questions
from torch_ctree.evaluation import bleu

ROOT = Path(__file__).resolve().parent.parent
SEED = 0


def detokenised(root: Path) -> dict[str, float]:
    """Share of validation sentences that detokenising gives back, but for case, kinds of quotation marks and blanks."""
    shares = {}
    for language, other in (("de", "en"), ("en", "de")):
        raw, tokenised = (
            data.load(f"multi30k-{language}-{other}", root, form=form).validation for form in ("raw", "tokenised")
        )
        same = [
            plain(a.source) == plain(data.detokenize(b.source, language)) for a, b in zip(raw, tokenised, strict=True)
        ]
        shares[language] = sum(same) / len(same)
    return shares


def written(root: Path) -> dict[str, float]:
    """BLEU of the validation set's own tokenised targets, with capitals and without blanks, against the raw ones."""
    scores = {}
    for pair in ("multi30k-en-de", "multi30k-de-en"):
        task = data.load(pair, root)
        assert task.written is not None, "the folder has both forms"
        known = task.written()
        texts = [known.plain(text) for text in task.validation.targets()]
        scores[known.language] = bleu(texts, known.targets["validation"], tokenised=False).score
    return scores


def question_counts(pairs: data.Pairs) -> dict[str, dict[str, int]]:
    """How often each structure of question formation comes. Intransitives are counted after subjects that are not bare:
    of the others, the shortest sentences there are, other sets have used most up."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("order", "subject", "verb", "object", "clause")}
    for example in pairs:
        tree = questions.gold(example).source
        order, (subject, (_, predicate)) = str(tree[1]), tree[0][0]
        counts["order"][order] += 1
        if order == "decl" and not isinstance(predicate, str):
            counts["subject"][modifier(subject)] += 1
        if modifier(subject) != "bare":
            counts["verb"]["intransitive" if isinstance(predicate, str) else "transitive"] += 1
        if not isinstance(predicate, str):
            counts["object"][modifier(predicate[1])] += 1
        for place, phrase in (("subject", subject), ("object", "" if isinstance(predicate, str) else predicate[1])):
            if phrase and modifier(phrase) == "RC":
                counts["clause"][f"on the {place}: {clause(phrase[1][1])}"] += 1
    return {name: dict(sorted(count.items())) for name, count in counts.items()}


def modifier(noun_phrase: Any) -> str:
    return "bare" if isinstance(noun_phrase[1], str) else noun_phrase[1].label()


def clause(tree: Any) -> str:
    if tree.label() == "S":
        return "who the yak does amuse"
    return "who does wait" if isinstance(tree[1], str) else "who does amuse the yak"


def proportions(root: Path) -> dict[str, Any]:
    """The official sets of question formation beside those made here."""
    made, official = questions.generate(SEED), questions.official(questions.official_folder(root))
    return {
        name: {"official": question_counts(official[name]), "made here": question_counts(made[name])}
        for name in ("validation", "test", "gen")
    }


def shortest(root: Path) -> dict[str, int]:
    """How many of the shortest sources there are, such as ``the yak does smile . decl``, and where they are."""
    short = [template for template in questions.ordinary() if len(template.slots) == 4]
    possible = sum(math.prod(len(questions.LEXICON[slot]) for slot in template.slots) for template in short)
    sets = {
        "official test": questions.official(questions.official_folder(root))["test"],
        **{f"{name} made here": pairs for name, pairs in questions.generate(SEED).items() if name in ("train", "test")},
    }
    weights = questions.ordinary()
    expected = sum(weights[template] for template in short) / sum(weights.values())
    return {
        "possible": possible,
        "expected in 10,000 by their proportion": round(10_000 * expected),
        **{name: sum(len(source.split()) == 6 for source in pairs.sources()) for name, pairs in sets.items()},
    }


def plain(text: str) -> str:
    """Lower case, one kind of quotation mark, apostrophe and dash, single blanks."""
    text = re.sub("[„“”«»]", '"', text.lower())
    text = re.sub("[‚‘’´`]", "'", text)
    return " ".join(re.sub("[–—]", "-", text).split())


def markdown(results: dict[str, Any]) -> str:
    how = f"commit {results['commit']}; {results['date']}; `{results['command']}`"
    shares = ", ".join(f"{language} {share:.2%}" for language, share in results["detokenised"].items())
    return "\n".join(
        [
            "# Fidelity",
            "",
            how,
            "",
            f"Multi30k validation sentences that detokenising gives back, case and kinds of marks aside: {shares}. "
            "The rules were written with the training set and a part of these sentences in view.",
            "",
            "With capitals as the training set has them, BLEU (13a) of the validation set's own targets, against these "
            f"as they were written: {', '.join(f'{name} {score:.1f}' for name, score in results['written'].items())}.",
            "",
            "Question formation, in shares of each group, official / made here:",
            "",
            "| structure | validation | test | gen |",
            "|---|---|---|---|",
            *question_rows(results["questions"]),
            "",
            "The shortest sources, `the yak does smile . decl` and their like: "
            + "; ".join(f"{name}: {count:,}" for name, count in results["shortest"].items()),
            "",
        ]
    )


def question_rows(sets: dict[str, Any]) -> list[str]:
    groups = {
        group: sorted({kind for both in sets.values() for counts in both.values() for kind in counts[group]})
        for group in sets["test"]["official"]
    }
    rows = []
    for group, kinds in groups.items():
        for kind in kinds:
            cells = [
                " / ".join(share(both[way][group], kind) for way in ("official", "made here")) for both in sets.values()
            ]
            rows.append(f"| {group}: {kind} | {' | '.join(cells)} |")
    return rows


def share(counts: dict[str, int], kind: str) -> str:
    """A kind's part of its group; where the group is one of clauses, of those in the same place."""
    place = kind.partition(":")[0] if ":" in kind else ""
    total = sum(count for name, count in counts.items() if name.startswith(place))
    return f"{counts.get(kind, 0) / total:.1%}" if total else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True, help="a data folder with multi30k/ and question/")
    arguments = parser.parse_args()
    results = circumstances(torch.device("cpu"), None)
    results["command"] = "python benchmarks/fidelity.py --root FOLDER"  # where the folder was is nobody's business
    results |= {"seed": SEED, "detokenised": detokenised(arguments.root), "written": written(arguments.root)}
    results |= {"questions": proportions(arguments.root), "shortest": shortest(arguments.root)}
    path = ROOT / "benchmarks" / "results" / "fidelity.json"
    keep(path, results, markdown(results))
    print(markdown(results))


if __name__ == "__main__":
    main()
