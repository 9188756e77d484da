"""The pages of `make site`, opened from files with the network off: explorers, search, themes, pictures, print."""

import csv
import io
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from axe_playwright_python.sync_playwright import Axe
from fontTools.ttLib import TTFont
from page_tools import TOOLS, tool

from attn_core import show
from attn_core.show.explorers.base import FAULT
from attn_core.show.explorers.heads import HEAD_COUNTS, head_steps
from attn_core.show.explorers.qkv import MASKS, qkv_steps

from .chromium import find_chromium
from .explorer_page import ARGUMENTS, difference
from .made_pages import NOTEBOOKS, place_of, shown, write

PAGES = ["index.html", "claims.html", *(f"{path.stem}.html" for path in NOTEBOOKS)]
# On which page each explorer stands.
AT = {
    name: f"{path.stem}.html"
    for path in NOTEBOOKS
    for name in re.findall(r'"(\w+_explorer)\(.*\)"\n', path.read_text(encoding="utf-8"))
}
ALONE = [name for name in AT if name not in ARGUMENTS]
EXPLORERS = {}  # as the pages were made of them
BYTES_AT_MOST = 15_000_000


@pytest.fixture(scope="module")
def files():
    site = tool("site")
    made = site.site(NOTEBOOKS)
    for page in set(AT.values()):
        for name, block in re.findall(
            r'data-explorer="(\w+)"></div><script type="text/plain">(.*?)</script>', made[page]
        ):
            EXPLORERS[name] = site.render.live[block]
    assert set(EXPLORERS) == set(AT)
    return made


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory):
    return write(files, tmp_path_factory.mktemp("site") / "on a stick" / "猫吃鱼 50%")


@pytest.fixture
def visit(new_page, folder):
    """Opens a page of the site from its file; at the end nothing was asked for elsewhere and nothing went wrong."""
    opened = []

    def open_one(name: str, **options):
        page = new_page(offline=True, **options)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto((folder / name).as_uri())
        opened.append((page, asked))
        return page

    yield open_one
    for page, asked in opened:
        assert page.complaints == []
        assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def right(place, name):
    """What the explorer shows is what Python computes for its settings, and its controls say these settings."""
    now = shown(place)
    assert difference(now, *EXPLORERS[name].compute(**now["settings"])) == ""
    return now


def slide(slider, to: int):
    slider.evaluate("(input, to) => { input.value = to; input.dispatchEvent(new Event('input')); }", to)


# All files


def test_the_site_is_small_and_has_a_page_for_every_notebook(files):
    assert sum(len(text.encode()) for text in files.values()) <= BYTES_AT_MOST
    assert set(PAGES) <= set(files)


def test_no_page_names_a_file_that_is_elsewhere(files):
    for name, text in files.items():
        if name.endswith(".html"):
            text = re.sub(r'<script type="text/plain".*?</script>', "", text, flags=re.DOTALL)
            assert not re.findall(
                r'<(?:img|script|link|iframe|source)\b[^>]*(?:src|href)="(?!data:|assets/)[^"]*', text
            )


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_to_a_page_and_a_place_on_it(files, name):
    for target in re.findall(r'<a\b[^>]*href="([^"]*)"', files[name]):
        if not target.startswith("https:"):
            file, _, place = target.partition("#")
            assert (file or name) in files, target
            assert not place or f'id="{place}"' in files[file or name], target


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_in_both_themes_and_not_wider_than_its_screen(visit, name):
    page = visit(name)
    for explorer in AT:
        if AT[explorer] == name:
            place_of(page, explorer)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert grave_violations(page, {}) == []
    page.emulate_media(color_scheme="dark")
    page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert grave_violations(page, {"runOnly": ["color-contrast", "link-in-text-block"]}) == []


def grave_violations(page, options):
    # Without copies of the style sheets, which the page's policy does not let it load, and without the thousands of
    # coloured words of the code: tests/test_site.py looks at their contrast.
    context = {"exclude": [["pre.code code"]]}
    violations = Axe().run(page, context, {"preload": False, **options}).response["violations"]
    grave = [violation for violation in violations if violation["impact"] in ("serious", "critical")]
    return [(violation["id"], [node["html"][:150] for node in violation["nodes"][:3]]) for violation in grave]


# Explorers


