from dataclasses import replace

import pytest
import torch
from torch import Tensor

from torch_ctree.models import Encoding, Seq2Seq
from torch_ctree.models.encoders.spans import Spans

from .. import plain
from ..build import padded, tiny_model

double = torch.float64
SENTENCES = [[1, 2, 3, 4, 0], [4], [2, 0], [3, 3, 1]]


def encoder_of(model: Seq2Seq) -> Spans:
    assert isinstance(model.encoder, Spans)
    return model.encoder


def tiny_encoder(**settings) -> Spans:
    return encoder_of(tiny_model(encoder="spans", **settings))


def read(gru: torch.nn.GRU, words: list[plain.Vector]) -> plain.Vector:
    """The state after the last word."""
    state = [0.0] * gru.hidden_size
    for word in words:
        state = plain.gru(gru, word, state, 0)
    return state


def phrase_by_hand(encoder: Spans, tokens: list[int]) -> Tensor:
    table = plain.numbers(encoder.embedding.weight)
    words = [table[token] for token in tokens]
    both = read(encoder.forwards, words) + read(encoder.backwards, words[::-1])
    return torch.tensor(plain.projected(encoder.phrase, both), dtype=double)


def all_phrases(sentence):
    return [(i, j) for j in range(len(sentence)) for i in range(j + 1)]


def test_each_phrase_is_read_by_itself():
    encoder = tiny_encoder()
    encoding = encoder(*padded(SENTENCES))
    for b, sentence in enumerate(SENTENCES):
        for i, j in all_phrases(sentence):
            expected = phrase_by_hand(encoder, sentence[i : j + 1])
            torch.testing.assert_close(encoding.internal[b, j, i], expected, rtol=0, atol=1e-9)


def test_the_other_representations():
    encoder = tiny_encoder()
    encoding = encoder(*padded(SENTENCES))
    for b, sentence in enumerate(SENTENCES):
        N = len(sentence)
        assert torch.equal(encoding.root[b], encoding.internal[b, N - 1, 0])
        for j, token in enumerate(sentence):
            assert torch.equal(encoding.embeddings[b, j], encoder.embedding.weight[token])
            assert torch.equal(encoding.leaves[b, j], encoding.internal[b, j, j])
            assert torch.equal(encoding.contextual[b, j], encoding.internal[b, j, j])
    assert encoding.mask.sum(1).tolist() == [len(sentence) for sentence in SENTENCES]


def test_only_phrases_are_attended_to():
    """Or a source padded further would have more of what is none."""
    encoding = tiny_encoder()(*padded(SENTENCES))
    S = 5
    for b, sentence in enumerate(SENTENCES):
        there = {(place % S, place // S) for place in encoding.nodes_mask[b].nonzero().flatten().tolist()}
        assert there == set(all_phrases(sentence))
    assert encoding.nodes.isfinite().all()


def test_words_outside_a_phrase_have_no_influence_on_it():
    """By its derivatives, which are exactly zero."""
    encoder = tiny_encoder()
    tokens, lengths = padded([[1, 2, 3, 4, 0]])
    for i, j in all_phrases(tokens[0]):
        encoder.zero_grad()
        encoder(tokens, lengths).internal[0, j, i].sum().backward()
        assert encoder.embedding.weight.grad is not None
        reached = encoder.embedding.weight.grad.any(1).nonzero().flatten().tolist()
        assert reached == sorted(tokens[0, i : j + 1].tolist())


def same_encoding(found: Encoding, expected: Encoding) -> None:
    for name, value in vars(expected).items():
        torch.testing.assert_close(vars(found)[name], value, rtol=1e-12, atol=1e-12)


def test_padding_and_batching_change_nothing():
    encoder = tiny_encoder()
    wide = encoder(*padded(SENTENCES, fill=3, width=8))
    for b, sentence in enumerate(SENTENCES):
        N = len(sentence)
        mine = replace(
            wide,
            root=wide.root[b : b + 1],
            internal=wide.internal[b : b + 1, :N, :N],
            **{
                name: getattr(wide, name)[b : b + 1, :N]
                for name in ("leaves", "contextual", "embeddings", "tokens", "mask")
            },
        )
        same_encoding(mine, encoder(*padded([sentence])))


# --- unreadable words -------------------------------------------------------------------------------------------------


def unreadable(encoder: Spans, tokens: Tensor) -> Tensor:
    """(B, S): whether a word is not its own vector."""
    lengths = torch.full(tokens.shape[:1], tokens.shape[1])
    return (encoder(tokens, lengths).embeddings != encoder.embedding(tokens)).any(-1)


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_words_are_unreadable_at_their_rate_in_training_alone(share):
    encoder = tiny_encoder(word_noise=share, dropout=0.0)
    tokens = torch.randint(5, (4000, 3), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    assert not unreadable(encoder.eval(), tokens).any()
    hidden = unreadable(encoder.train(), tokens)
    sigma = (share * (1 - share) / hidden.numel()) ** 0.5
    assert abs(hidden.double().mean().item() - share) < 4 * sigma
    for place in range(3):  # wherever they stand
        assert abs(hidden[:, place].double().mean().item() - share) < 4 * 3**0.5 * sigma


def test_no_noise_by_default():
    encoder = tiny_encoder(dropout=0.0)
    tokens, lengths = padded(SENTENCES)
    same_encoding(encoder.train()(tokens, lengths), encoder.eval()(tokens, lengths))


def test_what_is_unreadable_is_another_vector_each_time():
    """And it is what the phrases are read from."""
    encoder = tiny_encoder(word_noise=0.5, dropout=0.0).train()
    torch.manual_seed(0)
    encoding = encoder(*padded([[1] * 8]))
    readable = (encoding.embeddings[0] == encoder.embedding.weight[1]).all(-1)
    alone = phrase_by_hand(encoder, [1])
    assert len({tuple(word) for word in encoding.embeddings[0].tolist()}) == int((~readable).sum()) + 1 > 2
    assert [torch.allclose(encoding.internal[0, j, j], alone) for j in range(8)] == readable.tolist()
