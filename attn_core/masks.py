"""Masks: which query may look at which key. True = may attend, everywhere in this package.

`torch.nn.functional.scaled_dot_product_attention` reads bool masks the same way;
`torch.nn.MultiheadAttention` reads them the other way round (True = blocked), so negate a mask with `~` for it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def causal_mask(query_len: int, key_len: int | None = None, *, align: str = "lower_right") -> Tensor:
    """Bool mask (L, S) in which a query sees only keys that are not in its future.

    query_len: L. key_len: S, or L where it is not given.
    align: where L and S differ, the diagonal ends in the "lower_right" corner (the last query sees every key,
        as when decoding with a cache) or starts in the "upper_left" one (the first query sees the first key only).
        With "lower_right" and L > S the first L - S queries see no key at all.

    Source: Vaswani et al. 2017, section 3.2.3; the names of the alignments follow `torch.nn.attention.bias`.
    Raises ValueError for a length that is not positive or an alignment that is neither, TypeError for no integer.
    """
    key_len = query_len if key_len is None else key_len
    for name, length in (("query_len", query_len), ("key_len", key_len)):
        if not isinstance(length, (int, torch.SymInt)) or isinstance(length, bool):
            raise TypeError(f"{name} must be an integer, got {length!r}")
        if length < 1:
            raise ValueError(f"{name} must be at least 1, got {length}")
    if align not in ("lower_right", "upper_left"):
        raise ValueError(f'align must be "lower_right" or "upper_left", got {align!r}')
    offset = key_len - query_len if align == "lower_right" else 0
    return torch.ones(query_len, key_len, dtype=torch.bool).tril(offset)


def padding_mask(lengths: Tensor | Sequence[int], max_len: int | None = None) -> Tensor:
    """Bool mask (B, 1, 1, S) that hides the padding behind each sequence from every head and every query.

    lengths: B integers, the number of real tokens of each sequence; 0 hides the whole sequence.
    max_len: S, or the largest of the lengths where it is not given.

    It masks keys only. Queries in the padding still get a (meaningless, finite) output: leave it out of the loss.
    Combine it with a causal mask by `&`.
    Raises ValueError for lengths that are negative, above max_len or not in one row, TypeError for no integers.
    """
    try:
        lengths = torch.as_tensor(lengths)
    except (RuntimeError, TypeError, ValueError):
        raise TypeError(f"lengths must be one row of integers, got {lengths!r}") from None
    if lengths.dim() != 1 or lengths.numel() == 0:
        raise ValueError(f"lengths must be one row of at least one integer, got shape {tuple(lengths.shape)}")
    if lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be integers, got {lengths.dtype}")
    lengths = lengths.long()  # in a short dtype such as uint8 a comparison with a larger max_len would overflow
    shortest, longest = int(lengths.min()), int(lengths.max())
    if max_len is None:
        max_len = longest
    elif not isinstance(max_len, int) or isinstance(max_len, bool):
        raise TypeError(f"max_len must be an integer, got {max_len!r}")
    if shortest < 0 or longest > max_len:
        raise ValueError(f"lengths must lie between 0 and max_len = {max_len}, got {lengths.tolist()}")
    return (torch.arange(max_len, device=lengths.device) < lengths[:, None])[:, None, None, :]
