"""What a model is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from torch_ctree.models.errors import ModelError
from torch_ctree.trees.checks import LARGEST_PENALTY

Contextualiser = Literal["bidirectional", "forward", "none"]
OutputLayer = Literal["mlp", "linear", "lexical-attention", "copy"]
Context = Literal["nodes", "root"]
Search = Literal["tree", "sentence", "risk"]

SEARCH = ("search", "candidates", "beam", "length_penalty")
"""The settings of answering alone: a trained model can have others."""
GONE = {"as_released": False}
"""Settings of earlier versions, and what has held without them since: files that say just that are still read."""
DEEPEST = 20
"""2^20 words and twice as many vertices: more is a slip of the finger."""


@dataclass(frozen=True)
class ModelConfig:
    """The parts of a model and their sizes. The defaults are the paper's settings for SCAN.

    encoder: what reads the source: ``ordered-memory``, ``birnn``, ``transformer``, or ``spans``, which reads every
        phrase by itself; or one of your own in ``ENCODERS``
    decoder: what says the target: ``ctree``, the latent tree; ``grammar``, a grammar over the phrases of ``spans``; or
        from left to right ``production``, the tree's cell, ``gru``, ``lstm`` or ``transformer``; or ``lanmt``, which
        says all words at once; or one of your own in ``DECODERS``
    output: how a state becomes a word: ``mlp``, which sees its context too; ``linear``, which does not;
        ``lexical-attention``, which looks at source words without context; or ``copy``, an ``mlp`` that can repeat
        source words, where both vocabularies spell them the same
    contextualiser: what Ordered Memory reads: states of a ``bidirectional`` or ``forward`` GRU, or with ``none`` the
        words themselves
    width: of every state and embedding
    depth: of the tree: it has room for 2^depth words (sequential decoders stop there too); by default chosen from the
        data
    slots: of Ordered Memory
    layers: of the encoders ``birnn`` and ``transformer``
    decoder_layers: of the decoders ``gru``, ``lstm`` and ``transformer``, and of each of the four parts of ``lanmt``
    beam: how many beginnings the search of a sequential decoder keeps; a tree is searched exactly
    dropout: everywhere but in attention
    attention_dropout: of the queries and keys of attention; of what a Transformer attends to, and of what a grammar
        finds phrases by
    operators: of a grammar
    stays: of a grammar: how often in a row a child may have the phrase of its parent
    stay_operators: of a grammar's operators, how many such a child has to choose from; by default all
    window: words on each side of where a phrase begins and of where it ends, by which a grammar finds it
    word_noise: the share of source words that ``spans`` does not hear in training
    phrase_dropout: the share of phrases of several words that a grammar has to do without in training
    context: what a vertex or word sees of the source besides its state: attention over all its ``nodes``, or, without
        attention, its ``root``
    heads: of a Transformer's attention
    length_penalty: how much longer answers are preferred, by ``ctree``, by a beam search, and by the searches
        ``sentence`` and ``risk``, up to 7: with 0 they go by probability alone, which falls with every word
    search: which answer is given: of a tree decoder, by ``tree`` the best one together with its tree, by ``sentence``
        the candidate that is most probable over all its trees; and by ``risk`` the candidate that is most similar to
        all candidates, as probable as they are. Of a beam search ``sentence`` is ``tree``; a grammar has ``tree`` alone
    candidates: of the searches ``sentence`` and ``risk``: how many derivations of a tree, besides the best of each
        length, or how wide a beam at least
    label_smoothing: the part of what a sequential decoder learns from that every word has in equal shares
    tied: whether a sequential decoder reads and says words by the same vectors
    latent: of ``lanmt``: how many numbers it has for each word of the source, besides what it reads
    refinements: of ``lanmt``: how often it reads its answer and says it anew
    free_bits: of ``lanmt``: how many nats of a word's latents may come from the target at no cost, in training
    free_bits_steps: of ``lanmt``: training steps until nothing is free; in the first half of them all of it still
        is, and by default always
    options: settings of encoders and decoders of your own
    """

    encoder: str = "ordered-memory"
    decoder: str = "ctree"
    output: OutputLayer = "lexical-attention"
    contextualiser: Contextualiser = "bidirectional"
    width: int = 128
    depth: int | None = None
    slots: int = 5
    layers: int = 5
    decoder_layers: int = 1
    beam: int = 1
    dropout: float = 0.1
    attention_dropout: float = 0.6
    operators: int = 12
    stays: int = 2
    stay_operators: int | None = None
    window: int = 1
    word_noise: float = 0.0
    phrase_dropout: float = 0.0
    context: Context = "nodes"
    heads: int = 4
    length_penalty: float = 0.0
    search: Search = "tree"
    candidates: int = 32
    label_smoothing: float = 0.0
    tied: bool = False
    latent: int = 8
    refinements: int = 1
    free_bits: float = 1.0
    free_bits_steps: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what no model can be made of."""
        for name in ("encoder", "decoder"):
            if not isinstance(getattr(self, name), str):
                raise ModelError(f"{name}: got {getattr(self, name)!r}; expected a name")
        named = ("output", OutputLayer), ("contextualiser", Contextualiser), ("context", Context), ("search", Search)
        for name, choices in named:
            if getattr(self, name) not in get_args(choices):
                raise ModelError(f"{name}: got {getattr(self, name)!r}; expected {' or '.join(get_args(choices))}")
        if not isinstance(self.options, Mapping):
            raise ModelError(f"options: got {self.options!r}; expected settings by name")
        self._check_counts()
        self._check_shares()

    def _check_counts(self) -> None:
        counts = (
            "width",
            "slots",
            "layers",
            "decoder_layers",
            "beam",
            "operators",
            "stays",
            "window",
            "heads",
            "latent",
            "candidates",
        )
        for name in counts:
            if not _is_whole(getattr(self, name)) or getattr(self, name) < 1:
                raise ModelError(f"{name}: got {getattr(self, name)!r}; expected a whole number, 1 or more")
        most = self.operators
        if self.stay_operators is not None and not (
            _is_whole(self.stay_operators) and 1 <= self.stay_operators <= most
        ):
            raise ModelError(f"stay_operators: got {self.stay_operators!r}; expected a whole number, 1 to {most}")
        if not _is_whole(self.refinements) or self.refinements < 0:
            raise ModelError(f"refinements: got {self.refinements!r}; expected a whole number, 0 or more")
        if self.free_bits_steps is not None and not (_is_whole(self.free_bits_steps) and self.free_bits_steps >= 1):
            raise ModelError(f"free_bits_steps: got {self.free_bits_steps!r}; expected a whole number, 1 or more")
        if self.width % 2:
            raise ModelError(f"width: got {self.width}; expected an even number: half for each direction of reading")
        if self.depth is not None:
            check_depth(self.depth)

    def _check_shares(self) -> None:
        for name in ("dropout", "attention_dropout", "word_noise", "phrase_dropout", "label_smoothing"):
            if not _is_number(value := getattr(self, name)) or not 0 <= value < 1:
                raise ModelError(f"{name}: got {value!r}; expected a number from 0 to less than 1")
        if not _is_number(self.length_penalty) or not 0 <= self.length_penalty <= LARGEST_PENALTY:
            expected = f"a number from 0 to {LARGEST_PENALTY}"
            raise ModelError(f"length_penalty: got {self.length_penalty!r}; expected {expected}")
        if not _is_number(self.free_bits) or not 0 <= self.free_bits < math.inf:
            raise ModelError(f"free_bits: got {self.free_bits!r}; expected a number, 0 or more")

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelConfig:
        """What ``to_dict`` gave; settings that this version does not know are an error."""
        if not isinstance(values, Mapping):
            raise ModelError(f"model: got {values!r}; expected settings by name")
        values = still_there(values)
        known = [setting.name for setting in fields(cls)]
        if strange := [name for name in values if name not in known]:
            raise ModelError(f"model: got the setting {strange[0]!r}; expected one of {', '.join(known)}")
        return cls(**values)


def still_there(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without settings that are gone and make no difference."""
    return {name: value for name, value in values.items() if not (name in GONE and value is GONE[name])}


def check_depth(value: object) -> None:
    """A depth that a tree can have."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= DEEPEST:
        raise ModelError(f"depth: got {value!r}; expected a whole number from 0 to {DEEPEST}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
