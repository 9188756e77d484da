"""The explorer of heads and dimensions: maps and costs of any sentence at every size."""

import numpy as np
import pytest
import torch
from explorer_cases import pixels, settings_of

from attn_core import MultiHeadAttention, attention_cost
from attn_core.show import head_explorer
from attn_core.show.explorers.heads import HEAD_COUNTS, SENTENCE, head_steps, legal_heads
from attn_core.show.explorers.scale import entropy

DIMENSIONS = range(16, 513, 8)


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
        ("x", ("x",), "1 token, the whole word"),
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
