"""Several heads: against torch's layer, and the reshaping in which most mistakes are made."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from core_cases import COMPILER, DEVICES, EVERY_TEST, REPEATABLE, assert_same_gradients, close
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils import prune

from attn_core import MultiHeadAttention, causal_mask, merge_heads, padding_mask, split_heads

pytestmark = EVERY_TEST


def randomised(layer):
    """The layer with no parameter left at zero, such as the biases that start there."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(0, 0.4)
    return layer


def as_torch(tensors, batch_first):
    return tensors if batch_first else [x.transpose(0, 1) for x in tensors]


def test_split_gives_each_head_its_columns_of_every_token():
    heads = split_heads(torch.arange(8).view(1, 2, 4), 2)
    assert heads.tolist() == [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]


@pytest.mark.parametrize(("length", "width", "num_heads"), [(1, 1, 1), (3, 8, 1), (3, 8, 2), (3, 8, 8), (8, 6, 3)])
def test_merge_is_the_inverse_of_split(length, width, num_heads):
    x = torch.randn(2, length, width)
    heads = split_heads(x, num_heads)
    assert heads.shape == (2, num_heads, length, width // num_heads)
    assert torch.equal(merge_heads(heads), x)
    assert torch.equal(split_heads(merge_heads(heads), num_heads), heads)


def test_split_is_a_view_and_copes_with_any_layout():
    x = torch.randn(2, 3, 8)
    assert split_heads(x, 2).data_ptr() == x.data_ptr()
    turned = x.transpose(0, 1).contiguous().transpose(0, 1)
    assert torch.equal(split_heads(turned, 2), split_heads(x, 2))


@pytest.mark.parametrize("shape", [(0, 3, 8), (2, 0, 8)])
def test_nothing_in_gives_nothing_out(shape):
    assert torch.equal(merge_heads(split_heads(torch.zeros(shape), 2)), torch.zeros(shape))
    for need_weights in (True, False):
        assert MultiHeadAttention(8, 2)(torch.zeros(shape), need_weights=need_weights).values.shape == shape


@st.composite
def layers(draw):
    """torch's layer of any size, with everything random, and the inputs for it."""
    head_dim, num_heads, batch, query_len = (draw(st.integers(1, 4)) for _ in range(4))
    same = draw(st.sampled_from(["query only", "value is key", "all three"]))
    key_len = query_len if same == "query only" else draw(st.integers(1, 5))
    batch_first, bias = draw(st.booleans()), draw(st.booleans())
    kind = draw(st.sampled_from(["none", "causal", "padding", "causal and padding", "per head", "additive"]))
    torch.manual_seed(draw(st.integers(0, 999)))
    width = head_dim * num_heads
    layer = nn.MultiheadAttention(width, num_heads, bias=bias, batch_first=batch_first, dtype=torch.float64)
    lengths = [query_len] + [key_len] * {"query only": 0, "value is key": 1, "all three": 2}[same]
    inputs = [torch.randn(batch, length, width, dtype=torch.float64, requires_grad=True) for length in lengths]
    return randomised(layer), inputs, *masks(kind, batch, num_heads, query_len, key_len)


def masks(kind, batch, num_heads, query_len, key_len):
    """A mask for our layer, and the same as arguments of torch's, where a bool mask says True = blocked."""
    # Every query sees the first key: where one sees none, torch's layer gives NaN.
    causal = causal_mask(query_len, key_len, align="upper_left")
    lengths = torch.randint(1, key_len + 1, (batch,))
    padding = padding_mask(lengths, key_len)
    per_head = torch.rand(batch, num_heads, query_len, key_len) < 0.6
    per_head[..., 0] = True
    added = torch.randn(query_len, key_len, dtype=torch.float64)
    return {
        "none": (None, {}),
        "causal": (causal, {"attn_mask": ~causal}),
        "padding": (padding, {"key_padding_mask": ~padding[:, 0, 0]}),
        "causal and padding": (causal & padding, {"attn_mask": ~causal, "key_padding_mask": ~padding[:, 0, 0]}),
        "per head": (per_head, {"attn_mask": ~per_head.flatten(0, 1)}),
        "additive": (added, {"attn_mask": added}),
    }[kind]


@REPEATABLE
@given(layers(), st.booleans())
def test_agrees_with_the_layer_of_torch_forward_and_backward(case, need_weights):
    theirs, inputs, mask, their_masks = case
    ours = MultiHeadAttention.from_torch(theirs)
    values, weights = ours(*inputs, mask=mask, need_weights=need_weights)
    three = [inputs[0], inputs[min(1, len(inputs) - 1)], inputs[-1]]
    expected, expected_weights = theirs(
        *as_torch(three, theirs.batch_first), **their_masks, need_weights=need_weights, average_attn_weights=False
    )
    expected = as_torch([expected], theirs.batch_first)[0]
    close(values, expected)
    if need_weights:
        close(weights, expected_weights)
    names = dict(theirs.named_parameters())
    ours_wanted = [*inputs, ours.qkv_proj.weight, ours.out_proj.weight]
    theirs_wanted = [*inputs, names["in_proj_weight"], names["out_proj.weight"]]
    if "in_proj_bias" in names:
        ours_wanted += [ours.qkv_proj.bias, ours.out_proj.bias]
        theirs_wanted += [names["in_proj_bias"], names["out_proj.bias"]]
    assert_same_gradients(values, expected, ours_wanted, theirs_wanted)


@REPEATABLE
@given(layers())
def test_to_torch_and_back_changes_no_bit(case):
    theirs, inputs, mask, their_masks = case
    ours = MultiHeadAttention.from_torch(theirs)
    again = ours.to_torch()
    assert again.batch_first
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    back = MultiHeadAttention.from_torch(again)
    assert all(torch.equal(back.state_dict()[name], tensor) for name, tensor in ours.state_dict().items())
    three = [inputs[0], inputs[min(1, len(inputs) - 1)], inputs[-1]]
    close(again(*three, **their_masks)[0], ours(*inputs, mask=mask).values)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_conversion_keeps_dtype_dropout_and_mode_and_copies_the_weights(dtype, training):
    theirs = randomised(nn.MultiheadAttention(8, 2, dropout=0.25, dtype=dtype)).train(training)
    ours = MultiHeadAttention.from_torch(theirs)
    back = ours.to_torch()
    assert ours.dropout == back.dropout == 0.25
    assert ours.training == back.training == training
    assert {p.dtype for layer in (ours, back) for p in layer.parameters()} == {dtype}
    before = theirs.in_proj_weight.clone()
    nn.init.zeros_(ours.qkv_proj.weight)
    assert torch.equal(theirs.in_proj_weight, before)
    assert torch.equal(back.in_proj_weight, before)


@pytest.mark.parametrize("bias", [True, False])
def test_from_torch_takes_a_parametrised_layer(bias):
    theirs = randomised(nn.MultiheadAttention(8, 2, bias=bias, batch_first=True)).eval()
    nn.utils.parametrizations.spectral_norm(theirs.out_proj)
    theirs.eval()
    x = X[..., :8].detach()
    close(MultiHeadAttention.from_torch(theirs)(x).values, theirs(x, x, x)[0])


def test_to_torch_takes_a_parametrised_layer():
    ours = randomised(MultiHeadAttention(8, 2)).eval()
    for projection in (ours.qkv_proj, ours.out_proj):
        nn.utils.parametrizations.spectral_norm(projection).eval()
    x = X[..., :8] + torch.arange(8)
    close(ours.to_torch()(x, x, x)[0], ours(x).values, 1e-5)


def test_to_torch_takes_a_pruned_layer():
    ours = randomised(MultiHeadAttention(8, 2))
    prune.random_unstructured(ours.qkv_proj, "weight", amount=0.5)
    prune.random_unstructured(ours.out_proj, "bias", amount=0.5)
    theirs, x = ours.to_torch(), torch.randn(2, 3, 8)
    assert theirs.in_proj_weight.eq(0).sum() == ours.qkv_proj.weight.numel() / 2
    assert isinstance(theirs.in_proj_weight, nn.Parameter)
    close(theirs(x, x, x)[0], ours(x).values, 1e-5)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, 6])