@pytest.mark.parametrize("name", AT)
def test_keys_move_every_control_and_the_picture_is_what_python_computes(visit, name):
    page = visit(AT[name])
    place = place_of(page, name)
    before = right(place, name)
    for control in place.locator(".control input[type='range']").all():
        control.focus()
        for key in ("End", "ArrowLeft", "PageDown", "Home", "ArrowRight", "PageUp"):
            page.keyboard.press(key)
            now = right(place, name)
            assert control.get_attribute("aria-valuetext") in now["said"].values()
            assert now["frame"] > before["frame"] or now["settings"] == before["settings"]
            before = now
    for choice in place.locator(".control select").all():
        for option in choice.locator("option").all():
            choice.select_option(option.inner_text())
            offered = {"(none)": ""}.get(option.inner_text(), option.inner_text())  # no text cannot be shown as it is
            assert offered in right(place, name)["settings"].values()


@pytest.mark.parametrize("name", AT)
def test_the_mouse_moves_every_slider(visit, name):
    page = visit(AT[name])
    place = place_of(page, name)
    for control in place.locator(".control input[type='range']").all():
        control.scroll_into_view_if_needed()
        box = control.bounding_box()
        page.mouse.move(box["x"] + 3, box["y"] + box["height"] / 2)
        page.mouse.down()
        stops = [right(place, name)["settings"]]
        for share in (0.4, 0.98):
            page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=4)
            stops.append(right(place, name)["settings"])
        page.mouse.up()
        assert stops[0] != stops[-1]


@pytest.mark.parametrize("name", ALONE)
def test_other_controls_follow_as_they_do_with_a_kernel(visit, name):
    """Random moves, made on the page and in the live explorer: both are at the same settings after each."""
    page = visit(AT[name])
    place = place_of(page, name)
    live = getattr(show, name)()
    labels = {control.description: argument for argument, control in live.controls.items()}
    moves = random.Random(0)
    for _ in range(60):
        fields = place.locator(".control:has(input[type='range'])")
        field = fields.nth(moves.randrange(fields.count()))
        slider = field.locator("input")
        to = moves.randint(0, int(slider.get_attribute("max")))
        slide(slider, to)
        settings = place.evaluate("(place) => place.settings()")
        argument = labels[field.locator("label").inner_text()]
        live.controls[argument].value = settings[argument]
        assert settings == live.settings


def test_the_steps_in_javascript_are_those_of_python(visit):
    """Every title, label, caption and value, over a grid of inputs with and without the mask."""
    page = visit(AT["qkv_explorer"])
    pieces = show.qkv_explorer().offline().pieces
    entries = [-3.0, -0.25, 0.0, 1.75]
    grid = [
        dict(zip(("a1_1", "a1_2", "a2_1", "a2_2"), four, strict=True), mask=mask)
        for four in itertools.product(entries, repeat=4)
        for mask in MASKS
    ]
    computed = page.evaluate(
        "([grid, pieces]) => grid.map((settings) => {"
        "  const { panels, caption } = attention.qkv(settings, pieces);"
        "  const drawn = panels.map((p) => ({"
        "    ...p, rowLabels: p.row_labels, columnLabels: p.column_labels, values: p.matrix.flat() }));"
        "  return { drawn, caption, problem: '' };"
        "})",
        [grid, json.loads(json.dumps(pieces))],
    )
    assert len(computed) == 512
    for settings, result in zip(grid, computed, strict=True):
        assert difference(result, *qkv_steps(**settings)) == "", settings


def test_two_explorers_of_one_name_on_a_page_show_each_its_own(visit, files, folder):
    text = files[AT["qkv_explorer"]].replace('data-explorer="scale_explorer"', 'data-explorer="qkv_explorer"')
    (folder / "twins.html").write_text(text, encoding="utf-8")
    page = visit("twins.html")
    both = page.locator(".explorer[data-state='ready']:has(canvas)")
    both.nth(1).wait_for()
    found = {frozenset(shown(place)["settings"]): place for place in both.all()}
    assert set(found) == {frozenset(EXPLORERS[name].settings) for name in ("scale_explorer", "qkv_explorer")}
    for name in ("scale_explorer", "qkv_explorer"):
        right(found[frozenset(EXPLORERS[name].settings)], name)
    ids = page.eval_on_selector_all("[id]", "(nodes) => nodes.map((node) => node.id)")
    assert len(ids) == len(set(ids))


