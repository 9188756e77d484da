"""The encoder classifier: what each code of positions can and cannot tell, padding, and the rotary step."""

import pytest
import torch
from torch import nn

from attn_core.lab.models.encoder import ENCODINGS, EncoderClassifier, rotary_attention
from attn_core.lab.training import cross_entropy
from attn_core.multihead import MultiHeadAttention
from attn_core.positional import RotaryEmbedding

LENGTH, CLASSES, PAD = 7, 3, 0
all_encodings = pytest.mark.parametrize("encoding", ENCODINGS)
pooled_or_not = pytest.mark.parametrize("pool", [False, True], ids=["each token", "pooled"])


def model(encoding, **options):
    """In float64. Codes that start at or near zero get numbers, so that they say something before any training."""
    torch.manual_seed(0)
    options = {"d_model": 16, "num_heads": 2, "max_len": 12 if encoding == "learned" else None} | options
    made = EncoderClassifier(10, CLASSES, encoding=encoding, **options).double()
    for code in (made.code, made.bias):
        for parameter in () if code is None else code.parameters():
            nn.init.normal_(parameter)
    return made


def tokens(length=LENGTH, batch=2, seed=0):
    return torch.randint(1, 10, (batch, length), generator=torch.Generator().manual_seed(seed))


def close(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-10)


@all_encodings
def test_logits_for_each_token_or_for_the_whole_input(encoding):
    assert model(encoding)(tokens()).shape == (2, LENGTH, CLASSES)
    assert model(encoding, pool=True)(tokens()).shape == (2, CLASSES)


@all_encodings
def test_order_is_seen_with_a_code_only(encoding):
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    each, pooled, x = model(encoding), model(encoding, pool=True), tokens()
    assert close(each(x)[:, order], each(x[:, order])) == (encoding == "none")
    assert close(pooled(x), pooled(x[:, order])) == (encoding == "none")


@all_encodings
def test_left_and_right_are_the_same_without_a_code_and_for_symmetric_alibi_only(encoding):
    f, x = model(encoding), tokens()
    assert close(f(x).flip(1), f(x.flip(1))) == (encoding in ("none", "alibi"))


@all_encodings
def test_one_sample_does_not_see_another(encoding):
    f, x = model(encoding), tokens()
    assert close(f(x)[:1], f(x[:1]))


@all_encodings
@pooled_or_not
def test_padding_changes_nothing(encoding, pool):
    f, short, long = model(encoding, pool=pool, padding=PAD), tokens(5, seed=1), tokens(9, seed=2)
    batch = torch.cat([torch.cat([short, torch.full((2, 4), PAD)], dim=1), long])
    padded, alone = f(batch), f(short)
    assert close(padded[:2] if pool else padded[:2, :5], alone)
    assert close(padded[2:], f(long))


@all_encodings
def test_an_input_of_padding_only_gives_finite_logits_and_gradients(encoding):
    f = model(encoding, pool=True, padding=PAD)
    logits = f(torch.stack([torch.full((LENGTH,), PAD), tokens()[0]]))
    logits.sum().backward()
    assert logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in f.parameters() if p.grad is not None)


@all_encodings
@pooled_or_not
def test_the_loss_reaches_every_parameter(encoding, pool):
    f = model(encoding, pool=pool, padding=PAD)
    logits = f(tokens(12, batch=20))
    cross_entropy(logits, torch.randint(CLASSES, logits.shape[:-1])).backward()
    # The keys' bias adds one number to all scores of a query, which softmax does not see.
    keys = slice(16, 32)
    for name, parameter in f.named_parameters():
        gradient = parameter.grad.clone()
        if name.endswith("qkv_proj.bias") and encoding != "rotary":
            assert gradient[keys].abs().max() < 1e-12
            gradient[keys] = 1
        unused = gradient.flatten(1).abs().sum(1) == 0 if gradient.dim() > 1 else gradient == 0
        if name == "embedding.weight":
            assert unused.tolist() == [True] + [False] * 9, "all but the padding"
        elif name == "bias.weight":
            assert not unused[[1, 2, 17, 18]].any()
        else:
            assert not unused.any(), name


def test_rows_of_the_learned_table_beyond_the_input_get_no_gradient():
    f = model("learned")
    f(tokens(LENGTH)).sum().backward()
    used = f.code.weight.grad.abs().sum(1) > 0
    assert used.tolist() == [True] * LENGTH + [False] * (12 - LENGTH)


def test_an_input_past_the_learned_table_is_refused_with_both_numbers():
    f = model("learned")
    assert f(tokens(12)).shape == (2, 12, CLASSES)
    with pytest.raises(ValueError, match="length 13 is longer than the learned table, max_len = 12"):
        f(tokens(13))


@pytest.mark.parametrize("encoding", [name for name in ENCODINGS if name != "learned"])
def test_the_other_codes_have_no_longest_input(encoding):
    assert model(encoding)(tokens(300)).isfinite().all()


@pytest.mark.parametrize(
    "options, message",
    [
        ({"encoding": "fourier"}, "encoding must be one of none, sinusoidal, .*, relative, got 'fourier'"),
        ({"encoding": "learned"}, "max_len is the length of a learned table, got None for encoding 'learned'"),
        ({"encoding": "alibi", "max_len": 9}, "max_len is the length of a learned table, got 9 for encoding 'alibi'"),
        ({"encoding": "learned", "max_len": 0}, "max_len must be at least 1, got 0"),
        ({"encoding": "rotary", "d_model": 6, "num_heads": 2}, "head_dim must be even"),
        ({"d_model": 7}, "num_heads must divide embed_dim"),
    ],
)
def test_options_that_do_not_fit_get_a_sentence(options, message):
    with pytest.raises(ValueError, match=message):
        EncoderClassifier(10, CLASSES, **options)


@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_rotary_attention_without_a_turn_is_the_layer_itself(num_kv_heads, masked):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(16, 4, num_kv_heads=num_kv_heads).double(), torch.randn(2, 5, 16).double()
    nn.init.normal_(layer.qkv_proj.bias)
    mask = torch.ones(5, 5, dtype=torch.bool).tril() if masked else None
    assert close(rotary_attention(layer, nn.Identity(), x, mask), layer(x, mask=mask).values)


@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
def test_rotary_attention_sees_distances_only(num_kv_heads):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(16, 4, num_kv_heads=num_kv_heads).double(), torch.randn(2, 5, 16).double()
    rotary = RotaryEmbedding(4)
    turned = rotary_attention(layer, rotary, x, None)
    assert close(turned, rotary_attention(layer, lambda q_or_k: rotary(q_or_k, offset=9), x, None))
    assert not close(turned, layer(x).values)


@all_encodings
def test_the_same_seed_makes_the_same_model(encoding):
    one, two = model(encoding).state_dict(), model(encoding).state_dict()
    assert one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@all_encodings
def test_codes_add_what_they_learn_and_nothing_else(encoding):
    count = {"learned": 12 * 16, "relative": 32 * 2}
    parameters = [sum(p.numel() for p in model(name).parameters()) for name in (encoding, "none")]
    assert parameters[0] - parameters[1] == count.get(encoding, 0)