def test_shared_heads_agree_with_grouped_attention_of_torch(num_kv_heads, bias, cross, need_weights, masked):
    layer = randomised(MultiHeadAttention(12, 6, num_kv_heads=num_kv_heads, bias=bias).double())
    query = torch.randn(2, 3, 12, dtype=torch.float64)
    key = torch.randn(2, 5, 12, dtype=torch.float64) if cross else query
    mask = causal_mask(3, key.size(1)) if masked else None
    rows = [12, num_kv_heads * 2, num_kv_heads * 2]
    assert layer.qkv_proj.out_features == sum(rows)
    q = layer.qkv_proj(query).split(rows, dim=-1)[0]
    _, k, v = layer.qkv_proj(key).split(rows, dim=-1)
    q, k, v = (split_heads(x, x.size(-1) // 2) for x in (q, k, v))
    expected = layer.out_proj(merge_heads(F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)))
    got = layer(query, key, mask=mask, need_weights=need_weights).values
    close(got, expected)
    wanted = list(layer.parameters())
    assert_same_gradients(got, expected, wanted)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
def test_self_attention_is_cross_attention_with_oneself(num_kv_heads):
    layer = randomised(MultiHeadAttention(8, 4, num_kv_heads=num_kv_heads).double())
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    # A copy takes the path of three projections, the tensor itself that of one.
    for inputs in ((x, x), (x, x, x), (x, x.clone()), (x, x.clone(), x.clone()), (x, x, x.clone())):
        close(layer(*inputs, need_weights=True), layer(x, need_weights=True))
    other = torch.randn(2, 5, 8, dtype=torch.float64)
    close(layer(x, x, other).values, layer(x, x.clone(), other).values)


@pytest.mark.parametrize("kind", ["(L, S)", "(H, L, S)", "(B, 1, 1, S)", "(B, H, L, S)", "additive"])
def test_result_does_not_depend_on_whether_weights_are_asked_for(kind):
    layer = randomised(MultiHeadAttention(8, 4).double())
    shape = {"(L, S)": (3, 5), "(H, L, S)": (4, 3, 5), "(B, 1, 1, S)": (2, 1, 1, 5)}.get(kind, (2, 4, 3, 5))
    mask = torch.randn(shape).double() if kind == "additive" else torch.rand(shape) < 0.5
    inputs = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 5, 8, dtype=torch.float64)
    with_weights, without = layer(*inputs, mask=mask, need_weights=True), layer(*inputs, mask=mask)
    assert without.weights is None
    assert with_weights.weights.shape == (2, 4, 3, 5)
    close(with_weights.values, without.values)
    if kind != "additive":
        assert with_weights.weights[~mask.expand(2, 4, 3, 5)].eq(0).all()


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_acts_in_training_only(need_weights):
    layer, x = MultiHeadAttention(8, 2, dropout=0.5), torch.randn(2, 5, 8)
    trained = [layer(x, need_weights=need_weights) for _ in range(2)]
    assert not torch.equal(trained[0].values, trained[1].values)
    layer.eval()
    first, second = (layer(x, need_weights=need_weights) for _ in range(2))
    assert torch.equal(first.values, second.values)
    if need_weights:  # weights are those before dropout
        torch.testing.assert_close(trained[0].weights, first.weights)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("position", range(4))
