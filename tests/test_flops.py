"""The cost by formula, against identities, the layer itself and the mask; the cost measured, against the formula."""

import itertools
import sys
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from attn_core import MultiHeadAttention, attention_cost, causal_mask, count_flops, count_macs_with_fvcore


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
def test_heads_change_neither_flops_nor_parameters(num_heads):
    cost = attention_cost(16, 64, num_heads)
    assert cost.total_flops == 589_824 == 8 * 16 * 64**2 + 4 * 16**2 * 64
    assert cost.parameters == 16_640 == 4 * 64**2 + 4 * 64


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


def test_keys_of_another_sequence_are_projected_at_their_own_length():
    cost = attention_cost(3, 8, 2, batch_size=5, key_len=7, bias=False)
    assert cost.macs == {
        "qkv_projection": 5 * (3 + 7 + 7) * 8 * 8,
        "scores": 5 * 3 * 7 * 8,
        "weighted_sum": 5 * 3 * 7 * 8,
        "output_projection": 5 * 3 * 8 * 8,
    }
    assert cost.softmax_elements == 5 * 2 * 3 * 7


@pytest.mark.parametrize("align", ["lower_right", "upper_left"])
@pytest.mark.parametrize("query_len, key_len", [*itertools.product(range(1, 7), range(1, 7)), (1, 50), (50, 1)])
def test_causal_pairs_are_those_of_the_mask(query_len, key_len, align):
    cost = attention_cost(query_len, 6, 3, key_len=key_len, batch_size=2, causal=align)
    pairs = causal_mask(query_len, key_len, align=align).sum().item()
    assert cost.macs["scores"] == cost.macs["weighted_sum"] == 2 * pairs * 6
    assert cost.softmax_elements == 2 * 3 * pairs


def test_causal_without_an_alignment_is_lower_right_as_in_the_mask():
    true, lower_right, upper_left = (
        attention_cost(3, 8, 2, key_len=7, causal=causal) for causal in (True, "lower_right", "upper_left")
    )
    assert true == lower_right != upper_left


@pytest.mark.parametrize("causal", [False, True, "upper_left"])
def test_weights_kept_are_stored_in_full_whatever_the_mask_hides(causal):
    layer = MultiHeadAttention(24, 4, num_kv_heads=2)
    mask = causal_mask(5, 7, align="lower_right" if causal is True else causal) if causal else None
    weights = layer(torch.randn(3, 5, 24), torch.randn(3, 7, 24), mask=mask, need_weights=True).weights
    cost = attention_cost(5, 24, 4, batch_size=3, key_len=7, num_kv_heads=2, causal=causal)
    assert cost.weight_bytes == weights.untyped_storage().nbytes() == 4 * 3 * 4 * 5 * 7


def assert_complete(count, flops):
    assert count.total_flops == sum(count.by_operator.values()) == flops
    assert count.uncounted == ()
    assert str(count) == f"{flops:,} FLOPs"


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_fused_attention_is_counted_as_its_two_products(is_causal, grad):
    q, k, v = torch.randn(3, 1, 12, 64, 64).requires_grad_(grad)
    count = count_flops(F.scaled_dot_product_attention, q, k, v, is_causal=is_causal)
    assert_complete(count, 12_582_912)
    cost = attention_cost(64, 12 * 64, 12)
    assert count.total_flops == cost.flops["scores"] + cost.flops["weighted_sum"]


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("requires_grad, grad_mode", [(True, True), (True, False), (False, True)])
def test_torchs_layer_counts_the_same_on_every_path(
    num_heads, need_weights, batch_first, training, requires_grad, grad_mode
):
    layer = nn.MultiheadAttention(64, num_heads, dropout=0.1, batch_first=batch_first)
    layer.train(training).requires_grad_(requires_grad)
    x = torch.randn(1, 16, 64) if batch_first else torch.randn(16, 1, 64)
    with torch.set_grad_enabled(grad_mode):
        assert_complete(count_flops(layer, x, x, x, need_weights=need_weights), 589_824)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 16_640


def test_inference_mode_counts_the_same():
    layer = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    with torch.inference_mode():
        x = torch.randn(1, 16, 64)
        assert_complete(count_flops(layer, x, x, x, need_weights=False), 589_824)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "heads, bias, out_proj, key_len",
    [*itertools.product([(8, 8), (8, 2), (8, 1), (3, 3), (1, 1)], [True, False], [True, False], [None, 5, 11])],
)
def test_our_layer_measures_what_the_formula_says(heads, bias, out_proj, key_len, need_weights):
    num_heads, num_kv_heads = heads
    layer = MultiHeadAttention(24, num_heads, num_kv_heads=num_kv_heads, bias=bias, out_proj=out_proj)
    inputs = [torch.randn(2, length, 24) for length in (7, key_len) if length]
    cost = attention_cost(
        7, 24, num_heads, batch_size=2, key_len=key_len, num_kv_heads=num_kv_heads, bias=bias, out_proj=out_proj
    )
    assert_complete(count_flops(layer, *inputs, need_weights=need_weights), cost.total_flops)


