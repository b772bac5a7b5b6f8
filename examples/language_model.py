"""A language model with latent trees, without any source: a small network grows the states of a tree from its root.

It has several roots, and draws one for each sentence, so that one side of a tree can agree with the other.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from torch_ctree import LatentTree
from torch_ctree.data import scan

DEPTH, ROOTS, WIDTH = 4, 16, 32
LONGEST = 10  # words


class TreeLanguageModel(nn.Module):
    """p(x) = Σ_r p(r) Σ_T p(T | r) p(x | T, r)"""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.roots = nn.Parameter(torch.randn(ROOTS, WIDTH))
        self.root_logits = nn.Parameter(torch.zeros(ROOTS))
        self.split = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, 2 * WIDTH))
        self.norm = nn.LayerNorm(WIDTH)
        self.leaf, self.word = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, vocabulary)

    def trees(self) -> LatentTree:
        """One distribution for each root."""
        levels = [self.roots[:, None]]  # (R, 1, H)
        for _ in range(DEPTH):
            children = self.split(levels[-1]).unflatten(-1, (2, WIDTH)) + levels[-1][:, :, None]
            levels.append(self.norm(children).flatten(1, 2))  # (R, 2^d, H)
        states = torch.cat(levels, 1)  # (R, V, H), in heap order
        return LatentTree(self.leaf(states)[..., 0], self.word(states))

    def log_prob(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(B, N), (B,) → (B,)"""
        of_roots = self.trees().log_prob(tokens[:, None], lengths[:, None])  # (B, R)
        return (of_roots + self.root_logits.log_softmax(0)).logsumexp(-1)


def encoded(texts: Sequence[str], words: list[str]) -> tuple[Tensor, Tensor]:
    """Tokens (B, N) and lengths (B,)."""
    rows = [torch.tensor([words.index(word) for word in text.split()]) for text in texts]
    return pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])


def ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    """With the end of the sentence, and what stands before its beginning."""
    words = ["<s>"] * (n - 1) + text.split() + ["</s>"]
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def ngram_log_prob(train: Sequence[str], test: Sequence[str], n: int, vocabulary: int) -> float:
    """Of all test sentences, by counting; 0.1 is added to each count."""
    counts = Counter(gram for text in train for gram in ngrams(text, n))
    before = Counter(gram[:-1] for text in train for gram in ngrams(text, n))
    grams = [gram for text in test for gram in ngrams(text, n)]
    return sum(math.log((counts[gram] + 0.1) / (before[gram[:-1]] + 0.1 * (vocabulary + 1))) for gram in grams)


def main(steps: int = 200) -> None:
    texts = sorted({text for text in scan.everything().targets() if len(text.split()) <= LONGEST})
    random.Random(0).shuffle(texts)
    test, train = texts[:300], texts[300:1800]
    words = sorted({word for text in texts for word in text.split()})
    tokens, lengths = encoded(train, words)
    print(f"{len(train):,} sentences to learn from, {len(test)} others to test on, {len(words)} words")

    torch.manual_seed(0)
    model = TreeLanguageModel(len(words))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        some = torch.randint(len(train), (200,))
        loss = -model.log_prob(tokens[some], lengths[some]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    places = sum(len(text.split()) + 1 for text in test)  # each sentence ends once
    with torch.no_grad():
        found = {f"{n}-gram": ngram_log_prob(train, test, n, len(words)) for n in (1, 2, 3)}
        found["latent tree"] = model.log_prob(*encoded(test, words)).sum().item()
        for name, log_prob in found.items():
            print(f"{name:12} perplexity {math.exp(-log_prob / places):.2f}")
        trees = model.trees()
        print("samples, each with its tree:")
        for root in torch.multinomial(model.root_logits.softmax(0), 5, replacement=True).tolist():
            print(" ", " ".join(str(trees.sample()[root].trees(words)[0]).split()))
        print("the best tree of a test sentence, by its most probable root:")
        row, length = encoded([max(test, key=len)], words)
        root = int((trees.log_prob(row[:, None], length[:, None])[0] + model.root_logits.log_softmax(0)).argmax())
        print(" ", " ".join(str(trees.posterior(row[0], length[0]).argmax()[root].trees(words)[0]).split()))


if __name__ == "__main__":
    main()
