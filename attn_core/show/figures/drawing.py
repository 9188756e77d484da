"""Panels on the axes of a figure: the same pictures as drawing.js makes of them in the live view."""

from collections.abc import Sequence

import numpy as np
import seaborn
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from attn_core.show import style
from attn_core.show.panels import Panel
from attn_core.show.texts import cell, shortened


def draw_map(axis: Axes, panel: Panel, alone: bool) -> None:
    low, high = panel.limits
    rows, columns = panel.values.shape
    seaborn.heatmap(
        panel.values,
        ax=axis,
        mask=~np.isfinite(panel.values),
        vmin=low,
        vmax=high,
        cmap=panel.palette,
        cbar=False,
        square=True,
        linewidths=0.5 if max(rows, columns) <= style.LABELS_AT_MOST else 0,
        linecolor=style.PAPER,
        xticklabels=False,  # seaborn draws the whole figure once per panel to place labels; set below instead
        yticklabels=False,
    )
    width, height = panel.stretch
    axis.set_aspect(height / width)
    axis.set_facecolor(style.HIDDEN)  # what a mask hides
    if max(rows, columns) <= style.NUMBERS_UP_TO:
        _annotate(axis, panel)
    widest = max(map(len, panel.column_labels))
    most = style.LABELS_AT_MOST if alone else style.LABELS_AT_MOST // 2  # several maps share the width
    room = min(1.0, columns * width / (rows * height))  # the longer side has room for all of them
    most_columns = max(1, round(most * room))
    _label(axis.xaxis, panel.column_labels, most_columns, rotation=90 if widest > 3 or widest * columns > 24 else 0)
    _label(axis.yaxis, panel.row_labels, most, rotation=0)
    axis.set(title=panel.title, xlabel=panel.column_name, ylabel=panel.row_name)


def draw_bars(axis: Axes, panel: Panel) -> None:
    shares = panel.values[:, 0] / panel.limits[1]
    places = range(len(shares))
    axis.barh(places, shares, color=style.ACCENT, height=0.7)
    axis.set_yticks(places, panel.row_labels)
    axis.set(title=panel.title, xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0%", "50%", "100%"])
    axis.invert_yaxis()  # the first part at the top
    axis.tick_params(axis="y", length=0)
    for place, text in zip(places, panel.texts, strict=True):
        axis.text(1.02, place, text, va="center")


def draw_lines(axis: Axes, panel: Panel) -> None:
    rows, columns = panel.values.shape
    lines = [(i, j, min(weight, 1)) for (i, j), weight in np.ndenumerate(panel.values) if weight >= style.FAINTEST]
    ends = [((0, query + 0.5), (1, key + 0.5)) for query, key, _ in lines]
    colours = [to_rgba(style.ACCENT, weight) for *_, weight in lines]
    widths = [0.75 + 1.5 * weight for *_, weight in lines]
    if lines:  # matplotlib cannot measure a drawing of no lines
        axis.add_collection(LineCollection(ends, colors=colours, linewidths=widths))
    axis.set(title=panel.title, xlabel=f"{panel.row_name} → {panel.column_name}", xticks=[], xlim=(0, 1))
    axis.set_ylim(max(rows, columns), 0)  # the first tokens at the top
    axis.spines[:].set_visible(False)
    _label(axis.yaxis, panel.row_labels, style.LABELS_AT_MOST, rotation=0)
    keys = axis.secondary_yaxis("right")
    keys.spines[:].set_visible(False)
    _label(keys.yaxis, panel.column_labels, style.LABELS_AT_MOST, rotation=0)
    if max(rows, columns) > style.LABELS_AT_MOST // 2:
        axis.tick_params(axis="y", labelsize=style.SMALL_SIZE)
        keys.tick_params(axis="y", labelsize=style.SMALL_SIZE)


def _annotate(axis: Axes, panel: Panel) -> None:
    low, high = panel.limits
    colours = colormaps[panel.palette]
    for (i, j), value in np.ndenumerate(panel.values):
        background = colours((value - low) / (high - low)) if np.isfinite(value) else to_rgba(style.HIDDEN)
        colour = style.LIGHT_TEXT if style.is_dark(background) else style.DARK_TEXT
        place = (j + 0.5, i + 0.5)
        axis.text(*place, cell(value), ha="center", va="center", fontsize=style.CELL_SIZE, color=colour)


def _label(axis: Axis, labels: Sequence[str], most: int, rotation: float) -> None:
    step = -(-len(labels) // most)
    # Positions and texts together: repeated tokens keep a place each.
    places = range(0, len(labels), step)
    texts = [shortened(labels[i], style.LABEL_LETTERS) for i in places]
    axis.set_ticks([place + 0.5 for place in places], texts, rotation=rotation)
    axis.set_tick_params(length=0)
