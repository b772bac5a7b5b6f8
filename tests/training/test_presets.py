import pytest

from torch_ctree.data import TASKS, Vocabulary
from torch_ctree.models import Seq2Seq
from torch_ctree.training import TrainingError, build, preset, presets, read
from torch_ctree.training.preparation import SPARE
from torch_ctree.training.presets import about

WORDS = Vocabulary(["a", "b"])


@pytest.mark.parametrize("name", presets())
def test_every_preset_is_a_run(name):
    path = preset(name)
    config = build(read(path))
    assert config.data.name in TASKS
    if name not in ("demo", "example"):
        plain = name.removeprefix("paper-")
        assert plain == config.data.name or plain.startswith(f"{config.data.name}-")
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert about(path) == first[2:]
    depth = config.model.depth or 3 + SPARE
    model = Seq2Seq(config.model.__class__(**{**vars(config.model), "depth": depth}), WORDS, WORDS)
    assert model.parameter_count > 0


def test_what_the_name_says_is_what_is_trained():
    parts = {"om": "ordered-memory", "birnn": "birnn", "ctree": "ctree"}
    for name, path in presets().items():
        if not name.startswith("paper-scan"):
            continue
        model, rest = build(read(path)).model, name.removeprefix(f"paper-{build(read(path)).data.name}").split("-")
        if len(rest) > 1:
            _, encoder, decoder, *la = rest
            assert model.encoder == parts[encoder]
            assert (model.decoder == "ctree") == (decoder == "ctree")
            assert (model.output == "lexical-attention") == (la == ["la"])
        else:
            assert (model.encoder, model.decoder, model.output) == ("ordered-memory", "ctree", "lexical-attention")


def test_no_such_preset():
    with pytest.raises(TrainingError, match=r"^scan-lenght: no such preset; did you mean scan-length\?$"):
        preset("scan-lenght")
    with pytest.raises(TrainingError, match=r"^x: no such preset; see 'ctree train --list'$"):
        preset("x")
