"""Static figures: heatmaps on one scale, lines and bars, with named axes and a text for those who cannot see them."""

import base64
import functools
import io
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np
from fontTools import subset
from matplotlib import colormaps, font_manager, rc_context
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image

from attn_core.show.drawing import ANNOTATE_UP_TO, LABELS_AT_MOST, draw_bars, draw_lines, draw_map
from attn_core.show.panels import Panel, number, weight_panels

_FORMATS = {
    # Dates and random ids left out: the same figure gives the same bytes.
    ".png": lambda alt: {"Description": alt},
    ".svg": lambda alt: {"Description": alt, "Date": None},
    ".pdf": lambda alt: {"Subject": alt, "CreationDate": None},
}
_NOT_IN_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class CourseFigure(Figure):
    """A matplotlib figure that knows its text: `alt` says in a sentence or two what it shows.

    It is not registered with pyplot, so nothing has to be closed.
    """

    alt = ""

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"

    def _repr_mimebundle_(self, include=None, exclude=None):
        with rc_context(style()):
            data = io.BytesIO()
            _settle(self)
            self.savefig(data, format="png")
        # 256 colours, each at most a few of 255 levels off: a third of the size, so that notebooks stay small.
        picture, data = Image.open(data).convert("RGB"), io.BytesIO()
        picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(data, "png", optimize=True)
        encoded = base64.b64encode(data.getvalue()).decode()
        return {"text/plain": repr(self), "image/png": encoded}, {"image/png": {"alt": self.alt}}


def new_figure(width: float, height: float, alt: str, rows: int = 1, columns: int = 1, **options):
    """A figure of the course, in inches, and its axes as `Figure.subplots` gives them."""
    if not alt.strip():
        raise ValueError("alt must say in a sentence what the figure shows, got an empty text")
    with rc_context(style()):
        figure = CourseFigure(figsize=(width, height), layout="constrained", facecolor="white", dpi=100)
        figure.alt = alt
        return figure, figure.subplots(rows, columns, **options)


def heatmap(weights, query_tokens=None, key_tokens=None, *, title: str | None = None) -> CourseFigure:
    """One map of attention weights (L, S): rows are queries, columns are keys, colours run from 0 to 1.

    query_tokens, key_tokens: L and S tokens; numbers where not given. Numbers stand in the cells up to 8 tokens;
    past 40 tokens the labels are thinned.
    Raises ValueError where the tokens do not fit the weights, or a weight is not between 0 and 1.
    """
    weights = weights[None] if hasattr(weights, "ndim") else np.asarray(weights, dtype=float)[None]
    panels = weight_panels(weights, query_tokens, key_tokens, [title or "attention weights"])
    return panel_figure(panels)


def head_grid(weights, query_tokens=None, key_tokens=None, *, titles=None, title: str | None = None) -> CourseFigure:
    """One map per head, (H, L, S), side by side on one scale. Tokens, titles and errors as in `heatmap`."""
    return panel_figure(weight_panels(weights, query_tokens, key_tokens, titles), title=title)


