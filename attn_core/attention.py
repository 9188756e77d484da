"""Scaled dot-product attention: what one head does.

Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation (1):

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class AttentionOutput(NamedTuple):
    """What attention returns.

    values: (..., L, d_v), one weighted average of the value rows per query.
    weights: (..., L, S), what softmax gave, before dropout; None unless asked for.
    """

    values: Tensor
    weights: Tensor | None


class AttentionTrace(NamedTuple):
    """Every intermediate of attention, in the order in which they are computed.

    scores: (..., L, S), Q Kᵀ.
    scaled: (..., L, S), the scores divided by √d_k.
    masked: (..., L, S), the scaled scores with -inf where a query may not attend.
    weights: (..., L, S), softmax of the masked scores over the keys.
    values: (..., L, d_v), weights times V.
    """

    scores: Tensor
    scaled: Tensor
    masked: Tensor
    weights: Tensor
    values: Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = True,
) -> AttentionOutput:
    """softmax(Q Kᵀ · scale + mask) V, Vaswani et al. 2017, equation (1).

    query: (..., L, d_k), key: (..., S, d_k), value: (..., S, d_v), all of one floating dtype.
    mask: broadcastable to (..., L, S). Bool: True = may attend. Float: added to the scaled scores.
    scale: 1/√d_k unless given.
    dropout_p: the share of weights set to zero before they meet the values; 0 ≤ p < 1. It is applied
        whenever it is not 0: pass 0 in evaluation.
    need_weights: False takes torch's fused kernel, which never stores the (L, S) weights.

    A query that may attend to nothing gets zero weights and zero values.
    Raises ValueError for shapes, scale or dropout_p that do not fit, TypeError for dtypes.
    """
    query, key, value = checked_inputs(query, key, value)
    return attend(query, key, value, mask, scale=scale, dropout_p=dropout_p, need_weights=need_weights)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scale: float | None = None,
    dropout_p: float,
    need_weights: bool,
) -> AttentionOutput:
    """`scaled_dot_product_attention` of a query, a key and a value that are known to fit one another."""
    mask = None if mask is None else _checked_mask(mask, query, key)
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else _checked_scale(scale)
    if not isinstance(dropout_p, (int, float)) or not 0 <= dropout_p < 1:
        raise ValueError(f"dropout_p must be at least 0 and less than 1, got {dropout_p!r}")
    if not need_weights:
        values = F.scaled_dot_product_attention(query, key, value, mask, dropout_p=dropout_p, scale=scale)
        return AttentionOutput(values, None)

    # One batch axis, (N, L, d), is what the batched matrix product takes.
    batch = query.shape[:-2]
    if not batch:
        query, key, value = query[None], key[None], value[None]
    query, key, value = query.flatten(0, -3), key.flatten(0, -3), value.flatten(0, -3)
    # It takes the scale along, which saves a pass over the (L, S) scores; with beta=0 the first argument is ignored.
    scores = torch.baddbmm(query.new_empty(()), query, key.mT, beta=0, alpha=scale)
    if mask is None:
        weights = _softmax_over_keys(scores)
    else:
        weights = _masked_softmax(scores.view(*batch, *scores.shape[1:]), mask).view(scores.shape)
    values = torch.bmm(F.dropout(weights, dropout_p) if dropout_p else weights, value)
    return AttentionOutput(values.view(*batch, *values.shape[1:]), weights.view(*batch, *weights.shape[1:]))


def attention_trace(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> AttentionTrace:
    """Attention step by step, with every intermediate kept: for looking, not for speed.

    Shapes, masks, errors as in `scaled_dot_product_attention`, and its results unless half precision is too small.
    """
    query, key, value = checked_inputs(query, key, value)
    mask = None if mask is None else _checked_mask(mask, query, key)
    scores = query @ key.transpose(-2, -1)
    scaled = scores / math.sqrt(query.size(-1))
    masked = scaled if mask is None else _apply_mask(scaled, mask)
    weights = scaled.softmax(-1) if mask is None else _masked_softmax(scaled, mask)
    return AttentionTrace(scores, scaled, masked, weights, weights @ value)


def _apply_mask(scores: Tensor, mask: Tensor) -> Tensor:
    # -inf and not a large negative number: it exists in every dtype and its weight is exactly zero.
    return scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the keys the mask leaves, (..., L, S); a query that it leaves none gets zeros."""
    masked = _apply_mask(scores, mask)
    # In half precision a score plus the least number, which some masks use, may be -inf; torch adds in float32.
    nothing = ~mask if mask.dtype == torch.bool else (mask == -math.inf) | (masked == -math.inf)
    blind = nothing.all(-1, keepdim=True)
    # Softmax of a row of -inf is 0/0, and its NaN would spoil the gradients too: fill such a row before and after.
    return _softmax_over_keys(masked.masked_fill(blind, 0.0)).masked_fill(blind, 0.0)


