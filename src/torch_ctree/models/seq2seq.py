"""Seq2Seq: an encoder and a decoder with their vocabularies, behind one interface."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from torch_ctree.data import Batch, Encoder, Side, Vocabulary
from torch_ctree.data.vocabulary import several
from torch_ctree.models import choosing, fused, pretrained
from torch_ctree.models.configuration import SEARCH, ModelConfig, Search
from torch_ctree.models.decoders import DECODERS, Decoded, Decoder, TreeDecoder, as_answers
from torch_ctree.models.decoders.decoder import NOT_FOR_ALL
from torch_ctree.models.encoders import ENCODERS, Encoding, SourceEncoder
from torch_ctree.models.errors import ModelError
from torch_ctree.trees import Derivation, GrammarPosterior, LatentGrammar, LatentTree, TreePosterior

if TYPE_CHECKING:
    from nltk import Tree


@dataclass(frozen=True)
class Answer:
    """What a model says to one source."""

    text: str
    log_prob: float
    """Of the answer, for a tree decoder together with its tree or over all its trees; as in ``Decoded``."""
    tree: Tree | None
    """From a tree decoder."""


class Seq2Seq(nn.Module):
    """A model of targets given sources.

    config: the parts and their sizes; ``depth`` must be chosen
    source: the words of sources
    target: the words of targets
    """

    def __init__(self, config: ModelConfig, source: Encoder, target: Encoder) -> None:
        super().__init__()
        if config.depth is None:
            raise ModelError("depth: got None; expected a number, such as 8 for targets of up to 256 words")
        self.config, self.source, self.target = config, source, target
        self.encoder: SourceEncoder = _entry("encoder", config.encoder, ENCODERS)(config, len(source))
        self.decoder: Decoder = _entry("decoder", config.decoder, DECODERS)(config, len(target), len(source))
        for name in NOT_FOR_ALL:
            if getattr(config, name) and name not in self.decoder.takes:
                got, nothing = (str(value).lower() for value in (getattr(config, name), type(getattr(config, name))()))
                raise ModelError(f"{name}: got {got} with the decoder {config.decoder!r}; expected {nothing}")
        if self.decoder.needs_phrases and not self.encoder.reads_phrases:
            expected = f"one that reads phrases, such as 'spans', for the decoder {config.decoder!r}"
            raise ModelError(f"encoder: got {config.encoder!r}; expected {expected}")
        self._check_search()
        self.decoder.introduce(source, target)

    # --- batches ------------------------------------------------------------------------------------------------------

    def encode(self, batch: Batch) -> Encoding:
        """The sources, as the decoder sees them."""
        with fused.small(next(self.encoder.parameters())):
            return self.encoder(batch.source, batch.source_lengths)

    def score(self, batch: Batch, depth: int | None = None) -> Tensor:
        """log p(target | source), (B,); for a tree decoder the sum over all trees of the target, for LaNMT a bound."""
        return self.decoder.score(self.encode(batch), batch.target, batch.target_lengths, depth)

    def losses(self, batch: Batch) -> Tensor:
        """(B,): −log p(target | source), or what else the decoder learns by, for each word; 0 for rows that fill up."""
        objective = self.decoder.objective(self.encode(batch), batch.target, batch.target_lengths)
        return torch.where(batch.real, -objective / batch.target_lengths, 0)

    def loss(self, batch: Batch) -> Tensor:
        """What training makes small: the mean of ``losses`` over the pairs."""
        return self.losses(batch).sum() / batch.real.sum()

    @torch.no_grad()
    def decode(self, batch: Batch, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The best answer to each source by ``config.search``, (B, …); from the decoder ``ctree``, ``tree`` is exact.

        max_length: of words in an answer
        depth: of the tree, which may be another than in training
        """
        return choosing.answers(self.decoder, self.encode(batch), 1, self.config, max_length, depth)[0]

    @torch.no_grad()
    def topk(self, batch: Batch, k: int, depth: int | None = None) -> Decoded:
        """The k best answers to each source, best first, (k, B, …)."""
        return choosing.answers(self.decoder, self.encode(batch), k, self.config, None, depth)

    @torch.no_grad()
    def examine(self, batch: Batch) -> tuple[Decoded, Tensor]:
        """Answers and ``score`` from one reading of the sources.

        What validation asks for, again and again: the answers are those that are quickly found, whatever
        ``config.search`` is.
        """
        return self.decoder.examine(self.encode(batch), batch.target, batch.target_lengths)

    def check(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Whether the best answer is just the target (False for rows that fill up); log p(target | source). (B,) each

        No answer can say a word that is not in the vocabulary, so that a target with one is never met.
        """
        answers, scores = self.examine(batch)
        return self.are_right(answers, batch), scores

    def are_right(self, answers: Decoded, batch: Batch) -> Tensor:
        """Whether each answer is just the target, (B,); see ``check``."""
        right = answers.matches(batch.target, batch.target_lengths) & batch.real
        if isinstance(self.target, Vocabulary) and self.target.unknown is not None:
            unknown = self.target.encode(self.target.unknown)[0]
            right &= ~((batch.target == unknown) & batch.target_mask).any(1)
        return right

    def distribution(self, batch: Batch, depth: int | None = None) -> LatentTree | LatentGrammar:
        """The distribution over (target, tree) pairs for each source, of a tree decoder."""
        return self.tree_decoder.distribution(self.encode(batch), depth)

    def best(self, distribution: LatentTree | LatentGrammar) -> Decoded:
        """The answers of a tree decoder, from its distribution, (B, …), as by ``decode``."""
        if self.config.search == "tree":
            return as_answers(self.tree_decoder.best(distribution))
        return choosing.of_trees(distribution, 1, self.config)[0]

    def best_trees(self, posterior: TreePosterior | GrammarPosterior) -> Derivation:
        """The trees that a tree decoder gives of targets, from their posterior, (B, …)."""
        return self.tree_decoder.best_trees(posterior)

    # --- text ---------------------------------------------------------------------------------------------------------

    def batch(self, sources: Sequence[str], targets: Sequence[str] | None = None) -> Batch:
        """Texts as a batch, on the model's device; without targets, they are a word that means nothing."""
        several(sources, "sources")
        if not len(sources):
            raise ModelError("sources: got none; expected at least one text")
        if targets is not None and len(several(targets, "targets")) != len(sources):
            raise ModelError(f"targets: got {len(targets)}; expected {len(sources)}, one for each source")
        rows = np.arange(len(sources))
        source = Side.encode(sources, self.source, "source").padded(rows, None)
        if targets is None:
            target = torch.zeros(len(rows), 1, dtype=torch.long), torch.ones(len(rows), dtype=torch.long)
        else:
            target = Side.encode(targets, self.target, "target").padded(rows, None)
        return Batch(*source, *target, torch.from_numpy(rows)).to(self.device)

    def answer(self, source: str, k: int = 1, depth: int | None = None) -> list[Answer]:
        """The k best answers to a source, best first; fewer where there are not so many."""
        return self.answers([source], k, depth)[0]

    def answers(self, sources: Sequence[str], k: int = 1, depth: int | None = None) -> list[list[Answer]]:
        """The k best answers to each of several sources, at once."""
        best = self.topk(self.batch(sources), k, depth)
        found = ([self.spelled(best, (rank, n)) for rank in range(k)] for n in range(len(sources)))
        return [[answer for answer in some if answer is not None] for some in found]

    def parse(self, source: str, target: str, depth: int | None = None) -> TreePosterior | GrammarPosterior:
        """The trees of a target given its source."""
        batch = self.batch([source], [target])
        return self.distribution(batch, depth).posterior(batch.target, batch.target_lengths)

    def spelled(self, decoded: Decoded, place: int | tuple[int, ...]) -> Answer | None:
        """One of many answers, as text; None where there is none."""
        log_prob, length = decoded.log_prob[place].item(), int(decoded.lengths[place])
        if length == 0:
            return None
        tree = None
        if decoded.derivation is not None:
            (tree,) = decoded.derivation[place].trees(self.target.__getitem__)
        return Answer(self.target.decode(decoded.tokens[place][:length].tolist()), log_prob, tree)

    # --- searching ----------------------------------------------------------------------------------------------------

    def with_search(
        self,
        search: Search | None = None,
        candidates: int | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
    ) -> Seq2Seq:
        """This model, looking for its answers in another way: what is given is as in ``ModelConfig``, the rest stays.

        This one answers as before. The weights of both are the same tensors, so that there is no other copy of them.
        What neither the search nor the decoder has a use for is refused.
        """
        settings = zip(SEARCH, (search, candidates, beam, length_penalty), strict=True)
        given = {name: value for name, value in settings if value is not None}
        shared = [*self.parameters(), *self.buffers(), self.source, self.target]
        other = deepcopy(self, {id(part): part for part in shared})
        other.config = replace(self.config, **given)
        other._check_search()
        for name, value in given.items():
            if name not in choosing.settings_of(other.decoder, other.config.search):
                by = f"the decoder {other.config.decoder!r} and the search {other.config.search!r}"
                raise ModelError(f"{name}: got {value} with {by}, which have no use for it; expected none")
        other.decoder.search_by(other.config)
        return other

    def _check_search(self) -> None:
        if self.config.search not in self.decoder.searches:
            expected = (
                f"{' or '.join(map(repr, self.decoder.searches))}: the decoder {self.config.decoder!r} has its own"
            )
            raise ModelError(f"search: got {self.config.search!r}; expected {expected}")

    # --- on disk ------------------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None, token: str | None = None) -> Seq2Seq:
        """A trained model, ready to answer.

        name: a folder (a run of ``ctree train`` is one), or ``owner/name`` on the Hugging Face Hub
        revision: a branch, tag or commit on the Hub
        token: of an account, for what is private; by default the one that you are logged in with
        """
        return pretrained.load(cls, name, revision, token)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write settings, vocabularies and weights into a folder, for ``from_pretrained``."""
        pretrained.save(self, folder)

    def push_to_hub(
        self, name: str, private: bool = False, token: str | None = None, message: str = "A model by torch-ctree"
    ) -> str:
        """Put the model on the Hugging Face Hub as ``owner/name``, for ``from_pretrained`` → its address."""
        return pretrained.push(self, name, private, token, message)

    # --- about it -----------------------------------------------------------------------------------------------------

    @property
    def has_trees(self) -> bool:
        """Whether its answers have trees."""
        return isinstance(self.decoder, TreeDecoder)

    @property
    def tree_decoder(self) -> TreeDecoder:
        """The decoder, where it has trees; else that is an error."""
        if not isinstance(self.decoder, TreeDecoder):
            raise ModelError(
                f"the decoder {self.config.decoder!r} has no trees; expected a model with decoder 'ctree' or 'grammar'"
            )
        return self.decoder

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(parameter.numel() for parameter in self.parameters())


def _entry(kind: str, name: str, entries: dict[str, Any]) -> Any:
    """What is listed under a name."""
    if name not in entries:
        near = get_close_matches(name, entries, n=1)
        listed = f"expected one of {', '.join(entries)}, or your own once it is in {kind.upper()}S"
        hint = f"did you mean {near[0]!r}?" if near else listed
        raise ModelError(f"{kind}: got {name!r}; {hint}")
    return entries[name]
