"""``ctree bench``."""

import json

import pytest

from torch_ctree import cli
from torch_ctree.benchmarking import table


@pytest.fixture
def quick(monkeypatch):
    """Figures that are measured in no time, on any machine."""
    figures = (
        table.Figure("one", "one thing", "ms", lambda s: {"value": 1.5}, "9 ms", 2.0, on_cpu=True),
        table.Figure("two", "another", "s", lambda s: {"value": s.seeds}, on_cpu=True),
    )
    monkeypatch.setattr(table, "FIGURES", figures)


def test_a_table_and_a_file(quick, tmp_path, capsys):
    file = tmp_path / "found.json"
    cli.main(["bench", "--json", str(file), "--seeds", "3", "--commit", "abc"])
    said = capsys.readouterr().out
    assert "one thing: 1.5 ms" in said
    assert "9 ms" in said
    found = json.loads(file.read_text())
    assert found["commit"] == "abc"
    assert [figure["value"] for figure in found["figures"]] == [1.5, 3]
    assert "| one thing | 1.5 ms | 9 ms | 2 ms |" in file.with_suffix(".md").read_text()


def test_some_of_them(quick, capsys):
    cli.main(["bench", "--only", "two"])
    assert "one thing" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "three"], "only: got 'three'; expected some of one, two"),
        (["--seeds", "0"], "seeds: got 0; expected"),
        (["--precision", "half"], "trainer.precision: got 'half'; expected 32-true, "),
    ],
)
def test_what_is_wrong_in_one_line(quick, capsys, arguments, said):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["bench", *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