def _softmax_over_keys(scores: Tensor) -> Tensor:
    """Softmax over the last axis. It overwrites its input where no gradient needs it."""
    if torch.is_grad_enabled():
        return scores.softmax(-1)
    # Autocast, which may want the weights in float32, has made the scores half precision: no need to ask for others.
    half = scores.dtype in (torch.float16, torch.bfloat16)
    if half and (scores.is_meta or torch.is_autocast_enabled(scores.device.type)):
        return scores.softmax(-1)
    try:
        # A second (L, S) array would take longer to come by than the softmax itself.
        return torch.softmax(scores, -1, out=scores)
    except RuntimeError:  # torch.func.vmap cannot write into a given array
        return scores.softmax(-1)


def checked_inputs(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Check the three inputs; they come back with the same axes before the last two, broadcast where needed."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(tensor).__name__}")
        if tensor.dim() < 2:
            raise ValueError(f"{name} must have shape (..., length, width), got {tuple(tensor.shape)}")
    if not (query.dtype == key.dtype == value.dtype and query.is_floating_point()):
        raise TypeError(
            "query, key and value must share one floating dtype such as torch.float32, "
            f"got {query.dtype}, {key.dtype}, {value.dtype}"
        )
    if not query.device == key.device == value.device:
        # Not every kernel checks: with one of them on "meta" the result would be memory that nobody wrote.
        raise ValueError(
            f"query, key and value must be on one device, got {query.device}, {key.device}, {value.device}"
        )
    if query.size(-1) != key.size(-1) or query.size(-1) == 0:
        raise ValueError(
            f"query and key must have the same width d_k of at least 1, got {query.size(-1)} and {key.size(-1)}"
        )
    if key.size(-2) != value.size(-2):
        raise ValueError(f"key and value must have the same length S, got {key.size(-2)} and {value.size(-2)}")
    batch = query.shape[:-2]
    if batch == key.shape[:-2] == value.shape[:-2]:
        return query, key, value
    try:
        batch = torch.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
        return tuple(x.expand(*batch, *x.shape[-2:]) for x in (query, key, value))
    except RuntimeError:
        raise ValueError(
            "the axes before the last two must be equal or broadcastable, got "
            f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
        ) from None


def check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, (int, torch.SymInt)) or isinstance(size, bool) or size < 1:
            raise ValueError(f"{name} must be a positive integer, got {size!r}")


def _checked_mask(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Check the mask; it comes back on the device of the query and, where it is added, in its dtype."""
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a torch.Tensor or None, got {type(mask).__name__}")
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise TypeError(f"mask must be bool (True = may attend) or floating (added to the scores), got {mask.dtype}")
    scores_shape = (*query.shape[:-1], key.size(-2))
    trailing = scores_shape[len(scores_shape) - mask.dim() :]
    if mask.dim() > len(scores_shape) or any(m not in (1, s) for m, s in zip(mask.shape, trailing, strict=True)):
        raise ValueError(
            f"mask of shape {tuple(mask.shape)} does not fit scores of shape {tuple(scores_shape)}: "
            "each of its axes, counted from the last, must have length 1 or that of the scores"
        )
    mask = mask.to(query.device) if mask.dtype == torch.bool else mask.to(query)
    return torch.atleast_2d(mask)  # torch's fused kernel takes no fewer axes


def _checked_scale(scale: float) -> float:
    if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not math.isfinite(scale):
        raise ValueError(f"scale must be a finite number, got {scale!r}")
    return scale
