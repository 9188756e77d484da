"""The explorer of costs: its bars are those of `attention_cost`, over the whole range of its sliders."""

import itertools
import math
import re

import pytest
from explorer_cases import settings_of

from attn_core import attention_cost
from attn_core.show import AttentionView, bar_panel, cost_explorer, matrix_panel, panel_figure
from attn_core.show.explorers.costs import (
    DIMENSIONS,
    HEAD_COUNTS,
    LENGTHS,
    PARTS,
    byte_text,
    cost_steps,
    crossing_length,
    share_text,
)


def grid(lengths=LENGTHS, dimensions=DIMENSIONS):
    """Every setting on offer: length, dimension, heads, kv heads, causal."""
    for setting in itertools.product(lengths, dimensions, HEAD_COUNTS, HEAD_COUNTS, (False, True)):
        _, embed_dim, num_heads, num_kv_heads, _ = setting
        if embed_dim % num_heads == 0 and num_heads % num_kv_heads == 0:
            yield setting


def cost_of(seq_len, embed_dim, num_heads, num_kv_heads, causal):
    return attention_cost(seq_len, embed_dim, num_heads, num_kv_heads=num_kv_heads, causal=causal)


def split(flops):
    """The FLOPs of the attention product and of the projections."""
    product = flops["scores"] + flops["weighted_sum"]
    return product, sum(flops.values()) - product


def numbers_in(text):
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?!\S*%)", text)]


def test_the_controls_offer_the_powers_of_two_of_their_range():
    assert (LENGTHS[0], LENGTHS[-1], len(LENGTHS)) == (16, 1_048_576, 17)
    assert (DIMENSIONS[0], DIMENSIONS[-1], len(DIMENSIONS)) == (64, 16_384, 9)
    assert HEAD_COUNTS == (1, 2, 4, 8, 16, 32, 64, 128)
    for numbers in (LENGTHS, DIMENSIONS):
        assert all(second == 2 * first for first, second in itertools.pairwise(numbers))


def test_the_explorer_starts_at_the_size_of_the_document():
    explorer = cost_explorer()
    assert explorer.settings == {
        "seq_len": 1024,
        "embed_dim": 512,
        "num_heads": 8,
        "num_kv_heads": 8,
        "causal": False,
    }
    assert explorer.view.caption == (
        "Length 1,024, dimension 512, 8 heads of width 64, 8 kv heads, no mask: "
        "4,294,967,296 FLOPs forward, 1,050,624 parameters.\n"
        "Scores and weights × V take 50.00% of the FLOPs. They cost as much as the projections at length 1,024, "
        "and more at any greater length."
    )
    assert explorer.view.panels[0].texts[1] == "1,073,741,824 FLOPs, 25.00%"
    assert explorer.view.panels[1].texts[1] == "33.55 MB (33,554,432 bytes), 88.87%"


def test_bars_are_the_flops_and_bytes_of_the_formula_at_every_setting():
    count = 0
    for setting in grid():
        (flops, memory), _ = cost_steps(*setting)
        cost = cost_of(*setting)
        assert flops.values[:, 0].tolist() == [cost.flops[part] for part in PARTS]
        assert memory.values[:, 0].tolist() == [4 * cost.parameters, cost.weight_bytes]
        assert flops.limits == (0, cost.total_flops)
        count += 1
    assert count > 10_000


