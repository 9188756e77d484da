"""Pages that `make site` and `make slides` make: made once, put where paths are difficult, and what they show."""

import os
from pathlib import Path

from page_tools import TOOLS
from playwright.sync_api import Locator, Page

from attn_core.lab.trained.pretrained import pretrained_problem

INSIDE = "06_inside_a_trained_model"  # its explorer needs the trained model, which may be missing outside CI
WITHOUT = INSIDE if pretrained_problem() and not os.environ.get("CI") else ""
NOTEBOOKS = [path for path in sorted((TOOLS.parent / "notebooks").glob("*.ipynb")) if path.stem != WITHOUT]
SHOWN = """(place) => {
    const view = place.querySelector(".attention-view");
    const drawn = view.drawn.map((panel) => ({ ...panel, values: Array.from(panel.values) }));
    const text = (name) => view.querySelector(name).textContent;
    const fields = [...place.querySelectorAll(".control")].map((row) => [
        row.querySelector("label").textContent,
        row.querySelector("output")?.textContent ?? (row.querySelector("select") ?? row.querySelector("input")).value,
    ]);
    return {
        settings: place.settings(), said: Object.fromEntries(fields), drawn, frame: Number(view.dataset.frame),
        caption: text(".caption"), problem: text(".problem"), readout: text(".readout"),
    };
}"""


def write(files: dict[str, str], folder: Path) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def place_of(page: Page, explorer: str) -> Locator:
    """The place of an explorer on a page, once it runs."""
    place = page.locator(f".explorer[data-explorer='{explorer}'][data-state='ready']")
    place.locator("canvas").first.wait_for()
    return place


def shown(place: Locator) -> dict:
    """What an explorer shows, after what was asked of it is drawn."""
    place.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    return place.evaluate(SHOWN)
