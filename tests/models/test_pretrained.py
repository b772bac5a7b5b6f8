"""Models on disk, and on a small Hub of our own, which the real client talks to."""

import base64
import hashlib
import itertools
import json
import os
import pickle
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.utils import close_session, disable_progress_bars, enable_progress_bars
from safetensors.torch import load, save

from torch_ctree.data import Encoder, Subwords, Vocabulary
from torch_ctree.models import DECODERS, ENCODERS, ModelConfig, ModelError, Seq2Seq
from torch_ctree.models.encoders import BiRNN

CONFIG, WEIGHTS, SOURCE, TARGET = FILES = ("config.json", "model.safetensors", "source.json", "target.json")
TINY = ModelConfig(encoder="birnn", width=4, depth=2, layers=1)
SOURCES = Vocabulary(["jump", "walk", "twice"])
TARGETS = Vocabulary(["<unk>", "JUMP", "WALK"], "<unk>")
PIECES = Subwords.train(["jump walk twice"] * 3, size=262)


def tiny(source: Encoder = SOURCES, target: Encoder = TARGETS, **settings):
    return Seq2Seq(replace(TINY, **settings), source, target).eval()


@pytest.fixture
def folder(tmp_path):
    """With a model in it."""
    tiny().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def one_line(call, *args, **kwargs):
    """The message of the error that a call ends with."""
    with pytest.raises(ModelError) as error:
        call(*args, **kwargs)
    message = str(error.value)
    assert message.isprintable()
    return message


def refused(folder):
    return one_line(Seq2Seq.from_pretrained, folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def same(one, other, source="jump twice", target="JUMP WALK"):
    scores = [model.score(model.batch([source], [target])) for model in (one, other)]
    return torch.equal(*scores) and one.answer(source, 3) == other.answer(source, 3)


# --- there and back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [pair for pair in itertools.product(ENCODERS, DECODERS) if pair[1] != "grammar" or pair[0] == "spans"],
)
def test_comes_back_bit_for_bit(tmp_path, encoder, decoder):
    model = tiny(encoder=encoder, decoder=decoder, slots=2, options={"own": [1, "two", None]})
    model.save_pretrained(tmp_path)
    loaded = Seq2Seq.from_pretrained(tmp_path)
    assert (loaded.config, loaded.source, loaded.target) == (model.config, SOURCES, TARGETS)
    assert not loaded.training
    assert same(model, loaded)


@pytest.mark.parametrize("source", [SOURCES, PIECES])
@pytest.mark.parametrize("target", [TARGETS, PIECES])
def test_words_and_subwords(tmp_path, source, target):
    model = tiny(source, target)
    model.save_pretrained(str(tmp_path))
    loaded = Seq2Seq.from_pretrained(str(tmp_path))
    assert (loaded.source, loaded.target) == (source, target)
    assert same(model, loaded)


def test_weights_are_not_those_of_a_new_model(folder):
    assert not same(Seq2Seq.from_pretrained(folder), tiny())


def test_a_subclass_stays_one(folder):
    class Mine(Seq2Seq):
        pass

    assert type(Mine.from_pretrained(folder)) is Mine


