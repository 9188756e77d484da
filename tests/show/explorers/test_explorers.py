"""Explorers: each compute function over its whole range, then the sliders over theirs."""

import gc
import inspect
import itertools
import math

import ipywidgets
import matplotlib.pyplot
import numpy as np
import psutil
import pytest
import torch
import torch.nn.functional as F
from ipywidgets.widgets.widget import _instances as widget_registry

from attn_core import MultiHeadAttention, attention_cost
from attn_core.show import (
    Explorer,
    cost_explorer,
    head_explorer,
    matrix_panel,
    position_explorer,
    qkv_explorer,
    scale_explorer,
)
from attn_core.show.explorers.costs import cost_steps
from attn_core.show.explorers.heads import HEAD_COUNTS, SENTENCE, head_steps, legal_heads
from attn_core.show.explorers.positions import ENCODINGS, position_steps
from attn_core.show.explorers.qkv import MASKS, qkv_steps
from attn_core.show.explorers.scale import entropy, scale_steps
from attn_core.show.style import MOST_TOKENS

EXPLORERS = [qkv_explorer, scale_explorer, head_explorer, position_explorer, cost_explorer]
DIMENSIONS = range(16, 513, 8)
SENTENCES = ("猫吃鱼", "the keys to the cabinet", "x", "猫 " * MOST_TOKENS)


def by_title(panels):
    return {panel.title: panel.values for panel in panels}


def settings_of(control):
    """Every value that a control can be moved to; of a field for sentences, some."""
    if isinstance(control, ipywidgets.Text):
        return SENTENCES
    if isinstance(control, ipywidgets.SelectionSlider):
        return [option[1] if isinstance(option, tuple) else option for option in control.options]
    count = round((control.max - control.min) / control.step) + 1
    return [control.min + i * control.step for i in range(count)]


def pixels(explorer):
    return explorer.view.values, explorer.view.panel_layout


# Q, K, V by hand


def test_qkv_of_the_document_give_its_numbers_where_they_hold_and_ours_where_not():
    panels, caption = qkv_steps(1, 1, 1, 0)
    steps = by_title(panels)
    assert list(steps) == ["input a", "query Q", "key K", "value V", "scaled scores", "weights", "output"]
    assert steps["query Q"].tolist() == [[1, 2], [1, 1]]
    assert steps["key K"].tolist() == [[1, 2], [0, 1]]
    assert steps["value V"].tolist() == [[1, 1], [1, 0]]
    assert steps["scaled scores"].round(4).tolist() == [[3.5355, 1.4142], [2.1213, 0.7071]]
    assert steps["weights"].round(4).tolist() == [[0.8930, 0.1070], [0.8044, 0.1956]]
    assert steps["output"].round(4).tolist() == [[1.0, 0.8930], [1.0, 0.8044]]
    assert caption == "a1 gives weight 0.8930 to a1 and 0.1070 to a2; its output is [1.0000, 0.8930]."


@pytest.mark.parametrize("mask", MASKS)
def test_qkv_steps_agree_with_torch_over_the_range_of_the_sliders(mask):
    grid = (-3.0, -0.75, 0.0, 3.0)
    allowed = torch.ones(2, 2, dtype=torch.bool).tril() if mask == "causal" else None
    for entries in np.stack(np.meshgrid(*[grid] * 4), -1).reshape(-1, 4).tolist():
        panels, caption = qkv_steps(*entries, mask)
        steps = {title: torch.tensor(values) for title, values in by_title(panels).items()}
        q, k, v = (steps[title] for title in ("query Q", "key K", "value V"))
        expected = F.scaled_dot_product_attention(q[None], k[None], v[None], allowed)[0]
        assert torch.allclose(steps["output"], expected, atol=1e-12)
        assert torch.allclose(steps["weights"].sum(-1), torch.ones(2, dtype=torch.float64))
        assert "nan" not in caption
        assert "-0.0000" not in caption
        if mask == "causal":
            assert steps["weights"][0].tolist() == [1, 0]
            assert steps["scaled scores"][0, 1] == -math.inf


def test_an_unknown_mask_is_refused():
    with pytest.raises(ValueError, match="none, causal, got 'padding'"):
        qkv_steps(1, 1, 1, 0, "padding")


# The scale


