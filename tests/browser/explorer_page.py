"""Explorers on a page: what their controls say, what the view drew, and whether that is what Python computes."""

import inspect
import time
from collections.abc import Callable
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
from playwright.sync_api import Locator, Page

from attn_core.show import Explorer
from attn_core.show.explorers import exported
from attn_core.show.explorers.base import values_of

NOTEBOOK = "explorers.ipynb"
SECONDS_TO_FOLLOW = 15
SAID = """(box) => {
    const view = box.querySelector(".attention-view");
    const controls = {};
    for (const control of view.closest(".widget-vbox").children) {
        if (control.contains(view)) continue;
        const field = control.querySelector("input");
        controls[control.querySelector(".widget-label").textContent] =
            field ? field.value : control.querySelector(".widget-readout").textContent;
    }
    const text = (name) => view.querySelector(name).textContent;
    return { controls, frame: Number(view.dataset.frame), caption: text(".caption"), problem: text(".problem") };
}"""
DRAWN = """(box) => (box.querySelector(".attention-view").drawn || []).map((panel) =>
    ({ ...panel, values: Array.from(panel.values) }))"""
SHOWN = f"(box) => ({{ ...({SAID})(box), drawn: ({DRAWN})(box) }})"
# The colour near a corner of each cell, away from the number in its middle.
CORNERS = """(box) => {
    const view = box.querySelector(".attention-view");
    return [...view.querySelectorAll("canvas")].map((canvas, index) => {
        const { rows, columns, cell, origin } = view.drawn[index];
        const scale = canvas.width / canvas.getBoundingClientRect().width;
        const { data, width } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const at = (x, y) => Array.from(data.subarray(4 * (y * width + x), 4 * (y * width + x) + 3));
        const place = (axis, i) => Math.floor(scale * (origin[axis] + (i + 0.2) * cell[axis]));
        return Array.from({ length: rows * columns }, (_, i) =>
            at(place(0, i % columns), place(1, Math.floor(i / columns))));
    });
}"""
RUN_CELL = """(place) => {
    document.activeElement.blur();
    jupyterapp.shell.currentWidget.content.activeCellIndex = place;
    return jupyterapp.commands.execute("notebook:run-cell");
}"""


def stand_in(sentence):
    """Tokens and weights (2, 3, L, L) as from a trained model, which would take too long to load."""
    tokens = sentence.split()
    place = np.arange(len(tokens))
    distance = np.abs(place[:, None] - place)[None, None]
    layer, head = np.ogrid[1:3, 1:4]
    weights = np.exp(-(distance + place) / (layer * head)[..., None, None])
    return tokens, weights / weights.sum(-1, keepdims=True)


def stand_in_next(language, text, temperature, top_k):
    """As from a language model of 30 letters: probabilities, letters, tokens, and even weights."""
    tokens, letters = [language, *text], [chr(ord("a") + i) for i in range(30)]
    logits = np.cos(np.arange(30) + len(tokens) + len(language))
    logits[np.argsort(-logits)[top_k:]] = -np.inf
    shares, weights = np.exp(logits / temperature), np.tril(np.ones((len(tokens), len(tokens))))
    return shares / shares.sum(), letters, tokens, weights / weights.sum(-1, keepdims=True)


SCORES = {(layer, head): f"It says {layer} and {head}." for layer in (1, 2) for head in (1, 2, 3)}


class Case(NamedTuple):
    """cell: what makes the explorer in the notebook. make: the same in this process."""

    cell: str
    make: Callable[[], Explorer]


# What explorers that cannot be called without arguments are called with.
ARGUMENTS = {
    "trained_explorer": 'stand_in, SCORES, "the cat sat on the mat"',
    "next_token_explorer": 'stand_in_next, ("en", "fin"), 30, "en", "cat"',
}


def case(name: str) -> Case:
    call = f"{name}({ARGUMENTS.get(name, '')})"
    return Case(call, lambda: eval(call, globals() | exported()))


CASES = {name: case(name) for name in exported()}
FIRST_CELL = f"""
import numpy as np
from attn_core.show import *

SCORES = {SCORES}

{inspect.getsource(stand_in)}

{inspect.getsource(stand_in_next)}"""
CELLS = [FIRST_CELL, *(case.cell for case in CASES.values())]


