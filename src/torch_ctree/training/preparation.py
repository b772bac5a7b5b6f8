"""From settings to what training needs: vocabularies, token ids, the depth; and what is wrong, before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from torch_ctree.data import Encoded, Encoder, Pairs, Subwords, Task, Vocabulary, distilled, exchanged
from torch_ctree.data.errors import DataError, count
from torch_ctree.data.vocabulary import UNKNOWN
from torch_ctree.models import ModelConfig
from torch_ctree.training.configuration import TrainConfig, VocabularyConfig
from torch_ctree.training.errors import TrainingError
from torch_ctree.trees.topology import depth_for_leaves

SPARE = 1
"""Levels beyond the fewest that hold the longest target: those would hold it only as a nearly complete tree."""

MADE_TO_VALIDATE = 10
"""One of so many new pairs is validated on: what is right there is right of structures that nobody has shown."""


@dataclass(frozen=True)
class References:
    """The true targets of a set, as text."""

    texts: Sequence[str]
    tokenised: bool
    """Whether they have blanks between all tokens."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that a run learns from."""

    source: Encoder
    target: Encoder
    train: Encoded
    validation: Encoded
    references: References
    """Of the validation set."""
    model: ModelConfig
    """With its depth chosen."""
    remarks: list[str]
    """What was chosen, in words."""

    def digest(self) -> str:
        """Another one wherever pairs, words or the depth are others."""
        words = ["\n".join(side[n] for n in range(len(side))) for side in (self.source, self.target)]
        sides = [side for pairs in (self.train, self.validation) for side in (pairs.source, pairs.target)]
        numbers = [array.tobytes() for side in sides for array in (side.tokens, side.ends)]
        parts = [str(self.model.depth).encode(), *(text.encode() for text in words), *numbers]
        return sha256(b"".join(sha256(part).digest() for part in parts)).hexdigest()


def prepare(config: TrainConfig, task: Task) -> Prepared:
    """Build vocabularies from the training set, encode, choose the depth; refuse what cannot be learned."""
    for name in ("train", "validation"):
        if not len(task.sets[name]):
            raise TrainingError(f"{task.name}: the {name} set is empty; expected pairs")
    replaces = _replaces(config)
    if config.vocabulary.min_count > 1 and not replaces and config.vocabulary.kind == "words":
        raise TrainingError(
            f"vocabulary.min_count: got {config.vocabulary.min_count}, where unknown words are refused; "
            "expected 1, or --vocabulary.unknown replace"
        )
    source = _encoder(config.vocabulary, task.train.sources(), replaces)
    target = _encoder(config.vocabulary, task.train.targets(), replaces)
    remarks = []
    pairs, validated = task.train, task.sets["validation"]
    if config.data.distilled is not None:  # after the vocabularies: what another model never says may be right
        pairs = distilled(task.train, config.data.distilled)
        remarks.append(f"training targets: the answers in {config.data.distilled}")
    if config.data.exchange:  # of the true pairs: some are validated on
        made = list(_exchanged(config, task))
        held = min(len(made) // MADE_TO_VALIDATE, len(validated))
        pairs, validated = Pairs.of([*pairs, *made[held:]]), Pairs.of([*validated, *made[:held]])
        remarks.append(
            f"{count(len(made), 'new pair')}, with phrases exchanged: {len(made) - held:,} to train on, "
            f"{held:,} to validate"
        )
    train = _encoded("train", pairs, source, target)
    validation = _encoded("validation", validated, source, target)
    limit = config.optimisation.max_target
    if limit is not None and train.longest[1] > limit:
        train, left_out = _shorter(train, limit)
        remarks.append(f"not trained on: {count(left_out, 'pair')} with more than {limit:,} tokens in the target")
    longest = max(train.longest[1], validation.longest[1])
    depth = config.model.depth
    if depth is None:
        depth = depth_for_leaves(longest) + SPARE
        remarks.append(
            f"tree depth {depth}, chosen from the data: the longest target has {count(longest, 'token')}, "
            f"and there is room for {1 << depth:,}"
        )
    _check_room(depth, {"train": train, "validation": validation})
    if isinstance(target, Vocabulary) and replaces:
        remarks += _unknown("sources", source, task) + _unknown("targets", target, task)
    references = References(list(validated.targets()), config.is_tokenised)
    return Prepared(source, target, train, validation, references, replace(config.model, depth=depth), remarks)


def _exchanged(config: TrainConfig, task: Task) -> Pairs:
    """New pairs, none of them with a source of any set, and none too long to be trained on."""
    others = {" ".join(source.split()) for name in task.sets if name != "train" for source in task.sets[name].sources()}
    most = round(config.data.exchange * len(task.train))
    made = exchanged(task.train, most, config.data.seed, without=others, longest=config.optimisation.max_target)
    if not len(made):
        raise TrainingError(
            "data.exchange: no phrase that sources and targets have in common can be exchanged for another; expected 0"
        )
    return made


def _replaces(config: TrainConfig) -> bool:
    """Whether unknown words become <unk>."""
    if config.vocabulary.unknown != "auto":
        return config.vocabulary.unknown == "replace"
    return config.data.is_own or config.data.name.startswith("multi30k")


def _encoder(config: VocabularyConfig, texts: Iterable[str], replaces: bool) -> Encoder:
    """A vocabulary for one side."""
    if config.kind == "subwords":
        return Subwords.train(texts, config.size)
    return Vocabulary.build(texts, config.min_count, UNKNOWN if replaces else None)


def _encoded(name: str, pairs: Pairs, source: Encoder, target: Encoder) -> Encoded:
    try:
        return Encoded.of(pairs, source, target)
    except DataError as error:
        hint = "; or read unknown words as <unk>: --vocabulary.unknown replace" if "vocabulary" in str(error) else ""
        raise TrainingError(f"{name} set, {error}{hint}") from error


def _shorter(pairs: Encoded, limit: int) -> tuple[Encoded, int]:
    """Those whose targets have so many tokens at most, and how many others there are."""
    rows = np.flatnonzero(pairs.target.lengths <= limit)
    if not rows.size:
        raise TrainingError(
            f"optimisation.max_target: got {limit:,}, which leaves nothing to train on; expected "
            f"{int(pairs.target.lengths.min()):,} or more, the tokens of the shortest target"
        )
    return pairs.take(rows), len(pairs) - rows.size


def _check_room(depth: int, sets: dict[str, Encoded]) -> None:
    """Every target must have a tree."""
    room = 1 << depth
    for name, pairs in sets.items():
        lengths = pairs.target.lengths
        if (too_long := np.flatnonzero(lengths > room)).size:
            first = int(too_long[0])
            raise TrainingError(
                f"{name} set: {count(too_long.size, 'target')} of more than {room:,} tokens, which no tree of depth "
                f"{depth} holds (the first is pair {first + 1}, with {lengths[first]:,}); raise --model.depth to "
                f"{depth_for_leaves(int(lengths.max()))} or leave them out"
            )


def _unknown(side: str, encoder: Encoder, task: Task) -> list[str]:
    """A remark, where words of the validation set are unknown."""
    assert isinstance(encoder, Vocabulary)
    texts = task.validation.sources() if side == "sources" else task.validation.targets()
    strange = {word for text in texts for word in text.split() if word not in encoder}
    if not strange:
        return []
    some = ", ".join(sorted(strange)[:3]) + (", …" if len(strange) > 3 else "")
    return [
        f"{count(len(strange), 'word')} of the validation {side} not known from training, read as {UNKNOWN}: {some} "
        "(--vocabulary.kind subwords knows parts of words)"
    ]