SENTENCES = {
    "words": "the keys to the old cabinet are lost",
    "characters": "小猫吃了一条大鱼",
    "one": "猫",
    "markup": "<img src=x onerror=alert(1)> stays <b>text</b>",
    "forty": "猫" * 40,
}


@pytest.mark.parametrize("kind", SENTENCES)
def test_a_sentence_of_ones_own_is_shown_as_python_computes_it(visit, kind):
    page = visit(AT["head_explorer"])
    place = place_of(page, "head_explorer")
    place.get_by_label("sentence").fill(SENTENCES[kind])
    now = right(place, "head_explorer")
    assert now["settings"]["sentence"] == SENTENCES[kind]
    assert page.locator("img[src='x']").count() == 0
    place.get_by_role("slider", name="heads").focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
        right(place, "head_explorer")


def test_a_fault_of_a_script_is_told_as_one_and_its_author_finds_it_in_the_console(new_page, folder):
    page = new_page(offline=True)
    page.goto((folder / AT["qkv_explorer"]).as_uri())
    place = place_of(page, "qkv_explorer")
    before = shown(place)["drawn"]
    page.evaluate("void (Math.exp = () => { throw new Error('out of order'); })")
    slide(place.locator("input").first, 0)
    now = shown(place)
    assert now["problem"] == f"{FAULT}out of order"
    assert now["drawn"] == before
    assert any("out of order" in complaint for complaint in page.complaints)


def test_too_long_a_sentence_gets_the_sentence_that_python_has_and_the_picture_stays(visit):
    page = visit(AT["head_explorer"])
    place = place_of(page, "head_explorer")
    before = right(place, "head_explorer")
    for sentence in ("猫" * 41, ""):
        place.get_by_label("sentence").fill(sentence)
        now = shown(place)
        with pytest.raises(ValueError) as refused:
            head_steps(64, 8, sentence)
        assert now["problem"] == f"This setting cannot be shown: {refused.value}"
        assert now["drawn"] == before["drawn"]
    place.get_by_label("sentence").fill("a b")
    right(place, "head_explorer")


def test_chinese_characters_that_nobody_foresaw_have_their_glyphs_also_without_a_chinese_font(visit):
    page = visit(AT["head_explorer"])
    place = place_of(page, "head_explorer")
    field, drawings = place.get_by_label("sentence"), set()
    with page.expect_response("**/assets/chinese.js"):
        field.fill("爱")
    place.evaluate("document.fonts.ready")
    for character in "爱恨":
        field.fill(character)
        right(place, "head_explorer")
        drawings.add(place.locator("canvas").first.evaluate("(canvas) => canvas.toDataURL()"))
    assert len(drawings) == 2  # boxes in place of characters would look the same


@pytest.mark.parametrize("name", ["01_from_rnn_to_attention.html", "04_positional_encoding.html"])
def test_chinese_words_are_drawn_with_the_font_that_comes_along(visit, name):
    page = visit(name)
    page.evaluate("document.fonts.ready")
    tools = page.context.new_cdp_session(page)
    tools.send("DOM.enable")
    tools.send("CSS.enable")
    root = tools.send("DOM.getDocument")["root"]["nodeId"]
    words = tools.send("DOM.querySelectorAll", {"nodeId": root, "selector": "main [lang=zh]"})["nodeIds"]
    assert len(words) > 20
    for word in words:
        fonts = tools.send("CSS.getPlatformFontsForNode", {"nodeId": word})["fonts"]
        assert all(font["isCustomFont"] for font in fonts), fonts


@pytest.mark.parametrize("name", AT)
def test_the_numbers_can_be_read_as_a_table(visit, name):
    place = place_of(visit(AT[name]), name)
    place.get_by_text("Numbers as a table").click()
    panel = shown(place)["drawn"][0]
    assert place.locator("table caption").inner_text() == panel["title"]
    assert place.locator("tbody td").count() == panel["rows"] * panel["columns"]


