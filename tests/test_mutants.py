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


# The mutants: the real thing but for one mistake, which its name says

real, causal_mask, padding_mask = attn_core.scaled_dot_product_attention, attn_core.causal_mask, attn_core.padding_mask


def softmax_of(scores, value, mask=None, *, fill=-math.inf, dim=-1, blind=0.0):
    """Right but for what a mutant puts in: softmax over `dim`, and zeros where there is nothing to attend to."""
    weights = (scores if mask is None else scores.masked_fill(~mask, fill)).softmax(dim).nan_to_num(blind)
    return weights @ value, weights


def scaled(query, key):
    return query @ key.mT / math.sqrt(query.size(-1))


def scaled_by_embed_dim(q, k, v, mask=None):
    num_heads = q.size(1) if q.dim() == 4 else 1
    return softmax_of(q @ k.mT / math.sqrt(num_heads * q.size(-1)), v, mask)


def shares_without_exponential(q, k, v, mask=None):
    scores = scaled(q, k) if mask is None else scaled(q, k) * mask
    weights = (scores / scores.sum(-1, keepdim=True)).nan_to_num(0.0)
    return weights @ v, weights


def weights_transposed(q, k, v, mask=None):
    _, weights = real(q, k, v, mask)
    return weights.mT @ v, weights


def mask_after_softmax(q, k, v, mask=None):
    _, weights = real(q, k, v)
    weights = weights if mask is None else weights * mask
    return weights @ v, weights


def triangle(query_len, key_len, shift):
    return torch.ones(query_len, key_len, dtype=torch.bool).tril(key_len - query_len + shift)


def causal_argument_aligned_upper_left(q, k, v, mask=None, **options):
    past = causal_mask(len(q), len(k), align="upper_left")
    return real(q, k, v, past if mask is None else past & mask, **options)


def causal_argument_left_to_the_kernel(q, k, v, mask=None, need_weights=True):
    if need_weights or mask is not None:
        return real(q, k, v, mask, causal=True)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True), None


MUTANTS = {
    "attention": {
        "without scale": lambda q, k, v, m=None: softmax_of(q @ k.mT, v, m),
        "scaled by width": lambda q, k, v, m=None: softmax_of(q @ k.mT / q.size(-1), v, m),
        "scaled by embed_dim": scaled_by_embed_dim,
        "scaled by value width": lambda q, k, v, m=None: softmax_of(q @ k.mT / math.sqrt(v.size(-1)), v, m),
        "scaled by length": lambda q, k, v, m=None: softmax_of(q @ k.mT / math.sqrt(k.size(-2)), v, m),
        "softmax over queries": lambda q, k, v, m=None: softmax_of(scaled(q, k), v, m, dim=-2),
        "softmax over batch": lambda q, k, v, m=None: softmax_of(scaled(q, k), v, m, dim=0),
        "shares without exponential": shares_without_exponential,
        "key not transposed": lambda q, k, v, m=None: softmax_of(q @ k / math.sqrt(q.size(-1)), v, m),
        "weights transposed": weights_transposed,
        "query and key swapped": lambda q, k, v, m=None: softmax_of(scaled(k, q), v, m),
        "key and value swapped": lambda q, k, v, m=None: real(q, v, k, m),
        "key averaged for value": lambda q, k, v, m=None: real(q, k, k, m),
        "mask inverted": lambda q, k, v, m=None: real(q, k, v, None if m is None else ~m),
        "mask ignored": lambda q, k, v, m=None: real(q, k, v),
        "mask after softmax": mask_after_softmax,
        "mask transposed": lambda q, k, v, m=None: real(q, k, v, None if m is None else m.mT),
        "mask added as numbers": lambda q, k, v, m=None: real(q, k, v, None if m is None else m.double()),
        "mask fills with zero": lambda q, k, v, m=None: softmax_of(scaled(q, k), v, m, fill=0.0),
        "mask fills with a large number": lambda q, k, v, m=None: softmax_of(scaled(q, k), v, m, fill=-1e9),
        "NaN where all is masked": lambda q, k, v, m=None: softmax_of(scaled(q, k), v, m, blind=math.nan),
    },
    "split_heads": {
        "split by view": lambda x, heads: x.reshape(x.size(0), heads, x.size(1), -1),
        "split interleaved": lambda x, heads: x.view(*x.shape[:2], -1, heads).permute(0, 3, 1, 2),
    },
    "merge_heads": {
        "merged without transpose": lambda x: x.reshape(x.size(0), x.size(2), -1),
        "merged interleaved": lambda x: x.permute(0, 2, 3, 1).flatten(2),
    },
    "causal_mask": {
        "causal sees one ahead": lambda query_len, key_len: triangle(query_len, key_len, 1),
        "causal does not see itself": lambda query_len, key_len: triangle(query_len, key_len, -1),
        "causal sees the future": lambda query_len, key_len: ~triangle(query_len, key_len, -1),
        "causal aligned upper left": partial(causal_mask, align="upper_left"),
    },
    "padding_mask": {
        "padding on the query axis": lambda lengths, max_len: padding_mask(lengths, max_len).mT,
        "padding on both axes": lambda lengths, max_len: (
            padding_mask(lengths, max_len) & padding_mask(lengths, max_len).mT
        ),
        "padding inverted": lambda lengths, max_len: ~padding_mask(lengths, max_len),
        "padding off by one": lambda lengths, max_len: padding_mask([n + 1 for n in lengths], max_len),
    },
    "causal_attention": {
        "causal ignored": real,
        "causal ignored without weights": lambda *x, need_weights: real(
            *x, causal=need_weights, need_weights=need_weights
        ),
        "causal argument aligned upper left": causal_argument_aligned_upper_left,
        "causal left to the kernel": causal_argument_left_to_the_kernel,
        "causal instead of the mask": lambda q, k, v, m=None, **options: real(q, k, v, causal=True, **options),
        "causal only without a mask": lambda q, k, v, m=None, **options: real(q, k, v, m, causal=m is None, **options),
    },
}
ALL_MUTANTS = {
    name: Implementation()._replace(**{part: mutant})
    for part, mutants in MUTANTS.items()
    for name, mutant in mutants.items()
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
