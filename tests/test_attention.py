"""One head of attention: against torch, against a float64 formula, and against its own promises."""

import copy
import math
import pickle

import pytest
import torch
import torch.nn.functional as F
from core_cases import COMPILER, DEVICES, EVERY_TEST, REPEATABLE, assert_same_gradients, close, gradients
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn_core import AttentionOutput, attention_trace, causal_mask, padding_mask, scaled_dot_product_attention

pytestmark = EVERY_TEST
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
HALF = [torch.bfloat16, torch.float16]
MASKS = [
    "none",
    "causal, lower right",
    "causal, upper left",
    "padding",
    "causal and padding",
    "random bool",
    "additive",
    "additive with -inf",
]


def random_inputs(batch=(2,), query_len=3, key_len=5, d_k=4, d_v=6, dtype=torch.float64, seed=0):
    """A query, a key and a value that want gradients. All sizes differ, so that no axis passes for another."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (query_len, d_k), (key_len, d_k), (key_len, d_v)
    made = (torch.randn(*batch, *shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return tuple(x.to(dtype).requires_grad_() for x in made)


def random_mask(kind, batch, query_len, key_len, dtype, generator):
    causal = causal_mask(query_len, key_len, align="upper_left" if "upper" in kind else "lower_right")
    lengths = torch.randint(0, key_len + 1, (batch[0] if batch else 1,), generator=generator)
    padding = padding_mask(lengths, key_len).view(*batch[:1], *[1] * len(batch[1:]), 1, key_len)
    keep = torch.rand(*batch, query_len, key_len, generator=generator) < 0.6
    added = torch.randn(query_len, key_len, generator=generator, dtype=torch.float64).to(dtype)
    return {
        "none": None,
        "causal, lower right": causal,
        "causal, upper left": causal,
        "padding": padding,
        "causal and padding": causal & padding,
        "random bool": keep,
        "additive": added,
        "additive with -inf": added.masked_fill(~keep, -math.inf),
    }[kind]


def formula(query, key, value, mask=None):
    """Equation (1) in float64, one query at a time: only the keys that it may attend to take part."""
    batch = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    scores = (query.double() @ key.double().mT / math.sqrt(query.size(-1))).expand(*batch, -1, -1)
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -math.inf)
    if mask is not None:
        scores = scores + mask.double()
    rows = []
    for row in scores.reshape(-1, scores.size(-1)):
        seen = row > -math.inf
        weights = torch.zeros_like(row)
        if seen.any():
            weights[seen] = row[seen].exp() / row[seen].exp().sum()
        rows.append(weights)
    weights = torch.stack(rows).view(scores.shape)
    return weights @ value.double(), weights


@st.composite
def cases(draw, dtypes):
    """Inputs of 2 to 5 axes with a mask; every length and width from 1 up."""
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    query_len, key_len, d_k, d_v = (draw(st.integers(1, 6)) for _ in range(4))
    dtype, kind, seed = draw(st.sampled_from(dtypes)), draw(st.sampled_from(MASKS)), draw(st.integers(0, 999))
    inputs = random_inputs(batch, query_len, key_len, d_k, d_v, dtype, seed)
    return *inputs, random_mask(kind, batch, query_len, key_len, dtype, torch.Generator().manual_seed(seed))


@REPEATABLE
@given(cases([torch.float64, torch.float32]), st.booleans())
def test_agrees_with_torch_forward_and_backward(case, need_weights):
    *inputs, mask = case
    within = 1e-10 if inputs[0].dtype == torch.float64 else 1e-5
    values, weights = scaled_dot_product_attention(*inputs, mask, need_weights=need_weights)
    expected = F.scaled_dot_product_attention(*inputs, mask)
    torch.testing.assert_close(values, expected, atol=within, rtol=0)
    assert_same_gradients(values, expected, inputs, within=within)
    assert (weights is not None) == need_weights


@REPEATABLE
@given(cases(DTYPES), st.booleans())
def test_agrees_with_the_formula_in_float64_to_a_few_ulps(case, need_weights):
    *inputs, mask = case
    query, key, value = (x.detach() for x in inputs)
    values, weights = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights)
    expected_values, expected_weights = formula(query, key, value, mask)
    few_ulps = 8 * torch.finfo(value.dtype).eps
    assert values.dtype == value.dtype
    torch.testing.assert_close(values.double(), expected_values, atol=few_ulps * value.abs().max().item(), rtol=0)
    if need_weights:
        torch.testing.assert_close(weights.double(), expected_weights, atol=few_ulps, rtol=0)


@REPEATABLE
@given(cases(HALF), st.booleans())
def test_half_precision_gradients_agree_with_float64(case, need_weights):
    *inputs, mask = case
    wide = [x.detach().double().requires_grad_() for x in inputs]
    ours = gradients(scaled_dot_product_attention(*inputs, mask, need_weights=need_weights).values, inputs)
    theirs = gradients(formula(*wide, mask)[0], wide)
    # Gradients are sums over queries, keys and widths, so the ulps are those of the larger factors.
    size = max(1.0, *(x.abs().max().item() for x in wide)) ** 2
    for our, their in zip(ours, theirs, strict=True):
        within = 16 * torch.finfo(our.dtype).eps * size
        torch.testing.assert_close(our.double(), their, atol=within, rtol=0)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("which", ["scale", "batch", "mask gradient"])
def test_agrees_with_torch_on(which, need_weights):
    query, key, value = random_inputs((3, 4, 2))
    mask = torch.randn(3, 5, dtype=torch.float64, requires_grad=True) if which == "mask gradient" else None
    scale = {"scale": 0.3} if which == "scale" else {}
    if which == "batch":  # some keys and some values serve all
        key, value = key[:1], value[:, :1]
    wanted = (query, key, value) if mask is None else (query, key, value, mask)
    ours = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights, **scale).values
    theirs = F.scaled_dot_product_attention(query, key, value, mask, **scale)
    close(ours, theirs)
    assert_same_gradients(ours, theirs, wanted)


@pytest.mark.parametrize("mask", [None, causal_mask(3, 5), causal_mask(3, 5) & (torch.arange(5) > 2)])
def test_gradients_of_values_and_of_weights_are_those_of_finite_differences(mask):
    # The weights have gradients too: a loss may be put on them, and torch never computes those in one kernel.
    def both(*inputs):
        return tuple(scaled_dot_product_attention(*inputs, mask))

    assert torch.autograd.gradcheck(both, random_inputs((1,), d_k=2, d_v=2))
    assert torch.autograd.gradgradcheck(both, random_inputs((1,), d_k=2, d_v=2))


def test_worked_example_of_the_document():
    x = torch.tensor([[1, 1], [1, 0]], dtype=torch.float64)
    query = x @ torch.tensor([[1, 1], [0, 1]], dtype=torch.float64)
    key = x @ torch.tensor([[0, 1], [1, 1]], dtype=torch.float64)
    value = x @ torch.eye(2, dtype=torch.float64)
    assert query.tolist() == [[1, 2], [1, 1]]
    assert key.tolist() == [[1, 2], [0, 1]]
    assert value.tolist() == [[1, 1], [1, 0]]
    trace = attention_trace(query, key, value)
    assert trace.scores.tolist() == [[5, 2], [3, 1]]
    torch.testing.assert_close(trace.scaled * math.sqrt(2), trace.scores)
    # Softmax of two numbers is the logistic function of their difference: 3/√2 and 2/√2.
    first, second = (1 / (1 + math.exp(-difference / math.sqrt(2))) for difference in (3, 2))
    assert (round(first, 4), round(second, 4)) == (0.8930, 0.8044)
    weights = torch.tensor([[first, 1 - first], [second, 1 - second]], dtype=torch.float64)
    # Both values start with 1, and only the first ends with 1: the output is 1 and the first weight.
    values = torch.tensor([[1, first], [1, second]], dtype=torch.float64)
    output = scaled_dot_product_attention(query, key, value)
    for got in (trace, output):
        torch.testing.assert_close(got.weights, weights, atol=1e-15, rtol=0)
        torch.testing.assert_close(got.values, values, atol=1e-15, rtol=0)


@pytest.mark.parametrize("need_weights", [True, False])
def test_huge_scores_do_not_overflow(need_weights):
    query, key = torch.tensor([[1e4]]), torch.tensor([[1e4], [-1e4], [1e4]])
    values = scaled_dot_product_attention(query, key, torch.tensor([[1.0], [2.0], [4.0]]), need_weights=need_weights)
    assert values.values.item() == 2.5


def test_weights_are_those_before_dropout():
    query, key, _ = (x.detach() for x in random_inputs((64,)))
    plain = scaled_dot_product_attention(query, key, torch.eye(5).double().expand(64, 5, 5))
    dropped = scaled_dot_product_attention(query, key, torch.eye(5).double().expand(64, 5, 5), dropout_p=0.25)
    torch.testing.assert_close(dropped.weights, plain.weights)
    # With the identity as values the output is the weights that met the values: dropped, or made up for the dropped.
    gone = dropped.values == 0
    torch.testing.assert_close(dropped.values, plain.weights.masked_fill(gone, 0.0) / 0.75)
    assert 0.15 < gone.double().mean() < 0.35


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_keeps_the_average(need_weights):
    inputs = [x.detach().float() for x in random_inputs((1,))]
    repeated = [x.expand(4000, -1, -1) for x in inputs]
    values = scaled_dot_product_attention(*repeated, dropout_p=0.5, need_weights=need_weights).values
    assert values.std(0).min() > 0.1
    torch.testing.assert_close(values.mean(0), scaled_dot_product_attention(*inputs).values[0], atol=0.15, rtol=0)


@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["bool", "additive"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_fully_masked_query_gets_zeros_and_zero_gradients(dtype, kind, need_weights, dropout_p):
    query, key, value = random_inputs(dtype=dtype)
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    if kind == "additive":
        mask = torch.zeros(3, 5, dtype=dtype).masked_fill(~mask, -math.inf)
    output = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights, dropout_p=dropout_p)
    assert output.values[:, 1].eq(0).all()
    assert output.values.isfinite().all()
    if need_weights:
        assert output.weights[:, 1].eq(0).all()
        torch.testing.assert_close(output.weights[:, 0].sum(-1).float(), torch.ones(2), atol=0.02, rtol=0)
    output.values.sum().backward()
    assert query.grad[:, 1].eq(0).all()
    assert all(x.grad.isfinite().all() and x.grad.any() for x in (query, key, value))


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_weights_are_exactly_zero_and_nothing_is_nan(dtype):
    # A fill with -1e9, the usual one, does not exist in float16 and leaves a weight where all scores are low.
    query, key, value = (50 * x.detach() for x in random_inputs(dtype=dtype))
    mask = causal_mask(3, 5)
    trace = attention_trace(query, key, value, mask)
    for weights in (trace.weights, scaled_dot_product_attention(query, key, value, mask).weights):
        assert weights[..., ~mask].eq(0).all()
        assert not weights.isnan().any()
    assert trace.masked[..., ~mask].eq(-math.inf).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_large_negative_number_in_an_additive_mask_is_not_yet_nothing(need_weights):
    # The same number on every key of a query shifts its scores and leaves its weights; only -inf says "nothing".
    inputs = random_inputs()
    mask = torch.full((3, 5), -1e6, dtype=torch.float64)
    shifted = scaled_dot_product_attention(*inputs, mask, need_weights=need_weights).values
    torch.testing.assert_close(shifted, scaled_dot_product_attention(*inputs).values, atol=1e-8, rtol=0)


@pytest.mark.parametrize("need_weights", [True, False])
def test_the_least_number_of_float16_on_every_key_gives_no_nan(need_weights):
    # Some libraries use it for "blocked"; in float16 a negative score takes it to -inf.
    query, key, value = (torch.full((1, length, 8), fill).half() for length, fill in ((1, 8.0), (3, -8.0), (3, 1.0)))
    mask = torch.full((1, 3), torch.finfo(torch.float16).min).half()
    assert scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights).values.isfinite().all()
    assert attention_trace(query, key, value, mask).values.isfinite().all()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_query_that_an_additive_mask_leaves_nothing_gets_zeros_whatever_its_scores(bad):
    query, key, value = (x.detach() for x in random_inputs())
    key[:, 0, 0] = bad
    output = scaled_dot_product_attention(query, key, value, torch.full((3, 5), -math.inf, dtype=torch.float64))
    assert not output.values.any() and not output.weights.any()


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch", [(), (2,), (2, 4)])
@pytest.mark.parametrize("shape", [(), (1,), (5,)])
def test_a_mask_may_have_fewer_axes_than_the_scores(shape, batch, need_weights):
    inputs = random_inputs(batch)
    for mask in (torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.7, torch.randn(shape).double()):
        few = scaled_dot_product_attention(*inputs, mask, need_weights=need_weights).values
        full = scaled_dot_product_attention(*inputs, mask.expand(*batch, 3, 5), need_weights=need_weights).values
        torch.testing.assert_close(few, full)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask_dtype", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_additive_mask_of_any_dtype_leaves_the_dtype_of_the_inputs(dtype, mask_dtype, need_weights):
    inputs = random_inputs(dtype=dtype)
    mask = torch.tensor([0.0, 0.5, -1.0, -2.0, -math.inf], dtype=mask_dtype)  # exact in all four dtypes
    output = scaled_dot_product_attention(*inputs, mask, need_weights=need_weights)
    expected = scaled_dot_product_attention(*inputs, mask.to(dtype), need_weights=need_weights)
    assert output.values.dtype == dtype
    torch.testing.assert_close(output.values, expected.values, atol=0, rtol=0)
    assert attention_trace(*inputs, mask).values.dtype == dtype


@pytest.mark.parametrize("need_weights", [True, False])
def test_what_a_masked_key_holds_does_not_matter(need_weights):
    query, key, value = (x.detach() for x in random_inputs())
    mask = torch.arange(5) < 3
    before = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights).values
    key[:, 3:], value[:, 3:] = 1e6, -1e6
    after = scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights).values
    torch.testing.assert_close(before, after, atol=0, rtol=0)
    torch.testing.assert_close(
        after, scaled_dot_product_attention(query, key[:, :3], value[:, :3]).values, atol=1e-10, rtol=0
    )


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(("query_len", "key_len"), [(1, 5), (3, 5), (5, 5), (5, 3), (5, 1)])
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_causal_is_the_causal_mask_forward_and_backward(batch, query_len, key_len, need_weights, kind):
    inputs = random_inputs(batch, query_len, key_len)
    mask = random_mask(kind, batch, query_len, key_len, torch.float64, torch.Generator().manual_seed(1))
    past = causal_mask(query_len, key_len)
    added = torch.zeros(past.shape, dtype=torch.float64).masked_fill(~past, -math.inf)
    both = mask + added if "additive" in kind else past if mask is None else past & mask
    got = scaled_dot_product_attention(*inputs, mask, causal=True, need_weights=need_weights)
    expected_values, expected_weights = formula(*inputs, both)
    close(got.values, expected_values)
    assert_same_gradients(got.values, expected_values, inputs)
    if need_weights:
        close(got.weights, expected_weights)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_queries_before_the_first_key_get_zeros_and_zero_gradients_where_causal(dtype, need_weights):
    query, key, value = random_inputs(query_len=5, key_len=3, dtype=dtype)
    values = scaled_dot_product_attention(query, key, value, causal=True, need_weights=need_weights).values
    values.sum().backward()
    assert values[:, :2].eq(0).all() and values[:, 2:].ne(0).any(-1).all()
    assert query.grad[:, :2].eq(0).all()
    assert all(x.grad.isfinite().all() and x.grad.any() for x in (query, key, value))


@pytest.fixture
def told(monkeypatch):
    """What torch's kernel is told in each call: causal or not, and the shape of the mask."""
    calls, kernel = [], F.scaled_dot_product_attention

    def watched(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **options):
        calls.append((is_causal, None if attn_mask is None else tuple(attn_mask.shape)))
        return kernel(query, key, value, attn_mask, dropout_p, is_causal, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watched)
    return calls


