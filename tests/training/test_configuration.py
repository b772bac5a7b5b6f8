import os
from dataclasses import asdict, fields
from typing import get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.training.runs import pairs, write_pairs
from torch_ctree.training import DataConfig, OptimisationConfig, TrainConfig, TrainingError, build, merged, read
from torch_ctree.training.configuration import SECTIONS
from torch_ctree.training.reading import parsed

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]))


def from_yaml(text: str) -> TrainConfig:
    return build(yaml.safe_load(text))


def test_defaults():
    assert build({}) == TrainConfig()
    assert list(SECTIONS) == ["data", "vocabulary", "model", "optimisation", "trainer"]


def test_numbers_as_they_are_written():
    config = from_yaml("optimisation: {lr: 3e-4, eps: 1, max_tokens: null, factor: 0.25}")
    assert (config.optimisation.lr, config.optimisation.eps, config.optimisation.factor) == (3e-4, 1.0, 0.25)
    assert isinstance(config.optimisation.eps, float)
    assert config.optimisation.max_tokens is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("optimization: {lr: 1}", r"optimization: no such setting; did you mean optimisation\?"),
        ("model: {widht: 8}", r"model\.widht: no such setting; did you mean model\.width\?"),
        ("model: {zzz: 8}", r"model\.zzz: no such setting; expected one of encoder, decoder, "),
        ("1: 2", r"1: no such setting; expected one of seed, data"),
        ("model: 8", r"model: got 8; expected settings by name"),
        ("model: {width: wide}", r"model\.width: got 'wide'; expected a whole number"),
        ("model: {width: 8.0}", r"model\.width: got 8\.0; expected a whole number"),
        ("model: {width: true}", r"model\.width: got True; expected a whole number"),
        ("model: {width: 7}", r"model\.width: got 7; expected an even number"),
        ("model: {depth: deep}", r"model\.depth: got 'deep'; expected a whole number or null"),
        ("model: {dropout: [1]}", r"model\.dropout: got \[1\]; expected a number"),
        ("model: {dropout: 1.5}", r"model\.dropout: got 1\.5; expected a number from 0 to less than 1"),
        ("model: {output: mpl}", r"model\.output: got 'mpl'; expected mlp, linear, lexical-attention"),
        ("optimisation: {lr: fast}", r"optimisation\.lr: got 'fast'; expected a number"),
        ("optimisation: {lr: 0}", r"optimisation\.lr: got 0\.0; expected a number above 0"),
        ("optimisation: {lr: .nan}", r"optimisation\.lr: got nan; expected a number above 0"),
        ("optimisation: {lr: .inf}", r"optimisation\.lr: got inf; expected a number above 0"),
        ("optimisation: {beta1: 1}", r"optimisation\.beta1: got 1\.0; expected a number from 0 to less than 1"),
        ("optimisation: {factor: 1}", r"optimisation\.factor: got 1\.0; expected a number between 0 and 1"),
        ("optimisation: {weight_decay: -1}", r"optimisation\.weight_decay: got -1\.0; expected a number, 0 or more"),
        ("optimisation: {min_lr: nan}", r"optimisation\.min_lr: got nan; expected a number, 0 or more"),
        ("optimisation: {restart_below: 2}", r"optimisation\.restart_below: got 2\.0; expected a number from 0 to 1"),
        ("optimisation: {restart_agreement: -1}", r"optimisation\.restart_agreement: got -1\.0; expected a number"),
        ("optimisation: {batch_size: 0}", r"optimisation\.batch_size: got 0; expected a whole number, 1 or more"),
        ("optimisation: {patience: -1}", r"optimisation\.patience: got -1; expected a whole number, 0 or more"),
        ("vocabulary: {min_count: 0}", r"vocabulary\.min_count: got 0; expected a whole number, 1 or more"),
        ("vocabulary: {kind: letters}", r"vocabulary\.kind: got 'letters'; expected words, subwords"),
        ("trainer: {devices: 0}", r"trainer\.devices: got 0; expected a whole number, 1 or more"),
        ("trainer: {deterministic: 1}", r"trainer\.deterministic: got 1; expected true or false"),
        ("seed: -1", r"seed: got -1; expected a whole number, 0 or more"),
        ("data: {exchange: -1}", r"data\.exchange: got -1\.0; expected a number, 0 or more"),
        ("data: {name: 3}", r"data\.name: got 3; expected text"),
    ],
)
def test_what_cannot_be(text, said):
    with pytest.raises(TrainingError, match=rf"^{said}") as told:
        from_yaml(text)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [1", r", line \d: not YAML: "),
        (b"a: b: c", r", line 1: not YAML: mapping values are not allowed here"),
        (b"\ta: 1", r", line 1: not YAML: "),
        (b"- 1", r": got \[1\]; expected settings, such as 'seed: 1'"),
        (b"\xff\xfe\xfd", r": cannot be read: "),
        (b"!!python/object/apply:os.abort []", r", line 1: not YAML: could not determine a constructor"),
    ],
)
def test_a_file_that_cannot_be(tmp_path, content, said):
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(TrainingError, match=rf"^{tmp_path / 'x.yaml'}{said}") as told:
        read(tmp_path / "x.yaml")
    assert "\n" not in str(told.value)


