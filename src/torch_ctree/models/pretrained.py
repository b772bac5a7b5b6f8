"""Models on disk and on the Hugging Face Hub: settings and vocabularies as JSON, weights as safetensors.

Nothing is unpickled, so that a stranger's model can be opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from torch_ctree.data import DataError, Encoder, load_encoder
from torch_ctree.data.disk import read_json, write
from torch_ctree.data.errors import in_one_line, place, told
from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.errors import ModelError

if TYPE_CHECKING:
    from torch_ctree.models.seq2seq import Seq2Seq

FILES = CONFIG, WEIGHTS, SOURCE, TARGET = "config.json", "model.safetensors", "source.json", "target.json"
FORMAT = "torch-ctree"
HUB = "hf:"
"""Before the name of a model on the Hub, where it could be taken for a folder."""
EXAMPLE = "example"
"""The name of the model that ships, where no folder of that name is."""
SHIPPED = Path(__file__).parent.parent / "shipped" / EXAMPLE
"""Its folder, which is that of a run."""


def folder_of(name: str | Path) -> Path:
    """The folder that a name means."""
    given = place(name)
    return SHIPPED if str(name) == EXAMPLE and not given.exists() else given


def save(model: Seq2Seq, folder: str | Path) -> None:
    """Write a model into a folder; each file is whole or not there."""
    from safetensors.torch import save as to_bytes  # noqa: PLC0415  (only needed here)

    try:
        config = json.dumps({"format": FORMAT, "model": model.config.to_dict()}, indent=2) + "\n"
    except (TypeError, ValueError) as error:
        raise ModelError(f"options: {in_one_line(error)}; expected what a JSON file can hold") from error
    # Copies: the format refuses parts of one piece of memory.
    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights(model).items()}
    content = to_bytes(tensors, {"format": "pt"})
    with _told():
        to = place(folder)
        write(to / CONFIG, config)
        model.source.save(to / SOURCE)
        model.target.save(to / TARGET)
        write(to / WEIGHTS, content)


def weights(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer once, by its first name: parts that are shared have several.

    Without buffers that a model can make again of its settings and vocabularies.
    """
    every, kept = {**dict(model.named_parameters()), **dict(model.named_buffers())}, model.state_dict().keys()
    return {name: tensor for name, tensor in every.items() if name in kept}


def load(kind: type[Seq2Seq], name: str | Path, revision: str | None = None, token: str | None = None) -> Seq2Seq:
    """A model from a folder or from the Hub, ready to answer."""
    with _told():
        return _read(kind, _folder(str(name), revision, token))


def _read(kind: type[Seq2Seq], folder: Path) -> Seq2Seq:
    for name in FILES:
        if not (folder / name).is_file():
            raise ModelError(
                f"{folder}: no model here, {name} is missing; expected what training or save_pretrained wrote"
            )
    tensors = _tensors(folder / WEIGHTS)
    config, source, target = read_config(folder / CONFIG), _encoder(folder / SOURCE), _encoder(folder / TARGET)
    try:
        model = kind(config, source, target)
    except ModelError as error:
        raise ModelError(f"{folder / CONFIG}: {error}") from error
    except Exception as error:  # of parts of your own; of torch, for a width that no memory holds
        said = f"no model can be made of these settings ({in_one_line(error)}); expected those of one model"
        raise ModelError(f"{folder / CONFIG}: {said}") from error
    _fill(model, tensors, folder / WEIGHTS)
    return model.eval()


def read_config(path: Path) -> ModelConfig:
    """The settings that ``save`` wrote."""
    content = read_json(path)
    if not isinstance(content, Mapping) or content.get("format") != FORMAT or "model" not in content:
        raise ModelError(f"{path}: not the settings of a {FORMAT} model; expected a file that save_pretrained wrote")
    try:
        return ModelConfig.from_dict(content["model"])
    except (ModelError, TypeError) as error:
        raise ModelError(f"{path}: {error}") from error


def _encoder(path: Path) -> Encoder:
    try:
        return load_encoder(path)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # tokenizers' own, which is no Exception and has no other name
            raise
        said = in_one_line(error)
        raise ModelError(f"{path}: damaged subwords ({said}); save or download the model again") from error


