"""Multi-head attention: several heads side by side, each on its own slice of the projections.

Sources: Vaswani et al. 2017, section 3.2.2. Shared keys and values: Shazeer 2019, "Fast Transformer Decoding:
One Write-Head is All You Need" (one key/value head), and Ainslie et al. 2023, "GQA" (one per group of heads).
"""

from operator import attrgetter

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attn_core.attention import AttentionOutput, attend, check_sizes, checked_inputs


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, L, D) -> (B, H, L, D/H): head h gets columns h·D/H to (h+1)·D/H of every token. A view, not a copy.

    The order matters: first cut each token's D numbers into H pieces, then bring the heads forward. A direct
    `view(B, H, L, D/H)` has the right shape and mixes the tokens.
    Raises ValueError where x is not (B, L, D) or num_heads does not divide D.
    """
    _check_axes(x, "batch, length, width", 3)
    check_sizes(num_heads=num_heads)
    if x.size(-1) % num_heads:
        raise ValueError(f"num_heads must divide the width, got {num_heads} heads and width {x.size(-1)}")
    return _split(x, num_heads, x.size(-1) // num_heads)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, L, d) -> (B, L, H·d): the inverse of `split_heads`.

    Raises ValueError where x is not (B, H, L, d).
    """
    _check_axes(x, "batch, heads, length, head_dim", 4)
    return x.transpose(1, 2).flatten(2)


