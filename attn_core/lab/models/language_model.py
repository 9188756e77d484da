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

KeysAndValues = tuple[Tensor, Tensor]  # (B, H, S, d) each
Cache = list[KeysAndValues]  # of each layer


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

    def forward(
        self,
        x: Tensor,
        past: KeysAndValues | None = None,
        rotary: RotaryEmbedding | None = None,
        bias: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, KeysAndValues, Tensor | None]:
        """x (B, L, D) -> (B, L, D), keys and values of all S tokens so far, and where asked for the weights.

        past: of the first S - L tokens. rotary: turns queries and keys. bias: (H, L, S), added to the scores.
        """
        query, key, value = self.attention.project(self.attention_norm(x))
        if rotary is not None:
            offset = 0 if past is None else past[0].size(2)  # the kept keys were turned when they came
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
        bias = None if self.bias is None else self.bias(tokens.size(1), length).to(x)
        kept, weights = [], []
        for layer, before in zip(self.layers, cache or [None] * len(self.layers), strict=True):
            x, keys_and_values, seen = layer(x, before, self.rotary, bias, need_weights)
            kept.append(keys_and_values)
            weights.append(seen)
        return Reading(self.answer(self.norm(x)), kept, weights)


def next_probabilities(logits: Tensor, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    """softmax(logits / temperature) over the last axis, (..., V) -> (..., V), where only the top_k greatest count.

    temperature: below 1 what is likely becomes likelier, above 1 all come closer to one another. top_k: V unless
    given; Fan et al. 2018, "Hierarchical Neural Story Generation". What is as great as the last of them counts too.
    Raises ValueError for a temperature that is not above 0 or a top_k below 1.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be above 0, got {temperature}")
    if top_k is not None:
        check_integers(top_k=top_k)
        least = logits.topk(min(top_k, logits.size(-1))).values[..., -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    return torch.softmax(logits / temperature, dim=-1)


def draw(probabilities: Tensor, generator: torch.Generator) -> Tensor:
    """One token for each row of probabilities (B, V), as (B, 1): the first at which their sum passes a random number.

    torch.multinomial does it too, but from the same seed draws other tokens on another machine.
    """
    sums = probabilities.double().cumsum(-1)
    # Times the sum of all, which rounding may leave a little off 1: else the last token would get the rest.
    random = torch.rand(len(sums), 1, generator=generator, dtype=torch.float64) * sums[:, -1:]
    return (sums[:, :-1] <= random).sum(-1, keepdim=True)


@torch.no_grad()
def generate(
    model: LanguageModel,
    start: Tensor,
    *,
    end: int,
    max_len: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator,
) -> Tensor:
    """start (B, L) -> the tokens drawn after it, one after the other, (B, at most max_len). It keeps a cache.

    A row that has drawn the token `end` is filled up with it; when all have, no more are drawn.
    """
    check_integers(max_len=max_len)
    rows, tokens, cache = [], start, None
    ended = torch.zeros(len(start), 1, dtype=torch.bool)
    while len(rows) < max_len and not ended.all():
        reading = model.read(tokens, cache)
        probabilities = next_probabilities(reading.logits[:, -1], temperature, top_k)
        tokens, cache = draw(probabilities, generator).masked_fill(ended, end), reading.cache
        ended |= tokens == end
        rows.append(tokens)
    return torch.cat(rows, dim=1)