@pytest.mark.parametrize(
    ("query_len", "key_len", "masked"), [(5, 5, False), (5, 5, True), (3, 5, False), (5, 3, False)]
)
def test_the_kernel_is_told_causal_only_where_it_means_the_same(told, query_len, key_len, masked):
    # Where L and S differ it aligns at the upper left, and beside a mask it takes no flag at all.
    mask = torch.ones(1, key_len, dtype=torch.bool) if masked else None
    scaled_dot_product_attention(*random_inputs((), query_len, key_len), mask, causal=True, need_weights=False)
    alone = query_len == key_len and not masked
    assert told == [(True, None) if alone else (False, (query_len, key_len))]


@pytest.mark.parametrize(
    "mask",
    [None, torch.tensor([True, False] * 2 + [True]), causal_mask(3, 5), torch.zeros(3, 3, 5), padding_mask([5, 2])],
)
def test_without_weights_no_mask_makes_torch_leave_the_fused_kernel(told, mask):
    inputs = random_inputs((2, 3), d_v=4)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # an error where that one cannot do it
        values = scaled_dot_product_attention(*inputs, mask, need_weights=False).values
    shape = None if mask is None else (1,) * (4 - mask.dim()) + tuple(mask.shape)  # not blown up
    assert told == [(False, shape)]
    torch.testing.assert_close(scaled_dot_product_attention(*inputs, mask).values, values)
    assert len(told) == 1


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", MASKS)
def test_inputs_and_mask_are_not_modified(kind, need_weights, grad):
    # Without gradients softmax overwrites the scores: those must never share memory with what was passed in.
    mask = random_mask(kind, (2,), 3, 5, torch.float64, torch.Generator().manual_seed(1))
    given_ = [*random_inputs(), mask]
    before = copy.deepcopy(given_)
    with torch.set_grad_enabled(grad):
        scaled_dot_product_attention(*given_, need_weights=need_weights, dropout_p=0.5)
        attention_trace(*given_)
    for now, then in zip(given_, before, strict=True):
        assert now is then is None or torch.equal(now, then)