def test_no_such_file(tmp_path):
    with pytest.raises(TrainingError, match=r"nothing\.yaml: cannot be read: No such file or directory$"):
        read(tmp_path / "nothing.yaml")
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    assert read(tmp_path / "empty.yaml") == {}


def test_later_settings_come_first():
    layers = [{"seed": 1, "model": {"width": 4, "depth": 3}}, {"model": {"width": 6}}, {"seed": 2}]
    assert merged(*layers) == {"seed": 2, "model": {"width": 6, "depth": 3}}
    assert layers[0] == {"seed": 1, "model": {"width": 4, "depth": 3}}  # as it was
    assert merged({"model": {"width": 4}}, {"model": None}, {"model": {"depth": 1}}) == {"model": {"depth": 1}}


@given(
    st.builds(
        lambda lr, seed, name, depth, options: build(
            {
                "seed": seed,
                "data": {"name": name},
                "model": {"depth": depth, "options": options},
                "optimisation": {"lr": lr},
            }
        ),
        st.floats(1e-300, 1e300),
        st.integers(0, 2**70),
        TEXTS,
        st.none() | st.integers(0, 20),
        st.dictionaries(st.text("abc", min_size=1), st.integers() | TEXTS),
    )
)
def test_round_trip_through_a_file(tmp_path_factory, config):
    path = tmp_path_factory.mktemp("round") / "config.yaml"
    config.save(path)
    assert build(read(path)) == config
    assert list(read(path)) == [setting.name for setting in fields(TrainConfig)]
    assert build(asdict(config)) == config


def test_paths_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("a.tsv", "b.tsv", "c,d.tsv"):
        write_pairs(tmp_path / name, pairs())
    config = DataConfig("a.tsv", root=".", validation="~/b.tsv", test="none.tsv").absolute()
    assert (config.name, config.root) == (f"{tmp_path}/a.tsv", str(tmp_path))
    assert (config.validation, config.test) == (f"{tmp_path}/b.tsv", "none.tsv")
    assert config.absolute() == config
    assert DataConfig("c,d.tsv").absolute().name == f"{tmp_path}/c,d.tsv"
    assert DataConfig("a.tsv, b.tsv").absolute().name == f"{tmp_path}/a.tsv,{tmp_path}/b.tsv"
    for name in ("scan-simple", "hf:owner/name", "no.tsv", "no.tsv,a.tsv", ""):
        assert DataConfig(name).absolute().name == name
    os.mkdir("scan-simple")  # a task is a task, whatever else has its name
    assert DataConfig("scan-simple").absolute().name == "scan-simple"


def test_what_is_loaded(tmp_path):
    path = str(write_pairs(tmp_path / "own.tsv", pairs()))
    task = DataConfig(path, hold_out="longest", seed=3).load()
    longest = min(len(pair.target.split()) for pair in task.validation)
    assert all(len(pair.target.split()) <= longest for pair in task.train)
    assert DataConfig(path).is_own
    assert not DataConfig("scan-jump").is_own


@pytest.mark.parametrize(
    ("section", "name", "text", "value"),
    [
        ("optimisation", "lr", "3e-4", 3e-4),
        ("optimisation", "lr", "1", 1.0),
        ("optimisation", "max_tokens", "100", 100),
        ("optimisation", "max_tokens", "null", None),
        ("model", "depth", "7", 7),
        ("model", "contextualiser", "none", "none"),
        ("model", "options", "{a: 1}", {"a": 1}),
        ("data", "name", "123", "123"),
        ("data", "name", "a: b", "a: b"),
        ("data", "name", "null", "null"),
        ("data", "root", "1e3", "1e3"),
        ("data", "root", "null", None),
        ("data", "root", "None", None),
        ("trainer", "deterministic", "false", False),
        ("trainer", "precision", "32-true", "32-true"),
    ],
)
def test_the_command_line(section, name, text, value):
    hint = get_type_hints(SECTIONS[section])[name]
    config = build({section: {name: parsed(text, hint)}})
    assert getattr(getattr(config, section), name) == value


def test_the_command_line_cannot_be_everything():
    assert parsed("[1", int) == "[1"
    with pytest.raises(TrainingError, match=r"^optimisation\.batch_size: got '\[1'; expected a whole number$"):
        build({"optimisation": {"batch_size": parsed("[1", int)}})


def test_the_defaults_are_the_papers():
    settings = OptimisationConfig()
    assert (settings.lr, settings.beta1, settings.beta2, settings.eps) == (3e-4, 0, 0.999, 1e-9)
    assert (settings.patience, settings.factor, settings.min_lr, settings.gradient_norm) == (1, 0.5, 1e-5, 1)


def test_the_defaults_are_the_papers_settings_for_scan():
    config = TrainConfig()
    assert config.optimisation == OptimisationConfig(
        lr=3e-4, beta1=0, beta2=0.999, eps=1e-9, weight_decay=0, batch_size=100, gradient_norm=1, max_epochs=50,
        patience=1, factor=0.5, min_lr=1e-5,
    )  # fmt: skip
    model = config.model
    assert (model.width, model.slots, model.layers, model.dropout, model.attention_dropout) == (128, 5, 5, 0.1, 0.6)
