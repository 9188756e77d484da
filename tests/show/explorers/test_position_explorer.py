"""The explorer of positions: its values are those of the encodings, over the whole range of its sliders."""

import itertools
import math
import re

import numpy as np
import pytest
import torch

from attn_core import AlibiBias, RelativePositionBias, RotaryEmbedding, SinusoidalPositionalEncoding
from attn_core.show import position_explorer
from attn_core.show.explorers.positions import BASES, ENCODINGS, HEADS, LENGTHS, WIDTHS, position_steps

WAVES = ("sinusoidal", "rotary")
BIASES = ("ALiBi", "relative")
SOME_WIDTHS, SOME_LENGTHS = (8, 10, 66, 128), (12, 36, 64)


def grid(widths=SOME_WIDTHS, lengths=SOME_LENGTHS):
    """Widths, lengths, bases and pairs: the first and last of each, and some between."""
    for d_model, length, base in itertools.product(widths, lengths, BASES):
        for pair in {0, 1, d_model // 4, d_model // 2 - 1}:
            yield d_model, length, base, pair


def shown(*setting):
    panels, caption = position_steps(*setting)
    return *(panel.values for panel in panels), caption


def spread_along_diagonals(square):
    """How far the entries of one diagonal lie apart, at most: 0 where only the distance counts."""
    return max(np.ptp(square.diagonal(k)) for k in range(-len(square) + 1, len(square)))


def number_after(words, caption):
    return float(re.search(rf"{words}(−?[\d,]+\.?\d*)", caption)[1].replace(",", "").replace("−", "-"))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_setting_on_offer_can_be_shown(encoding):
    for setting in grid():
        panels, caption = position_steps(encoding, *setting)
        assert len(panels) == (2 if encoding in BIASES else 3)
        for panel in panels:
            assert np.isfinite(panel.values).all()
        assert not re.search(r"nan|inf|tensor|-|−0\b(?!\.)|\.\d{5}", caption)


def test_the_sinusoidal_table_and_its_products_are_those_of_the_encoding():
    for d_model, length, base, pair in grid():
        table, products, waves, _ = shown("sinusoidal", d_model, length, base, pair)
        codes = SinusoidalPositionalEncoding(d_model, base=base).table(length).numpy()
        assert np.array_equal(table, codes)
        assert np.allclose(products, codes @ codes.T, rtol=0, atol=1e-12)
        angles = np.arange(length) / base ** (2 * pair / d_model)
        assert np.allclose(waves, [np.sin(angles), np.cos(angles)], rtol=0, atol=1e-12)


def test_rotary_products_are_those_of_turned_queries_and_keys():
    for d_model, length, base, pair in grid(lengths=(12, 64)):
        table, products, waves, _ = shown("rotary", d_model, length, base, pair)
        rotary = RotaryEmbedding(d_model, base)
        assert np.array_equal(table, rotary.angles.table(length).numpy())
        assert np.array_equal(waves, table[:, 2 * pair : 2 * pair + 2].T)
        q = torch.randn(128, dtype=torch.float64, generator=torch.Generator().manual_seed(0))[:d_model]
        at_m, at_n = (rotary(q[None], offset=place)[0] for place in (length - 1, 3))
        assert products[length - 1, 3] == pytest.approx((at_m @ at_n).item(), abs=1e-10)
        assert products[0, 0] == pytest.approx((q @ q).item())


@pytest.mark.parametrize("encoding", WAVES)
def test_products_of_waves_depend_on_the_distance_only(encoding):
    for d_model, length, base, pair in grid():
        products = shown(encoding, d_model, length, base, pair)[1]
        assert spread_along_diagonals(products) < 1e-10
        assert np.allclose(products, products.T, rtol=0, atol=1e-10)
        assert products[0, 0] == pytest.approx(products.max())


def test_products_of_learned_rows_depend_on_the_place():
    for d_model, length in itertools.product(WIDTHS, SOME_LENGTHS):
        table, products, columns, _ = shown("learned", d_model, length, 10000, 2)
        assert np.allclose(products, table @ table.T, rtol=0, atol=1e-12)
        assert spread_along_diagonals(products) > 1e-3
        assert np.array_equal(columns, table[:, 4:6].T)


def test_learned_rows_start_as_in_the_class():
    table = shown("learned", 128, 64, 10000, 0)[0]
    assert table.std() == pytest.approx(0.02, rel=0.02)
    assert abs(table.mean()) < 1e-3


@pytest.mark.parametrize("length", LENGTHS)
def test_alibi_shows_the_bias_of_its_first_head_and_of_every_head_by_distance(length):
    first, by_distance, caption = shown("ALiBi", 24, length, 10000, 0)
    expected = AlibiBias(HEADS)(length, length).numpy()
    assert np.array_equal(first, expected[0])
    assert np.array_equal(by_distance, expected[:, 0])
    assert "(slope 0.5): 0 at distance 0, −0.5 at 1 and −4 at 8" in caption


@pytest.mark.parametrize("length", LENGTHS)
def test_relative_shows_the_bucket_of_each_pair_and_of_each_distance(length):
    pairs, by_distance, caption = shown("relative", 24, length, 10000, 0)
    places = torch.arange(length)
    buckets = RelativePositionBias(HEADS).buckets
    assert np.array_equal(pairs, buckets(places - places[:, None]).numpy())
    assert np.array_equal(by_distance[0], pairs[:, 0])  # the keys before the last query, from near to far
    assert np.array_equal(by_distance[1], pairs[0])
    assert number_after(r"after it: .*?\. ", caption) == len(np.unique(pairs))


@pytest.mark.parametrize("encoding", BIASES)
def test_a_bias_says_that_width_base_and_pair_change_nothing_and_they_do_not(encoding):
    one, two = (position_steps(encoding, *rest) for rest in ((8, 36, 10, 0), (128, 36, 100000, 63)))
    assert one[1] == two[1]
    assert "d_model, base and pair change nothing here" in one[1]
    for first, second in zip(one[0], two[0], strict=True):
        assert np.array_equal(first.values, second.values)


def test_learned_rows_say_that_the_base_changes_nothing_and_it_does_not():
    one, two = (shown("learned", 24, 24, base, 1) for base in (10, 100000))
    assert one[-1] == two[-1]
    assert "base changes nothing here" in one[-1]
    assert all(np.array_equal(first, second) for first, second in zip(one[:-1], two[:-1], strict=True))


@pytest.mark.parametrize("encoding", WAVES)
def test_the_caption_gives_wavelength_turns_and_products(encoding):
    for d_model, length, base, pair in grid():
        _, products, _, caption = shown(encoding, d_model, length, base, pair)
        wavelength = 2 * math.pi * base ** (2 * pair / d_model)
        assert caption.startswith(f"Pair {pair}: wavelength 2π · {base}^({2 * pair}/{d_model}) = ")
        assert number_after(r"\) = ", caption) == pytest.approx(wavelength, abs=0.006)
        turns = (length - 1) / wavelength
        if turns < 0.01:
            assert "positions, less than 0.01 turns" in caption
        else:
            assert number_after("positions, ", caption) == pytest.approx(turns, abs=0.006)
        for distance, words in ((0, " is "), (1, "distance 0, "), (8, " 1 and ")):
            assert number_after(words, caption) == pytest.approx(products[0, distance], abs=6e-4)


def test_the_pair_makes_the_turns_that_the_caption_counts():
    for pair in range(1, 12):
        _, _, (sin, cos), caption = shown("sinusoidal", 24, 64, 100, pair)
        turned = np.unwrap(np.arctan2(sin, cos))[-1] / (2 * math.pi)
        assert number_after("positions, ", caption) == pytest.approx(turned, abs=0.006)


@pytest.mark.parametrize(
    "setting, message",
    [
        (("absolute", 24, 24, 10000, 0), "sinusoidal, learned, rotary, ALiBi, relative, got 'absolute'"),
        (("learned", 25, 24, 10000, 0), "even and lie between 8 and 128, got 25"),
        (("rotary", 130, 24, 10000, 0), "even and lie between 8 and 128, got 130"),
        (("ALiBi", 24, 8, 10000, 0), "between 12 and 64, got 8"),
        (("sinusoidal", 24, 65, 10000, 0), "between 12 and 64, got 65"),
        (("sinusoidal", 24, 24, 10000, 12), "between 0 and 11 for d_model = 24, got 12"),
        (("relative", 24, 24, 10000, -1), "between 0 and 11 for d_model = 24, got -1"),
        (("sinusoidal", 24, 24, 1, 0), "base must be greater than 1"),
    ],
)
def test_a_setting_that_is_not_on_offer_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        position_steps(*setting)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_signed_numbers_have_0_in_the_middle_of_their_scale(encoding):
    for panel in position_steps(encoding, 24, 24, 10000, 1)[0]:
        low, high = panel.limits
        if panel.unit == "bucket":
            assert (low, high, panel.palette) == (0, panel.values.max(), "cividis")
        else:
            assert (-low, panel.palette) == (high, "PuOr")
        assert low <= panel.values.min() and panel.values.max() <= high


def test_no_map_is_drawn_thinner_than_a_quarter_of_its_length():
    for encoding, d_model, length in itertools.product(ENCODINGS, SOME_WIDTHS, SOME_LENGTHS):
        for panel in position_steps(encoding, d_model, length, 10000, 0)[0]:
            rows, columns = panel.values.shape
            width, height = panel.stretch
            assert min(width, height) == 1
            assert 0.25 <= rows * height / (columns * width) <= 4


def test_the_pair_stays_legal_and_near_while_the_width_moves():
    explorer = position_explorer()
    width, pair = explorer.controls["d_model"], explorer.controls["pair"]
    pair.value = 11
    width.value = 128
    assert (pair.value, pair.max) == (11, 63)
    pair.value = 50
    for d_model in [*reversed(WIDTHS), *WIDTHS]:
        wanted = pair.value
        width.value = d_model
        assert pair.max == d_model // 2 - 1
        assert pair.value == min(wanted, pair.max)
        assert explorer.view.problem == ""
        assert explorer.view.caption.startswith(f"Pair {pair.value}: ")


@pytest.mark.parametrize("width", [8, 128])
def test_new_pairs_on_offer_are_one_message_more(width, messages):
    explorer = position_explorer()
    explorer.controls["pair"].value = 11
    senders = messages(explorer)
    explorer.controls["d_model"].set_state({"value": width})
    assert senders == [explorer.controls["d_model"], explorer.view, explorer.controls["pair"]]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_largest_setting_is_small_to_send(encoding):
    explorer = position_explorer()
    explorer.controls["encoding"].value = encoding
    explorer.controls["length"].value = LENGTHS[-1]
    explorer.controls["d_model"].value = WIDTHS[-1]
    assert len(explorer.view.values) < 60_000
