import pytest

from torch_ctree.experiments import TABLES
from torch_ctree.experiments.tables import slug
from torch_ctree.training import build, preset, read

EVERY = [(table, row) for table in TABLES.values() for row in table.rows]
NUMBERS = [(row, column, printed) for _, row in EVERY for column, printed in row.published.items()]
ENCODERS = {"OM": "ordered-memory", "BiRNN": "birnn", "Seq": "birnn"}
DECODERS = {"CTree": "ctree", "Seq": "production"}


DATA = {"scan": "scan-{}", "questions": "{}", "multi30k": "multi30k-{}"}
TRANSLATION = {
    "Transformer": ("transformer", "transformer"),
    "LSTM": ("birnn", "lstm"),
    "LaNMT": ("transformer", "lanmt"),
    "OM-CTree": ("ordered-memory", "ctree"),
}


@pytest.mark.parametrize(
    ("table", "row", "split"),
    [pytest.param(table, row, split, id=f"{row.name} {split}") for table, row in EVERY for split in row.presets],
)
def test_presets_are_what_rows_are_called(table, row, split):
    config = build(read(preset(row.presets[split])))
    assert config.data.name == DATA[table.task].format(split)
    assert config.data.distilled is None  # a sweep knows where the teacher is
    if row.whose == "ours":
        return
    if table.task == "multi30k":
        name = row.name.removesuffix(" + distill")
        assert (config.model.encoder, config.model.decoder) == TRANSLATION[name]
        assert config.optimisation.select == "bleu"
        assert row.baseline == (name != "OM-CTree")
        assert (row.teacher is not None) == (name != row.name)
        return
    encoder, decoder = row.name.removesuffix(" + LA").split("-")
    assert config.model.encoder == ENCODERS[encoder]
    assert config.model.decoder == DECODERS[decoder]
    without = "linear" if table.task == "questions" else "mlp"
    assert config.model.output == ("lexical-attention" if row.name.endswith("+ LA") else without)


def test_teachers_are_rows_that_learn_from_nobody():
    for table, row in EVERY:
        if row.teacher is not None:
            teacher = table.row(row.teacher)
            assert teacher.teacher is None
            assert list(teacher.presets) == list(row.presets)


@pytest.mark.parametrize(("table", "row"), [pytest.param(*both, id=f"{both[0].task} {both[1].name}") for both in EVERY])
def test_rows_have_what_their_kind_has(table, row):
    keys = [column.key for column in table.columns]
    assert set(row.published) <= set(keys)
    assert list(row.presets) == ([] if row.whose == "quoted" else table.splits)
    assert bool(row.published) == (row.whose != "ours")
    has_histograms = table.task == "scan" and row.whose == "paper"
    assert all(bool(printed.histogram) == has_histograms for printed in row.published.values())


@pytest.mark.parametrize(
    ("row", "column", "printed"),
    [pytest.param(*number, id=f"{number[0].name} {number[1]}") for number in NUMBERS if number[2].histogram],
)
def test_means_lie_where_histograms_allow(row, column, printed):
    """Each run is somewhere in its tenth, and so the mean is between the means of all beginnings and of all ends."""
    runs = sum(printed.histogram)
    assert runs == (9 if (row.name, column) == ("OM-Seq + LA", "simple") else 10)
    assert printed.histogram[10:] == (0,)
    lowest = sum(10 * n * count for n, count in enumerate(printed.histogram)) / runs
    assert lowest <= printed.mean <= lowest + 10


def test_slugs_tell_rows_apart():
    for table in TABLES.values():
        assert len({row.slug for row in table.rows}) == len(table.rows)
        assert all(slug(row.slug) == row.slug for row in table.rows)


def test_sizes():
    scan, questions, multi30k = TABLES.values()
    assert [row.name for row in scan.own] == [
        "OM-Seq + LA",
        "BiRNN-CTree + LA",
        "OM-CTree",
        "OM-CTree + LA",
        "torch-ctree",
    ]
    assert [row.name for row in questions.own] == ["Seq-CTree", "OM-CTree", "torch-ctree"]
    assert [row.name for row in multi30k.own] == [
        "Transformer",
        "LSTM",
        "LaNMT",
        "LaNMT + distill",
        "OM-CTree",
        "OM-CTree + distill",
        "torch-ctree",
    ]
    assert (scan.seeds, questions.seeds, multi30k.seeds) == (10, 5, 3)
    assert (scan.across, questions.across, multi30k.across) == (6, 3, 4)
    assert scan.splits == ["simple", "turn-left", "jump", "length", "around-right", "opposite-right"]


def test_where_a_number_stands():
    metrics = {"exact_match": 0.1, "gen": {"first_word": 0.2, "exact_match": 0.3}}
    assert [column.value(metrics) for column in TABLES["questions"].columns] == [0.1, 0.2, 0.3]
    of_set = {"bleu": 30.0, "bleu_written": 25.0}
    metrics = of_set | {"test_2017": {"bleu": 20.0, "bleu_written": 15.0}}
    values = [column.value(metrics) for column in TABLES["multi30k"].columns]
    assert values == [0.3, 0.3, 0.25, 0.25, 0.2, 0.2, 0.15, 0.15]
