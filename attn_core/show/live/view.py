"""The live view: one anywidget that draws panels on canvases, with its numbers under pointer and
arrow keys.
"""

from collections.abc import Sequence
from typing import Any

import anywidget
import numpy as np
import traitlets

from attn_core.show import style
from attn_core.show.figures.pictures import panel_figure
from attn_core.show.panels import Panel
from attn_core.show.scripts import view_script, view_style

MimeBundle = tuple[dict[str, Any], dict[str, Any]]  # data and metadata by their kind


class AttentionView(anywidget.AnyWidget):
    """One or many matrices or groups of bars, drawn live.

    panels: what it shows; assign a new list to redraw.
    caption: a sentence or two below the maps. problem: an error as a sentence, empty where there is
    none.
    name: what the files are called that the reader saves; the beginning of the caption where it is
    empty.

    Colours are those of the static figures until the reader chooses others; the text follows the
    light or dark theme of the page. On a page without a kernel its PNG stands in its place.
    """

    _esm = view_script()
    _css = view_style()

    values = traitlets.Bytes(b"").tag(sync=True)
    panel_layout: traitlets.List = traitlets.List([]).tag(sync=True)
    palettes = traitlets.Dict({}).tag(sync=True)
    font = traitlets.Bytes(b"").tag(sync=True)
    caption = traitlets.Unicode("").tag(sync=True)
    problem = traitlets.Unicode("").tag(sync=True)
    name = traitlets.Unicode("").tag(sync=True)

    def __init__(self, panels: Sequence[Panel], caption: str = "", name: str = "") -> None:
        super().__init__(
            palettes={palette: style.palette_colours(palette) for palette in style.PALETTES}, caption=caption, name=name
        )
        self.panels = panels

    @property
    def panels(self) -> list[Panel]:
        return self._panels

    @panels.setter
    def panels(self, panels: Sequence[Panel]) -> None:
        panels = list(panels)
        if not panels:
            raise ValueError("there must be at least one panel to show, got none")
        layout, values = packed(panels)
        labels = "".join(
            "".join((*p.row_labels, *p.column_labels, *p.texts, p.title, p.row_name, p.column_name)) for p in panels
        )
        self._panels = panels
        # All in one message: the browser never sees values of one step with the layout of another.
        with self.hold_sync():
            self.font = style.font_for(labels)
            self.panel_layout = layout
            self.values = values

    def __repr__(self) -> str:
        return f"AttentionView: {self.caption or ', '.join(panel.title for panel in self._panels)}"

    def _repr_mimebundle_(self, **options: Any) -> MimeBundle:
        return with_picture(self, super()._repr_mimebundle_(**options), self)


def packed(panels: Sequence[Panel]) -> tuple[list[dict], bytes]:
    """Panels as view.js takes them: a layout per panel, and all values as float32 in one piece,
    each at its offset.
    """
    layout, offset = [], 0
    for panel in panels:
        rows, columns = panel.values.shape
        low, high = panel.limits
        layout.append(
            {
                "kind": panel.kind,
                "title": panel.title,
                "rows": rows,
                "columns": columns,
                "offset": offset,
                "row_labels": list(panel.row_labels),
                "column_labels": list(panel.column_labels),
                "row_name": panel.row_name,
                "column_name": panel.column_name,
                "unit": panel.unit,
                "low": low,
                "high": high,
                "palette": panel.palette,
                "stretch": list(panel.stretch),
                "texts": list(panel.texts),
            }
        )
        offset += rows * columns
    return layout, np.concatenate([panel.values.ravel() for panel in panels]).astype("<f4").tobytes()


def with_picture(widget: object, bundle: Any, view: AttentionView) -> MimeBundle:
    """A widget's mimebundle with its whole text and the PNG of its view beside it, for pages that
    have no kernel.
    """
    data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
    picture, picture_metadata = panel_figure(view.panels)._repr_mimebundle_()
    data = {**data, "text/plain": repr(widget), "image/png": picture["image/png"]}
    return data, {**metadata, **picture_metadata}
