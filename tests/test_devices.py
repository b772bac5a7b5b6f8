"""What can run where, without a GPU: its properties are told."""

import pytest
import torch

from torch_ctree import devices

trial = pytest.importorskip("torch_ctree.trial")

GPU = torch.device("cuda", 0)
REMEMBERED = (devices._missing, devices._say, devices._is_installed)


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """Nothing is known yet, and nothing has been said."""
    for function in REMEMBERED:
        function.cache_clear()
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "An old GPU")
    yield
    for function in REMEMBERED:
        function.cache_clear()


def capability(monkeypatch, major):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (major, 0))


def test_a_gpu_that_is_new_enough(monkeypatch):
    capability(monkeypatch, 8)
    monkeypatch.setattr(devices, "_is_installed", lambda: True)
    monkeypatch.setattr(trial, "run", lambda device: None)
    assert devices.triton_runs(GPU)


def test_a_kernel_that_cannot_be_compiled(monkeypatch):
    def fails(device):
        raise RuntimeError("Failed to find\nC compiler")

    capability(monkeypatch, 8)
    monkeypatch.setattr(devices, "_is_installed", lambda: True)
    monkeypatch.setattr(trial, "run", fails)
    with pytest.warns(UserWarning, match="Failed to find C compiler; slower ones do the same work"):
        assert not devices.triton_runs(GPU)


def test_the_trial_in_the_interpreter():
    trial.run(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


@pytest.mark.parametrize(
    ("major", "installed", "said"), [(6, True, "An old GPU is too old"), (8, False, "'triton' is not")]
)
def test_what_is_missing_is_said_once(monkeypatch, major, installed, said):
    capability(monkeypatch, major)
    monkeypatch.setattr(devices, "_is_installed", lambda: installed)
    with pytest.warns(UserWarning, match=said):
        assert not devices.triton_runs(GPU)
    assert not devices.triton_runs(GPU)  # a second warning would be an error


def test_elsewhere_they_do_not_run(monkeypatch):
    assert not devices.triton_runs(torch.device("meta"))
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert not devices.triton_runs(torch.device("cpu"))


def test_products_are_as_torch_has_them():
    before = torch.get_float32_matmul_precision()
    try:
        for precision, expected in (("highest", "ieee"), ("high", "tf32")):
            torch.set_float32_matmul_precision(precision)
            assert devices.dot_precision() == expected
    finally:
        torch.set_float32_matmul_precision(before)
