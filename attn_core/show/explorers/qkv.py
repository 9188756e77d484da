"""The explorer of Q, K and V: every step of the document's example, for any two vectors."""

import ipywidgets as widgets
import torch

from attn_core.attention import attention_trace
from attn_core.masks import causal_mask
from attn_core.show.explorers.base import Computed, Explorer, Shown
from attn_core.show.live.view import packed
from attn_core.show.panels import matrix_panel
from attn_core.show.texts import Caption

W_Q = ((1.0, 1.0), (0.0, 1.0))
W_K = ((0.0, 1.0), (1.0, 1.0))
W_V = ((1.0, 0.0), (0.0, 1.0))
MASKS = ("none", "causal")
CAPTION = "a1 gives weight {first:.4f} to a1 and {second:.4f} to a2; its output is [{output_1:.4f}, {output_2:.4f}]."


def qkv_steps(a1_1: float, a1_2: float, a2_1: float, a2_2: float, mask: str = "none") -> Shown:
    """Every step of the document's example for the vectors a1 and a2: input, Q, K, V, scores,
    weights, output.
    """
    if mask not in MASKS:
        raise ValueError(f"mask must be one of {', '.join(MASKS)}, got {mask!r}")
    a = torch.tensor([[a1_1, a1_2], [a2_1, a2_2]], dtype=torch.float64)
    q, k, v = (a @ torch.tensor(matrix, dtype=torch.float64) for matrix in (W_Q, W_K, W_V))
    trace = attention_trace(q, k, v, causal_mask(2) if mask == "causal" else None)
    tokens, dims = ("a1", "a2"), ("1", "2")
    vectors = {"input a": a, "query Q": q, "key K": k, "value V": v}
    panels = [matrix_panel(x, title, tokens, dims, "token", "dimension", "value") for title, x in vectors.items()]
    panels.append(matrix_panel(trace.masked, "scaled scores", tokens, tokens, "query", "key", "score"))
    panels.append(matrix_panel(trace.weights, "weights", tokens, tokens, "query", "key", "weight"))
    panels.append(matrix_panel(trace.values, "output", tokens, dims, "token", "dimension", "value"))
    (first, second), (output_1, output_2) = trace.weights[0].tolist(), trace.values[0].tolist()
    return panels, Caption(CAPTION, first=first, second=second, output_1=output_1, output_2=output_2)


def qkv_explorer() -> Explorer:
    """Sliders for the entries of a1 and a2 and for the mask; every step of attention at once."""
    start = {
        "a1_1": ("a1, entry 1", 1.0),
        "a1_2": ("a1, entry 2", 1.0),
        "a2_1": ("a2, entry 1", 1.0),
        "a2_2": ("a2, entry 2", 0.0),
    }
    controls = {
        argument: widgets.FloatSlider(value=value, min=-3, max=3, step=0.25, description=description)
        for argument, (description, value) in start.items()
    }
    controls["mask"] = widgets.SelectionSlider(options=MASKS, value="none", description="mask")
    return Explorer("Q, K, V by hand", controls, qkv_steps, offline=_offline)


def _offline() -> Computed:
    panels, _ = qkv_steps(1.0, 1.0, 1.0, 0.0)
    return Computed("qkv", {"matrices": (W_Q, W_K, W_V), "layout": packed(panels)[0], "caption": CAPTION})
