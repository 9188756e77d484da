"""Panels as static figures: maps on one scale, lines and bars, with a text that says what is shown."""

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from numpy.typing import ArrayLike

from attn_core.show import style
from attn_core.show.figures.drawing import draw_bars, draw_lines, draw_map
from attn_core.show.figures.figure import CourseFigure, new_figure
from attn_core.show.panels import Panel, Tokens, as_weights, weight_panels
from attn_core.show.texts import cell

# Inches: a letter of a label, a line of labels, and the least side of a cell with a number.
LETTER, LINE, CELL = 0.085, 0.15, 0.36
LISTS = ("row_labels", "column_labels", "texts")


def heatmap(
    weights: ArrayLike, query_tokens: Tokens = None, key_tokens: Tokens = None, *, title: str | None = None
) -> CourseFigure:
    """One map of attention weights (L, S): rows are queries, columns are keys, on a scale of 0 to 1.

    query_tokens, key_tokens: L and S tokens; numbers where not given. Numbers stand in the cells up
    to 8 tokens; past 40 tokens the labels are thinned.
    Raises ValueError where the tokens do not fit the weights, or a weight is not between 0 and 1.
    """
    hints = {3: "use head_grid for several maps", 4: "use head_grid(weights[0]) for the first of a batch"}
    one = as_weights(weights, ("L", "S"), hints)
    return panel_figure(weight_panels(one[None], query_tokens, key_tokens, [title or "attention weights"]))


def head_grid(
    weights: ArrayLike,
    query_tokens: Tokens = None,
    key_tokens: Tokens = None,
    *,
    titles: Sequence[str] | None = None,
    title: str | None = None,
) -> CourseFigure:
    """One map per head, (H, L, S), side by side on one scale.

    Tokens, titles and errors as in `heatmap`.
    """
    return panel_figure(weight_panels(weights, query_tokens, key_tokens, titles), title=title)


def panel_figure(panels: Sequence[Panel], *, title: str | None = None, columns: int = 4) -> CourseFigure:
    """A static figure of any panels, at most `columns` in a row, or one where there are bars."""
    if not panels:
        raise ValueError("there must be at least one panel to draw, got none")
    bars = any(panel.kind == "bars" for panel in panels)
    columns = 1 if bars else min(columns, len(panels))
    rows = -(-len(panels) // columns)
    alt = _alt(panels, title)
    panels = [_drawable(panel) for panel in panels]
    side = max(map(_side, panels)) if len(panels) > 1 else max(3.4, _side(panels[0]))
    # Maps that are all wider than high need less room: beside cells only that of title and labels.
    flat = max(map(_height_by_width, panels))
    tall = side if flat >= 1 else side * flat + 0.9 * (1 - flat)
    heights = [0.65 + 0.28 * len(p.texts) if p.texts else side for p in panels] if bars else [tall] * rows
    width, height = 8.5 if bars else side * columns + 0.9, sum(heights) + 0.4 * bool(title)
    with rc_context(style.literal()):
        figure, axes = new_figure(width, height, alt, rows, columns, squeeze=False, height_ratios=heights)
        for axis, panel in zip(axes.flat, panels, strict=False):
            if panel.kind == "map":
                draw_map(axis, panel, alone=len(panels) == 1)
            else:
                {"bars": draw_bars, "lines": draw_lines}[panel.kind](axis, panel)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        units = {panel.unit if panel.kind == "map" else None for panel in panels}
        if units in ({"weight"}, {"share"}):
            figure.colorbar(axes.flat[0].collections[0], ax=axes, label=units.pop(), shrink=0.8, ticks=[0, 0.5, 1])
        if title:
            figure.suptitle(_lines(style.drawable(title), width))
    return figure


def _drawable(panel: Panel) -> Panel:
    """A panel with texts that the fonts have, and a title of lines that do not reach into its neighbours."""
    changed: dict[str, Any] = {name: tuple(map(style.drawable, getattr(panel, name))) for name in LISTS}
    changed |= {name: style.drawable(getattr(panel, name)) for name in ("row_name", "column_name")}
    changed["title"] = _lines(style.drawable(panel.title), _side(panel))
    return panel._replace(**changed)


def _lines(title: str, width: float) -> str:
    return textwrap.fill(title, max(12, int(width / LETTER)))


def _side(panel: Panel) -> float:
    """Inches of the side of a panel's place, in which its cells have room for their numbers and labels are apart."""
    longest = max(panel.values.shape)
    letters = [min(style.LABEL_LETTERS, len(label)) for label in (*panel.row_labels, *panel.column_labels)]
    least = CELL if longest <= style.NUMBERS_UP_TO else LINE * min(1, style.LABELS_AT_MOST / longest)
    usual = 2.6 + 0.04 * max(0, min(longest, style.LABELS_AT_MOST) - style.NUMBERS_UP_TO)
    return max(usual, 0.8 + LETTER * max(letters) + least * longest) if panel.kind == "map" else usual


def _height_by_width(panel: Panel) -> float:
    """Of the cells of a map; lines and bars take the room they are given."""
    rows, columns = panel.values.shape
    width, height = panel.stretch
    return rows * height / (columns * width) if panel.kind == "map" else 1.0


def _alt(panels: Sequence[Panel], title: str | None) -> str:
    several_maps = len(panels) > 1 and all(panel.kind == "map" for panel in panels)
    parts = [f"{title}." if title else "", f"{len(panels)} heatmaps." if several_maps else ""]
    for panel in panels[:8]:
        if panel.kind == "bars":
            bars = (f"{label}: {text}" for label, text in zip(panel.row_labels, panel.texts, strict=True))
            parts.append(f"{panel.title}: bars; {'; '.join(bars)}.")
            continue
        if panel.kind == "lines":
            what = (
                f"{panel.title}: lines from each {panel.row_name} on the left to each {panel.column_name} on the right"
            )
        else:
            what = f"{panel.title}: rows are {panel.row_name}, columns are {panel.column_name}"
        if panel.unit == "weight":
            tops = [
                f"{row} to {panel.column_labels[int(np.argmax(values))]} {cell(values.max())}"
                for row, values in zip(panel.row_labels[:6], panel.values, strict=False)
            ]
            what += "; largest weight per query: " + ", ".join(tops) + (", ..." if len(panel.row_labels) > 6 else "")
        elif panel.unit == "share":
            i, j = np.unravel_index(panel.values.argmax(), panel.values.shape)
            place = f"{panel.row_name} {panel.row_labels[i]}, {panel.column_name} {panel.column_labels[j]}"
            what += f"; the largest is {cell(panel.values[i, j])}, at {place}"
        elif panel.values.size <= 16:
            what += "; rows " + ", ".join("[" + " ".join(map(cell, row)) + "]" for row in panel.values)
        parts.append(what + ".")
    if len(panels) > 8:
        parts.append(f"And {len(panels) - 8} more.")
    return " ".join(filter(None, parts))
