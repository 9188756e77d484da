"""Causal and padding masks: True = may attend."""

import pytest
import torch
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

from attn_core import MultiHeadAttention, causal_mask, padding_mask, scaled_dot_product_attention


def drawn(mask):
    """The mask as rows of x (may attend) and . (may not)."""
    return ["".join(".x"[seen] for seen in row) for row in mask.view(-1, mask.size(-1)).tolist()]


@pytest.mark.parametrize(
    ("lengths", "align", "rows"),
    [
        ((0, 2), "lower_right", []),
        ((1, 1), "lower_right", ["x"]),
        ((3, 3), "lower_right", ["x..", "xx.", "xxx"]),
        ((3, 3), "upper_left", ["x..", "xx.", "xxx"]),
        ((2, 4), "lower_right", ["xxx.", "xxxx"]),
        ((2, 4), "upper_left", ["x...", "xx.."]),
        ((1, 4), "lower_right", ["xxxx"]),
        ((1, 4), "upper_left", ["x..."]),
        ((4, 2), "lower_right", ["..", "..", "x.", "xx"]),
        ((4, 2), "upper_left", ["x.", "xx", "xx", "xx"]),
    ],
)
def test_causal_mask_shows_each_query_its_past_and_itself(lengths, align, rows):
    mask = causal_mask(*lengths, align=align)
    assert mask.dtype == torch.bool
    assert mask.shape == lengths
    assert drawn(mask) == rows


def test_causal_mask_is_square_and_lower_right_unless_told_otherwise():
    assert torch.equal(causal_mask(4), causal_mask(4, 4))
    assert torch.equal(causal_mask(2, 5), causal_mask(2, 5, align="lower_right"))


@pytest.mark.parametrize(("query_len", "key_len"), [(3, 3), (2, 5)])
@pytest.mark.parametrize(("align", "theirs"), [("lower_right", causal_lower_right), ("upper_left", causal_upper_left)])
def test_alignments_have_the_meaning_of_torch(align, theirs, query_len, key_len):
    query, key = torch.randn(1, 1, query_len, 4), torch.randn(1, 1, key_len, 4)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, key, theirs(query_len, key_len))
    got = scaled_dot_product_attention(query, key, key, causal_mask(query_len, key_len, align=align))
    torch.testing.assert_close(got.values, expected)


def test_padding_mask_hides_what_stands_behind_each_sequence():
    mask = padding_mask([2, 0, 4])
    assert mask.dtype == torch.bool
    assert mask.shape == (3, 1, 1, 4)
    assert drawn(mask) == ["xx..", "....", "xxxx"]
    assert padding_mask([0, 0]).shape == (2, 1, 1, 0)


@pytest.mark.parametrize("lengths", [[1, 2], (1, 2), range(1, 3), torch.tensor([1, 2]), torch.tensor([1, 2]).numpy()])
def test_lengths_may_be_any_row_of_integers(lengths):
    assert drawn(padding_mask(lengths)) == ["x.", "xx"]
    assert drawn(padding_mask(lengths, max_len=3)) == ["x..", "xx."]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.int8, torch.int16, torch.int32, torch.int64])
def test_lengths_of_a_short_dtype_may_be_padded_to_more_than_it_can_count(dtype):
    # 65600 is 64 in each dtype that is too short for it, and so less than 100.
    mask = padding_mask(torch.tensor([100, 7], dtype=dtype), max_len=65_600)
    assert mask.sum(-1).flatten().tolist() == [100, 7]


@pytest.mark.parametrize("need_weights", [True, False])
def test_padding_mask_hides_keys_and_not_queries(need_weights):
    layer = MultiHeadAttention(8, 2)
    values, weights = layer(torch.randn(1, 4, 8), mask=padding_mask([2], 4), need_weights=need_weights)
    # The queries in the padding get an output like any other: it is only their keys that nobody sees.
    assert values.isfinite().all()
    assert values[:, 2:].ne(0).all()
    if need_weights:
        assert weights[..., 2:].eq(0).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 4))


@pytest.mark.parametrize("need_weights", [True, False])
def test_real_tokens_do_not_depend_on_the_padding(need_weights):
    layer = MultiHeadAttention(8, 2)
    x, mask = torch.randn(2, 5, 8, requires_grad=True), padding_mask([3, 5])
    values = layer(x, mask=mask, need_weights=need_weights).values
    (gradient,) = torch.autograd.grad(values[0, :3].sum(), x)
    assert gradient[0, 3:].eq(0).all()
    alone = layer(x[:1, :3], need_weights=need_weights).values
    torch.testing.assert_close(values[:1, :3], alone)


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_sequence_of_length_zero_does_not_spoil_the_others(need_weights):
    layer = MultiHeadAttention(8, 2)
    x = torch.randn(2, 3, 8, requires_grad=True)
    values = layer(x, mask=padding_mask([0, 3]), need_weights=need_weights).values
    # Nothing is left of it but the bias of the output projection.
    torch.testing.assert_close(values[0], layer.out_proj.bias.expand(3, 8))
    values.sum().backward()
    assert x.grad[0].eq(0).all()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    torch.testing.assert_close(values[1:], layer(x[1:]).values)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_padding_mask_stays_on_the_device_of_the_lengths():
    assert padding_mask(torch.tensor([1, 2], device="cuda")).device.type == "cuda"


def test_masks_combine_with_and():
    both = causal_mask(3) & padding_mask([2, 3])
    assert both.shape == (2, 1, 3, 3)
    assert drawn(both[0]) == ["x..", "xx.", "xx."]
    assert drawn(both[1]) == ["x..", "xx.", "xxx"]
