"""The explorer of the scale: what the division by √d_k does to the weights."""

import math

import ipywidgets as widgets
import torch

from attn_core.attention import scaled_dot_product_attention
from attn_core.show.explorers.base import Explorer, Shown
from attn_core.show.panels import weight_panels
from attn_core.show.texts import Caption

LARGEST_D_K = 256
CAPTION = (
    "d_k = {d_k}. Without scaling the scores spread by {spread:.2f} (standard deviation) and a row of weights "
    "has {entropy:.2f} bits of entropy; divided by √d_k they spread by {scaled_spread:.2f} and "
    "a row has {scaled_entropy:.2f} bits. Equal weights on 12 tokens would have {most:.2f} bits."
)


def scale_steps(d_k: int) -> Shown:
    """Weights of 12 random tokens from scores with and without the division by √d_k, for keys of
    width d_k.
    """
    if not 1 <= d_k <= LARGEST_D_K:
        raise ValueError(f"d_k must lie between 1 and {LARGEST_D_K}, got {d_k}")
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 12, LARGEST_D_K, dtype=torch.float64, generator=generator)[..., :d_k]
    plain, scaled = (scaled_dot_product_attention(q, k, k, scale=scale).weights for scale in (1.0, None))
    assert plain is not None and scaled is not None  # they are given unless refused
    panels = weight_panels(torch.stack([plain, scaled]), titles=["softmax(QKᵀ)", "softmax(QKᵀ / √d_k)"])
    spread = (q @ k.T).std().item()
    return panels, Caption(
        CAPTION,
        d_k=d_k,
        spread=spread,
        entropy=entropy(plain),
        scaled_spread=spread / math.sqrt(d_k),
        scaled_entropy=entropy(scaled),
        most=math.log2(12),
    )


def entropy(weights: torch.Tensor) -> float:
    """The mean entropy of the rows, in bits: 0 for one key that gets everything, log2 S for equal
    weights.
    """
    return torch.special.entr(weights).sum(-1).mean().item() / math.log(2)


def scale_explorer() -> Explorer:
    """A slider for d_k; the weights with and without the division by √d_k."""
    slider = widgets.IntSlider(value=64, min=1, max=LARGEST_D_K, description="d_k")
    return Explorer("the scale √d_k", {"d_k": slider}, scale_steps)
