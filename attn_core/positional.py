"""Positions: five ways to tell attention which token stands where.

Attention by itself is equivariant: permute the tokens and the outputs are permuted with them,
otherwise unchanged. Sinusoidal and learned codes are added to the inputs, rotary ones turn queries
and keys, ALiBi and relative biases are added to the scaled scores (pass them to attention as a
float mask).
"""

import math

import torch
from torch import Tensor, nn

from attn_core._checks import (
    check_bools,
    check_choice,
    check_even_head_dim,
    check_greater,
    check_integers,
    check_multiple,
    check_positions,
    check_width,
)


class SinusoidalPositionalEncoding(nn.Module):
    r"""Fixed waves: even columns sine, odd columns cosine. Vaswani et al. 2017, section 3.5.

        PE[p, 2i] = sin(p / base^(2i/d)),   PE[p, 2i+1] = cos(p / base^(2i/d))

    Wavelengths run from 2π to (almost) base · 2π in a geometric series. An odd d_model leaves out
    the last cosine.
    max_len: rows made at once; more are made when a longer sequence comes. Nothing is stored in the
        state dict.

    The table is made in float64 and rounded once, to the dtype of the input: in bfloat16 and
    float16 each entry is off by at most half a unit of that type, however large p is.
    Raises ValueError for sizes that are not positive or a base of 1 or less.
    """

    def __init__(self, d_model: int, max_len: int = 5000, base: float = 10000.0):
        super().__init__()
        check_integers(d_model=d_model, max_len=max_len)
        check_greater("base", base, 1)
        self.d_model, self.base = d_model, base
        self._rows = self._make(max_len)

    def table(self, length: int) -> Tensor:
        """(length, d_model) in float64, the codes of positions 0 to length - 1."""
        check_integers(0, length=length)
        if length > len(self._rows):
            self._rows = self._make(max(length, 2 * len(self._rows)))
        return self._rows[:length]

    def forward(self, x: Tensor) -> Tensor:
        """(..., L, d_model) -> the same shape: the code of position p is added to each row p."""
        check_width(x, self.d_model)
        return x + self.table(x.size(-2)).to(x)

    def extra_repr(self) -> str:
        return f"{self.d_model}, base={self.base}"

    # A pickle holds the number of rows and not the rows: 5000 of 512 numbers are 20 MB.
    def __getstate__(self) -> dict:
        return self.__dict__ | {"_rows": len(self._rows)}

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._rows = self._make(state["_rows"])

    # The rows are kept for later calls. Made in inference mode they could not be trained with, hence
    # the decorator; made under `torch.device("meta")` they would hold no numbers, hence "cpu".
    @torch.inference_mode(False)
    def _make(self, length: int) -> Tensor:
        position = torch.arange(length, dtype=torch.float64, device="cpu")[:, None]
        columns = torch.arange(0, self.d_model, 2, dtype=torch.float64, device="cpu")
        angle = position * self.base ** (-columns / self.d_model)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)[:, : self.d_model]


class LearnedPositionalEncoding(nn.Module):
    """One trained row per position, as in BERT (Devlin et al. 2018) and in Gehring et al. 2017.

    d_model: the width. max_len: the number of rows; a longer sequence is refused. Rows start normal
    with standard deviation 0.02.
    """

    def __init__(self, d_model: int, max_len: int):
        super().__init__()
        check_integers(d_model=d_model, max_len=max_len)
        self.weight = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        """(..., L, d_model) -> the same shape. Raises ValueError for L past max_len."""
        max_len, d_model = self.weight.shape
        check_width(x, d_model)
        check_positions(x.size(-2), max_len)
        return x + self.weight[: x.size(-2)]

    def extra_repr(self) -> str:
        max_len, d_model = self.weight.shape
        return f"{d_model}, max_len={max_len}"


