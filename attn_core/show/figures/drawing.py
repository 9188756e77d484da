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
from attn_core.show.figures.room import fits_a_cell, fitted, label, label_steps, title_width, widest
from attn_core.show.panels import Panel
from attn_core.show.texts import cell, shortened


def draw_map(axis: Axes, panel: Panel, alone: bool, size: float, room: tuple[float, float]) -> None:
    """alone: whether the figure has no other panel. size: of the letters of labels. room: width and height for all."""
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
    every_column, every_row = label_steps(panel, alone)
    letters = max(map(len, panel.column_labels))
    place = title_width(panel, room[0], size) / columns * every_column
    upright = letters > 3 or letters * columns > 24 or widest(panel.column_labels, size) > place
    _label(axis.xaxis, panel.column_labels, every_column, size, rotation=90 if upright else 0)
    _label(axis.yaxis, panel.row_labels, every_row, size)
    # Not all of the room: the middle of the map is not that of the panel.
    x_name, y_name = fitted(panel.column_name, 0.75 * room[0]), fitted(panel.row_name, 0.75 * room[1])
    axis.set(title=panel.title, xlabel=x_name, ylabel=y_name)


def draw_bars(axis: Axes, panel: Panel) -> None:
    shares = panel.values[:, 0] / panel.limits[1]
    places = range(len(shares))
    axis.barh(places, shares, color=style.ACCENT, height=0.7)
    axis.set_yticks(places, [shortened(text, style.BAR_LETTERS) for text in panel.row_labels])
    axis.set(title=panel.title, xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0%", "50%", "100%"])
    axis.invert_yaxis()  # the first part at the top
    axis.tick_params(axis="y", length=0)
    for place, text in zip(places, panel.texts, strict=True):
        axis.text(1.02, place, shortened(text, style.BAR_LETTERS), va="center")


def draw_lines(axis: Axes, panel: Panel, size: float, wide: float) -> None:
    rows, columns = panel.values.shape
    lines = [(i, j, min(weight, 1)) for (i, j), weight in np.ndenumerate(panel.values) if weight >= style.FAINTEST]
    ends = [((0, query + 0.5), (1, key + 0.5)) for query, key, _ in lines]
    colours = [to_rgba(style.ACCENT, weight) for *_, weight in lines]
    widths = [0.75 + 1.5 * weight for *_, weight in lines]
    if lines:  # matplotlib cannot measure a drawing of no lines
        axis.add_collection(LineCollection(ends, colors=colours, linewidths=widths))
    names = fitted(f"{panel.row_name} → {panel.column_name}", wide)
    axis.set(title=panel.title, xlabel=names, xticks=[], xlim=(0, 1))
    axis.set_ylim(max(rows, columns), 0)  # the first tokens at the top
    axis.spines[:].set_visible(False)
    every_key, every_query = label_steps(panel, alone=True)
    _label(axis.yaxis, panel.row_labels, every_query, size)
    keys = axis.secondary_yaxis("right")
    keys.spines[:].set_visible(False)
    _label(keys.yaxis, panel.column_labels, every_key, size)


def _annotate(axis: Axes, panel: Panel) -> None:
    low, high = panel.limits
    colours = colormaps[panel.palette]
    for (i, j), value in np.ndenumerate(panel.values):
        if not fits_a_cell(value):
            continue
        background = colours((value - low) / (high - low)) if np.isfinite(value) else to_rgba(style.HIDDEN)
        colour = style.LIGHT_TEXT if style.is_dark(background) else style.DARK_TEXT
        place = (j + 0.5, i + 0.5)
        axis.text(*place, cell(value), ha="center", va="center", fontsize=style.CELL_SIZE, color=colour)


def _label(axis: Axis, labels: Sequence[str], step: int, size: float, rotation: float = 0) -> None:
    # Positions and texts together: repeated tokens keep a place each.
    places = range(0, len(labels), step)
    axis.set_ticks([place + 0.5 for place in places], [label(labels[i]) for i in places], rotation=rotation)
    axis.set_tick_params(length=0, labelsize=size)
