"""``ctree bench``."""

import json
from pathlib import Path

import pytest

from tests.experiments.tiny import WILD, small_here, small_presets
from tests.processes import from_one
from torch_ctree import cli
from torch_ctree.benchmarking import row, table
from torch_ctree.experiments.results import read_result
from torch_ctree.training import pool
from torch_ctree.training.pool import Outcome


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
        (["--results", "here"], "results: got 'here'; expected --row with it"),
        (["--row", "--results", ""], "results: got nothing; expected a folder"),
        (["--row", "--root", "nowhere"], "nowhere: no such folder; expected one that holds data files"),
    ],
)
def test_what_is_wrong_in_one_line(quick, capsys, arguments, said):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["bench", *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


# --- a row ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    return small_here(tmp_path, monkeypatch)


def test_a_row_whose_results_are_kept(small, ctree, refused, monkeypatch):
    """One of its runs fails."""
    monkeypatch.setattr(pool, "SPAWN", from_one())
    small_presets(small, paper_scan_length=WILD)
    words = ["bench", "--row", "--seeds", "1", "--precision", "32-exact", "--commit", "abc", "--results", "kept"]
    said = ctree(*words, "--json", "found.json")
    assert "OM-CTree + LA, length-0: failed: epoch 1: the training loss is not a number any more" in said
    found = json.loads(Path("found.json").read_text())["row"]
    assert said.endswith(f"\n4 runs in {found['value']:.1f} minutes\n")
    assert (found["at_once"], found["precision"]) == (1, "32-exact")
    assert [run["preset"] for run in found["runs"]] == [
        f"paper-scan-{split}" for split in ("simple", "jump", "turn-left", "length")
    ]
    assert found["value"] * 60 > sum(run["seconds"] for run in found["runs"] if "error" not in run)
    for run in found["runs"]:
        result = read_result(Path(f"kept/scan/om-ctree-la/{run['preset'].removeprefix('paper-scan-')}-0.json"))
        assert (result["commit"], result["settings"]["trainer"]["precision"]) == ("abc", "32-exact")
        assert result.get("error") == run.get("error")
        if "metrics" in result:
            assert result["metrics"]["exact_match"] == run["test_exact_match"]
            assert run.items() >= {name: result[name] for name in ("epochs", "best_epoch", "seconds")}.items()
    assert "| paper-scan-length | – | failed |" in Path("found.md").read_text()
    assert sorted(path.name for path in Path().iterdir()) == ["found.json", "found.md", "kept"]
    assert "3 runs done, 1 failed, " in ctree("report", "kept")
    assert "kept/scan/om-ctree-la/simple-0.json: there is a result already (and 3 more), and " in refused(*words)


def test_by_default_nothing_of_a_row_is_kept(small, ctree, monkeypatch):
    seen = []

    def sweep(jobs, console, **how):
        seen.extend(jobs)
        assert how["at_once"] == 2
        assert all(place.parents[3].is_dir() for job in jobs for place in (job.path, job.folder))
        return [Outcome(job, None, "no time", 0.0) for job in jobs]

    monkeypatch.setattr(row, "sweep", sweep)
    said = ctree("bench", "--row", "--seeds", "2")
    assert "failed failed" in said
    assert "8 runs in 0.0 minutes" in said
    assert len(seen) == 8
    assert not any(job.path.parents[3].exists() for job in seen)
    assert not any(Path().iterdir())
