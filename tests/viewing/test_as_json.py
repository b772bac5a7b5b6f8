import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from torch_ctree.data import DataError
from torch_ctree.trees.vertex import Vertex
from torch_ctree.viewing import as_json, from_json
from torch_ctree.viewing.tree import preorder

from .trees import DEEP, chain, trees

ALL = Vertex(
    "jump",
    (),
    "NP",
    5,
    0.25,
    0.5,
    0.75,
    (("jump", 0.5), ("walk", 0.25)),
    (0.25, 0.75),
    (1.0, 0.0),
    (0, 2),
    3,
)


@given(tree=trees)
def test_there_and_back(tree):
    assert from_json(json.loads(json.dumps(as_json(tree), allow_nan=False))) == tree


def test_all_that_is_known():
    tree = Vertex(children=(ALL, Vertex("a")), number=0)
    assert from_json(json.loads(json.dumps(as_json(tree)))) == tree
    assert as_json(tree)["vertices"][0] == {"number": 0, "children": [1, 2]}
    assert as_json(tree)["vertices"][2] == {"word": "a"}


def test_numbers_that_json_has_not():
    found = as_json(Vertex("a", emission=math.nan, attention=(math.nan, 0.5)))
    assert found == {"vertices": [{"word": "a", "emission": None, "attention": [None, 0.5]}]}
    again = from_json(found)
    assert again.emission is None
    assert math.isnan(again.attention[0])


def test_any_depth():
    found = from_json(json.loads(json.dumps(as_json(chain(DEEP)))))
    assert [spot.vertex.word for spot in preorder(found)] == [spot.vertex.word for spot in preorder(chain(DEEP))]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "tree: got None; expected an object with a list of objects"),
        ({}, "tree: got {}; expected an object"),
        ({"vertices": []}, "expected an object with a list"),
        ({"vertices": [1]}, "expected an object with a list"),
        ({"vertices": [{"children": 1}]}, "vertex 0: got the children 1; expected a list of places"),
        ({"vertices": [{"children": [True]}]}, "vertex 0: got the children"),
        ({"vertices": [{"children": [0]}]}, r"vertex 0: got the children \[0\]; expected later vertices"),
        ({"vertices": [{"children": [1, 1]}, {}]}, "vertex 0: got the children"),
        ({"vertices": [{"children": [1, 2]}, {"children": [2]}, {}]}, "vertex 0: got the children"),
        ({"vertices": [{}, {}]}, "vertex 1: is nowhere a child"),
        ({"vertices": [{"worf": "a"}]}, "vertex 0: got 'worf'; expected some of word, label, "),
        ({"vertices": [{"word": 1}]}, "vertex 0, word: got 1; expected what as_json writes"),
        ({"vertices": [{"label": None}]}, "vertex 0, label: got None"),
        ({"vertices": [{"split": True}]}, "vertex 0, split: got True"),
        ({"vertices": [{"split": "1"}]}, "vertex 0, split: got '1'"),
        ({"vertices": [{"attention": 1}]}, "vertex 0, attention: got 1"),
        ({"vertices": [{"words": [["a"]]}]}, "vertex 0, words: got"),
        ({"vertices": [{"phrase": [1, 2, 3]}]}, "vertex 0, phrase: got"),
    ],
)
def test_what_is_not_a_tree(found, said):
    with pytest.raises(DataError, match=said) as error:
        from_json(found)
    assert "\n" not in str(error.value)


def test_numbers_of_numpy():
    share: Any = np.float32(0.5)
    assert json.loads(json.dumps(as_json(Vertex("a", emission=share)))) == as_json(Vertex("a", emission=0.5))


def test_numbers_without_end():
    with pytest.raises(DataError, match="vertex 0, emission: got"):
        from_json({"vertices": [{"word": "a", "emission": 10**400}]})