class MultiHeadAttention(nn.Module):
    """Multi-head attention over batch-first inputs, Vaswani et al. 2017, section 3.2.2.

        MultiHead(Q, K, V) = Concat(head_1 … head_H) W_O,   head_i = Attention(Q W_Qi, K W_Ki, V W_Vi)

    embed_dim: D, the width of inputs and outputs. num_heads: H, must divide D; `head_dim` is D/H.
    num_kv_heads: key/value heads, must divide H. H unless given; 1 is multi-query, between is grouped-query attention.
    bias: whether the projections have one. dropout: share of the weights dropped in training, 0 ≤ dropout < 1.
    out_proj: False leaves out the output projection W_O.

    `qkv_proj` holds the rows of W_Q, W_K and W_V below one another, D + 2 · num_kv_heads · head_dim rows in all.
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
        check_sizes(embed_dim=embed_dim, num_heads=num_heads, num_kv_heads=num_kv_heads)
        if embed_dim % num_heads:
            raise ValueError(f"num_heads must divide embed_dim, got {num_heads} heads and embed_dim {embed_dim}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_kv_heads must divide num_heads, got {num_kv_heads} and {num_heads} heads")
        if not isinstance(dropout, (int, float)) or not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout!r}")
        self.embed_dim, self.num_heads, self.num_kv_heads = embed_dim, num_heads, num_kv_heads
        self.head_dim = embed_dim // num_heads
        self.dropout = dropout
        self.qkv_proj = nn.Linear(embed_dim, embed_dim + 2 * num_kv_heads * self.head_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias) if out_proj else nn.Identity()
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as `torch.nn.MultiheadAttention` does: Xavier-uniform for Q, K and V, biases zero."""
        nn.init.xavier_uniform_(self.qkv_proj.weight)
        for projection in (self.qkv_proj, self.out_proj):
            if getattr(projection, "bias", None) is not None:
                nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> AttentionOutput:
        """query (B, L, D), key and value (B, S, D) -> values (B, L, D), weights (B, H, L, S) or None.

        key: the query (self-attention) unless given. value: the key unless given.
        mask: broadcastable to (B, H, L, S); a (L, S) mask serves every sample and head, a (H, L, S) mask every sample.
        Raises ValueError for shapes that do not fit, TypeError for dtypes.
        """
        if key is None and value is not None:
            raise ValueError("a value needs a key: pass both, or neither for self-attention")
        key = query if key is None else key
        value = key if value is None else value
        qkv_proj = self.qkv_proj
        dtype = qkv_proj.weight.dtype
        self._check_input("query", query, query, dtype)
        heads = [self.num_heads, self.num_kv_heads, self.num_kv_heads]
        if self_attention := key is query and value is query:
            q, k, v = _split(qkv_proj(query), sum(heads), self.head_dim).split_with_sizes(heads, dim=1)
        else:
            self._check_input("key", key, query, dtype)
            self._check_input("value", value, query, dtype)
            q, k, v = self._project_apart((query, key, value), heads)
        if self.num_kv_heads < self.num_heads:
            group = self.num_heads // self.num_kv_heads
            k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        q, k, v = (q, k, v) if self_attention else checked_inputs(q, k, v)  # cut from one tensor, they fit one another
        dropout_p = self.dropout if self.training else 0.0
        values, weights = attend(q, k, v, mask, dropout_p=dropout_p, need_weights=need_weights)
        return AttentionOutput(self.out_proj(merge_heads(values)), weights)

    def _project_apart(self, inputs: tuple[Tensor, ...], heads: list[int]) -> list[Tensor]:
        """Project queries, keys and values that are not one tensor: each with its own rows of `qkv_proj`."""
        rows = [count * self.head_dim for count in heads]
        weights = self.qkv_proj.weight.split(rows)
        biases = (None,) * 3 if self.qkv_proj.bias is None else self.qkv_proj.bias.split(rows)
        parts = zip(inputs, weights, biases, heads, strict=True)
        return [_split(F.linear(x, weight, bias), count, self.head_dim) for x, weight, bias, count in parts]

    def _check_input(self, name: str, x: Tensor, query: Tensor, dtype: torch.dtype) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
        if x.dim() != 3 or x.size(-1) != self.embed_dim:
            raise ValueError(f"{name} must have shape (batch, length, {self.embed_dim}), got {tuple(x.shape)}")
        if x.size(0) != query.size(0):
            raise ValueError(f"query and {name} must share one batch size, got {query.size(0)} and {x.size(0)}")
        if x.dtype != dtype and not _cast_by_autocast(x, dtype):
            raise TypeError(f"{name} must have the dtype of this layer, {dtype}, got {x.dtype}")

    def extra_repr(self) -> str:
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, num_kv_heads={self.num_kv_heads}"

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """A copy of torch's layer (either batch_first), with its weights, dropout, dtype, device and mode.

        Raises ValueError with the reason for a layer that this class cannot represent, TypeError for no such layer.
        """
        if not isinstance(module, nn.MultiheadAttention):
            raise TypeError(f"expected a torch.nn.MultiheadAttention, got {type(module).__name__}")
        if not module._qkv_same_embed_dim:
            raise ValueError(
                "keys and values of another width than the queries are not supported: "
                f"embed_dim {module.embed_dim}, kdim {module.kdim}, vdim {module.vdim}"
            )
        if module.bias_k is not None or module.bias_v is not None:
            raise ValueError("add_bias_kv=True is not supported: it appends a learned key and value to every sequence")
        if module.add_zero_attn:
            raise ValueError("add_zero_attn=True is not supported: it appends a key and a value of zeros")
        bias = module.in_proj_bias is not None
        ours = cls(module.embed_dim, module.num_heads, bias=bias, dropout=module.dropout)
        ours.to(module.in_proj_weight).train(module.training)
        # By attribute and not from its state dict, in which a parametrised layer has other names.
        ours.load_state_dict({name: attrgetter(_TORCH_NAMES[name])(module) for name in ours.state_dict()})
        return ours

    def to_torch(self) -> nn.MultiheadAttention:
        """A copy as torch's batch-first layer, with the weights, dropout, dtype, device and mode of this one.

        Raises ValueError with the reason for what torch's layer cannot represent.
        """
        if self.num_kv_heads != self.num_heads:
            raise ValueError(
                "torch.nn.MultiheadAttention has no shared key/value heads: "
                f"num_kv_heads is {self.num_kv_heads}, num_heads {self.num_heads}"
            )
        if isinstance(self.out_proj, nn.Identity):
            raise ValueError("torch.nn.MultiheadAttention always has an output projection, this layer has none")
        bias = self.qkv_proj.bias is not None
        theirs = nn.MultiheadAttention(self.embed_dim, self.num_heads, self.dropout, bias=bias, batch_first=True)
        theirs.to(self.qkv_proj.weight).train(self.training)
        theirs.load_state_dict({_TORCH_NAMES[name]: tensor for name, tensor in self.state_dict().items()})
        return theirs


# Ours and torch's name of each parameter; both stack the rows of W_Q, W_K and W_V in this order.
_TORCH_NAMES = {
    "qkv_proj.weight": "in_proj_weight",
    "qkv_proj.bias": "in_proj_bias",
    "out_proj.weight": "out_proj.weight",
    "out_proj.bias": "out_proj.bias",
}


def _split(x: Tensor, num_heads: int, head_dim: int) -> Tensor:
    return x.unflatten(-1, (num_heads, head_dim)).transpose(1, 2)


def _cast_by_autocast(x: Tensor, dtype: torch.dtype) -> bool:
    # It brings floating numbers to one dtype, but leaves float64 alone.
    castable = x.is_floating_point() and torch.float64 not in (x.dtype, dtype) and not x.is_meta
    return castable and torch.is_autocast_enabled(x.device.type)


def _check_axes(x: Tensor, axes: str, count: int) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor, got {type(x).__name__}")
    if x.dim() != count:
        raise ValueError(f"x must have shape ({axes}), got {tuple(x.shape)}")