def test_heads_of_many_layers_and_sentences_are_those_of_python(visit):
    page = visit(AT["head_explorer"])
    place = place_of(page, "head_explorer")
    for embed_dim, num_heads, sentence in ((16, 16, "a b a"), (24, 8, "ab"), (200, 4, "猫吃鱼"), (512, 1, "x y z")):
        place.get_by_label("sentence").fill(sentence)
        slide(place.get_by_role("slider", name="embed_dim"), (embed_dim - 16) // 8)
        slide(place.get_by_role("slider", name="heads"), HEAD_COUNTS.index(num_heads))
        settings = right(place, "head_explorer")["settings"]
        assert settings == {"sentence": sentence, "embed_dim": embed_dim, "num_heads": num_heads}


@pytest.mark.parametrize("name", AT)
def test_pointing_and_arrow_keys_read_a_number(visit, name):
    page = visit(AT[name])
    place = place_of(page, name)
    hint = shown(place)["readout"]
    canvas = place.locator("canvas").first
    canvas.scroll_into_view_if_needed()
    panel = shown(place)["drawn"][0]
    (left, top), (width, height) = panel["origin"], panel["cell"]
    canvas.hover(position={"x": left + width / 2, "y": top + height / 2})
    pointed = shown(place)["readout"]
    assert pointed != hint and panel["title"] in pointed and panel["rowLabels"][0] in pointed
    canvas.focus()
    page.keyboard.press("ArrowDown")
    assert panel["rowLabels"][1] in shown(place)["readout"]
    assert shown(place)["readout"] != pointed


def test_the_colours_can_be_changed_and_the_values_stay(visit):
    page = visit(AT["scale_explorer"])
    place = place_of(page, "scale_explorer")
    pixels = "(canvas) => canvas.toDataURL()"
    before, canvas = shown(place)["drawn"], place.locator("canvas").first
    first = canvas.evaluate(pixels)
    colours = place.get_by_label("Colours")
    colours.select_option(index=1)
    assert shown(place)["drawn"][0]["values"] == before[0]["values"]
    assert canvas.evaluate(pixels) != first


@pytest.mark.parametrize("name", ["qkv_explorer", "cost_explorer"])
def test_the_picture_and_the_numbers_can_be_saved(visit, name):
    page = visit(AT[name])
    place = place_of(page, name)
    saved = {}
    for kind in ("PNG", "SVG", "CSV"):
        with page.expect_download() as download:
            place.get_by_role("button", name=f"as {kind}").click()
        saved[kind] = Path(download.value.path()).read_bytes()
    assert saved["PNG"].startswith(b"\x89PNG") and len(saved["PNG"]) > 2000
    drawing = ElementTree.fromstring(saved["SVG"])
    assert drawing.tag.endswith("svg")
    written = "".join(drawing.itertext())
    rows = list(csv.reader(io.StringIO(saved["CSV"].decode("utf-8-sig"))))
    flat = {cell for row in rows for cell in row}
    for panel in shown(place)["drawn"]:
        assert panel["title"] in written
        assert panel["title"] in flat
    assert numbers(rows) == pytest.approx([v for panel in shown(place)["drawn"] for v in panel["values"]], rel=1e-6)


def numbers(rows):
    """All values of a CSV file of panels, in the order of the panels: the last cell of each row."""
    return [float(row[-1]) for row in rows[1:] if row]


# Search, themes, pictures, paper


def test_the_search_finds_a_section_and_its_link_leads_there(visit):
    page = visit("index.html")
    page.keyboard.press("/")
    page.keyboard.type("saturated softmax")
    results = page.locator(".results li")
    results.first.wait_for()
    assert "2.6 Why divide by" in results.first.inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/02_qkv_by_hand.html#2-6-why-divide-by-d-k")
    assert 0 <= page.locator("#2-6-why-divide-by-d-k".replace("#2", "#\\32 ")).bounding_box()["y"] < 200


def test_the_search_takes_chinese_says_when_there_is_nothing_and_treats_markup_as_text(visit):
    page = visit("claims.html")
    page.get_by_label("Search").fill("鱼吃猫")
    page.locator(".results li").first.wait_for()
    assert "4. Positions" in page.locator(".results").inner_text()
    page.get_by_label("Search").fill("<img src=x onerror=alert(1)>")
    page.get_by_text("No section has all these words.").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".results").is_hidden()
    assert page.locator(".results img").count() == 0


def test_enter_leads_nowhere_while_the_results_are_closed(visit):
    page = visit("claims.html")
    field = page.get_by_label("Search")
    for close in (lambda: field.fill(""), lambda: page.keyboard.press("Escape")):
        field.fill("softmax")
        page.locator(".results li").first.wait_for()
        close()
        page.locator(".results").wait_for(state="hidden")
        field.press("Enter")
        page.wait_for_timeout(200)
        assert page.url.endswith("claims.html")


