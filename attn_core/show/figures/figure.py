"""A figure of the course: it knows its text and is saved as the same bytes each time."""

import base64
import io
import os
import re
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axis import Axis
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Text
from PIL import Image

from attn_core._files import replacing
from attn_core.show import style

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

    def draw(self, renderer: RendererBase) -> None:
        _make_drawable(self)
        super().draw(renderer)

    def __repr__(self) -> str:
        return f"Figure: {self.alt}"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        with rc_context(style.rc_params()):
            data = io.BytesIO()
            _settle(self)
            self.savefig(data, format="png")
        # 256 colours, each at most a few of 255 levels off: a third of the size, so that notebooks
        # stay small.
        picture, data = Image.open(data).convert("RGB"), io.BytesIO()
        picture.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(data, "png", optimize=True)
        encoded = base64.b64encode(data.getvalue()).decode()
        return {"text/plain": repr(self), "image/png": encoded}, {"image/png": {"alt": self.alt}}


def new_figure(
    width: float, height: float, alt: str, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[CourseFigure, Any]:
    """A figure of the course, in inches, and its axes as `Figure.subplots` gives them."""
    if not alt.strip():
        raise ValueError("alt must say in a sentence what the figure shows, got an empty text")
    with rc_context(style.rc_params()):
        figure = CourseFigure(figsize=(width, height), layout="constrained", facecolor=style.PAPER, dpi=100)
        figure.alt = alt
        return figure, figure.subplots(rows, columns, **options)


def save(figure: Figure, path: str | os.PathLike) -> Path:
    """Write a figure as PNG, SVG or PDF, whichever the name ends in.

    The same figure gives the same bytes each time.

    The file appears whole or not at all. Raises ValueError for another ending.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in _FORMATS:
        raise ValueError(f"the name must end in {', '.join(_FORMATS)}, got {path.name!r}")
    with replacing(path) as part, rc_context(style.rc_params()):
        _make_drawable(figure)
        _settle(figure)
        metadata = _FORMATS[ending](getattr(figure, "alt", ""))
        figure.savefig(part, format=ending[1:], metadata=metadata, facecolor=figure.get_facecolor())
        if ending == ".svg":
            part.write_bytes(_NOT_IN_XML.sub("\ufffd", part.read_bytes().decode()).encode())
    return path


def _make_drawable(figure: Figure) -> None:
    """Texts in letters that the fonts have, also those that were written past the functions of the
    course.
    """
    for axis in figure.findobj(Axis):
        labels = [label.get_text() for label in axis.get_ticklabels()]
        if (drawable := [style.drawable(label) for label in labels]) != labels:
            axis.set_ticks(axis.get_ticklocs(), drawable)  # matplotlib writes them anew for each drawing
    for text in figure.findobj(Text):
        text.set_text(style.drawable(text.get_text()))
        if text.get_fontfamily() == ["sans-serif"]:  # nobody asked for another
            text.set_fontfamily(style.rc_params()["font.family"])


def _settle(figure: Figure) -> None:
    """Lay a figure out for good when it is first shown or saved: else each drawing would move its
    parts a little.

    Twice, since the first time the places of the axis labels are not known yet and no room is left
    for them.
    """
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        engine.execute(figure)
        figure.set_layout_engine("none")
