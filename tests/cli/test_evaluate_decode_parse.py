import io
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
import sacrebleu
import torch
from nltk import Tree

from torch_ctree import data, evaluation
from torch_ctree.cli import main
from torch_ctree.data import Vocabulary
from torch_ctree.models import ModelConfig, Seq2Seq
from torch_ctree.models.explaining import explain, explain_target
from torch_ctree.training import DataConfig, VocabularyConfig
from torch_ctree.viewing import Look, draw, from_json, svg

from ..tiny_multi30k import put
from .conftest import untrained

PROGRAM = [sys.executable, "-W", "error", "-m", "torch_ctree"]


@pytest.fixture
def copied(tmp_path):
    """A run of one's own to write into and to damage."""

    def copy(run: Path) -> Path:
        return Path(shutil.copytree(run, tmp_path / "a run [1] é"))

    return copy


def strict(text: str):
    """What is JSON for everyone: NaN and Infinity are not."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def results(run: Path):
    rows = [strict(line) for line in (run / "predictions.jsonl").read_text().splitlines()]
    return rows, strict((run / "evaluation.json").read_text())


def number(said: str, label: str) -> str:
    return re.findall(rf"^  {label} +(\S+)", said, re.MULTILINE)[-1]


# --- evaluate ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "kind"), [("tokenised", "words"), ("raw", "subwords")])
def test_noun_phrases_of_a_translation(ctree, tiny, tmp_path, form, kind):
    """Of "A ball." and "Sand.", which are all targets there, and of what a model says that has learned nothing."""
    run = untrained(
        tmp_path / "run",
        DataConfig(name="multi30k-de-en", form=form, root=str(put(tmp_path / "data"))),
        VocabularyConfig(kind=kind, min_count=1, size=300),
        depth=5,
    )
    said = ctree("evaluate", run, "--set", "test")
    rows, found = results(run)
    phrases = found["test"]["target_phrases"]
    trees = [Tree.fromstring(row["target_tree"]) for row in rows]
    expected = evaluation.phrase_share(trees, "en")
    assert expected is not None
    assert phrases == asdict(expected)
    assert (phrases["phrases"], phrases["sentences"]) == (1, 1)
    assert phrases["baselines"]["left-branching"] == 1
    assert f"  noun phrases    {phrases['share']:8.2%}   of 1 in the true targets are constituents (right" in said
    answers = evaluation.phrase_share([Tree.fromstring(row["tree"]) for row in rows if row["tree"]], "en")
    assert found["test"]["phrases"] == (None if answers is None else asdict(answers))
    assert "Noun phrases of the true targets that are constituents" in (run / "report.html").read_text()
    ctree("evaluate", run, "--set", "train")
    assert (results(run)[1]["train"]["bleu_written"] is None) == (form == "raw")


def test_evaluation_by_hand(ctree, own, copied, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # not where it was trained
    run = copied(own)
    said = ctree("evaluate", run)
    rows, found = results(run)
    pairs = data.load(own.parents[1] / "pairs.tsv").test
    assert list(found) == ["test"]
    assert [(row["row"], row["source"], row["target"]) for row in rows] == [(n, *pair) for n, pair in enumerate(pairs)]

    words = [(row["output"].split(), row["target"].split()) for row in rows]
    exact = sum(a == b for a, b in words) / len(words)
    first = sum(a[:1] == b[:1] for a, b in words) / len(words)
    same = sum(x == y for a, b in words for x, y in zip(a, b, strict=False)) / sum(
        max(map(len, pair)) for pair in words
    )
    loss = sum(-row["target_log_prob"] / len(b) for row, (_, b) in zip(rows, words, strict=True)) / len(rows)
    texts = [row["output"] for row in rows], [[row["target"] for row in rows]]
    bleu = sacrebleu.corpus_bleu(*texts, tokenize="none", force=True).score
    test = found["test"]
    assert 0 < exact <= 1  # something was learned
    assert test["pairs"] == len(rows) == 6
    assert (test["exact_match"], test["first_word"], test["token_accuracy"]) == (exact, first, same)
    assert test["loss"] == pytest.approx(loss)
    assert test["bleu"]["score"] == pytest.approx(bleu)
    assert test["tree_f1"] is test["baselines"] is None
    for length, share in test["by_length"].items():
        some = [a == b for a, b in words if len(b) == int(length)]
        assert share == {"right": sum(some), "total": len(some)}

    assert said.startswith("test: 6 pairs\n")
    assert number(said, "exact match") == f"{exact:.2%}"
    assert number(said, "first word") == f"{first:.2%}"
    assert number(said, "token accuracy") == f"{same:.2%}"
    assert number(said, "loss") == f"{loss:.4f}"
    assert number(said, "BLEU") == f"{bleu:.2f}"
    written = f"every answer: {run}/predictions.jsonl; these numbers: {run}/evaluation.json\n"
    assert said.endswith(f"{written}report: {run}/report.html\n")


def test_every_answer_is_the_models_own(ctree, own, copied):
    run = copied(own)
    model = Seq2Seq.from_pretrained(run)
    ctree("evaluate", run, "--batch-size", "4")
    for row in results(run)[0]:
        batch = model.batch([row["source"]], [row["target"]])
        answer = model.spelled(model.decode(batch), 0)
        assert answer is not None
        assert (row["output"], row["tree"]) == (answer.text, " ".join(str(answer.tree).split()))
        assert row["log_prob"] == pytest.approx(answer.log_prob, abs=1e-4)
        assert row["target_log_prob"] == pytest.approx(model.score(batch).item(), abs=1e-4)


def test_the_batch_size_does_not_matter(ctree, scan, copied):
    run = copied(scan)
    ctree("evaluate", run)
    rows, found = results(run)
    ctree("evaluate", run, "--batch-size", "700")
    others, other = results(run)
    for row, same in zip(rows, others, strict=True):
        for name in ("log_prob", "target_log_prob"):
            assert row.pop(name) == pytest.approx(same.pop(name), abs=1e-3)
    assert [row["output"] for row in rows] == [row["output"] for row in others]
    assert found["test"]["loss"] == pytest.approx(other["test"]["loss"], abs=1e-5)
    assert found["test"]["tree_f1"]["sentence_f1"] == pytest.approx(other["test"]["tree_f1"]["sentence_f1"], abs=1e-2)


def test_trees_beside_gold_ones(ctree, scan, copied):
    run = copied(scan)
    said = ctree("evaluate", run)
    rows, found = results(run)
    task = data.load("scan-turn-left")
    assert task.gold is not None
    assert list(found) == ["test"]
    assert [(row["source"], row["target"]) for row in rows] == list(task.test)
    f1 = []
    for row, pair in zip(rows, task.test, strict=True):
        mine, true = brackets(Tree.fromstring(row["target_tree"])), brackets(task.gold(pair).target)
        if len(pair.target.split()) > 2:
            f1.append(2 * len(mine & true) / (len(mine) + len(true)))
    assert found["test"]["tree_f1"]["sentence_f1"] == pytest.approx(sum(f1) / len(f1))
    assert found["test"]["tree_f1"]["sentences"] == len(f1)
    assert number(said, "tree F1") == f"{sum(f1) / len(f1):.2%}"
    assert f"balanced {found['test']['baselines']['balanced']:.1%}" in said
    assert found["test"]["bleu"] is None


def brackets(tree: Tree) -> set[tuple[int, int]]:
    """All but the words and the whole."""
    found, n = set(), 0

    def visit(part) -> None:
        nonlocal n
        first = n
        if isinstance(part, str):
            n += 1
            return
        for child in part:
            visit(child)
        found.add((first, n))

    visit(tree)
    return {(a, b) for a, b in found if 1 < b - a < n}


def test_sets(ctree, tmp_path):
    folder = tmp_path / "sets"
    folder.mkdir()
    for name, n in (("train", 9), ("valid", 2), ("test", 3)):
        (folder / f"{name}.tsv").write_text("".join(f"s{k}\tt{k} t{k}\n" for k in range(n)))
    run = untrained(tmp_path / "run", DataConfig(name=str(folder)))
    ctree("evaluate", run)
    assert {row["set"] for row in results(run)[0]} == {"test"}
    assert ctree("evaluate", run, "--set", "validation").startswith("validation: 2 pairs\n")
    assert [(row["set"], row["source"]) for row in results(run)[0]] == [("validation", "s0"), ("validation", "s1")]


def test_all_sets_that_are_not_for_choosing(ctree, tmp_path, monkeypatch):
    SOME = {"train": 2000, "validation": 20, "test": 20, "gen": 20}
    task = data.load("questions")
    some = data.Task(
        task.name, {name: pairs[: SOME[name]] for name, pairs in task.sets.items()}, task.origin, task.gold
    )
    monkeypatch.setattr(DataConfig, "load", lambda self: some)
    run = untrained(tmp_path / "run", DataConfig(name="questions"), depth=6)
    said = ctree("evaluate", run)
    assert (
        list(results(run)[1]) == [name for name in task.sets if name not in ("train", "validation")] == ["test", "gen"]
    )
    assert "test: 20 pairs\n" in said
    assert "gen: 20 pairs\n" in said


def test_what_no_tree_has(ctree, own, copied):
    """Targets of more than 2 words, at depth 1."""
    run = copied(own)
    said = ctree("evaluate", run, "--depth", "1")
    rows, found = results(run)
    assert [row["target_log_prob"] is None for row in rows] == [len(row["target"].split()) > 2 for row in rows]
    assert all(len(row["output"].split()) <= 2 for row in rows)
    assert number(said, "loss") == "inf"
    assert found["test at depth 1"]["loss"] is None


def test_what_was_found_before_stays(ctree, own, copied):
    run = copied(own)
    ctree("evaluate", run)
    before = results(run)[1]["test"]
    ctree("evaluate", run, "--depth", "5")
    ctree("evaluate", run, "--set", "validation")
    found = results(run)[1]
    assert list(found) == ["test", "test at depth 5", "validation"]
    assert found["test"] == before


def test_what_another_model_was_worth_does_not_stay(ctree, own, copied):
    run = copied(own)
    ctree("evaluate", run)
    model = Seq2Seq.from_pretrained(run)
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    model.save_pretrained(run)
    ctree("evaluate", run, "--set", "validation")
    assert list(results(run)[1]) == ["validation"]


@pytest.mark.parametrize("depth", [2, 5])
def test_evaluation_at_another_depth(ctree, own, copied, depth):
    run = copied(own)
    model = Seq2Seq.from_pretrained(run)
    ctree("evaluate", run, "--depth", depth)
    for row in results(run)[0]:
        score = model.score(model.batch([row["source"]], [row["target"]]), depth).item()
        assert row["target_log_prob"] == pytest.approx(score, abs=1e-4)
        assert row["output"] == model.answer(row["source"], depth=depth)[0].text


SEARCHES = [
    (["--search", "risk", "--candidates", "4"], "test with search risk, candidates 4"),
    (["--search", "sentence", "--length-penalty", "0.6"], "test with search sentence, length_penalty 0.6"),
    (["--search", "tree"], "test"),  # as the model has it
    (["--search", "risk", "--depth", "4"], "test at depth 4 with search risk"),
]


@pytest.mark.parametrize(("words", "name"), SEARCHES)
def test_evaluation_by_another_search(ctree, own, copied, words, name):
    run = copied(own)
    ctree("evaluate", run, *words)
    rows, found = results(run)
    assert list(found) == [name]
    given = dict(zip(words[::2], words[1::2], strict=True))
    model = Seq2Seq.from_pretrained(run).with_search(
        given["--search"],
        candidates=int(given.get("--candidates", 32)) if given["--search"] != "tree" else None,
        length_penalty=float(given.get("--length-penalty", 0)),
    )
    depth = int(given["--depth"]) if "--depth" in given else None
    for row in rows:
        (answer,) = model.answer(row["source"], depth=depth)
        assert (row["output"], row["tree"]) == (answer.text, " ".join(str(answer.tree).split()))
        assert row["log_prob"] == pytest.approx(answer.log_prob, abs=1e-4)
        if given["--search"] != "tree":
            score = model.score(model.batch([row["source"]], [row["output"]]), depth).item()
            assert row["log_prob"] == pytest.approx(score, abs=1e-4)
    ctree("evaluate", run)
    assert list(results(run)[1]) == [name, *(["test"] if name != "test" else [])]  # both stay


def test_evaluation_with_a_beam(ctree, sequence, copied):
    run = copied(sequence)
    ctree("evaluate", run, "--search", "risk", "--candidates", "6", "--beam", "3")
    rows, found = results(run)
    assert list(found) == ["test with search risk, candidates 6, beam 3"]
    model = Seq2Seq.from_pretrained(run).with_search("risk", candidates=6, beam=3)
    assert [row["output"] for row in rows] == [model.answer(row["source"])[0].text for row in rows]


def test_evaluation_of_a_sequence(ctree, sequence, copied):
    run = copied(sequence)
    said = ctree("evaluate", run)
    rows, found = results(run)
    assert all(row["tree"] is row["target_tree"] is None for row in rows)
    assert found["test"]["tree_f1"] is None
    assert number(said, "BLEU") == f"{found['test']['bleu']['score']:.2f}"
    model = Seq2Seq.from_pretrained(run)
    assert [row["output"] for row in rows] == [model.answer(row["source"])[0].text for row in rows]


def test_subwords_have_no_gold_trees(ctree, tmp_path):
    config = DataConfig(name="scan-turn-left")
    subwords = data.Subwords.train(config.load().train.targets(), 300)
    run = untrained(tmp_path / "run", config, depth=8)
    Seq2Seq(ModelConfig(width=4, depth=8), data.Vocabulary.load(run / "source.json"), subwords).save_pretrained(run)
    assert "tree F1" not in ctree("evaluate", run, "--batch-size", "400")


@contextmanager
def file_size_limit(size: int):
    """No file may grow beyond it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_takes_nothing_away(own, copied, ctree, capsys):
    run = copied(own)
    ctree("evaluate", run)
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    with file_size_limit(100), pytest.raises(SystemExit) as stopped:
        main(["evaluate", str(run), "--depth", "5"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"ctree: {run}/predictions.jsonl: cannot be written: File too large\n"
    assert before == {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}


def test_stopping_an_evaluation(own, copied, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    run = copied(own)
    monkeypatch.setattr(evaluation, "predict_all", stop)
    with pytest.raises(SystemExit) as stopped:
        main(["evaluate", str(run)])
    assert stopped.value.code == 130
    assert capsys.readouterr() == ("", "")
    assert not (run / "predictions.jsonl").exists()


# --- decode -----------------------------------------------------------------------------------------------------------


def test_answer_with_its_tree(ctree, own):
    (answer,) = Seq2Seq.from_pretrained(own).answer("jump thrice")
    assert answer.tree is not None
    probability = f"probability {math.exp(answer.log_prob):.4g} with this tree"
    expected = f"jump thrice\n{answer.text}\n{probability}\n{draw(answer.tree)}\n"
    assert ctree("decode", own, "jump thrice") == expected
    assert ctree("decode", f"{own}/", "jump thrice") == expected


@pytest.mark.parametrize("words", [["--topk", "9", "--json", "jump once"], ["jump once", "--topk", "9", "--json"]])
def test_several_answers(ctree, own, words):
    found = strict(ctree("decode", own, *words))
    answers = found["answers"]
    assert found["source"] == "jump once"
    assert len({(answer["text"], answer["tree"]) for answer in answers}) == 9
    assert [a["log_prob"] for a in answers] == sorted((a["log_prob"] for a in answers), reverse=True)
    assert sum(math.exp(answer["log_prob"]) for answer in answers) <= 1 + 1e-5
    assert all(" ".join(Tree.fromstring(answer["tree"]).leaves()) == answer["text"] for answer in answers)


def test_there_are_not_always_so_many(ctree, own):
    words = len(Seq2Seq.from_pretrained(own).target)
    assert len(strict(ctree("decode", own, "jump", "--depth", "0", "--topk", "1000", "--json"))["answers"]) == words


def test_a_file_of_sources(ctree, own, tmp_path, monkeypatch):
    (tmp_path / "sources.txt").write_bytes(b"jump twice\r\n\n  \nwalk once and run\nlook")
    sources = ["jump twice", "walk once and run", "look"]
    lines = ctree("decode", own, "--file", tmp_path / "sources.txt", "--json").splitlines()
    assert [strict(line)["source"] for line in lines] == sources
    for source, line in zip(sources, lines, strict=True):
        (alone,), (together,) = (strict(said)["answers"] for said in (ctree("decode", own, source, "--json"), line))
        assert alone.pop("log_prob") == pytest.approx(together.pop("log_prob"), abs=1e-5)
        assert alone == together
    with_mark = "\ufeffjump twice\nwalk once and run\nlook\n"  # as some programs begin what they save
    monkeypatch.setattr(sys, "stdin", io.StringIO(with_mark))
    assert ctree("decode", own, "--file", "-", "--json").splitlines() == lines
    (tmp_path / "marked.txt").write_text(with_mark, encoding="utf-8")
    assert ctree("decode", own, "--file", tmp_path / "marked.txt", "--json").splitlines() == lines


def test_another_depth(ctree, own):
    model = Seq2Seq.from_pretrained(own)
    found = strict(ctree("decode", own, "jump thrice", "--depth", "1", "--json"))
    assert found["answers"][0]["text"] == model.answer("jump thrice", depth=1)[0].text
    assert len(found["answers"][0]["text"].split()) <= 2


@pytest.mark.parametrize("search", ["sentence", "risk"])
def test_answers_by_another_search(ctree, own, search, tmp_path):
    source = "jump twice and walk"
    (answer,) = Seq2Seq.from_pretrained(own).with_search(search, candidates=5).answer(source)
    words = ["decode", own, source, "--search", search, "--candidates", "5"]
    said = ctree(*words)
    assert said.startswith(
        f"{source}\n{answer.text}\nprobability {math.exp(answer.log_prob):.4g} of the answer, over all"
    )
    assert ctree(*words, "--save", tmp_path / "tree.mrg") == said
    assert (tmp_path / "tree.mrg").read_text().split() == str(answer.tree).split()


def test_a_grammar_has_its_own_search(refused, grammar, copied):
    said = "ctree: search: got 'risk'; expected 'tree': the decoder 'grammar' has its own\n"
    assert refused("decode", grammar, "jump", "--search", "risk") == said
    assert refused("evaluate", copied(grammar), "--search", "risk") == said


def test_a_sequence_has_no_tree(ctree, sequence):
    (answer,) = Seq2Seq.from_pretrained(sequence).answer("jump twice")
    probability = f"probability {math.exp(answer.log_prob):.4g} of the answer"
    assert ctree("decode", sequence, "jump twice") == f"jump twice\n{answer.text}\n{probability}\n"
    found = strict(ctree("decode", sequence, "jump twice", "--topk", "3", "--json"))["answers"]
    assert [answer["tree"] for answer in found] == [None] * 3


def test_unknown_words_that_are_read_as_unk(own, capsys):
    main(["decode", str(own), "zork twice \x1b[31m"])
    printed, said = capsys.readouterr()
    assert printed.startswith("zork twice \\x1b[31m\n")
    assert said == "ctree: 'zork', '\\x1b[31m' not known from training, read as <unk>\n"


def test_unknown_words_that_are_not(refused, scan, tmp_path):
    said = "'jmup' is not in the vocabulary of 13 words; did you mean 'jump'?\n"
    assert refused("decode", scan, "jmup twice") == f"ctree: source: 'jmup twice': {said}"
    (tmp_path / "sources").write_text("\njmup twice\n")
    assert refused("decode", scan, "--file", tmp_path / "sources") == (
        f"ctree: {tmp_path}/sources, line 2: 'jmup twice': {said}"
    )


def test_what_is_shown_is_what_is_there(ctree, tmp_path):
    """Answers that would clear the screen, or pass for brackets or mark-up."""
    words = ["\x1b[2J", "(", "[bold]"]
    Seq2Seq(ModelConfig(width=2, depth=1), Vocabulary(["a"]), Vocabulary(words)).save_pretrained(tmp_path)
    printed = ctree("decode", tmp_path, "a", "--topk", "12")
    assert "\x1b" not in printed
    assert r"\x1b[2J  \x1b[2J" in printed  # as leaves
    assert "[bold]  [bold]" in printed
    found = strict(ctree("decode", tmp_path, "a", "--topk", "12", "--json"))["answers"]
    assert len(found) == 3 + 9
    leaves = [" ".join(Tree.fromstring(answer["tree"]).leaves()) for answer in found]
    assert leaves == [answer["text"].replace("(", "-LRB-") for answer in found]
    printed = ctree("parse", tmp_path, "--source", "a", "--target", "\x1b[2J (")
    assert "\x1b" not in printed


@pytest.mark.parametrize("columns", ["1", "30", "200"])
def test_no_terminal_is_too_narrow(ctree, own, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    printed = ctree("decode", own, "jump thrice and look")
    assert printed.count("JUMP") == 2 * Seq2Seq.from_pretrained(own).answer("jump thrice and look")[0].text.count(
        "JUMP"
    )


SHOWN = ["--probabilities", "--confidence"]
FULL = Look(probabilities=True, confidence=True)


def test_answer_with_what_is_known_of_its_tree(ctree, own, tmp_path):
    (known,) = explain(Seq2Seq.from_pretrained(own), "jump thrice")
    assert known.tree is not None
    printed = ctree("decode", own, "jump thrice", *SHOWN, "--save", tmp_path / "tree.json")
    assert printed.endswith(f"{draw(known.tree, FULL)}\n")
    assert from_json(json.loads((tmp_path / "tree.json").read_text())) == known.tree
    assert ctree("decode", own, "jump thrice", "--fold").endswith(f"{draw(known.tree, Look(fold=True))}\n")
    assert ctree("decode", own, "jump thrice", "--save", tmp_path / "tree.svg") == ctree("decode", own, "jump thrice")
    assert (tmp_path / "tree.svg").read_text() == svg(known.tree)


def test_json_is_the_same_whatever_is_saved(ctree, own, tmp_path):
    words = ["decode", own, "jump thrice", "--topk", "3", "--json"]
    assert ctree(*words, *SHOWN, "--save", tmp_path / "tree.mrg") == ctree(*words)
    assert Tree.fromstring((tmp_path / "tree.mrg").read_text()).leaves()


def test_a_sequence_has_no_tree_to_save(refused, sequence, tmp_path):
    for words in (["--save", str(tmp_path / "tree.svg")], ["--confidence"], ["--fold"]):
        assert "decode: the decoder 'gru' has no trees" in refused("decode", sequence, "jump twice", *words)
    assert list(tmp_path.iterdir()) == []


# --- parse ------------------------------------------------------------------------------------------------------------

SOURCE, TARGET = "jump thrice", "JUMP JUMP JUMP"


def test_trees_of_a_target(ctree, own):
    model = Seq2Seq.from_pretrained(own)
    found = strict(ctree("parse", own, "--source", SOURCE, "--target", TARGET, "--json"))
    score = model.score(model.batch([SOURCE], [TARGET])).item()
    best = model.parse(SOURCE, TARGET).argmax()
    assert (found["source"], found["target"]) == (SOURCE, TARGET)
    assert found["log_prob"] == pytest.approx(score, abs=1e-5)
    assert found["trees"][0]["tree"] == " ".join(str(best.trees(model.target.__getitem__)[0]).split())
    assert found["trees"][0]["probability"] == pytest.approx(best.log_prob.exp().item(), abs=1e-5)
    shares = [tree["probability"] for tree in found["trees"]]
    assert [tree["tree"] for tree in found["trees"]] != [found["trees"][0]["tree"]] * 2
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=1e-4)  # three words have two trees
    assert found["entropy"] == pytest.approx(-sum(p * math.log(p) for p in shares), abs=1e-4)
    assert [sum(word.values()) for word in found["marginals"]] == pytest.approx([1, 1, 1], abs=1e-4)
    # The first word says which tree it is: vertex 1 under (a (b c)), vertex 3 under ((a b) c).
    right = next(tree["probability"] for tree in found["trees"] if tree["tree"] == "(· JUMP (· JUMP JUMP))")
    assert found["marginals"][0]["1"] == pytest.approx(right, abs=1e-4)


def test_trees_of_a_target_for_readers(ctree, own):
    found = strict(ctree("parse", own, "--source", SOURCE, "--target", TARGET, "--json"))
    first, second = found["trees"]
    assert ctree("parse", own, "--source", SOURCE, "--target", TARGET) == (
        f"{SOURCE}\n{TARGET}\n"
        f"probability of the target, over all trees: {math.exp(found['log_prob']):.4g} (log {found['log_prob']:.4f})\n"
        f"entropy of its trees: {found['entropy']:.4f} nats\n"
        f"tree 1: probability {first['probability']:.4f} given the target\n{draw(Tree.fromstring(first['tree']))}\n"
        f"tree 2: probability {second['probability']:.4f} given the target\n  {second['tree']}\n"
    )


def test_what_is_known_of_the_tree_of_a_target(ctree, own, tmp_path):
    pair = ["--source", SOURCE, "--target", TARGET]
    best, _ = explain_target(Seq2Seq.from_pretrained(own), SOURCE, TARGET).trees[0]
    plain, full = (ctree("parse", own, *pair, *words) for words in ([], SHOWN))
    assert full == plain.replace(draw(best), draw(best, FULL))
    assert full != plain
    words = ["--json", "--save", tmp_path / "tree.json"]
    assert ctree("parse", own, *pair, *words) == ctree("parse", own, *pair, "--json")
    assert from_json(json.loads((tmp_path / "tree.json").read_text())) == best


def test_so_many_trees(ctree, own):
    four = "JUMP JUMP JUMP LOOK"
    for k, expected in ((2, 2), (100, 5)):  # Catalan(3) = 5, none deeper than 3
        found = strict(ctree("parse", own, "--source", SOURCE, "--target", four, "--topk", k, "--json"))["trees"]
        assert len({tree["tree"] for tree in found}) == len(found) == expected
        assert sum(tree["probability"] for tree in found) <= 1 + 1e-4


def test_one_word_has_one_tree(ctree, own):
    printed = ctree("parse", own, "--source", "jump", "--target", "JUMP")
    assert "entropy of its trees: 0.0000 nats\ntree 1: probability 1.0000" in printed


def test_parse_with_unknown_words(own, scan, refused, capsys):
    main(["parse", str(own), "--source", "JUMP", "--target", "JUMP"])  # a word of targets only
    assert capsys.readouterr().err == "ctree: 'JUMP' not known from training, read as <unk>\n"
    assert "did you mean 'I_JUMP'?" in refused("parse", scan, "--source", "jump", "--target", "I_JMUP")
    assert "did you mean 'jump'?" in refused("parse", scan, "--source", "jmup", "--target", "I_JUMP")


# --- a grammar --------------------------------------------------------------------------------------------------------


def test_evaluation_of_a_grammar(ctree, grammar, copied):
    run = copied(grammar)
    said = ctree("evaluate", run, "--batch-size", "4")
    rows, found = results(run)
    model = Seq2Seq.from_pretrained(run)
    for row in rows:
        batch = model.batch([row["source"]], [row["target"]])
        answer = model.spelled(model.decode(batch), 0)
        assert answer is not None
        assert (row["output"], row["tree"]) == (answer.text, " ".join(str(answer.tree).split()))
        assert row["log_prob"] == pytest.approx(answer.log_prob, abs=1e-4)
        assert row["target_log_prob"] == pytest.approx(model.score(batch).item(), abs=1e-4)
    assert number(said, "exact match") == f"{found['test']['exact_match']:.2%}"


def test_trees_of_a_grammar_beside_gold_ones(tmp_path):
    settings = {"encoder": "spans", "decoder": "grammar", "operators": 2, "depth": 6}
    run = untrained(tmp_path / "run", DataConfig(name="scan-turn-left"), **settings)
    model = Seq2Seq.from_pretrained(run)
    task = data.load("scan-turn-left")
    few = data.Task(task.name, {**task.sets, "test": task.test[:20]}, task.origin, task.gold)
    found = evaluation.predict_all(model, few, "test")
    for prediction, pair in zip(found, few.test, strict=True):
        assert prediction.target_tree is not None
        assert Tree.fromstring(prediction.target_tree).leaves() == pair.target.split()
    assert evaluation.evaluate(found, few).tree_f1 is not None


def test_answers_of_a_grammar(ctree, grammar):
    model = Seq2Seq.from_pretrained(grammar)
    (answer,) = model.answer(SOURCE)
    assert answer.tree is not None
    assert ctree("decode", grammar, SOURCE) == (
        f"{SOURCE}\n{answer.text}\nprobability {math.exp(answer.log_prob):.4g} with this tree and its phrases\n"
        f"{draw(answer.tree)}\n"
    )
    printed = ctree("decode", grammar, SOURCE, "--topk", 3)
    assert printed == ctree("decode", grammar, SOURCE, "--topk", 3)
    assert printed.count(" of the answer, over all its trees\n") == 3
    answers = strict(ctree("decode", grammar, SOURCE, "--topk", 3, "--json"))["answers"]
    for found in answers:
        assert found["log_prob"] == pytest.approx(model.score(model.batch([SOURCE], [found["text"]])).item(), abs=1e-4)
        assert Tree.fromstring(found["tree"]).leaves() == found["text"].split()


def test_the_tree_of_a_target_by_a_grammar(ctree, grammar):
    model = Seq2Seq.from_pretrained(grammar)
    found = strict(ctree("parse", grammar, "--source", SOURCE, "--target", TARGET, "--json"))
    assert list(found) == ["source", "target", "log_prob", "trees", "spans"]
    assert found["log_prob"] == pytest.approx(model.score(model.batch([SOURCE], [TARGET])).item(), abs=1e-4)
    (best,) = found["trees"]
    assert Tree.fromstring(best["tree"]).leaves() == TARGET.split()
    shares = {(part["start"], part["end"]): part["probability"] for part in found["spans"]}
    assert shares.pop((0, 3)) == pytest.approx(1, abs=1e-4)
    assert shares.keys() <= {(0, 2), (1, 3)}
    assert sum(shares.values()) == pytest.approx(1, abs=1e-4)  # a tree of three words has one of the two
    (part,) = evaluation.spans(Tree.fromstring(best["tree"]))
    assert best["probability"] <= shares[part] + 1e-6
    assert ctree("parse", grammar, "--source", SOURCE, "--target", TARGET, "--topk", 1) == (
        f"{SOURCE}\n{TARGET}\n"
        f"probability of the target, over all trees: {math.exp(found['log_prob']):.4g} (log {found['log_prob']:.4f})\n"
        f"tree 1: probability {best['probability']:.4f} given the target\n"
        f"{draw(Tree.fromstring(best['tree']))}\n"
    )


def test_what_a_grammar_does_not_parse(refused, grammar):
    assert refused("parse", grammar, *PAIR, "--topk", "2") == (
        "ctree: topk: got 2; expected 1: with the decoder 'grammar' only the best tree is found\n"
    )
    said = refused("parse", grammar, "--source", "jump", "--target", "LOOK " * 9)  # kept twice at most: four words
    assert said.endswith("no tree over the phrases of this source can have it\n")
    assert "--depth" not in said


# --- what is wrong ----------------------------------------------------------------------------------------------------

PAIR = ["--source", "jump", "--target", "JUMP"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate"], "expected run (see 'ctree evaluate --help')"),
        (["evaluate", ""], "run: got nothing; expected the folder of a run"),
        (["evaluate", "runs/own-1"], "no such run; did you mean runs/own-0?; or try the one that ships: example"),
        (["evaluate", "xyzzy"], "train one first: ctree train --list; or try the one that ships: example"),
        (["decode", "a" * 5000, "jump"], "File name too long"),
        (["evaluate", "file"], "file: a file, not the folder of a run; "),
        (["evaluate", "runs"], "runs: no model here, config.json is missing"),
        (["evaluate", "RUN", "--set", "gen"], "has no set 'gen'; it has train, validation, test"),
        (["evaluate", "RUN", "--batch-size", "0"], "batch-size: got 0; expected 1 or more"),
        (["evaluate", "RUN", "--depth", "-1"], "depth: got -1; expected a whole number from 0 to 20"),
        (["evaluate", "RUN", "--depth", "99"], "depth: got 99; expected a whole number from 0 to 20"),
        (["evaluate", "RUN", "--depth", "deep"], "depth: Expected a int. Got value: deep"),
        (
            ["evaluate", "RUN", "--search", "best"],
            "search: Expected a choice of 'tree', 'sentence', 'risk'. Got value: best",
        ),
        (
            ["evaluate", "RUN", "--candidates", "4"],
            "candidates: got 4 with the decoder 'ctree' and the search 'tree', which have no use for it; expected none",
        ),
        (["evaluate", "RUN", "--candidates", "0"], "candidates: got 0; expected a whole number, 1 or more"),
        (["evaluate", "RUN", "--length-penalty", "-1"], "length_penalty: got -1.0; expected a number from 0 to 7"),
        (["decode", "RUN", "jump", "--beam", "0"], "beam: got 0; expected a whole number, 1 or more"),
        (
            ["distill", "RUN", "--search", "sentence", "--beam", "-3"],
            "beam: got -3; expected a whole number, 1 or more",
        ),
        (["evaluate", "RUN", "--dpeth", "3"], "unrecognized arguments: --dpeth 3; did you mean --depth?"),
        (["evaluate", "RUN", "--device", "tpu"], "device: got 'tpu', which is not here; expected cpu"),
        (["evaluate", "RUN", "--device", "meta"], "device: got 'meta', which is not here; expected cpu"),
        (["evaluate", "RUN", "--device", ""], "device: got '', which is not here; expected cpu"),
        (["decode", "RUN"], "decode: expected one source, such as 'jump twice', or --file with many"),
        (["decode", "RUN", "jump", "--file", "file"], "decode: expected one source"),
        (["decode", "RUN", ""], "source: '' has no word in it"),
        (["decode", "RUN", " \n "], r"source: ' \n ' has no word in it"),
        (["decode", "RUN", "jump", "twice"], "unrecognized arguments: twice; text of several words goes in quotes"),
        (["decode", "RUN", "jump \udcff"], r"source: got 'jump \udcff'; expected text in UTF-8"),
        (["decode", "RUN", "jump", "--topk", "0"], "topk: got 0; expected 1 to 1,000"),
        (["decode", "RUN", "jump", "--depth", "21"], "depth: got 21; expected a whole number from 0 to 20"),
        (["decode", "RUN", "--file", "none"], "none: cannot be read: No such file or directory"),
        (["decode", "RUN", "--file", "."], ".: cannot be read: Is a directory"),
        (["decode", "RUN", "--file", "bytes"], "bytes: cannot be read: 'utf-8' codec can't decode"),
        (["decode", "RUN", "--file", ""], "file: got nothing; expected a file of sources, or -"),
        (["decode", "RUN", "--jsn", "jump"], "did you mean --json?"),
        (["decode", "RUN", "jump", "--save", "tree.gif"], "tree.gif: got the ending '.gif'; expected .svg, "),
        (["decode", "RUN", "jump", "--save", "tree"], "tree: got the ending ''; expected .svg, "),
        (["decode", "RUN", "jump", "--save", "file/tree.svg"], "file/tree.svg: cannot be written: "),
        (["decode", "RUN", "--file", "file", "--save", "a.svg"], "save: got 'a.svg' with --file"),
        (["parse", "RUN", *PAIR, "--save", "tree.gif"], "tree.gif: got the ending '.gif'; expected .svg, "),
        (["parse", "RUN", *PAIR, "--save", "file/tree.svg"], "file/tree.svg: cannot be written: "),
        (["parse", "RUN"], "parse: expected a pair, such as --source 'jump twice' --target 'I_JUMP I_JUMP'"),
        (["parse", "RUN", "--source", "jump"], "parse: expected a pair"),
        (["parse", "RUN", "--source", "jump", "--target", ""], "'' has no word in it"),
        (["parse", "RUN", *PAIR, "--topk", "-1"], "topk: got -1; expected 1 to 1,000"),
        (
            ["parse", "RUN", "--source", "jump", "--target", "LOOK " * 9],
            "no tree of depth 3 can have it; raise --depth",
        ),
        (
            ["parse", "RUN", "--source", "jump", "--target", "LOOK LOOK", "--depth", "0"],
            "no tree of depth 0 can have it",
        ),
    ],
)
def test_bad_command_lines(refused, own, tmp_path, monkeypatch, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "own-0").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "bytes").write_bytes(b"jump\n\xff\n")
    assert said in refused(*(str(own) if word == "RUN" else word for word in words))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(refused, own):
    assert refused("decode", own, "jump", "--device", "cuda") == (
        "ctree: device: got 'cuda', which is not here; expected cpu\n"
    )


def test_a_sequence_is_not_parsed(refused, sequence):
    said = "ctree: the decoder 'gru' has no trees; expected a model with decoder 'ctree' or 'grammar'\n"
    assert refused("parse", sequence, *PAIR) == said


def test_standard_input_that_is_closed(refused, own, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    assert "file: got nothing" in refused("decode", own, "--file", "-")


def test_damaged_runs(refused, own, sequence, copied):
    run = copied(own)
    weights = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(weights[:-9])
    assert f"{run}/model.safetensors: damaged weights" in refused("evaluate", run)
    shutil.copy(sequence / "model.safetensors", run)
    assert f"{run}/model.safetensors: weights of another model" in refused("decode", run, "jump")
    (run / "model.safetensors").unlink()
    assert f"{run}: no model here, model.safetensors is missing" in refused("parse", run, *PAIR)
    (run / "model.safetensors").write_bytes(weights)
    (run / "config.yaml").write_text("data: [\n")
    assert f"{run}/config.yaml, line 2: not YAML" in refused("evaluate", run)
    (run / "config.yaml").unlink()
    assert f"{run}: no run of 'ctree train', config.yaml is missing" in refused("evaluate", run)


def test_the_data_are_gone(refused, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"s{n}\tt{n}\n" for n in range(9)))
    run = untrained(tmp_path / "run", DataConfig(name=str(tmp_path / "pairs.tsv")))
    (tmp_path / "pairs.tsv").unlink()
    assert f"{tmp_path}/pairs.tsv: no such task or file" in refused("evaluate", run)


def test_words_that_the_model_does_not_know(refused, scan, copied):
    run = copied(scan)
    settings = (run / "config.yaml").read_text().replace("scan-turn-left", "questions")
    (run / "config.yaml").write_text(settings)
    assert refused("evaluate", run).startswith("ctree: test set, source 1: ")


# --- as a program -----------------------------------------------------------------------------------------------------


def program(*words, **options) -> tuple[int, str, str]:
    done = subprocess.run([*PROGRAM, *map(str, words)], check=False, capture_output=True, text=True, **options)
    return done.returncode, done.stdout, done.stderr


def test_all_in_a_row(own, ctree):
    """Without a home, from standard input, into a pipe that closes."""
    expected = ctree("decode", own, "jump twice")
    environment = {name: value for name, value in os.environ.items() if name != "HOME"}
    environment |= {"NO_COLOR": "1", "TERM": "dumb"}
    assert program("decode", own, "--file", "-", input="jump twice\n", env=environment) == (0, expected, "")
    piped = f"yes jump twice | head -n 2000 | {' '.join(PROGRAM)} decode '{own}' --file - | head -n 1"
    done = subprocess.run(["bash", "-c", piped], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("jump twice\n", "")


def test_out_of_memory_says_what_to_lower(own, copied):
    run = copied(own)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (5 << 29, 5 << 29))

    code, printed, said = program("evaluate", run, "--depth", "20", preexec_fn=limit)
    assert (code, printed) == (2, "")
    assert said == "ctree: out of memory; lower --batch-size, --candidates or --depth (each level less halves it)\n"
    assert not (run / "predictions.jsonl").exists()


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["decode", "RUN", "jump"], "; lower --topk, --candidates or --depth (each level less halves it)"),
        (["parse", "RUN", *PAIR], "; lower --topk or --depth (each level less halves it)"),
    ],
)
def test_out_of_memory_elsewhere(refused, own, monkeypatch, command, hint):
    def fail(*_, **__):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr(Seq2Seq, "encode", fail)
    assert refused(*(str(own) if word == "RUN" else word for word in command)) == f"ctree: out of memory{hint}\n"


def test_other_errors_are_not_hidden(own, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr(Seq2Seq, "encode", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["decode", str(own), "jump"])


def test_control_c(own, tmp_path):
    """While it waits for someone to write to a pipe."""
    os.mkfifo(tmp_path / "pipe")
    command = [*PROGRAM, "decode", str(own), "--file", str(tmp_path / "pipe")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        open(tmp_path / "pipe", "w"),  # opens once it is read
    ):
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 130


def test_main_help(capsys):
    main([])
    without = capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == without
    assert [word for word in ("train", "evaluate", "decode", "parse", "data") if f"\n    {word} " not in without] == []
    for command in ("evaluate", "decode", "parse"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        said = capsys.readouterr().out
        assert said.startswith(f"usage: ctree {command} ")
        assert all(noise not in said for noise in ("type:", "null", "``", "default: False"))


def test_a_bad_home(refused, own, monkeypatch):
    assert "~nobody-here/run: " in refused("evaluate", "~nobody-here/run")
