import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.training.runs import pairs
from torch_ctree.data import Batches, Encoded, Pairs, Vocabulary
from torch_ctree.models import ModelConfig, Seq2Seq
from torch_ctree.training.batches import Loader

SOURCE = Vocabulary.build(source for source, _ in pairs())
TARGET = Vocabulary.build(target for _, target in pairs())
ENCODED = Encoded.of(Pairs.of(pairs()), SOURCE, TARGET)


def batch(size: int, fixed: bool = False):
    return Batches(ENCODED, batch_size=size, pad_to=ENCODED.longest if fixed else None).epoch(0)[-1]


@given(st.integers(1, 20), st.integers(1, 9), st.booleans())
def test_shares_cover_every_row_once(size, processes, fixed):
    whole = batch(size, fixed)
    shares = [whole.share(rank, processes) for rank in range(processes)]
    assert {len(share) for share in shares} == {-(-len(whole) // processes)}
    assert sorted(row for share in shares for row in share.rows[share.real].tolist()) == sorted(
        whole.rows[whole.real].tolist()
    )
    place = {row: n for n, row in enumerate(whole.rows.tolist()) if row >= 0}
    for share in shares:
        for name in ("source", "source_lengths", "target", "target_lengths"):
            for value, row in zip(getattr(share, name), share.rows.tolist(), strict=True):
                rows = [place[row]] if row >= 0 else range(len(whole))  # what fills up is one of the pairs
                assert any(torch.equal(value, getattr(whole, name)[n]) for n in rows)


@pytest.mark.parametrize(("size", "processes"), [(48, 1), (7, 2), (5, 4), (1, 3)])
@pytest.mark.parametrize("decoder", ["ctree", "gru"])
def test_the_loss_of_the_shares_is_that_of_the_whole(size, processes, decoder):
    model = Seq2Seq(ModelConfig(width=8, depth=3, decoder=decoder), SOURCE, TARGET).eval()
    whole = Batches(ENCODED, batch_size=size, shuffle=False).epoch(0)[0]
    shares = [whole.share(rank, processes) for rank in range(processes)]
    together = sum(model.losses(share).sum() for share in shares) / sum(share.real.sum() for share in shares)
    gradients = torch.autograd.grad(together, list(model.parameters()), allow_unused=True)  # type: ignore[arg-type]
    expected = torch.autograd.grad(model.loss(whole), list(model.parameters()), allow_unused=True)
    torch.testing.assert_close(together, model.loss(whole))
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_a_share_of_a_share_keeps_what_fills_up():
    last = Batches(ENCODED, batch_size=5, pad_to=ENCODED.longest, shuffle=False).epoch(0)[-1]
    assert last.real.tolist() == [True, True, True, False, False]
    assert [last.share(rank, 2).rows.tolist() for rank in range(2)] == [[45, 47, -1], [46, -1, -1]]


@given(st.integers(0, 12), st.integers(1, 3))
def test_a_loader_goes_on(done, processes):
    epoch = Batches(ENCODED, batch_size=5).epoch(1)
    whole = Loader(epoch, processes - 1, processes)
    rows = [batch.rows.tolist() for batch in whole]
    assert len(whole) == len(rows) == 10
    first, second = Loader(epoch, processes - 1, processes), Loader(epoch, processes - 1, processes)
    for _, _batch in zip(range(done), first, strict=False):
        pass
    second.load_state_dict(first.state_dict())
    left = rows[done:] if done < 10 else rows  # an epoch that is over begins anew
    assert [batch.rows.tolist() for batch in second] == left
