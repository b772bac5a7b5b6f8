"""Sums over rows."""

import pytest
import torch

from torch_ctree.devices import triton_runs

sums = pytest.importorskip("torch_ctree.models.fused.sums")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
pytestmark = pytest.mark.skipif(not triton_runs(DEVICE), reason="no Triton")


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (31, 129), (33, 5), (300, 7)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_as_torch_has_it(rows, columns, dtype):
    x = torch.randn(rows, columns, device=DEVICE).to(dtype)
    found = sums.column_sums(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, x.float().sum(0), atol=1e-4, rtol=1e-4)


def test_in_more_than_one_stage(monkeypatch):
    monkeypatch.setattr(sums, "PARTS", 3)
    x = torch.randn(200, 6, device=DEVICE)
    torch.testing.assert_close(sums.column_sums(x), x.sum(0), atol=1e-4, rtol=1e-4)
