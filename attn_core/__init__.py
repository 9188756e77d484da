"""Attention, small enough to read: the core of the course.

Conventions, the same everywhere:

- Batch first. Shapes are written (B, H, L, S): batch, heads, query length, key length; D is the
  embedding width, d the width of one head.
- A bool mask says True = may attend. A float mask is added to the scaled scores. A query that may
  attend to nothing gets zero weights and zero values, never NaN.
- Scores are what stands before the softmax, weights what it gave (before dropout); each row of
  weights sums to 1.
- FLOPs are 2 x MACs.
- Bad arguments raise ValueError, a wrong type TypeError; the message names the values and what
  would be legal.
"""

from attn_core._measure import FlopCount, count_flops, count_macs_with_fvcore
from attn_core.attention import (
    AttentionOutput,
    AttentionTrace,
    attention_trace,
    scaled_dot_product_attention,
)
from attn_core.blockwise import blockwise_attention
from attn_core.flops import AttentionCost, attention_cost
from attn_core.masks import causal_mask, padding_mask
from attn_core.multihead import MultiHeadAttention, merge_heads, split_heads
from attn_core.positional import (
    AlibiBias,
    LearnedPositionalEncoding,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionalEncoding,
)

__all__ = [
    "AlibiBias",
    "AttentionCost",
    "AttentionOutput",
    "AttentionTrace",
    "FlopCount",
    "LearnedPositionalEncoding",
    "MultiHeadAttention",
    "RelativePositionBias",
    "RotaryEmbedding",
    "SinusoidalPositionalEncoding",
    "attention_cost",
    "attention_trace",
    "blockwise_attention",
    "causal_mask",
    "count_flops",
    "count_macs_with_fvcore",
    "merge_heads",
    "padding_mask",
    "scaled_dot_product_attention",
    "split_heads",
]