def test_a_mask_is_applied_after_the_products_and_saves_none_of_them():
    layer, x = MultiHeadAttention(24, 3), torch.randn(2, 7, 24)
    count = count_flops(layer, x, mask=causal_mask(7))
    assert count == count_flops(layer, x)
    assert count.total_flops > attention_cost(7, 24, 3, batch_size=2, causal=True).total_flops


@pytest.mark.parametrize("out_proj, giga_macs", [(True, 68.72), (False, 60.13)])
def test_the_sizes_of_the_document_are_counted_on_meta_without_any_arithmetic(out_proj, giga_macs):
    with torch.device("meta"):
        layer, x = MultiHeadAttention(512, 8, out_proj=out_proj), torch.randn(32, 1024, 512)
    count = count_flops(layer, x)
    assert_complete(count, attention_cost(1024, 512, 8, batch_size=32, out_proj=out_proj).total_flops)
    assert round(count.total_flops / 2 / 1e9, 2) == giga_macs


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(16, 64), (1, 16, 64), (2, 8, 64)])
def test_a_linear_layer_costs_two_flops_per_weight_and_token(shape, bias):
    assert_complete(count_flops(nn.Linear(64, 64, bias=bias), torch.randn(shape)), 2 * 65_536)


def test_products_with_vectors_are_counted_too():
    matrix, vector = torch.randn(3, 5), torch.randn(5)
    assert_complete(count_flops(torch.mv, matrix, vector), 2 * 3 * 5)
    assert_complete(count_flops(torch.dot, vector, vector), 2 * 5)
    assert_complete(count_flops(torch.einsum, "ij,j->i", matrix, vector), 2 * 3 * 5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad_mode", [True, False])
def test_an_encoder_layer_is_its_attention_and_two_linear_layers(training, grad_mode):
    layer = nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, batch_first=True).train(training)
    flops = attention_cost(16, 64, 4, batch_size=2).total_flops + 2 * 2 * 2 * 16 * 64 * 128
    with torch.set_grad_enabled(grad_mode):
        x = torch.randn(2, 16, 64)
        assert_complete(count_flops(layer, x), flops)
        padding = torch.arange(16).expand(2, 16) >= torch.tensor([[16], [9]])
        encoder = nn.TransformerEncoder(layer, num_layers=2)
        assert_complete(count_flops(encoder, x, src_key_padding_mask=padding), 2 * flops)


