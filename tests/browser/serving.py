"""Serves pages of models that are a few rules: of one, and of several."""

import sys
from dataclasses import replace
from threading import Event, Thread

from torch_ctree.viewing.explorer.page import serve

from ..viewing.explorer.fake import Fake, prediction

RIGHT = ["jump", "walk twice", "jump twice and walk thrice", "run and look"]
WRONG = ["look twice", "run thrice and jump twice and look"]
MISSED = [replace(one, target=f"{one.target} LOOK") for one in map(prediction, WRONG)]
TESTED = [*map(prediction, RIGHT), *MISSED]
OTHER = [replace(one, output="LOOK" if one.source in RIGHT[2:] else one.target) for one in TESTED]

if __name__ == "__main__":
    models = [Fake(tested=TESTED), Fake("quiet", shouting=False, tested=OTHER), Fake("without trees", has_trees=False)]
    one, several = map(int, sys.argv[1:])
    is_served = Event()  # Gradio makes one page at a time
    arguments = models[:1], 5, "127.0.0.1", one, lambda address: (print(address), is_served.set())
    Thread(target=serve, args=arguments, daemon=True).start()
    is_served.wait()
    serve(models, 5, "127.0.0.1", several, print)
