import pytest

from torch_ctree.data import DataError
from torch_ctree.evaluation import answer_all

from ..models.build import DECODERS, tiny_model

SOURCES = ["s1 s2 s3", "s4", "s0 s0", "s4", "s3 s1"]


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("depth", [None, 3])
def test_each_as_if_alone(decoder, depth):
    model, told = tiny_model(decoder=decoder), []
    found = answer_all(model, iter(SOURCES), batch_size=2, depth=depth, tell=told.append)
    assert found == [model.answer(source, depth=depth)[0].text for source in SOURCES]
    assert sum(told) == len(SOURCES)
    assert max(told) <= 2


def test_unknown_words_are_said_with_their_source():
    with pytest.raises(DataError, match=r"^source 2: .*'sheep' is not in the vocabulary"):
        answer_all(tiny_model(), ["s1", "s1 sheep"])
