"""The explorer of Q, K and V: its numbers are those of the document where they hold, and of torch everywhere."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from attn_core.show.explorers.qkv import MASKS, qkv_steps


def by_title(panels):
    return {panel.title: panel.values for panel in panels}


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
        assert "-" not in caption and "−0.0000" not in caption
        if mask == "causal":
            assert steps["weights"][0].tolist() == [1, 0]
            assert steps["scaled scores"][0, 1] == -math.inf


def test_an_unknown_mask_is_refused():
    with pytest.raises(ValueError, match="none, causal, got 'padding'"):
        qkv_steps(1, 1, 1, 0, "padding")
