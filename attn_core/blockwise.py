"""Attention in blocks: the same numbers, without the L · S weights ever standing in memory together.

Sources: Milakov & Gimelshein 2018, "Online normalizer calculation for softmax"; Rabe & Staats 2021, "Self-attention
Does Not Need O(n²) Memory"; Dao et al. 2022, "FlashAttention", algorithm 1 (its forward pass, without the GPU).
"""

import math

import torch
from torch import Tensor

from attn_core.attention import checked_inputs


def blockwise_attention(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, block_size: int = 256
) -> Tensor:
    """softmax(Q Kᵀ / √d_k) V, (..., L, d_v), from blocks of at most block_size queries and keys.

    query: (..., L, d_k), key: (..., S, d_k), value: (..., S, d_v), all of one floating dtype.
    causal: a query sees only keys not in its future, as in `causal_mask(L, S)`: the last query sees every key. One
        that sees none gets zeros.

    Without gradients it holds a few arrays (..., block_size, block_size) besides the output. With them autograd keeps
    every block for the backward pass, and these take as much memory as the whole.
    Raises ValueError for shapes or a block_size that do not fit, TypeError for dtypes or a causal that is no bool.
    """
    query, key, value = checked_inputs(query, key, value)
    if not isinstance(causal, bool):
        raise TypeError(f"causal must be True or False, got {causal!r}")
    if not isinstance(block_size, int) or isinstance(block_size, bool) or block_size < 1:
        raise ValueError(f"block_size must be an integer of at least 1, got {block_size!r}")
    past = key.size(-2) - query.size(-2)  # query i sees the keys up to i + past where it is causal
    wide = torch.promote_types(query.dtype, torch.float32)  # running sums in half precision would stand still
    outputs = []
    for block, q in enumerate(query.split(block_size, -2)):
        first = block * block_size
        q = q.to(wide) / math.sqrt(q.size(-1))
        # Of the keys so far, per query: the largest score, the sum of exp(score - largest), and the same sum of values.
        # The largest starts finite: -inf - -inf, where a query has seen nothing yet, would be NaN.
        largest = q.new_full((*q.shape[:-1], 1), torch.finfo(wide).min)
        total, values = torch.zeros_like(largest), q.new_zeros(*q.shape[:-1], value.size(-1))
        for start in range(0, min(key.size(-2), first + q.size(-2) + past) if causal else key.size(-2), block_size):
            k, v = (x[..., start : start + block_size, :].to(wide) for x in (key, value))
            scores = q @ k.mT
            if causal:
                future = torch.ones_like(scores, dtype=torch.bool).triu(first + past - start + 1)
                scores = scores.masked_fill(future, -math.inf)
            # The result does not depend on what is subtracted, so no gradient has to pass through it.
            larger = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
            weights, shrink = (scores - larger).exp(), (largest - larger).exp()
            total = total * shrink + weights.sum(-1, keepdim=True)
            values = values * shrink + weights @ v
            largest = larger
        outputs.append(values / total.masked_fill(total == 0, 1.0))
    return torch.cat(outputs, -2).to(query.dtype)
