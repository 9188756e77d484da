"""What the heads of a trained model look at: all maps on one wall, and an explorer of one head at a time."""

import functools
from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets
import numpy as np

from attn_core.show.explorers import MOST_TOKENS, Explorer, Shown
from attn_core.show.figures import CourseFigure, new_figure
from attn_core.show.panels import as_array, line_panel, weight_panels

PICTURES = ("map", "lines")
GAP = 1  # cells between two maps of the wall

Reader = Callable[[str], tuple[Sequence[str], np.ndarray]]  # a sentence -> its tokens and weights (layers, H, L, L)


def map_wall(weights, title: str) -> CourseFigure:
    """All maps of a model for one sentence as small multiples: weights (layers, H, L, L), rows of the wall are layers.

    Raises ValueError for another number of axes or a weight that is not between 0 and 1.
    """
    weights = as_array(weights, 4)
    if not (weights.min() >= 0 and weights.max() <= 1 + 1e-6):  # NaN fails this comparison too
        raise ValueError(f"weights must lie between 0 and 1, got {weights.min():.4g} to {weights.max():.4g}")
    layers, heads, length, keys = weights.shape
    # One picture of all maps, with cells left empty between them: 72 axes would take seconds to lay out.
    padded = np.pad(weights, ((0, 0), (0, 0), (0, GAP), (0, GAP)), constant_values=np.nan)
    wall = padded.transpose(0, 2, 1, 3).reshape(layers * (length + GAP), heads * (keys + GAP))[:-GAP, :-GAP]
    tops = weights.max(-1).mean(-1)  # how much of its weight a query gives to one token, by layer and head
    layer, head = np.unravel_index(tops.argmax(), tops.shape)
    alt = (
        f"{title}: {layers * heads} small maps of {length} tokens, {layers} rows of {heads}. Rows of each are queries, "
        f"columns are keys. The sharpest is layer {layer + 1}, head {head + 1}: a query gives {tops.max():.2f} of its "
        f"weight to one token on average; the flattest gives {tops.min():.2f}."
    )
    figure, axis = new_figure(10, 0.9 + 10 * 0.88 * wall.shape[0] / wall.shape[1], alt)
    image = axis.imshow(wall, vmin=0, vmax=1, cmap="cividis", interpolation="nearest")
    axis.set_xticks(np.arange(heads) * (keys + GAP) + (keys - 1) / 2, range(1, heads + 1))
    axis.set_yticks(np.arange(layers) * (length + GAP) + (length - 1) / 2, range(1, layers + 1))
    axis.tick_params(length=0)
    axis.set(title=title, xlabel="head", ylabel="layer")
    axis.spines[:].set_visible(False)
    figure.colorbar(image, ax=axis, label="weight", shrink=0.8, ticks=[0, 0.5, 1])
    return figure


def trained_head_steps(
    layer: int, head: int, picture: str, sentence: str, *, read: Reader, scores: Mapping[tuple[int, int], str]
) -> Shown:
    """The weights of one head for a sentence, as a map or as lines. layer, head: counted from 1.

    read: gives the tokens and the weights of a sentence. scores: for each (layer, head) what the probes say of it.
    Raises ValueError for a picture that is not offered, a head that is not there, and more than MOST_TOKENS tokens.
    """
    if picture not in PICTURES:
        raise ValueError(f"picture must be one of {', '.join(PICTURES)}, got {picture!r}")
    tokens, weights = read(sentence)
    layers, heads = weights.shape[:2]
    if not (1 <= layer <= layers and 1 <= head <= heads):
        raise ValueError(f"there are layers 1 to {layers} with heads 1 to {heads}, got layer {layer}, head {head}")
    if len(tokens) > MOST_TOKENS:
        raise ValueError(
            f"the model cuts this sentence into {len(tokens)} tokens, and at most {MOST_TOKENS} can be shown"
        )
    one, title = weights[layer - 1, head - 1], f"layer {layer}, head {head}"
    if picture == "lines":
        panels = [line_panel(one, title, tokens, tokens)]
    else:
        panels = weight_panels(one[None], tokens, titles=[title])
    return panels, f"{title.capitalize()}. {scores[layer, head]}"


def trained_explorer(
    read: Reader, scores: Mapping[tuple[int, int], str], sentence: str, layer: int = 1, head: int = 1
) -> Explorer:
    """Sliders for layer and head of a trained model and a field for a sentence; its map or its lines, and its score.

    read, scores: as in `trained_head_steps`. sentence, layer, head: what is shown first.
    """
    read = functools.lru_cache(maxsize=8)(read)  # a slider moves on the same sentence
    layers, heads = read(sentence)[1].shape[:2]
    controls = {
        "layer": widgets.IntSlider(value=layer, min=1, max=layers, description="layer"),
        "head": widgets.IntSlider(value=head, min=1, max=heads, description="head"),
        "picture": widgets.SelectionSlider(options=PICTURES, value="map", description="picture"),
        "sentence": widgets.Text(
            value=sentence, description="sentence", continuous_update=False, layout={"width": "min(100%, 640px)"}
        ),
    }
    return Explorer("a trained model", controls, functools.partial(trained_head_steps, read=read, scores=scores))
