"""Panels as static figures: maps on one scale, lines and bars, with a text that says what is shown."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from numpy.typing import ArrayLike

from attn_core.show import style
from attn_core.show.figures.drawing import draw_bars, draw_lines, draw_map
from attn_core.show.figures.figure import CourseFigure, new_figure
from attn_core.show.figures.room import LINE, panel_room, title_width, wrapped
from attn_core.show.panels import Panel, Tokens, as_weights, weight_panels
from attn_core.show.texts import cell

LISTS, NAMES = ("row_labels", "column_labels", "texts"), ("title", "row_name", "column_name")  # texts of a panel


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
    alt, alone = _alt(panels, title), len(panels) == 1
    panels = [_drawable(panel) for panel in panels]
    bars = any(panel.kind == "bars" for panel in panels)
    columns = 1 if bars else min(columns, len(panels))
    longest = max(max(panel.values.shape) for panel in panels)
    side = 3.4 if alone else 2.6
    side += 0.04 * max(0, min(longest, style.LABELS_AT_MOST) - style.NUMBERS_UP_TO)
    # Maps that are all wider than high need less room: beside cells only that of title and labels.
    flat = max(map(_height_by_width, panels))
    tall = side if flat >= 1 else side * flat + 0.9 * (1 - flat)
    for size in (style.LABEL_SIZE, style.SMALL_SIZE):  # smaller letters before a larger figure
        rooms = [panel_room(panel, alone, size) for panel in panels if panel.kind != "bars"]
        wide, high = max([(side, 0.0), *rooms])[0], max(room[1] for room in [(0.0, tall), *rooms])
        if wide <= side and high <= tall:
            break
    columns = max(1, round(columns * side / wide))  # and fewer panels in a row before a much wider one
    rows = -(-len(panels) // columns)
    wide = max(8.5, wide) if bars else wide
    panels = [panel._replace(title=wrapped(panel.title, title_width(panel, wide, size))) for panel in panels]
    high += LINE * max(panel.title.count("\n") for panel in panels)
    heights = [0.65 + 0.28 * len(p.texts) if p.texts else high for p in panels] if bars else [high] * rows
    width = wide if bars else wide * columns + 0.9
    title = wrapped(style.drawable(title or ""), width, style.SUPTITLE_SIZE)
    height = sum(heights) + (0.4 + LINE * title.count("\n")) * bool(title)
    with rc_context(style.literal()):
        figure, axes = new_figure(width, height, alt, rows, columns, squeeze=False, height_ratios=heights)
        for axis, panel in zip(axes.flat, panels, strict=False):
            if panel.kind == "map":
                draw_map(axis, panel, alone, size, (wide, high))
            elif panel.kind == "lines":
                draw_lines(axis, panel, size, wide)
            else:
                draw_bars(axis, panel)
        for axis in axes.flat[len(panels) :]:
            axis.set_axis_off()
        units = {panel.unit if panel.kind == "map" else None for panel in panels}
        if units in ({"weight"}, {"share"}):
            figure.colorbar(axes.flat[0].collections[0], ax=axes, label=units.pop(), shrink=0.8, ticks=[0, 0.5, 1])
        if title:
            figure.suptitle(title)
    return figure


def _drawable(panel: Panel) -> Panel:
    """A panel with texts that the fonts have."""
    changed: dict[str, Any] = {name: tuple(map(style.drawable, getattr(panel, name))) for name in LISTS}
    changed |= {name: style.drawable(getattr(panel, name)) for name in NAMES}
    return panel._replace(**changed)


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