def _tensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load as from_bytes  # noqa: PLC0415

    try:
        return from_bytes(path.read_bytes())
    except Exception as error:  # the library raises what it meets, such as a KeyError for a type it does not know
        raise ModelError(f"{path}: damaged weights ({in_one_line(error)}); save or download the model again") from error


def _fill(model: Seq2Seq, tensors: dict[str, Tensor], path: Path) -> None:
    """Copy tensors into a model that must have just these."""
    wanted = weights(model)
    for name in sorted(wanted.keys() | tensors.keys()):
        there, expected = _shape(tensors.get(name)), _shape(wanted.get(name))
        if there != expected:
            raise ModelError(
                f"{path}: weights of another model: {name} has {there}, where {CONFIG}, {SOURCE} and {TARGET} ask for "
                f"{expected}; expected all four files from one model"
            )
    with torch.no_grad():
        for name, tensor in wanted.items():
            tensor.copy_(tensors[name])


def _shape(tensor: Tensor | None) -> str:
    """As a message has it. Numbers with a point may be of any precision."""
    if tensor is None:
        return "nothing"
    kind = "" if tensor.is_floating_point() and tensor.itemsize > 1 else f" of {tensor.dtype}"
    return f"shape {tuple(tensor.shape)}{kind}"


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with a file is wrong with a model."""
    try:
        with told():
            yield
    except DataError as error:
        raise ModelError(str(error)) from error


# --- the Hub ----------------------------------------------------------------------------------------------------------


def _folder(name: str, revision: str | None, token: str | None) -> Path:
    """Where a model is, downloaded first if need be."""
    only_hub = name.startswith(HUB)
    given = folder_of(name)
    if not only_hub and given.exists():
        return given
    on_hub = name.removeprefix(HUB)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", on_hub):
        wrong = "not a name on the Hub; expected" if only_hub else "no such folder; expected one with a model, or"
        raise ModelError(f"{name}: {wrong} owner/name on the Hugging Face Hub")
    from huggingface_hub import snapshot_download  # noqa: PLC0415

    try:
        return Path(snapshot_download(on_hub, revision=revision, token=token, allow_patterns=list(FILES)))
    except Exception as error:  # of the system, of HTTP, of its own: they have no common base
        also = "" if only_hub else "no such folder, and "
        raise ModelError(f"{name}: {also}not to be had from the Hugging Face Hub: {_why(error)}") from error


def push(model: Seq2Seq, name: str, private: bool, token: str | None, message: str) -> str:
    """Put a model on the Hub → its address."""
    from huggingface_hub import HfApi  # noqa: PLC0415

    hub = HfApi(token=token)
    with TemporaryDirectory() as folder:
        save(model, folder)
        try:
            repository = hub.create_repo(name.removeprefix(HUB), private=private, exist_ok=True)
            write(Path(folder) / "README.md", card(model, repository.repo_id))
            hub.upload_folder(repo_id=repository.repo_id, folder_path=folder, commit_message=message)
        except Exception as error:
            raise ModelError(f"{name}: cannot be put on the Hugging Face Hub: {_why(error)}") from error
    return str(repository)


def _why(error: Exception) -> str:
    """What the Hub's client says; what is private is "not found", too."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status not in (401, 403, 404):
        return in_one_line(error)
    said = in_one_line(getattr(error, "server_message", None) or "no more")
    return f"the answer is {status} ({said}); check the name, and log in or give a token"


def card(model: Seq2Seq, name: str) -> str:
    """What the Hub shows of a model."""
    config = model.config
    return (
        f"---\nlibrary_name: {FORMAT}\ntags:\n- latent-trees\n---\n\n# {name}\n\n"
        f"A sequence-to-sequence model with encoder `{config.encoder}` and decoder `{config.decoder}`, "
        f"{model.parameter_count:,} parameters.\n\n"
        f'```python\nfrom torch_ctree import Seq2Seq\n\nmodel = Seq2Seq.from_pretrained("{name}")\n'
        f'print(model.answer("…")[0])\n```\n'
    )
