"""Make the slides of `make slides` from the notebooks: `python tools/slides.py [FOLDER]`.

FOLDER: where they go; build/slides unless given. What stands on a slide is said by each cell's metadata, `slideshow`:

slide_type: "slide" begins a slide with this cell, "-" goes on, "notes" is for the teacher only, "skip" leaves it out.
blocks: of a text, the numbers of the paragraphs that stand on the slide; the others become notes. All unless given.
part: of a code cell, "code" or "output". Both unless given.

A heading always begins a slide.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

from pages import render
from pages.render import ROOT, Broken

from attn_core.show.offline.blocks import chinese_font
from attn_core.show.scripts import page_script

SLIDES_AT_MOST = 25
TYPES = ("slide", "-", "notes", "skip")


class Slide(NamedTuple):
    """title: HTML of the heading that it stands under. again: whether that is the heading of a slide before."""

    title: str
    again: bool
    shown: list[str]
    notes: list[str]


def main(arguments: list[str], notebooks: Path = ROOT / "notebooks") -> int:
    return render.write_made("slides", decks, arguments, notebooks)


def decks(paths: list[Path]) -> dict[str, str]:
    """All files of the slides by their names. Raises Broken."""
    if not paths:
        raise Broken("there are no notebooks")
    made = {f"{path.stem}.html": deck(path) for path in paths}
    page = render.template("slides.html.j2")
    shown = {name: page.render(security=render.SECURITY, slides=slides) for name, slides in made.items()}
    titles = {name: (slides[0].title, len(slides)) for name, slides in made.items()}
    shown["index.html"] = render.template("decks.html.j2").render(security=render.SECURITY, decks=titles)
    copied = ("vendor/reveal.js", "vendor/reveal.css", "theme.js", "slides.js")
    scripts = {f"assets/{Path(name).name}": (render.HERE / name).read_text(encoding="utf-8") for name in copied}
    style = render.fonts("".join(shown.values())) + render.style("common.css", "explorers.css", "slides.css")
    scripts |= {"assets/explorers.js": page_script(), "assets/chinese.js": chinese_font()}
    return shown | scripts | {"assets/slides.css": style}


def deck(path: Path) -> list[Slide]:
    try:
        slides: list[Slide] = []
        cells = render.read(path).cells
        for cell in cells:
            add(cell, slides, cells, path)
        if len(slides) > SLIDES_AT_MOST:
            raise Broken(f"it has {len(slides)} slides, and at most {SLIDES_AT_MOST} are allowed")
        return slides
    except Broken as error:
        raise Broken(f"{path.name}: {error}") from None


def add(cell, slides: list[Slide], cells, path: Path) -> None:
    """Put a cell on the slides."""
    told = cell.metadata.get("slideshow", {})
    kind = told.get("slide_type")
    if kind not in TYPES:
        raise Broken(
            f"cell {cell.id} does not say what it is on the slides: its metadata need slideshow, slide_type, one of "
            f"{', '.join(TYPES)}"
        )
    if kind == "skip" or cell.cell_type == "raw" or not cell.source.strip():
        return
    begins = kind == "slide"
    for heading, shown, part in parts(cell, told, cells, path):
        if not slides and not heading:
            raise Broken(f"cell {cell.id} stands before the title of the slides")
        if kind == "notes" or not shown:
            slides[-1].notes.append(part)
            continue
        if heading or begins:
            slides.append(Slide(heading or slides[-1].title, not heading, [], []))
        begins = False
        slides[-1].shown.append("" if heading else part)


def parts(cell, told, cells, path: Path):
    """What a cell consists of: the HTML of its heading where it is one, whether it is shown, and its HTML."""
    if cell.cell_type == "code":
        part = told.get("part")
        if part != "output":
            yield "", True, render.code(cell.source)
        if part != "code":
            yield "", True, f'<div class="cell">{render.outputs(cell, cells, path)}</div>'
        return
    blocks = re.split(r"\n\s*\n", cell.source.strip())
    chosen = told.get("blocks", range(len(blocks)))
    if set(chosen) - set(range(len(blocks))):
        raise Broken(f"cell {cell.id} has {len(blocks)} paragraphs, 0 to {len(blocks) - 1}, not {list(chosen)}")
    for number, block in enumerate(blocks):
        markup, headings = render.markdown(block, lambda target: target if target.startswith("https:") else "")
        yield headings[0][2] if headings else "", number in chosen, markup


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
