from dataclasses import replace

import pytest

from torch_ctree.experiments import TABLES
from torch_ctree.experiments.beside import beside, of_row
from torch_ctree.training import build, merged, preset, read

SCAN, QUESTIONS = TABLES["scan"], TABLES["questions"]
LENGTH = {("test", "exact_match"): "44.7 ± 33.5%\n▁▅▂▂▁▁▁▁▂▃"}


def settings(name, **changes):
    return build(merged(read(preset(name)), changes))


def test_a_run_of_a_row():
    found = beside(settings("paper-scan-length"))
    assert found.numbers == LENGTH
    assert found.source.startswith("OM-CTree + LA (SCAN: Table 1): mean ± standard deviation of 10 runs, below it ")
    questions = beside(settings("paper-questions"))
    assert questions.numbers == {("test", "exact_match"): "100 ± 0%", ("gen", "first_word"): "93 ± 7%"}
    assert questions.source == "OM-CTree (English question formation: Table 2): mean ± standard deviation of 5 runs"


def test_what_makes_no_other_row():
    changes = {"seed": 7, "data": {"root": "/elsewhere"}, "trainer": {"accelerator": "cpu", "fast": False}}
    assert beside(settings("paper-scan-length", **changes)).numbers == LENGTH


@pytest.mark.parametrize("change", [{"model": {"width": 16}}, {"optimisation": {"max_epochs": 1}}])
def test_other_settings_are_of_no_row(change):
    assert not beside(settings("paper-scan-length", **change)).numbers


def test_a_run_of_no_row():
    assert not beside(settings("demo")).numbers
    assert not beside(settings("paper-scan-around-right")).numbers  # the paper does not have that split
    one = settings("paper-scan-length")
    assert not beside(replace(one, data=replace(one.data, name="pairs.tsv"))).numbers


def test_beside_our_row_stands_the_papers_best():
    found = beside(settings("scan-length"))
    assert found.numbers == LENGTH
    assert found.source.startswith("OM-CTree + LA, the paper's best (SCAN: Table 1)")


def test_every_row_finds_itself():
    for table in TABLES.values():
        for row in table.own:
            split, name = list(row.presets.items())[-1]
            taught = {"data": {"distilled": "/its/teacher/distilled.jsonl"}} if row.teacher else {}
            assert beside(settings(name, **taught)) == of_row(table, row, split)


def test_bleu_is_no_share():
    found = beside(settings("paper-multi30k-en-de"))
    assert found.numbers == {("test", "bleu"): "33.4"}
    assert found.source == "OM-CTree (Multi30k: Table 3): mean ± standard deviation of 3 runs"
    ours = beside(settings("multi30k-de-en", data={"distilled": "x.jsonl"}))
    assert ours.numbers == {("test", "bleu"): "36.6"}
    assert ours.source.startswith("OM-CTree + distill, the paper's best (")
    assert not beside(settings("multi30k-de-en")).numbers
