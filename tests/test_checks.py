"""Wrong arguments of the core: each is refused in a sentence that names its value and what would be legal."""

import inspect
import math
import re
from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention.bias import causal_upper_left

import attn_core
from attn_core import (
    AlibiBias,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionalEncoding,
    attention_cost,
    attention_trace,
    blockwise_attention,
    causal_mask,
    count_flops,
    count_macs_with_fvcore,
    merge_heads,
    padding_mask,
    scaled_dot_product_attention,
    split_heads,
)

Q, K, V = (torch.randn(2, length, width) for length, width in ((3, 4), (5, 4), (5, 6)))
X = torch.randn(2, 3, 8)
LAYER, CODE = MultiHeadAttention(8, 4), SinusoidalPositionalEncoding(8)


# Numbers and flags, wherever they are

# Legal arguments of everything that takes numbers; each is changed in its turn.
CALLS = {
    scaled_dot_product_attention: {"query": Q, "key": K, "value": V, "causal": True, "scale": 0.5, "dropout_p": 0.5},
    blockwise_attention: {"query": Q, "key": K, "value": V, "causal": True, "block_size": 2},
    causal_mask: {"query_len": 3, "key_len": 4},
    padding_mask: {"lengths": [2, 3], "max_len": 4},
    split_heads: {"x": X, "num_heads": 2},
    MultiHeadAttention: {
        "embed_dim": 8,
        "num_heads": 4,
        "num_kv_heads": 2,
        "bias": True,
        "dropout": 0.5,
        "out_proj": True,
    },
    SinusoidalPositionalEncoding: {"d_model": 8, "max_len": 4, "base": 100.0},
    CODE.table: {"length": 3},
    LearnedPositionalEncoding: {"d_model": 8, "max_len": 4},
    RotaryEmbedding: {"head_dim": 8, "base": 100.0},
    RotaryEmbedding(8).forward: {"q_or_k": X, "offset": 2},
    AlibiBias: {"num_heads": 6},
    AlibiBias(2).forward: {"query_len": 3, "key_len": 4},
    RelativePositionBias: {"num_heads": 2, "num_buckets": 8, "max_distance": 16, "bidirectional": True},
    RelativePositionBias(2).forward: {"query_len": 3, "key_len": 4},
    attention_cost: {
        "seq_len": 4,
        "embed_dim": 8,
        "num_heads": 4,
        "batch_size": 2,
        "key_len": 5,
        "num_kv_heads": 2,
        "out_proj": True,
        "bias": True,
    },
}
UNCHECKED = {"need_weights"}  # read in the hot path, and any truth will do


def arguments(kind):
    """Every argument of this kind, with its name and what it belongs to."""
    found = []
    for call in CALLS:
        for name, parameter in inspect.signature(call).parameters.items():
            if parameter.annotation in (kind, kind | None) and name not in UNCHECKED:
                found.append(pytest.param(call, name, id=f"{call.__qualname__}-{name}"))
    return found


def test_everything_public_that_takes_numbers_is_among_the_calls():
    public = {getattr(attn_core, name) for name in attn_core.__all__}
    kinds = [one for kind in (int, float, bool) for one in (kind, kind | None)]
    takes = {one for one in public if any(p.annotation in kinds for p in inspect.signature(one).parameters.values())}
    assert {one for one in takes if not issubclass(type(one), type) or not issubclass(one, tuple)} <= CALLS.keys()


@pytest.mark.parametrize("call, name", arguments(int))
def test_an_integer_of_any_kind_is_taken(call, name):
    for integer in (np.int64, np.int32):
        call(**CALLS[call] | {name: integer(CALLS[call][name])})


@pytest.mark.parametrize("wrong", [True, np.bool_(True), 2.5, 2.0, "2", [2], torch.tensor(2.0), torch.tensor([2])])
@pytest.mark.parametrize("call, name", arguments(int))
def test_what_is_no_integer_is_refused_by_its_value(call, name, wrong):
    with pytest.raises(TypeError, match=re.escape(f"{name} must be an integer, got {wrong!r}")):
        call(**CALLS[call] | {name: wrong})


