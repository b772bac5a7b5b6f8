from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from torch_ctree.cli import COMMANDS, SETTINGS, TASK, Parser, data
from torch_ctree.cli.arguments import add_arguments, add_settings, by_place, explanations, names, settings, values
from torch_ctree.training.configuration import SECTIONS


def example(
    first: str, second: str | None = None, /, hold_out: int | None = None, set_: str = "test", json_: bool = False
) -> None:
    """Do something with ``first``.

    It takes a while.

    first: what to begin with
    second: what to go on with
    hold_out: how many, in a line
        that goes on
    set_: one of ``train`` and ``test``
    json_: for programs
    """


@dataclass
class Sizes:
    """How large.

    width: of everything
    kind: which one
    rate: how fast
    fine: or not
    more: whatever
    """

    width: int = 3
    kind: Literal["a", "b"] | None = None
    rate: float = 1e-9
    fine: bool = True
    more: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def parse():
    parser = Parser(prog="ctree try")
    add_arguments(parser, example)
    add_settings(parser, {"sizes": Sizes})

    def run(*words: str) -> tuple[dict[str, Any], dict[str, Any]]:
        given = parser.parse_args(list(words))
        return values(given, example), settings(given, {"sizes": Sizes})

    run.help = parser.format_help()  # pyright: ignore[reportFunctionMemberAccess]
    return run


def several(names: Sequence[str] = (), /, hold_out: int = 1) -> None:
    """Do something with all of them.

    names: of whatever
    hold_out: how many
    """


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ((), 1)),
        (["a"], (["a"], 1)),
        (["a", "b", "c", "--hold-out", "3"], (["a", "b", "c"], 3)),
        (["--hold-out", "3", "a", "b"], (["a", "b"], 3)),
    ],
)
def test_several_by_place(words, expected):
    parser = Parser(prog="ctree try")
    add_arguments(parser, several)
    found = values(parser.parse_args(words), several)
    assert (found["names"], found["hold_out"]) == expected


DEFAULTS = {"first": "a", "second": None, "hold_out": None, "set_": "test", "json_": False}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a"], {}),
        (
            ["a", "b", "--hold-out", "3", "--set", "x y", "--json"],
            {"second": "b", "hold_out": 3, "set_": "x y", "json_": True},
        ),
        (["a", "--hold-out", "3", "b"], {"second": "b", "hold_out": 3}),  # flags may stand anywhere
        (["--hold-out", "3", "a", "--json", "b"], {"second": "b", "hold_out": 3, "json_": True}),
        (["a", "null", "--set", "#"], {"second": "null", "set_": "#"}),  # text is text
        (["a", "--", "-b"], {"second": "-b"}),
        (["a", ""], {"second": ""}),
    ],
)
def test_by_place_and_by_name(parse, words, expected):
    assert parse(*words) == ({**DEFAULTS, **expected}, {})


def test_settings_stay_text_and_only_those_given_are_there(parse):
    found = parse("a", "--sizes.width", "x", "--sizes.more=1", "--sizes.kind", "null")[1]
    assert found == {"sizes": {"width": "x", "more": "1", "kind": "null"}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a", "--hold-out", "null"], "hold_out: Expected a int. Got value: None"),
        (["a", "--hold-uot", "3"], "--hold-uot; did you mean --hold-out?"),
        (["a", "--size.width", "3"], "--size.width; did you mean --sizes.width?"),
        (["a", "b", "c"], "unrecognized arguments: c; text of several words goes in quotes"),
        (["a", "--qqq"], "unrecognized arguments: --qqq (see 'ctree try --help')"),
    ],
)
def test_refused(parse, capsys, words, said):
    with pytest.raises(SystemExit) as stopped:
        parse(*words)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


def test_help_is_what_docstrings_say(parse):
    for line in (
        "  first                 what to begin with",
        "  --hold-out N          how many, in a line that goes on",
        "  --set TEXT            one of train and test (default: test)",
        "  --json                for programs",
        "  --sizes.width N       of everything (default: 3)",
        "  --sizes.kind a|b      which one",
        "  --sizes.rate X        how fast (default: 1e-09)",
        "  --sizes.fine true|false",
        "  --sizes.more TEXT     whatever",
        "sizes:\n  How large.\n",
    ):
        assert f"{line}\n" in parse.help


def test_names():
    assert names(example, frozenset({"first"})) == {
        "second": "second",
        "hold_out": "hold-out",
        "set_": "set",
        "json_": "json",
    }
    assert by_place(example) == ["first", "second"]


def test_nothing_is_left_unexplained():
    for kind in SECTIONS.values():
        assert all(explanations(kind).values())
    for function in (*COMMANDS.values(), *data.COMMANDS.values()):
        explained = explanations(function)
        assert all(explained[name] for name in names(function, TASK | SETTINGS))
