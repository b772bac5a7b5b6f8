"""A drop-in loss: one network, one plain PyTorch loop, once with cross-entropy and once with latent trees.

The network gives a row of logits for each place of the answer. With cross-entropy, places are those of a sentence, and
the first logit says that it is over; with trees they are the vertices, and the first logit says that one is a leaf.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from torch_ctree import LatentTree, data
from torch_ctree.data import scan

LONGEST = 8  # words of an answer: trees of depth 3


class Network(nn.Module):
    """Sources (B, S), lengths (B,) → (B, places, 1 + K)."""

    def __init__(self, source_words: int, target_words: int, places: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(source_words, width)
        self.reader = nn.GRU(width, width, batch_first=True)
        self.places = nn.Parameter(torch.randn(places, width))
        self.out = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1 + target_words))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Logits of every place, from the last state of the source."""
        states, _ = self.reader(self.embedding(tokens))
        last = states[torch.arange(len(tokens)), lengths - 1]  # (B, H)
        shape = len(last), *self.places.shape
        return self.out(torch.cat([last[:, None].expand(shape), self.places.expand(shape)], -1))


class Words:
    """Each place by itself."""

    places = LONGEST

    @staticmethod
    def loss(logits: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Cross-entropy with the word, or the end, that stands there."""
        over = torch.arange(tokens.shape[1]) >= lengths[:, None]
        return cross_entropy(logits[:, : tokens.shape[1]].flatten(0, 1), torch.where(over, 0, tokens + 1).flatten())

    @staticmethod
    def answers(logits: Tensor) -> list[list[int]]:
        """The most probable words, up to the first end."""
        rows = [[*row, 0] for row in logits.argmax(-1).tolist()]
        return [[word - 1 for word in row[: row.index(0)]] for row in rows]


class Trees:
    """All of them together."""

    places = 2 * LONGEST - 1

    @staticmethod
    def loss(logits: Tensor, tokens: Tensor, lengths: Tensor) -> Tensor:
        """−log p, the sum over all trees."""
        return -LatentTree(logits[..., 0], logits[..., 1:]).log_prob(tokens, lengths).mean()

    @staticmethod
    def answers(logits: Tensor) -> list[list[int]]:
        """The sentence of the best (sentence, tree) pair."""
        best = LatentTree(logits[..., 0], logits[..., 1:]).argmax()
        return [row[:length] for row, length in zip(best.tokens.tolist(), best.lengths.tolist(), strict=True)]


def main(epochs: int = 12) -> None:
    pairs = data.Pairs.of(pair for pair in scan.everything() if len(pair.target.split()) <= LONGEST)
    source, target = data.Vocabulary.build(pairs.sources()), data.Vocabulary.build(pairs.targets())
    encoded = data.Encoded.of(pairs, source, target)
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0)).numpy()
    test, train = encoded.take(order[:500]), encoded.take(order[500:])
    print(f"{len(train):,} pairs to learn from, {len(test)} others to test on, answers of up to {LONGEST} words")
    for name, way in (("cross-entropy", Words), ("latent trees", Trees)):
        torch.manual_seed(0)
        network = Network(len(source), len(target), way.places)
        optimiser = torch.optim.Adam(network.parameters(), lr=0.003)
        for epoch in range(epochs):
            for batch in data.Batches(train, batch_size=50, seed=0).epoch(epoch):
                optimiser.zero_grad()
                logits = network(batch.source, batch.source_lengths)
                way.loss(logits, batch.target, batch.target_lengths).backward()
                optimiser.step()
        with torch.no_grad():
            (batch,) = data.Batches(test, batch_size=len(test), shuffle=False).epoch(0)
            answers = way.answers(network(batch.source, batch.source_lengths))
        right = sum(tuple(answer) == row for answer, row in zip(answers, test.target.rows(), strict=True))
        print(f"{name:14} {right / len(test):6.1%} of the answers right")


if __name__ == "__main__":
    main()
