"""Everything in an explorer is reached by Tab, has a name and works by keys."""

import pytest
from playwright.sync_api import expect

from attn_core.show.texts import number

from .explorer_page import CASES, SHOWN, control_on_page, fresh, wait_until_right

# What a reader can act on, in the order of the page.
ACTIVE = "[role=slider], [role=textbox], input, canvas, select, button, summary"
FOCUSED = """(box) => [...box.querySelectorAll("{}")].indexOf(document.activeElement)""".replace("{}", ACTIVE)


def spoken(page):
    """Role and name of the focused element, as the browser tells them to a screen reader."""
    session = page.context.new_cdp_session(page)
    found = session.send("Runtime.evaluate", {"expression": "document.activeElement"})
    (node,) = session.send(
        "Accessibility.getPartialAXTree", {"objectId": found["result"]["objectId"], "fetchRelatives": False}
    )["nodes"]
    session.detach()
    return node["role"]["value"], node["name"]["value"]


@pytest.mark.parametrize("name", CASES)
def test_tab_visits_everything_in_order_and_all_of_it_has_a_name_of_its_own(explorers, name):
    box = fresh(explorers, name)
    box.locator(ACTIVE).first.focus()
    names = []
    for place in range(box.locator(ACTIVE).count()):
        assert box.evaluate(FOCUSED) == place
        names.append(spoken(explorers))
        explorers.keyboard.press("Tab")
    assert box.evaluate(FOCUSED) == -1  # Tab leads out again
    assert all(said.strip() for _, said in names), names
    assert len(set(names)) == len(names), names
    explorer = CASES[name].make()
    assert {control.description for control in explorer.controls.values()} <= {said for _, said in names}


@pytest.mark.parametrize("name", CASES)
def test_arrow_keys_on_a_picture_read_its_numbers(explorers, name):
    box = fresh(explorers, name)
    panel = box.evaluate(SHOWN)["drawn"][0]
    box.locator("canvas").first.focus()
    seen = []
    for key in ("ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"):
        explorers.keyboard.press(key)
        seen.append(box.locator(".readout").inner_text())
    assert all(text.startswith(panel["title"] + ": ") for text in seen)
    places = [(1, 0), (1, 1), (0, 1), (0, 0)]
    for text, (row, column) in zip(seen, places, strict=True):
        row, column = min(row, panel["rows"] - 1), min(column, panel["columns"] - 1)
        assert panel["rowLabels"][row] in text
        if panel["kind"] == "map":
            value = number(panel["values"][row * panel["columns"] + column], ".4f")
            assert panel["columnLabels"][column] in text
            assert text.endswith(value), (text, value)


def test_a_slider_over_a_list_says_the_entry_and_not_its_number(explorers):
    box, explorer = fresh(explorers, "cost_explorer"), CASES["cost_explorer"].make()
    handle = control_on_page(box, explorer, "seq_len").locator(".noUi-handle")
    handle.focus()
    explorers.keyboard.press("ArrowRight")
    wait_until_right(box, "cost_explorer", lambda settings: settings["seq_len"] == 2048)
    assert handle.get_attribute("aria-valuetext") == "2,048"


def test_sliders_that_follow_another_say_their_entry_too(explorers):
    box, explorer = fresh(explorers, "cost_explorer"), CASES["cost_explorer"].make()
    control_on_page(box, explorer, "num_heads").locator(".noUi-handle").focus()
    explorers.keyboard.press("ArrowLeft")
    wait_until_right(box, "cost_explorer", lambda settings: settings["num_heads"] == 4)
    follower = control_on_page(box, explorer, "num_kv_heads")
    assert follower.locator(".widget-readout").inner_text() == "4"
    expect(follower.locator(".noUi-handle")).to_have_attribute("aria-valuetext", "4")


def test_buttons_choices_and_the_table_work_by_keys(explorers):
    box = fresh(explorers, "scale_explorer")
    for kind in ("PNG", "SVG", "CSV"):
        box.get_by_role("button", name=f"as {kind}").focus()
        with explorers.expect_download() as download:
            explorers.keyboard.press("Enter")
        assert download.value.suggested_filename.endswith("." + kind.lower())
    colours = box.get_by_label("Colours")
    colours.focus()
    before = colours.input_value()
    explorers.keyboard.press("ArrowDown")
    assert colours.input_value() != before
    table = box.locator("details.numbers")
    table.locator("summary").focus()
    explorers.keyboard.press("Enter")
    expect(table.locator("td")).to_have_count(12 * 12)  # filled only once it is open
    explorers.keyboard.press("Enter")
    assert table.get_attribute("open") is None
