import itertools
from typing import Any

import pytest
import torch

from torch_ctree.data import Vocabulary
from torch_ctree.models import Encoding, ModelConfig, Seq2Seq
from torch_ctree.models import output as outputs
from torch_ctree.models.decoders import CTree
from torch_ctree.models.explaining import explain
from torch_ctree.models.output import Copy, Output
from torch_ctree.trees.emission import BLOCK_ELEMENTS

from ..measure import Operations, Recorder
from . import plain
from .build import OUTPUTS, some_batch, tiny_model

double = torch.float64


def parts(output: str) -> tuple[CTree, Output, Encoding]:
    model = tiny_model(output=output)
    assert isinstance(model.decoder, CTree)
    return model.decoder, model.decoder.output, model.encode(some_batch())


@pytest.mark.parametrize("output", OUTPUTS)
def test_by_hand(output):
    _, layer, encoding = parts(output)
    states, contexts = torch.randn(2, 4, 3, 4, dtype=double)
    found = layer.logits(states, contexts, encoding)
    for b in range(4):
        source = plain.source(encoding, b)
        for q in range(3):
            expected = plain.word_logits(layer, states[b, q].tolist(), contexts[b, q].tolist(), source)
            torch.testing.assert_close(found[b, q], torch.tensor(expected, dtype=double), rtol=0, atol=1e-11)


@pytest.mark.parametrize("output", ["lexical-attention", "copy"])
def test_one_attention_serves_contexts_and_words(output):
    decoder, layer, _ = parts(output)
    assert layer.get_submodule("attention") is decoder.attention


def test_lexical_attention_sees_words_without_their_context():
    """Values are of the word alone: in a source of one word repeated, every state says the same, whatever was read."""
    _, layer, _ = parts("lexical-attention")
    encode = tiny_model(output="lexical-attention").encoder
    encoding = encode(torch.tensor([[2, 2, 2, 2]]), torch.tensor([4]))
    logits = layer.logits(torch.randn(1, 6, 4, dtype=double), None, encoding)
    torch.testing.assert_close(logits, logits[:, :1].expand(-1, 6, -1))
    other = layer.logits(torch.randn(1, 1, 4, dtype=double), None, encode(torch.tensor([[2, 3]]), torch.tensor([1])))
    torch.testing.assert_close(other, logits[:, :1])


@pytest.mark.parametrize("output", ["linear", "lexical-attention"])
def test_it_starts_with_all_words_alike(output):
    model = tiny_model(output=output)
    fresh = type(model)(model.config, model.source, model.target)
    assert isinstance(fresh.decoder, CTree)
    logits = fresh.decoder.output.logits(torch.randn(4, 3, 4), None, fresh.encode(some_batch()))
    assert torch.equal(logits, torch.zeros_like(logits))


# --- copying ----------------------------------------------------------------------------------------------------------


def copying(source: Vocabulary, target: Vocabulary, decoder: str = "ctree", **settings: Any) -> tuple[Seq2Seq, Copy]:
    torch.manual_seed(0)
    config = {
        "encoder": "birnn",
        "decoder": decoder,
        "output": "copy",
        "width": 32,
        "depth": 2,
        "layers": 1,
        **settings,
    }
    model = Seq2Seq(ModelConfig(**config), source, target)
    layer = model.decoder.get_submodule("output")
    assert isinstance(layer, Copy)
    return model, layer


SOURCE = Vocabulary(["<unk>", "Anna", "sees", "Bob"], "<unk>")
TARGET = Vocabulary(["voit", "Bob", "<unk>", "Anna"], "<unk>")


@pytest.mark.parametrize("decoder", ["ctree", "gru"])
def test_which_words_are_copied_comes_from_the_vocabularies(decoder, tmp_path):
    model, layer = copying(SOURCE, TARGET, decoder)
    assert layer.copies.tolist() == [-1, 3, -1, 1]
    assert not any("copies" in name for name in model.state_dict())
    model.eval().save_pretrained(tmp_path)
    assert b"copies" not in (tmp_path / "model.safetensors").read_bytes()
    loaded = Seq2Seq.from_pretrained(tmp_path)
    assert loaded.decoder.get_buffer("output.copies").tolist() == [-1, 3, -1, 1]
    batch = model.batch(["Anna sees Bob", "?"], ["Bob voit Anna", "?"])
    assert torch.equal(loaded.score(batch), model.score(batch))
    assert loaded.answer("Anna sees Bob", 3) == model.answer("Anna sees Bob", 3)


