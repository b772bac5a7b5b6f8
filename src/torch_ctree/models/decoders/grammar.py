"""A grammar whose states are phrases of the source: what is made of a phrase is the same wherever it stands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from torch_ctree.models.configuration import ModelConfig
from torch_ctree.models.decoders.decoder import (
    WORDS_SHOWN,
    Decoded,
    TreeDecoder,
    as_answers,
    chosen_depth,
    likely,
    stacked,
)
from torch_ctree.models.dropout import Dropout
from torch_ctree.models.encoders import Encoding
from torch_ctree.models.errors import ModelError
from torch_ctree.models.lexicon import Lexicon
from torch_ctree.trees import Derivation, GrammarPosterior, LatentGrammar
from torch_ctree.trees.vertex import Vertex

RELATIONS = 6
CERTAIN = 1e-6
"""No leaf is more certain than by this."""
SAMPLES = 64
"""Drawn for each sentence, where more than one answer is asked for."""
IN_DOUBT = 16
"""Drawn where the only answer may not be the best: one with a third of all probability is missed once in 650 times."""
LONGEST = 64
"""Of words in answers that are weighed against one another: what a sum costs grows with the third power."""


class Phrases(NamedTuple):
    """The P = S(S + 1)/2 phrases of a source of S words: sorted by their last word, then by their first."""

    first: Tensor  # (P,)
    last: Tensor  # (P,)
    inside: Tensor  # (P, P): whether the second is a part of the first, or all of it
    same: Tensor  # (P, P)
    relations: Tensor  # (R, P, P), bool: how a child lies in its parent
    around: Tensor  # (2, 2k(S + 1), P · S), bool: what stands before and after the ends of a child, see ``_seen``
    bounds: Tensor  # (2S, P), bool: what a parent's first word is, and its last

    @classmethod
    def of(cls, words: int, window: int, device: torch.device) -> Phrases:
        """Those of a source of so many words."""
        last, first = torch.tril_indices(words, words, device=device)
        starts, ends = first - first[:, None], last - last[:, None]  # of the child, counted from the parent's
        same = (starts == 0) & (ends == 0)
        alone = (first == last).expand_as(same)
        relations = torch.stack([starts == 0, starts == 1, ends == 0, ends == -1, same, alone])
        places = torch.arange(words, device=device)[:, None]
        bounds = torch.cat([first == places, last == places])
        around = _seen(torch.stack([first, last + 1]), words, window)
        return cls(first, last, (starts >= 0) & (ends <= 0), same, relations, around, bounds)


def _seen(gaps: Tensor, words: int, window: int) -> Tensor:
    """gaps (2, P): before which word a phrase begins, and before which one it has ended → (2, 2k(S + 1), P · S), bool

    Which word, 0 … S − 1, stands on each of k places before both gaps, for every first word that the parent may have,
    and on each of k places after them, for every last word. What is not the parent's is S, the edge.
    """
    places, near = torch.arange(words, device=gaps.device)[:, None], torch.arange(window, device=gaps.device)
    before, after = (gaps[..., None, None] + near - shift for shift in (window, 0))  # (2, P, 1, k)
    inside = [torch.where(before >= places, before, words), torch.where(after <= places, after, words)]
    seen = torch.stack(inside)[..., None] == torch.arange(words + 1, device=gaps.device)  # (2, 2, P, S, k, S + 1)
    return seen.permute(0, 1, 4, 5, 2, 3).flatten(1, 3).flatten(2)


class Read(NamedTuple):
    """A source, as a grammar's operators see it."""

    phrases: Phrases
    operators: Tensor  # (B, O, 2H)
    meaning: Tensor  # (B, S, K): what each word has to say
    sides: tuple[tuple[Tensor, Tensor], ...]  # of both children: their phrases (B, P, O, P), or how they stay (B, O, K)
    words: Tensor  # (B, P, O, P): what leaves say


