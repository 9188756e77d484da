"""How much room the texts of a figure need. Lengths are in inches, sizes of letters in points."""

import functools
import re
from collections.abc import Iterable

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from attn_core.show import style
from attn_core.show.panels import Panel
from attn_core.show.texts import cell, shortened

AROUND = 0.38  # an axis takes it for its name, and for the space about that and about the panel
TITLE, LINE = 0.25, 0.17  # a title takes it, and each further line of one
WIDEST_NUMBER = 0.8  # wider ones would make cells, and with them the figure, too large
_PIECES = re.compile(r"[\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+|\s+")


@functools.lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    font = FontProperties(family=style.rc_params()["font.family"], size=size)
    return text_to_path.get_text_width_height_descent(text, font, False)[0] / 72


def fitted(text: str, width: float, size: float = style.LABEL_SIZE) -> str:
    """A text on one line that has lost as much of its middle as it has to."""
    text = shortened(text, style.TITLE_LETTERS)
    while len(text) > 3 and text_width(text, size) > width:
        text = shortened(text, len(text) - 1)
    return text


def wrapped(text: str, width: float, size: float = style.TITLE_SIZE) -> str:
    """A title in as many lines as it needs; Chinese may break anywhere, as in texts.js."""
    lines = [""]
    for paragraph in text.split("\n"):
        for piece in _PIECES.findall(shortened(paragraph, style.TITLE_LETTERS)):
            if lines[-1] and text_width((lines[-1] + piece).rstrip(), size) > width:
                lines.append("")
            lines[-1] += fitted(piece, width, size) if lines[-1] or piece.strip() else ""
        lines.append("")
    return "\n".join(line.rstrip() for line in lines if line)


def label(text: str) -> str:
    return shortened(text, style.LABEL_LETTERS)


def widest(labels: Iterable[str], size: float) -> float:
    return max(text_width(label(text), size) for text in labels)


def title_width(panel: Panel, wide: float, size: float) -> float:
    """What a panel of this width has for its title, which stands in the middle of its axes."""
    beside = widest(panel.row_labels, size) + AROUND if panel.kind == "map" else 0
    return (wide - beside) * (0.6 if panel.kind == "bars" else 1)


def fits_a_cell(value: float, width: float = WIDEST_NUMBER) -> bool:
    return text_width(cell(value), style.CELL_SIZE) <= width


def label_steps(panel: Panel, alone: bool) -> tuple[int, int]:
    """From label to label among columns and rows: 1 where each has one, 2 where every second has."""
    rows, columns = panel.values.shape
    width, height = panel.stretch
    most = style.LABELS_AT_MOST if alone or panel.kind == "lines" else style.LABELS_AT_MOST // 2  # maps share the width
    # The longer side of a map has room for all of them.
    share = min(1.0, columns * width / (rows * height)) if panel.kind == "map" else 1.0
    return -(-columns // max(1, round(most * share))), -(-rows // most)


def panel_room(panel: Panel, alone: bool, size: float) -> tuple[float, float]:
    """The least width and height of a map or of lines, with a title of one line.

    alone: whether the figure has no other panel. size: of the letters of labels.
    """
    rows, columns = panel.values.shape
    every_column, every_row = label_steps(panel, alone)
    left, below = widest(panel.row_labels, size), widest(panel.column_labels, size)
    line = 1.08 * size / 72
    if panel.kind == "lines":
        return left + below + 1, max(rows / every_row, columns / every_column) * line + AROUND + TITLE
    width, height = panel.stretch
    side = max(line / every_row / height, line / every_column / width)
    if max(rows, columns) <= style.NUMBERS_UP_TO:
        numbers = [text_width(cell(value), style.CELL_SIZE) for value in panel.values.flat]
        side = max(side, min(WIDEST_NUMBER, max(numbers)) * 1.1 / width, style.CELL_SIZE / 72 / height)
    return left + AROUND + columns * width * side, below + AROUND + TITLE + rows * height * side