def test_causal_layer_does_not_depend_on_the_future(position, need_weights):
    layer = MultiHeadAttention(8, 2)
    x = torch.randn(1, 4, 8, requires_grad=True)
    values = layer(x, mask=causal_mask(4), need_weights=need_weights).values
    (gradient,) = torch.autograd.grad(values[:, position].sum(), x)
    assert gradient[:, position + 1 :].eq(0).all()
    assert gradient[:, : position + 1].ne(0).all()


@pytest.mark.parametrize("mask", [None, padding_mask([2, 0], 5)], ids=["no mask", "padding"])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("query_len", [3, 5, 7])
@pytest.mark.parametrize("num_kv_heads", [1, 4])
def test_causal_is_the_causal_mask_forward_and_backward(num_kv_heads, query_len, need_weights, mask):
    layer = randomised(MultiHeadAttention(8, 4, num_kv_heads=num_kv_heads).double())
    query, key = (torch.randn(2, length, 8, dtype=torch.float64) for length in (query_len, 5))
    query = key if query_len == 5 else query
    past = causal_mask(query_len, 5)
    got = layer(query, key, mask=mask, causal=True, need_weights=need_weights)
    expected = layer(query, key, mask=past if mask is None else past & mask, need_weights=need_weights)
    close(got, expected)
    wanted = list(layer.parameters())
    assert_same_gradients(got.values, expected.values, wanted)