def test_home(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    Seq2Seq.from_pretrained("~/model").save_pretrained("~/again")
    assert contents(folder) == contents(folder.parent / "again")


def test_a_model_in_training_stays_in_training(tmp_path):
    model = tiny(dropout=0.5).train()
    model.save_pretrained(tmp_path)
    assert model.training
    assert same(model.eval(), Seq2Seq.from_pretrained(tmp_path))


def test_half_precision(tmp_path):
    model = tiny().half()
    model.save_pretrained(tmp_path)
    assert same(model.float(), Seq2Seq.from_pretrained(tmp_path))


def test_parts_that_share_their_memory(tmp_path, monkeypatch):
    class Sharing(BiRNN):
        def __init__(self, config, vocabulary):
            super().__init__(config, vocabulary)
            numbers = torch.arange(6.0)
            self.register_buffer("all", numbers)
            self.register_buffer("some", numbers[2:4])
            self.root_again = self.root

    monkeypatch.setitem(ENCODERS, "sharing", Sharing)
    model = tiny(encoder="sharing")
    model.encoder.get_buffer("all").mul_(10)
    model.save_pretrained(tmp_path)
    encoder = Seq2Seq.from_pretrained(tmp_path).encoder
    assert encoder.get_buffer("all").tolist() == [0, 10, 20, 30, 40, 50]
    assert encoder.get_buffer("some").tolist() == [20, 30]
    assert encoder.get_submodule("root_again") is encoder.get_submodule("root")


# --- the files --------------------------------------------------------------------------------------------------------


def test_files(folder):
    assert sorted(contents(folder)) == sorted(FILES)
    assert json.loads((folder / CONFIG).read_text()) == {"format": "torch-ctree", "model": TINY.to_dict()}
    assert Vocabulary.load(folder / SOURCE) == SOURCES
    assert Vocabulary.load(folder / TARGET) == TARGETS


def test_weights_are_plain_numbers(tmp_path):
    """The format: the length of a JSON header, the header, the numbers, and nothing else."""
    model = tiny(encoder="ordered-memory", decoder="production")
    model.save_pretrained(tmp_path)
    content = (tmp_path / WEIGHTS).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    numbers = np.frombuffer(content[8 + length :], "<f4")
    assert len(numbers) == model.parameter_count  # shared parts are there once
    for name, parameter in model.named_parameters():
        start, end = header[name]["data_offsets"]
        assert np.array_equal(numbers[start // 4 : end // 4], parameter.detach().flatten().numpy())


def test_nothing_is_unpickled(folder, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("unpickled")

    for module, name in [(pickle, "Unpickler"), (pickle, "load"), (pickle, "loads"), (torch, "load")]:
        monkeypatch.setattr(module, name, never)
    Seq2Seq.from_pretrained(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_pickle_is_not_opened(folder, name):
    class Payload:
        def __reduce__(self):
            return os.mkdir, (str(folder / "opened"),)

    torch.save({"encoder": Payload()}, folder / name)
    assert name in refused(folder)
    (folder / name).write_bytes(pickle.dumps(Payload()))
    assert name in refused(folder)
    assert not (folder / "opened").exists()


# --- saving -----------------------------------------------------------------------------------------------------------


def test_saving_over_another(folder):
    (folder / "notes.txt").write_text("mine")
    model = tiny(PIECES, PIECES, decoder="gru", width=6)
    model.save_pretrained(folder)
    assert same(model, Seq2Seq.from_pretrained(folder))
    assert sorted(contents(folder)) == sorted([*FILES, "notes.txt"])


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "model").write_text("in the way")
    message = one_line(tiny().save_pretrained, tmp_path / "model")
    assert message == f"{tmp_path / 'model' / CONFIG}: cannot be written: File exists"
    assert (tmp_path / "model").read_text() == "in the way"


@pytest.mark.parametrize("name", FILES)
def test_a_folder_where_a_file_should_be(folder, name):
    before = contents(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    model = tiny(PIECES, PIECES, width=6)
    assert one_line(model.save_pretrained, folder) == f"{folder / name}: cannot be written: Is a directory"
    (folder / name).rmdir()
    model.save_pretrained(folder.parent / "other")
    after = contents(folder)
    assert after.keys() == before.keys() - {name}  # and nothing half written beside them
    assert all(
        content in (before[name], (folder.parent / "other" / name).read_bytes()) for name, content in after.items()
    )


def test_settings_that_no_file_can_hold(folder):
    before = contents(folder)
    message = one_line(tiny(options={"when": {1, 2}}).save_pretrained, folder)
    assert message == "options: Object of type set is not JSON serializable; expected what a JSON file can hold"
    assert contents(folder) == before


def test_no_such_user():
    assert "Could not determine home directory" in one_line(tiny().save_pretrained, "~nobody-of-this-name/x")
    assert "Could not determine home directory" in refused("~nobody-of-this-name/x")


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    expected = f"{folder}: no model here, {name} is missing; expected what training or save_pretrained wrote"
    assert refused(folder) == expected
    (folder / name).mkdir()
    assert refused(folder) == expected


def test_an_empty_folder(tmp_path):
    assert refused(tmp_path).startswith(f"{tmp_path}: no model here, config.json is missing; expected ")


def test_a_file_instead_of_a_folder(folder):
    assert refused(folder / WEIGHTS).startswith(f"{folder / WEIGHTS}: no model here, config.json is missing; expected ")


MEND = {
    CONFIG: "save it again",
    WEIGHTS: "save or download the model again",
    SOURCE: "save it again",
    TARGET: "save it again",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("keep", [0, 1, 7, 8, 9, 0.5, -1])
def test_a_truncated_file(folder, name, keep):
    content = (folder / name).read_bytes().rstrip()
    (folder / name).write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    message = refused(folder)
    assert message.startswith(f"{folder / name}: ")
    assert message.endswith(MEND[name])


@pytest.mark.parametrize("content", [b"[]", b"null", b"7", b"{}", b'"words"', b"\xff\xfe", b"[" * 100_000, b"9" * 9999])
@pytest.mark.parametrize("name", FILES)
def test_another_kind_of_file(folder, name, content):
    (folder / name).write_bytes(content)
    message = refused(folder)
    assert message.startswith(f"{folder / name}: ")
    assert re.search(r"expected|again", message)


@pytest.mark.parametrize(("name", "other"), [(CONFIG, SOURCE), (SOURCE, CONFIG), (TARGET, CONFIG)])
def test_files_mixed_up(folder, name, other):
    shutil.copy(folder / other, folder / name)
    assert re.match(rf"{folder / name}: not .*; expected .* wrote$", refused(folder))


def damaged(content, rng):
    """A bit turned, a byte in another's place, or some left out."""
    at = rng.randrange(len(content))
    end, between = rng.choice(
        [
            (at + 1, bytes([content[at] ^ 1 << rng.randrange(8)])),
            (at + 1, bytes([rng.choice(b'0123456789"{}[],:-.e\0\n')])),
            (at + rng.randrange(1, 20), b""),
        ]
    )
    return content[:at] + between + content[end:]


@pytest.mark.parametrize("vocabularies", [(SOURCES, TARGETS), (PIECES, PIECES)], ids=["words", "subwords"])
@pytest.mark.parametrize("name", FILES)
def test_bytes_here_and_there(tmp_path, vocabularies, name):
    tiny(*vocabularies).save_pretrained(tmp_path)
    content = (tmp_path / name).read_bytes()
    rng = random.Random(0)
    messages = []
    for _ in range(120):
        (tmp_path / name).write_bytes(damaged(content, rng))
        try:
            Seq2Seq.from_pretrained(tmp_path)
        except ModelError as error:
            messages.append(str(error))
    assert messages
    assert all(name in message and message.isprintable() and len(message) < 1000 for message in messages)


def test_subwords_that_the_library_panics_at(tmp_path, capfd):
    tiny(PIECES, TARGETS).save_pretrained(tmp_path)
    content = json.loads((tmp_path / SOURCE).read_text())
    content["model"]["continuing_subword_prefix"] = "####"
    (tmp_path / SOURCE).write_text(json.dumps(content))
    assert re.match(rf"{tmp_path / SOURCE}: .*; save or download the model again$", refused(tmp_path))
    capfd.readouterr()  # it is loud about it


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [{"format": "torch-ctree"}, {"format": "other", "model": TINY.to_dict()}, TINY.to_dict()]
)
def test_settings_of_something_else(folder, content):
    (folder / CONFIG).write_text(json.dumps(content))
    expected = "not the settings of a torch-ctree model; expected a file that save_pretrained wrote"
    assert refused(folder) == f"{folder / CONFIG}: {expected}"


def test_settings_that_have_no_names(folder):
    (folder / CONFIG).write_text(json.dumps({"format": "torch-ctree", "model": ["birnn"]}))
    assert refused(folder) == f"{folder / CONFIG}: model: got ['birnn']; expected settings by name"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"temperature": 1}, r"model: got the setting 'temperature'; expected one of encoder, decoder, .*"),
        ({"encoder": "cnn"}, r"encoder: got 'cnn'; expected one of .*, or your own once .* in ENCODERS"),
        ({"encoder": "bi-rnn"}, r"encoder: got 'bi-rnn'; did you mean 'birnn'\?"),
        ({"encoder": 5}, r"encoder: got 5; expected a name"),
        ({"encoder": ["birnn"]}, r"encoder: got \['birnn'\]; expected a name"),
        ({"decoder": None}, r"decoder: got None; expected a name"),
        ({"decoder": "?"}, r"decoder: got '\?'; expected one of ctree, .*, or your own once it is in DECODERS"),
        ({"output": 3}, r"output: got 3; expected mlp or linear or lexical-attention or copy"),
        ({"contextualiser": []}, r"contextualiser: got \[\]; expected bidirectional or .*"),
        ({"width": "4"}, r"width: got '4'; expected a whole number, 1 or more"),
        ({"width": 4.0}, r"width: got 4.0; expected a whole number, 1 or more"),
        ({"width": True}, r"width: got True; expected a whole number, 1 or more"),
        ({"width": 2**40}, r"no model can be made of these settings \(.*\); expected those of one model"),
        ({"width": 2**70}, r"no model can be made of these settings \(.*\); expected those of one model"),
        ({"layers": None}, r"layers: got None; expected a whole number, 1 or more"),
        ({"depth": None}, r"depth: got None; expected a number, such as .*"),
        ({"depth": "deep"}, r"depth: got 'deep'; expected a whole number from 0 to 20"),
        ({"options": 5}, r"options: got 5; expected settings by name"),
        ({"dropout": "0.1"}, r"dropout: got '0.1'; expected a number from 0 to less than 1"),
        ({"dropout": float("nan")}, r"dropout: got nan; expected a number from 0 to less than 1"),
    ],
)
def test_settings_that_are_none(folder, settings, expected):
    content = json.loads((folder / CONFIG).read_text())
    content["model"] |= settings
    (folder / CONFIG).write_text(json.dumps(content))
    assert re.fullmatch(rf"{re.escape(str(folder / CONFIG))}: {expected}", refused(folder))


def test_an_encoder_of_someone_else(tmp_path, monkeypatch):
    monkeypatch.setitem(ENCODERS, "theirs", BiRNN)
    model = tiny(encoder="theirs")
    model.save_pretrained(tmp_path)
    assert same(model, Seq2Seq.from_pretrained(tmp_path))
    monkeypatch.delitem(ENCODERS, "theirs")
    known = "ordered-memory, birnn, spans, transformer"
    expected = f"encoder: got 'theirs'; expected one of {known}, or your own once it is in ENCODERS"
    assert refused(tmp_path) == f"{tmp_path / CONFIG}: {expected}"


def test_an_encoder_that_fails(folder, monkeypatch):
    class Failing(BiRNN):
        def __init__(self, config, vocabulary):
            raise KeyError(config.options["absent"])

    monkeypatch.setitem(ENCODERS, "birnn", Failing)
    assert refused(folder).startswith(f"{folder / CONFIG}: no model can be made of these settings ('absent'); ")


# --- files of several models ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"width": 6}, {"decoder": "lstm"}, {"layers": 2}, {"output": "mlp"}])
def test_weights_of_another_architecture(folder, settings):
    tiny(**settings).save_pretrained(folder.parent / "other")
    for one, other in [("model", "other"), ("other", "model")]:
        mixed = shutil.copytree(folder.parent / one, folder.parent / f"{one} mixed")
        shutil.copy(folder.parent / other / WEIGHTS, mixed)
        message = refused(mixed)
        assert message.startswith(f"{mixed / WEIGHTS}: weights of another model: ")
        assert message.endswith("; expected all four files from one model")


def test_which_weights_differ(folder):
    content = load((folder / WEIGHTS).read_bytes())
    name = "encoder.embedding.weight"
    told = "where config.json, source.json and target.json ask for"

    def message(changed):
        (folder / WEIGHTS).write_bytes(save(changed))
        return refused(folder).partition("model: ")[2].partition("; ")[0]

    assert message({k: v for k, v in content.items() if k != name}) == f"{name} has nothing, {told} shape (3, 4)"
    assert message(content | {"absent": torch.zeros(2)}) == f"absent has shape (2,), {told} nothing"
    assert message(content | {name: torch.zeros(4, 3)}) == f"{name} has shape (4, 3), {told} shape (3, 4)"
    for kind in (torch.int32, torch.complex64, torch.float8_e4m3fn):
        there = f"shape (3, 4) of {kind}"
        assert message(content | {name: torch.zeros(3, 4).to(kind)}) == f"{name} has {there}, {told} shape (3, 4)"


@pytest.mark.parametrize("name", [SOURCE, TARGET])
@pytest.mark.parametrize("other", [Vocabulary(["one", "two"]), PIECES], ids=["words", "subwords"])
def test_a_vocabulary_of_another_size(folder, name, other):
    other.save(folder / name)
    message = refused(folder)
    assert message.startswith(f"{folder / WEIGHTS}: weights of another model: ")
    assert name in message


# --- the Hub ----------------------------------------------------------------------------------------------------------

TOKEN = "hf_of_the_owner"


class Handler(BaseHTTPRequestHandler):
    """What the Hub answers: https://huggingface.co/docs/hub/api"""

    server: "Hub"  # type: ignore[assignment]

    def answer(self):
        path = urlsplit(self.path).path
        self.server.requests.append((self.command, path))
        if self.server.broken and re.search(self.server.broken, path):
            return self.server.breaks(self)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return self.about("/".join(parts[2:4]), parts[4:])
        if path == "/api/repos/create":
            return self.create(json.loads(self.body()))
        if path == "/api/validate-yaml":
            return self.reply(200, {})
        if len(parts) > 4 and parts[2] == "resolve":
            return self.about("/".join(parts[:2]), parts[2:])
        return self.reply(404, {})

    do_GET = do_HEAD = do_POST = answer  # noqa: N815

    def create(self, wanted):
        name = f"{wanted['organization']}/{wanted['name']}"
        if not self.is_owner:
            return self.reply(401, {"error": "Invalid username or password."})
        if wanted["organization"] != "owner":
            return self.reply(403, {"error": "You don't have the rights to create a model under this namespace"})
        status = 409 if name in self.server.repositories else 200
        self.server.repositories.setdefault(name, {})
        if wanted.get("visibility", wanted.get("private")) in ("private", True):
            self.server.private.add(name)
        return self.reply(status, {"url": f"{self.server.url}/{name}"})

    def about(self, name, what):
        revisions = self.server.repositories.get(name)
        if revisions is None or (name in self.server.private and not self.is_owner):
            status = 404 if self.is_owner else 401
            return self.reply(status, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        action, revision, *path = what or ["revision", "main"]
        if self.command == "POST":
            return self.upload_modes() if action == "preupload" else self.commit(name, revisions)
        number = list(revisions)[-1] if revision == "main" else revision
        if number not in revisions:
            return self.reply(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        files = revisions[number]
        if action == "resolve":
            content = files["/".join(path)]
            return self.reply(200, content, ETag=f'"{sha1(content)}"', X_Repo_Commit=number)
        listed = [
            {"type": "file", "path": file, "rfilename": file, "size": len(content), "oid": sha1(content)}
            for file, content in files.items()
        ]
        return self.reply(200, listed if action == "tree" else {"id": name, "sha": number, "siblings": listed})

    def upload_modes(self):
        """Every file is to come with the commit itself."""
        paths = [file["path"] for file in json.loads(self.body())["files"]]
        files = [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]
        return self.reply(200, {"files": files})

    def commit(self, name, revisions):
        lines = [json.loads(line) for line in self.body().splitlines()]
        files = dict(list(revisions.values())[-1]) if revisions else {}
        for line in lines:
            if line["key"] == "file":
                assert line["value"]["encoding"] == "base64"
                files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
        (self.server.message,) = [line["value"]["summary"] for line in lines if line["key"] == "header"]
        number = sha1(repr(sorted(files.items())).encode())
        revisions[number] = files
        return self.reply(
            200, {"success": True, "commitUrl": f"{self.server.url}/{name}/commit/{number}", "commitOid": number}
        )

    @property
    def is_owner(self):
        return self.headers["Authorization"] == f"Bearer {TOKEN}"

    def body(self):
        return self.rfile.read(int(self.headers["Content-Length"]))

    def reply(self, status, body, **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format, *args):
        pass


class Hub(ThreadingHTTPServer):
    """Repositories: name → commit → path → content, the last commit last."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.repositories, self.private, self.requests, self.message = {}, set(), [], None
        self.broken, self.breaks = None, lambda handler: None

    def handle_error(self, request, client_address):
        pass  # the client went away


def sha1(content):
    return hashlib.sha1(content).hexdigest()


def hangs_up(handler):
    handler.connection.shutdown(socket.SHUT_RDWR)


def fails(handler):
    handler.reply(500, b"out of order")


def talks_nonsense(handler):
    handler.reply(200, b"<html>Welcome to the hotel! Please log in.</html>")


@pytest.fixture
def client(monkeypatch, tmp_path):
    """The Hub's client, with no account and an empty cache. → says where its Hub is"""

    def use(url):
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")

    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    disable_progress_bars()
    close_session()
    yield use
    close_session()
    enable_progress_bars()


@pytest.fixture
def hub(client):
    server = Hub()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    client(server.url)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def no_network(client):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        client(f"http://127.0.0.1:{taken.getsockname()[1]}")


@pytest.fixture
def impatient(monkeypatch):
    """No waiting before another try."""

    def never(seconds):
        raise AssertionError("waits")

    monkeypatch.setattr(time, "sleep", never)


def refusal(status):
    answer = f"the answer is {status} (Repository not found); check the name, and log in or give a token"
    return f"not to be had from the Hugging Face Hub: {answer}"


def test_push_and_pull(hub):
    model = tiny(PIECES, TARGETS)
    assert model.push_to_hub("owner/tiny", token=TOKEN) == f"{hub.url}/owner/tiny"
    (files,) = hub.repositories["owner/tiny"].values()
    assert sorted(files) == sorted([*FILES, "README.md"])
    assert hub.message == "A model by torch-ctree"
    for name in ("owner/tiny", "hf:owner/tiny"):
        assert same(model, Seq2Seq.from_pretrained(name))


def test_only_the_model_is_pulled(hub, tmp_path):
    tiny().push_to_hub("owner/tiny", token=TOKEN)
    (files,) = hub.repositories["owner/tiny"].values()
    files["pytorch_model.bin"] = pickle.dumps("a pickle")
    Seq2Seq.from_pretrained("owner/tiny")
    (snapshot,) = (tmp_path / "hub").glob("models--owner--tiny/snapshots/*")
    assert sorted(contents(snapshot)) == sorted(FILES)


def test_pushing_again_and_revisions(hub):
    first, second = tiny(), tiny(decoder="gru")
    first.push_to_hub("owner/tiny", token=TOKEN)
    second.push_to_hub("hf:owner/tiny", token=TOKEN, message="better")
    assert hub.message == "better"
    assert same(second, Seq2Seq.from_pretrained("owner/tiny"))
    assert same(first, Seq2Seq.from_pretrained("owner/tiny", revision=next(iter(hub.repositories["owner/tiny"]))))
    message = one_line(Seq2Seq.from_pretrained, "owner/tiny", revision="v9")
    assert message.endswith("the answer is 404 (Invalid rev id); check the name, and log in or give a token")


def test_private(hub):
    model = tiny()
    model.push_to_hub("owner/secret", private=True, token=TOKEN)
    assert hub.private == {"owner/secret"}
    message = one_line(Seq2Seq.from_pretrained, "owner/secret")
    assert message == f"owner/secret: no such folder, and {refusal(401)}"
    assert same(model, Seq2Seq.from_pretrained("owner/secret", token=TOKEN))


def test_logged_in(hub, tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    tiny().push_to_hub("owner/secret", private=True)
    Seq2Seq.from_pretrained("owner/secret")


def test_a_folder_comes_before_the_hub(hub, folder, monkeypatch):
    monkeypatch.chdir(folder.parent.parent)
    Seq2Seq.from_pretrained(f"{folder.parent.name}/model")
    assert hub.requests == []


@pytest.mark.usefixtures("impatient")
def test_neither_a_folder_nor_on_the_hub(hub):
    message = one_line(Seq2Seq.from_pretrained, "runs/none")
    assert message == f"runs/none: no such folder, and {refusal(401)}"
    assert len(hub.requests) == 1
    message = one_line(Seq2Seq.from_pretrained, "hf:runs/none", token=TOKEN)
    assert message == f"hf:runs/none: {refusal(404)}"


@pytest.mark.parametrize("name", ["none", "a/b/c", "/absent", "a b/c", "x" * 300 + "/y", "nul\0/x"])
def test_names_that_nothing_on_the_hub_has(hub, name):
    with pytest.raises(ModelError, match=r"no such folder; expected one with a model, or owner/name|too long"):
        Seq2Seq.from_pretrained(name)
    with pytest.raises(ModelError, match=r"not a name on the Hub; expected owner/name on the Hugging Face Hub$|is 96"):
        Seq2Seq.from_pretrained(f"hf:{name}")
    assert hub.requests == []


@pytest.mark.parametrize("name", ["a--b/c", ".a/b", "owner/name.git"])
def test_names_that_the_hub_refuses(hub, name):
    assert name in one_line(Seq2Seq.from_pretrained, name)
    assert name in one_line(tiny().push_to_hub, name, token=TOKEN)
    assert hub.requests == []


def test_a_model_of_another_library(hub):
    hub.repositories["owner/other"] = {"0" * 40: {"config.json": b"{}", "model.safetensors": save({})}}
    message = one_line(Seq2Seq.from_pretrained, "owner/other")
    assert "no model here, source.json is missing; expected what training or save_pretrained wrote" in message


@pytest.mark.usefixtures("no_network", "impatient")
def test_without_a_network():
    message = one_line(Seq2Seq.from_pretrained, "owner/tiny")
    assert message.startswith("owner/tiny: no such folder, and not to be had from the Hugging Face Hub: ")
    assert "check your internet connection" in message
    message = one_line(tiny().push_to_hub, "owner/tiny", token=TOKEN)
    assert re.match(r"owner/tiny: cannot be put on the Hugging Face Hub: .*Connection refused", message)


def test_without_a_network_what_was_pulled_before(hub, monkeypatch):
    model = tiny()
    model.push_to_hub("owner/tiny", token=TOKEN)
    Seq2Seq.from_pretrained("owner/tiny")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    hub.requests.clear()
    assert same(model, Seq2Seq.from_pretrained("owner/tiny"))
    assert hub.requests == []


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("breaks", [hangs_up, fails, talks_nonsense])
def test_a_hub_out_of_order(hub, breaks):
    hub.broken, hub.breaks = "/api/", breaks
    message = one_line(Seq2Seq.from_pretrained, "owner/tiny")
    assert message.startswith("owner/tiny: no such folder, and not to be had from the Hugging Face Hub: ")
    message = one_line(tiny().push_to_hub, "owner/tiny", token=TOKEN)
    assert message.startswith("owner/tiny: cannot be put on the Hugging Face Hub: ")


@pytest.mark.parametrize("breaks", [hangs_up, fails])
@pytest.mark.parametrize("where", ["/preupload/", "/commit/"])
def test_a_hub_that_fails_half_way_through_a_push(hub, monkeypatch, where, breaks):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the client tries five times more
    hub.broken, hub.breaks = where, breaks
    message = one_line(tiny().push_to_hub, "owner/tiny", token=TOKEN)
    assert message.startswith("owner/tiny: cannot be put on the Hugging Face Hub: ")


@pytest.mark.parametrize("breaks", [hangs_up, fails])
def test_a_hub_that_fails_half_way_through_a_pull(hub, monkeypatch, breaks):
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    tiny().push_to_hub("owner/tiny", token=TOKEN)
    hub.broken, hub.breaks = "/resolve/.*/source.json", breaks
    message = one_line(Seq2Seq.from_pretrained, "owner/tiny")
    assert message.startswith("owner/tiny: no such folder, and not to be had from the Hugging Face Hub: ")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("name", "token", "status"), [("owner/x", None, 401), ("owner/x", "no", 401), ("a/x", TOKEN, 403)]
)
def test_pushing_where_one_may_not(hub, name, token, status):
    message = one_line(tiny().push_to_hub, name, token=token)
    assert message.startswith(f"{name}: cannot be put on the Hugging Face Hub: the answer is {status} (")
    assert message.endswith("); check the name, and log in or give a token")
    assert hub.repositories == {}


def test_the_card_says_how_to_load_it(hub, tmp_path):
    """By doing what it says, in a new interpreter, with the environment alone."""
    model = tiny()
    model.push_to_hub("owner/tiny", token=TOKEN)
    (files,) = hub.repositories["owner/tiny"].values()
    card = files["README.md"].decode()
    assert card.startswith("---\nlibrary_name: torch-ctree\n")
    assert f"encoder `birnn` and decoder `ctree`, {model.parameter_count:,} parameters" in card
    code = card.partition("```python\n")[2].partition("```")[0].replace("…", "jump twice")
    program = [sys.executable, "-W", "error", "-c", code]
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "PYTHONIOENCODING": "utf-8"}
    out = subprocess.run(program, check=True, env=environment, stdout=subprocess.PIPE, encoding="utf-8", cwd="/").stdout
    assert out == f"{model.answer('jump twice')[0]}\n"
