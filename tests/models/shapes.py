"""The public functions with their shapes as annotations, which are checked: B, S, M, H, … must agree within a call."""
# ruff: noqa: F722, F821  (what jaxtyping wants are not forward references)

from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor

from torch_ctree.models import Decoded, Encoding, Seq2Seq, SourceEncoder
from torch_ctree.models.attention import Attention
from torch_ctree.models.decoders import CTree
from torch_ctree.models.output import Output
from torch_ctree.models.production import Production

checked = jaxtyped(typechecker=beartype)


@checked
def encode(
    encoder: SourceEncoder, tokens: Int[Tensor, "B S"], lengths: Int[Tensor, "B"], M: int, H: int
) -> tuple[
    Float[Tensor, "B {H}"],
    Float[Tensor, "B S {M} {H}"],
    Float[Tensor, "B S {H}"],
    Float[Tensor, "B S {H}"],
    Float[Tensor, "B S {H}"],
    Int[Tensor, "B S"],
    Bool[Tensor, "B S"],
    Float[Tensor, "B S*{M} {H}"],
    Bool[Tensor, "B S*{M}"],
]:
    e = encoder(tokens, lengths)
    assert e.tokens is tokens
    return (e.root, e.internal, e.leaves, e.contextual, e.embeddings, e.tokens, e.mask, e.nodes, e.nodes_mask)


@checked
def attend(
    attention: Attention,
    states: Float[Tensor, "B Q H"],
    keys: Float[Tensor, "B P H"],
    values: Float[Tensor, "B P H"],
    mask: Bool[Tensor, "B P"],
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "B Q P"]]:
    memory = attention.memory(keys, values, mask)
    return attention(states, memory), attention.weights(states, memory)


@checked
def produce(
    production: Production, states: Float[Tensor, "*batch H"], contexts: Float[Tensor, "*batch H"]
) -> Float[Tensor, "*batch 2 H"]:
    return production(states, contexts)


@checked
def output_scores(
    output: Output, states: Float[Tensor, "B Q H"], contexts: Float[Tensor, "B Q H"] | None, encoding: Encoding, K: int
) -> tuple[Float[Tensor, "B Q H"], Float[Tensor, "{K} H"], Float[Tensor, "{K}"] | None, Float[Tensor, "B Q {K}"]]:
    return (*output(states, contexts, encoding), output.logits(states, contexts, encoding))


@checked
def expand(
    decoder: CTree, root: Float[Tensor, "B H"], encoding: Encoding, depth: int
) -> tuple[
    Float[Tensor, "B {2**(depth+1)-1} H"],
    Float[Tensor, "B {2**(depth+1)-1} H"] | None,
    Float[Tensor, "B {2**(depth+1)-1}"],
]:
    tree = decoder.expand(encoding, depth)
    return tree.states, tree.contexts, tree.leaf_logits


@checked
def score(
    model: Seq2Seq,
    source: Int[Tensor, "B S"],
    tokens: Int[Tensor, "B N"],
    lengths: Int[Tensor, "B"],
    encoding: Encoding,
) -> Float[Tensor, "B"]:
    return model.decoder.score(encoding, tokens, lengths)


@checked
def losses(
    model: Seq2Seq, batch, source: Int[Tensor, "B S"]
) -> tuple[Float[Tensor, "B"], Float[Tensor, "B"], Float[Tensor, ""]]:
    return model.score(batch), model.losses(batch), model.loss(batch)


@checked
def decode(
    model: Seq2Seq, batch, source: Int[Tensor, "B S"]
) -> tuple[Int[Tensor, "B N"], Int[Tensor, "B"], Float[Tensor, "B"], Int[Tensor, "B N"] | None]:
    return fields(model.decode(batch))


@checked
def topk(
    model: Seq2Seq, batch, source: Int[Tensor, "B S"], k: int
) -> tuple[Int[Tensor, "{k} B N"], Int[Tensor, "{k} B"], Float[Tensor, "{k} B"], Int[Tensor, "{k} B N"] | None]:
    return fields(model.topk(batch, k))


def fields(decoded: Decoded) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    vertices = None if decoded.derivation is None else decoded.derivation.vertices
    return decoded.tokens, decoded.lengths, decoded.log_prob, vertices
