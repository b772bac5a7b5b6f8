import pytest
import torch

from torch_ctree.models import ModelError, Seq2Seq
from torch_ctree.models.encoders.encoding import marked

from ..build import SOURCE_WORDS, padded, some_batch, tiny_model


def test_nodes_list_the_slots_of_each_token_in_turn():
    encoding = tiny_model(slots=3).encoder(*padded([[1, 2, 3], [4]]))
    assert encoding.nodes.shape == (2, 9, 4)
    for place in range(3):
        for slot in range(3):
            assert torch.equal(encoding.nodes[:, 3 * place + slot], encoding.internal[:, place, slot])
    assert encoding.nodes_mask.int().tolist() == [[1] * 9, [1] * 3 + [0] * 6]


# --- as released ------------------------------------------------------------------------------------------------------

SENTENCES = [[1, 2, 3, 4], [4], [2, 0], [3, 3, 1]]


def test_a_mark_stands_after_the_last_word():
    tokens, lengths = marked(torch.tensor([[1, 2, 0], [3, 0, 0]]), torch.tensor([3, 1]), 7)
    assert tokens.tolist() == [[1, 2, 0, 7], [3, 7, 0, 0]]
    assert lengths.tolist() == [4, 2]


@pytest.mark.parametrize("encoder", ["ordered-memory", "birnn"])
def test_the_mark_is_one_more_word_that_says_nothing(encoder):
    """As if every source had it, but for the root of Ordered Memory: the memory before the last word."""
    mine = tiny_model(encoder=encoder, as_released=True).encoder
    other = tiny_model(encoder=encoder, source_words=SOURCE_WORDS + 1).encoder
    other.load_state_dict(mine.state_dict())
    found, expected = mine(*padded(SENTENCES)), other(*padded([[*sentence, SOURCE_WORDS] for sentence in SENTENCES]))
    for name in ("internal", "leaves", "contextual", "embeddings", "tokens", "mask"):
        assert torch.equal(getattr(found, name), getattr(expected, name))
    if encoder == "birnn":
        assert torch.equal(found.root, expected.root)
        return
    for b, sentence in enumerate(SENTENCES):
        before = len(sentence) - 2
        wanted = found.internal[b, before, -1] if before >= 0 else torch.zeros(4)
        assert torch.equal(found.root[b], wanted.to(found.root))


def test_the_mark_learns_nothing():
    tiny = tiny_model(as_released=True)
    model = Seq2Seq(tiny.config, tiny.source, tiny.target)
    tables = [model.get_parameter(name) for name in ("encoder.embedding.weight", "decoder.output.source.weight")]
    with torch.no_grad():
        model.get_parameter("decoder.output.words").normal_()
    model.loss(some_batch()).backward()
    for table in tables:
        assert table.grad is not None
        assert table.shape == (SOURCE_WORDS + 1, 4)
        assert not table[-1].any()
        assert not table.grad[-1].any()
        assert table.grad[:-1].any()


def test_phrases_were_never_released():
    with pytest.raises(ModelError, match=r"^as_released: got True with the encoder 'spans'.*; expected false$"):
        tiny_model(encoder="spans", as_released=True)
