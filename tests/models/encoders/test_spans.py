from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from torch_ctree.models import Encoding, ModelConfig, Seq2Seq
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


def phrase_by_hand(encoder: Spans, tokens: Sequence[int | None]) -> Tensor:
    """What all its words add, and its ends once more; one word by itself is something else. None is not heard."""
    table, single = ([*plain.numbers(each.weight), [0.0] * 4] for each in (encoder.embedding, encoder.single))
    words = [table[-1 if token is None else token] for token in tokens]
    if len(tokens) == 1:
        total = plain.add(plain.numbers(encoder.alone), single[-1 if tokens[0] is None else tokens[0]])
    else:
        ends = plain.linear(encoder.first, words[0]), plain.linear(encoder.last, words[-1])
        total = plain.add(*(plain.linear(encoder.word, word) for word in words), *ends)
    return torch.tensor(total, dtype=double)


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
        for table, used in ((encoder.embedding, i < j), (encoder.single, i == j)):
            assert table.weight.grad is not None
            reached = table.weight.grad.any(1).nonzero().flatten().tolist()
            assert reached == (sorted(tokens[0, i : j + 1].tolist()) if used else [])


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


def hidden(encoder: Spans, encoding: Encoding) -> Tensor:
    """(B, S): whether a word, alone, is as if it were nothing."""
    return (encoding.leaves == encoder.alone).all(-1)


@pytest.mark.parametrize("share", [0.05, 0.4])
def test_words_are_unreadable_at_their_rate_in_training_alone(share):
    encoder = tiny_encoder(word_noise=share, dropout=0.0)
    tokens = torch.randint(5, (4000, 3), generator=torch.Generator().manual_seed(0))
    lengths = torch.full((4000,), 3)
    torch.manual_seed(0)
    assert not hidden(encoder, encoder.eval()(tokens, lengths)).any()
    found = hidden(encoder, encoder.train()(tokens, lengths))
    sigma = (share * (1 - share) / found.numel()) ** 0.5
    assert abs(found.double().mean().item() - share) < 4 * sigma
    for place in range(3):  # wherever they stand
        assert abs(found[:, place].double().mean().item() - share) < 4 * 3**0.5 * sigma


def test_no_noise_by_default():
    encoder = tiny_encoder(dropout=0.0)
    tokens, lengths = padded(SENTENCES)
    same_encoding(encoder.train()(tokens, lengths), encoder.eval()(tokens, lengths))


def test_what_is_unreadable_is_nothing_in_every_phrase():
    """And in phrases alone: what stands around their ends is read as it is."""
    encoder = tiny_encoder(word_noise=0.5, dropout=0.0).train()
    tokens, lengths = padded([[1, 2, 3, 4, 1, 0, 2, 3]])
    torch.manual_seed(0)
    encoding = encoder(tokens, lengths)
    gone = hidden(encoder, encoding)[0].tolist()
    assert set(gone) == {False, True}
    heard = [None if is_gone else token for is_gone, token in zip(gone, tokens[0].tolist(), strict=True)]
    for i, j in all_phrases(heard):
        expected = phrase_by_hand(encoder, heard[i : j + 1])
        torch.testing.assert_close(encoding.internal[0, j, i], expected, rtol=0, atol=1e-9)
    assert torch.equal(encoding.embeddings, encoder.embedding(tokens))


def test_every_word_begins_as_one_that_is_not_heard():
    """So one that is never seen in a phrase adds nothing to it; but each can be learned."""
    encoder = Spans(ModelConfig(width=4), 5).double().eval()
    tokens, lengths = padded(SENTENCES)
    encoding = encoder(tokens, lengths)
    for b, sentence in enumerate(SENTENCES):
        for i, j in all_phrases(sentence):
            expected = phrase_by_hand(encoder, [None] * (j - i + 1))
            assert torch.equal(encoding.internal[b, j, i], expected)
    assert not encoding.embeddings.any()
    encoding.internal.sum().backward()
    for table in (encoder.embedding, encoder.single):
        assert table.weight.grad is not None
        assert table.weight.grad.any(1).all()


def test_a_word_that_is_nothing_is_as_one_that_is_not_heard():
    encoder = tiny_encoder()
    with torch.no_grad():
        encoder.embedding.weight[2] = encoder.single.weight[2] = 0
    for sentence in ([2], [1, 2], [2, 3], [4, 2, 2, 0]):
        unheard = [None if token == 2 else token for token in sentence]
        internal = encoder(*padded([sentence])).internal[0]
        for i, j in all_phrases(sentence):
            expected = phrase_by_hand(encoder, unheard[i : j + 1])
            torch.testing.assert_close(internal[j, i], expected, rtol=0, atol=1e-12)
