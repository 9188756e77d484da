"""The five positional encodings: the tests are the identities that they are made for."""

import copy
import math
import pickle

import pytest
import torch

from attn_core import (
    AlibiBias,
    LearnedPositionalEncoding,
    MultiHeadAttention,
    RelativePositionBias,
    RotaryEmbedding,
    SinusoidalPositionalEncoding,
    scaled_dot_product_attention,
)

SINUSOIDAL = SinusoidalPositionalEncoding(64)


def close(a, b, atol=1e-10):
    return torch.allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize(
    "encoding", [None, SINUSOIDAL, LearnedPositionalEncoding(64, 5)], ids=["none", "sin", "learned"]
)
def test_order_is_seen_only_with_a_code(encoding):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(64, 4).double(), torch.randn(2, 5, 64, dtype=torch.float64)
    order = torch.tensor([2, 0, 1, 4, 3])

    def outputs(inputs):
        return layer(inputs if encoding is None else encoding.double()(inputs)).values

    assert close(outputs(x)[:, order], outputs(x[:, order])) == (encoding is None)


def test_first_values_are_those_of_the_formula():
    row = SinusoidalPositionalEncoding(4).table(2)[1]
    assert close(row, torch.tensor([math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)], dtype=torch.float64))
    assert [round(value, 5) for value in row.tolist()] == [0.84147, 0.54030, 0.01000, 0.99995]


@pytest.mark.parametrize("shift", [1, 7, 300])
def test_a_shift_is_one_rotation_for_every_position(shift):
    table = SINUSOIDAL.table(1000)
    angle = shift * 10000.0 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    sin, cos = table[:-shift].unflatten(1, (-1, 2)).unbind(-1)
    turned = torch.stack([sin * angle.cos() + cos * angle.sin(), cos * angle.cos() - sin * angle.sin()], dim=-1)
    assert close(turned.flatten(1), table[shift:])


@pytest.mark.parametrize("encoding", [SinusoidalPositionalEncoding(6), LearnedPositionalEncoding(6, 3)])
def test_samples_share_their_codes_and_positions_do_not(encoding):
    out = encoding(torch.zeros(2, 3, 6))
    assert torch.equal(out[0], out[1])
    assert not torch.equal(out[0, 0], out[0, 1])


def test_a_longer_sequence_than_max_len_gets_the_same_codes():
    short, long = SinusoidalPositionalEncoding(8, max_len=4), SinusoidalPositionalEncoding(8, max_len=100)
    assert torch.equal(short.table(50), long.table(50))
    assert short.state_dict() == {}
    assert torch.equal(copy.deepcopy(short)(torch.zeros(1, 60, 8)), long(torch.zeros(1, 60, 8)))


def codes():
    """One module of each kind, and the call that uses it on inputs of a length."""
    return {
        "sinusoidal": (SinusoidalPositionalEncoding(8), lambda code, length: code(torch.ones(1, length, 8))),
        "learned": (LearnedPositionalEncoding(8, 200), lambda code, length: code(torch.ones(1, length, 8))),
        "rotary": (RotaryEmbedding(8), lambda code, length: code(torch.ones(1, length, 8))),
        "alibi": (AlibiBias(3), lambda code, length: code(length, length)),
        "relative": (RelativePositionBias(3), lambda code, length: code(length, length)),
    }


@pytest.mark.parametrize("name", codes())
def test_a_module_that_begins_on_meta_gives_the_same_once_its_state_is_loaded(name):
    code, call = codes()[name]
    with torch.device("meta"):
        late, _ = codes()[name]
    late.to_empty(device="cpu").load_state_dict(code.state_dict())
    assert torch.equal(call(late, 150), call(code, 150))


@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.device("meta")], ids=["inference", "meta"])
def test_a_table_that_grew_in_another_mode_serves_afterwards(mode):
    code = RotaryEmbedding(8)
    with mode():
        code(torch.zeros(1, 200, 8))
    x = torch.ones(1, 150, 8, dtype=torch.float64, requires_grad=True)  # float64: the table itself, no copy
    code(x).sum().backward()
    assert torch.equal(code(x), RotaryEmbedding(8)(x))


