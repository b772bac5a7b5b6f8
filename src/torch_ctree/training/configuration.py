"""Every setting of a run, as typed records."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import inf
from pathlib import Path
from typing import Any, Literal, get_type_hints

import yaml

from torch_ctree import data
from torch_ctree.data.disk import write
from torch_ctree.data.errors import check_whole, place
from torch_ctree.models import ModelConfig
from torch_ctree.training.errors import TrainingError


@dataclass(frozen=True)
class DataConfig:
    """What to learn from; all but the last two as ``data.load`` takes it.

    name: a task (see ``ctree data list``), or a file or folder of your own pairs
    root: the folder with data files; by default the one that CTREE_DATA names, or else a cache
    seed: of pairs that are made and of how they are divided; runs with different seeds then share their sets
    hold_out: what to validate on, in place of the task's own way: ``random``, ``longest``, ``combination``, or words
    form: of Multi30k: ``tokenised`` or ``raw``
    validation: a file of your own pairs to validate on
    test: a file of your own pairs to test on
    columns: where source and target are in JSON lines and Hub data sets, such as ``de,en``
    exchange: so many new pairs for each training pair: pairs with a phrase that both sides have in common,
        exchanged for another that has stood in the same surroundings; some of them are validated on
    distilled: another model's answers to learn from, in place of the true targets of the training pairs: the file that
        ``ctree distill`` wrote, or the folder of the run that it is in
    """

    name: str = ""
    root: str | None = None
    seed: int = 0
    hold_out: str | None = None
    form: str | None = None
    validation: str | None = None
    test: str | None = None
    columns: str | None = None
    exchange: float = 0.0
    distilled: str | None = None

    def __post_init__(self) -> None:
        """Refuse an impossible seed, and a share that is none."""
        check_whole("seed", self.seed, 0)
        if not 0 <= self.exchange < inf:
            raise TrainingError(f"exchange: got {self.exchange}; expected a number, 0 or more")

    def load(self) -> data.Task:
        """The task."""
        settings = asdict(self)
        del settings["exchange"], settings["distilled"]
        return data.load(**settings)

    @property
    def is_own(self) -> bool:
        """Whether these are a user's own pairs."""
        return self.name not in data.TASKS

    def absolute(self) -> DataConfig:
        """With whole paths, so that a run finds its data from any folder."""
        names = ("root", "validation", "test", "distilled", *(["name"] if self.is_own else []))
        return replace(self, **{name: _absolute(getattr(self, name)) for name in names})


def _absolute(value: str | None) -> str | None:
    """A path that is there, or two with a comma between them, in full; anything else as it is."""
    if value is None:
        return None
    cuts = [n for n, letter in enumerate(value) if letter == ","]
    for parts in ([value], *([value[:n].strip(), value[n + 1 :].strip()] for n in cuts)):
        if all(part and place(part).exists() for part in parts):
            return ",".join(str(place(part).resolve()) for part in parts)
    return value


@dataclass(frozen=True)
class VocabularyConfig:
    """How text becomes tokens.

    kind: ``words`` between blanks, or ``subwords``, learned by byte-pair encoding
    size: how many subwords each side has
    min_count: words that come less often in the training set are unknown
    unknown: what becomes of unknown words: with ``error`` they are refused, with ``replace`` they become <unk>; by
        default refused where all words of the task are known (SCAN, questions), else replaced
    """

    kind: Literal["words", "subwords"] = "words"
    size: int = 8000
    min_count: int = 1
    unknown: Literal["auto", "error", "replace"] = "auto"

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        check_whole("size", self.size, 1)
        check_whole("min_count", self.min_count, 1)