def output_of(page: Page, name: str) -> Locator:
    """The output area with the explorer of this name."""
    cell = page.locator(".jp-CodeCell").nth(1 + list(CASES).index(name))
    return cell.locator(".jp-OutputArea-output:has(.attention-view:not([data-old]))")


def fresh(page: Page, name: str) -> Locator:
    """Run the cell of an explorer again, so that it stands as at the start, and wait for its first picture."""
    box = output_of(page, name)
    for view in box.locator(".attention-view").all():
        view.evaluate("(view) => { view.dataset.old = true; }")
    page.evaluate(RUN_CELL, 1 + list(CASES).index(name))
    box.wait_for()
    # JupyterLab gives the focus to the cell that was run; whoever focused something before that would lose it.
    page.wait_for_function("document.activeElement.matches('.jp-Cell.jp-mod-active')")
    wait_until_right(box, name)
    return box


def control_on_page(box: Locator, explorer: Explorer, argument: str) -> Locator:
    """The control that feeds an argument, with its label."""
    return box.locator(".widget-vbox > *").nth(list(explorer.controls).index(argument))


def settings_shown(explorer: Explorer, said: dict[str, str]) -> dict:
    """The arguments of the function behind an explorer, from what its controls say on the page."""
    return {argument: value_said(control, said[control.description]) for argument, control in explorer.controls.items()}


def value_said(control: widgets.Widget, text: str):
    if isinstance(control, widgets.SelectionSlider):
        by_label = dict(zip(map(str, control._options_labels), values_of(control), strict=True))
        return by_label[text] if text in by_label else int(text.replace(",", ""))
    if isinstance(control, widgets.FloatSlider):
        return float(text.replace("−", "-"))
    return int(text) if isinstance(control, widgets.IntSlider) else text


def difference(shown: dict, panels, caption: str) -> str:
    """What the view shows otherwise than the function gave it; nothing where they agree."""
    if shown["caption"] != caption:
        return f"the caption is {shown['caption']!r}, not {caption!r}"
    if shown["problem"]:
        return f"it says {shown['problem']!r}"
    titles = [panel["title"] for panel in shown["drawn"]]
    if titles != [panel.title for panel in panels]:
        return f"the panels are {titles}, not {[panel.title for panel in panels]}"
    for drawn, panel in zip(shown["drawn"], panels, strict=True):
        expected = {
            "kind": panel.kind,
            "rows": panel.values.shape[0],
            "columns": panel.values.shape[1],
            "rowLabels": list(panel.row_labels),
            "columnLabels": list(panel.column_labels),
        }
        wrong = {name: drawn[name] for name, value in expected.items() if drawn[name] != value}
        if wrong:
            return f"{panel.title}: drawn with {wrong}"
        numbers = [*panel.limits, *panel.values.ravel()]
        there = [drawn["low"], drawn["high"], *drawn["values"]]
        if not np.allclose(np.float32(there), np.float32(numbers), rtol=1e-6, atol=1e-6):
            return f"{panel.title}: drawn with the scale and values {there[:8]}, not {numbers[:8]}"
    return ""


def wait_until_right(box: Locator, name: str, arrived=lambda settings: True) -> tuple[dict, dict]:
    """Wait until the view shows what Python computes for the settings that the page says, and `arrived` holds for them.

    Returns what the page shows and those settings. Fails with the last difference.
    """
    explorer = CASES[name].make()
    deadline = time.monotonic() + SECONDS_TO_FOLLOW
    last = None
    while True:
        shown = box.evaluate(SAID)
        try:
            settings = settings_shown(explorer, shown["controls"])
            wrong = "" if arrived(settings) else f"it stays at {settings}"
            if not wrong:
                if settings != last:
                    last, (panels, caption) = settings, explorer.compute(**settings)
                wrong = f"the caption is {shown['caption']!r}" if shown["caption"] != caption else ""
            if not wrong:  # all numbers only once they can be right: there may be thousands
                shown = box.evaluate(SHOWN)
                wrong = difference(shown, panels, caption)
        except ValueError as error:  # one control has moved, one that has to follow has not yet
            wrong = f"its controls say {shown['controls']}: {error}"
        if not wrong:
            return shown, settings
        assert time.monotonic() < deadline, f"{name}: {wrong}"
        time.sleep(0.02)
