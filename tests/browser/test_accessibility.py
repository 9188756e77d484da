"""No serious complaint of axe-core about an explorer, in any theme; colours that can be chosen, none that is needed."""

import itertools

import pytest
from axe_playwright_python.sync_playwright import Axe

from attn_core.show.style import palette_colours

from .explorer_page import CASES, CORNERS, SHOWN, fresh
from .lab_page import set_theme

TWO_FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def examined(explorers):
    """All explorers as at the start with their tables open, and marked for axe by `data-examined`."""
    for name in CASES:
        box = fresh(explorers, name)
        box.locator("details.numbers summary").click()
        box.evaluate("(box) => { box.dataset.examined = true; }")
    return explorers


def serious(page):
    """What axe-core finds in the explorers that is serious or critical: rule and element."""
    found = Axe().run(page, "[data-examined]").response["violations"]
    grave = [violation for violation in found if violation["impact"] in ("serious", "critical")]
    return [(violation["id"], node["html"]) for violation in grave for node in violation["nodes"]]


def test_axe_finds_nothing_serious_in_an_explorer_in_any_theme(examined):
    found = {}
    for system, dark in itertools.product(("light", "dark"), (False, True)):
        examined.emulate_media(color_scheme=system)
        set_theme(examined, dark)
        examined.evaluate(TWO_FRAMES)
        found[system, dark] = serious(examined)
    examined.emulate_media(color_scheme="light")
    set_theme(examined, False)
    assert not any(found.values()), found


def test_axe_would_find_a_slider_without_a_name_in_each_of_them(examined):
    handles = examined.locator("[data-examined] .noUi-handle")
    for handle in handles.all():
        handle.evaluate("(handle) => handle.removeAttribute('aria-label')")
    assert [rule for rule, _ in serious(examined)] == ["aria-input-field-name"] * handles.count()


def test_other_colours_change_the_picture_and_no_number(explorers):
    box = fresh(explorers, "scale_explorer")
    colours = box.get_by_label("Colours")
    assert colours.input_value() == "cividis"  # told apart by colour-blind readers as well
    values, pictures = box.evaluate(SHOWN)["drawn"][0]["values"], {}
    for palette in colours.locator("option").all_inner_texts():
        colours.select_option(palette)
        explorers.evaluate(TWO_FRAMES)
        pictures[palette] = box.evaluate(CORNERS)[0]
        assert box.evaluate(SHOWN)["drawn"][0]["values"] == values
        known = [list(bytes.fromhex(colour[1:])) for colour in palette_colours(palette)]
        levels = [known.index(colour) for colour in pictures[palette]]
        assert all(abs(level - 255 * value) <= 1 for level, value in zip(levels, values, strict=True))
    assert len(pictures) >= 2
    assert len({str(picture) for picture in pictures.values()}) == len(pictures)
    colours.select_option("cividis")
