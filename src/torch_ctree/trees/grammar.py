"""Sentences of a latent binary grammar whose vertices have one of Q states: exact sums, maxima, samples and posteriors.

A derivation starts at a root state. A vertex in state s is a leaf with probability sigmoid(leaf_logits[s]) and then
emits one token; or it splits, and the states of its two children are drawn independently. Depth has no bound, so this
is a probabilistic context-free grammar, and the sum over all trees and states is the inside algorithm: with β[i, j, s]
the probability that state s yields the tokens i … j − 1,

    β[i, i + 1, s] = leaf(s) · emit(s, x_i)
    β[i, j, s] = split(s) · Σ_k L[i, k, s] · R[k, j, s],  L = left · β,  R = right · β
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import logsigmoid

from torch_ctree.trees.cells import Transitions
from torch_ctree.trees.charts import best_children
from torch_ctree.trees.checks import (
    check_count,
    check_device,
    check_floats,
    check_integers,
    check_lengths,
    check_no_nan,
    check_tokens,
    first,
)
from torch_ctree.trees.derivation import Derivation
from torch_ctree.trees.grammar_posterior import GrammarPosterior
from torch_ctree.trees.growing import DEEPEST, best_child_of, best_root, grow, padded, roots
from torch_ctree.trees.topology import past_end

# --- the distribution -------------------------------------------------------------------------------------------------


class LatentGrammar(Distribution):
    """Sentences whose tokens are the leaves of a latent binary tree with a state at each vertex, of any depth.

    leaf_logits: (B, Q): the logit of the probability that a vertex in state s is a leaf. ±inf is allowed.
    left_logits, right_logits: (B, Q, Q): from a vertex's state to those of its children, normalised over the last
        dimension here; −inf where a transition is impossible. With operators, (B, Q, P + O − A).
    token_logits: (B, Q, K): of the token of a leaf, normalised over K here; −inf allowed.
    root: (B,), integers: the state that each sentence's derivation starts in; with operators, the place.
    depth: of the trees that ``argmax``, ``greedy`` and ``sample`` make, at most. ``log_prob`` and ``posterior`` know no
        bound.
    operator_logits: (B, P, O), normalised over O here. With them a state is one of P places and one of O operators:
        number place · O + operator. A child goes to another place, the first P columns of left_logits and right_logits,
        where it takes an operator by these logits; or it stays at its parent's place with one of the operators A to
        O − 1, the other columns: nobody stays with the first A, 1 at least. So does the root: it is at a place, and
        takes an operator. Sums then cost about a share 1/O of what they would.
    validate_args: whether to check values, here and in every method; by default as ``torch.distributions`` is set. On a
        GPU a check waits for the device. Shapes, dtypes and devices are always checked.

    Computes in float32, in float64 if any of the logits is; autocast does not change that.

    A state that always splits into two of a state that never does:

    >>> from torch import inf, tensor, zeros
    >>> to_second = tensor([[[-inf, 0.0], [-inf, 0.0]]])
    >>> dist = LatentGrammar(tensor([[-inf, inf]]), to_second, to_second, zeros(1, 2, 3), tensor([0]))
    >>> dist.log_prob(tensor([[0, 2]])).exp()  # of nine sentences
    tensor([0.1111])
    >>> dist.argmax().vertices
    tensor([[1, 2]])
    """

    arg_constraints = {}  # noqa: RUF012 # pyright: ignore[reportAssignmentType]  (checked below, by name)
    has_rsample = False

    leaf_logits: Tensor
    """(B, Q)"""
    left_logits: Tensor
    """(B, Q, W)"""
    right_logits: Tensor
    """(B, Q, W)"""
    token_logits: Tensor
    """(B, Q, K)"""
    root: Tensor
    """(B,)"""
    operator_logits: Tensor
    """(B, P, O)"""
    depth: int
    """Of the trees that are searched and sampled, at most."""

    def __init__(
        self,
        leaf_logits: Tensor,
        left_logits: Tensor,
        right_logits: Tensor,
        token_logits: Tensor,
        root: Tensor,
        operator_logits: Tensor | None = None,
        depth: int = 10,
        validate_args: bool | None = None,
    ):
        operator_logits = torch.zeros_like(leaf_logits)[..., None] if operator_logits is None else operator_logits
        _check_shapes(leaf_logits, left_logits, right_logits, token_logits, root, operator_logits)
        if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= DEEPEST:
            raise ValueError(f"depth: got {depth!r}; expected a whole number, 0 to {DEEPEST}")
        logits = (leaf_logits, left_logits, right_logits, token_logits, operator_logits)
        self.leaf_logits, self.left_logits, self.right_logits, self.token_logits, self.operator_logits = logits
        self.root, self.depth = root.long(), depth
        self._dtype = torch.float64 if any(x.dtype == torch.float64 for x in logits) else torch.float32
        super().__init__(leaf_logits.shape[:1], validate_args=validate_args)
        if self._validate_args:
            _check_values(leaf_logits, left_logits, right_logits, token_logits, root, operator_logits)

    def __repr__(self) -> str:
        """The sizes; the tensors themselves are long."""
        return (
            f"LatentGrammar(batch_shape={tuple(self.batch_shape)}, states={self.states}, vocabulary={self.vocabulary}, "
            f"depth={self.depth})"
        )

    @property
    def states(self) -> int:
        """Q"""
        return self.leaf_logits.shape[-1]

    @property
    def operators(self) -> int:
        """O"""
        return self.operator_logits.shape[-1]

    @property
    def vocabulary(self) -> int:
        """K"""
        return self.token_logits.shape[-1]

    def rows(self, rows: Tensor) -> LatentGrammar:
        """The distributions at some places of the batch: rows (R,) → batch shape (R,)"""
        leaf, left, right = self.leaf_logits[rows], self.left_logits[rows], self.right_logits[rows]
        token, root, operator = self.token_logits[rows], self.root[rows], self.operator_logits[rows]
        return LatentGrammar(leaf, left, right, token, root, operator, self.depth, validate_args=False)

    # --- sentences ----------------------------------------------------------------------------------------------------

    def log_prob(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """log p(x), the sum over all trees and states: tokens (B, N), lengths (B,), N by default → (B,).

        Differentiable once: ``create_graph=True`` raises a RuntimeError. −inf, with a gradient of zero, where the
        sentence is impossible. Without ``validate_args`` nothing here waits for the device.
        """
        return self.posterior(tokens, lengths).log_evidence()

    def posterior(self, tokens: Tensor, lengths: Tensor | None = None) -> GrammarPosterior:
        """The distribution of the sentences' trees: tokens (B, N), lengths (B,), N by default."""
        tokens, lengths = self._checked(tokens, lengths)
        _, log_split = self._log_leaf_and_split()
        leaves = self._leaves(tokens, lengths).contiguous()
        return GrammarPosterior(leaves, log_split, *self._logits(), self.root, tokens, lengths)

    # --- search and sampling ------------------------------------------------------------------------------------------

    def argmax(self, max_length: int | None = None) -> Derivation:
        """The most probable derivation – sentence, tree and states – within the depth, of max_length tokens at most.

        Where even the best has probability zero, its length is 0 and its ``log_prob`` −inf.
        """
        if max_length is not None:
            check_count("max_length", max_length)
        with torch.no_grad():
            best = self._best()
            if max_length is None or bool((best.lengths <= max_length).all()):
                return best
            return self._best_within(max_length)

    def greedy(self) -> Derivation:
        """From the root down, each vertex does what is most probable: leaf or split, each child's state, the token.

        At the maximal depth every vertex is a leaf. Where many states do the same work, each single derivation is
        improbable, and this is often a better answer than ``argmax``. ``log_prob`` is that of the derivation.
        """
        with torch.no_grad():
            columns = torch.stack([self.left_logits.argmax(-1), self.right_logits.argmax(-1)], dim=-1)  # (B, Q, 2)
            split, operators, tokens = (
                self.leaf_logits < 0,
                self.operator_logits.argmax(-1),
                self.token_logits.argmax(-1),
            )

            def take(sentence: Tensor, place: Tensor) -> Tensor:
                return operators[sentence, place]

            def choose(rows: Tensor) -> tuple[Tensor, Tensor]:
                at = rows[:, 0], rows[:, 2]
                sentence, state = (x[split[at], None] for x in at)
                return split[at], self._children(sentence, state, columns[at][split[at]], take)[..., None]

            return self._grown((), take, choose, lambda sentence, state: tokens[sentence, state])

    def sample(
        self, sample_shape: torch.Size | tuple[int, ...] | int = (), generator: torch.Generator | None = None
    ) -> Derivation:
        """Derivations (*sample, B, …), drawn from the root down. At the maximal depth every vertex is a leaf.

        ``log_prob`` is that of the derivation in the grammar, which has no such bound.

        generator: in place of torch's own; one on the CPU draws the same on every device
        """
        shape = (sample_shape,) if isinstance(sample_shape, int) else tuple(sample_shape)
        with torch.no_grad():
            leaf, sides = self._wide(self.leaf_logits).sigmoid(), self._transitions()

            def take(sentence: Tensor, place: Tensor) -> Tensor:
                drawn = _draw(sides[0].choice[sentence, place].flatten(0, -2), generator)
                return drawn.view_as(place)

            def choose(rows: Tensor) -> tuple[Tensor, Tensor]:
                sentence, state = rows[:, 0] % len(self.root), rows[:, 2]
                split = _numbers(leaf[sentence, state], generator) >= leaf[sentence, state]
                sentence, state = sentence[split], state[split]
                columns = torch.stack([_draw(side.values[sentence, state], generator) for side in sides], dim=-1)
                return split, self._children(sentence[:, None], state[:, None], columns, take)[..., None]

            def emit(sentence: Tensor, state: Tensor) -> Tensor:
                return _draw(self._wide(self.token_logits[sentence, state]).softmax(-1), generator)

            return self._grown(shape, take, choose, emit)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _wide(self, tensor: Tensor) -> Tensor:
        return tensor.to(self._dtype)

    def _logits(self) -> tuple[Transitions, Transitions]:
        """Of left and right children's states."""
        left, right, choice = (self._wide(x) for x in (self.left_logits, self.right_logits, self.operator_logits))
        return Transitions(left, choice), Transitions(right, choice)

    def _transitions(self) -> tuple[Transitions, Transitions]:
        """Probabilities."""
        left, right = self._logits()
        return left.softmax(), right.softmax()

    def _log_transitions(self) -> tuple[Transitions, Transitions]:
        left, right = self._logits()
        return left.log_softmax(), right.log_softmax()

    def _children(self, sentence: Tensor, state: Tensor, column: Tensor, take: Callable[..., Tensor]) -> Tensor:
        """Children's states from columns, (S, 2), of parents' sentences and states, (S, 1); take: see ``_grown``"""
        places, operators = self.operator_logits.shape[1:]
        arriving = places + operators - self.left_logits.shape[-1]
        goes = column < places
        place = torch.where(goes, column, state // operators)
        operator = torch.where(goes, take(sentence.expand_as(place), place), column - places + arriving)
        return place * operators + operator

    def _log_leaf_and_split(self) -> tuple[Tensor, Tensor]:
        """(B, Q) each."""
        logits = self._wide(self.leaf_logits)
        return logsigmoid(logits), logsigmoid(-logits)

    def _leaves(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """log leaf(s) + log emit(s, x_i): (B, N, Q)."""
        tokens = tokens.masked_fill(past_end(lengths, tokens.shape[-1]), 0)
        logits = self._wide(self.token_logits)
        chosen = logits.gather(2, tokens[:, None].expand(-1, self.states, -1))  # (B, Q, N)
        # Not log_softmax: that would keep K numbers a state where N are wanted.
        return (chosen - (logits.logsumexp(-1) - self._log_leaf_and_split()[0])[..., None]).mT

    def _best_leaves(self) -> tuple[Tensor, Tensor]:
        """Of each state the best token's log leaf(s) + log emit(s, x), and that token: (B, Q) each."""
        logits = self._wide(self.token_logits)
        score, token = logits.max(-1)
        return score - logits.logsumexp(-1) + self._log_leaf_and_split()[0], token

    def _best(self) -> Derivation:
        """By value iteration: the best of depth d + 1 from the best of depth d."""
        sides, (_, log_split) = self._log_transitions(), self._log_leaf_and_split()
        value, tokens = self._best_leaves()
        needed = torch.zeros_like(tokens)  # the least depth at which a state reaches its value
        tables, pointers = [needed], []
        for d in range(1, self.depth + 1):
            (lefts, left), (rights, right) = (side.best_child(value[:, None]) for side in sides)
            split = log_split + lefts[:, 0] + rights[:, 0]
            if not bool((split > value).any()):
                break
            needed = torch.where(split > value, d, needed)
            value = torch.maximum(split, value)
            tables.append(needed)
            pointers.append(torch.cat([left, right], dim=1).mT)
        scores, state = (x[:, 0] for x in best_root(self.root, sides[0].choice, value[:, None]))
        depths = torch.stack(tables)  # (D + 1, B, Q)
        children = torch.stack(pointers) if pointers else tokens.new_empty(0, *tokens.shape, 2)  # (D, B, Q, 2)

        def choose(rows: Tensor) -> tuple[Tensor, Tensor]:
            split = rows[:, 3] > 0
            sentence, _, state, depth = rows[split].unbind(-1)
            below = children[depth - 1, sentence, state]  # (S, 2)
            return split, torch.stack([below, depths[depth[:, None] - 1, sentence[:, None], below]], dim=-1)

        depth = needed.gather(1, state[:, None])[:, 0]
        form = grow(roots(state, depth, possible=scores > -math.inf), self.depth, choose)
        return self._with_best_tokens(form, tokens, scores)

    def _best_within(self, max_length: int) -> Derivation:
        """The same with a value for each depth, number of tokens and state."""
        (log_left, log_right), (_, log_split) = self._log_transitions(), self._log_leaf_and_split()
        leaves, tokens = self._best_leaves()
        B, Q = leaves.shape
        value = leaves.new_full((B, max_length, Q), -math.inf)  # [number of tokens − 1]
        value[:, 0] = leaves
        values, lefts, rights = [value], [], []
        for _ in range(self.depth):
            left, right = (best_children(side, value[:, :-1]) for side in (log_left, log_right))
            longer = [log_split + (left[:, :n] + right[:, :n].flip(1)).amax(1) for n in range(1, max_length)]
            better = torch.stack([leaves, *longer], dim=1)
            if torch.equal(better, value):
                break
            value = better
            values.append(value)
            lefts.append(left)
            rights.append(right)
        at_root, states = best_root(self.root, log_left.choice, value)  # (B, max_length) each
        scores, size = at_root.max(-1)
        trace = _LengthTrace(log_left, log_right, values, lefts, rights)
        state, depth = states.gather(1, size[:, None])[:, 0], torch.full_like(size, len(values) - 1)
        form = grow(roots(state, size + 1, depth, possible=scores > -math.inf), self.depth, trace)
        return self._with_best_tokens(form, tokens, scores)

    def _with_best_tokens(self, form: Tensor, tokens: Tensor, scores: Tensor) -> Derivation:
        """Leaves, each state's token (B, Q), scores (B,)."""
        vertices, states, lengths = padded(form, len(scores))
        return Derivation(tokens.gather(1, states).masked_fill(vertices < 0, 0), lengths, vertices, scores)

    def _grown(
        self,
        sample_shape: tuple[int, ...],
        take: Callable[[Tensor, Tensor], Tensor],
        choose: Callable[[Tensor], tuple[Tensor, Tensor]],
        emit: Callable[[Tensor, Tensor], Tensor],
    ) -> Derivation:
        """Derivations from the root down, and their log-probabilities on the way.

        take: sentences and places → operators; emit: sentences and states → tokens; all of one shape
        """
        B, samples = len(self.root), math.prod(sample_shape)
        (log_leaf, log_split), logits = self._log_leaf_and_split(), self._wide(self.token_logits)
        log_sides = self._log_transitions()
        scores = log_leaf.new_zeros(samples * B)

        def choose_and_score(rows: Tensor) -> tuple[Tensor, Tensor]:
            split, children = choose(rows)
            at = rows[split, 0] % B, rows[split, 2]
            score = log_split[at] + sum(log_sides[i].of(*at, children[:, i, 0]) for i in range(2))
            scores.index_add_(0, rows[split, 0], score)
            return split, children

        root = self.root.repeat(samples)
        sentence = torch.arange(samples * B, device=root.device)
        operator = take(sentence % B, root)
        scores += log_sides[0].choice[sentence % B, root, operator]
        state = root * self.operators + operator
        form = grow(torch.stack([sentence, torch.zeros_like(root), state], dim=-1), self.depth, choose_and_score)
        at = form[:, 0] % B, form[:, 2]
        token = emit(*at)
        scores.index_add_(0, form[:, 0], log_leaf[at] + logits[(*at, token)] - logits.logsumexp(-1)[at])
        vertices, _, lengths = padded(form, samples * B)
        tokens = torch.zeros_like(vertices)
        tokens[vertices >= 0] = token  # both from left to right, sentence by sentence
        shape = (*sample_shape, B)
        N = vertices.shape[-1]
        return Derivation(
            tokens.reshape(*shape, N), lengths.reshape(shape), vertices.reshape(*shape, N), scores.reshape(shape)
        )

    def _checked(self, tokens: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Sentences (B, N) and lengths (B,), int64."""
        device = self.leaf_logits.device
        check_integers("tokens", tokens, device)
        if tokens.dim() != 2 or tokens.shape[0] != len(self.root) or tokens.shape[1] == 0:
            raise ValueError(
                f"tokens: got shape {tuple(tokens.shape)}; expected ({len(self.root)}, tokens) with at least one token"
            )
        if lengths is None:
            lengths = torch.full(tokens.shape[:1], tokens.shape[1], device=device)
        lengths = check_lengths(lengths, tokens.shape[:1], tokens.shape[1], device, values=self._validate_args)
        if self._validate_args:
            check_tokens(tokens, lengths, self.vocabulary)
        return tokens.long(), lengths


class _LengthTrace(NamedTuple):
    """How the best derivations of so many tokens go on: rows (sentence, vertex, state, tokens, depth)."""

    log_left: Transitions
    log_right: Transitions
    values: list[Tensor]  # of each depth, (B, max_length, Q)
    lefts: list[Tensor]  # of each depth, (B, max_length − 1, Q): of the best child in its place
    rights: list[Tensor]

    def __call__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        split = rows[:, 3] > 1
        sentence, _, state, size, depth = rows[split].unbind(-1)
        if len(sentence) == 0:
            return split, rows.new_empty(0, 2, 3)
        below = depth - 1  # the same in all rows: they are of one level
        d = int(below[0])
        left, right = self.lefts[d], self.rights[d]
        part = torch.arange(1, left.shape[1] + 1, device=rows.device)  # tokens of the left child
        rest = size[:, None] - part
        scores = left[sentence, :, state] + right[sentence[:, None], rest.clamp_min(1) - 1, state[:, None]]
        of_left = scores.masked_fill(rest < 1, -math.inf).argmax(-1) + 1
        sizes = torch.stack([of_left, size - of_left], dim=-1)  # (S, 2)
        states = [
            best_child_of(side, sentence, state, self.values[d][sentence, sizes[:, i] - 1])
            for i, side in enumerate((self.log_left, self.log_right))
        ]
        return split, torch.stack([torch.stack(states, dim=-1), sizes, below[:, None].expand(-1, 2)], dim=-1)


def _draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """(F, Q) → (F,): by one number each, so that what has no probability, such as what pads, changes nothing."""
    below = probabilities.cumsum(-1)
    whole = below[:, -1:]
    number = _numbers(whole, generator) * whole
    return torch.searchsorted(below, number.minimum(whole.nextafter(torch.zeros_like(whole))), right=True)[:, 0]


def _numbers(like: Tensor, generator: torch.Generator | None) -> Tensor:
    """As many random numbers in [0, 1)."""
    where = like.device if generator is None else generator.device
    return torch.rand(like.shape, generator=generator, dtype=like.dtype, device=where).to(like.device)


def _check_shapes(leaf: Tensor, left: Tensor, right: Tensor, token: Tensor, root: Tensor, choice: Tensor) -> None:
    check_floats("leaf_logits", leaf)
    if leaf.dim() != 2 or leaf.shape[1] == 0:
        raise ValueError(f"leaf_logits: got shape {tuple(leaf.shape)}; expected (sentences, states)")
    B, Q = leaf.shape
    check_floats("operator_logits", choice)
    check_device("operator_logits", choice, leaf.device)
    if choice.dim() != 3 or choice.shape[0] != B or choice.shape[1] * choice.shape[2] != Q:
        raise ValueError(
            f"operator_logits: got shape {tuple(choice.shape)}; expected ({B}, places, operators), together {Q} states"
        )
    fewest, most = choice.shape[1], choice.shape[1] + choice.shape[2] - 1  # nobody stays, or with all but one operator
    columns = min(max(fewest, left.shape[-1] if left.dim() else 0), most)
    for name, value in (("left_logits", left), ("right_logits", right), ("token_logits", token)):
        check_floats(name, value)
        check_device(name, value, leaf.device)
    for name, value in (("left_logits", left), ("right_logits", right)):
        if value.shape != (B, Q, columns):
            raise ValueError(f"{name}: got shape {tuple(value.shape)}; expected {(B, Q, columns)}")
    if token.dim() != 3 or token.shape[:2] != (B, Q) or token.shape[2] == 0:
        raise ValueError(f"token_logits: got shape {tuple(token.shape)}; expected ({B}, {Q}, vocabulary)")
    check_integers("root", root, leaf.device)
    if root.shape != (B,):
        raise ValueError(f"root: got shape {tuple(root.shape)}; expected {(B,)}, one state a sentence")


def _check_values(leaf: Tensor, left: Tensor, right: Tensor, token: Tensor, root: Tensor, choice: Tensor) -> None:
    check_no_nan("leaf_logits", leaf)
    named = (("left_logits", left), ("right_logits", right), ("token_logits", token), ("operator_logits", choice))
    for name, value in named:
        check_no_nan(name, value)
        bad = ~value.amax(-1).isfinite()
        if bool(bad.any()):
            raise ValueError(f"{name}: got no finite largest logit in row {bad.nonzero()[0].tolist()}; expected one")
    places, operators = choice.shape[1:]
    if operators > 1:
        own = torch.arange(places, device=leaf.device).repeat_interleave(operators)[:, None]
        for name, value in named[:2]:
            bad = value.gather(2, own.expand(len(value), -1, -1))[..., 0] > -math.inf
            if bool(bad.any()):
                row = bad.nonzero()[0].tolist()
                raise ValueError(
                    f"{name}: got a finite logit for the own place of the state in row {row}; expected -inf"
                )
    bad = (root < 0) | (root >= places)
    if bool(bad.any()):
        where, state = first(root, bad)
        raise ValueError(f"root: got {state} at {where}; expected 0 to {places - 1}, a place")
