"""The main job, with the commands that you would type: train a model on SCAN, test it, look at three trees.

What is given on the command line goes to ``ctree train``: ``python examples/demo.py --model.width 32``.
"""

import shlex
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from torch_ctree.cli import main as ctree

SOURCES = ("jump twice and walk left", "look left twice and jump", "walk opposite left after run thrice")


def do(*words: str) -> None:
    """Show a command, and run it."""
    print(f"\n$ ctree {shlex.join(words)}", flush=True)
    ctree(words)


def free_folder() -> str:
    """A run is never written over: runs/demo-0, or else runs/demo-0.2, …"""
    names = (f"runs/demo-0{'' if n == 1 else f'.{n}'}" for n in count(1))
    return next(name for name in names if not Path(name).exists())


def main(settings: Sequence[str] = ()) -> None:
    """Train, test, decode."""
    began, run = time.monotonic(), free_folder()
    print("SCAN: commands such as 'jump twice' become actions. No tree is ever shown to the model.")
    do("train", "demo", "--run", run, *settings)
    do("evaluate", run)
    for source in SOURCES:
        do("decode", run, source)
    print(f"\n{time.monotonic() - began:.0f} seconds in all. Try next (after 'source .venv/bin/activate'):")
    print(f'  ctree decode {run} "walk twice after jump left" --topk 3')
    print(f'  ctree parse {run} --source "jump twice" --target "I_JUMP I_JUMP"')
    print("  ctree train --data pairs.tsv     your own pairs: a source, a tab and a target on each line")
    print("  ctree train --list               the rows of the paper's tables")


if __name__ == "__main__":
    main(sys.argv[1:])
