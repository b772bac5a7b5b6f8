"""Serves the page of models that are a few rules."""

import sys

from torch_ctree.viewing.explorer.page import serve

from ..viewing.explorer.fake import Fake, prediction

RIGHT = ["jump", "walk twice", "jump twice and walk thrice", "run and look"]
WRONG = ["look twice", "run thrice and jump twice and look"]
TESTED = [*map(prediction, RIGHT), *(prediction(source, "WALK") for source in WRONG)]
OTHER = [prediction(one.source, "LOOK" if one.source in RIGHT[2:] else None) for one in TESTED]

if __name__ == "__main__":
    models = [Fake(tested=TESTED), Fake("quiet", shouting=False, tested=OTHER), Fake("without trees", has_trees=False)]
    count = 1 if sys.argv[1] == "one" else 3
    serve(models[:count], 5, "127.0.0.1", {"one": 7956, "two": 7957}[sys.argv[1]], print)