@pytest.mark.parametrize("kind, gates", [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_recurrent_layers_cost_two_products_per_gate_and_step(kind, gates, training, device):
    layer, x = kind(8, 12, device=device).train(training), torch.randn(5, 3, 8, device=device)
    assert_complete(count_flops(layer, x), 2 * gates * 5 * 3 * 12 * (8 + 12))


def test_elementwise_work_is_left_out_by_rule_and_is_not_named():
    layer = nn.Sequential(nn.LayerNorm(8), nn.GELU(), nn.Softmax(-1), nn.Dropout(0.5), nn.BatchNorm1d(4))
    assert_complete(count_flops(layer, torch.randn(2, 4, 8)), 0)
    x = torch.rand(4, 4) + 1
    for function in (torch.lgamma, torch.linalg.vector_norm, lambda x: x.cummax(0), lambda x: torch.cat([x, x * x])):
        assert_complete(count_flops(function, x), 0)


def test_a_product_without_a_formula_is_named_wherever_the_total_is_printed():
    def bilinear_after_linear(x):
        return bilinear(linear(x), x)

    linear, bilinear = nn.Linear(8, 8), nn.Bilinear(8, 8, 2)
    count = count_flops(bilinear_after_linear, torch.randn(4, 8))
    assert count.uncounted == ("aten._trilinear",)
    assert count.total_flops == 2 * 4 * 8 * 8
    assert str(count) == repr(count) == f"{count}" == "at least 512 FLOPs, for aten._trilinear could not be counted"


def fused_attention_by_name(x):
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize(
    "function, name",
    [
        (fused_attention_by_name, "aten._scaled_dot_product_flash_attention_for_cpu"),
        (lambda x: torch.cdist(x, x), "aten._cdist_forward"),
        (lambda x: torch.cdist(*x.new_ones(2, 30, 4)), "aten._euclidean_dist"),  # another operator for more rows
        (lambda x: torch.ormqr(x, x[..., 0], x), "aten.ormqr"),
        (lambda x: torch.linalg.inv(x @ x.mT + torch.eye(4)), "aten.linalg_inv_ex"),
        (lambda x: x[0, 0].clone().addmm_(x[0, 0], x[0, 0]), "aten.addmm_"),
    ],
)
def test_fused_operators_that_a_function_insists_on_are_named(function, name):
    count = count_flops(function, torch.randn(1, 1, 4, 4))
    assert count.uncounted == (name,)
    assert str(count).startswith("at least ") and name in str(count)


def test_an_operator_that_is_not_torchs_own_is_named_because_nobody_can_see_into_it():
    @torch.library.custom_op("attn_core_tests::halved", mutates_args=())
    def halved(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    assert count_flops(halved, torch.randn(4)).uncounted == ("attn_core_tests.halved",)


class Recorder(nn.Module):
    """Attention, dropout and a running average: all that a call could leave behind."""

    def __init__(self, fails=False):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm, self.dropout, self.fails = nn.BatchNorm1d(4), nn.Dropout(0.5), fails

    def forward(self, x):
        y = self.dropout(self.norm(self.attention(x, x, x)[0]))
        if self.fails:
            raise RuntimeError("half way")
        return y


def torch_flags():
    cuda = torch.backends.cuda
    return (
        torch.backends.mha.get_fastpath_enabled(),
        torch.backends.mkldnn.enabled,
        cuda.math_sdp_enabled(),
        cuda.flash_sdp_enabled(),
        cuda.mem_efficient_sdp_enabled(),
        cuda.cudnn_sdp_enabled(),
        torch.is_grad_enabled(),
    )


@pytest.mark.parametrize("fastpath", [True, False])
@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_counting_leaves_no_trace_even_after_an_error(capsys, training, fails, fastpath):
    module, x = Recorder(fails).train(training), torch.randn(3, 4, 8, requires_grad=True)
    module.attention.in_proj_weight.grad = torch.ones(24, 8)
    torch.backends.mha.set_fastpath_enabled(fastpath)
    try:
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            flags, random_state = torch_flags(), torch.get_rng_state()
            state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
            if fails:
                with pytest.raises(RuntimeError, match="half way"):
                    count_flops(module, x)
            else:
                assert_complete(count_flops(module, x), attention_cost(4, 8, 2, batch_size=3).total_flops)
            assert torch_flags() == flags
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert capsys.readouterr() == ("", "") and torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in module.state_dict().items())
    assert all(child.training is training for child in module.modules())
    grads = {name: parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    assert x.grad is None and list(grads) == ["attention.in_proj_weight"]
    assert grads["attention.in_proj_weight"].eq(1).all()


class AsksForItsDevice(torch.Tensor):
    """A tensor without memory, whose device is found by an operator of its own: torch's prim.device."""

    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (4,), dispatch_device=True, device="cpu")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return torch.device("cpu") if func is torch.ops.prim.device.default else NotImplemented


def test_torchs_own_operators_outside_aten_are_not_named():
    def profiled(x):
        with torch.profiler.record_function("step"):
            return torch.ops.prims.sin(x)

    assert_complete(count_flops(profiled, torch.randn(4)), 0)
    assert_complete(count_flops(lambda x: x.device, AsksForItsDevice()), 0)


def test_the_backward_pass_is_counted_where_the_call_runs_it():
    linear, x = nn.Linear(8, 8), torch.randn(4, 8)
    # Backwards there is one more product, for the gradient of the weights; x needs none.
    assert_complete(count_flops(lambda: linear(x).sum().backward()), 2 * 2 * 4 * 8 * 8)


@pytest.mark.parametrize("training", [True, False])
def test_fvcore_counts_the_products_that_are_written_out(training):
    pytest.importorskip("fvcore")
    layer, x = nn.MultiheadAttention(64, 4, batch_first=True).train(training), torch.randn(1, 16, 64)
    macs, skipped = count_macs_with_fvcore(layer, x, x, x)
    assert macs == 294_912 == attention_cost(16, 64, 4).total_macs
    assert "aten::scaled_dot_product_attention" not in skipped


@pytest.mark.parametrize("training", [True, False])
def test_fvcore_misses_fused_attention_and_says_so(training):
    pytest.importorskip("fvcore")
    layer, x = nn.MultiheadAttention(64, 4, batch_first=True).train(training), torch.randn(1, 16, 64)
    macs, skipped = count_macs_with_fvcore(layer, x, x, x, None, False)
    cost = attention_cost(16, 64, 4)
    assert macs == 262_144 == cost.total_macs - cost.macs["scores"] - cost.macs["weighted_sum"]
    assert skipped["aten::scaled_dot_product_attention"] == 1
    assert layer.training is training


def test_fvcore_is_quiet_and_leaves_the_random_state_alone(caplog, capfd):
    pytest.importorskip("fvcore")
    for name in [name for name in sys.modules if name.split(".")[0] == "fvcore"]:
        del sys.modules[name]  # it warns on its first import

    class Branching(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    dropping, ours = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), Branching()), MultiHeadAttention(8, 2)
    theirs = ours.to_torch()
    before = torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count_macs_with_fvcore(dropping, torch.ones(16, 64))[0] == 65_536
        assert (
            count_macs_with_fvcore(ours, torch.ones(1, 4, 8))[0] == attention_cost(4, 8, 2).total_macs - 2 * 4 * 4 * 8
        )
        count_macs_with_fvcore(theirs, *torch.ones(3, 1, 4, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert not caplog.records and capfd.readouterr() == ("", "")


def test_without_fvcore_the_error_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "fvcore"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fvcore", None)
    with pytest.raises(ImportError, match=r"needs fvcore \(.*fvcore.*\): pip install fvcore"):
        count_macs_with_fvcore(nn.Linear(2, 2), torch.ones(1, 2))
