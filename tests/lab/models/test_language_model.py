"""The language model: no look ahead, the cache, drawing with temperature and top-k, and a layer against torch's."""

import copy

import pytest
import torch
from torch import nn

from attn_core.lab.models.encoder import EncoderLayer
from attn_core.lab.models.language_model import (
    ENCODINGS,
    CausalLayer,
    LanguageModel,
    draw,
    generate,
    next_probabilities,
)
from attn_core.lab.tasks import Batch
from attn_core.lab.training import train
from attn_core.multihead import MultiHeadAttention

SIZE, LENGTH, END = 11, 9, 0
all_encodings = pytest.mark.parametrize("encoding", ENCODINGS)


def model(encoding="rotary", **options):
    torch.manual_seed(0)
    options = {"d_model": 16, "num_heads": 4, "num_layers": 2} | options
    return LanguageModel(SIZE, encoding=encoding, **options).double()


def some_tokens(length=LENGTH, batch=3):
    return torch.randint(1, SIZE, (batch, length), generator=torch.Generator().manual_seed(1))


def close(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-10)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def logits_of(raw):
    return torch.tensor(raw, dtype=torch.float64)


# What the model reads


@all_encodings
def test_a_score_for_every_token_stands_after_every_token(encoding):
    assert model(encoding)(some_tokens()).shape == (3, LENGTH, SIZE)


@all_encodings
@pytest.mark.parametrize("place", range(LENGTH))
def test_a_later_token_changes_nothing_before_it_and_something_from_it_on(encoding, place):
    ours, tokens = model(encoding), some_tokens()
    changed = tokens.clone()
    changed[:, place] = tokens[:, place] % (SIZE - 1) + 1
    before, after = ours(tokens), ours(changed)
    assert close(before[:, :place], after[:, :place])
    assert ((before - after).abs().amax(-1)[:, place:] > 1e-6).all()


@all_encodings
def test_tokens_in_another_order_give_other_logits(encoding):
    # Without a code too: the causal mask tells the first token from the second (notebook 4).
    tokens = torch.tensor([[1, 2, 3]])
    assert not close(model(encoding)(tokens)[:, -1], model(encoding)(tokens[:, [1, 0, 2]])[:, -1])


@all_encodings
def test_weights_are_shares_of_what_came_before(encoding):
    reading = model(encoding).read(some_tokens(), need_weights=True)
    assert len(reading.weights) == 2
    for weights in reading.weights:
        assert weights.shape == (3, 4, LENGTH, LENGTH)
        assert close(weights.sum(-1), torch.ones_like(weights.sum(-1)))
        assert (weights.triu(1) == 0).all()


@all_encodings
def test_the_loss_reaches_every_parameter(encoding):
    ours = model(encoding)
    ours(some_tokens(batch=40)).square().sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in ours.parameters())


def test_another_encoding_is_refused():
    with pytest.raises(ValueError, match="encoding must be one of none, sinusoidal, rotary, alibi, got 'learned'"):
        model("learned")


# The cache


@all_encodings
@pytest.mark.parametrize("steps", [[1] * LENGTH, [4, 1, 4], [LENGTH - 1, 1]], ids=str)
def test_logits_with_a_cache_equal_those_without_however_the_tokens_come_in(encoding, steps):
    ours, tokens, cache, found = model(encoding), some_tokens(), None, []
    for part in tokens.split(steps, dim=1):
        logits, cache, _ = ours.read(part, cache)
        found.append(logits)
    assert close(torch.cat(found, dim=1), ours(tokens))


@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
def test_shared_heads_are_kept_once_and_give_the_same_logits_with_the_cache(num_kv_heads):
    ours, tokens = model(), some_tokens()
    for layer in ours.layers:
        layer.attention = MultiHeadAttention(16, 4, num_kv_heads=num_kv_heads).double()
    first = ours.read(tokens[:, :-1])
    assert all(kept.shape == (3, num_kv_heads, LENGTH - 1, 4) for pair in first.cache for kept in pair)
    assert close(ours.read(tokens[:, -1:], first.cache).logits, ours(tokens)[:, -1:])


def test_a_rotary_key_in_the_cache_was_turned_at_its_own_place():
    ours, tokens = model(num_layers=1), some_tokens()
    layer = ours.layers[0]
    _, key, value = layer.attention.project(layer.attention_norm(ours.embedding(tokens)))
    _, ((kept_key, kept_value),), _ = ours.read(tokens[:, 5:], ours.read(tokens[:, :5]).cache)
    assert close(kept_key, ours.rotary(key)) and close(kept_value, value)


def test_reading_on_leaves_the_cache_of_before_as_it_was():
    ours, tokens = model(), some_tokens()
    with torch.no_grad():
        cache = ours.read(tokens).cache
    before = copy.deepcopy(cache)
    ours.read(tokens, cache)
    assert all(torch.equal(a, b) for one, two in zip(cache, before, strict=True) for a, b in zip(one, two, strict=True))


# Layers


def test_a_causal_layer_is_an_encoder_layer_under_a_causal_mask():
    torch.manual_seed(0)
    ours, x = CausalLayer(16, 4).double(), torch.randn(2, 6, 16).double()
    plain = EncoderLayer(16, 4).double()
    plain.load_state_dict(ours.state_dict())
    assert close(ours(x)[0], plain(x, mask=torch.ones(6, 6, dtype=torch.bool).tril()))


