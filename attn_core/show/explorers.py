"""Explorers: controls above a live view. What they show is computed by pure functions, which the tests call over their
whole range; a control only calls the function and hands the result to the view."""

import math
from collections.abc import Callable, Sequence

import ipywidgets as widgets
import torch

from attn_core.attention import attention_trace, scaled_dot_product_attention
from attn_core.flops import attention_cost
from attn_core.masks import causal_mask
from attn_core.show.panels import Panel, matrix_panel, weight_panels
from attn_core.show.untrained import MOST_TOKENS, head_maps, split_tokens
from attn_core.show.view import AttentionView, with_picture

W_Q = ((1.0, 1.0), (0.0, 1.0))
W_K = ((0.0, 1.0), (1.0, 1.0))
W_V = ((1.0, 0.0), (0.0, 1.0))
MASKS = ("none", "causal")
HEAD_COUNTS = (1, 2, 4, 8, 16)
SENTENCE = tuple("小猫吃了一条大鱼就睡着了")
LARGEST_D_K = 256
SPLITS = {"spaces": "split at the spaces", "characters": "one for each character, as there are no spaces"}
PROBLEM = "This setting cannot be shown: "

Shown = tuple[list[Panel], str]  # the panels and the caption below them
Choice = tuple[Sequence[int], int]  # what a control may say, in ascending order, and what it is to say


class Explorer(widgets.VBox):
    """Controls above a view.

    name: what is explored. controls: by the name of the argument that each feeds. compute: a pure function from those
    arguments to panels and a caption; where it raises, the explorer says so in a sentence and keeps the last picture.
    fit: takes the same arguments after each move and returns, for controls whose choices depend on others, the choices
    that are legal now and the one to take: {"num_heads": ([1, 2, 4], 4)}.
    """

    def __init__(
        self,
        name: str,
        controls: dict[str, widgets.Widget],
        compute: Callable[..., Shown],
        fit: Callable[..., dict[str, Choice]] = lambda **_: {},
    ):
        self.name, self.controls, self.compute, self._fit = name, controls, compute, fit
        self._offering = False
        self.view = AttentionView(*compute(**self.settings), name)
        for control in controls.values():
            control.style = {"description_width": "110px"}
            control.layout.width = control.layout.width or "min(100%, 420px)"
            control.observe(self._refresh, "value")
        super().__init__([*controls.values(), self.view])

    @property
    def settings(self) -> dict:
        """What the controls say at the moment."""
        return {argument: control.value for argument, control in self.controls.items()}

    def _refresh(self, _change) -> None:
        if self._offering:
            return
        choices = self._fit(**self.settings)
        with self.view.hold_sync():
            try:
                settings = self.settings | {argument: chosen for argument, (_, chosen) in choices.items()}
                self.view.panels, self.view.caption = self.compute(**settings)
            except Exception as error:  # any error: it must reach the reader, not the log of the server
                self.view.problem = f"{PROBLEM}{error}"
            else:
                self.view.problem = ""
        # The picture went first: it is what the reader waits for.
        self._offering = True
        try:
            for argument, (options, chosen) in choices.items():
                _offer(self.controls[argument], options, chosen)
        finally:
            self._offering = False

    def __repr__(self) -> str:
        return f"Explorer of {self.name}: {self.view.caption}"

    def _repr_mimebundle_(self, **options):
        return with_picture(self, super()._repr_mimebundle_(**options), self.view)


def qkv_steps(a1_1: float, a1_2: float, a2_1: float, a2_2: float, mask: str = "none") -> Shown:
    """Every step of the document's example for the vectors a1 and a2: input, Q, K, V, scores, weights, output."""
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
    first, second = trace.weights[0].tolist()
    caption = f"a1 gives weight {first:.4f} to a1 and {second:.4f} to a2; its output is [{_vector(trace.values[0])}]."
    return panels, caption


def scale_steps(d_k: int) -> Shown:
    """Weights of 12 random tokens from scores with and without the division by √d_k, for keys of width d_k."""
    if not 1 <= d_k <= LARGEST_D_K:
        raise ValueError(f"d_k must lie between 1 and {LARGEST_D_K}, got {d_k}")
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 12, LARGEST_D_K, dtype=torch.float64, generator=generator)[..., :d_k]
    plain = scaled_dot_product_attention(q, k, k, scale=1.0).weights
    scaled = scaled_dot_product_attention(q, k, k).weights
    panels = weight_panels(torch.stack([plain, scaled]), titles=["softmax(QKᵀ)", "softmax(QKᵀ / √d_k)"])
    spread = (q @ k.T).std().item()
    caption = (
        f"d_k = {d_k}. Without scaling the scores spread by {spread:.2f} (standard deviation) and a row of weights "
        f"has {entropy(plain):.2f} bits of entropy; divided by √d_k they spread by {spread / math.sqrt(d_k):.2f} and "
        f"a row has {entropy(scaled):.2f} bits. Equal weights on 12 tokens would have {math.log2(12):.2f} bits."
    )
    return panels, caption


