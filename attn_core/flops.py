"""What attention costs, by formula: multiplications, parameters, softmax elements.

Counted are the four matrix products. Not counted: softmax, scaling, masks, biases' additions, dropout, moving memory.
"""

from typing import NamedTuple


class AttentionCost(NamedTuple):
    """The cost of one multi-head attention layer, forward only.

    macs: multiply-accumulates by part, "qkv_projection", "scores", "weighted_sum", "output_projection".
    parameters: numbers that are learned. softmax_elements: numbers that pass through the softmax.
    """

    macs: dict[str, int]
    parameters: int
    softmax_elements: int

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
    causal: bool = False,
    out_proj: bool = True,
    bias: bool = True,
) -> AttentionCost:
    """The cost of `MultiHeadAttention(embed_dim, num_heads, ...)` on (batch_size, seq_len, embed_dim), exactly.

    key_len: S, where keys and values are another sequence. causal: only the pairs that a lower-right causal mask
    leaves are counted; a kernel that computes all pairs and then masks does more.
    Raises ValueError for sizes that are not positive integers or do not divide one another.
    """
    key_len = seq_len if key_len is None else key_len
    num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
    sizes = {
        "seq_len": seq_len,
        "embed_dim": embed_dim,
        "num_heads": num_heads,
        "batch_size": batch_size,
        "key_len": key_len,
        "num_kv_heads": num_kv_heads,
    }
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")
    if embed_dim % num_heads or num_heads % num_kv_heads:
        raise ValueError(
            "num_heads must divide embed_dim and num_kv_heads must divide num_heads, got "
            f"embed_dim {embed_dim}, num_heads {num_heads}, num_kv_heads {num_kv_heads}"
        )
    kv_width = num_kv_heads * (embed_dim // num_heads)
    if causal:
        # Query i sees keys 0 .. i + S - L; the first L - S of more queries than keys see none.
        seeing = min(seq_len, key_len)
        pairs = seeing * key_len - seeing * (seeing - 1) // 2
    else:
        pairs = seq_len * key_len
    macs = {
        "qkv_projection": batch_size * (seq_len * embed_dim + 2 * key_len * kv_width) * embed_dim,
        "scores": batch_size * pairs * embed_dim,
        "weighted_sum": batch_size * pairs * embed_dim,
        "output_projection": batch_size * seq_len * embed_dim**2 if out_proj else 0,
    }
    rows = embed_dim + 2 * kv_width + (embed_dim if out_proj else 0)
    return AttentionCost(macs, rows * (embed_dim + bias), batch_size * num_heads * pairs)
