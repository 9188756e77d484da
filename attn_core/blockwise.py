"""Attention in blocks: the same numbers, without the L · S weights ever in memory together.

Sources: Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"; Rabe & Staats 2021,
"Self-attention Does Not Need O(n²) Memory"; Dao et al. 2022, "FlashAttention", algorithm 1 (its
forward pass, without the GPU).
"""

import math

import torch
from torch import Tensor

from attn_core._checks import check_bools, check_integers, checked_inputs


def blockwise_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    block_size: int = 256,
) -> Tensor:
    """softmax(Q Kᵀ / √d_k) V, (..., L, d_v), from blocks of at most block_size queries and keys.

    query: (..., L, d_k), key: (..., S, d_k), value: (..., S, d_v), all of one floating dtype.
    causal: a query sees only keys not in its future, as in `causal_mask(L, S)`: the last query sees
        every key. One that sees none gets zeros.

    Without gradients it holds a few arrays (..., block_size, block_size) besides the output. With
    them autograd keeps every block for the backward pass, and these take as much memory as the
    whole.
    Raises ValueError for shapes or a block_size that do not fit, TypeError for dtypes or a causal
    that is no bool.
    """
    query, key, value = checked_inputs(query, key, value)
    check_bools(causal=causal)
    check_integers(block_size=block_size)
    past = key.size(-2) - query.size(-2)  # where causal, query i sees the keys up to i + past
    outputs = []
    for block, q in enumerate(query.split(int(block_size), -2)):
        last_seen = block * block_size + past if causal else None  # by the first query of the block
        outputs.append(_rows(q, key, value, last_seen, block_size))
    return torch.cat(outputs, -2)


def _rows(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    last_seen: int | None,
    block_size: int,
) -> Tensor:
    """The output of some queries, from one block of keys after the other.

    last_seen: the last key that the first query sees, and each further query one more; None: all.
    """
    key_len = key.size(-2)
    if last_seen is not None:
        key_len = min(key_len, last_seen + query.size(-2))
    # In half precision a long sum stops growing: each new term is rounded away.
    wide = torch.promote_types(query.dtype, torch.float32)
    q = query.to(wide) / math.sqrt(query.size(-1))
    # Of the keys so far, per query: the largest score, the sum of exp(score - largest), and the
    # same sum of values. The largest starts finite: -inf - -inf, before any key is seen, is NaN.
    largest = q.new_full((*q.shape[:-1], 1), torch.finfo(wide).min)
    total, values = torch.zeros_like(largest), q.new_zeros(*q.shape[:-1], value.size(-1))
    for start in range(0, key_len, block_size):
        k, v = (x[..., start : start + block_size, :].to(wide) for x in (key, value))
        scores = q @ k.mT
        if last_seen is not None:
            future = torch.ones_like(scores, dtype=torch.bool).triu(last_seen - start + 1)
            scores = scores.masked_fill(future, -math.inf)
        # The result does not depend on what is subtracted: no gradient has to pass through it.
        larger = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
        weights, shrink = (scores - larger).exp(), (largest - larger).exp()
        total = total * shrink + weights.sum(-1, keepdim=True)
        values = values * shrink + weights @ v
        largest = larger
    return (values / total.masked_fill(total == 0, 1.0)).to(query.dtype)
