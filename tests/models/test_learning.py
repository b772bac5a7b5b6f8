"""Every model of the paper's tables learns twenty pairs by heart; a grammar learns what phrases are for."""

import itertools

import pytest
import torch

from torch_ctree.data import Batch, Batches, Encoded, Pairs, Vocabulary, load
from torch_ctree.models import ModelConfig, Seq2Seq

MODELS = {
    "ordered-memory+ctree": {"output": "mlp"},
    "ordered-memory+ctree-LA": {},
    "birnn+ctree": {"encoder": "birnn", "output": "mlp"},
    "birnn+ctree-LA": {"encoder": "birnn"},
    "ordered-memory+production-LA": {"decoder": "production"},
    "birnn+gru": {"encoder": "birnn", "decoder": "gru", "output": "mlp"},
    "birnn+lstm": {"encoder": "birnn", "decoder": "lstm", "output": "mlp"},
    "birnn+lstm-LA": {"encoder": "birnn", "decoder": "lstm"},
    "transformer+lanmt": {"encoder": "transformer", "decoder": "lanmt", "output": "linear"},
}


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """Of all kinds: every so many-th of the SCAN commands with a short target."""
    short = [pair for pair in load("scan-simple").train if len(pair.target.split()) <= 8]
    return Pairs.of(short[5 :: len(short) // 20][:20])


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_twenty_pairs_by_heart(settings, pairs):
    source, target = Vocabulary.build(pairs.sources()), Vocabulary.build(pairs.targets())
    (batch,) = Batches(Encoded.of(pairs, source, target), batch_size=20, shuffle=False).epoch(0)
    config = ModelConfig(**settings, width=32, depth=4, slots=3, layers=2, dropout=0, attention_dropout=0)
    torch.manual_seed(0)
    model = Seq2Seq(config, source, target)
    answers = []
    for _ in fitting(model, batch):
        best = model.decode(batch)
        answers = [target.decode(best.tokens[b, : best.lengths[b]].tolist()) for b in range(20)]
        if answers == list(pairs.targets()):
            return
    pytest.fail(f"still wrong: {[pair for pair, answer in zip(pairs, answers, strict=True) if pair.target != answer]}")


def fitting(model: Seq2Seq, batch: Batch):
    """Train; stop by every ten steps."""
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for step in range(1, 301):
        optimizer.zero_grad()
        model.loss(batch).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        if step % 10 == 0:
            yield


VERBS = ("jump", "walk", "run", "look")
PHRASES = [
    *((verb, verb.upper()) for verb in VERBS),
    *((f"{verb} {times}", " ".join(n * [verb.upper()])) for verb in VERBS for times, n in (("once", 1), ("twice", 2))),
    *((f"{verb} and {other}", f"{verb} {other}".upper()) for verb in VERBS for other in VERBS),
]
NEW = [pair for pair in PHRASES if "look" in pair[0] and pair[0] != "look"]


@pytest.mark.parametrize("seed", range(3))
def test_a_grammar_says_what_it_never_saw(seed):
    """A word that it only saw alone, in nine phrases: from 100 steps on the other 19 pairs, some words hidden."""
    torch.manual_seed(seed)
    source, target = (Vocabulary.build(side) for side in zip(*PHRASES, strict=True))
    noise = {"dropout": 0, "attention_dropout": 0.5, "word_noise": 0.2}
    model = Seq2Seq(ModelConfig("spans", "grammar", width=32, depth=3, **noise), source, target)
    known, new = (
        model.batch(*zip(*pairs, strict=True)) for pairs in ([pair for pair in PHRASES if pair not in NEW], NEW)
    )
    for _ in itertools.islice(fitting(model, known), 10):
        pass
    for batch in (known, new):
        assert model.eval().check(batch)[0].all()
