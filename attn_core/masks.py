"""Masks: which query may look at which key. True = may attend, everywhere in this package.

`torch.nn.functional.scaled_dot_product_attention` reads bool masks the same way;
`torch.nn.MultiheadAttention` reads them the other way round (True = blocked), so negate a mask
with `~` for it.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from attn_core._checks import check_choice, check_integers, checked_padding


def causal_mask(
    query_len: int,
    key_len: int | None = None,
    *,
    align: str = "lower_right",
) -> Tensor:
    """Bool mask (L, S) in which a query sees only keys that are not in its future.

    query_len: L. key_len: S, or L where it is not given.
    align: where L and S differ, the diagonal ends in the "lower_right" corner (the last query sees
        every key, as when decoding with a cache) or starts in the "upper_left" one (the first query
        sees the first key only). With "lower_right" and L > S the first L - S queries see no key.

    Source: Vaswani et al. 2017, section 3.2.3; the alignments are named as in
    `torch.nn.attention.bias`.
    Raises ValueError for a length below 0 or an alignment that is neither, TypeError for no
    integer.
    """
    key_len = query_len if key_len is None else key_len
    check_integers(0, query_len=query_len, key_len=key_len)
    check_choice("align", align, "lower_right", "upper_left")
    offset = key_len - query_len if align == "lower_right" else 0
    return torch.ones(query_len, key_len, dtype=torch.bool).tril(offset)


def padding_mask(lengths: Tensor | Sequence[int], max_len: int | None = None) -> Tensor:
    """Bool mask (B, 1, 1, S) that hides the padding behind each sequence from every head and query.

    lengths: B integers, the number of real tokens of each sequence; 0 hides the whole sequence.
    max_len: S, or the largest of the lengths where it is not given. The lengths are looked at, so
        a model that makes this mask inside cannot be exported for any lengths: make it outside.

    It masks keys only. Queries in the padding still get a (meaningless, finite) output: leave it
    out of the loss. Combine it with a causal mask by `&`.
    Raises ValueError for lengths that are negative, above max_len or not in one row, TypeError for
    no integers.
    """
    lengths, max_len = checked_padding(lengths, max_len)
    kept = torch.arange(max_len, device=lengths.device) < lengths[:, None]
    return kept[:, None, None, :]


def and_causal(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor:
    """The mask and the lower right causal mask of this query and key at once."""
    query_len, key_len = query.size(-2), key.size(-2)
    past = torch.ones(query_len, key_len, dtype=torch.bool, device=query.device)
    past = past.tril(key_len - query_len)
    if mask is None:
        return past
    return mask & past if mask.dtype == torch.bool else mask.masked_fill(~past, -math.inf)


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What is added to the scores: a float mask as it is, a bool mask as 0 and -inf."""
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    # -inf and not a large negative number: it exists in every dtype, and its weight is exactly 0.
    return torch.where(mask, 0.0, -math.inf).to(dtype)


def blind_queries(mask: Tensor) -> Tensor | None:
    """(..., L, 1), True for a query that may attend to nothing; None where surely there is none.

    Most masks leave every query something, and to know that saves passes over (L, S) arrays.
    """
    seen = (mask if mask.dtype == torch.bool else mask != -math.inf).any(-1, keepdim=True)
    if mask.device.type != "cpu" or torch.compiler.is_compiling() or torch.jit.is_tracing():
        # To read the answer, a GPU would have to finish all it does first; and what is compiled or
        # traced would keep the answer for this mask as the one for every mask.
        return ~seen
    try:
        return None if seen.all() else ~seen
    except RuntimeError:  # torch.func.vmap: the answer may differ from mask to mask
        return ~seen
