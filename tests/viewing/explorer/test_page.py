import subprocess
import sys


def test_what_launching_does():
    program = [sys.executable, "-m", "tests.viewing.explorer.launching"]
    done = subprocess.run(program, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
