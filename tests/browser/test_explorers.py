"""Every slider of every explorer, moved in the browser: the picture is what Python computes for what the page says."""

import math

import ipywidgets
import pytest

from attn_core.show import style
from attn_core.show.explorers.base import values_of

from .explorer_page import CASES, CORNERS, SHOWN, control_on_page, fresh, settings_shown, wait_until_right

SLIDERS = [
    (name, argument)
    for name, case in CASES.items()
    for argument, control in case.make().controls.items()
    if not isinstance(control, ipywidgets.Text)
]
# Of a long slider the first places one by one, then every fifth, then the last.
WAY = [("ArrowRight", 1)] * 9 + [("PageUp", 5)] * 6
HIDDEN = tuple(bytes.fromhex(style.HIDDEN[1:]))
STOPS = (0.0, 0.4, 1.0)  # where along its track a slider is dragged to


def moved_alike(explorer, argument, value):
    """Move a control in this process. Returns whether all the settings of a page have become those of this explorer."""
    explorer.controls[argument].value = value
    settings = explorer.settings
    return lambda shown: shown == settings


@pytest.mark.parametrize("name, argument", SLIDERS)
def test_a_slider_moved_by_keys_shows_what_python_computes(explorers, name, argument):
    box, explorer = fresh(explorers, name), CASES[name].make()
    places = values_of(explorer.controls[argument])
    control_on_page(box, explorer, argument).locator(".noUi-handle").focus()
    explorers.keyboard.press("Home")
    shown, _ = wait_until_right(box, name, moved_alike(explorer, argument, places[0]))
    place = 0
    for key, step in [*WAY, ("End", len(places))]:
        if place == len(places) - 1:
            break
        place = min(place + step, len(places) - 1)
        before = shown
        explorers.keyboard.press(key)
        shown, _ = wait_until_right(box, name, moved_alike(explorer, argument, places[place]))
        assert shown["frame"] > before["frame"]
    explorers.keyboard.press("ArrowRight")  # there is nothing beyond the end
    explorers.keyboard.press("ArrowLeft")
    wait_until_right(box, name, moved_alike(explorer, argument, places[-2]))


@pytest.mark.parametrize("name, argument", SLIDERS)
def test_a_slider_dragged_by_mouse_shows_what_python_computes_in_its_colours(explorers, name, argument):
    box, explorer = fresh(explorers, name), CASES[name].make()
    control = control_on_page(box, explorer, argument)
    places = values_of(explorer.controls[argument])
    for stop in STOPS:
        place = round(stop * (len(places) - 1))
        control.scroll_into_view_if_needed()
        drag(explorers, control, place / (len(places) - 1))
        there = settings_shown(explorer, box.evaluate(SHOWN)["controls"])[argument]
        assert abs(places.index(there) - place) <= len(places) / 100  # on long ones a pixel is more than a step
        shown, _ = wait_until_right(box, name, moved_alike(explorer, argument, there))
        assert wrong_colours(shown["drawn"], box.evaluate(CORNERS)) == []


def drag(page, control, share):
    handle, track = control.locator(".noUi-handle").bounding_box(), control.locator(".noUi-base").bounding_box()
    page.mouse.move(handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2)
    page.mouse.down()
    page.mouse.move(track["x"] + share * track["width"], track["y"] + track["height"] / 2, steps=4)
    page.mouse.up()


def wrong_colours(drawn, corners):
    """The cells of maps whose colour is not that of their value; either neighbour among the 256 levels will do."""
    wrong = []
    for panel, seen in zip(drawn, corners, strict=True):
        if panel["kind"] != "map":
            continue
        palette = [tuple(bytes.fromhex(colour[1:])) for colour in style.palette_colours(panel["palette"])]
        for place, (value, colour) in enumerate(zip(panel["values"], seen, strict=True)):
            if math.isinf(value):
                expected = {HIDDEN}
            else:
                level = 255 * (value - panel["low"]) / (panel["high"] - panel["low"])
                expected = {palette[i] for i in range(math.floor(level), math.ceil(level) + 1) if 0 <= i <= 255}
            if tuple(colour) not in expected:
                wrong.append((panel["title"], divmod(place, panel["columns"]), value, colour))
    return wrong