class Grammar(TreeDecoder):
    """p(target | source) as a ``LatentGrammar``: its places are the phrases of the source.

    A vertex has a phrase and one of a few operators, and nothing else: all below it depends on those two alone. The
    root has the whole source. A child has a part of its parent's phrase, and an operator that is chosen by reading that
    part, as if it were the whole source: what is made of a phrase is the same wherever it stands. Or it has the same
    phrase again, ``config.stays`` times in a row at most, with an operator that its parent chooses, one of the first
    ``config.stay_operators``. Of its phrase an operator knows only the words near the ends of parts: so what it does,
    such as "what stands before *twice*, and the same again", it can do to a phrase that is new to it.

    Children are found by ``config.window`` words on each side of where a phrase begins and of where it ends, as far as
    they are in its parent's, and by how it lies in that. In the same way a leaf finds the word of its phrase that it
    says, in the target's language, by a lexicon; the less that word has to say, the less probable is a leaf.

    In training words are hidden: the share ``config.word_noise`` where an operator is chosen, and
    ``config.attention_dropout`` where phrases are found. How much a word has to say is never hidden, and a word alone
    is enough to learn it: so one that has only been seen alone is known for what it is among others. And phrases of
    several words may be out of reach, the share ``config.phrase_dropout``, so that other ways are learned than the one
    that was found first.
    """

    needs_phrases = True
    searches = ("tree",)  # it weighs sentences over all their trees anyway, in a way of its own: see ``best``

    def __init__(self, config: ModelConfig, words: int, source_words: int) -> None:
        super().__init__()
        width, self.operators, self.window = config.width, config.operators, config.window
        self.levels, self.staying = config.stays + 1, config.stay_operators or config.operators
        self.states = self.operators + config.stays * self.staying  # of a phrase
        self.depth, self.blindness, self.scarcity = config.depth, config.attention_dropout, config.phrase_dropout
        self.choose = nn.Linear(width, self.operators)
        self.operator = nn.Parameter(torch.randn(self.operators, 2 * width))
        self.leaf = nn.Linear(2 * width, 1)
        self.query = nn.Linear(2 * width, 3 * width)  # for the left child, the right one, and the word of a leaf
        self.relation = nn.Linear(2 * width, 3 * RELATIONS)
        self.next_operator = nn.Linear(2 * width, 2 * self.staying)
        # What it is worth that words have to say something, where operators are chosen and where phrases are found.
        self.says_chosen = nn.Parameter(torch.zeros(3, self.operators))
        self.says_found = nn.Parameter(torch.zeros(width))
        self.edge = nn.Parameter(torch.randn(width))  # stands before the first word, and after the last
        self.begin, self.end = (nn.Linear(2 * self.window * width, 3 * width, bias=False) for _ in range(2))
        self.lexicon = Lexicon(width, words, source_words)
        self.dropout = Dropout(config.dropout)

    def distribution(self, encoding: Encoding, depth: int | None = None) -> LatentGrammar:
        """The distribution over (target, tree) pairs, (B,): of a phrase, Z states on L levels

        The level counts how often in a row the phrase has stayed the same. On the first there are O states, one for
        each operator, on the others the first ``config.stay_operators``.
        """
        phrases, operators, meaning, sides, words = self._read(encoding)
        left, right = (self._transitions(*side, phrases) for side in sides)
        said = self._found(words, phrases, encoding.mask) @ meaning[:, None]  # (B, P, O, K)
        said = said.clamp_min(torch.finfo(said.dtype).tiny)
        tokens = self._on_levels(self.levels * [said.log()])
        leaf = self._leaf_logits(operators, phrases, said.sum(-1))
        choice = self._choice_logits(encoding.internal, meaning.sum(-1), phrases)
        lengths = encoding.mask.sum(1)
        root = lengths * (lengths - 1) // 2
        depth = chosen_depth(depth, self.depth)
        return LatentGrammar(leaf, left, right, tokens, root, choice, depth, validate_args=False)

    def _read(self, encoding: Encoding) -> Read:
        """What operators find in the source."""
        if encoding.internal.shape[1] != encoding.internal.shape[2]:
            raise ModelError("encoder: got one without phrases; expected 'spans' with the decoder 'grammar'")
        phrases = Phrases.of(encoding.mask.shape[1], self.window, encoding.mask.device)
        lengths = encoding.mask.sum(1)
        operators = self.dropout(self.operator.expand(len(lengths), -1, -1))  # (B, O, 2H)
        meaning = self.lexicon(encoding.tokens)
        *sides, words = self._scores(operators, phrases, encoding, meaning.sum(-1), lengths)
        stays = self._next_operator(operators)
        return Read(phrases, operators, meaning, tuple(zip(sides, stays, strict=True)), words)

    def _choice_logits(self, internal: Tensor, says: Tensor, phrases: Phrases) -> Tensor:
        """internal (B, S, S, H), says (B, S) → (B, P, Z): of a phrase, which operator, on the first level"""
        place = phrases.last * internal.shape[1] + phrases.first
        logits = self.choose(internal.flatten(1, 2).index_select(1, place))  # (B, P, O)
        before = nn.functional.pad(says.cumsum(1), (1, 0))
        parts = before[:, phrases.last + 1] - before[:, phrases.first], says[:, phrases.first], says[:, phrases.last]
        logits = logits + torch.stack(parts, -1) @ self.says_chosen
        return nn.functional.pad(logits, (0, self.states - self.operators), value=-math.inf)

    def _found(self, scores: Tensor, phrases: Phrases, mask: Tensor) -> Tensor:
        """scores of what leaves say, (B, P, O, P) → (B, P, O, S): how often each word is found"""
        words = torch.arange(mask.shape[1], device=scores.device)
        found = scores.index_select(-1, words * (words + 3) // 2).clamp_min(torch.finfo(scores.dtype).min)
        return found.masked_fill(~_covered(phrases, mask)[:, :, None], -math.inf).softmax(-1)

    def _leaf_logits(self, operators: Tensor, phrases: Phrases, said: Tensor) -> Tensor:
        """(B, O, 2H), how much is said (B, P, O) → (B, P · Z)

        One word that has stayed as often as it may has nothing to become.
        """
        log_leaf = logsigmoid(self.leaf(operators))[:, None, :, 0] + said.log()  # (B, P, O)
        logits = log_leaf - torch.log(-torch.expm1(log_leaf.clamp_max(-CERTAIN)))
        last = logits.masked_fill((phrases.first == phrases.last)[:, None], math.inf)
        return self._on_levels([*(self.levels - 1) * [logits], last])

    def _on_levels(self, levels: list[Tensor]) -> Tensor:
        """Of each level (B, P, O, …) → (B, P · Z, …), without the operators that nobody stays with."""
        first, *others = levels
        return torch.cat([first, *(level[:, :, : self.staying] for level in others)], 2).flatten(1, 2)

    def _transitions(self, scores: Tensor, operators: Tensor, phrases: Phrases) -> Tensor:
        """scores of children's phrases, (B, P, O, P), and of operators where it is the same one, (B, O, K) → logits

        (B, P · Z, P + Z − O), as ``LatentGrammar`` has them
        """
        stays = scores.diagonal(dim1=1, dim2=3).mT[..., None] + operators[:, None]  # (B, P, O, K)
        parts = scores.masked_fill(phrases.same[:, None], -math.inf)
        levels = []
        for level in range(self.levels):
            last = level == self.levels - 1
            if last:  # only what has no parts may stay, and as that is a leaf, it never does
                stays = stays.masked_fill((parts > -math.inf).any(-1, keepdim=True), -math.inf)
            before = min(level, self.levels - 2) * self.staying
            room = before, (self.levels - 2) * self.staying - before
            levels.append(torch.cat([parts, nn.functional.pad(stays, room, value=-math.inf)], -1))
        return self._on_levels(levels)

    def _scores(
        self, operators: Tensor, phrases: Phrases, encoding: Encoding, says: Tensor, lengths: Tensor
    ) -> tuple[Tensor, ...]:
        """(B, P, O, P) each: logits of the phrases of both children, and of what a leaf says"""
        query, relation = (
            layer(operators).unflatten(-1, (3, -1)).transpose(1, 2) for layer in (self.query, self.relation)
        )  # (B, 3, O, H), (B, 3, O, R)
        found = self._matches(query, encoding.embeddings, says, phrases) / math.sqrt(query.shape[-1])
        lies = torch.einsum("bcor,rpq->bcpoq", relation, phrases.relations.to(relation.dtype))
        real = phrases.last < lengths[:, None]  # (B, P)
        if self.training and self.scarcity:
            there = torch.rand(real.shape, device=real.device) >= self.scarcity
            real = real & (there | (phrases.first == phrases.last))
        part = phrases.inside & real[:, None] | phrases.same  # (B, P, P); what is no phrase becomes itself
        return (found + lies).masked_fill(~part[:, None, :, None], -math.inf).unbind(1)

    def _matches(self, query: Tensor, embeddings: Tensor, says: Tensor, phrases: Phrases) -> Tensor:
        """query (B, 3, O, H), embeddings (B, S, H), says (B, S) → (B, 3, P, O, P): query · key, of parts of a phrase

        The key of a part is a sum over its two ends e, both sides s of each, k places there, and the word t on each of
        them, as a vector for the place. What is not in the phrase cannot be seen from it: the edge stands there.
        """
        words = self._shown(embeddings) + says[..., None] * self.says_found
        words = torch.cat([words, self.edge.expand(len(words), 1, -1)], 1)  # (B, S + 1, H)
        weight = torch.stack([self.begin.weight, self.end.weight]).unflatten(2, (2, self.window, -1))
        keys = torch.einsum("bti,echski->bcsekth", words, weight.unflatten(1, (3, -1)))
        worth = torch.einsum("bcoh,bcsekth->bcsoekt", query, keys).flatten(4)  # (B, 3, 2, O, 2k(S + 1))
        before_and_after = worth @ phrases.around.to(worth.dtype)  # (B, 3, 2, O, P · S)
        sides = before_and_after.unflatten(4, (len(phrases.first), -1)).movedim(2, 4).flatten(4)  # (B, 3, O, P, 2S)
        return (sides @ phrases.bounds.to(sides.dtype)).permute(0, 1, 4, 2, 3)

    def _next_operator(self, operators: Tensor) -> tuple[Tensor, ...]:
        """(B, O, K) each: log-probabilities of both children's operators where they have the same phrase"""
        return self.next_operator(operators).unflatten(-1, (2, -1)).log_softmax(-1).unbind(2)

    def _shown(self, words: Tensor) -> Tensor:
        """(B, S, H), in training some of the words hidden, so that phrases are found beside others that are new."""
        if self.training and self.blindness:
            words = words * (torch.rand(words.shape[:2], device=words.device) >= self.blindness)[..., None]
        return self.dropout(words)

    def best(self, distribution: LatentGrammar) -> Derivation:
        """What every vertex would most probably do, or another sentence that has more trees.

        A sentence with more than half of all probability is the most probable one. Where what the vertices would do
        does not make one, it is weighed against samples, each sentence by the sum over its trees.
        """
        with torch.no_grad():
            found = distribution.greedy()
            doubtful = _is_doubtful(distribution, found)
            rows = doubtful.nonzero()[:, 0]
            if not len(rows):
                return found
            weighed = _most_probable(distribution.rows(rows), 1, LONGEST, IN_DOUBT)[0][0]
            return _where(doubtful, weighed[(doubtful.cumsum(0) - 1).clamp_min(0)], found)

    def best_trees(self, posterior: GrammarPosterior) -> Derivation:
        """Those that share most with all others: many states do the same work."""
        return posterior.consensus()

    @torch.no_grad()
    def describe(
        self, encoding: Encoding, trees: Derivation, spell: Callable[[int], str], depth: int | None = None
    ) -> list[dict[int, Vertex]]:
        """As a mean over the states that a vertex may have, given its tree and what that says."""
        dist, read = self.distribution(encoding, depth), self._read(encoding)
        words = dist.token_logits[0].softmax(-1)  # (Q, K)
        found = self._on_levels(self.levels * [self._found(read.words, read.phrases, encoding.mask)])[0]  # (Q, S)
        split = torch.sigmoid(-dist.leaf_logits[0])
        posterior = dist.rows(torch.zeros_like(trees.lengths)).posterior(trees.tokens, trees.lengths)
        described = []
        for k, (numbers, states) in enumerate(zip(*posterior.vertex_states(trees.vertices), strict=True)):
            there = numbers >= 0
            said = dict(zip(trees.vertices[k].tolist(), trees.tokens[k].tolist(), strict=True))
            means = Means(states[there] @ split, states[there] @ words, states[there] @ found)
            doing = self._doing(states[there], read.phrases)
            described.append(_described(numbers[there].tolist(), means, doing, said, spell))
        return described

    def _doing(self, states: Tensor, phrases: Phrases) -> list[tuple[tuple[int, int], int]]:
        """p(state) of vertices, (M, Q) → the most probable phrase of each, and the most probable operator"""
        by_phrase = states.unflatten(-1, (-1, self.states))  # (M, P, Z)
        phrase = by_phrase.sum(-1).argmax(-1)
        levels = by_phrase.sum(1).split([self.operators] + (self.levels - 1) * [self.staying], -1)
        operator = sum(nn.functional.pad(level, (0, self.operators - level.shape[-1])) for level in levels)
        assert isinstance(operator, Tensor)
        ends = zip(phrases.first[phrase].tolist(), (phrases.last[phrase] + 1).tolist(), strict=True)
        return list(zip(ends, operator.argmax(-1).tolist(), strict=True))

    @torch.no_grad()
    def topk(self, encoding: Encoding, k: int, max_length: int | None = None, depth: int | None = None) -> Decoded:
        """The k best answers, (k, B, …): of more than one, the most probable of many samples."""
        dist = self.distribution(encoding, depth)
        if k > 1:
            found, log_prob = _most_probable(dist, k, max_length, max(SAMPLES, 4 * k))
            lengths = found.lengths.masked_fill(log_prob == -math.inf, 0)
            return as_answers(Derivation(found.tokens, lengths, found.vertices, log_prob))
        best = self.best(dist)
        if max_length is not None and bool((long := best.lengths > max_length).any()):
            best = _where(long, dist.argmax(max_length), best)
        return as_answers(stacked(best))

    @torch.no_grad()
    def examine(self, encoding: Encoding, tokens: Tensor, lengths: Tensor) -> tuple[Decoded, Tensor]:
        """The answers are not weighed: that takes long as long as a model knows nothing."""
        dist = self.distribution(encoding)
        return as_answers(dist.greedy()), dist.log_prob(tokens, lengths)


class Means(NamedTuple):
    """Of some vertices, over the states that each may have."""

    split: Tensor  # (M,)
    words: Tensor  # (M, K)
    found: Tensor  # (M, S)


def _described(
    numbers: list[int],
    means: Means,
    doing: list[tuple[tuple[int, int], int]],
    said: dict[int, int],
    spell: Callable[[int], str],
) -> dict[int, Vertex]:
    """Vertices by number. doing: their phrases and operators; said: the words of those that are leaves"""
    log_probs, tokens = means.words.log().topk(min(WORDS_SHOWN, means.words.shape[-1]))
    return {
        vertex: Vertex(
            number=vertex,
            split=means.split[m].item(),
            emission=means.words[m, said[vertex]].item() if vertex in said else None,
            words=likely(log_probs[m], tokens[m], spell),
            found=tuple(means.found[m].tolist()),
            phrase=phrase,
            operator=operator,
        )
        for m, (vertex, (phrase, operator)) in enumerate(zip(numbers, doing, strict=True))
    }


def _is_doubtful(dist: LatentGrammar, found: Derivation) -> Tensor:
    """(B,): whether another sentence may be more probable than the one that was found, and short enough to tell"""
    short = found.lengths <= LONGEST
    lengths = found.lengths.where(short, 1)
    return short & (dist.log_prob(found.tokens[:, : int(lengths.max())], lengths) <= math.log(0.5))


def _where(condition: Tensor, one: Derivation, other: Derivation) -> Derivation:
    """(B, …): row by row, one or the other"""
    both, row = _together([stacked(other), stacked(one)]), torch.arange(len(condition), device=condition.device)
    return both[condition.long(), row]


def _most_probable(dist: LatentGrammar, k: int, max_length: int | None, samples: int) -> tuple[Derivation, Tensor]:
    """Sentences by their probabilities, which are sums over trees: (k, B, …), and these, (k, B)

    −inf where there are not so many, of max_length tokens at most. Each is found as if it were alone.
    """
    rows = torch.arange(len(dist.root), device=dist.root.device)
    found, log_prob = zip(
        *(_most_probable_of(dist.rows(row), k, max_length, samples) for row in rows.split(1)), strict=True
    )
    ranks = torch.arange(k, device=rows.device)
    return _together([stacked(one) for one in found])[rows, ranks[:, None]], torch.stack(log_prob, 1)


def _most_probable_of(dist: LatentGrammar, k: int, max_length: int | None, samples: int) -> tuple[Derivation, Tensor]:
    """The same of a batch of one, (k, …): samples, each sentence once

    The same every time and on every device; and the greedy answer is among them, so that more answers never leave out
    the only one.
    """
    chance = torch.Generator().manual_seed(0)
    drawn = _together([stacked(dist.greedy()), dist.sample(samples, chance)])[:, 0]  # (D, …)
    tokens, lengths = drawn.tokens.tolist(), drawn.lengths.tolist()
    kept: dict[tuple[int, ...], int] = {}
    for n, (sentence, length) in enumerate(zip(tokens, lengths, strict=True)):
        if max_length is None or length <= max_length:
            kept.setdefault(tuple(sentence[:length]), n)
    scores = drawn.log_prob.new_full(drawn.lengths.shape, -math.inf)
    if kept:
        which = torch.tensor(list(kept.values()), device=scores.device)
        sentences = drawn.tokens[which, : max(map(len, kept))]
        scores[which] = dist.rows(torch.zeros_like(which)).log_prob(sentences, drawn.lengths[which])
    best, order = scores.topk(k)
    return drawn[order], best


def _together(some: list[Derivation]) -> Derivation:
    """Derivations (m, …), (n, …), … as (m + n + …, …), filled up to the longest."""
    N = max(one.tokens.shape[-1] for one in some)

    def joined(name: str, fill: int) -> Tensor:
        rows = (getattr(one, name) for one in some)
        return torch.cat([nn.functional.pad(row, (0, N - row.shape[-1]), value=fill) for row in rows])

    lengths, log_prob = (torch.cat([getattr(one, name) for one in some]) for name in ("lengths", "log_prob"))
    return Derivation(joined("tokens", 0), lengths, joined("vertices", -1), log_prob)


def _covered(phrases: Phrases, mask: Tensor) -> Tensor:
    """mask (B, S) → (B, P, S): the words of each phrase; of what is none, its first, which stands for nothing."""
    place = torch.arange(mask.shape[1], device=mask.device)
    words = (phrases.first[:, None] <= place) & (place <= phrases.last[:, None])
    return words & mask[:, None] | (place == phrases.first[:, None])
