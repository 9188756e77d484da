"""What holds for every explorer that is exported: controls, moves, messages, texts, offline."""

import base64
import gc
import gzip
import inspect
import itertools
import json

import ipywidgets
import matplotlib.pyplot
import numpy as np
import pytest
import torch
from explorer_cases import EXPLORERS, make, pixels, settings_of
from ipywidgets.widgets.widget import _instances as widget_registry

from attn_core.show import Explorer, matrix_panel
from attn_core.show.offline.blocks import block


def choices_of(explorer):
    """The settings at the start, with every word that a slider of words can say."""
    words = {name: settings_of(c) for name, c in explorer.controls.items() if isinstance(c.value, str | bool)}
    words = {name: values for name, values in words.items() if isinstance(values, list)}
    for chosen in itertools.product(*words.values()):
        yield explorer.settings | dict(zip(words, chosen, strict=True))


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_compute_function_gives_the_same_whatever_the_random_state_and_leaves_it_alone(name):
    explorer = make(name)
    for settings in choices_of(explorer):
        torch.manual_seed(1)
        state = torch.get_rng_state()
        panels, caption = explorer.compute(**settings)
        assert torch.equal(torch.get_rng_state(), state)
        torch.manual_seed(2)
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            again, same_caption = explorer.compute(**settings)
        finally:
            torch.set_default_dtype(default)
        assert caption == same_caption
        for one, two in zip(panels, again, strict=True):
            assert one.values.tolist() == two.values.tolist()


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_control_says_what_it_is_and_feeds_an_argument(name):
    explorer = make(name)
    assert explorer.children == (*explorer.controls.values(), explorer.view)
    assert all(control.description for control in explorer.controls.values())
    arguments = inspect.signature(explorer.compute).parameters
    needed = {name for name, argument in arguments.items() if argument.default is argument.empty}
    assert needed <= set(explorer.controls) <= set(arguments)


@pytest.mark.parametrize("name", EXPLORERS)
def test_an_explorer_starts_with_what_its_controls_say(name):
    explorer = make(name)
    panels, caption = explorer.compute(**explorer.settings)
    assert explorer.view.caption == caption
    for shown, panel in zip(explorer.view.panels, panels, strict=True):
        assert np.array_equal(shown.values, panel.values)


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_control_can_be_moved_over_its_whole_range(name):
    explorer = make(name)
    for control in explorer.controls.values():
        for value in settings_of(control):
            control.value = value
            assert control.value == pytest.approx(value) if isinstance(value, float) else control.value == value
            assert explorer.view.problem == ""
        _, caption = explorer.compute(**explorer.settings)
        assert explorer.view.caption == caption


@pytest.mark.parametrize("name", EXPLORERS)
def test_the_view_shows_the_new_setting_after_a_move(name):
    for argument in make(name).controls:
        explorer = make(name)  # from the start each time: after other moves a control may have no say
        control = explorer.controls[argument]
        before = pixels(explorer)
        values = settings_of(control)
        control.value = values[0] if control.value != values[0] else values[1]
        assert pixels(explorer) != before


@pytest.mark.parametrize("name", EXPLORERS)
def test_random_moves_compute_once_each_only_what_is_legal_and_leave_no_figure_and_no_widget(name):
    explorer, asked, moves = make(name), [], 0
    compute = explorer.compute
    explorer.compute = lambda **settings: asked.append(settings) or compute(**settings)
    random, widgets = np.random.default_rng(0), len(widget_registry)
    for _ in range(300):
        control = explorer.controls[random.choice(list(explorer.controls))]
        values = settings_of(control)
        value = values[random.integers(len(values))]
        moves += value != control.value
        control.value = value
        assert explorer.view.problem == ""
        assert control.value == value
    assert len(asked) == moves  # also where other controls had to follow
    assert explorer.view.caption == compute(**explorer.settings)[1]
    gc.collect()
    assert len(widget_registry) == widgets
    assert matplotlib.pyplot.get_fignums() == []


