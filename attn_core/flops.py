"""What attention costs: by formula, measured while it runs, and as the package fvcore counts it.

All three count products of matrices, nothing else: 2 FLOPs or 1 MAC per multiply-and-add.

                                    attention_cost   count_flops           count_macs_with_fvcore
    projections, Q Kᵀ, weights × V  yes              yes                   yes; fused: named, 0
    pairs hidden by a causal mask   no               yes (kernels vary)    yes
    a product without a formula     (has them all)   named in `uncounted`  named beside the number
    biases, scaling, mask, softmax  no               no                    no, some are named too
    dropout, activations, copies    no               no                    no, some are named too
    layer and batch norm            (has none)       no                    yes, by its own formula
    the backward pass               no               if the call runs it   no
"""

from typing import NamedTuple

from attn_core._checks import check_bools, check_choice, check_heads, check_integers
from attn_core._measure import FlopCount, count_flops, count_macs_with_fvcore

__all__ = ["AttentionCost", "FlopCount", "attention_cost", "count_flops", "count_macs_with_fvcore"]


class AttentionCost(NamedTuple):
    """The cost of one multi-head attention layer, forward only.

    macs: multiply-accumulates by part, "qkv_projection", "scores", "weighted_sum",
        "output_projection".
    parameters: numbers that are learned. softmax_elements: numbers that pass through the softmax.
    weight_bytes: bytes of the attention weights (B, H, L, S) in float32, 4 each, where they are
        kept (`need_weights=True`). A weight that a mask makes zero is stored like any other.
    """

    macs: dict[str, int]
    parameters: int
    softmax_elements: int
    weight_bytes: int

    @property
    def flops(self) -> dict[str, int]:
        """Floating-point operations by part: 2 per multiply-accumulate."""
        return {part: 2 * macs for part, macs in self.macs.items()}

    @property
    def total_macs(self) -> int:
        return sum(self.macs.values())

    @property
    def total_flops(self) -> int:
        return 2 * self.total_macs


def attention_cost(
    seq_len: int,
    embed_dim: int,
    num_heads: int,
    *,
    batch_size: int = 1,
    key_len: int | None = None,
    num_kv_heads: int | None = None,
    causal: bool | str = False,
    out_proj: bool = True,
    bias: bool = True,
) -> AttentionCost:
    """The exact cost of `MultiHeadAttention(embed_dim, num_heads, ...)`, which has these arguments.

    It is that of a forward pass with queries (batch_size, seq_len, embed_dim).

    key_len: S, where keys and values are another sequence.
    causal: only the pairs that `causal_mask` leaves are counted, with its align "lower_right" (also
        True) or "upper_left"; a kernel that masks after multiplying does more.
    Raises ValueError for sizes below 1 or that do not divide one another and for another `causal`,
    TypeError for what is no integer or no bool.
    """
    key_len = seq_len if key_len is None else key_len
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    check_integers(seq_len=seq_len, batch_size=batch_size, key_len=key_len)
    check_heads(embed_dim, num_heads, num_kv_heads)
    check_choice("causal", causal, False, True, "lower_right", "upper_left")
    check_bools(out_proj=out_proj, bias=bias)
    kv_width = num_kv_heads * (embed_dim // num_heads)
    pairs = _visible_pairs(seq_len, key_len, causal)
    macs = {
        "qkv_projection": batch_size * (seq_len * embed_dim + 2 * key_len * kv_width) * embed_dim,
        "scores": batch_size * pairs * embed_dim,
        "weighted_sum": batch_size * pairs * embed_dim,
        "output_projection": batch_size * seq_len * embed_dim**2 if out_proj else 0,
    }
    rows = (2 if out_proj else 1) * embed_dim + 2 * kv_width
    parameters, heads = rows * (embed_dim + bias), batch_size * num_heads
    return AttentionCost(macs, parameters, heads * pairs, 4 * heads * seq_len * key_len)


def _visible_pairs(seq_len: int, key_len: int, causal: bool | str) -> int:
    """How many of the L · S pairs of query and key are computed."""
    if causal is False:
        return seq_len * key_len
    steps = min(seq_len, key_len)
    if causal == "upper_left":
        # The first query sees one key, each one after it one more, until they see all S.
        return steps * (steps + 1) // 2 + (seq_len - steps) * key_len
    # The last query sees all S keys, each one before it one fewer, until there are none left.
    return steps * key_len - steps * (steps - 1) // 2
