"""p(x | v): what a leaf says. As a tensor of token logits, or as an output layer that never builds one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import embedding

from torch_ctree.devices import dot_precision, in_kernels
from torch_ctree.trees.checks import check_device, check_floats, check_no_nan, check_vertices
from torch_ctree.trees.kernels.torch import in_accumulation_dtype, topk

BLOCK_ELEMENTS = 1 << 22  # logits that exist at one time: 16 MiB of float32
GPU_BLOCK_ELEMENTS = 1 << 24  # 64 MiB: a matrix product large enough for a GPU
MOST_TOKENS = 256  # the largest vocabulary that a kernel keeps in registers
MULTIPLE = 128  # of rows in a block, where there are as many: whole tiles for a GPU
TF32_BITS = 13  # of a float32's, that TF32 has not


class Emission(ABC):
    """The distribution of the token at every vertex. Subclass it to plug in an output layer of your own.

    ``batch_shape``, ``vertices`` (V) and ``vocabulary`` (K) describe it; ``device`` is where its tensors are. K never
    has to meet V in one tensor: ``LatentTree`` only asks the questions below.
    """

    batch_shape: torch.Size
    vertices: int
    vocabulary: int
    device: torch.device

    @abstractmethod
    def log_prob(self, tokens: Tensor) -> Tensor:
        """tokens (*batch, N) in 0..K − 1 → log p(x_n | v), (*batch, N, V)."""

    def log_weights(self, tokens: Tensor, log_m: Tensor) -> Tensor:
        """tokens (*batch, N), log_m (*batch, V) → log m(v) + log p(x_n | v), (*batch, N, V).

        For emissions that can add it on the way; one of your own need not have it.
        """
        return log_m[..., None, :] + self.log_prob(tokens)

    @abstractmethod
    def log_prob_at(self, tokens: Tensor, vertices: Tensor) -> Tensor:
        """tokens, vertices (*sample, *batch, N), where each token is said → log p(x_n | v_n), (*sample, *batch, N)."""

    @abstractmethod
    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """→ the k best tokens of every vertex, best first: log-probabilities and tokens, (*batch, V, k) each; k ≤ K."""

    def topk_and_log_prob(self, k: int, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """``topk``, and ``log_prob`` of tokens (*batch, N), without a gradient.

        For emissions that find both in one go. One of your own need not have it.
        """
        with torch.no_grad():
            return *self.topk(k), self.log_prob(tokens)

    @abstractmethod
    def sample(self, vertices: Tensor) -> Tensor:
        """vertices (*sample, *batch, N) in 0..V − 1 → a token drawn at each, (*sample, *batch, N)."""

    @abstractmethod
    def expand(self, batch_shape: torch.Size) -> Emission:
        """The same emission with more batch dimensions."""

    @abstractmethod
    def check_values(self) -> None:
        """Raise ValueError where a parameter holds a value that gives no probability; called with validation on."""

    def __repr__(self) -> str:
        """The sizes."""
        return f"{type(self).__name__}(vertices={self.vertices}, vocabulary={self.vocabulary})"

    def _rows_of(self, vertices: Tensor) -> Tensor:
        """vertices (*sample, *batch, N) → (sample · batch · N,): their places among all (batch · V) rows."""
        first = torch.arange(self.batch_shape.numel(), device=self.device).reshape(self.batch_shape) * self.vertices
        return (first[..., None] + vertices).flatten()


class TokenLogits(Emission):
    """Token logits given outright: (*batch, V, K), normalised over K here. −inf forbids a token."""

    def __init__(self, logits: Tensor):
        check_floats("emission", logits)
        if logits.dim() < 2 or logits.shape[-1] == 0:
            raise ValueError(f"emission: got shape {tuple(logits.shape)}; expected (…, vertices, vocabulary)")
        check_vertices("emission", logits, dim=-2)
        self.logits = logits
        self.batch_shape = logits.shape[:-2]
        self.vertices, self.vocabulary = logits.shape[-2:]
        self.device = logits.device

    def check_values(self) -> None:
        """Each vertex has a finite largest logit."""
        check_no_nan("emission", self.logits)
        bad = ~self.logits.amax(-1).isfinite()
        if bool(bad.any()):
            raise ValueError(
                f"emission: got no finite largest logit at vertex {bad.nonzero()[0].tolist()}; expected one token at "
                "least that can be emitted, and no +inf"
            )

    def log_prob(self, tokens: Tensor) -> Tensor:
        """Gathers first and normalises after: the (V, K) log-softmax is never stored."""
        if self._in_one_kernel():
            return self._fused(tokens, None)
        logits = in_accumulation_dtype(self.logits)
        index = tokens[..., None, :].expand(*tokens.shape[:-1], self.vertices, -1)  # (*batch, V, N)
        return (logits.gather(-1, index) - logits.logsumexp(-1, keepdim=True)).transpose(-1, -2)

    def log_weights(self, tokens: Tensor, log_m: Tensor) -> Tensor:
        """On a GPU, in one kernel."""
        if self._in_one_kernel() and log_m.dtype == torch.float32:
            return self._fused(tokens, log_m)
        return super().log_weights(tokens, log_m)

    def _in_one_kernel(self) -> bool:
        return self.vocabulary <= MOST_TOKENS and _kernels_run(self.logits)

    def _fused(self, tokens: Tensor, log_m: Tensor | None) -> Tensor:
        from torch_ctree.trees.projection import token_log_prob  # noqa: PLC0415 # imports Triton

        V, N = self.vertices, tokens.shape[-1]
        offset = None if log_m is None else log_m.reshape(-1, V)
        result = token_log_prob(self.logits.reshape(-1, V, self.vocabulary), tokens.reshape(-1, N), offset)
        return result.reshape(*self.batch_shape, N, V)

    def log_prob_at(self, tokens: Tensor, vertices: Tensor) -> Tensor:
        """One logit each, and its row's log-normaliser."""
        logits, rows = in_accumulation_dtype(self.logits).reshape(-1, self.vocabulary), self._rows_of(vertices)
        return (logits[rows, tokens.flatten()] - logits.logsumexp(-1)[rows]).reshape(vertices.shape)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best tokens of every vertex."""
        logits = in_accumulation_dtype(self.logits)
        best, tokens = topk(logits, k)
        return best - logits.logsumexp(-1, keepdim=True), tokens

    def sample(self, vertices: Tensor) -> Tensor:
        """One draw at each given vertex."""
        rows = in_accumulation_dtype(self.logits.detach()).reshape(-1, self.vocabulary)
        wanted = self._rows_of(vertices)
        size = max(1, BLOCK_ELEMENTS // self.vocabulary)
        buffer = rows.new_empty(min(size, len(wanted)), self.vocabulary)
        blocks = (torch.index_select(rows, 0, part, out=buffer[: len(part)]) for part in _blocks(wanted, size))
        return _draw(blocks).reshape(vertices.shape)

    def expand(self, batch_shape: torch.Size) -> TokenLogits:
        """The same logits with more batch dimensions."""
        return TokenLogits(self.logits.expand(*batch_shape, -1, -1))


class LinearEmission(Emission):
    """A linear output layer, p(x | v) = softmax(weight · state_v + bias), that never holds (vertices × vocabulary).

    states: (*batch, V, H)
    weight: (K, H), as in ``torch.nn.Linear``
    bias: (K,) or None
    block_elements: the size of the logits that exist at one time; by default 2^22, on a GPU 2^24. Vertices are taken in
        blocks of block_elements / K, forward and backward, so peak memory is that of the targets, (*batch, N, V), and
        of the gradients, plus one block.
    """

    def __init__(
        self, states: Tensor, weight: Tensor, bias: Tensor | None = None, *, block_elements: int | None = None
    ):
        check_floats("states", states)
        check_floats("weight", weight)
        if states.dim() < 2:
            raise ValueError(f"states: got shape {tuple(states.shape)}; expected (…, vertices, width)")
        check_vertices("states", states, dim=-2)
        if weight.dim() != 2 or weight.shape[1] != states.shape[-1] or weight.shape[0] == 0:
            raise ValueError(f"weight: got shape {tuple(weight.shape)}; expected (vocabulary, {states.shape[-1]})")
        check_device("weight", weight, states.device)
        if bias is not None:
            check_floats("bias", bias)
            check_device("bias", bias, states.device)
            if bias.shape != weight.shape[:1]:
                raise ValueError(f"bias: got shape {tuple(bias.shape)}; expected {tuple(weight.shape[:1])}")
        # As autocast would: a float32 layer on bfloat16 states computes in bfloat16.
        self.states, self.weight = states, weight.to(states.dtype)
        self.bias = self.weight.new_zeros(len(weight)) if bias is None else bias.to(states.dtype)
        self.block_elements = block_elements or (GPU_BLOCK_ELEMENTS if states.is_cuda else BLOCK_ELEMENTS)
        self.rows_per_block = _rows_per_block(self.block_elements, weight.shape[0])
        self.batch_shape = states.shape[:-2]
        self.vertices, self.vocabulary = states.shape[-2], weight.shape[0]
        self.device = states.device

    def check_values(self) -> None:
        """No NaN in the layer or in the states."""
        check_no_nan("states", self.states)
        check_no_nan("weight", self.weight)
        check_no_nan("bias", self.bias)

    def log_prob(self, tokens: Tensor) -> Tensor:
        """The targets' logits directly, (*batch, N, H) · (*batch, H, V), minus the log-normaliser block by block."""
        V, H, N = *self.states.shape[-2:], tokens.shape[-1]
        states, sentences = self.states.reshape(-1, V, H), tokens.reshape(-1, N)
        result = _LinearLogProb.apply(states, self.weight, self.bias, sentences, self.rows_per_block)
        return cast(Tensor, result).reshape(*self.batch_shape, N, V)

    def log_prob_at(self, tokens: Tensor, vertices: Tensor) -> Tensor:
        """One state, one row of the weight, and the log-normalisers of these states, or of all where that is fewer."""
        rows, words = self._rows_of(vertices), tokens.flatten()
        states = self.states.reshape(-1, self.states.shape[-1])
        state, word = embedding(rows, states), embedding(words, self.weight)
        if _products_run(state):  # values as others take them, derivatives as if not rounded
            state, word = (x + (_as_multiplied(x) - x).detach() for x in (state, word))
        products = (state * word).sum(-1)
        logits = in_accumulation_dtype(products) + self.bias[words]
        few = len(rows) < len(states)
        normalised = state if few else states
        totals = cast(Tensor, _LogNormaliser.apply(normalised, self.weight, self.bias, self.rows_per_block))
        return (logits - (totals if few else totals[rows])).reshape(vertices.shape)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        """The k best tokens of every vertex; without a gradient."""
        return self._topk(k)[:2]

    def topk_and_log_prob(self, k: int, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both from the same log-normalisers."""
        best, found, totals = self._topk(k)
        V, H, N = self.vertices, self.states.shape[-1], tokens.shape[-1]
        states, weight = _as_multiplied(self.states.detach()), _as_multiplied(self.weight.detach())
        flat = states.reshape(-1, V, H), weight, self.bias.detach(), tokens.reshape(-1, N)
        return best, found, _log_probs(*flat, totals).reshape(*self.batch_shape, N, V)

    def _topk(self, k: int) -> tuple[Tensor, Tensor, Tensor]:
        """Also the log-normalisers, (batch, V)."""
        states = self.states.detach().reshape(-1, self.states.shape[-1])
        layer = _as_multiplied(states), _as_multiplied(self.weight.detach()), self.bias.detach()
        fused = k == 1 and _products_run(layer[0])
        best, tokens, totals = _best(*layer) if fused else _blocked_topk(*layer, self.rows_per_block, k)
        shape = (*self.batch_shape, self.vertices, k)
        return best.reshape(shape), tokens.reshape(shape), totals.reshape(-1, self.vertices)

    def sample(self, vertices: Tensor) -> Tensor:
        """One draw at each given vertex."""
        rows = self.states.detach().reshape(-1, self.states.shape[-1])
        wanted = rows[self._rows_of(vertices)]
        blocks = _logits(wanted, self.weight.detach(), self.bias.detach(), self.rows_per_block)
        return _draw(blocks).reshape(vertices.shape)

    def expand(self, batch_shape: torch.Size) -> LinearEmission:
        """The same layer with more batch dimensions."""
        states = self.states.expand(*batch_shape, -1, -1)
        return LinearEmission(states, self.weight, self.bias, block_elements=self.block_elements)


class _LogNormaliser(torch.autograd.Function):
    """log Σ_k exp(weight_k · row + bias_k) for each row, logits made and forgotten block by block, both ways."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, size: int) -> Tensor:
        rows, weight = _as_multiplied(rows), _as_multiplied(weight)
        total = _log_normalisers(rows, weight, bias, size)
        ctx.save_for_backward(rows, weight, bias, total)
        ctx.size = size
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        *layer, total = ctx.saved_tensors
        grads = [torch.zeros_like(in_accumulation_dtype(tensor)) for tensor in layer]
        _add_gradients(grads, layer, total, grad, ctx.size)
        return *_as(layer, grads), None


class _LinearLogProb(torch.autograd.Function):
    """states (B, V, H), weight (K, H), bias (K,), tokens (B, N) → log p(x_n | v), (B, N, V).

    One function, so that in the backward pass there is only one gradient of the size of the states.
    """

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, size: int) -> Tensor:
        B, V, H = states.shape
        states, weight = _as_multiplied(states), _as_multiplied(weight)
        total = _log_normalisers(states.reshape(-1, H), weight, bias, size).reshape(B, V)
        ctx.save_for_backward(states, weight, bias, tokens, total)
        ctx.size = size
        return _log_probs(states, weight, bias, tokens, total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        *layer, tokens, total = ctx.saved_tensors
        states, weight, bias = (in_accumulation_dtype(tensor) for tensor in layer)
        # Of the targets' logits:
        grad_words = torch.bmm(grad, states, out=grad.new_empty(*tokens.shape, states.shape[-1]))
        grad_weight = _at_words(grad_words, tokens, weight)
        grad_bias = _at_words(grad.sum(-1, keepdim=True), tokens, weight)[:, 0]
        grad_states = torch.bmm(grad.mT, embedding(tokens, weight), out=states.new_empty(states.shape))
        # Of the log-normalisers:
        rows = grad_states.view(-1, states.shape[-1])
        flat = [states.reshape(rows.shape), weight, bias]
        _add_gradients([rows, grad_weight, grad_bias], flat, total.flatten(), -grad.sum(-2).flatten(), ctx.size)
        return *_as(layer, [grad_states, grad_weight, grad_bias]), None, None


def _log_probs(states: Tensor, weight: Tensor, bias: Tensor, tokens: Tensor, total: Tensor) -> Tensor:
    """states (B, V, H), weight (K, H), bias (K,), tokens (B, N), log-normalisers (B, V) → (B, N, V)."""
    targets = torch.bmm(embedding(tokens, weight), states.mT, out=states.new_empty(*tokens.shape, states.shape[1]))
    return in_accumulation_dtype(targets).add_(bias[tokens][..., None]).sub_(total[:, None, :])


def _kernels_run(tensor: Tensor) -> bool:
    """Whether Triton kernels can have it, in one of the dtypes they know."""
    return tensor.dtype in (torch.float32, torch.bfloat16, torch.float16) and in_kernels(tensor)


def _products_run(tensor: Tensor) -> bool:
    """Whether kernels that multiply can have it: without matrix units, torch's own products are faster."""
    return _kernels_run(tensor) and (tensor.dtype != torch.float32 or dot_precision() == "tf32")


def _as_multiplied(x: Tensor) -> Tensor:
    """As products in TF32 take it, where a kernel makes them.

    Kernels cut off what TF32 has not, and torch's own products round it. What is rounded before is the same to both:
    else log-normalisers would be too small for their logits, and probabilities would sum to more than one.
    """
    return _rounded(x) if x.dtype == torch.float32 and _products_run(x) else x


def _rounded(x: Tensor) -> Tensor:
    """float32 → the nearest that TF32 has, in float32; of two, the one further from zero."""
    bits, unit = x.view(torch.int32), 1 << TF32_BITS
    return torch.where(x.isfinite(), (bits + unit // 2 & -unit).view(torch.float32), x)


def _rows_per_block(elements: int, vocabulary: int) -> int:
    rows = max(1, elements // vocabulary)
    return rows - rows % MULTIPLE if rows > MULTIPLE else rows


def _log_normalisers(rows: Tensor, weight: Tensor, bias: Tensor, size: int) -> Tensor:
    """rows (R, H), weight (K, H), bias (K,) → (R,)."""
    if _products_run(rows):
        from torch_ctree.trees.projection import log_normaliser  # noqa: PLC0415 # imports Triton

        return log_normaliser(rows, weight, bias)
    return torch.cat([_logsumexp_(logits) for logits in _logits(rows, weight, bias, size)])


def _best(rows: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """→ (R,) each: each row's best token's log-probability, that token, and the log-normaliser."""
    from torch_ctree.trees.projection import best_tokens  # noqa: PLC0415 # imports Triton

    return best_tokens(rows, weight, bias)


def _blocked_topk(rows: Tensor, weight: Tensor, bias: Tensor, size: int, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """→ the log-probabilities of each row's k best tokens, these tokens, (R, k) each, and log-normalisers (R,)."""
    found = []
    for logits in _logits(rows, weight, bias, size):
        best, tokens = topk(logits, k)
        total = _logsumexp_(logits)
        found.append((best - total[:, None], tokens, total))
    best, tokens, totals = (torch.cat(parts) for parts in zip(*found, strict=True))
    return best, tokens, totals


def _softmax_(logits: Tensor, totals: Tensor, upstream: Tensor) -> Tensor:
    """logits (R, K) ← softmax · upstream, in place, with totals, upstream (R,) → the sum of its rows, (K,)."""
    if _kernels_run(logits):
        from torch_ctree.trees.projection import softmax_  # noqa: PLC0415 # imports Triton

        return softmax_(logits, totals, upstream)
    return logits.sub_(totals[:, None]).exp_().mul_(upstream[:, None]).sum(0)


def _add_gradients(grads: list[Tensor], layer: list[Tensor], totals: Tensor, upstream: Tensor, size: int) -> None:
    """Adds those of Σ_r upstream_r · log Σ_k exp(weight_k · row_r + bias_k) to the gradients of rows, weight, bias."""
    rows, weight, bias = (in_accumulation_dtype(tensor) for tensor in layer)
    grad_rows, grad_weight, grad_bias = grads
    parts = (_blocks(tensor, size) for tensor in (rows, grad_rows, totals, upstream))
    for share, row, grad_row, total, g in zip(_logits(rows, weight, bias, size), *parts, strict=True):
        grad_bias += _softmax_(share, total, g)
        grad_row.addmm_(share, weight)
        grad_weight.addmm_(share.T, row)


def _at_words(grad: Tensor, tokens: Tensor, weight: Tensor) -> Tensor:
    """The derivative of looking up, as ``torch.nn.Embedding`` has it, without atomics: grad (B, N, H) → (K, H)."""
    return torch.ops.aten.embedding_dense_backward(grad, tokens, len(weight), -1, False)


def _as(originals: list[Tensor], grads: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients in the dtype of what they belong to."""
    rows, weight, bias = (grad.to(tensor.dtype) for tensor, grad in zip(originals, grads, strict=True))
    return rows, weight, bias


def _blocks(rows: Tensor, size: int) -> Iterator[Tensor]:
    """rows (R, …) → (size, …) at a time; one empty block where R = 0."""
    return (rows[first : first + size] for first in range(0, max(1, len(rows)), size))


def _logits(rows: Tensor, weight: Tensor, bias: Tensor, size: int) -> Iterator[Tensor]:
    """rows (R, H) → logits (block, K) at a time, in the accumulation dtype, each in the place of the one before.

    One buffer for all: allocating each block afresh lets the C library's heap grow to the size of all of them.
    """
    buffer = rows.new_empty(min(size, len(rows)), len(weight))
    result = in_accumulation_dtype(buffer)
    for block in _blocks(rows, size):
        torch.addmm(bias, block, weight.T, out=buffer[: len(block)])
        yield result.copy_(buffer)[: len(block)] if result is not buffer else buffer[: len(block)]


def _logsumexp_(logits: Tensor) -> Tensor:
    """(R, K) → (R,). Uses up its argument, so as to need no memory of that size."""
    high = logits.amax(-1, keepdim=True)
    return logits.sub_(high).exp_().sum(-1).log_() + high[:, 0]


def _draw(blocks: Iterator[Tensor]) -> Tensor:
    """Blocks of logits (R, K), each used up → (all R,): an index for each row, with probability softmax(logits).

    Of independent waiting times with rates p_1 … p_K, the k-th is the shortest with probability p_k.
    """
    drawn, noise = [], None
    for logits in blocks:
        noise = torch.empty_like(logits) if noise is None else noise[: len(logits)]
        rates = logits.sub_(logits.amax(-1, keepdim=True)).exp_()
        drawn.append(rates.div_(noise.exponential_()).argmax(-1))
    return torch.cat(drawn)
