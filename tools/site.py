"""Make the pages of `make site`, which need no kernel, no server and no network: `python tools/site.py [FOLDER]`.

FOLDER: where they go; build/site unless given. The same notebooks give the same bytes. Nothing is written unless all of
it can be made.
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

from bs4 import BeautifulSoup
from pages import render
from pages.render import ROOT, Broken

from attn_core.show.offline.blocks import chinese_font
from attn_core.show.scripts import page_script

NAME = "Attention by hand"
CLAIMS = "claims.html"


class Section(NamedTuple):
    name: str  # of the heading, for links
    title: str  # HTML
    text: str  # for the search


class Page(NamedTuple):
    """A page of the site. title: HTML. question, answer, minutes: of a notebook."""

    file: str
    title: str
    body: str
    sections: list[Section]
    question: str = ""
    answer: str = ""
    minutes: str = ""


def main(arguments: list[str], notebooks: Path = ROOT / "notebooks") -> int:
    return render.write_made("site", site, arguments, notebooks)


def site(paths: list[Path]) -> dict[str, str]:
    """All files of the site by their names. Raises Broken."""
    if not paths:
        raise Broken("there are no notebooks")
    pages = [notebook_page(path) for path in paths]
    claims = claims_page()
    shown = {page.file: page_html(page, pages, claims) for page in (*pages, claims)}
    shown["index.html"] = index_html(pages, claims)
    text = "".join(shown.values())
    return shown | {
        "assets/site.css": render.fonts(text) + render.style("common.css", "site.css", "explorers.css"),
        "assets/theme.js": (render.HERE / "theme.js").read_text(encoding="utf-8"),
        "assets/page.js": (render.HERE / "page.js").read_text(encoding="utf-8"),
        "assets/explorers.js": page_script(),
        "assets/chinese.js": chinese_font(),
        "assets/index.js": search_index((*pages, claims)),
    }


def notebook_page(path: Path) -> Page:
    try:
        cells = render.read(path).cells
        body, headings = [], []
        for cell in cells:
            if cell.cell_type == "markdown":
                part, found = render.markdown(cell.source, link)
                body.append(part)
                headings += found
            elif cell.cell_type == "code" and cell.source.strip():
                body.append(code_cell(cell, cells, path))
        start = cells[0].source
        question, answer = (
            first(start, word, rf"\*\*{word}\.\*\* (.+?)(?:\n\n|\Z)") for word in ("Question", "Answer")
        )
        minutes = first(start, "minutes", r"^About (\d+) minutes")
        return page(f"{path.stem}.html", "".join(body), headings)._replace(
            question=question, answer=answer, minutes=minutes
        )
    except Broken as error:
        raise Broken(f"{path.name}: {error}") from None


def first(text: str, what: str, pattern: str) -> str:
    """HTML of what a pattern finds in the first cell of a notebook."""
    found = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    if not found:
        raise Broken(f"its first cell does not say the {what.lower()}")
    return re.sub("</?p>", "", render.markdown(found[1], link)[0]).strip()


def code_cell(cell, cells, path: Path) -> str:
    code = render.code(cell.source)
    if "import attn_core\n" in cell.source:
        code = f"<details><summary>Set-up, the same in every notebook</summary>{code}</details>"
    return f'<div class="cell">{code}{render.outputs(cell, cells, path)}</div>\n'


def page(file: str, body: str, headings: list[tuple[int, str, str]]) -> Page:
    titles = [title for level, _, title in headings if level == 1]
    if len(titles) != 1:
        raise Broken(f"it has {len(titles)} titles, not one")
    names = [name for _, name, _ in headings]
    if len(set(names)) < len(names):
        raise Broken(f"two headings have the name {max(names, key=names.count)!r}")
    named = {name: title for level, name, title in headings if level == 2}
    parts = re.split(r'(?=<h2 id=")', body)
    sections = [Section("", titles[0], plain(parts[0]))]
    for part in parts[1:]:
        name = re.match(r'<h2 id="([^"]*)"', part)[1]
        sections.append(Section(name, named[name], plain(part)))
    return Page(file, titles[0], body, sections)


def plain(markup: str) -> str:
    """What the search looks through: the text without code, outputs and pictures."""
    soup = BeautifulSoup(markup, "html.parser")
    for left_out in soup(["h1", "h2", "script", "pre", "figure", "summary"]):
        left_out.decompose()
    for formula in soup("math"):
        formula.replace_with(render.written(str(formula)))
    for apart in soup(["p", "li", "td", "th", "div"]):
        apart.append(" ")
    return " ".join(soup.get_text().split())


def link(target: str) -> str:
    """Where a link of a text leads on the site: to the page of a notebook; to nowhere for files that have no page."""
    if re.match(r"https?:|#", target):
        return target
    file, _, name = target.partition("#")
    if file.endswith(".ipynb") and (ROOT / "notebooks" / Path(file).name).exists():
        return f"{Path(file).stem}.html" + f"#{name}" * bool(name)
    return CLAIMS if Path(file).name == "claims.md" else ""


def claims_page() -> Page:
    body, headings = render.markdown((ROOT / "docs" / "claims.md").read_text(encoding="utf-8"), link)
    return page(CLAIMS, body, headings)


def page_html(shown: Page, pages: list[Page], claims: Page) -> str:
    order = [*pages, claims]
    at = order.index(shown)
    return render.template("page.html.j2").render(
        common(pages, claims),
        page=shown,
        before=order[at - 1] if at else None,
        after=order[at + 1] if at + 1 < len(order) else None,
    )


def index_html(pages: list[Page], claims: Page) -> str:
    return render.template("index.html.j2").render(common(pages, claims), page=None)


def common(pages: list[Page], claims: Page) -> dict:
    return {"name": NAME, "security": render.SECURITY, "pages": pages, "claims": claims}


def search_index(pages) -> str:
    entries = [
        {
            "page": plain(page.title),
            "file": page.file,
            "name": section.name,
            "title": plain(section.title),
            "text": section.text,
        }
        for page in pages
        for section in page.sections
    ]
    return f"const courseIndex = {json.dumps(entries, ensure_ascii=False)};\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
