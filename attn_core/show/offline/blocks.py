"""Explorers for pages without a kernel: all that a browser needs to run one, in one block of text.

Most explorers store what their function computes for every legal choice among the values on offer;
page.js chooses. Where there are too many states, a script beside the explorer computes them.
"""

import base64
import gzip
import itertools
import json
import math
from collections.abc import Hashable, Sequence
from typing import Any

import ipywidgets as widgets
import numpy as np

from attn_core.show.explorers.base import FAULT, PROBLEM, Computed, Explorer, Stored, values_of
from attn_core.show.live.view import packed
from attn_core.show.style import font_for
from attn_core.show.texts import Caption, number


class Numbered(dict[Any, int]):
    """Distinct things, each with its number in the order of their arrival."""

    def __missing__(self, thing: Hashable) -> int:
        self[thing] = len(self)
        return self[thing]


def chinese_font() -> str:
    """A script with a font of the 3755 most common Chinese characters, level 1 of GB 2312, for
    typed sentences.
    """
    rows, cells = range(0xB0, 0xD8), range(0xA1, 0xFF)
    characters = "".join(bytes([row, cell]).decode("gb2312", "ignore") for row in rows for cell in cells)
    return f'const chineseFont = "{_packed(font_for(characters))}";\n'


def block(explorer: Explorer) -> str:
    """An explorer as a block of text for page.js, with what it offers.

    Raises ValueError for an offer that never is.
    """
    offer = explorer.offline()
    controls = [_described(name, control, offer.offered.get(name)) for name, control in explorer.controls.items()]
    if isinstance(offer, Stored):
        return _stored(explorer, controls, offer)
    return _computed(explorer, controls, offer)


def _stored(explorer: Explorer, controls: list[dict], offer: Stored) -> str:
    for control in controls:
        if "values" not in control:
            raise ValueError(f"{control['argument']} takes any text: say which texts are on offer")
    # What the explorer's function refuses with a ValueError is not legal.
    panels, lists, captions, templates = Numbered(), Numbered(), Numbered(), Numbered()
    chunks: dict[bytes, int] = {}
    rows, size, shared = [], 0, set()
    for places in itertools.product(*(range(len(control["values"])) for control in controls)):
        settings = {
            control["argument"]: control["values"][place] for control, place in zip(controls, places, strict=True)
        }
        try:
            shown, caption = explorer.compute(**settings)
        except ValueError:
            continue
        row = [*places, captions[json.dumps(_described_caption(caption, templates))]]
        for panel in shown:
            (layout,), values = packed([panel])
            if values not in chunks:
                chunks[values] = size
                size += len(values) // 4
            layout["offset"] = chunks[values]
            for field in [field for field, value in layout.items() if isinstance(value, list)]:
                layout[field] = lists[json.dumps(layout[field])]
                shared.add(field)
            row.append(panels[json.dumps(layout)])
        rows.append(row)
    for k, control in enumerate(controls):
        never = set(range(len(control["values"]))) - {row[k] for row in rows}
        if never:
            value = control["values"][min(never)]
            raise ValueError(f"{control['argument']} = {value!r} is on offer and goes with no values of the others")
    names = [control["argument"] for control in controls]
    header = {
        "rows": rows,
        "listed": list(range(len(controls))),
        "stays_full": [names.index(name) for name in offer.stays_full],
        "panels": [json.loads(panel) for panel in panels],
        "lists": [json.loads(values) for values in lists],
        "shared": sorted(shared),
        "captions": [json.loads(caption) for caption in captions],
        "templates": list(templates),
    }
    return _block(explorer, controls, header, b"".join(chunks))


def _described_caption(value: Any, templates: Numbered) -> Any:
    """A caption for frames.js: the number of its template, and its values, which may be captions."""
    if isinstance(value, Caption):
        return [templates[value.template], {name: _described_caption(v, templates) for name, v in value.values.items()}]
    if isinstance(value, np.generic):
        value = value.item()
    # JavaScript would lose digits of greater whole numbers.
    return str(value) if isinstance(value, int) and abs(value) > 2**53 else value


def _computed(explorer: Explorer, controls: list[dict], offer: Computed) -> str:
    header = {
        "function": offer.function,
        "pieces": offer.pieces,
        "rows": list(offer.rows),
        "listed": [list(explorer.controls).index(name) for name in offer.listed],
        "stays_full": [],
    }
    return _block(explorer, controls, header, b"")


def _described(argument: str, control: widgets.Widget, offered: Sequence | None) -> dict:
    """A control for page.js: where it stands and what it offers."""
    if isinstance(control, widgets.Text) and offered is None:
        return {"argument": argument, "label": control.description, "kind": "text", "start": control.value}
    if offered is None:
        offered = control.options if hasattr(control, "options") else values_of(control)
    form = getattr(control, "readout_format", "")
    pairs = [option if isinstance(option, tuple) else (_option_text(option, form), option) for option in offered]
    texts, values = map(list, zip(*pairs, strict=True))
    return {
        "argument": argument,
        "label": control.description,
        "kind": "choice" if isinstance(control, (widgets.Text, widgets.Dropdown)) else "slider",
        "texts": texts,
        "values": values,
        "start": _place(argument, control.value, values),
    }


def _place(argument: str, start: Any, values: Sequence) -> int:
    for place, value in enumerate(values):
        if value == start or (isinstance(start, float) and math.isclose(value, start, abs_tol=1e-9)):
            return place
    raise ValueError(f"{argument} starts at {start!r}, which is not on offer")


def _option_text(option: str | float, form: str) -> str:
    return option if isinstance(option, str) else number(option, form)


def _block(explorer: Explorer, controls: list[dict], header: dict, values: bytes) -> str:
    view = explorer.view
    own = sorted(set(view.traits(sync=True)) - set(widgets.DOMWidget.class_trait_names()))
    kept = [name for name in own if not name.startswith("_") and not isinstance(getattr(view, name), bytes)]
    header |= {
        "problem": PROBLEM,
        "fault": FAULT,
        "name": explorer.name,
        "controls": controls,
        "traits": {name: getattr(view, name) for name in kept},
    }
    letters = set(json.dumps(header, ensure_ascii=False))
    header["glyphs"] = "".join(sorted(letter for letter in letters if letter >= "\u2e80"))
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    parts = text.encode(), font_for(text)
    return _packed(b"".join(len(part).to_bytes(4, "little") for part in parts) + b"".join(parts) + values)


def _packed(data: bytes) -> str:
    """Text that page.js unpacks. No time in it: the same data give the same text."""
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()