def test_it_starts_undecided_whether_to_copy():
    model, layer = copying(SOURCE, TARGET)
    encoding = model.eval().encode(model.batch(["Anna sees Bob", "sees sees"]))
    states, contexts = torch.randn(2, 2, 7, 32)
    copied, alone = layer.logits(states, contexts, encoding).softmax(-1).unbind(0)
    layer.copies.fill_(-1)
    said = layer.logits(states, contexts, encoding).softmax(-1)
    torch.testing.assert_close(alone, said[1])  # there is nothing to copy
    torch.testing.assert_close(copied[:, [0, 2]], said[0][:, [0, 2]] / 2)  # nor is voit, or what is unknown
    more = (copied - said[0] / 2)[:, [1, 3]]
    assert (more > 0).all()
    torch.testing.assert_close(more.sum(-1), torch.full((7,), 0.5))


NAMES = [f"name{n}" for n in range(12)]
SAYINGS = {"greet {}": "hello {}", "thank {}": "thank you {}", "{} is late": "where is {}"}


def sayings(names: list[str]) -> list[tuple[str, str]]:
    return [(a.format(name), b.format(name)) for (a, b), name in itertools.product(SAYINGS.items(), names)]


@pytest.mark.parametrize("decoder", ["ctree", "gru"])
def test_names_that_no_target_ever_had(decoder):
    """They are in the vocabularies, and no more: a model that can copy says them, another cannot."""
    known, new = sayings(NAMES[:8]), sayings(NAMES[8:])
    source, target = (Vocabulary.build(side) for side in zip(*known, *new, strict=True))
    right = {}
    for output in ("copy", "mlp"):
        torch.manual_seed(0)
        config = ModelConfig("birnn", decoder, output, width=32, depth=2, layers=1, dropout=0, attention_dropout=0.1)
        model = Seq2Seq(config, source, target)
        optimizer, batch = torch.optim.Adam(model.parameters(), 5e-3), model.batch(*zip(*known, strict=True))
        for _ in range(120):
            optimizer.zero_grad()
            model.loss(batch).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
            optimizer.step()
        model.eval()
        assert model.check(batch)[0].all()
        right[output] = int(model.check(model.batch(*zip(*new, strict=True)))[0].sum())
    assert right == {"copy": len(new), "mlp": 0}


def test_what_is_copied_is_looked_for_where_it_can_be():
    model, _ = copying(SOURCE, TARGET)
    (found,) = explain(model.eval(), "Anna sees Bob sees")
    assert found.tree
    encoding = model.encode(model.batch(["Anna sees Bob sees"]))
    assert isinstance(model.decoder, CTree)
    memory = model.decoder.attention.memory(encoding.leaves, encoding.leaves, encoding.mask)
    looks = model.decoder.attention.weights(model.decoder.expand(encoding, 2).states, memory)[0].tolist()
    for vertex in found.tree.walk():
        anna, _, bob, _ = looks[vertex.number or 0]
        assert vertex.found == pytest.approx((anna / (anna + bob), 0, bob / (anna + bob), 0))
        assert vertex.attention or vertex.number == 0  # of its context, as ever
    (found,) = explain(model, "sees sees")
    assert found.tree
    assert not any(vertex.found for vertex in found.tree.walk())


def test_many_words_at_many_vertices_never_meet_in_one_tensor():
    """511 vertices and 10,000 words: no more than a block of logits, in training and when it answers."""
    words = Vocabulary([f"w{n}" for n in range(10_000)])
    model, _ = copying(words, words, width=16, depth=8)
    batch = model.batch([" ".join(words[n : n + 20]) for n in (0, 7000)], [" ".join(words[n : n + 30]) for n in (5, 9)])
    with Recorder() as recorder:
        model.loss(batch).backward()
        model.eval().examine(batch)
        explain(model, words[3])
    assert BLOCK_ELEMENTS / 2 < max(recorder.sizes) <= BLOCK_ELEMENTS < 511 * 10_000


@pytest.mark.parametrize("many", [False, True])
def test_training_waits_for_nobody(many, monkeypatch):
    """As a CUDA graph must have it, but for the encoder, whose lengths a CPU may read."""
    monkeypatch.setattr(outputs, "BLOCK_ELEMENTS", 0 if many else BLOCK_ELEMENTS)
    model, _ = copying(SOURCE, TARGET)
    batch = model.batch(["Anna sees Bob", "?"], ["Bob voit Anna", "?"])
    encoding = model.encode(batch)
    with Operations() as operations:
        model.decoder.score(encoding, batch.target, batch.target_lengths).sum().backward()
    waiting = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal")
    assert not [name for name in operations.names if name.startswith(waiting)]