@pytest.mark.parametrize("wrong", [0, -1, np.int64(-2)])
@pytest.mark.parametrize("call, name", arguments(int))
def test_an_integer_that_is_too_small_is_refused_by_its_value(call, name, wrong):
    if wrong == 0 and name in ("offset", "length", "query_len", "key_len") and call is not attention_cost:
        return  # attention takes no tokens as well
    legal = f"between 0 and max_len = {wrong}|max_len must be" if call is padding_mask else f"{name} must be"
    with pytest.raises(ValueError, match=legal) as caught:
        call(**CALLS[call] | {name: wrong})
    assert str(int(wrong)) in str(caught.value)


@pytest.mark.parametrize("call, name", arguments(float))
def test_a_number_of_any_kind_is_taken(call, name):
    for number in (np.float32, np.float64):
        call(**CALLS[call] | {name: number(CALLS[call][name])})


@pytest.mark.parametrize("wrong", [True, "0.5", [0.5], torch.tensor(0.5)], ids=repr)
@pytest.mark.parametrize("call, name", arguments(float))
def test_what_is_no_number_is_refused_by_its_value(call, name, wrong):
    with pytest.raises(TypeError, match=re.escape(f"{name} must be a number, got {wrong!r}")):
        call(**CALLS[call] | {name: wrong})


@pytest.mark.parametrize("wrong", [1, 0, None, "no", np.bool_(True), torch.tensor(True)], ids=repr)
@pytest.mark.parametrize("call, name", arguments(bool))
def test_a_flag_that_is_neither_true_nor_false_is_refused_by_its_value(call, name, wrong):
    with pytest.raises(TypeError, match=re.escape(f"{name} must be True or False, got {wrong!r}")):
        call(**CALLS[call] | {name: wrong})


# Everything else: a wrong argument, the error and what it says


def shaped(*shapes, dtype=torch.float32):
    return [torch.ones(shape, dtype=dtype) for shape in shapes]