@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_layer_equals_the_one_of_torch_with_its_weights(causal):
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(
        16, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, dtype=torch.float64
    )
    for norm in (theirs.norm1, theirs.norm2):  # not ones and zeros, which would hide a swap
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
    ours = EncoderLayer(16, 4).double()
    ours.attention = MultiHeadAttention.from_torch(theirs.self_attn)
    ours.attention_norm, ours.network_norm = theirs.norm1, theirs.norm2
    ours.network[0], ours.network[2] = theirs.linear1, theirs.linear2
    x, may = torch.randn(2, 6, 16).double(), torch.ones(6, 6, dtype=torch.bool).tril()
    expected = theirs(x, src_mask=~may) if causal else theirs(x)
    assert close(ours(x, mask=may if causal else None), expected)


# Temperature, top-k, drawing


def test_probabilities_at_temperature_1_are_the_softmax():
    logits = logits_of([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    assert close(next_probabilities(logits), logits.softmax(-1))


def test_the_lower_the_temperature_the_likelier_the_likeliest():
    logits = logits_of([2.0, 1.0, 0.0, -3.0])
    tops = [next_probabilities(logits, temperature).max().item() for temperature in (0.01, 0.5, 1.0, 2.0, 1e6)]
    assert tops == sorted(tops, reverse=True)
    assert tops[0] == pytest.approx(1) and tops[-1] == pytest.approx(0.25, abs=1e-4)


def test_a_temperature_changes_no_order_and_divides_the_differences_of_the_logs():
    logits = logits_of([2.0, 1.0, 0.0, -3.0])
    logs = next_probabilities(logits, 2.0).log()
    assert close(logs - logs[0], (logits - logits[0]) / 2)


def test_top_k_leaves_the_k_greatest_in_the_proportions_that_they_had():
    logits = logits_of([[0.0, 3.0, 1.0, 2.0], [5.0, 0.0, 4.0, 4.5]])
    kept = next_probabilities(logits, top_k=2)
    assert (kept > 0).tolist() == [[False, True, False, True], [True, False, False, True]]
    everything = logits.softmax(-1)
    assert close(kept[0, 1] / kept[0, 3], everything[0, 1] / everything[0, 3])
    assert close(kept.sum(-1), torch.ones(2).double())


def test_top_1_is_greedy_and_a_top_k_past_the_vocabulary_is_none():
    logits = logits_of([0.0, 3.0, 1.0])
    assert next_probabilities(logits, top_k=1).tolist() == [0, 1, 0]
    assert close(next_probabilities(logits, top_k=99), next_probabilities(logits))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0"),
        ({"temperature": -1.0}, "temperature must be above 0, got -1.0"),
        ({"temperature": float("nan")}, "temperature must be above 0, got nan"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
    ],
)
def test_what_is_no_temperature_and_no_top_k_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        next_probabilities(torch.zeros(3), **options)


def test_tokens_are_drawn_as_often_as_they_are_likely_and_never_where_they_are_not():
    probabilities = logits_of([0.0, 0.5, 0.2, 0.0, 0.3, 0.0])
    drawn = draw(probabilities.expand(20_000, 6), generator())
    shares = drawn[:, 0].bincount(minlength=6) / 20_000
    assert torch.allclose(shares.double(), probabilities, atol=0.015)
    assert shares[[0, 3, 5]].tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_drawn_token_is_one_of_the_vocabulary_whatever_the_random_number(dtype, monkeypatch):
    probabilities = torch.full((2, 3), 1 / 3, dtype=dtype)
    for number, token in ((0.0, 0), (1 - 2**-53, 2)):
        monkeypatch.setattr(torch, "rand", lambda *_, number=number, **__: torch.full((2, 1), number).double())
        assert draw(probabilities, generator()).tolist() == [[token], [token]]


# Generation


def without_cache(ours, start, max_len, random):
    tokens = start
    for _ in range(max_len):
        probabilities = next_probabilities(ours(tokens)[:, -1])
        tokens = torch.cat([tokens, draw(probabilities, random)], dim=1)
    return tokens[:, start.size(1) :]


@all_encodings
def test_generation_with_the_cache_draws_what_is_drawn_without(encoding):
    ours, start = model(encoding), some_tokens(2)
    nowhere = SIZE  # no token: no row ends
    drawn = generate(ours, start, end=nowhere, max_len=12, generator=generator())
    assert torch.equal(drawn, without_cache(ours, start, 12, generator()))


def test_a_row_that_has_ended_is_filled_up_and_all_stop_with_the_last():
    drawn = generate(model(), some_tokens(1, batch=30), end=END, max_len=500, generator=generator())
    assert drawn.size(1) < 500
    ended = (drawn == END).cumsum(1) > 0
    assert (drawn[ended] == END).all() and ended[:, -1].all()
    assert not ended[:, -2].all()


def test_generation_gives_up_after_max_len_tokens_and_refuses_none():
    assert generate(model(), some_tokens(), end=SIZE, max_len=3, generator=generator()).shape == (3, 3)
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        generate(model(), some_tokens(), end=END, max_len=0, generator=generator())


def test_generation_leaves_the_global_random_state_and_the_gradients_alone():
    ours = model()
    state = torch.get_rng_state()
    drawn = generate(ours, some_tokens(), end=SIZE, max_len=3, generator=generator())
    assert torch.equal(torch.get_rng_state(), state)
    assert not drawn.requires_grad


@all_encodings
def test_a_sequence_is_learned_by_heart_and_written_again(encoding):
    sequence = torch.tensor([[1, 2, 3, 1, 4, 3, 1, 2, 5, END]])
    torch.manual_seed(0)
    ours = LanguageModel(SIZE, d_model=16, num_heads=4, num_layers=2, encoding=encoding)
    train(ours, lambda _: Batch((sequence[:, :-1],), sequence[:, 1:]), steps=150, learning_rate=1e-2, warmup=10)
    written = generate(ours, sequence[:, :1], end=END, max_len=20, top_k=1, generator=generator())
    assert torch.equal(written, sequence[:, 1:])
