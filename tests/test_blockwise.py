"""Attention in blocks: the same numbers and gradients as in one piece, whatever the blocks, in little memory."""

import subprocess
import sys

import pytest
import torch

from attn_core import blockwise_attention, causal_mask, scaled_dot_product_attention

# L, S and the size of a block: square, L < S, L > S, single rows, blocks that divide, that do not, and that hold all.
SHAPES = [
    (12, 12, 4),
    (12, 12, 5),
    (7, 19, 4),
    (19, 7, 4),
    (1, 30, 8),
    (30, 1, 8),
    (9, 11, 1),
    (9, 11, 11),
    (9, 11, 100),
    (300, 520, 256),
]


def random_inputs(query_len, key_len, batch=(2, 3), d_k=8, d_v=6, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    shapes = (query_len, d_k), (key_len, d_k), (key_len, d_v)
    made = (torch.randn(*batch, *shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return tuple(x.to(dtype).requires_grad_() for x in made)


def in_one_piece(query, key, value, causal=False):
    mask = causal_mask(query.size(-2), key.size(-2)) if causal else None
    return scaled_dot_product_attention(query, key, value, mask).values


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-10), (torch.float32, 1e-6)])
@pytest.mark.parametrize("query_len, key_len, block_size", SHAPES)
def test_agrees_with_attention_in_one_piece(query_len, key_len, block_size, dtype, tolerance, causal):
    inputs = random_inputs(query_len, key_len, dtype=dtype)
    got, expected = blockwise_attention(*inputs, causal=causal, block_size=block_size), in_one_piece(*inputs, causal)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert torch.allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("query_len, key_len, block_size", SHAPES)
def test_gradients_agree_with_those_of_one_piece(query_len, key_len, block_size, causal):
    inputs = random_inputs(query_len, key_len)
    towards = torch.randn(2, 3, query_len, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    got = torch.autograd.grad(blockwise_attention(*inputs, causal=causal, block_size=block_size), inputs, towards)
    expected = torch.autograd.grad(in_one_piece(*inputs, causal), inputs, towards)
    for one, two in zip(got, expected, strict=True):
        assert torch.allclose(one, two, rtol=0, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_near_to_float64_as_its_rounding(dtype):
    # In half precision a running sum of 5000 small numbers would stand still on the way.
    inputs = [x.detach() for x in random_inputs(4, 5000, dtype=dtype)]
    got, expected = blockwise_attention(*inputs, block_size=64), in_one_piece(*(x.double() for x in inputs))
    assert got.dtype == dtype
    assert torch.allclose(got.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-6)


def test_a_query_that_sees_no_key_gets_zeros_and_zero_gradients():
    inputs = random_inputs(9, 4)
    values = blockwise_attention(*inputs, causal=True, block_size=2)
    assert values[..., :5, :].eq(0).all()
    assert values[..., 5:, :].ne(0).any(-1).all()
    gradients = torch.autograd.grad(values.sum(), inputs)
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert gradients[0][..., :5, :].eq(0).all()


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_huge_scores_do_not_overflow_where_they_grow_from_block_to_block_or_shrink(size):
    key = torch.linspace(0, size, 12)[:, None]
    query, value = torch.ones(3, 1), torch.arange(12.0)[:, None]
    assert torch.equal(blockwise_attention(query, key, value, block_size=4), in_one_piece(query, key, value))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("query_len, key_len", [(6, 6), (4, 9), (9, 4)])
def test_lengths_are_those_of_the_last_axes_however_many_stand_in_front(query_len, key_len, batch):
    inputs = random_inputs(query_len, key_len, batch, d_k=5)
    for causal in (False, True):
        got = blockwise_attention(*inputs, causal=causal, block_size=2)
        assert torch.allclose(got, in_one_piece(*inputs, causal), rtol=0, atol=1e-10)


def test_axes_in_front_are_broadcast_and_may_be_missing():
    query, key, value = random_inputs(5, 9)
    shared = key[:, :1], value[:, :1]  # one head of keys for three of queries
    assert torch.allclose(blockwise_attention(query, *shared, block_size=2), in_one_piece(query, *shared))
    single = query[0, 0], key[0, 0], value[0, 0]
    assert torch.allclose(blockwise_attention(*single, block_size=2), in_one_piece(*single))


@pytest.mark.parametrize("query_len, key_len", [(0, 4), (4, 0), (0, 0)])
def test_empty_axes_give_empty_or_zero_values(query_len, key_len):
    values = blockwise_attention(*random_inputs(query_len, key_len), block_size=3)
    assert values.shape == (2, 3, query_len, 6)
    assert values.eq(0).all()


def test_inputs_are_not_modified():
    inputs = [x.detach() for x in random_inputs(9, 9)]
    before = [x.clone() for x in inputs]
    blockwise_attention(*inputs, causal=True, block_size=4)
    assert all(torch.equal(one, two) for one, two in zip(inputs, before, strict=True))


# In a process of its own: this one may have freed memory that the call could use unseen.
PEAK = """
import re, torch
from pathlib import Path
from attn_core import blockwise_attention

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

inputs = torch.randn(3, 16384, 64)
with torch.no_grad():
    blockwise_attention(*inputs[:, :16])
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far, which was the import of torch
    before = peak()
    blockwise_attention(*inputs)
print(peak() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can forget an earlier peak of memory")
def test_memory_stays_below_a_twentieth_of_the_weights_at_16384_tokens():
    run = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    weights = 4 * 16384**2  # bytes in float32, 1.07 GB
    assert int(run.stdout) < weights / 20
