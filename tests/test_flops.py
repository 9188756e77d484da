"""The cost by formula, against identities, against the layer itself and against the mask."""

import itertools

import pytest

from attn_core import MultiHeadAttention, attention_cost, causal_mask


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
def test_heads_change_neither_flops_nor_parameters(num_heads):
    cost = attention_cost(16, 64, num_heads)
    assert cost.total_flops == 589_824 == 8 * 16 * 64**2 + 4 * 16**2 * 64
    assert cost.parameters == 16_640 == 4 * 64**2 + 4 * 64


def test_heads_do_change_the_numbers_that_pass_through_the_softmax():
    assert [attention_cost(16, 64, heads).softmax_elements for heads in (1, 2, 8)] == [256, 512, 2048]


@pytest.mark.parametrize("num_heads", [1, 8])
def test_the_gap_of_the_document_is_the_output_projection(num_heads):
    with_projection = attention_cost(1024, 512, num_heads, batch_size=32, bias=False)
    without = attention_cost(1024, 512, num_heads, batch_size=32, bias=False, out_proj=False)
    assert with_projection.total_macs == 68_719_476_736
    assert without.total_macs == 60_129_542_144
    assert with_projection.total_macs - without.total_macs == with_projection.macs["output_projection"] == 8_589_934_592
    assert (with_projection.parameters, without.parameters) == (1_048_576, 786_432)


def test_a_multiply_accumulate_is_two_flops():
    cost = attention_cost(5, 12, 3, batch_size=2)
    assert cost.flops == {part: 2 * macs for part, macs in cost.macs.items()}
    assert cost.total_flops == sum(cost.flops.values()) == 2 * cost.total_macs
    assert list(cost.macs) == ["qkv_projection", "scores", "weighted_sum", "output_projection"]


@pytest.mark.parametrize(
    "heads, bias, out_proj",
    [*itertools.product([(8, 8), (8, 4), (8, 1), (3, 3), (1, 1)], [True, False], [True, False])],
)
def test_parameters_are_those_of_the_layer(heads, bias, out_proj):
    num_heads, num_kv_heads = heads
    layer = MultiHeadAttention(24, num_heads, num_kv_heads=num_kv_heads, bias=bias, out_proj=out_proj)
    cost = attention_cost(7, 24, num_heads, num_kv_heads=num_kv_heads, bias=bias, out_proj=out_proj)
    assert cost.parameters == sum(parameter.numel() for parameter in layer.parameters())


def test_shared_keys_and_values_save_their_projections_and_nothing_else():
    own, shared = attention_cost(16, 64, 8), attention_cost(16, 64, 8, num_kv_heads=2)
    assert own.macs["qkv_projection"] == 16 * 64 * 3 * 64
    assert shared.macs["qkv_projection"] == 16 * 64 * (64 + 2 * 16)
    assert {**own.macs, "qkv_projection": 0} == {**shared.macs, "qkv_projection": 0}
    assert own.softmax_elements == shared.softmax_elements


def test_keys_of_another_sequence_are_projected_at_their_own_length():
    cost = attention_cost(3, 8, 2, batch_size=5, key_len=7, bias=False)
    assert cost.macs == {
        "qkv_projection": 5 * (3 + 7 + 7) * 8 * 8,
        "scores": 5 * 3 * 7 * 8,
        "weighted_sum": 5 * 3 * 7 * 8,
        "output_projection": 5 * 3 * 8 * 8,
    }
    assert cost.softmax_elements == 5 * 2 * 3 * 7


def test_twice_the_length_is_four_times_the_scores_and_twice_the_projections():
    short, long = attention_cost(8192, 64, 8).macs, attention_cost(16384, 64, 8).macs
    assert {part: long[part] / short[part] for part in short} == {
        "qkv_projection": 2,
        "scores": 4,
        "weighted_sum": 4,
        "output_projection": 2,
    }


def test_a_causal_mask_leaves_the_lower_triangle():
    dense, causal = attention_cost(4, 1, 1), attention_cost(4, 1, 1, causal=True)
    assert dense.macs["scores"] + dense.macs["weighted_sum"] == 2 * 16
    assert causal.macs["scores"] + causal.macs["weighted_sum"] == 2 * 10
    assert causal.macs["qkv_projection"] == dense.macs["qkv_projection"]


@pytest.mark.parametrize("query_len, key_len", [*itertools.product(range(1, 7), range(1, 7)), (1, 50), (50, 1)])
def test_causal_pairs_are_those_of_the_mask(query_len, key_len):
    cost = attention_cost(query_len, 6, 3, key_len=key_len, batch_size=2, causal=True)
    pairs = causal_mask(query_len, key_len).sum().item()
    assert cost.macs["scores"] == cost.macs["weighted_sum"] == 2 * pairs * 6
    assert cost.softmax_elements == 2 * 3 * pairs


@pytest.mark.parametrize("bad", [0, -2, 2.0, True, "8"])
@pytest.mark.parametrize("name", ["seq_len", "embed_dim", "num_heads", "batch_size", "key_len", "num_kv_heads"])
def test_a_size_that_is_no_positive_integer_is_refused(name, bad):
    sizes = {"seq_len": 4, "embed_dim": 8, "num_heads": 2, name: bad}
    with pytest.raises(ValueError, match=f"{name} must be a positive integer, got {bad!r}"):
        attention_cost(**sizes)


@pytest.mark.parametrize("embed_dim, num_heads, num_kv_heads", [(8, 3, 3), (4, 8, 8), (8, 4, 3), (8, 4, 8)])
def test_sizes_that_do_not_divide_are_refused_with_their_values(embed_dim, num_heads, num_kv_heads):
    message = f"embed_dim {embed_dim}, num_heads {num_heads}, num_kv_heads {num_kv_heads}"
    with pytest.raises(ValueError, match=message):
        attention_cost(4, embed_dim, num_heads, num_kv_heads=num_kv_heads)
