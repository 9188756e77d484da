"""The maps of an untrained layer for any sentence, from numbers that a page without a kernel can
compute as well.

No number comes from a generator: each is a hash of where it stands. hashed.js takes the same steps.
All of it is on unsigned 32-bit integers; sums and products keep the lower 32 bits:

    mix(x):             x ^= x >> 16;  x *= 0x7FEB352D;  x ^= x >> 15;  x *= 0x846CA68B;  x ^= x >> 16
    number(seed, i)     = mix(seed + i · 0x9E3779B9) / 2³¹ − 1, in float64: evenly spread over [−1, 1)
    seed of a token:    h = 0x811C9DC5, then for each of its code points c: h = (h ^ c) · 0x01000193
    its vector:         entry j is √3 · number(seed of the token, j), so that the standard deviation is 1
    W_Q, W_K:           below one another, 2D rows of D columns; the entry in row r and column c, both from 0,
                        is √3 · 1.4/√D · number(D, r·D + c)

So a token has the same vector wherever it stands, and the number of heads changes nothing but the
split. Sources: `mix` is lowbias32 of Chris Wellons' hash-prospector; the seed is FNV-1a, on code
points in place of bytes.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np
import regex
import torch

from attn_core.attention import scaled_dot_product_attention
from attn_core.multihead import split_heads
from attn_core.show.style import MOST_TOKENS

# Wider than a layer starts out: its first maps would be almost even, and one could not tell the
# heads apart.
SPREAD = 1.4

# What nobody sees and a text may carry from where it was copied: byte-order marks, spaces without
# width, soft hyphens, marks of direction. Joiners, tags and marks change the letter before them and
# stay, but where there is none.
_INVISIBLE = regex.compile(
    r"^\p{Default_Ignorable_Code_Point}+"
    r"|(?![\p{M}\u200c\u200d\U000e0020-\U000e007f])\p{Default_Ignorable_Code_Point}"
)
# Scripts that put no spaces between words.
_UNSPACED = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]")


def words_of(text: str) -> list[str]:
    """What white space separates, without what nobody sees."""
    return [seen for word in text.split() if (seen := _INVISIBLE.sub("", word))]


def split_tokens(text: str) -> tuple[str, ...]:
    """The tokens of a sentence: what white space separates. A single word is one token where its
    letters are of scripts that put spaces between words, as Latin does; else its characters are, as
    in 小猫吃了鱼.

    A character is what a reader takes for one, a grapheme cluster of Unicode: a letter with its
    marks, an emoji with what is tied to it, a flag, a Korean syllable.
    Raises ValueError for no token and for more than MOST_TOKENS.
    """
    words = words_of(text)
    tokens = tuple(words)
    if len(words) == 1 and (_UNSPACED.search(words[0]) or not regex.search(r"\p{L}", words[0])):
        tokens = tuple(regex.findall(r"\X", words[0]))
    if not tokens:
        raise ValueError(f"the sentence is empty; type 1 to {MOST_TOKENS} tokens")
    if len(tokens) > MOST_TOKENS:
        raise ValueError(f"the sentence has {len(tokens)} tokens, and at most {MOST_TOKENS} can be shown; shorten it")
    return tokens


def head_maps(tokens: Sequence[str], embed_dim: int, num_heads: int) -> torch.Tensor:
    """The weights (H, L, L), float64, that an untrained layer gives to L tokens.

    Raises ValueError where num_heads does not divide embed_dim.
    """
    vectors = token_vectors(tokens, embed_dim)[None]
    q, k = (split_heads(vectors @ matrix.T, num_heads) for matrix in _projections(embed_dim))
    weights = scaled_dot_product_attention(q, k, k).weights  # the values change no weight
    assert weights is not None  # they are given unless refused
    return weights[0]


def token_vectors(tokens: Sequence[str], embed_dim: int) -> torch.Tensor:
    """The vectors (L, D) of tokens, float64."""
    seeds = np.array([_seed(token) for token in tokens], dtype=np.uint32)
    return torch.from_numpy(math.sqrt(3) * _numbers(seeds[:, None], np.arange(embed_dim, dtype=np.uint32)))


@functools.lru_cache(maxsize=2)  # a slider of heads moves on one dimension
def _projections(embed_dim: int) -> tuple[torch.Tensor, ...]:
    """W_Q and W_K, (D, D) each."""
    places = np.arange(2 * embed_dim**2, dtype=np.uint32).reshape(2, embed_dim, embed_dim)
    matrices = _numbers(np.uint32(embed_dim), places)
    matrices *= math.sqrt(3) * SPREAD / math.sqrt(embed_dim)
    return torch.from_numpy(matrices).unbind()


def _seed(token: str) -> int:
    seed = 0x811C9DC5
    for character in token:
        seed = (seed ^ ord(character)) * 0x01000193 & 0xFFFFFFFF
    return seed


def _numbers(seeds: np.ndarray | np.uint32, places: np.ndarray) -> np.ndarray:
    x: np.ndarray = seeds + places * np.uint32(0x9E3779B9)  # arrays of uint32 wrap
    x ^= x >> 16
    x *= np.uint32(0x7FEB352D)
    x ^= x >> 15
    x *= np.uint32(0x846CA68B)
    x ^= x >> 16
    numbers = x / 2**31
    numbers -= 1
    return numbers