@dataclass(frozen=True)
class OptimisationConfig:
    """How to learn; the defaults are the paper's settings for SCAN, but for ``ties``.

    lr: the learning rate of Adam to begin with
    beta1: Adam's first moment
    beta2: Adam's second moment
    eps: Adam's smallest divisor
    weight_decay: of AdamW
    batch_size: pairs in a batch, at most
    max_tokens: tokens in a batch, at most, padding included; batches then have pairs of like lengths
    max_target: pairs whose targets have more tokens are not trained on; they stay in the validation set
    gradient_norm: longer gradients are cut to this
    epoch_steps: an epoch ends after so many steps at most, and the next has other pairs; by default when it has had all
    max_epochs: stop after so many
    select: which epoch is kept, and what has to get better for the learning rate to stay: ``accuracy``, the share of
        validation answers that are just right; their ``bleu``; or the validation ``loss``, which the first two go by as
        long as they are 0
    schedule: the learning rate falls on a ``plateau``, where an epoch brings nothing better; or it is ``linear``: less
        with every step, down to 0 at the end of max_epochs
    warmup_steps: so many steps at the beginning, over which it rises to ``lr``
    patience: epochs that bring nothing better and are let pass; after one more the learning rate falls
    factor: what it is then multiplied by
    min_lr: stop when it is below
    ties: of epochs that are as good, which one is kept: that with the lowest validation loss, or the last, as the
        paper's authors do; as long as none is any good, always by loss
    restart_after: begin anew, with other first weights, if validation accuracy has not reached ``restart_below`` after
        so many epochs: for models that learn either soon or never
    restart_below: see there
    restart_agreement: begin anew also where training would end, as long as there are epochs left, until two attempts
        give so many of their answers alike: answers to new sources, which are training ones with words exchanged, of
        epochs that have reached ``restart_below``. Training then ends as soon as all validation pairs are right, and
        the better of the two is kept. 1: all of them; 0: not asked
    checkpoint_steps: within an epoch, a checkpoint to go on from after every so many steps; there is one at its end too
    """

    lr: float = 3e-4
    beta1: float = 0.0
    beta2: float = 0.999
    eps: float = 1e-9
    weight_decay: float = 0.0
    batch_size: int = 100
    max_tokens: int | None = None
    max_target: int | None = None
    gradient_norm: float = 1.0
    epoch_steps: int | None = None
    max_epochs: int = 50
    select: Literal["accuracy", "bleu", "loss"] = "accuracy"
    schedule: Literal["plateau", "linear"] = "plateau"
    warmup_steps: int = 0
    patience: int = 1
    factor: float = 0.5
    min_lr: float = 1e-5
    ties: Literal["loss", "last"] = "loss"
    restart_after: int | None = None
    restart_below: float = 0.99
    restart_agreement: float = 0.0
    checkpoint_steps: int = 1000

    def __post_init__(self) -> None:
        """Refuse what nothing can be learned with."""
        self._check_counts()
        self._check_numbers()
        if self.restart_agreement and self.select != "accuracy":
            raise TrainingError(
                f"restart_agreement: got {self.restart_agreement}; expected 0 where epochs are chosen by {self.select}"
            )
        if self.schedule == "linear" and (self.restart_after or self.restart_agreement):
            raise TrainingError("schedule: got linear for a run that may begin anew; expected plateau")

    def _check_counts(self) -> None:
        for name in ("batch_size", "max_epochs", "checkpoint_steps"):
            check_whole(name, getattr(self, name), 1)
        for name in ("max_target", "epoch_steps", "restart_after"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        for name in ("patience", "warmup_steps"):
            check_whole(name, getattr(self, name), 0)

    def _check_numbers(self) -> None:
        for name in ("lr", "eps", "gradient_norm"):
            if not 0 < getattr(self, name) < inf:
                raise TrainingError(f"{name}: got {getattr(self, name)}; expected a number above 0")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise TrainingError(f"{name}: got {getattr(self, name)}; expected a number from 0 to less than 1")
        for name in ("weight_decay", "min_lr"):
            if not 0 <= getattr(self, name) < inf:
                raise TrainingError(f"{name}: got {getattr(self, name)}; expected a number, 0 or more")
        if not 0 < self.factor < 1:
            raise TrainingError(f"factor: got {self.factor}; expected a number between 0 and 1")
        for name in ("restart_below", "restart_agreement"):
            if not 0 <= getattr(self, name) <= 1:
                raise TrainingError(f"{name}: got {getattr(self, name)}; expected a number from 0 to 1")


@dataclass(frozen=True)
class TrainerConfig:
    """What to compute on; as Lightning's Trainer takes it.

    accelerator: ``auto``, ``cpu``, ``gpu``, …
    devices: how many of them; each batch is divided among all
    num_nodes: machines with so many devices each
    strategy: how several devices work together; ``auto`` is data parallel
    precision: ``32-true`` (which multiplies in TF32 on a GPU), ``32-exact`` (which does not, and is slower), or the
        network in bfloat16 or float16
    deterministic: the same numbers again on a GPU too; a little slower there
    fast: on a GPU, the network in fused kernels, and on one GPU each training step as one CUDA graph; without it, in
        plain operations, one after the other
    """

    accelerator: str = "auto"
    devices: int = 1
    num_nodes: int = 1
    strategy: str = "auto"
    precision: Literal["32-true", "32-exact", "bf16-mixed", "16-mixed"] = "32-true"
    deterministic: bool = True
    fast: bool = True

    @property
    def may_use_gpu(self) -> bool:
        """Whether it would compute on a GPU, if there were one."""
        return self.accelerator in ("auto", "gpu", "cuda")

    @property
    def tf32(self) -> bool:
        """Whether a GPU may round what it multiplies."""
        return self.precision != "32-exact"

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        for name in ("devices", "num_nodes"):
            check_whole(name, getattr(self, name), 1)


@dataclass(frozen=True)
class TrainConfig:
    """Everything a run depends on.

    seed: of the first weights, of dropout, and of the order of the pairs
    data: what to learn from
    vocabulary: how text becomes tokens
    model: what learns
    optimisation: how
    trainer: on what
    """

    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimisation: OptimisationConfig = field(default_factory=OptimisationConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)

    def __post_init__(self) -> None:
        """Refuse an impossible seed."""
        check_whole("seed", self.seed, 0)

    @property
    def is_tokenised(self) -> bool:
        """Whether targets have blanks between all tokens: BLEU cuts plain text into words by itself."""
        return self.vocabulary.kind == "words" if self.data.is_own else self.data.form != "raw"

    def save(self, path: Path) -> None:
        """Write every setting to a YAML file, for ``read``."""
        write(path, yaml.safe_dump(asdict(self), sort_keys=False, allow_unicode=True))


CONFIG = "config.yaml"
"""The file with the settings of a run, in its folder."""
SECTIONS: dict[str, type] = {
    setting.name: kind
    for setting in fields(TrainConfig)
    if is_dataclass(kind := get_type_hints(TrainConfig)[setting.name]) and isinstance(kind, type)
}
"""The groups of settings, by name."""
OF_NO_INTEREST = (
    *(f"trainer.{name}" for name in ("accelerator", "devices", "num_nodes", "strategy", "deterministic", "fast")),
    "optimisation.checkpoint_steps",
)
"""Settings that change no result beyond rounding: where a run computes, and how often it writes."""


def differences(one: TrainConfig, other: TrainConfig) -> list[tuple[str, Any, Any]]:
    """(setting, here, there), where they are not the same."""
    found = [("seed", one.seed, other.seed)]
    for section, kind in SECTIONS.items():
        for setting in fields(kind):
            pair = (getattr(getattr(run, section), setting.name) for run in (one, other))
            found.append((f"{section}.{setting.name}", *pair))
    return [difference for difference in found if difference[1] != difference[2]]