@pytest.mark.parametrize("context", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("kind", MASKS)
def test_result_is_the_same_with_and_without_weights_and_gradients(kind, context):
    inputs = random_inputs((2, 3))
    mask = random_mask(kind, (2, 3), 3, 5, torch.float64, torch.Generator().manual_seed(1))
    expected_values, expected_weights = formula(*inputs, mask)
    with context():
        explicit = scaled_dot_product_attention(*inputs, mask)
        fused = scaled_dot_product_attention(*inputs, mask, need_weights=False)
    assert fused.weights is None
    for values in (explicit.values, fused.values):
        close(values, expected_values)
    close(explicit.weights, expected_weights)


@REPEATABLE
@given(cases([torch.float64]))
def test_trace_agrees_with_attention_and_its_parts_with_each_other(case):
    query, key, value, mask = case
    trace, output = attention_trace(query, key, value, mask), scaled_dot_product_attention(query, key, value, mask)
    close(trace.weights, output.weights)
    close(trace.values, output.values)
    torch.testing.assert_close(trace.scores, query @ key.mT)
    torch.testing.assert_close(trace.scaled, trace.scores / math.sqrt(query.size(-1)))
    may_attend = trace.masked > -math.inf
    if mask is None or mask.dtype == torch.bool:
        torch.testing.assert_close(trace.masked[may_attend], trace.scaled[may_attend])
        assert torch.equal(may_attend, torch.ones_like(may_attend) if mask is None else mask.expand_as(may_attend))
    else:
        torch.testing.assert_close(trace.masked, trace.scaled + mask)
    close(trace.weights, trace.masked.softmax(-1).nan_to_num(0.0))
    close(trace.values, trace.weights @ value)


@pytest.mark.parametrize("need_weights", [True, False])
def test_empty_axes_give_empty_or_zero_values(need_weights):
    query, key, value = (x.detach() for x in random_inputs())
    no_query = scaled_dot_product_attention(query[:, :0], key, value, need_weights=need_weights)
    no_sample = scaled_dot_product_attention(query[:0], key[:0], value[:0], need_weights=need_weights)
    no_key = scaled_dot_product_attention(query, key[:, :0], value[:, :0], need_weights=need_weights)
    for query_len, key_len in ((0, 0), (0, 5), (3, 0)):
        given_ = query[:, :query_len], key[:, :key_len], value[:, :key_len]
        causal = scaled_dot_product_attention(*given_, causal=True, need_weights=need_weights).values
        assert torch.equal(causal, torch.zeros(2, query_len, 6, dtype=torch.float64))
    assert no_query.values.shape == (2, 0, 6)
    assert no_sample.values.shape == (0, 3, 6)
    assert torch.equal(no_key.values, torch.zeros(2, 3, 6, dtype=torch.float64))


def test_inputs_that_are_not_contiguous_give_the_same():
    query, key, value = random_inputs((2, 3))
    turned = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (query, key, value)]
    torch.testing.assert_close(scaled_dot_product_attention(*turned), scaled_dot_product_attention(query, key, value))


