"""Tables: rows as HTML where JupyterLab, a page or a slide shows it, with the same cells as a text beside it."""

import html
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import pandas as pd
from IPython.display import display
from tabulate import tabulate

from attn_core.show.texts import MINUS, number

WIDEST = 40  # letters of a cell of the text, before it goes on in the next line; on a page the browser breaks lines


def show_table(rows: pd.DataFrame | Sequence[Mapping[str, Any]], form: str = ".4f", title: str = "") -> None:
    """Show rows, a frame or dicts with the same keys, below a title.

    form: of numbers that are not whole, and of estimates, as for `number`; whole ones get commas. Where a number is
    missing, the cell is empty. A frame whose index has a name shows it as its first columns.
    """
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    columns = [frame.iloc[:, place].tolist() for place in range(frame.shape[1])]
    sides = ["left" if any(isinstance(value, bool | str) for value in column) else "right" for column in columns]
    cells = [[_written(value, form) for value in row] for row in zip(*columns, strict=True)]
    show_cells([_written(name, form) for name in frame.columns], cells, sides, title)


def show_cells(
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    sides: Sequence[str],
    title: str = "",
    stripes: Mapping[str, str] = {},
) -> None:
    """Show texts as a table.

    sides: of each column, "left" or "right", where its texts stand. stripes: for some texts the colour of a stripe
    before them.
    """
    broken = [["\n".join(textwrap.wrap(text, WIDEST)) for text in row] for row in cells]
    text = tabulate(broken, names, "simple", colalign=sides, disable_numparse=True)
    text = re.sub(" +$", "", f"{title}\n{text}" if title else text, flags=re.MULTILINE)
    display({"text/plain": text, "text/html": _markup(names, cells, sides, title, stripes)}, raw=True)


def _markup(
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    sides: Sequence[str],
    title: str,
    stripes: Mapping[str, str],
) -> str:
    def line(kind: str, texts: Sequence[str]) -> str:
        return f"<tr>{''.join(cell(kind, text, side) for text, side in zip(texts, sides, strict=True))}</tr>"

    def cell(kind: str, text: str, side: str) -> str:
        stripe = f"; border-left: 0.5em solid {stripes[text]}" if text in stripes else ""
        return f'<{kind} style="text-align: {side}{stripe}">{html.escape(text)}</{kind}>'

    caption = f"<caption>{html.escape(title)}</caption>\n" if title else ""
    body = "\n".join(line("td", row) for row in cells)
    return f"<table>\n{caption}<thead>{line('th', names)}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _written(value: Any, form: str) -> str:
    if value is None or value is pd.NA or (isinstance(value, Real) and math.isnan(value)):
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, Integral):
        return number(int(value), ",")
    return number(float(value), form) if isinstance(value, Real) else format(value, form).replace("-", MINUS)