class RotaryEmbedding(nn.Module):
    r"""Turn each pair of entries by an angle that grows with the position.

        (a, b) at position p -> (a cos pθ_i - b sin pθ_i,  a sin pθ_i + b cos pθ_i)
        θ_i = base^(-2i/d)

    Source: Su et al. 2021, "RoFormer", section 3.2.2.
    The product of a query at m and a key at n then depends on m - n only, and no length changes.
    layout: which entries make pair i: "interleaved" takes 2i and 2i+1 (the paper), "half_split"
        takes i and i + d/2 (GPT-NeoX, Llama as published for transformers).
    Raises ValueError for an odd head_dim or another layout.
    """

    def __init__(self, head_dim: int, base: float = 10000.0, *, layout: str = "interleaved"):
        super().__init__()
        check_even_head_dim(head_dim)
        check_choice("layout", layout, "interleaved", "half_split")
        self.head_dim, self.layout = head_dim, layout
        # The table of sinusoidal codes has just what is needed: the columns sin pθ_i, cos pθ_i.
        self.angles = SinusoidalPositionalEncoding(head_dim, 128, base)

    def forward(self, q_or_k: Tensor, offset: int = 0) -> Tensor:
        """(..., L, head_dim) -> the same shape.

        offset: the position of the first row, for decoding with a cache.
        """
        check_width(q_or_k, self.head_dim)
        check_integers(0, offset=offset)
        length = q_or_k.size(-2)
        # Half precision is turned in float32: else each of the two products would be rounded, and
        # their sum once more.
        x = q_or_k if q_or_k.dtype == torch.float64 else q_or_k.float()
        codes = self.angles.table(offset + length)[offset:].to(x)
        sin, cos = codes.unflatten(-1, (-1, 2)).unbind(-1)
        shape, axis = ((-1, 2), -1) if self.layout == "interleaved" else ((2, -1), -2)
        a, b = x.unflatten(-1, shape).unbind(axis)
        turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=axis)
        return turned.flatten(-2).to(q_or_k.dtype)

    def extra_repr(self) -> str:
        return f"{self.head_dim}, layout={self.layout!r}"


class AlibiBias(nn.Module):
    """Attention with linear biases: the further a key, the lower its score.

    The slope of head h of H is 2^(-8h/H), h = 1 ... H, where H is a power of two. Else, as in the
    authors' code, the largest power of two below H gets its slopes, and the rest take every second
    slope of twice that power.
    Source: Press et al. 2021, section 3.
    """

    slopes: Tensor  # (H,)

    def __init__(self, num_heads: int):
        super().__init__()
        check_integers(num_heads=num_heads)
        below = 2 ** (int(num_heads).bit_length() - 1)
        slopes = _powers(below) + _powers(2 * below)[::2][: num_heads - below]
        self.register_buffer("slopes", torch.tensor(slopes))

    def forward(self, query_len: int, key_len: int) -> Tensor:
        """(H, L, S), added to the scaled scores: minus slope times distance, in both directions.

        The last query stands at the last key, as in a lower-right causal mask. The paper uses it
        with such a mask.
        """
        distance = _relative_positions(query_len, key_len, self.slopes.device).abs()
        bias = -self.slopes[:, None, None].double() * distance  # float64, then rounded only once
        return bias.to(self.slopes.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.slopes)}"


class RelativePositionBias(nn.Module):
    """A trained number per head and bucket of distances. Raffel et al. 2020 (T5), section 2.1.

    Small distances have a bucket each, larger ones share buckets that widen logarithmically up to
    max_distance; all beyond share the last.
    bidirectional: half of the buckets for keys after the query; else those count as distance 0.
    Raises ValueError for buckets that cannot be halved or a max_distance within the exact ones.
    """

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
    ):
        super().__init__()
        check_integers(num_heads=num_heads, num_buckets=num_buckets, max_distance=max_distance)
        check_bools(bidirectional=bidirectional)
        check_multiple("num_buckets", num_buckets, 4 if bidirectional else 2)
        self.per_side = num_buckets // 2 if bidirectional else num_buckets
        check_greater("max_distance", max_distance, self.per_side // 2)
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.weight = nn.Parameter(torch.zeros(num_buckets, num_heads))

    def forward(self, query_len: int, key_len: int) -> Tensor:
        """(H, L, S), added to the scaled scores. The last query stands at the last key."""
        relative = _relative_positions(query_len, key_len, self.weight.device)
        return self.weight[self.buckets(relative)].permute(2, 0, 1)

    def extra_repr(self) -> str:
        num_buckets, num_heads = self.weight.shape
        sizes = f"{num_heads}, num_buckets={num_buckets}, max_distance={self.max_distance}"
        return f"{sizes}, bidirectional={self.bidirectional}"

    def buckets(self, relative: Tensor) -> Tensor:
        """The bucket of each key position minus query position, any shape of integers."""
        distance = relative.abs() if self.bidirectional else (-relative).clamp(min=0)
        exact = self.per_side // 2
        ratio = distance.clamp(min=1).double() / exact
        widening = ratio.log() / math.log(self.max_distance / exact)  # from 0 to 1, at max_distance
        shared = (exact + widening * (self.per_side - exact)).long().clamp(max=self.per_side - 1)
        bucket = torch.where(distance < exact, distance, shared)
        return bucket + self.per_side * (relative > 0) if self.bidirectional else bucket


def _powers(num_heads: int) -> list[float]:
    return [2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)]


def _relative_positions(query_len: int, key_len: int, device: torch.device) -> Tensor:
    """(L, S), key position minus query position."""
    check_integers(0, query_len=query_len, key_len=key_len)
    query = torch.arange(key_len - query_len, key_len, device=device)
    return torch.arange(key_len, device=device) - query[:, None]