def test_scaled_weights_stay_soft_while_unscaled_ones_harden():
    softness = []
    for d_k in range(1, 257):
        panels, caption = scale_steps(d_k)
        plain, scaled = (panel.values for panel in panels)
        for weights in (plain, scaled):
            assert weights.shape == (12, 12)
            assert np.allclose(weights.sum(-1), 1)
        # Dividing all scores by the same number keeps the order of the keys.
        assert (plain.argmax(-1) == scaled.argmax(-1)).all()
        softness.append([entropy(torch.tensor(weights)) for weights in (plain, scaled)])
        assert f"d_k = {d_k}." in caption
        assert f"{softness[-1][0]:.2f} bits of entropy" in caption
        assert f"a row has {softness[-1][1]:.2f} bits" in caption
    plain, scaled = np.array(softness).T
    assert np.allclose(plain[0], scaled[0])  # the root of 1 divides nothing
    assert (plain[1:] < scaled[1:]).all()
    assert plain[63:].max() < 1 and scaled.min() > 2.3


@pytest.mark.parametrize("d_k", [0, -1, 257])
def test_a_d_k_outside_the_slider_is_refused(d_k):
    with pytest.raises(ValueError, match=f"between 1 and 256, got {d_k}"):
        scale_steps(d_k)


def test_entropy_is_0_for_one_key_and_log2_of_the_count_for_equal_weights():
    assert entropy(torch.eye(4)) == 0
    assert entropy(torch.full((3, 8), 1 / 8)) == pytest.approx(3)


# Heads and dimensions


def test_heads_share_parameters_and_flops_at_every_size():
    for embed_dim in DIMENSIONS:
        captions = []
        for num_heads in legal_heads(embed_dim):
            panels, caption = head_steps(embed_dim, num_heads)
            assert len(panels) == num_heads
            for panel in panels:
                assert panel.row_labels == panel.column_labels == SENTENCE
                assert np.allclose(panel.values.sum(-1), 1, atol=1e-5)
            size, _, costs = caption.partition("\n")
            assert size.startswith(f"embed_dim {embed_dim}, {num_heads} head")
            assert f" of head_dim {embed_dim // num_heads}; 12 tokens, one for each character" in size
            assert f"Weights kept: {num_heads * 144:,} numbers, {num_heads * 576:,} bytes" in costs
            captions.append(costs.partition(" Weights")[0])
        parameters, flops = 4 * embed_dim**2 + 4 * embed_dim, 8 * 12 * embed_dim**2 + 4 * 144 * embed_dim
        assert set(captions) == {f"Parameters: {parameters:,}. FLOPs for 12 tokens: {flops:,}."}


def test_the_same_token_asks_the_same_question_twice():
    panels, _ = head_steps(64, 8)
    first, second = (place for place, token in enumerate(SENTENCE) if token == "了")
    for panel in panels:
        assert np.allclose(panel.values[first], panel.values[second], atol=1e-6)
        assert np.allclose(panel.values[:, first], panel.values[:, second], atol=1e-6)


def test_heads_show_different_maps_that_are_neither_even_nor_hard():
    panels, _ = head_steps(64, 8)
    for one in range(8):
        assert 1 < entropy(torch.tensor(panels[one].values)) < 3.5
        for other in range(one):
            assert np.abs(panels[one].values - panels[other].values).max() > 0.1


def test_what_the_caption_counts_is_what_the_layer_has():
    _, caption = head_steps(64, 8)
    layer = MultiHeadAttention(64, 8)
    assert f"Parameters: {sum(p.numel() for p in layer.parameters()):,}." in caption
    assert f"tokens: {attention_cost(12, 64, 8).total_flops:,}." in caption


@pytest.mark.parametrize(
    "sentence, tokens, how",
    [
        ("the keys to the cabinet", ("the", "keys", "to", "the", "cabinet"), "5 tokens, split at the spaces."),
        ("猫吃鱼", ("猫", "吃", "鱼"), "3 tokens, one for each character, as there are no spaces."),
        ("x", ("x",), "1 token, one for each character"),
        ("<img src=x onerror=alert(1)>", ("<img", "src=x", "onerror=alert(1)>"), "3 tokens, split at the spaces."),
    ],
)
def test_a_sentence_of_ones_own_gives_maps_and_costs_of_its_length(sentence, tokens, how):
    panels, caption = head_steps(64, 4, sentence)
    assert len(panels) == 4
    for panel in panels:
        assert panel.row_labels == panel.column_labels == tokens
        assert np.allclose(panel.values.sum(-1), 1)
    cost = attention_cost(len(tokens), 64, 4)
    assert how in caption
    assert f"FLOPs for {len(tokens)} token{'s' * (len(tokens) > 1)}: {cost.total_flops:,}." in caption
    assert f"Weights kept: {4 * len(tokens) ** 2:,} numbers" in caption


@pytest.mark.parametrize(
    "bad, reason", [("", "the sentence is empty"), ("猫" * 41, "the sentence has 41 tokens, and at most 40")]
)
def test_a_bad_sentence_is_said_so_keeps_the_picture_and_goes_away_with_a_good_one(bad, reason):
    explorer = head_explorer()
    field = explorer.controls["sentence"]
    field.value = "猫吃鱼"
    before, caption = pixels(explorer), explorer.view.caption
    field.value = bad
    assert explorer.view.problem.startswith(f"This setting cannot be shown: {reason}")
    assert (pixels(explorer), explorer.view.caption) == (before, caption)
    field.value = "鱼吃猫"
    assert explorer.view.problem == ""
    assert explorer.view.panels[0].row_labels == ("鱼", "吃", "猫")