def as_a_reader_moves(control):
    """Move a control to its second or last value, as a message of the browser does."""
    if isinstance(control, ipywidgets.SelectionSlider):
        control.set_state({"index": 1})
    elif isinstance(control, ipywidgets.Text):
        control.set_state({"value": "猫吃鱼"})
    else:
        control.set_state({"value": control.max})


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_move_of_the_reader_is_answered_with_one_picture_and_then_with_what_has_to_follow(name, messages):
    for argument in make(name).controls:
        explorer = make(name)
        control, senders = explorer.controls[argument], messages(explorer)
        before = [str(other.get_state()) for other in explorer.controls.values()]
        as_a_reader_moves(control)
        after = [str(other.get_state()) for other in explorer.controls.values()]
        changed = [c for c, was, now in zip(explorer.controls.values(), before, after, strict=True) if was != now]
        followers = [other for other in changed if other is not control]
        # Several of a list: the browser must know the new range before the new place of the handle.
        assert [sender for sender, _ in itertools.groupby(senders)] == [control, explorer.view, *followers]
        assert senders.count(explorer.view) == 1


@pytest.mark.parametrize("name", EXPLORERS)
def test_an_explorer_has_a_stable_text_and_a_picture(name):
    one, two = make(name), make(name)
    assert repr(one) == repr(two) == f"Explorer of {one.name}: {one.view.caption}"
    assert "0x" not in repr(one)
    data, metadata = one._repr_mimebundle_()
    assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json", "image/png"}
    assert data["text/plain"] == repr(one)
    assert len(metadata["image/png"]["alt"]) >= 20
    assert data["image/png"] == two._repr_mimebundle_()[0]["image/png"]


@pytest.mark.parametrize("name", EXPLORERS)
def test_an_explorer_runs_without_a_kernel_and_starts_there_as_it_does_with_one(name):
    explorer = make(name)
    data = gzip.decompress(base64.b64decode(block(explorer)))
    header = json.loads(data[8 : 8 + int.from_bytes(data[:4], "little")])
    starts = {c["argument"]: c["values"][c["start"]] if "values" in c else c["start"] for c in header["controls"]}
    assert starts == explorer.settings
    assert header["name"] == explorer.name


def fail_at_3(x):
    if x in ERRORS:
        raise ERRORS[x]
    if x == 4:
        return [], "nothing to see"
    return [matrix_panel([[x]], "value", "a", "b", "token", "dimension", "value")], f"x is {x}"


ERRORS = {
    3: ValueError("3 is out of order"),
    5: TypeError("5 is no word"),
    6: KeyError("x"),
    7: ZeroDivisionError("by 0"),
}


@pytest.mark.parametrize(
    "bad, reason, faulty",
    [
        (3, "This setting cannot be shown: 3 is out of order", False),
        (4, "This setting cannot be shown: there must be at least one panel", False),
        (5, "This setting cannot be shown: 5 is no word", False),
        (6, "The explorer has a fault, which its log describes: 'x'", True),
        (7, "The explorer has a fault, which its log describes: by 0", True),
    ],
)
def test_an_error_becomes_a_sentence_keeps_the_picture_goes_away_and_a_fault_reaches_the_log(
    bad, reason, faulty, caplog
):
    slider = ipywidgets.IntSlider(value=1, max=9, description="x")
    explorer = Explorer("a fault", {"x": slider}, fail_at_3)
    before, caption = pixels(explorer), explorer.view.caption
    slider.value = bad
    assert explorer.view.problem.startswith(reason)
    logged = [(record.name, record.levelname, record.exc_info[1]) for record in caplog.records]
    assert logged == ([("attn_core.show", "ERROR", ERRORS[bad])] if faulty else [])
    assert not faulty or f"the explorer of a fault fails at {{'x': {bad}}}" in caplog.text
    assert (pixels(explorer), explorer.view.caption) == (before, caption)
    assert explorer.view._repr_mimebundle_()
    slider.value = 2
    assert explorer.view.problem == ""
    assert explorer.view.caption == "x is 2"