def test_texts_give_the_exact_numbers_and_shares_of_the_formula():
    for setting in grid(LENGTHS[::4], DIMENSIONS[::2]):
        (flops, memory), caption = cost_steps(*setting)
        cost = cost_of(*setting)
        for part, text in zip(PARTS, flops.texts, strict=True):
            share = cost.flops[part] / cost.total_flops
            assert text.startswith(f"{cost.flops[part]:,} FLOPs, ")
            assert text.endswith("less than 0.01%" if share < 1e-4 else f" {100 * share:.2f}%")
        for size, text in zip((4 * cost.parameters, cost.weight_bytes), memory.texts, strict=True):
            assert f"{size:,} bytes" in text
        seq_len, embed_dim, num_heads, num_kv_heads, causal = setting
        assert numbers_in(caption.partition("\n")[0]) == [
            seq_len,
            embed_dim,
            num_heads,
            embed_dim // num_heads,
            num_kv_heads,
            cost.total_flops,
            cost.parameters,
        ]
        crossing = crossing_length(embed_dim, num_heads, num_kv_heads, causal)
        assert f"at length {crossing:,}, and more" in caption
        whole = " ".join((caption, *flops.texts, *memory.texts))
        assert not re.search(r"nan|inf\b|MACs|\.\d{5}|\b1 heads|\b1 kv heads|(?<!\d)0\.00%|100\.00%", whole)


def test_a_caption_speaks_of_hidden_weights_only_where_there_is_a_mask():
    for causal in (False, True):
        caption = cost_steps(64, 64, 1, 1, causal)[1]
        assert ("the mask leaves" in caption) == causal
        assert f"{'causal' if causal else 'no'} mask" in caption
        assert "1 head of width 64, 1 kv head, " in caption


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("num_heads, num_kv_heads", [(1, 1), (4, 4), (4, 2), (8, 1)])
@pytest.mark.parametrize("embed_dim", [8, 24, 64])
def test_the_crossing_is_the_one_that_a_search_finds(embed_dim, num_heads, num_kv_heads, causal):
    for seq_len in itertools.count(1):
        product, projections = split(cost_of(seq_len, embed_dim, num_heads, num_kv_heads, causal).flops)
        if product >= projections:
            break
    assert product == projections
    assert crossing_length(embed_dim, num_heads, num_kv_heads, causal) == seq_len
    product, projections = split(cost_of(seq_len + 1, embed_dim, num_heads, num_kv_heads, causal).flops)
    assert product > projections


def test_at_the_crossing_both_cost_the_same_whatever_the_size():
    for _, embed_dim, num_heads, num_kv_heads, causal in grid(lengths=(16,)):
        crossing = crossing_length(embed_dim, num_heads, num_kv_heads, causal)
        product, projections = split(cost_of(crossing, embed_dim, num_heads, num_kv_heads, causal).flops)
        assert product == projections


@pytest.mark.parametrize(
    "size, text",
    [
        (1_024, "1,024 bytes"),
        (999_999, "999,999 bytes"),
        (1_000_000, "1.00 MB (1,000,000 bytes)"),
        (33_554_432, "33.55 MB (33,554,432 bytes)"),
        (4 * 16_384**2, "1.07 GB (1,073,741,824 bytes)"),
        (562_949_953_421_312, "562.95 TB (562,949,953,421,312 bytes)"),
    ],
)
def test_a_size_comes_in_a_decimal_unit_and_exactly(size, text):
    assert byte_text(size) == text


@pytest.mark.parametrize(
    "share, text",
    [
        (0, "0.00%"),
        (0.00003, "less than 0.01%"),
        (0.125, "12.50%"),
        (0.99997, "more than 99.99%"),
        (1, "100.00%"),
    ],
)
def test_a_small_share_is_not_nothing_and_a_large_one_not_all(share, text):
    assert share_text(share) == text


@pytest.mark.parametrize(
    "setting, message",
    [
        ((0, 64, 1, 1, False), "seq_len must be at least 1, got 0"),
        ((16, 64, 128, 1, False), "num_heads must divide embed_dim, got 128 heads and embed_dim 64"),
        ((16, 64, 8, 3, False), "num_kv_heads must divide num_heads, got 3 and 8 heads"),
        ((16, 64, 8, 8, "padding"), "causal must be False, True, .* got 'padding'"),
    ],
)
def test_a_size_that_does_not_fit_is_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        cost_steps(*setting)


# The controls