def test_heads_that_do_not_divide_the_dimension_are_refused():
    with pytest.raises(ValueError, match="24"):
        head_steps(24, 16)


def test_offered_heads_divide_the_dimension():
    for embed_dim in DIMENSIONS:
        assert legal_heads(embed_dim) == [count for count in HEAD_COUNTS if embed_dim % count == 0]
    assert legal_heads(24) == [1, 2, 4, 8]


# All of them


@pytest.mark.parametrize(
    "compute, arguments",
    [
        (qkv_steps, (1, 1, 1, 0)),
        (scale_steps, (64,)),
        (head_steps, (64, 8)),
        (cost_steps, (1024, 512, 8, 8, False)),
        *((position_steps, (encoding, 24, 24, 10000, 1)) for encoding in ENCODINGS),
    ],
)
def test_a_compute_function_gives_the_same_whatever_the_random_state_and_leaves_it_alone(compute, arguments):
    torch.manual_seed(1)
    panels, caption = compute(*arguments)
    state = torch.get_rng_state()
    torch.manual_seed(2)
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        again, same_caption = compute(*arguments)
    finally:
        torch.set_default_dtype(default)
    assert caption == same_caption
    for one, two in zip(panels, again, strict=True):
        assert one.values.tolist() == two.values.tolist()
    torch.manual_seed(1)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_control_says_what_it_is(make):
    explorer = make()
    assert explorer.children == (*explorer.controls.values(), explorer.view)
    for control in explorer.controls.values():
        assert control.description
    assert set(explorer.controls) == set(inspect.signature(explorer.compute).parameters)


@pytest.mark.parametrize("make", EXPLORERS)
def test_an_explorer_starts_with_what_its_controls_say(make):
    explorer = make()
    panels, caption = explorer.compute(**explorer.settings)
    assert explorer.view.caption == caption
    for shown, panel in zip(explorer.view.panels, panels, strict=True):
        assert np.array_equal(shown.values, panel.values)


@pytest.mark.parametrize("make", EXPLORERS)
def test_every_slider_can_be_moved_over_its_whole_range(make):
    explorer = make()
    for control in explorer.controls.values():
        for value in settings_of(control):
            control.value = value
            assert control.value == pytest.approx(value) if isinstance(value, float) else control.value == value
            assert explorer.view.problem == ""
        _, caption = explorer.compute(**explorer.settings)
        assert explorer.view.caption == caption


@pytest.mark.parametrize("make", EXPLORERS)
def test_the_view_shows_the_new_setting_after_a_move(make):
    for argument in make().controls:
        explorer = make()  # from the start each time: after other moves a control may have no say
        control = explorer.controls[argument]
        before = pixels(explorer)
        values = settings_of(control)
        control.value = values[0] if control.value != values[0] else values[1]
        assert pixels(explorer) != before


def test_heads_stay_legal_and_near_while_the_dimension_moves():
    explorer = head_explorer()
    dimension, heads = explorer.controls["embed_dim"], explorer.controls["num_heads"]
    heads.value = 16
    dimension.value = 24
    assert settings_of(heads) == [1, 2, 4, 8]
    assert heads.value == 8
    for embed_dim in [*DIMENSIONS[::5], *reversed(DIMENSIONS[::5])]:
        wanted = heads.value
        dimension.value = embed_dim
        assert settings_of(heads) == legal_heads(embed_dim)
        assert heads.value == wanted
        assert explorer.view.problem == ""
        assert len(explorer.view.panels) == wanted


def test_the_explorer_never_computes_heads_that_do_not_divide():
    asked = []
    explorer = head_explorer()
    compute = explorer.compute
    explorer.compute = lambda **settings: asked.append(settings) or compute(**settings)
    for heads, embed_dim in ((16, 24), (8, 512), (16, 40), (2, 48)):
        if heads in settings_of(explorer.controls["num_heads"]):
            explorer.controls["num_heads"].value = heads
        explorer.controls["embed_dim"].value = embed_dim
    assert len(asked) == 7  # once a move, also where the heads had to follow
    assert all(settings["embed_dim"] % settings["num_heads"] == 0 for settings in asked)


def fail_at_3(x):
    if x in ERRORS:
        raise ERRORS[x]
    if x == 4:
        return [], "nothing to see"
    return [matrix_panel([[x]], "value", "a", "b", "token", "dimension", "value")], f"x is {x}"


