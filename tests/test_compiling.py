"""The kernels compile: interpreted, they would run even where a compiler refuses them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")


def test_every_kernel_compiles_for_a_gpu_that_is_not_there(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.compiling"],
        cwd=Path(__file__).parents[1],
        env=environment | {"TRITON_CACHE_DIR": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for name in ("hidden_back", "_combine", "_stay", "_collect", "_settle", "_count", "_finish"):
        assert f"\n{name} " in done.stdout