def panel_figure(panels: Sequence[Panel], *, title: str | None = None, columns: int = 4) -> CourseFigure:
    """A static figure of any panels, at most `columns` of them in a row, or one where there are bars."""
    if not panels:
        raise ValueError("there must be at least one panel to draw, got none")
    bars = any(panel.kind == "bars" for panel in panels)
    columns = 1 if bars else min(columns, len(panels))
    rows = -(-len(panels) // columns)
    longest = max(max(panel.values.shape) for panel in panels)
    side = 3.4 if len(panels) == 1 else 2.6
    side += 0.04 * max(0, min(longest, LABELS_AT_MOST) - ANNOTATE_UP_TO)
    # Maps that are all wider than high need less room: beside their cells only that of title and labels.
    flat = max(map(_height_by_width, panels))
    tall = side if flat >= 1 else side * flat + 0.9 * (1 - flat)
    heights = [0.65 + 0.28 * len(p.texts) if p.texts else side for p in panels] if bars else [tall] * rows
    width, height = 8.5 if bars else side * columns + 0.9, sum(heights) + 0.4 * bool(title)
    figure, axes = new_figure(width, height, _alt(panels, title), rows, columns, squeeze=False, height_ratios=heights)
    with rc_context(style()):
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
            figure.suptitle(title)
    return figure


def save(figure: Figure, path) -> Path:
    """Write a figure as PNG, SVG or PDF, whichever the name ends in. The same figure gives the same bytes each time.

    The file appears whole or not at all. Raises ValueError for another ending.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in _FORMATS:
        raise ValueError(f"the name must end in {', '.join(_FORMATS)}, got {path.name!r}")
    part = path.with_name(path.name + ".part")
    try:
        with rc_context(style()):
            _settle(figure)
            metadata = _FORMATS[ending](getattr(figure, "alt", ""))
            figure.savefig(part, format=ending[1:], metadata=metadata, facecolor=figure.get_facecolor())
        if ending == ".svg":
            part.write_bytes(_NOT_IN_XML.sub("\ufffd", part.read_bytes().decode()).encode())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return path


def _height_by_width(panel: Panel) -> float:
    """Of the cells of a map; lines and bars take the room they are given."""
    rows, columns = panel.values.shape
    width, height = panel.stretch
    return rows * height / (columns * width) if panel.kind == "map" else 1.0


def _settle(figure: Figure) -> None:
    """Lay a figure out for good when it is first shown or saved: else each drawing would move its parts a little.

    Twice, since the first time the places of the axis labels are not known yet and no room is left for them.
    """
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        engine.execute(figure)
        figure.set_layout_engine("none")


def palette_colours(name: str) -> list[str]:
    """The 256 colours of a colour map as #rrggbb, so that the live view paints what the figures paint."""
    levels = (colormaps[name](np.arange(256))[:, :3] * 255).round().astype(int)
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in levels]


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
                f"{row} to {panel.column_labels[int(np.argmax(values))]} {values.max():.2f}"
                for row, values in zip(panel.row_labels[:6], panel.values, strict=False)
            ]
            what += "; largest weight per query: " + ", ".join(tops) + (", ..." if len(panel.row_labels) > 6 else "")
        elif panel.unit == "share":
            i, j = np.unravel_index(panel.values.argmax(), panel.values.shape)
            place = f"{panel.row_name} {panel.row_labels[i]}, {panel.column_name} {panel.column_labels[j]}"
            what += f"; the largest is {number(panel.values[i, j])}, at {place}"
        elif panel.values.size <= 16:
            what += "; rows " + ", ".join("[" + " ".join(map(number, row)) + "]" for row in panel.values)
        parts.append(what + ".")
    if len(panels) > 8:
        parts.append(f"And {len(panels) - 8} more.")
    return " ".join(filter(None, parts))


def font_for(text: str) -> bytes:
    """A small font with the characters of a text that common Latin fonts lack, such as 猫; empty where there are none.

    The live view sends it to the browser, which may not have a Chinese font.
    """
    return _font_with("".join(sorted({character for character in text if ord(character) >= 0x2E80})))


@functools.lru_cache(maxsize=64)
def _font_with(characters: str) -> bytes:
    if not characters:
        return b""
    options = subset.Options(layout_features=[], name_IDs=[], hinting=False)
    font = subset.load_font(_chinese_font(), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(text=characters)
    subsetter.subset(font)
    data = io.BytesIO()
    font.save(data)
    return data.getvalue()


def _chinese_font() -> str:
    return str(resources.files("pylopdf_fonts_zh_cn") / "NotoSansSC-Regular.otf")


_styles: dict = {}


def style() -> dict:
    """rcParams of every figure, for `matplotlib.rc_context`; the first call registers the Chinese font."""
    if not _styles:
        font_manager.fontManager.addfont(_chinese_font())
        name = font_manager.FontProperties(fname=_chinese_font()).get_name()
        # DejaVu first: the Chinese font lacks some Greek letters and signs.
        _styles.update({"font.family": ["DejaVu Sans", name], "svg.hashsalt": "attn_core", "axes.titlesize": 11})
    return _styles