def test_on_a_phone_a_wide_picture_keeps_a_size_that_can_be_read(visit):
    page = visit("03_multi_head.html", viewport={"width": 390, "height": 844})
    widths = page.locator(".cell > .picture img").evaluate_all(
        "(all) => all.map((one) => [one.width, one.naturalWidth])"
    )
    assert widths and all(width >= min(natural, 640) for width, natural in widths)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_theme_follows_the_system_until_it_is_chosen_and_is_remembered(visit, folder):
    page = visit("index.html", color_scheme="dark")
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    dark = page.evaluate(paper)
    page.get_by_role("button", name="Light theme").click()
    light = page.evaluate(paper)
    assert light == "rgb(255, 255, 255)" != dark
    page.goto((folder / AT["scale_explorer"]).as_uri())
    assert page.evaluate(paper) == light
    place = place_of(page, "scale_explorer")
    ink = "(view) => getComputedStyle(view).color"
    before, frame = place.locator(".attention-view").evaluate(ink), shown(place)["frame"]
    page.get_by_role("button", name="Dark theme").click()
    assert page.evaluate(paper) == dark
    assert place.locator(".attention-view").evaluate(ink) != before
    assert shown(place)["frame"] > frame  # drawn again, in the new ink


def test_every_picture_can_be_saved(visit):
    page = visit("02_qkv_by_hand.html")
    button = page.locator(".cell > .picture button").first
    button.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename.startswith("02_qkv_by_hand-")
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")


def test_on_paper_pictures_stand_in_the_place_of_explorers(visit):
    page = visit("02_qkv_by_hand.html", color_scheme="dark")
    place_of(page, "scale_explorer")
    assert page.locator(".explorer").first.is_visible() and page.locator(".instead").first.is_hidden()
    page.emulate_media(media="print")
    assert page.locator(".explorer").first.is_hidden() and page.locator(".instead").first.is_visible()
    assert page.locator("header").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    colours = "[...new Set([...document.querySelectorAll('pre.code span')].map((n) => getComputedStyle(n).color))]"
    dark = set(page.evaluate(colours))
    page.emulate_media(media="print", color_scheme="light")
    assert dark == set(page.evaluate(colours))  # the paper is as white


@pytest.mark.parametrize("name", [path.stem for path in NOTEBOOKS])
def test_on_paper_no_table_is_wider_than_the_page(visit, name):
    page = visit(f"{name}.html")
    page.set_viewport_size({"width": 657, "height": 900})  # A4 between its margins
    page.emulate_media(media="print")
    wide = "[...document.querySelectorAll('.scroll')].filter((n) => n.scrollWidth > n.clientWidth + 1)"
    assert page.evaluate("document.querySelectorAll('.scroll table').length") > 3
    assert page.evaluate(f"{wide}.map((n) => n.innerText)") == []


def test_the_pages_can_be_printed(browser, folder, tmp_path):
    shutil.copytree(folder / "assets", tmp_path / "site" / "assets")
    shutil.copy(folder / "02_qkv_by_hand.html", tmp_path / "site")
    command = [sys.executable, TOOLS / "pdf.py", find_chromium(), tmp_path / "site", tmp_path / "pdf"]
    printed = subprocess.run(command, capture_output=True, text=True)
    assert (printed.returncode, printed.stderr) == (0, "")
    pdf = (tmp_path / "pdf" / "02_qkv_by_hand.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") >= 5


def test_an_old_browser_gets_a_sentence_and_the_picture(new_page, folder):
    page = new_page(offline=True)
    page.add_init_script("delete window.DecompressionStream")
    page.goto((folder / "02_qkv_by_hand.html").as_uri())
    page.get_by_text("This browser cannot unpack the explorer").first.wait_for()
    assert page.locator(".instead").first.is_visible()
    assert page.complaints == []


def test_formulas_have_every_character_in_the_font_that_comes_along(files):
    known = TTFont(TOOLS / "pages" / "vendor" / "stix-two-math.woff").getBestCmap()
    for name in PAGES:
        for formula in re.findall(r"<math.*?</math>", files[name], flags=re.DOTALL):
            text = "".join(ElementTree.fromstring(formula).itertext())
            assert [character for character in text if ord(character) not in known] == [], formula