INPUTS = [
    (shaped((4,), (5, 4), (5, 6)), ValueError, r"query must have shape \(\.\.\., length, width\), got \(4,\)"),
    (shaped((3, 4), (), (5, 6)), ValueError, r"key must have shape \(\.\.\., length, width\), got \(\)"),
    (shaped((3, 4), (5, 4), (5,)), ValueError, r"value must have shape \(\.\.\., length, width\), got \(5,\)"),
    (shaped((3, 4), (5, 7), (5, 6)), ValueError, "same width d_k of at least 1, got 4 and 7"),
    (shaped((3, 0), (5, 0), (5, 6)), ValueError, "same width d_k of at least 1, got 0 and 0"),
    (shaped((3, 4), (5, 4), (7, 6)), ValueError, "same length S, got 5 and 7"),
    (
        shaped((2, 3, 4), (7, 5, 4), (7, 5, 6)),
        ValueError,
        r"broadcastable, got query \(2, 3, 4\), key \(7, 5, 4\), value \(7, 5, 6\)",
    ),
    (shaped((3, 4), (5, 4), (5, 6), dtype=torch.int64), TypeError, "one floating dtype .*torch.int64"),
    (shaped((3, 4), (5, 4), (5, 6), dtype=torch.bool), TypeError, "one floating dtype .*torch.bool"),
    (shaped((3, 4), (5, 4), (5, 6), dtype=torch.complex64), TypeError, "one floating dtype .*torch.complex64"),
    ([Q.double(), K, V], TypeError, "got torch.float64, torch.float32, torch.float32"),
    ([Q, K, V.half()], TypeError, "got torch.float32, torch.float32, torch.float16"),
    ([Q.numpy(), K, V], TypeError, "query must be a torch.Tensor, got ndarray"),
    ([Q, K.tolist(), V], TypeError, "key must be a torch.Tensor, got list"),
    ([Q, K, None], TypeError, "value must be a torch.Tensor, got NoneType"),
    ([Q, K.to("meta"), V], ValueError, "on one device, got cpu, meta, cpu"),
]
MASKS = [
    (torch.ones(3, 5, dtype=torch.int64), TypeError, "True = may attend.*got torch.int64"),
    (torch.ones(3, 5, dtype=torch.uint8), TypeError, "True = may attend.*got torch.uint8"),
    (torch.ones(3, 5, dtype=torch.complex64), TypeError, "True = may attend.*got torch.complex64"),
    ([[True] * 5] * 3, TypeError, "mask must be a torch.Tensor or None, got list"),
    (torch.ones(3, 5).bool().numpy(), TypeError, "mask must be a torch.Tensor or None, got ndarray"),
    (True, TypeError, "mask must be a torch.Tensor or None, got bool"),
    (causal_upper_left(3, 5), TypeError, "mask must be a torch.Tensor or None, got CausalBias"),
    (torch.ones(5, 3).bool(), ValueError, r"shape \(5, 3\) does not fit scores of shape \(2, 3, 5\)"),
    (torch.ones(8, 8).bool(), ValueError, r"shape \(8, 8\) does not fit scores of shape \(2, 3, 5\)"),
    (torch.ones(4).bool(), ValueError, r"shape \(4,\) does not fit scores of shape \(2, 3, 5\)"),
    (torch.ones(3, 3, 5).bool(), ValueError, r"shape \(3, 3, 5\) does not fit scores of shape \(2, 3, 5\)"),
    # Longer than the scores: broadcasting it would add an axis to the output.
    (torch.ones(1, 2, 3, 5).bool(), ValueError, r"shape \(1, 2, 3, 5\) does not fit scores of shape \(2, 3, 5\)"),
    (padding_mask([5, 4]), ValueError, r"shape \(2, 1, 1, 5\) does not fit scores of shape \(2, 3, 5\)"),
]
LENGTHS = [
    (([2, -1],), ValueError, r"between 0 and max_len = 2, got \[2, -1\]"),
    (([2, 5], 4), ValueError, r"between 0 and max_len = 4, got \[2, 5\]"),
    (([[1, 2]],), ValueError, r"one row of at least one integer, got shape \(1, 2\)"),
    ((3,), ValueError, r"one row of at least one integer, got shape \(\)"),
    (([],), ValueError, r"one row of at least one integer, got shape \(0,\)"),
    (([1.0, 2.0],), TypeError, "lengths must be integers, got torch.float32"),
    (([True, False],), TypeError, "lengths must be integers, got torch.bool"),
    (([1j],), TypeError, "lengths must be integers, got torch.complex64"),
    ((None,), TypeError, "lengths must be one row of integers, got None"),
    (("12",), TypeError, "lengths must be one row of integers, got '12'"),
    (([None],), TypeError, r"lengths must be one row of integers, got \[None\]"),
    (([[1], [1, 2]],), TypeError, r"lengths must be one row of integers, got \[\[1\], \[1, 2\]\]"),
]
LAYER_INPUTS = [
    ((X[0],), {}, ValueError, r"query must have shape \(batch, length, 8\), got \(3, 8\)"),
    ((X[None],), {}, ValueError, r"query must have shape \(batch, length, 8\), got \(1, 2, 3, 8\)"),
    ((X[..., :6],), {}, ValueError, r"query must have shape \(batch, length, 8\), got \(2, 3, 6\)"),
    ((X, X[0]), {}, ValueError, r"key must have shape \(batch, length, 8\), got \(3, 8\)"),
    ((X, X, X[..., :6]), {}, ValueError, r"value must have shape \(batch, length, 8\), got \(2, 3, 6\)"),
    ((X, X[:1]), {}, ValueError, "query and key must share one batch size, got 2 and 1"),
    ((X, X, X[:1]), {}, ValueError, "query and value must share one batch size, got 2 and 1"),
    ((X, X, X[:, :2]), {}, ValueError, "same length S, got 3 and 2"),
    ((X,), {"value": X}, ValueError, "a value needs a key: pass both, or neither"),
    ((X.long(),), {}, TypeError, "query must have the dtype of this layer, torch.float32, got torch.int64"),
    ((X.double(),), {}, TypeError, "query must have the dtype of this layer, torch.float32, got torch.float64"),
    ((X, X.half()), {}, TypeError, "key must have the dtype of this layer, torch.float32, got torch.float16"),
    ((X, X, X.bool()), {}, TypeError, "value must have the dtype of this layer, torch.float32, got torch.bool"),
    ((X.numpy(),), {}, TypeError, "query must be a torch.Tensor, got ndarray"),
    ((None,), {}, TypeError, "query must be a torch.Tensor, got NoneType"),
    ((X, [1]), {}, TypeError, "key must be a torch.Tensor, got list"),
    ((X,), {"mask": causal_mask(8)}, ValueError, r"\(8, 8\) does not fit scores of shape \(2, 4, 3, 3\)"),
    ((X,), {"mask": padding_mask([3, 2, 1])}, ValueError, r"\(3, 1, 1, 3\) does not fit .* \(2, 4, 3, 3\)"),
    # The key_padding_mask of torch's layer would need an axis for heads and one for queries.
    ((X,), {"mask": torch.ones(2, 3).bool()}, ValueError, r"\(2, 3\) does not fit scores of shape \(2, 4, 3, 3\)"),
    ((X,), {"mask": torch.ones(2, 3, 3).bool()}, ValueError, r"\(2, 3, 3\) does not .* sample is mask\[:, None\]"),
    ((X,), {"mask": torch.ones(3, 3).long()}, TypeError, "True = may attend.*got torch.int64"),
    ((X,), {"causal": "lower_right"}, TypeError, "causal must be True or False, got 'lower_right'"),
]
SINGLE = [
    (lambda: SinusoidalPositionalEncoding(4, base=1.0), ValueError, "base must be greater than 1, got 1.0"),
    (lambda: attention_cost(4, 8, 3), ValueError, "num_heads must divide embed_dim, got 3 heads and embed_dim 8"),
    (lambda: MultiHeadAttention(8, 3), ValueError, "num_heads must divide embed_dim, got 3 heads and embed_dim 8"),
    (lambda: MultiHeadAttention(4, 8), ValueError, "num_heads must divide embed_dim, got 8 heads and embed_dim 4"),
    (lambda: attention_cost(4, 8, 4, num_kv_heads=3), ValueError, "kv_heads must divide num_heads, got 3 and 4 heads"),
    (lambda: MultiHeadAttention(8, 4, num_kv_heads=8), ValueError, "kv_heads must divide num_heads, got 8 and 4 heads"),
    (lambda: split_heads(X, 16), ValueError, "num_heads must divide the width, got 16 heads and width 8"),
    (lambda: RotaryEmbedding(7), ValueError, "head_dim must be even: entries are turned in pairs, got 7"),
    (lambda: RelativePositionBias(2, num_buckets=6), ValueError, "num_buckets must be a multiple of 4, got 6"),
    (lambda: RelativePositionBias(2, 7, bidirectional=False), ValueError, "buckets must be a multiple of 2, got 7"),
    (lambda: RelativePositionBias(2, max_distance=8), ValueError, "max_distance must be greater than 8, got 8"),
    (lambda: split_heads(X[0], 2), ValueError, r"x must have shape \(batch, length, width\), got \(3, 8\)"),
    (lambda: merge_heads(X), ValueError, r"x must have shape \(batch, heads, length, head_dim\), got \(2, 3, 8\)"),
    (lambda: split_heads(X.tolist(), 2), TypeError, "x must be a torch.Tensor, got list"),
    (lambda: merge_heads(X.numpy()), TypeError, "x must be a torch.Tensor, got ndarray"),
    (lambda: CODE(torch.zeros(1, 3, 5)), ValueError, r"shape \(\.\.\., length, 8\), got \(1, 3, 5\)"),
    (lambda: LearnedPositionalEncoding(4, 5)(torch.zeros(4)), ValueError, r"length, 4\), got \(4,\)"),
    (lambda: LearnedPositionalEncoding(4, 5)(torch.zeros(1, 8, 4)), ValueError, "length 8 is longer .* = 5"),
    (lambda: CODE(torch.zeros(1, 3, 8, dtype=torch.int64)), TypeError, "floating tensor, got torch.int64"),
    (lambda: RotaryEmbedding(2)([[1.0, 2.0]]), TypeError, "floating tensor, got list"),
    (lambda: count_flops(X), TypeError, "module must be a torch.nn.Module or a function, got Tensor"),
    (lambda: count_flops(MultiHeadAttention, 16, 4), TypeError, "got the class MultiHeadAttention"),
    (lambda: count_macs_with_fvcore(torch.relu, X), TypeError, "a torch.nn.Module, got builtin_function_or_method"),
    (lambda: MultiHeadAttention(8, 4).to("meta")(X.double().to("meta")), TypeError, "torch.float32, got torch.float64"),
]
FROM_TORCH = [
    ({"kdim": 6}, "embed_dim 8, kdim 6, vdim 8"),
    ({"vdim": 6}, "embed_dim 8, kdim 8, vdim 6"),
    ({"add_bias_kv": True}, "add_bias_kv=True is not supported: it appends"),
    ({"add_zero_attn": True}, "add_zero_attn=True is not supported: it appends"),
]
TO_TORCH = [
    ({"num_kv_heads": 2}, "no shared key/value heads: num_kv_heads is 2, num_heads 4"),
    ({"num_kv_heads": 1}, "no shared key/value heads: num_kv_heads is 1, num_heads 4"),
    ({"out_proj": False}, "always has an output projection, this layer has none"),
]


