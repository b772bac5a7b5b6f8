"""The distribution by itself: fit it to nine sentences, then question it."""

import torch

from torch_ctree import LatentTree

SENTENCES = """
the cat sleeps
the old cat sleeps
the dog barks
the old dog barks
the cat chased the dog
the dog chased the cat
the old cat chased the dog
the dog chased the old cat
the old dog chased the old cat
"""
DEPTH = 4  # trees of up to 2^4 = 16 words


def read(text: str) -> tuple[list[str], torch.Tensor, torch.Tensor]:
    """→ the vocabulary, tokens (sentences, N) padded with 0, and lengths."""
    rows = [line.split() for line in text.strip().splitlines()]
    words = sorted({word for row in rows for word in row})
    tokens = [torch.tensor([words.index(word) for word in row]) for row in rows]
    return words, torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True), torch.tensor([len(row) for row in rows])


def fit(tokens: torch.Tensor, lengths: torch.Tensor, vocabulary: int) -> LatentTree:
    """Maximise the likelihood, the sum over all trees of each sentence, differentiated exactly.

    A reward for the entropy of each sentence's trees keeps alternatives alive where the data do not decide.
    """
    torch.manual_seed(0)
    vertices = 2 ** (DEPTH + 1) - 1
    leaf_logits = torch.zeros(vertices, requires_grad=True)
    token_logits = (0.3 * torch.randn(vertices, vocabulary)).requires_grad_()
    optimiser = torch.optim.Adam([leaf_logits, token_logits], lr=0.1)
    for step in range(101):
        dist = LatentTree(leaf_logits, token_logits)
        log_prob = dist.log_prob(tokens, lengths).mean()
        entropy = dist.posterior(tokens, lengths).entropy().mean()
        if step % 25 == 0:
            print(f"  step {step:3}   log-likelihood {log_prob:7.3f}   tree entropy {entropy:5.3f}   (nats a sentence)")
        optimiser.zero_grad()
        (-log_prob - entropy).backward()
        optimiser.step()
    return LatentTree(leaf_logits.detach(), token_logits.detach())


def main() -> None:
    words, tokens, lengths = read(SENTENCES)
    print(f"{len(tokens)} sentences, {len(words)} words, every binary tree of depth up to {DEPTH}\n")
    dist = fit(tokens, lengths, len(words))

    chosen = 7
    sentence, length = tokens[chosen], lengths[chosen]
    print(f"\nlog p({' '.join(words[x] for x in sentence[:length])!r}) = {dist.log_prob(sentence, length).item():.3f}")

    posterior = dist.posterior(sentence, length)
    best = posterior.argmax()
    print(f"\nits best tree, with probability {best.log_prob.exp().item():.3f} given the sentence:\n")
    best.trees(words)[0].pretty_print(unicodelines=True)

    print(f"the posterior has an entropy of {posterior.entropy().item():.3f} nats; its three best trees:")
    ranked = posterior.topk(3)
    for tree, log_prob in zip(ranked.trees(words), ranked.log_prob, strict=True):
        print(f"  {log_prob.exp().item():.3f}  {' '.join(str(tree).split())}")

    print("\nwhich vertex says each word (probability, over all trees):")
    for n, row in enumerate(posterior.marginals()[: int(length)]):
        likely = [f"{v} ({row[v].item():.2f})" for v in row.argsort(descending=True)[:3] if row[v] > 0.005]
        print(f"  {words[sentence[n]]:8} {', '.join(likely)}")

    print("\nthe most probable (sentence, tree) pairs of all:")
    for tree, log_prob in zip(dist.topk(3).trees(words), dist.topk(3).log_prob, strict=True):
        print(f"  {log_prob.exp().item():.3f}  {' '.join(str(tree).split())}")

    print("\nfive samples:")
    for tree in dist.sample((5,)).trees(words):
        print(f"  {' '.join(tree.leaves())}")
    print("\nNext: docs/algorithm.md shows how this is computed; `make bench` measures how fast.")


if __name__ == "__main__":
    main()
