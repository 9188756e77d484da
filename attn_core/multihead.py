"""Multi-head attention: several heads side by side, each on its own slice of the projections.

Sources: Vaswani et al. 2017, section 3.2.2. Shared keys and values: Shazeer 2019, "Fast Transformer
Decoding: One Write-Head is All You Need" (one key/value head), and Ainslie et al. 2023, "GQA" (one
per group of heads).
"""

import torch.nn.functional as F
from torch import Tensor, nn

from attn_core._checks import (
    check_axes,
    check_bools,
    check_dropout,
    check_heads,
    check_names,
    check_split,
    checked_layer_inputs,
)
from attn_core._convert import from_torch, to_torch
from attn_core.attention import AttentionOutput, scaled_dot_product_attention


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, L, D) -> (B, H, L, D/H): head h gets columns h·D/H to (h+1)·D/H of every token. A view.

    The order matters: first cut each token's D numbers into H pieces, then bring the heads forward.
    A direct `view(B, H, L, D/H)` has the right shape and mixes the tokens.
    Raises ValueError where x is not (B, L, D) or num_heads does not divide D.
    """
    check_axes(x, "batch", "length", "width")
    check_split(num_heads, x.size(-1))
    return x.unflatten(-1, (num_heads, x.size(-1) // num_heads)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, L, d) -> (B, L, H·d): the inverse of `split_heads`.

    Raises ValueError where x is not (B, H, L, d).
    """
    check_axes(x, "batch", "heads", "length", "head_dim")
    return x.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """Multi-head attention over batch-first inputs, Vaswani et al. 2017, section 3.2.2.

        MultiHead(Q, K, V) = Concat(head_1 … head_H) W_O
        head_i = Attention(Q W_Qi, K W_Ki, V W_Vi)

    embed_dim: D, the width of inputs and outputs. num_heads: H, must divide D; `head_dim` is D/H.
    num_kv_heads: key/value heads, must divide H. H unless given; 1 is multi-query, between is
        grouped-query attention.
    bias: whether the projections have one. dropout: share of the weights dropped in training,
        0 ≤ dropout < 1. out_proj: False leaves out the output projection W_O.

    `qkv_proj` holds the rows of W_Q, W_K and W_V below one another, D + 2 · num_kv_heads · head_dim
    rows in all.
    Raises ValueError for sizes that do not fit one another.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        out_proj: bool = True,
    ):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_heads(embed_dim, num_heads, num_kv_heads)
        check_dropout("dropout", dropout)
        check_bools(bias=bias, out_proj=out_proj)
        self.embed_dim, self.num_heads, self.num_kv_heads = embed_dim, num_heads, num_kv_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.qkv_proj = nn.Linear(embed_dim, embed_dim + 2 * num_kv_heads * self.head_dim, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias) if out_proj else nn.Identity()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as `torch.nn.MultiheadAttention` does: Xavier-uniform for Q, K, V, biases zero."""
        nn.init.xavier_uniform_(self.qkv_proj.weight)
        for projection in (self.qkv_proj, self.out_proj):
            if isinstance(projection, nn.Linear) and projection.bias is not None:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
        **others: object,
    ) -> AttentionOutput:
        """query (B, L, D), key and value (B, S, D) -> values (B, L, D), weights (B, H, L, S).

        key: the query (self-attention) unless given. value: the key unless given.
        mask: broadcastable to (B, H, L, S); a (L, S) mask serves every sample and head, a (H, L, S)
            mask every sample. One for each sample, (B, L, S), is `mask[:, None]`.
        causal, need_weights: as in `scaled_dot_product_attention`, but without weights as it comes.
        Raises ValueError for shapes that do not fit, TypeError for dtypes and for other names of
            arguments, also those of torch's layer, whose masks are the other way round.
        """
        check_names(others)
        q, k, v = self.project(query, key, value)
        return self.attend(q, k, v, mask=mask, causal=causal, need_weights=need_weights)

    def project(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Inputs as in `forward` -> query heads (B, H, L, d), key and value heads (B, H_kv, S, d).

        Shared heads come once, H_kv = num_kv_heads, not repeated: as a cache of keys and values
        stores them, and as rotary codes turn them. `attend` takes them on from here. Where key or
        value is another tensor, the rows of `qkv_proj` are applied one by one, past its hooks.
        """
        proj, heads = self.qkv_proj, [self.num_heads, self.num_kv_heads, self.num_kv_heads]
        inputs = checked_layer_inputs(query, key, value, self.embed_dim, proj.weight.dtype)
        if inputs[0] is inputs[1] is inputs[2]:  # self-attention: one product for all three
            return split_heads(proj(query), sum(heads)).split_with_sizes(heads, dim=1)
        rows = [count * self.head_dim for count in heads]
        weights = proj.weight.split(rows)
        biases = (None,) * 3 if proj.bias is None else proj.bias.split(rows)
        parts = zip(inputs, weights, biases, heads, strict=True)
        return tuple(split_heads(F.linear(x, w, b), count) for x, w, b, count in parts)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """The heads of `project` -> the output of `forward`: attend, merge the heads, times W_O.

        In between, rotary codes may turn queries and keys, or a cache may lengthen keys and values.
        """
        if self.num_kv_heads < self.num_heads:
            group = self.num_heads // self.num_kv_heads
            key, value = (x.repeat_interleave(group, dim=1) for x in (key, value))
        values, weights = scaled_dot_product_attention(
            query,
            key,
            value,
            mask,
            causal=causal,
            dropout_p=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
        return AttentionOutput(self.out_proj(merge_heads(values)), weights)

    def extra_repr(self) -> str:
        sizes = f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"
        return f"{sizes}, num_kv_heads={self.num_kv_heads}"

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """A copy of torch's layer (either batch_first): weights, dropout, dtype, device and mode.

        Raises ValueError with the reason for a layer that this class cannot represent, TypeError
        for no such layer.
        """
        return from_torch(cls, module)

    def to_torch(self) -> nn.MultiheadAttention:
        """A copy as torch's batch-first layer: weights, dropout, dtype, device and mode.

        Raises ValueError with the reason for what torch's layer cannot represent.
        """
        return to_torch(self)
