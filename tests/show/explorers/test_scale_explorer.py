"""The explorer of the scale: what the division by √d_k does, at every width."""

import numpy as np
import pytest
import torch

from attn_core.show.explorers.scale import entropy, scale_steps


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