@pytest.mark.slow
@pytest.mark.parametrize("code", [SinusoidalPositionalEncoding(8), RotaryEmbedding(8)], ids=["sinusoidal", "rotary"])
def test_a_length_may_stay_open_in_torch_export(code):
    length = torch.export.Dim("length", min=2, max=64)
    exported = torch.export.export(code, (torch.zeros(1, 5, 8),), dynamic_shapes=({1: length},))
    x = torch.randn(1, 40, 8)
    assert torch.equal(exported.module()(x), code(x))


@pytest.mark.parametrize("d_model", [1, 5])
def test_an_odd_width_leaves_out_the_last_cosine(d_model):
    table = SinusoidalPositionalEncoding(d_model).table(3)
    assert table.shape == (3, d_model)
    last = [math.sin(p / 10000 ** ((d_model - 1) / d_model)) for p in range(3)]
    assert close(table[:, -1], torch.tensor(last, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_positions_apart(dtype):
    codes = SINUSOIDAL(torch.zeros(1, 4000, 64, dtype=dtype))[0]
    assert codes.dtype == dtype
    assert len(codes.unique(dim=0)) == 4000
    assert close(codes.double(), SINUSOIDAL.table(4000), torch.finfo(dtype).eps / 2)


@pytest.mark.parametrize("layout", ["interleaved", "half_split"])
def test_rotary_products_depend_on_the_distance_only(layout):
    torch.manual_seed(0)
    rotary = RotaryEmbedding(16, layout=layout)
    q, k = torch.randn(2, 16, dtype=torch.float64)
    turned_q, turned_k = (rotary(x.expand(40, 16)) for x in (q, k))
    products = turned_q @ turned_k.T
    for distance in (-20, -1, 0, 3):
        diagonal = products.diagonal(distance)
        assert close(diagonal, diagonal[:1].expand_as(diagonal))
    assert not close(products[0, :1], products[0, 1:2], 1e-3)
    assert close(turned_q.norm(dim=-1), q.norm().expand(40))


def test_rotary_half_split_is_the_published_rotate_half():
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    angle = torch.arange(9, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(0, 8, 2).double() / 8)
    angle = torch.cat([angle, angle], dim=-1)
    rotated_half = torch.cat([-x[..., 4:], x[..., :4]], dim=-1)
    assert close(RotaryEmbedding(8, layout="half_split")(x), x * angle.cos() + rotated_half * angle.sin())


def test_rotary_layouts_differ_by_a_permutation():
    x = torch.randn(1, 7, 8)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])  # pairs (2i, 2i+1) brought to (i, i + 4)
    assert close(RotaryEmbedding(8)(x)[..., order], RotaryEmbedding(8, layout="half_split")(x[..., order]), 1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_rotary_with_an_offset_continues_a_sequence(dtype):
    rotary, x = RotaryEmbedding(8), torch.randn(2, 4, 10, 8).to(dtype)
    whole = rotary(x)
    assert whole.dtype == dtype
    assert torch.equal(whole[..., 6:, :], rotary(x[..., 6:, :], offset=6))


def test_alibi_slopes_are_those_of_the_paper():
    assert AlibiBias(8).slopes.tolist() == [2.0**-h for h in range(1, 9)]
    twelve = [2.0**-h for h in range(1, 9)] + [2.0 ** -(h + 0.5) for h in range(4)]
    assert close(AlibiBias(12).slopes, torch.tensor(twelve), 1e-7)


def test_alibi_takes_slope_times_distance_and_ends_at_the_last_key():
    bias = AlibiBias(2)(2, 4)
    distances = torch.tensor([[2.0, 1.0, 0.0, 1.0], [3.0, 2.0, 1.0, 0.0]])
    assert torch.equal(bias, -AlibiBias(2).slopes[:, None, None] * distances)
    q, k = torch.ones(1, 2, 2, 4), torch.ones(1, 2, 4, 4)
    weights = scaled_dot_product_attention(q, k, k, bias).weights
    assert weights[0, :, 1].argmax(-1).tolist() == [3, 3]


def test_relative_buckets_are_those_of_t5():
    both, past = RelativePositionBias(1), RelativePositionBias(1, bidirectional=False)
    distances = torch.tensor([0, 1, 7, 8, 11, 12, 15, 40, 100, 127, 1000])
    expected = [0, 1, 7, 8, 8, 9, 9, 12, 15, 15, 15]
    assert both.buckets(-distances).tolist() == expected
    assert both.buckets(distances[1:]).tolist() == [16 + bucket for bucket in expected[1:]]
    assert past.buckets(torch.tensor([5, 0, -1, -15, -16, -30, -200])).tolist() == [0, 0, 1, 15, 16, 20, 31]


def test_relative_buckets_widen_up_to_max_distance():
    # Four exact ones for each side, then four that begin at 4 · 2^(i/4) up to 8, or at 4 · 4^(i/4) up to 16.
    for max_distance, starts in ((8, [4, 5, 6, 7]), (16, [4, 6, 8, 12])):
        bias = RelativePositionBias(1, num_buckets=16, max_distance=max_distance)
        buckets = bias.buckets(-torch.arange(max_distance + 5)).tolist()
        assert [buckets.index(bucket) for bucket in range(4, 8)] == starts
        assert buckets[max_distance:] == [7] * 5


@pytest.mark.parametrize("bidirectional, exact", [(True, 8), (False, 16)])
def test_max_distance_must_pass_the_exact_buckets_by_one(bidirectional, exact):
    RelativePositionBias(2, max_distance=exact + 1, bidirectional=bidirectional)(3, 40)
    with pytest.raises(ValueError, match=f"max_distance must be greater than {exact}, got {exact}"):
        RelativePositionBias(2, max_distance=exact, bidirectional=bidirectional)


@pytest.mark.parametrize("code", [AlibiBias(2), RelativePositionBias(2)])
def test_distances_are_made_on_the_device_of_the_code(code):
    assert copy.deepcopy(code).to("meta")(3, 4).device.type == "meta"
    with torch.device("meta"):  # what would be made without a device is made there
        assert code(3, 4).device.type == "cpu"


def test_relative_bias_depends_on_the_distance_only_and_learns():
    bias = RelativePositionBias(3)
    torch.nn.init.normal_(bias.weight)
    out = bias(5, 9)
    assert out.shape == (3, 5, 9)
    assert torch.equal(out[:, 1:, 1:], out[:, :-1, :-1])
    out.sum().backward()
    assert bias.weight.grad.abs().sum() == 3 * 5 * 9


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda code: pickle.loads(pickle.dumps(code))])
@pytest.mark.parametrize("code", [SinusoidalPositionalEncoding(64, 700), RotaryEmbedding(64)], ids=["sin", "rotary"])
def test_a_copy_gives_the_same_and_a_pickle_holds_no_rows(code, copied):
    x = torch.randn(2, 3, 701, 64)
    assert torch.equal(copied(code)(x), code(x))
    assert len(pickle.dumps(code)) < 3_000
    longer = copied(code)
    longer(torch.randn(1, 5000, 64))
    assert torch.equal(copied(longer)(x), code(x))


