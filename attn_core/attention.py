"""Scaled dot-product attention: what one head does.

Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, equation (1):

    Attention(Q, K, V) = softmax(Q Kᵀ / √d_k) V
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from attn_core._checks import check_names, checked
from attn_core.masks import additive, and_causal, blind_queries


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
    causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    need_weights: bool = True,
    **others: object,
) -> AttentionOutput:
    """softmax(Q Kᵀ · scale + mask) V, Vaswani et al. 2017, equation (1).

    query: (..., L, d_k), key: (..., S, d_k), value: (..., S, d_v), all of one floating dtype.
    mask: broadcastable to (..., L, S). Bool: True = may attend. Float: added to the scaled scores.
    causal: a query sees only keys not in its future, as in `causal_mask(L, S)`, and of those only
        what the mask leaves.
    scale: 1/√d_k unless given.
    dropout_p: the share of weights set to zero before they meet the values; 0 ≤ p < 1. It is
        applied whenever it is not 0: pass 0 in evaluation.
    need_weights: False takes torch's fused kernel, which never stores the (L, S) weights. Only with
        the weights are there forward-mode derivatives, second derivatives and vmap over a gradient;
        only the kernel adds half precision up in float32, where large scores would overflow.

    A query that may attend to nothing gets zero weights and zero values. A mask is added to the
    scores: a hidden key that is NaN or infinite still spoils the result.
    Raises ValueError for shapes, scale or dropout_p that do not fit, TypeError for dtypes, a causal
    that is no bool, or another name of an argument.
    """
    check_names(others)
    query, key, value, mask, scale = checked(query, key, value, mask, causal, scale, dropout_p)
    if not need_weights:
        return AttentionOutput(_fused(query, key, value, mask, causal, scale, dropout_p), None)
    mask = and_causal(mask, query, key) if causal else mask
    scores = (query * scale) @ key.mT  # scaling Q takes L · d products, scaling the scores L · S
    weights = _softmax(scores) if mask is None else _masked_softmax(scores, mask)
    values = (F.dropout(weights, dropout_p) if dropout_p else weights) @ value
    return AttentionOutput(values, weights)


def attention_trace(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
) -> AttentionTrace:
    """Attention step by step, with every intermediate kept: for looking, not for speed.

    Shapes, masks, errors as in `scaled_dot_product_attention`, and its results unless half
    precision is too small.
    """
    query, key, value, mask, _ = checked(query, key, value, mask)
    scores = query @ key.mT
    scaled = scores / math.sqrt(query.size(-1))
    masked = scaled if mask is None else scaled + additive(mask, scaled.dtype)
    weights = scaled.softmax(-1) if mask is None else _masked_softmax(scaled.clone(), mask)
    return AttentionTrace(scores, scaled, masked, weights, weights @ value)


def _fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    causal: bool,
    scale: float,
    dropout_p: float,
) -> Tensor:
    """The values from torch's kernel, which skips the future by itself where L = S."""
    if causal and (mask is not None or query.size(-2) != key.size(-2)):
        mask, causal = and_causal(mask, query, key), False
    return F.scaled_dot_product_attention(query, key, value, mask, dropout_p, causal, scale=scale)


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the keys that the mask leaves; zeros where none. Overwrites the scores."""
    # Some masks hide a key by the least number of their dtype. In half precision that number plus a
    # negative score would be -inf: a row of such keys would become NaN.
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    wide, blind = _add(wide, additive(mask, wide.dtype)), blind_queries(mask)
    if blind is None:
        return _softmax(wide).to(scores.dtype)
    # Softmax of a row of -inf is 0/0 = NaN, and NaN spoils gradients even where it is overwritten.
    # So a blind row is set to 0 before the softmax as well as after it.
    return _softmax(wide.masked_fill(blind, 0.0)).masked_fill(blind, 0.0).to(scores.dtype)


def _add(scores: Tensor, bias: Tensor) -> Tensor:
    try:
        scores += bias
        return scores
    except RuntimeError:  # torch.func.vmap over masks only: many masks do not fit into one (L, S)
        return scores + bias


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the keys. Overwrites the scores where no gradient needs them."""
    if torch.is_grad_enabled() or scores.dtype not in (torch.float32, torch.float64):
        return scores.softmax(-1)
    try:
        # To allocate a second (L, S) array would take longer than the softmax itself.
        return torch.softmax(scores, -1, out=scores)
    except RuntimeError:  # torch.func.vmap cannot write into a given tensor
        return scores.softmax(-1)
