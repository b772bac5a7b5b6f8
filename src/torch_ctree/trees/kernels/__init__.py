"""The interval recursion, once per technology: ``numba``, ``torch`` and ``triton`` have the same three functions.

``grammar`` is something else: the charts of a grammar on GPUs, which ``charts`` calls.

The recursion: α_0[0] = 0 and, for n = 1 … N, α_n[p] = log Σ over vertices v with end(v) = p of
exp(α_{n−1}[start(v)] + log_weights[n, v]). Then α_n[2^D] is the log-likelihood of the first n tokens as a sentence.

``forward(log_weights, lengths) → (completions, memory)``
    log_weights (B, N, V), lengths (B,) in 1..N → completions (B, N): α_n[2^D] for n = 1 … N, and whatever tensor the
    kernel's own ``backward`` wants to see again.

``backward(log_weights, lengths, memory, grad) → grad_log_weights``
    grad (B, N) of the completions, 0 where they are −inf → (B, N, V): the posterior probability that vertex v emits
    token n, times grad.

``alphas(log_weights, lengths, maximise=False) → alphas``
    → (B, N + 1, 2^D + 1), in a dtype of the kernel's choosing; with ``maximise`` the sum becomes a maximum.

Results past a sentence's length are −inf (0 for gradients). Weights there may hold anything, NaN included: no kernel
reads them into a result.

A module may have three more functions, with which ``search`` finds the best in one go where the others need a loop:

``best_paths(log_weights, lengths) → vertices``
    The best tree of each sentence, (B, N), padded with −1; all −1 where no tree is possible.

``best_path_within(leaf_scores, max_length) → (vertices, lengths, scores)``
    leaf_scores (B, V), never above 0, the same for every token → the best tree of at most max_length leaves: vertices
    (B, the smaller of max_length and 2^D), padded with −1, lengths (B,), scores (B,). Where there is none: −1, 0, −inf.

``best_derivation(log_leaf, log_split, token_scores) → (vertices, lengths, scores)``
    (B, V) each → the same for the best tree of any length, vertices (B, 2^D), from the probabilities to stop, to split,
    and of the best token.
"""