class Quantized(nn.MultiheadAttention):
    def forward(self, *inputs):
        """Something else."""


def under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return LAYER(x)


ATTENTIONS = scaled_dot_product_attention, attention_trace, blockwise_attention
SHARES = (scaled_dot_product_attention, "dropout_p"), (MultiHeadAttention, "dropout")
ALIGNS, LAYOUTS = '"lower_right" or "upper_left"', '"interleaved" or "half_split"'
SHARE = "must be at least 0 and less than 1, got"
THEIRS = "expected a torch.nn.MultiheadAttention, got"


def table():
    """Rows of (call, error, message), in which a group of calls with the same message stands once."""
    for call, name in SHARES:
        for share in (1.0, 1, -0.1, math.nan):
            yield partial(call, **CALLS[call] | {name: share}), ValueError, f"{name} {SHARE} {share}"
    for scale in (math.nan, math.inf, -math.inf):
        yield partial(scaled_dot_product_attention, Q, K, V, scale=scale), ValueError, f"must be finite, got {scale}"
    for wrong in ("left", "lower-right", "", None, True, 2):
        yield partial(causal_mask, 3, align=wrong), ValueError, f"align must be {ALIGNS}, got {wrong!r}"
        yield partial(RotaryEmbedding, 8, layout=wrong), ValueError, f"layout must be {LAYOUTS}, got {wrong!r}"
    for wrong in ("lower right", "", None, 2, 1, 0):
        yield partial(attention_cost, 4, 8, 2, causal=wrong), ValueError, f"False, True, {ALIGNS}, got {wrong!r}"
    for attend, (inputs, error, message) in product(ATTENTIONS, INPUTS):
        yield partial(attend, *inputs), error, message
    for attend, (mask, error, message) in product(ATTENTIONS[:2], MASKS):
        yield partial(attend, Q, K, V, mask), error, message
    for given, error, message in LENGTHS:
        yield partial(padding_mask, *given), error, message
    for need_weights, (inputs, options, error, message) in product((True, False), LAYER_INPUTS):
        yield partial(LAYER, *inputs, **options, need_weights=need_weights), error, message
    for dtype in (torch.int64, torch.float64):
        yield partial(under_autocast, X.to(dtype)), TypeError, f"torch.float32, got {dtype}"
    for options, message in FROM_TORCH:
        module = nn.MultiheadAttention(8, 2, **options)
        yield partial(MultiHeadAttention.from_torch, module), ValueError, message
    for module in (nn.Linear(8, 8), LAYER, None, {}, Quantized(8, 2)):
        yield partial(MultiHeadAttention.from_torch, module), TypeError, f"{THEIRS} {type(module).__name__}"
    for options, message in TO_TORCH:
        yield MultiHeadAttention(8, 4, **options).to_torch, ValueError, message
    yield from SINGLE


@pytest.mark.parametrize("call, error, message", list(table()))
def test_what_does_not_fit_is_refused_by_its_value(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["attn_mask", "key_padding_mask", "is_causal", "average_attn_weights"])
@pytest.mark.parametrize("place", ["layer", "function"])
def test_an_argument_by_the_name_that_torch_gives_it_is_refused_with_ours(name, place):
    x, layer = torch.zeros(2, 3, 8), MultiHeadAttention(8, 2)
    with pytest.raises(TypeError, match=name) as refused:
        layer(x, **{name: True}) if place == "layer" else scaled_dot_product_attention(x, x, x, **{name: True})
    if "mask" in name:
        assert "mask=, in which True = may attend" in str(refused.value)
    if name == "is_causal":
        assert "pass causal=" in str(refused.value)
