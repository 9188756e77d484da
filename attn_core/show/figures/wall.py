"""All maps of a model for one sentence on one wall."""

import math

import numpy as np
from matplotlib import rc_context
from numpy.typing import ArrayLike

from attn_core.show import style
from attn_core.show.figures.figure import CourseFigure, new_figure
from attn_core.show.figures.room import LINE, text_width, wrapped
from attn_core.show.panels import as_weights
from attn_core.show.texts import number

GAP = 1  # cells between two maps of the wall
WIDTH = 8.5  # inches of all maps, about


def map_wall(weights: ArrayLike, title: str) -> CourseFigure:
    """All maps of a model for one sentence as small multiples: weights (layers, H, L, L), rows of
    the wall are layers.

    Raises ValueError for another number of axes or a weight that is not between 0 and 1.
    """
    weights = as_weights(weights, ("layers", "H", "L", "L"), {3: "use head_grid for one layer"})
    layers, heads, length, keys = weights.shape
    # One picture of all maps, with empty cells between them: 72 axes would take seconds to lay out.
    padded = np.pad(weights, ((0, 0), (0, 0), (0, GAP), (0, GAP)), constant_values=np.nan)
    wall = padded.transpose(0, 2, 1, 3).reshape(layers * (length + GAP), heads * (keys + GAP))[:-GAP, :-GAP]
    tops = weights.max(-1).mean(-1)  # how much of its weight a query gives to one token, by layer and head
    layer, head = np.unravel_index(tops.argmax(), tops.shape)
    alt = (
        f"{title}: {layers * heads} small maps of {length} tokens, {layers} rows of {heads}. Rows of each are queries, "
        f"columns are keys. The sharpest is layer {layer + 1}, head {head + 1}: a query gives {number(tops.max())} of "
        f"its weight to one token on average; the flattest gives {number(tops.min())}."
    )
    title = wrapped(style.drawable(title), WIDTH)
    with rc_context(style.literal()):
        height = 0.9 + 10 * 0.88 * wall.shape[0] / wall.shape[1] + LINE * title.count("\n")
        figure, axis = new_figure(10, height, alt)
        image = axis.imshow(wall, vmin=0, vmax=1, cmap=style.ONE_SIDED, interpolation="nearest")
        every = math.ceil(heads * (text_width(str(max(heads, layers)), style.LABEL_SIZE) + 0.05) / WIDTH)
        axis.set_xticks(np.arange(0, heads, every) * (keys + GAP) + (keys - 1) / 2, range(1, heads + 1, every))
        axis.set_yticks(np.arange(0, layers, every) * (length + GAP) + (length - 1) / 2, range(1, layers + 1, every))
        axis.tick_params(length=0)
        axis.set(title=title, xlabel="head", ylabel="layer")
        axis.spines[:].set_visible(False)
        figure.colorbar(image, ax=axis, label="weight", shrink=0.8, ticks=[0, 0.5, 1])
    return figure
