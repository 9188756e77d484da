"""A causal language model: the layers of the encoder, but every token looks back only, and says what comes next.

It is the decoder of Vaswani et al. 2017 without the part that looks at an encoder, as in Radford et al. 2018 (GPT),
section 3.1, and pre-norm as in Radford et al. 2019 (GPT-2), section 2.3.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from attn_core._checks import check_integers
from attn_core.lab.models.encoder import EncoderLayer
from attn_core.positional import AlibiBias, RotaryEmbedding, SinusoidalPositionalEncoding

ENCODINGS = ("none", "sinusoidal", "rotary", "alibi")

Cache = list[tuple[Tensor, Tensor]]  # for each layer the keys and the values so far, (B, H, S, d) each


class Reading(NamedTuple):
    """What the model makes of some tokens.

    logits: (B, L, V), a score for each of the V tokens that may come next. cache: with the new tokens, for the next
    call. weights: for each layer (B, H, L, S), where asked for.
    """

    logits: Tensor
    cache: Cache
    weights: list[Tensor | None]


class CausalLayer(EncoderLayer):
    """An encoder layer that looks back only, also at keys and values that it kept from tokens before."""

    def forward(self, x, past=None, rotary=None, bias=None, need_weights=False):
        """x (B, L, D), past: keys and values (B, H, S - L, d) -> (B, L, D), all keys and values, weights (B, H, L, S).

        rotary: turns queries and keys, the first of them at the position S - L. Keys are kept as turned: a position
        does not change later. bias: (H, L, S), added to the scores.
        """
        query, key, value = self.attention.project(self.attention_norm(x))
        if rotary is not None:
            offset = 0 if past is None else past[0].size(2)
            query, key = rotary(query, offset), rotary(key, offset)
        if past is not None:
            key, value = torch.cat([past[0], key], dim=2), torch.cat([past[1], value], dim=2)
        found = self.attention.attend(query, key, value, mask=bias, causal=True, need_weights=need_weights)
        x = x + found.values
        return x + self.network(self.network_norm(x)), (key, value), found.weights


class LanguageModel(nn.Module):
    """Embedding, layers that look back only, a norm, and a linear score for each token that may come next.

    vocabulary_size: V, how many tokens there are. encoding: one of ENCODINGS, the code of positions.
    Raises ValueError for another encoding.
    """

    def __init__(
        self, vocabulary_size: int, *, d_model: int, num_heads: int, num_layers: int, encoding: str = "rotary"
    ):
        super().__init__()
        if encoding not in ENCODINGS:
            raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, got {encoding!r}")
        self.embedding = nn.Embedding(vocabulary_size, d_model)
        self.layers = nn.ModuleList(CausalLayer(d_model, num_heads) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model)
        self.answer = nn.Linear(d_model, vocabulary_size)
        self.code = SinusoidalPositionalEncoding(d_model) if encoding == "sinusoidal" else None
        self.rotary = RotaryEmbedding(d_model // num_heads) if encoding == "rotary" else None
        self.bias = AlibiBias(num_heads) if encoding == "alibi" else None

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (B, L) of integers -> logits (B, L, V): after each token, what comes next."""
        return self.read(tokens).logits

    def read(self, tokens: Tensor, cache: Cache | None = None, need_weights: bool = False) -> Reading:
        """tokens (B, L) -> logits for them, given also the tokens that the cache holds."""
        past = 0 if cache is None else cache[0][0].size(2)
        length = past + tokens.size(1)
        x = self.embedding(tokens)
        if self.code is not None:
            x = x + self.code.table(length)[past:].to(x)
        bias = None if self.bias is None else self.bias(tokens.size(1), length)
        kept, weights = [], []
        for layer, before in zip(self.layers, cache or [None] * len(self.layers), strict=True):
            x, keys_and_values, seen = layer(x, before, self.rotary, bias, need_weights)
            kept.append(keys_and_values)
            weights.append(seen)
        return Reading(self.answer(self.norm(x)), kept, weights)


def next_probabilities(logits: Tensor, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    """softmax(logits / temperature) over the last axis, after all but the top_k greatest logits are set aside.

    temperature: below 1 the likely becomes likelier still, above 1 all becomes more even. top_k: all tokens unless
    given; Fan et al. 2018, "Hierarchical Neural Story Generation", section 5.4. What ties with the last of them stays.
    Raises ValueError for a temperature that is not above 0 or a top_k below 1.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if top_k is not None:
        check_integers(top_k=top_k)
        least = logits.topk(min(top_k, logits.size(-1))).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    return torch.softmax(logits / temperature, dim=-1)


@torch.no_grad()
def generate(
    model: LanguageModel,
    start: Tensor,
    end: int,
    max_len: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator,
) -> Tensor:
    """start (B, L) -> the tokens drawn after it, (B, at most max_len), one after the other, with a cache.

    A row that has drawn the token end is filled up with it. Stops when all rows have.
    """
    check_integers(max_len=max_len)
    rows, reading = [], model.read(start)
    ended = torch.zeros(len(start), dtype=torch.bool)
    for _ in range(max_len):
        drawn = torch.multinomial(next_probabilities(reading.logits[:, -1], temperature, top_k), 1, generator=generator)
        rows.append(drawn[:, 0].masked_fill(ended, end))
        ended |= rows[-1] == end
        if ended.all():
            break
        reading = model.read(drawn, reading.cache)
    return torch.stack(rows, dim=1)
