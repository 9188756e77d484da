"""The wall of maps: every map at its place, and a text that names the sharpest."""

import itertools

import numpy as np
import pytest

from attn_core.show import map_wall

LAYERS, HEADS, SIZE = 3, 4, 5


@pytest.fixture
def weights():
    raw = np.random.default_rng(0).random((LAYERS, HEADS, SIZE, SIZE))
    return raw / raw.sum(-1, keepdims=True)


def test_the_wall_has_every_map_at_its_layer_and_head(weights):
    figure = map_wall(weights, "All maps")
    (image,) = figure.axes[0].images
    wall = image.get_array()
    for layer, head in itertools.product(range(LAYERS), range(HEADS)):
        top, left = layer * (SIZE + 1), head * (SIZE + 1)
        assert np.array_equal(wall[top : top + SIZE, left : left + SIZE], weights[layer, head])
    assert wall.mask.sum() == wall.size - weights.size  # only the gaps are empty
    assert image.get_clim() == (0, 1)


def test_the_alt_text_of_the_wall_names_its_sharpest_head(weights):
    weights[1, 2] = np.eye(SIZE)
    figure = map_wall(weights, "All maps")
    assert "12 small maps of 5 tokens" in figure.alt
    assert "layer 2, head 3" in figure.alt and "1.00" in figure.alt


@pytest.mark.parametrize("weights", [np.ones((2, 3, 3)), np.full((1, 1, 2, 2), 1.5), np.full((1, 1, 2, 2), np.nan)])
def test_the_wall_refuses_what_are_no_weights(weights):
    with pytest.raises(ValueError, match="weights must"):
        map_wall(weights, "All maps")