ERRORS = {
    3: ValueError("3 is out of order"),
    5: TypeError("5 is no word"),
    6: KeyError("x"),
    7: ZeroDivisionError("by 0"),
}


@pytest.mark.parametrize(
    "bad, reason, faulty",
    [
        (3, "This setting cannot be shown: 3 is out of order", False),
        (4, "This setting cannot be shown: there must be at least one panel", False),
        (5, "This setting cannot be shown: 5 is no word", False),
        (6, "The explorer has a fault, which its log describes: 'x'", True),
        (7, "The explorer has a fault, which its log describes: by 0", True),
    ],
)
def test_an_error_becomes_a_sentence_keeps_the_picture_goes_away_and_a_fault_reaches_the_log(
    bad, reason, faulty, caplog
):
    slider = ipywidgets.IntSlider(value=1, max=9, description="x")
    explorer = Explorer("a fault", {"x": slider}, fail_at_3)
    before, caption = pixels(explorer), explorer.view.caption
    slider.value = bad
    assert explorer.view.problem.startswith(reason)
    logged = [(record.name, record.levelname, record.exc_info[1]) for record in caplog.records]
    assert logged == ([("attn_core.show", "ERROR", ERRORS[bad])] if faulty else [])
    assert not faulty or f"the explorer of a fault fails at {{'x': {bad}}}" in caplog.text
    assert (pixels(explorer), explorer.view.caption) == (before, caption)
    assert explorer.view._repr_mimebundle_()
    slider.value = 2
    assert explorer.view.problem == ""
    assert explorer.view.caption == "x is 2"


@pytest.mark.parametrize("make", EXPLORERS)
def test_500_moves_leave_no_figure_no_widget_and_no_memory_behind(make):
    explorer = make()
    control = list(explorer.controls.values())[-1 if make is not qkv_explorer else 0]
    values = settings_of(control)

    def move(count):
        for i in range(count):
            control.value = values[i % len(values)]
        gc.collect()
        return psutil.Process().memory_info().rss

    before = move(100)
    widgets = len(widget_registry)
    after = move(500)
    assert len(widget_registry) == widgets
    assert matplotlib.pyplot.get_fignums() == []
    assert after - before < 8e6


@pytest.fixture
def messages(monkeypatch):
    """Lets an explorer tell which of its widgets sends a message to the browser."""

    def listen(explorer):
        senders = []
        for widget in (*explorer.controls.values(), explorer.view):
            send = lambda data=None, sender=widget, **rest: senders.append(sender)  # noqa: E731
            monkeypatch.setattr(widget.comm, "send", send)
        return senders

    return listen


@pytest.mark.parametrize("make", EXPLORERS)
def test_a_move_of_the_reader_is_answered_with_one_message_besides_the_echo(make, messages):
    for argument in make().controls:
        if (make, argument) in [(position_explorer, "d_model"), (cost_explorer, "num_heads")]:
            continue  # another control has to follow then, see below and in test_costs.py
        explorer = make()
        control, senders = explorer.controls[argument], messages(explorer)
        if isinstance(control, ipywidgets.SelectionSlider):
            control.set_state({"index": 1})
        elif isinstance(control, ipywidgets.Text):
            control.set_state({"value": "猫吃鱼"})
        else:
            control.set_state({"value": control.max})
        assert senders == [control, explorer.view]


def test_new_heads_on_offer_are_sent_after_the_one_new_picture(messages):
    explorer = head_explorer()
    senders = messages(explorer)
    dimension, heads = explorer.controls["embed_dim"], explorer.controls["num_heads"]
    dimension.set_state({"value": 24})
    # Several of heads: the browser must know the new range before the new place of the handle.
    assert [sender for sender, _ in itertools.groupby(senders)] == [dimension, explorer.view, heads]
    assert senders.count(explorer.view) == 1


@pytest.mark.parametrize("width", [8, 128])
def test_new_pairs_on_offer_are_one_message_more(width, messages):
    explorer = position_explorer()
    explorer.controls["pair"].value = 11
    senders = messages(explorer)
    explorer.controls["d_model"].set_state({"value": width})
    assert senders == [explorer.controls["d_model"], explorer.view, explorer.controls["pair"]]


@pytest.mark.parametrize("make", EXPLORERS)
def test_an_explorer_has_a_stable_text_and_a_picture(make):
    one, two = make(), make()
    assert repr(one) == repr(two) == f"Explorer of {one.name}: {one.view.caption}"
    assert "0x" not in repr(one)
    data, metadata = one._repr_mimebundle_()
    assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json", "image/png"}
    assert data["text/plain"] == repr(one)
    assert len(metadata["image/png"]["alt"]) >= 20
    assert data["image/png"] == two._repr_mimebundle_()[0]["image/png"]
