"""Unsupervised parsing in 40 lines: trees of a toy grammar, learned from its sentences alone.

Every phrase of the grammar can also be one word, and nothing else tells what a phrase is.
"""

import random

import torch
from nltk import Tree
from torch.nn.utils.rnn import pad_sequence

from torch_ctree import LatentTree
from torch_ctree.evaluation import balanced, left_branching, right_branching, tree_f1

GRAMMAR = {
    **{"S": ["NP VP"], "NP": ["X PP", "D N", "she", "he"], "X": ["D N", "she", "he"], "PP": ["P L", "here", "there"]},
    **{"VP": ["Y A", "V O", "sleeps", "waits"], "Y": ["V O", "sleeps", "waits"], "O": ["D N", "her", "him"]},
    **{"A": ["very often", "today", "again"], "P": ["in", "near"], "L": ["town", "bed", "school"]},
    **{"V": ["sees", "likes", "hears"], "D": ["the", "a"], "N": ["cat", "dog", "fox", "man"]},
}


def grow(symbol: str, choose: random.Random) -> Tree | str:
    """A random tree below a symbol."""
    parts = choose.choice(GRAMMAR[symbol]).split() if symbol in GRAMMAR else []
    return Tree("·", [grow(part, choose) for part in parts]) if len(parts) > 1 else parts[0] if parts else symbol


def fit(tokens: torch.Tensor, lengths: torch.Tensor, size: int, seed: int, steps: int) -> LatentTree:
    """Maximise the likelihood, the sum over all trees of each sentence."""
    torch.manual_seed(seed)
    leaf_logits = torch.zeros(31, requires_grad=True)  # of depth 4: trees of up to 16 words
    token_logits = (0.3 * torch.randn(31, size)).requires_grad_()
    optimiser = torch.optim.Adam([leaf_logits, token_logits], lr=0.1)
    for _ in range(steps):
        optimiser.zero_grad()
        (-LatentTree(leaf_logits, token_logits).log_prob(tokens, lengths).mean()).backward()
        optimiser.step()
    return LatentTree(leaf_logits.detach(), token_logits.detach())


def main(seeds: int = 5, steps: int = 150) -> None:
    trees = [tree for n in range(800) if isinstance(tree := grow("S", random.Random(n)), Tree)]
    train, gold = trees[:400], [tree for tree in trees[400:] if tree not in trees[:400]]
    words = sorted({word for tree in trees for word in tree.leaves()})
    for make in (right_branching, left_branching, balanced):
        print(f"{make.__name__:16} tree F1 {tree_f1((make(tree.leaves()), tree) for tree in gold).sentence_f1:.3f}")

    def encoded(some: list[Tree]) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [torch.tensor([words.index(word) for word in tree.leaves()]) for tree in some]
        return pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])

    for seed in range(seeds):
        found = fit(*encoded(train), len(words), seed, steps).posterior(*encoded(gold)).argmax().trees(words)
        longest = " ".join(str(max(found, key=lambda tree: len(tree.leaves()))).split())
        print(f"LatentTree {seed:<5} tree F1 {tree_f1(zip(found, gold, strict=True)).sentence_f1:.3f}   {longest}")


if __name__ == "__main__":
    main()
