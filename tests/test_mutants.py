"""The tests of the worked example are worth something: each of the classic mistakes fails at least one of them."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F

import attn_core


class Implementation(NamedTuple):
    """The functions that the checks below look at; a mutant replaces one of them."""

    attention: Callable = attn_core.scaled_dot_product_attention
    split_heads: Callable = attn_core.split_heads
    merge_heads: Callable = attn_core.merge_heads
    causal_mask: Callable = attn_core.causal_mask
    padding_mask: Callable = attn_core.padding_mask
    causal_attention: Callable = partial(attn_core.scaled_dot_product_attention, causal=True)


def exact(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


# The document's numbers: two tokens, and what the three matrices make of them.
QUERY, KEY, VALUE = exact([[1, 2], [1, 1]]), exact([[1, 2], [0, 1]]), exact([[1, 1], [1, 0]])
# Softmax of two scores is the logistic function of their difference: 3/√2 for the first query, 2/√2 for the second.
FIRST, SECOND = (1 / (1 + math.exp(-difference / math.sqrt(2))) for difference in (3, 2))
WEIGHTS = exact([[FIRST, 1 - FIRST], [SECOND, 1 - SECOND]])
OUTPUT = exact([[1, FIRST], [1, SECOND]])


def equal(got, expected):
    assert got.shape == expected.shape
    assert torch.allclose(got, expected, atol=1e-12, rtol=0)


def check_two_heads(implementation):
    # Head 0 holds the document's numbers, head 1 the same with queries and keys and the columns of V exchanged:
    # two heads with more in common would look right after a wrong reshape as well.
    query, key, value = (torch.cat(pair, dim=-1)[None] for pair in ((QUERY, KEY), (KEY, QUERY), (VALUE, VALUE.flip(1))))
    heads = (implementation.split_heads(x, 2) for x in (query, key, value))
    values, weights = implementation.attention(*heads)
    third = 1 / (1 + math.exp(-1 / math.sqrt(2)))
    equal(weights, torch.stack([WEIGHTS, exact([[SECOND, 1 - SECOND], [third, 1 - third]])])[None])
    equal(implementation.merge_heads(values), torch.cat([OUTPUT, exact([[SECOND, 1], [third, 1]])], dim=-1)[None])


def check_causal_with_a_longer_past(implementation):
    # The first key stands in front once more, and both queries see it.
    key, value = torch.cat([KEY[:1], KEY]), torch.cat([VALUE[:1], VALUE])
    _, weights = implementation.attention(QUERY, key, value, implementation.causal_mask(2, 3))
    ratio = math.exp(-2 / math.sqrt(2))  # of the last key's weight to that of the two others, for the second query
    equal(weights, torch.stack([exact([0.5, 0.5, 0]), exact([1, 1, ratio]) / (2 + ratio)]))


def check_padding(implementation):
    # A third token that is padding changes nothing for the two real ones, and gets an average of these itself.
    query, key, value = (torch.cat([x, exact([[9, 9]])])[None, None] for x in (QUERY, KEY, VALUE))
    values, weights = implementation.attention(query, key, value, implementation.padding_mask([2], 3))
    equal(weights[0, 0, :2, :2], WEIGHTS)
    equal(values[0, 0, :2], OUTPUT)
    assert weights[..., 2].eq(0).all()
    equal(weights.sum(-1), exact([[[1, 1, 1]]]))


def check_rectangular(implementation):
    # One query, three keys, values of another width, two samples: no axis passes for another.
    query = QUERY[:1].expand(2, 1, 2)
    key = torch.cat([KEY, KEY[:1]]).expand(2, 3, 2)
    value = torch.eye(3, 5, dtype=torch.float64).expand(2, 3, 5)
    values, weights = implementation.attention(query, key, value)
    ratio = math.exp(-3 / math.sqrt(2))  # of the second key's weight to that of the two others
    expected = exact([1, ratio, 1]) / (2 + ratio)
    equal(weights, expected.expand(2, 1, 3))
    equal(values, torch.cat([expected, exact([0, 0])]).expand(2, 1, 5))


def check_query_that_sees_nothing(implementation):
    mask = torch.tensor([[False, False], [True, True]])
    values, weights = implementation.attention(QUERY, KEY, VALUE, mask)
    equal(weights, torch.stack([exact([0, 0]), WEIGHTS[1]]))
    equal(values, torch.stack([exact([0, 0]), OUTPUT[1]]))


def check_causal_by_the_argument(implementation):
    # As many keys as queries, one key more in front, and one fewer: the first query then sees nothing.
    longer = torch.cat([KEY[:1], KEY]), torch.cat([VALUE[:1], VALUE])
    ratio = math.exp(-2 / math.sqrt(2))
    first, second = VALUE[0], (2 * VALUE[0] + ratio * VALUE[1]) / (2 + ratio)
    expected = {
        (KEY, VALUE): [VALUE[0], OUTPUT[1]],
        longer: [first, second],
        (KEY[:1], VALUE[:1]): [exact([0, 0]), VALUE[0]],
    }
    for (key, value), rows in expected.items():
        for need_weights in (True, False):
            values, _ = implementation.causal_attention(QUERY, key, value, need_weights=need_weights)
            equal(values, torch.stack(rows))


def check_causal_by_the_argument_beside_a_mask(implementation):
    # The mask hides the first key: the first query, which sees no other, has nothing left.
    for need_weights in (True, False):
        mask = torch.tensor([False, True])
        values, _ = implementation.causal_attention(QUERY, KEY, VALUE, mask, need_weights=need_weights)
        equal(values, torch.stack([exact([0, 0]), VALUE[1]]))


CHECKS = [
    check_two_heads,
    check_causal_with_a_longer_past,
    check_padding,
    check_rectangular,
    check_query_that_sees_nothing,
    check_causal_by_the_argument,
    check_causal_by_the_argument_beside_a_mask,
]


def masked_softmax(scores, mask, dim=-1):
    """Right but for what a mutant puts in: softmax over `dim`, and zeros where there is nothing to attend to."""
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    return scores.softmax(dim).nan_to_num(0.0)


def without_scale(query, key, value, mask=None):
    weights = masked_softmax(query @ key.mT, mask)
    return weights @ value, weights


def scaled_by_width(query, key, value, mask=None):
    weights = masked_softmax(query @ key.mT / query.size(-1), mask)
    return weights @ value, weights


def scaled_by_embed_dim(query, key, value, mask=None):
    num_heads = query.size(1) if query.dim() == 4 else 1
    weights = masked_softmax(query @ key.mT / math.sqrt(num_heads * query.size(-1)), mask)
    return weights @ value, weights


def scaled_by_value_width(query, key, value, mask=None):
    weights = masked_softmax(query @ key.mT / math.sqrt(value.size(-1)), mask)
    return weights @ value, weights


def scaled_by_length(query, key, value, mask=None):
    weights = masked_softmax(query @ key.mT / math.sqrt(key.size(-2)), mask)
    return weights @ value, weights


def softmax_over_queries(query, key, value, mask=None):
    weights = masked_softmax(query @ key.mT / math.sqrt(query.size(-1)), mask, dim=-2)
    return weights @ value, weights


def softmax_over_batch(query, key, value, mask=None):
    weights = masked_softmax(query @ key.mT / math.sqrt(query.size(-1)), mask, dim=0)
    return weights @ value, weights


def shares_without_exponential(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    scores = scores if mask is None else scores * mask
    weights = (scores / scores.sum(-1, keepdim=True)).nan_to_num(0.0)
    return weights @ value, weights


def key_not_transposed(query, key, value, mask=None):
    weights = masked_softmax(query @ key / math.sqrt(query.size(-1)), mask)
    return weights @ value, weights


def weights_transposed(query, key, value, mask=None):
    weights = masked_softmax(query @ key.mT / math.sqrt(query.size(-1)), mask)
    return weights.mT @ value, weights


def query_and_key_swapped(query, key, value, mask=None):
    weights = masked_softmax(key @ query.mT / math.sqrt(query.size(-1)), mask)
    return weights @ value, weights


def key_and_value_swapped(query, key, value, mask=None):
    return attn_core.scaled_dot_product_attention(query, value, key, mask)


def key_averaged_for_value(query, key, value, mask=None):
    return attn_core.scaled_dot_product_attention(query, key, key, mask)


def mask_inverted(query, key, value, mask=None):
    return attn_core.scaled_dot_product_attention(query, key, value, None if mask is None else ~mask)


def mask_ignored(query, key, value, mask=None):
    return attn_core.scaled_dot_product_attention(query, key, value)


def mask_after_softmax(query, key, value, mask=None):
    _, weights = attn_core.scaled_dot_product_attention(query, key, value)
    weights = weights if mask is None else weights * mask
    return weights @ value, weights


def mask_transposed(query, key, value, mask=None):
    return attn_core.scaled_dot_product_attention(query, key, value, None if mask is None else mask.mT)


def mask_added_as_numbers(query, key, value, mask=None):
    return attn_core.scaled_dot_product_attention(query, key, value, None if mask is None else mask.double())


def mask_fills_with_zero(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    weights = (scores if mask is None else scores.masked_fill(~mask, 0.0)).softmax(-1)
    return weights @ value, weights


def mask_fills_with_a_large_number(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    weights = (scores if mask is None else scores.masked_fill(~mask, -1e9)).softmax(-1)
    return weights @ value, weights


def nan_where_all_is_masked(query, key, value, mask=None):
    scores = query @ key.mT / math.sqrt(query.size(-1))
    weights = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1)
    return weights @ value, weights


def heads_split_by_view(x, num_heads):
    return x.reshape(x.size(0), num_heads, x.size(1), -1)


def heads_split_interleaved(x, num_heads):
    return x.view(*x.shape[:2], -1, num_heads).permute(0, 3, 1, 2)


def heads_merged_without_transpose(x):
    return x.reshape(x.size(0), x.size(2), -1)


def heads_merged_interleaved(x):
    return x.permute(0, 2, 3, 1).flatten(2)


def causal_sees_one_ahead(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.ones(query_len, key_len, dtype=torch.bool).tril(key_len - query_len + 1)


def causal_does_not_see_itself(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.ones(query_len, key_len, dtype=torch.bool).tril(key_len - query_len - 1)


def causal_sees_the_future(query_len, key_len=None):
    key_len = query_len if key_len is None else key_len
    return torch.ones(query_len, key_len, dtype=torch.bool).triu(key_len - query_len)


def causal_aligned_upper_left(query_len, key_len=None):
    return attn_core.causal_mask(query_len, key_len, align="upper_left")


def padding_on_the_query_axis(lengths, max_len=None):
    return attn_core.padding_mask(lengths, max_len).mT


def padding_on_both_axes(lengths, max_len=None):
    mask = attn_core.padding_mask(lengths, max_len)
    return mask & mask.mT


def padding_inverted(lengths, max_len=None):
    return ~attn_core.padding_mask(lengths, max_len)


def padding_off_by_one(lengths, max_len=None):
    return attn_core.padding_mask([length + 1 for length in lengths], max_len)


def causal_argument_ignored(query, key, value, mask=None, need_weights=True):
    return attn_core.scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)


def causal_argument_ignored_without_weights(query, key, value, mask=None, need_weights=True):
    options = {"causal": need_weights, "need_weights": need_weights}
    return attn_core.scaled_dot_product_attention(query, key, value, mask, **options)


def causal_argument_aligned_upper_left(query, key, value, mask=None, need_weights=True):
    past = attn_core.causal_mask(len(query), len(key), align="upper_left")
    mask = past if mask is None else past & mask
    return attn_core.scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)


def causal_argument_left_to_the_kernel(query, key, value, mask=None, need_weights=True):
    if need_weights or mask is not None:
        return attn_core.scaled_dot_product_attention(query, key, value, mask, causal=True)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True), None


def causal_argument_instead_of_the_mask(query, key, value, mask=None, need_weights=True):
    options = {"causal": True, "need_weights": need_weights}
    return attn_core.scaled_dot_product_attention(query, key, value, **options)


def causal_argument_only_without_a_mask(query, key, value, mask=None, need_weights=True):
    options = {"causal": mask is None, "need_weights": need_weights}
    return attn_core.scaled_dot_product_attention(query, key, value, mask, **options)


MUTANTS = {
    "attention": [
        without_scale,
        scaled_by_width,
        scaled_by_embed_dim,
        scaled_by_value_width,
        scaled_by_length,
        softmax_over_queries,
        softmax_over_batch,
        shares_without_exponential,
        key_not_transposed,
        weights_transposed,
        query_and_key_swapped,
        key_and_value_swapped,
        key_averaged_for_value,
        mask_inverted,
        mask_ignored,
        mask_after_softmax,
        mask_transposed,
        mask_added_as_numbers,
        mask_fills_with_zero,
        mask_fills_with_a_large_number,
        nan_where_all_is_masked,
    ],
    "split_heads": [heads_split_by_view, heads_split_interleaved],
    "merge_heads": [heads_merged_without_transpose, heads_merged_interleaved],
    "causal_mask": [
        causal_sees_one_ahead,
        causal_does_not_see_itself,
        causal_sees_the_future,
        causal_aligned_upper_left,
    ],
    "padding_mask": [padding_on_the_query_axis, padding_on_both_axes, padding_inverted, padding_off_by_one],
    "causal_attention": [
        causal_argument_ignored,
        causal_argument_ignored_without_weights,
        causal_argument_aligned_upper_left,
        causal_argument_left_to_the_kernel,
        causal_argument_instead_of_the_mask,
        causal_argument_only_without_a_mask,
    ],
}
ALL_MUTANTS = {
    mutant.__name__: Implementation()._replace(**{part: mutant})
    for part, mutants in MUTANTS.items()
    for mutant in mutants
}


def gives_wrong_numbers(check, implementation):
    try:
        check(implementation)
    except AssertionError:
        return True
    except (RuntimeError, ValueError):  # shapes that do not fit: a crash would be noticed without tests
        pass
    return False


@pytest.mark.parametrize("check", CHECKS)
def test_the_real_implementation_passes(check):
    check(Implementation())


@pytest.mark.parametrize("name", ALL_MUTANTS)
def test_the_worked_example_catches_by_a_wrong_number(name):
    assert any(gives_wrong_numbers(check, ALL_MUTANTS[name]) for check in CHECKS)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_catches_a_mutant_that_no_other_does(check):
    others = [other for other in CHECKS if other is not check]
    missed = [m for m in ALL_MUTANTS.values() if not any(gives_wrong_numbers(other, m) for other in others)]
    assert any(gives_wrong_numbers(check, mutant) for mutant in missed)