@pytest.mark.parametrize("kind", ["none", "causal, lower right", "padding", "additive with -inf", "blind", "causal"])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_compiles_as_one_graph(kind, need_weights, grad):
    inputs, options = random_inputs((2, 3), 3, 2 if kind == "causal" else 5), {"need_weights": need_weights}
    blind = torch.tensor([True, False, True])[:, None]
    if kind in ("blind", "causal"):
        mask, options["causal"] = blind, kind == "causal"
    else:
        mask = random_mask(kind, (2, 3), 3, 5, torch.float64, torch.Generator().manual_seed(1))
    torch._dynamo.reset()
    compiled = torch.compile(scaled_dot_product_attention, backend="aot_eager", fullgraph=True)
    with torch.set_grad_enabled(grad):
        got, expected = (attend(*inputs, mask, **options) for attend in (compiled, scaled_dot_product_attention))
    close(got.values, expected.values)
    if need_weights:
        close(got.weights, expected.weights)
    if grad:
        assert_same_gradients(got.values, expected.values, inputs)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="inductor needs a C++ compiler")
def test_compiles_with_inductor():
    inputs = [x.detach() for x in random_inputs((2, 3), dtype=torch.float32)]
    torch._dynamo.reset()
    compiled = torch.compile(scaled_dot_product_attention, fullgraph=True)
    got, expected = compiled(*inputs, causal_mask(3, 5)), scaled_dot_product_attention(*inputs, causal_mask(3, 5))
    torch.testing.assert_close(got.values, expected.values)
    torch.testing.assert_close(got.weights, expected.weights)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_vmap_over_the_batch_is_the_batch(need_weights, grad):
    inputs = random_inputs((7,))

    def one(*sample):
        return scaled_dot_product_attention(*sample, causal_mask(3, 5), need_weights=need_weights).values

    with torch.set_grad_enabled(grad):
        close(torch.func.vmap(one)(*inputs), one(*inputs))


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["bool", "additive with -inf"])
def test_vmap_over_the_masks_alone_is_a_batch_of_masks(kind, need_weights, grad):
    query, key, value = random_inputs(())
    masks = torch.rand(7, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    masks[0, 1] = False
    if kind != "bool":
        masks = torch.zeros(7, 3, 5, dtype=torch.float64).masked_fill(~masks, -math.inf)

    def one(mask):
        return scaled_dot_product_attention(query, key, value, mask, need_weights=need_weights).values

    with torch.set_grad_enabled(grad):
        got = torch.func.vmap(one)(masks)
    close(got, torch.stack([one(mask) for mask in masks]))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_trace_of_torch_jit_serves_other_masks_too():
    inputs, mask = [x.detach() for x in random_inputs()], causal_mask(3, 5)
    with torch.no_grad():
        traced = torch.jit.trace(lambda *given_: scaled_dot_product_attention(*given_).values, (*inputs, mask))
    mask[1] = False
    torch.testing.assert_close(traced(*inputs, mask), scaled_dot_product_attention(*inputs, mask).values)


@pytest.mark.parametrize("need_weights", [True, False])
def test_functional_gradients_agree_with_backward(need_weights):
    inputs = random_inputs()

    def total(*given_):
        return scaled_dot_product_attention(*given_, causal_mask(3, 5), need_weights=need_weights).values.sin().sum()

    functional = torch.func.grad(total, argnums=(0, 1, 2))(*(x.detach() for x in inputs))
    for ours, theirs in zip(functional, torch.autograd.grad(total(*inputs), inputs), strict=True):
        torch.testing.assert_close(ours, theirs)
    # Forward mode sees through the softmax that overwrites its input, too.
    tangent = torch.randn_like(inputs[0])
    with torch.no_grad():
        slope = torch.func.jvp(lambda query: total(query, *inputs[1:]), (inputs[0],), (tangent,))[1]
    torch.testing.assert_close(slope, (functional[0] * tangent).sum())


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_autocast_lowers_the_precision_and_changes_nothing_else(need_weights, grad):
    inputs = random_inputs(dtype=torch.float32)
    mask = causal_mask(3, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.set_grad_enabled(grad):
        values, weights = scaled_dot_product_attention(*inputs, mask, need_weights=need_weights)
    expected = scaled_dot_product_attention(*inputs, mask)
    assert values.dtype == torch.bfloat16
    torch.testing.assert_close(values.float(), expected.values, atol=0.05, rtol=0)
    if need_weights:
        torch.testing.assert_close(weights.float(), expected.weights, atol=0.02, rtol=0)
        assert weights[..., ~mask].eq(0).all()


@pytest.mark.parametrize("device", ["cpu", *DEVICES])
def test_autocast_gives_the_same_with_and_without_gradients(device):
    # On some devices autocast runs softmax in float32, which softmax into a given array would bypass.
    inputs = [x.detach().to(device) for x in random_inputs(dtype=torch.float32)]
    with torch.autocast(device, dtype=torch.bfloat16):
        with torch.no_grad():
            without = scaled_dot_product_attention(*inputs)
        torch.testing.assert_close(without, scaled_dot_product_attention(*inputs), atol=0, rtol=0)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_meta_tensors_give_shapes_without_numbers(need_weights, grad):
    inputs = (x.to("meta") for x in random_inputs())
    with torch.set_grad_enabled(grad):
        values, weights = scaled_dot_product_attention(*inputs, causal_mask(3, 5), need_weights=need_weights)
    assert (values.device.type, values.shape) == ("meta", (2, 3, 6))
    assert weights is None or weights.shape == (2, 3, 5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("need_weights", [True, False])
def test_other_devices_give_the_same_and_take_a_mask_from_the_cpu(device, need_weights):
    inputs = random_inputs((2, 3), dtype=torch.float32)
    moved = (x.to(device) for x in inputs)
    got = scaled_dot_product_attention(*moved, causal_mask(3, 5), need_weights=need_weights).values
    expected = scaled_dot_product_attention(*inputs, causal_mask(3, 5)).values
    assert got.device.type == device
    torch.testing.assert_close(got.cpu(), expected, atol=1e-4, rtol=0)


def test_output_can_be_copied_and_pickled():
    output = AttentionOutput(*(x.detach() for x in scaled_dot_product_attention(*random_inputs())))
    for again in (copy.deepcopy(output), pickle.loads(pickle.dumps(output))):
        assert type(again) is AttentionOutput
        torch.testing.assert_close(again, output, atol=0, rtol=0)