def test_no_tokens_get_no_codes():
    x = torch.zeros(2, 0, 4)
    for code in (SinusoidalPositionalEncoding(4), LearnedPositionalEncoding(4, 5), RotaryEmbedding(4)):
        assert code(x).shape == x.shape
    for bias in (AlibiBias(2), RelativePositionBias(2)):
        assert bias(0, 3).shape == (2, 0, 3)
    assert MultiHeadAttention(4, 2)(x, mask=AlibiBias(2)(0, 0)).values.shape == x.shape


def test_alibi_in_half_precision_is_rounded_once():
    exact, half = AlibiBias(8)(1, 2048), AlibiBias(8).bfloat16()(1, 2048)
    assert torch.equal(half, exact.bfloat16())


def test_every_code_says_its_settings():
    shown = {
        "SinusoidalPositionalEncoding(8, base=100.0)": SinusoidalPositionalEncoding(8, base=100.0),
        "LearnedPositionalEncoding(8, max_len=5)": LearnedPositionalEncoding(8, 5),
        "AlibiBias(6)": AlibiBias(6),
        "RelativePositionBias(2, num_buckets=32, max_distance=128, bidirectional=True)": RelativePositionBias(2),
        "RelativePositionBias(2, num_buckets=8, max_distance=16, bidirectional=False)": RelativePositionBias(
            2, 8, 16, bidirectional=False
        ),
    }
    assert {repr(code) for code in shown.values()} == shown.keys()
    assert repr(RotaryEmbedding(8, layout="half_split")).startswith("RotaryEmbedding(\n  8, layout='half_split'")