def head_steps(embed_dim: int, num_heads: int, sentence: str = "".join(SENTENCE)) -> Shown:
    """The maps of an untrained layer on one sentence, and what its size costs. Raises ValueError as `split_tokens`."""
    tokens = split_tokens(sentence)
    split = SPLITS["spaces" if len(sentence.split()) > 1 else "characters"]
    caption = head_caption(embed_dim, num_heads, len(tokens), split)
    return weight_panels(head_maps(tokens, embed_dim, num_heads), tokens), caption


def head_caption(embed_dim: int, num_heads: int, tokens: int, split: str) -> str:
    """What the size of a layer costs for so many tokens. split: one of SPLITS."""
    count = f"{tokens} token{'s' * (tokens > 1)}"
    cost = attention_cost(tokens, embed_dim, num_heads)
    return (
        f"embed_dim {embed_dim}, {num_heads} head{'s' * (num_heads > 1)} of head_dim {embed_dim // num_heads}; "
        f"{count}, {split}.\n"
        f"Parameters: {cost.parameters:,}. FLOPs for {count}: {cost.total_flops:,}. "
        f"Weights kept: {cost.softmax_elements:,} numbers, {4 * cost.softmax_elements:,} bytes in float32."
    )


def legal_heads(embed_dim: int) -> list[int]:
    """The head counts on offer that divide embed_dim."""
    return [count for count in HEAD_COUNTS if embed_dim % count == 0]


def entropy(weights: torch.Tensor) -> float:
    """The mean entropy of the rows, in bits: 0 for one key that gets everything, log2 S for equal weights."""
    return torch.special.entr(weights).sum(-1).mean().item() / math.log(2)


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
    return Explorer("Q, K, V by hand", controls, qkv_steps)


def scale_explorer() -> Explorer:
    """A slider for d_k; the weights with and without the division by √d_k."""
    slider = widgets.IntSlider(value=64, min=1, max=LARGEST_D_K, description="d_k")
    return Explorer("the scale √d_k", {"d_k": slider}, scale_steps)


def head_explorer() -> Explorer:
    """A field for a sentence, sliders for heads and dimension; a map per head and what the layer costs."""
    sentence = widgets.Text(
        value="".join(SENTENCE),
        description="sentence",
        placeholder=f"1 to {MOST_TOKENS} tokens",
        continuous_update=False,
        layout={"width": "min(100%, 640px)"},
    )
    sentence.add_class("attention-sentence")  # view.css gives it the glyphs that the reader's system may lack
    controls = {
        "sentence": sentence,
        "embed_dim": widgets.IntSlider(value=64, min=16, max=512, step=8, description="embed_dim"),
        "num_heads": number_slider("heads", legal_heads(64), 8),
    }

    def fit(embed_dim: int, num_heads: int, **_) -> dict[str, Choice]:
        legal = legal_heads(embed_dim)
        return {"num_heads": (legal, min(legal, key=lambda count: abs(count - num_heads)))}

    return Explorer("heads and dimensions", controls, head_steps, fit)


def number_slider(description: str, numbers: Sequence[int], value: int) -> widgets.SelectionSlider:
    """A slider over these numbers."""
    return widgets.SelectionSlider(options=_labelled(numbers), value=value, description=description)


def _labelled(numbers: Sequence[int]) -> tuple[tuple[str, int], ...]:
    return tuple((f"{number:,}", number) for number in numbers)


def _offer(control: widgets.SelectionSlider | widgets.IntSlider, options: Sequence[int], chosen: int) -> None:
    if isinstance(control, widgets.IntSlider):
        with control.hold_sync():
            control.max, control.value = options[-1], chosen
    elif control.options != _labelled(options):
        # Not in one message: the browser would set the handle before it knew the new range, and send a wrong end back.
        control.options = _labelled(options)  # selects the first of them
        control.value = chosen


def _vector(row: torch.Tensor) -> str:
    return ", ".join(f"{x:.4f}".replace("-0.0000", "0.0000") for x in row.tolist())
