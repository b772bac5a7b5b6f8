"""``ctree view``, up to the browser; what is in the browser, tests/browser has."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

from torch_ctree.cli import view
from torch_ctree.data import DataError
from torch_ctree.evaluation import Prediction, write_predictions
from torch_ctree.models import ModelError, Seq2Seq
from torch_ctree.viewing.explorer.asking import SHOWS, Question, ask


@pytest.fixture
def served(monkeypatch):
    """What would be served, instead of doing it."""
    seen = []
    page = ModuleType("page")
    page.__dict__["serve"] = lambda *given: seen.append(given)
    monkeypatch.setitem(sys.modules, "torch_ctree.viewing.explorer.page", page)
    return seen


def test_a_run_as_the_page_asks_it(own):
    model = Seq2Seq.from_pretrained(own)
    run = view.Run(str(own), "own", model)
    assert (run.source, run.target) == (model.source, model.target)
    best = run.answers("jump twice", 3)
    assert [answer.text for answer in best] == [answer.text for answer in model.answer("jump twice", 3)]
    assert run.sample("jump twice", 3) == run.sample("jump twice", 3)
    assert len({run.sample("jump twice", seed).tree for seed in range(5)}) > 1
    parsed = run.parse("jump twice", "JUMP JUMP", 2)
    assert parsed.trees[0][0].leaves == ("JUMP", "JUMP")


@pytest.mark.parametrize("kind", ["own", "grammar"])
@pytest.mark.parametrize("show", SHOWS)
def test_every_decoder_of_trees_has_something_to_show(request, kind, show):
    folder = request.getfixturevalue(kind)
    run = view.Run(str(folder), kind, Seq2Seq.from_pretrained(folder))
    found = ask(run, Question("jump twice and walk", "JUMP JUMP WALK", show), 3)
    assert 'class="note"' not in found
    assert "<svg" in found
    assert 'class="panel"' in found


def test_examples_are_what_evaluate_wrote(own, tmp_path):
    folder = Path(shutil.copytree(own, tmp_path / "run"))
    model = Seq2Seq.from_pretrained(folder)
    assert view.Run(str(folder), "run", model).examples() == []
    rows = [Prediction("test", 0, "jump", "JUMP", "JUMP", -1.0)]
    write_predictions(folder / "predictions.jsonl", rows)
    assert view.Run(str(folder), "run", model).examples() == rows
    (folder / "predictions.jsonl").write_text("{}\n")
    with pytest.raises(DataError, match="line 1"):
        view.Run(str(folder), "run", model).examples()


def test_examples_that_cannot_be_read_are_told_at_once(served, refused, own, tmp_path):
    folders = [Path(shutil.copytree(own, tmp_path / name)) for name in "abc"]
    (folders[2] / "predictions.jsonl").write_text('{"bad"')
    assert "predictions.jsonl" in refused("view", *folders)
    assert served == []


def test_models_that_read_every_phrase_get_shorter_sentences(own, grammar):
    runs = [view.Run(str(folder), "run", Seq2Seq.from_pretrained(folder)) for folder in (own, grammar)]
    assert [run.most_words for run in runs] == [100, 30]


def test_what_is_served(served, ctree, own, sequence):
    assert ctree("view", own, "--port", "8001", "--topk", "2") == ""
    ((models, k, host, port, _),) = served
    assert ([model.name for model in models], k, host, port) == ([own.name], 2, "127.0.0.1", 8001)
    ctree("view", own, sequence, "--host", "0.0.0.0")
    models, k, host, port, _ = served[1]
    assert ([model.name for model in models], k, host, port) == ([own.name, sequence.name], 5, "0.0.0.0", None)


def test_without_a_run_it_is_the_model_that_ships(served, ctree):
    ctree("view")
    assert [model.name for model in served[0][0]] == ["example"]


def test_models_have_names_of_their_own(served, ctree, own, tmp_path):
    other = Path(shutil.copytree(own, tmp_path / own.name))
    ctree("view", own, other, own)
    assert [model.name for model in served[0][0]] == [str(own), str(other)]


def test_the_address_is_said(served, ctree, own, capsys):
    ctree("view", own)
    served[0][-1]("http://127.0.0.1:7860/")
    assert capsys.readouterr().out == "open http://127.0.0.1:7860/ in a browser; Ctrl-C ends it\n"


def test_a_sequence_decoder_has_answers_alone(sequence):
    run = view.Run(str(sequence), "gru", Seq2Seq.from_pretrained(sequence))
    assert run.answers("jump", 1)[0].tree is None
    for call in (lambda: run.sample("jump", 0), lambda: run.parse("jump", "JUMP", 1)):
        with pytest.raises(ModelError, match="'gru' has no trees"):
            call()


def test_what_is_refused(served, refused, own):
    assert "no such run" in refused("view", own / "no")
    assert "topk: got 0; expected 1 to 20" in refused("view", own, "--topk", "0")
    assert "device: got 'nowhere'" in refused("view", own, "--device", "nowhere")
    assert served == []


def test_gradio_is_not_there(monkeypatch, refused, own):
    monkeypatch.delitem(sys.modules, "torch_ctree.viewing.explorer.page", raising=False)
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert refused("view", own) == "ctree: view needs gradio: pip install 'torch-ctree[view]'\n"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (["--port", "99999"], "host and port: got '127.0.0.1' and 99999: "),
        (["--port", "-1"], "host and port: got '127.0.0.1' and -1: "),
        (["--host", "no.such.host.invalid"], "host: got 'no.such.host.invalid': "),
        (["--host", "192.0.2.1"], "host: got '192.0.2.1': "),  # no machine has it
        (["--host", "." * 99], "host: got "),
    ],
)
def test_where_nothing_can_be_served(served, refused, own, place, said):
    assert f"ctree: {said}" in refused("view", own, *place)
    assert served == []


def test_a_port_that_is_taken(served, refused, own):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("view", own, "--port", str(port))
    assert f"host and port: got '127.0.0.1' and {port}: Address already in use; expected an address" in line


@pytest.mark.parametrize(("host", "shown"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_it_serves_a_page_until_ctrl_c(own, host, shown):
    """In a process of its own: Gradio leaves open what Python then warns of. No proxy is asked for this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as free:
        try:
            free.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "torch_ctree", "view", str(own), "--host", host, "--port", str(port)]
    env = os.environ | {"ALL_PROXY": "socks5://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == f"open http://{shown}:{port}/ in a browser; Ctrl-C ends it\n"
        directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with directly.open(f"http://{shown}:{port}/") as answer:
            content = answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert "ctree view" in content
        assert "googleapis" not in content
        assert process.stderr.read() == ""
