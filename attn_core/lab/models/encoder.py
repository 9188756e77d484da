"""An encoder classifier, with or without a code for positions.

Pre-norm, x + f(LayerNorm(x)), as in Xiong et al. 2020; the Transformer of 2017 is post-norm, LayerNorm(x + f(x)).
"""

import torch
from torch import Tensor, nn

from attn_core.multihead import MultiHeadAttention
from attn_core.positional import (
    AlibiBias,
    LearnedPositionalEncoding,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionalEncoding,
)

ENCODINGS = ("none", "sinusoidal", "learned", "rotary", "alibi", "relative")


class EncoderClassifier(nn.Module):
    """Embedding, layers of self-attention and a two-layer network each, and a linear answer.

    vocabulary_size, num_classes: tokens that come in, classes that go out. encoding: one of ENCODINGS.
    max_len: rows of the learned table; the other encodings need none.
    pool: one answer for the whole input, from the mean over its tokens; else one answer per token.
    padding: the token that fills short inputs up, which nobody may attend to; None where there is none.
    Raises ValueError for another encoding, a max_len without a learned table or a learned table without one.
    """

    def __init__(
        self,
        vocabulary_size: int,
        num_classes: int,
        *,
        d_model: int = 64,
        num_heads: int = 4,
        num_layers: int = 2,
        encoding: str = "none",
        max_len: int | None = None,
        pool: bool = False,
        padding: int | None = None,
    ):
        super().__init__()
        if encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, got {encoding!r}")
        if (encoding == "learned") != (max_len is not None):
            raise ValueError(f"max_len is the length of a learned table, got {max_len} for encoding {encoding!r}")
        self.pool, self.padding = pool, padding
        self.embedding = nn.Embedding(vocabulary_size, d_model)
        self.layers = nn.ModuleList(EncoderLayer(d_model, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.answer = nn.Linear(d_model, num_classes)
        self.code = self.rotary = self.bias = None
        if encoding == "sinusoidal":
            self.code = SinusoidalPositionalEncoding(d_model)
        elif encoding == "learned":
            self.code = LearnedPositionalEncoding(d_model, max_len)
        elif encoding == "rotary":
            self.rotary = RotaryEmbedding(d_model // num_heads)
        elif encoding != "none":
            self.bias = AlibiBias(num_heads) if encoding == "alibi" else RelativePositionBias(num_heads)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, L) of integers -> logits (B, L, classes), or (B, classes) where pooled."""
        x = self.embedding(tokens)
        if self.code is not None:
            x = self.code(x)
        mask = None if self.bias is None else self.bias(tokens.size(1), tokens.size(1))
        if self.padding is not None:
            kept = (tokens != self.padding)[:, None, None, :]  # (B, 1, 1, S)
            mask = kept if mask is None else torch.where(kept, mask, -torch.inf)
        for layer in self.layers:
            x = layer(x, mask, self.rotary)
        x = self.norm(x)
        if self.pool:
            share = torch.ones_like(tokens) if self.padding is None else tokens != self.padding
            x = torch.einsum("bld,bl->bd", x, (share / share.sum(1, keepdim=True).clamp(min=1)).to(x))
        return self.answer(x)


class EncoderLayer(nn.Module):
    """x + attention(LayerNorm(x)), then x + network(LayerNorm(x)); the network is four times as wide inside."""

    def __init__(self, d_model: int, num_heads: int):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, num_heads)
        self.attention_norm, self.network_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.network = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x: Tensor, mask: Tensor | None = None, rotary: RotaryEmbedding | None = None) -> Tensor:
        """(B, L, D) -> (B, L, D). mask: as in MultiHeadAttention. rotary: turns queries and keys before they meet."""
        normed = self.attention_norm(x)
        if rotary is None:
            x = x + self.attention(normed, mask=mask).values
        else:
            x = x + rotary_attention(self.attention, rotary, normed, mask)
        return x + self.network(self.network_norm(x))


def rotary_attention(attention: MultiHeadAttention, rotary: RotaryEmbedding, x: Tensor, mask: Tensor | None) -> Tensor:
    """The layer's own steps, with one more between the projection and the scores: q and k are turned. (B, L, D)."""
    q, k, v = attention.project(x)
    return attention.attend(rotary(q), rotary(k), v, mask=mask).values
