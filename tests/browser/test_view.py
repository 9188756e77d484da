"""The live view on a page without a kernel: what it draws, its colours, its lines, and the files that it saves."""

import base64
import csv
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from attn_core.show import AttentionView, bar_panel, line_panel, matrix_panel
from attn_core.show.panels import weight_panels
from attn_core.show.scripts import LIVE, joined

SVG = "{http://www.w3.org/2000/svg}"
STYLE = AttentionView._css
EVIL = "<img src=x onerror=hit=1>"
WEIGHTS = np.array([[0.1, 0.7, 0.2], [1 / 3, 0.0, 2 / 3], [0.05, 0.9, 0.05]])
TOKENS = ("猫", 'a "b", c', EVIL)
SIGNED = np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]])
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>view</title><style>%s
body { background: %s; color: %s; }</style><body><div id="place"></div><script type="module">
%s
const bytes = (text) => new DataView(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);
const state = JSON.parse(%s);
for (const name of ["values", "font"]) state[name] = bytes(state[name]);
const heard = {};
window.hit = 0;
window.revoked = [];
const revoke = URL.revokeObjectURL;
URL.revokeObjectURL = (url) => (revoked.push(url), revoke(url));
const on = (name, listener) => (heard[name] ??= []).push(listener);
const off = (name, listener) => (heard[name] = heard[name].filter((other) => other !== listener));
const model = { get: (name) => state[name], on, off };
const change = (name, value) => {
  state[name] = value;
  for (const listener of heard[`change:${name}`] ?? []) listener();
};
window.view = { end: render({ model, el: document.getElementById("place") }), change, state, heard };
</script></body></html>"""


@pytest.fixture
def shown(new_page, tmp_path):
    """A function that shows panels on a page of their own and gives the page once it has drawn them."""

    def show(panels, caption="A caption.", name="", dark=False, **options):
        view = AttentionView(panels, caption, name)
        own = ("panel_layout", "palettes", "caption", "problem", "name")
        state = {trait: getattr(view, trait) for trait in own}
        state |= {trait: base64.b64encode(getattr(view, trait)).decode() for trait in ("values", "font")}
        quoted = json.dumps(json.dumps(state)).replace("<", "\\u003c")
        paper, ink = ("#101418", "#f0f0f0") if dark else ("#fffdf8", "#202020")
        file = tmp_path / "view.html"
        file.write_text(PAGE % (STYLE, paper, ink, joined(LIVE), quoted), encoding="utf-8")
        page = new_page(**options)
        page.goto(file.as_uri())
        settled(page)
        return page

    return show


def settled(page):
    """Wait until the view has drawn and has nothing more to draw."""
    page.wait_for_selector(".attention-view[data-frame]")
    page.evaluate("document.fonts.ready")
    before = None
    while before != (before := page.locator(".attention-view").get_attribute("data-frame")):
        page.wait_for_timeout(60)


def drawn(page):
    return page.evaluate(
        "[...document.querySelector('.attention-view').drawn].map((panel) => ({ ...panel, values: [...panel.values] }))"
    )


def colours_of_cells(page, index=0):
    """The colour of each cell of a panel, near its upper left corner where no number stands: (rows, columns, 3)."""
    panel = drawn(page)[index]
    return np.array(
        page.evaluate(
            """([index, { origin, cell, rows, columns }]) => {
                const canvas = document.querySelectorAll("canvas")[index];
                const context = canvas.getContext("2d");
                const scale = canvas.width / parseFloat(canvas.style.width);
                const at = (i, j) => [origin[0] + j * cell[0] + 2, origin[1] + i * cell[1] + 2];
                return Array.from({ length: rows }, (_, i) => Array.from({ length: columns }, (_, j) =>
                    [...context.getImageData(...at(i, j).map((x) => Math.round(x * scale)), 1, 1).data.slice(0, 3)]));
            }""",
            [index, panel],
        )
    )


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def expected_colours(panel, palette):
    low, high = panel.limits
    levels = np.clip(
        np.floor(255 * (panel.values.astype("f4").astype(float) - low) / (high - low) + 0.5), 0, 255
    ).astype(int)
    colours = np.array([rgb(colour) for colour in AttentionView([panel]).palettes[palette]])
    return colours[levels]


def choose(page, colours):
    page.get_by_label("Colours").select_option(colours)
    settled(page)


def open_table(page):
    page.locator("summary").click()
    page.wait_for_selector(".numbers td")


def saved(page, kind):
    """The name and the bytes of the file that a button saves."""
    what = "numbers" if kind == "CSV" else "picture"
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Save {what} as {kind}", exact=True).click()
    with open(download.value.path(), "rb") as file:
        return download.value.suggested_filename, file.read()


# What is drawn


def test_the_page_tells_what_was_drawn(shown):
    hidden = matrix_panel([[1.5, -np.inf]], "scores", "q", "xy", "query", "key", "score")
    panels = [*weight_panels(WEIGHTS[None], TOKENS), hidden, bar_panel([1, 3], "bars", "ab", ["one", "three"], "FLOPs")]
    page = shown(panels)
    frame = page.locator(".attention-view").get_attribute("data-frame")
    for said, panel in zip(drawn(page), panels, strict=True):
        assert (said["title"], said["kind"]) == (panel.title, panel.kind)
        assert (said["rowLabels"], said["columnLabels"]) == (list(panel.row_labels), list(panel.column_labels))
        assert (said["low"], said["high"]) == panel.limits
        values = np.array(said["values"], dtype="f4").reshape(said["rows"], said["columns"])
        assert np.array_equal(values, panel.values.astype("f4"))
    page.evaluate("view.change('caption', 'Another.')")
    settled(page)
    assert page.locator(".attention-view").get_attribute("data-frame") == str(int(frame) + 1)


@pytest.mark.parametrize("scale", [1, 2, 1.5])
def test_cells_have_the_colours_of_their_values(shown, scale):
    panels = [*weight_panels(WEIGHTS[None], TOKENS), matrix_panel(SIGNED, "s", "a", "12345", "r", "c", "value")]
    page = shown(panels, device_scale_factor=scale)
    for index, (panel, palette) in enumerate(zip(panels, ("cividis", "PuOr"), strict=True)):
        assert np.array_equal(colours_of_cells(page, index), expected_colours(panel, palette))


def test_a_closed_view_draws_no_more(shown):
    page = shown(weight_panels(WEIGHTS[None]))
    frame = page.locator(".attention-view").get_attribute("data-frame")
    page.evaluate("view.end(); for (const name of ['values', 'caption', 'font']) view.change(name, view.state[name])")
    page.wait_for_timeout(100)
    assert page.locator(".attention-view").get_attribute("data-frame") == frame
    assert page.evaluate("Object.values(view.heard).flat().length") == 0


def test_tokens_are_text_and_never_markup(shown):
    panels = [*weight_panels(WEIGHTS[None], TOKENS, titles=[EVIL]), line_panel(WEIGHTS, EVIL, TOKENS)]
    page = shown(panels, caption=EVIL)
    open_table(page)
    page.locator("canvas").first.press("ArrowDown")
    page.evaluate("(text) => view.change('problem', text)", EVIL)
    settled(page)
    assert page.locator(".problem").text_content() == EVIL
    assert EVIL in page.locator(".readout").text_content()
    assert page.locator("img").count() == page.evaluate("hit") == 0
    assert page.complaints == []


def test_texts_take_the_glyphs_that_came_with_them_first(shown):
    page = shown(weight_panels(WEIGHTS[None], TOKENS))
    open_table(page)
    for place in (".readout", "figcaption", ".numbers th"):
        font = page.locator(place).first.evaluate("(node) => getComputedStyle(node).fontFamily")
        assert re.match(r"attention-tokens-\d+, ", font)


def test_room_once_taken_is_kept_while_things_change_and_given_back_after_a_pause(shown):
    page = shown(weight_panels(np.stack([WEIGHTS] * 9), TOKENS), viewport={"width": 500, "height": 400})
    holder = page.locator(".panels")
    tall = holder.bounding_box()["height"]
    last = page.locator("figure").nth(4)
    place = last.bounding_box()
    page.evaluate("view.change('panel_layout', view.state.panel_layout.slice(0, 5))")
    settled(page)
    assert holder.bounding_box()["height"] == tall
    assert last.bounding_box() == place  # rows do not drift apart in the room that is left
    page.evaluate("view.change('panel_layout', view.state.panel_layout.slice(0, 1))")
    settled(page)
    assert holder.bounding_box()["height"] == tall
    page.evaluate("view.change('panel_layout', [{ ...view.state.panel_layout[0], row_labels: ['x', 'y', 'z'] }])")
    settled(page)
    assert holder.bounding_box()["height"] == tall  # nothing jumps while somebody types
    page.wait_for_function(f"document.querySelector('.panels').offsetHeight < {tall / 3}")


@pytest.mark.parametrize("letters", [13, 20, 26])
def test_pictures_grow_with_the_letters_of_the_page(shown, letters):
    page = shown(weight_panels(np.full((1, 3, 3), 1 / 3), list("abc")))
    before = page.locator("canvas").bounding_box()["width"]
    page.add_style_tag(content=f":root {{ --jp-ui-font-size1: {letters}px }}")
    page.evaluate("view.change('caption', 'again')")
    settled(page)
    assert page.locator("canvas").bounding_box()["width"] == pytest.approx(before * letters / 13, abs=1)
    page.locator("canvas").hover(position={"x": before * letters / 13 - 10, "y": before * letters / 13 - 10})
    assert page.locator(".readout").inner_text() == "head 1: query c → key c: weight 0.3333"


def test_after_a_refused_setting_the_old_picture_is_greyed_until_a_legal_one_comes(shown):
    page = shown(weight_panels(np.full((1, 3, 3), 1 / 3), list("abc")))
    opacity = "getComputedStyle(document.querySelector('.panels')).opacity"
    page.evaluate("view.change('problem', 'too many tokens')")
    settled(page)
    assert float(page.evaluate(opacity)) < 0.5
    page.evaluate("view.change('problem', '')")
    settled(page)
    assert float(page.evaluate(opacity)) == 1


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_the_cell_that_keys_are_on_is_framed_dark_and_light_whatever_its_colour(shown, value, dark):
    page = shown(weight_panels(np.full((1, 12, 12), value), list("abcdefghijkl")), dark=dark)
    page.locator("canvas").focus()
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    settled(page)
    edge = page.evaluate(
        """([{ origin, cell }]) => {
            const canvas = document.querySelector("canvas");
            const scale = canvas.width / parseFloat(canvas.style.width);
            const [x, y] = [origin[0] + cell[0], origin[1] + 1.5 * cell[1]].map((place) => Math.round(place * scale));
            const { data } = canvas.getContext("2d").getImageData(x - 4, y, 8, 1);
            return Array.from({ length: 8 }, (_, i) => data[4 * i]);
        }""",
        drawn(page),
    )
    assert min(edge) < 60 and max(edge) > 220, edge


def test_the_readout_forgets_a_cell_that_is_no_longer_there(shown):
    page = shown(weight_panels(np.full((1, 3, 3), 1 / 3), list("abc")))
    page.locator("canvas").focus()
    for key in ("ArrowRight", "ArrowDown") * 2:
        page.keyboard.press(key)
    assert page.locator(".readout").inner_text() == "head 1: query c → key c: weight 0.3333"
    smaller = AttentionView(weight_panels(np.full((1, 1, 1), 1.0), ["d"]))
    page.evaluate(
        "([layout, text]) => { view.state.values = new DataView(Uint8Array.from(atob(text),"
        " (letter) => letter.charCodeAt(0)).buffer); view.change('panel_layout', layout); }",
        [smaller.panel_layout, base64.b64encode(smaller.values).decode()],
    )
    settled(page)
    assert page.locator(".readout").inner_text().startswith("Point at a cell")


@pytest.mark.parametrize("zoom", [1, 1.5, 0.6])
def test_keys_bring_a_cell_into_sight_where_the_map_is_wider_than_its_place(shown, zoom):
    page = shown(weight_panels(np.full((1, 30, 30), 1 / 30), [f"token{i}" for i in range(30)]))
    page.add_style_tag(content=f"#place {{ width: 200px; zoom: {zoom} }} .panels {{ overflow-x: auto }}")
    page.locator("canvas").focus()
    inside = """([{ origin, cell, columns }, column]) => {
        const [box, canvas] = [".panels", "canvas"].map((name) => document.querySelector(name).getBoundingClientRect());
        const scale = canvas.width / parseFloat(document.querySelector("canvas").style.width);
        const left = canvas.left + (origin[0] + column * cell[0]) * scale;
        return left >= box.left - 1 && left + cell[0] * scale <= box.right + 1;
    }"""
    steps = [("ArrowRight", column) for column in range(1, 30)] + [
        ("ArrowLeft", column) for column in reversed(range(29))
    ]
    for key, column in steps:
        page.keyboard.press(key)
        assert page.evaluate(inside, [drawn(page)[0], column]), column


def test_keys_on_the_buttons_stay_with_them_and_shortcuts_do_not(shown):
    page = shown(weight_panels(WEIGHTS[None]))
    page.evaluate("window.keys = []; document.addEventListener('keydown', (event) => keys.push(event.key))")
    for name in ("Colours", "Save numbers as CSV"):
        page.get_by_label(name).press("v")
    page.locator("summary").press("Enter")
    assert page.evaluate("keys") == []
    assert page.locator("details").get_attribute("open") is not None
    page.get_by_label("Colours").press("Control+s")
    assert "s" in page.evaluate("keys")


# The numbers as a table


def test_the_table_is_filled_while_it_is_open_with_the_panel_that_is_selected(shown):
    panels = weight_panels(np.stack([WEIGHTS, WEIGHTS[::-1]]), TOKENS)
    page = shown(panels)
    assert page.locator(".numbers td").count() == 0
    open_table(page)
    table = page.get_by_role("table", name="head 1")
    assert table.locator("td").all_text_contents() == [f"{value:.4f}" for value in WEIGHTS.flat]
    assert table.locator("thead th").all_text_contents() == ["query / key", *TOKENS]
    assert table.locator("th[scope=row]").all_text_contents() == list(TOKENS)
    page.locator("canvas").nth(1).focus()
    second = page.get_by_role("table", name="head 2")
    second.locator("td").last.wait_for()
    assert second.locator("td").first.text_content() == f"{WEIGHTS[2, 0]:.4f}"
    page.locator("summary").click()
    page.wait_for_function("document.querySelectorAll('.numbers td').length === 0")


def test_the_table_of_bars_has_their_texts(shown):
    page = shown([bar_panel([1, 3], "parts", ["a", "b"], ["1 byte", "3 bytes"], "bytes")])
    open_table(page)
    assert page.get_by_role("table", name="parts").locator("td").all_text_contents() == ["1 byte", "3 bytes"]


# Colours


@pytest.mark.parametrize(
    "choice, weights, signed",
    [("cividis", "cividis", "PuOr"), ("viridis", "viridis", "BrBG"), ("grey", "grey", "grey")],
)
def test_the_reader_chooses_the_colours(shown, choice, weights, signed):
    panels = [*weight_panels(WEIGHTS[None]), matrix_panel(SIGNED, "signed", "a", "12345", "r", "c", "value")]
    page = shown(panels)
    choose(page, choice)
    assert [panel["palette"] for panel in drawn(page)] == [weights, signed]
    for index, (panel, palette) in enumerate(zip(panels, (weights, signed), strict=True)):
        assert np.array_equal(colours_of_cells(page, index), expected_colours(panel, palette))
    assert np.array_equal(np.array(drawn(page)[0]["values"], dtype="f4"), WEIGHTS.astype("f4").ravel())


def test_grey_grows_lighter_from_the_least_to_the_greatest_value(shown):
    page = shown([matrix_panel(SIGNED, "signed", "a", "12345", "r", "c", "value")])
    choose(page, "grey")
    greys = colours_of_cells(page)[0]
    assert (greys == greys[:, :1]).all()
    assert (np.diff(greys[:, 0].astype(int)) > 0).all()


def test_what_a_mask_hides_is_crossed_out_where_no_number_stands(shown):
    values = np.zeros((9, 9))
    values[0, 8] = -np.inf
    values[0, 0] = 1
    page = shown([matrix_panel(values, "scores", "abcdefghi", "abcdefghi", "query", "key", "score")])
    choose(page, "grey")
    dark = page.evaluate(
        """([[left, top], [width, height]]) => {
            const context = document.querySelector("canvas").getContext("2d");
            const { data } = context.getImageData(left + 8 * width, top, width - 1, height - 1);
            return data.filter((value, i) => i % 4 === 0 && value < 100).length;
        }""",
        [drawn(page)[0]["origin"], drawn(page)[0]["cell"]],
    )
    assert dark > drawn(page)[0]["cell"][1] / 2


def test_bars_follow_the_choice(shown):
    page = shown([bar_panel([1, 3], "parts", ["a", "b"], ["1", "3"], "bytes")])
    found = {}
    for choice in ("cividis", "viridis", "grey"):
        choose(page, choice)
        found[choice] = page.evaluate(
            "[...document.querySelector('canvas').getContext('2d').getImageData(20, 13, 60, 1).data]"
        )
    assert rgb("#0173b2") == most_saturated(found["cividis"])
    assert len({tuple(pixels) for pixels in found.values()}) == 3
    red, green, blue = most_saturated(found["grey"])
    assert red == green == blue


def most_saturated(pixels):
    colours = np.array(pixels).reshape(-1, 4)[:, :3].astype(int)
    return colours[np.argmax(colours.max(1) - colours.min(1))].tolist()


# Lines


def strength(page, query, key):
    """How far the middle of a line is from the colour of the page."""
    (panel,) = drawn(page)
    (left, top), (width, height) = panel["origin"], panel["cell"]
    x, y = left + width * 0.5, top + height * ((query + key) / 2 + 0.5)
    pixel = page.evaluate(
        "([x, y]) => [...document.querySelector('canvas').getContext('2d').getImageData(x, y, 1, 1).data]", [x, y]
    )
    return pixel[3]


@pytest.fixture
def three_lines(shown):
    """Lines that do not cross in the middle: 0 to 0, 1 to 1 and 3 to 3, of weight 1, 0.5 and 0.25."""
    return shown([line_panel(np.diag([1.0, 0.5, 0.0, 0.25]), "lines", ["a", "b", "c", "d"])])


def test_lines_are_the_stronger_the_greater_the_weight(three_lines):
    strengths = [strength(three_lines, i, i) for i in range(4)]
    assert strengths[0] > strengths[1] > strengths[3] > strengths[2] == 0


def test_the_query_that_is_pointed_at_shows_its_lines_and_lets_the_others_fade(three_lines):
    before = [strength(three_lines, i, i) for i in range(4)]
    (left, top), (width, height) = drawn(three_lines)[0]["origin"], drawn(three_lines)[0]["cell"]
    canvas = three_lines.locator("canvas")
    canvas.hover(position={"x": left - 10, "y": top + 3.5 * height})
    settled(three_lines)
    assert three_lines.locator(".readout").text_content() == "lines: query d → key d: weight 0.2500"
    assert strength(three_lines, 3, 3) > before[3]
    for other in (0, 1):
        assert 0 < strength(three_lines, other, other) < before[other] / 3
    canvas.hover(position={"x": left + width + 10, "y": top + 0.5 * height})  # a key: of the same query
    settled(three_lines)
    assert three_lines.locator(".readout").text_content() == "lines: query d → key a: weight 0.0000"
    three_lines.mouse.move(1, 1)
    settled(three_lines)
    assert [strength(three_lines, i, i) for i in range(4)] == before


def test_arrow_keys_choose_query_and_key_and_escape_lets_go(three_lines):
    before = [strength(three_lines, i, i) for i in range(4)]
    canvas = three_lines.locator("canvas")
    canvas.focus()
    for key, text in {
        "ArrowDown": "query b → key a: weight 0.0000",
        "ArrowRight": "query b → key b: weight 0.5000",
        "ArrowUp": "query a → key b: weight 0.0000",
    }.items():
        canvas.press(key)
        assert three_lines.locator(".readout").text_content() == f"lines: {text}"
    settled(three_lines)
    assert strength(three_lines, 1, 1) < before[1] / 3
    canvas.press("Escape")
    settled(three_lines)
    assert [strength(three_lines, i, i) for i in range(4)] == before
    assert three_lines.locator(".readout").text_content().startswith("Point at a token")


# Files


@pytest.mark.parametrize("dark", [False, True])
def test_a_png_is_the_whole_view_at_twice_the_resolution_on_the_colour_of_the_page(shown, dark):
    panels = weight_panels(np.stack([WEIGHTS, WEIGHTS[::-1]]), TOKENS)
    page = shown(panels, "A caption. " * 30, "heads & dimensions", dark=dark)
    name, data = saved(page, "PNG")
    assert name == "heads-dimensions.png"
    picture = Image.open(io.BytesIO(data)).convert("RGBA")
    pixels = np.asarray(picture)
    paper = [16, 20, 24] if dark else [255, 253, 248]
    assert (pixels[..., 3] == 255).all()
    assert pixels[0, 0, :3].tolist() == pixels[-1, -1, :3].tolist() == paper
    boxes = page.evaluate(
        """[...document.querySelectorAll("canvas")].map((canvas) => {
            const [box, holder] = [canvas, document.querySelector(".panels")].map((x) => x.getBoundingClientRect());
            return [box.x - holder.x, box.y - holder.y];
        })"""
    )
    for panel, said, (x, y) in zip(panels, drawn(page), boxes, strict=True):
        (left, top), (width, height) = said["origin"], said["cell"]
        for (i, j), colour in zip(np.ndindex(3, 3), expected_colours(panel, "cividis").reshape(-1, 3), strict=True):
            across, down = 12 + x + left + j * width + 2, 12 + y + top + i * height + 2
            assert pixels[round(2 * down), round(2 * across), :3].tolist() == colour.tolist()
    bottom = round(
        2 * (12 + max(y for _, y in boxes) + drawn(page)[0]["origin"][1] + 3 * drawn(page)[0]["cell"][1] + 4)
    )
    inked = np.abs(pixels[bottom:, :, :3].astype(int) - paper).max(-1) > 100
    assert inked.any(1).sum() > 2 * 2 * 8  # the caption, on several lines
    assert not inked[:, -20:].any()


def svg_of(page):
    name, data = saved(page, "SVG")
    assert name.endswith(".svg")
    return ElementTree.fromstring(data)


def test_an_svg_has_a_rectangle_for_each_cell_and_all_texts(shown):
    panels = weight_panels(WEIGHTS[None], TOKENS)
    page = shown(panels, "One.\nTwo.")
    page.locator("canvas").focus()  # the frame of a selected cell is no part of the picture
    root = svg_of(page)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {"svg", "title", "style", "g", "rect", "text"}
    fills = [element.get("fill") for element in root.iter(f"{SVG}rect") if element.get("fill") != "none"]
    expected = [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in expected_colours(panels[0], "cividis").reshape(-1, 3)]
    assert fills == ["#fffdf8", *expected]
    assert len(root.findall(f".//{SVG}rect")) == len(fills) + 1  # the outline
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts.count("猫") == texts.count('a "b", c') == texts.count("<img src…=hit=1>") == 2
    assert {"head 1", "One.", "Two.", "0.70", "key →", "← query"} <= set(texts)
    assert not [element for element in root.iter() for name in element.attrib if name.startswith("on")]


def test_an_svg_brings_its_chinese_glyphs_and_survives_characters_that_xml_forbids(shown):
    root = svg_of(shown(weight_panels(WEIGHTS[None], ["猫\x00", "\x1b]]>", "&amp;\ufffe"])))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"猫\ufffd", "\ufffd]]>", "&amp;\ufffd"} <= set(texts)
    style = root.find(f"{SVG}style").text
    family = re.search('font-family:"(.+?)"', style)[1]
    assert all(family in element.get("font-family") for element in root.iter(f"{SVG}text"))
    font = base64.b64decode(re.search('base64,([^"]+)', style)[1])
    assert font[:4] == b"OTTO"


def test_an_svg_of_lines_shows_the_query_that_was_clicked(shown):
    page = shown([line_panel(WEIGHTS, "lines", "abc")])
    lines = svg_of(page).findall(f".//{SVG}line")
    assert len(lines) == 8  # none for the weight of 0
    opacities = sorted(float(line.get("opacity", 1)) for line in lines)
    assert opacities == pytest.approx(sorted(weight for weight in WEIGHTS.flat if weight), abs=1e-3)
    (left, top), (_, height) = drawn(page)[0]["origin"], drawn(page)[0]["cell"]
    page.locator("canvas").click(position={"x": left - 5, "y": top + 1.5 * height})
    opacities = [float(line.get("opacity", 1)) for line in svg_of(page).findall(f".//{SVG}line")]
    assert sum(opacity >= 0.25 for opacity in opacities) == 2  # those of the second query


def test_a_csv_holds_each_number_exactly_and_each_label(shown):
    random = np.random.default_rng(0)
    many = random.dirichlet(np.ones(40), 40)
    whole = matrix_panel([[0, 12, -3]], "buckets", ["r"], "abc", "row", "column", "bucket")
    hidden = matrix_panel([[1e-30, -np.inf, 123456.789]], "scores", "q", "xyz", "query", "key", "score")
    panels = [*weight_panels(many[None], [f"猫{i}" for i in range(40)]), whole, hidden]
    name, data = saved(shown(panels, name="the scale √d_k"), "CSV")
    assert name == "the-scale-d-k.csv"
    assert data.startswith(b"\xef\xbb\xbf")
    header, *rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
    assert header == ["panel", "row", "column", "value"]
    expected = [
        (panel.title, row, column, panel.values[i, j])
        for panel in panels
        for i, row in enumerate(panel.row_labels)
        for j, column in enumerate(panel.column_labels)
    ]
    assert [tuple(row[:3]) for row in rows] == [cell[:3] for cell in expected]
    assert [np.float32(row[3]) for row in rows] == [np.float32(cell[3]) for cell in expected]
    assert max(len(row[3]) for row in rows) <= 16


FORMULAS = ["=1+1", "+1", "-2+3", "@SUM(A1)", "＝1+1", "\t=1", '=HYPERLINK("x","y")', "a=b", "a\nb", '"', "—"]


def test_no_label_of_a_csv_becomes_a_formula(shown):
    panels = weight_panels(np.full((1, 11, 11), 1 / 11), FORMULAS, titles=["=title"])
    _, data = saved(shown(panels), "CSV")
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True))
    assert {row["panel"] for row in rows} == {"'=title"}
    expected = [f"'{label}" for label in FORMULAS[:7]] + FORMULAS[7:]
    assert [row["column"] for row in rows[:11]] == [row["row"] for row in rows[::11]] == expected
    assert data.count(b"\r\n") == 1 + len(rows) and data.endswith(b"\r\n")


def test_files_without_a_name_are_called_after_the_caption(shown):
    page = shown(weight_panels(WEIGHTS[None]), "猫 <eats> ../fish: 100 %.")
    assert saved(page, "CSV")[0] == "猫-eats-fish-100.csv"
    page.evaluate("view.change('caption', '')")
    settled(page)
    assert saved(page, "CSV")[0] == "head-1.csv"


def test_what_a_saved_file_took_in_memory_is_given_back(shown):
    page = shown(weight_panels(WEIGHTS[None]))
    for kind in ("PNG", "SVG", "CSV"):
        saved(page, kind)
    page.wait_for_function("revoked.length === 3")
    assert page.locator("a").count() == 0
    assert page.complaints == page.strayed == []