def test_the_heads_on_offer_divide_the_dimension_and_the_kv_heads_the_heads():
    explorer = cost_explorer()
    dimension, heads, kv_heads = (explorer.controls[name] for name in ("embed_dim", "num_heads", "num_kv_heads"))
    for embed_dim in (*DIMENSIONS, *reversed(DIMENSIONS)):
        dimension.value = embed_dim
        assert settings_of(heads) == [count for count in HEAD_COUNTS if embed_dim % count == 0]
        for count in settings_of(heads):
            heads.value = count
            assert settings_of(kv_heads) == [few for few in HEAD_COUNTS if count % few == 0]


def test_heads_that_do_not_divide_the_dimension_become_the_nearest_that_do():
    explorer = cost_explorer()
    controls = explorer.controls
    controls["embed_dim"].value = 16_384
    controls["num_heads"].value = 128
    controls["num_kv_heads"].value = 32
    controls["embed_dim"].value = 64
    assert (controls["num_heads"].value, controls["num_kv_heads"].value) == (64, 32)
    controls["num_heads"].value = 16
    assert controls["num_kv_heads"].value == 16


def test_kv_heads_follow_the_heads_where_they_were_as_many_and_stay_where_they_were_fewer():
    explorer = cost_explorer()
    heads, kv_heads = explorer.controls["num_heads"], explorer.controls["num_kv_heads"]
    for count in (16, 2, 128, 8):
        heads.value = count
        assert kv_heads.value == count
    kv_heads.value = 4
    for count in (64, 8):
        heads.value = count
        assert kv_heads.value == 4


# Bars


def two_bars():
    return bar_panel([3, 1], "fruit", ["猫", "pears"], ["3 kg", "1 kg"], "kg")


def test_bars_run_from_0_to_the_sum_of_all():
    panel = two_bars()
    assert (panel.kind, panel.limits) == ("bars", (0, 4))
    assert matrix_panel([[1.0]], "value", "a", "x", "token", "dimension", "value").kind == "map"


@pytest.mark.parametrize(
    "values, labels, texts, message",
    [
        ([3, -1], "ab", "xy", r"numbers of at least 0 with a sum above 0, got \[3.0, -1.0\]"),
        ([0, 0], "ab", "xy", "with a sum above 0"),
        ([1, math.nan], "ab", "xy", "numbers of at least 0"),
        ([1, math.inf], "ab", "xy", "numbers of at least 0"),
        ([1, 2], "ab", "x", "fruit: 2 bars need as many texts, got 1"),
        ([1, 2], "a", "xy", "1 part and 1 share labels for shape"),
        ([], "", "", "fruit must have at least one number"),
    ],
)
def test_bars_that_cannot_be_drawn_are_refused(values, labels, texts, message):
    with pytest.raises(ValueError, match=message):
        bar_panel(values, "fruit", labels, texts, "kg")


def test_a_figure_of_bars_shows_shares_with_label_and_text_from_the_top():
    figure = panel_figure([two_bars()])
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [0.75, 0.25]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["猫", "pears"]
    assert [text.get_text() for text in axes.texts] == ["3 kg", "1 kg"]
    bottom, top = axes.get_ylim()
    assert bottom > top
    assert axes.get_xlim() == (0, 1)
    assert figure.alt == "fruit: bars; 猫: 3 kg; pears: 1 kg."


def test_bars_and_a_map_share_a_figure_and_a_view():
    panels = [two_bars(), matrix_panel([[1.0, 2.0]], "value", "a", "xy", "token", "dimension", "value")]
    figure = panel_figure(panels, title="both")
    assert [axes.get_title() for axes in figure.axes] == ["fruit", "value"]
    assert figure.alt.startswith("both. fruit: bars; ")
    assert figure._repr_mimebundle_()[0]["image/png"]
    view = AttentionView(panels)
    bars, cells = view.panel_layout
    assert (bars["kind"], bars["texts"], bars["rows"], bars["columns"]) == ("bars", ["3 kg", "1 kg"], 2, 1)
    assert (bars["low"], bars["high"]) == (0, 4)
    assert (cells["kind"], cells["texts"]) == ("map", [])
    assert view.font  # with the label that common fonts lack