@pytest.mark.parametrize("num_kv_heads", [1, 2, 4])
@pytest.mark.parametrize("cross", [True, False])
def test_project_gives_the_heads_and_attend_goes_on_from_there(cross, num_kv_heads):
    layer = randomised(MultiHeadAttention(8, 4, num_kv_heads=num_kv_heads).double())
    inputs = [torch.randn(2, length, 8, dtype=torch.float64) for length in ((3, 5) if cross else (5,))]
    query, key, value = layer.project(*inputs)
    assert query.shape == (2, 4, 3 if cross else 5, 2)
    assert key.shape == value.shape == (2, num_kv_heads, 5, 2)
    rows = [8, 2 * num_kv_heads, 2 * num_kv_heads]
    parts = [layer.qkv_proj(inputs[i]).split(rows, dim=-1)[part] for part, i in enumerate((0, -1, -1))]
    for heads, part in zip((query, key, value), parts, strict=True):
        close(heads, split_heads(part, part.size(-1) // 2))
    for options in ({}, {"mask": causal_mask(query.size(-2), 5)}, {"causal": True}, {"need_weights": True}):
        close(layer.attend(query, key, value, **options), layer(*inputs, **options))


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("num_kv_heads", [1, 4])
def test_decoding_with_a_cache_of_keys_and_values_gives_the_rows_of_the_whole_pass(num_kv_heads, need_weights):
    layer = randomised(MultiHeadAttention(8, 4, num_kv_heads=num_kv_heads).double())
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    whole = layer(x, causal=True).values
    keys, values = (torch.empty(2, num_kv_heads, 0, 2, dtype=torch.float64) for _ in range(2))
    for start, end in ((0, 3), (3, 4), (4, 6)):
        query, key, value = layer.project(x[:, start:end])
        keys, values = torch.cat([keys, key], dim=-2), torch.cat([values, value], dim=-2)
        step = layer.attend(query, keys, values, causal=True, need_weights=need_weights).values
        close(step, whole[:, start:end])


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_inputs_parameters_and_mask_are_not_modified(grad, need_weights):
    layer = MultiHeadAttention(8, 2)
    kept = [torch.randn(2, 3, 8), torch.randn(2, 5, 8), causal_mask(3, 5), *layer.parameters()]
    before = copy.deepcopy(kept)
    with torch.set_grad_enabled(grad):
        layer(kept[0], kept[1], mask=kept[2], need_weights=need_weights)
    assert all(torch.equal(now, then) for now, then in zip(kept, before, strict=True))


def test_starts_as_the_layer_of_torch_does():
    ours, theirs = MultiHeadAttention(64, 2), nn.MultiheadAttention(64, 2)
    for our, their in ((ours.qkv_proj.weight, theirs.in_proj_weight), (ours.out_proj.weight, theirs.out_proj.weight)):
        # Both uniform between the same bounds.
        assert our.abs().max().item() == pytest.approx(their.abs().max().item(), rel=0.01)
        assert our.std().item() == pytest.approx(their.std().item(), rel=0.05)
    for bias in (ours.qkv_proj.bias, ours.out_proj.bias, theirs.in_proj_bias, theirs.out_proj.bias):
        assert not bias.any()


@pytest.mark.parametrize("arguments", [{}, {"num_kv_heads": 2}, {"bias": False}, {"out_proj": False}])
def test_layer_can_be_saved_copied_and_pickled(arguments):
    layer, x = randomised(MultiHeadAttention(8, 4, dropout=0.1, **arguments)).eval(), torch.randn(2, 3, 8)
    saved = io.BytesIO()
    torch.save(layer.state_dict(), saved)
    saved.seek(0)
    loaded = MultiHeadAttention(8, 4, **arguments).eval()
    loaded.load_state_dict(torch.load(saved, weights_only=True))
    for again in (loaded, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(again(x).values, layer(x).values)


def test_layer_says_its_sizes():
    assert "embed_dim=8, num_heads=4, num_kv_heads=2" in repr(MultiHeadAttention(8, 4, num_kv_heads=2))


@pytest.mark.parametrize("num_kv_heads", [1, 4])
@pytest.mark.parametrize("need_weights", [True, False])
def test_layer_compiles_as_one_graph(need_weights, num_kv_heads):
    layer = MultiHeadAttention(8, 4, num_kv_heads=num_kv_heads).double()
    torch._dynamo.reset()
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    x, mask = torch.randn(2, 5, 8, dtype=torch.float64), causal_mask(5)
    got, expected = (f(x, mask=mask, need_weights=need_weights) for f in (compiled, layer))
    close(got.values, expected.values)
    wanted = list(layer.parameters())
    assert_same_gradients(got.values, expected.values, wanted)


def test_layer_and_its_causal_mask_compile_for_any_length():
    layer = MultiHeadAttention(8, 2)
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: layer(x, mask=causal_mask(x.size(1))).values, backend="aot_eager", fullgraph=True, dynamic=True
    )
    for length in (4, 5, 9):
        x = torch.randn(2, length, 8)
        torch.testing.assert_close(compiled(x), layer(x, mask=causal_mask(length)).values)


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="inductor needs a C++ compiler")
def test_layer_compiles_with_inductor():
    layer, x = MultiHeadAttention(8, 2).eval(), torch.randn(2, 5, 8)
    torch._dynamo.reset()
    with torch.no_grad():
        got = torch.compile(layer, fullgraph=True)(x, mask=causal_mask(5), need_weights=True)
        expected = layer(x, mask=causal_mask(5), need_weights=True)
    torch.testing.assert_close(got.values, expected.values)
    torch.testing.assert_close(got.weights, expected.weights)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("num_kv_heads", [1, 2])
def test_layer_can_be_exported_with_a_length_that_is_left_open(num_kv_heads, need_weights, masked):
    layer = MultiHeadAttention(8, 2, num_kv_heads=num_kv_heads).eval()
    length = torch.export.Dim("length", min=2, max=64)
    arguments = {"need_weights": need_weights}
    shapes = {"query": {1: length}, "need_weights": None}
    if masked:
        arguments["mask"], shapes["mask"] = causal_mask(5), {0: length, 1: length}
    program = torch.export.export(layer, (torch.randn(2, 5, 8),), arguments, dynamic_shapes=shapes)
    for now in (5, 7, 12):
        x = torch.randn(2, now, 8)
        if masked:
            arguments["mask"] = causal_mask(now)
        got, expected = program.module()(x, **arguments), layer(x, **arguments)
        torch.testing.assert_close(got.values, expected.values)
        if need_weights:
            torch.testing.assert_close(got.weights, expected.weights)


@pytest.mark.parametrize("need_weights", [True, False])
def test_gradients_of_each_sample_through_vmap_and_grad(need_weights):
    layer, x = MultiHeadAttention(8, 2).double(), torch.randn(4, 5, 8, dtype=torch.float64)

    def loss(parameters, sample):
        arguments = {"mask": causal_mask(5), "need_weights": need_weights}
        return torch.func.functional_call(layer, parameters, (sample[None],), arguments).values.sin().sum()

    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    per_sample = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    for index, sample in enumerate(x):
        expected = torch.autograd.grad(loss(dict(layer.named_parameters()), sample), list(layer.parameters()))
        for name, gradient in zip(parameters, expected, strict=True):
            close(per_sample[name][index], gradient)


@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layer_works_under_autocast_with_inputs_of_either_dtype(dtype, need_weights, grad, cross):
    layer = MultiHeadAttention(8, 2)
    inputs = [torch.randn(2, 5, 8) for _ in range(1 + cross)]
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.set_grad_enabled(grad):
        values = layer(*(x.to(dtype) for x in inputs), mask=causal_mask(5), need_weights=need_weights).values
    assert values.dtype == torch.bfloat16
    torch.testing.assert_close(values.float(), layer(*inputs, mask=causal_mask(5)).values, atol=0.05, rtol=0)
    if grad:
        values.float().sum().backward()
        assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_layer_in_half_precision_stays_near_float64_and_finite(dtype, need_weights):
    layer, x, mask = MultiHeadAttention(8, 2).to(dtype), torch.randn(2, 5, 8, dtype=dtype), padding_mask([3, 0], 5)
    values = layer(x, mask=mask, need_weights=need_weights).values
    values.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
    expected = copy.deepcopy(layer).double()(x.double(), mask=mask).values
    close(values.double(), expected, 16 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("need_weights", [True, False])
def test_other_devices_give_the_same(device, need_weights):
    layer, x = MultiHeadAttention(8, 2), torch.randn(2, 5, 8)
    expected = layer(x, mask=causal_mask(5)).values
    got = copy.deepcopy(layer).to(device)(x.to(device), mask=causal_mask(5), need_weights=need_weights).values
    torch.testing.assert_close(got.cpu(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("grad", [True, False])
def test_layer_on_meta_gives_shapes_without_numbers(grad):
    with torch.set_grad_enabled(grad):
        values, weights = MultiHeadAttention(8, 2).to("meta")(torch.zeros(2, 5, 8, device="meta"), need_weights=True)
    assert (values.shape, weights.shape) == ((2, 5, 8), (2, 2, 5, 5))


X = torch.zeros(2, 3, 8)
