"""Explorers without a kernel: their blocks hold what Python computes, for everything that they offer."""

import base64
import gzip
import json
import re

import ipywidgets as widgets
import numpy as np
import pytest

from attn_core.show import Explorer, matrix_panel, position_explorer, qkv_explorer, scale_explorer
from attn_core.show.explorers.base import Computed, Stored
from attn_core.show.offline.blocks import block
from attn_core.show.texts import Caption


def parts(text):
    """The header, the font and the values of a block, read as page.js reads them."""
    data = gzip.decompress(base64.b64decode(text))
    header, font = (int.from_bytes(data[at : at + 4], "little") for at in (0, 4))
    return json.loads(data[8 : 8 + header]), data[8 + header :][:font], np.frombuffer(data[8 + header + font :], "<f4")


def frames(text):
    """The settings, the panels and the caption of every stored frame."""
    header, _, values = parts(text)
    controls = header["controls"]
    for row in header["rows"]:
        places, caption, panels = row[: len(controls)], row[len(controls)], row[len(controls) + 1 :]
        settings = {named["argument"]: named["values"][place] for named, place in zip(controls, places, strict=True)}
        layouts = []
        for number in panels:
            layout = header["panels"][number].copy()
            layout |= {field: header["lists"][layout[field]] for field in header["shared"]}
            size = layout["rows"] * layout["columns"]
            layout["values"] = values[layout["offset"] :][:size].reshape(layout["rows"], layout["columns"])
            layouts.append(layout)
        yield settings, layouts, filled(header["captions"][caption], header["templates"])


def filled(described, templates):
    """A caption as frames.js makes it of the number of its template and its values."""
    if not isinstance(described, list):
        return described
    values = {name: filled(value, templates) for name, value in described[1].items()}
    return Caption(templates[described[0]], **values)


def squares(number: int, sign: str):
    if sign == "minus" and number > 2:
        raise ValueError(f"{number} is too great")
    value = number**2 if sign == "plus" else -(number**2)
    panel = matrix_panel([[value, 7.0]], f"square {number}", ["猫"], ["x", "y"], "row", "column", "value")
    return [panel], f"{sign}{number}"


def square_explorer():
    controls = {
        "number": widgets.IntSlider(value=2, min=1, max=4, description="the number"),
        "sign": widgets.SelectionSlider(options=["plus", "minus"], description="the sign"),
    }
    return Explorer("squares", controls, squares)


def offering(explorer, offer):
    explorer.offline = lambda: offer
    return explorer


def test_every_legal_frame_is_stored_as_computed():
    found = list(frames(block(square_explorer())))
    assert [(settings["number"], settings["sign"]) for settings, _, _ in found] == [
        (1, "plus"),
        (1, "minus"),
        (2, "plus"),
        (2, "minus"),
        (3, "plus"),
        (4, "plus"),
    ]
    for settings, (layout,), caption in found:
        (panel,), expected = squares(**settings)
        assert caption == expected
        assert np.array_equal(layout["values"], panel.values)
        assert (layout["title"], layout["row_labels"], layout["column_labels"]) == (panel.title, ["猫"], ["x", "y"])
        assert (layout["low"], layout["high"]) == panel.limits


def test_values_that_occur_twice_are_stored_once():
    header, _, values = parts(block(offering(scale_explorer(), Stored({"d_k": (64, 1)}))))
    # At d_k = 1 the division changes nothing: three maps of 12 tokens are left.
    assert len(values) == 3 * 144
    assert len(header["rows"]) == 2


def test_controls_are_described_with_what_they_offer_and_where_they_stand():
    header, font, _ = parts(block(square_explorer()))
    number, sign = header["controls"]
    assert (number["label"], number["kind"], number["values"], number["start"]) == (
        "the number",
        "slider",
        [1, 2, 3, 4],
        1,
    )
    assert (sign["texts"], sign["start"]) == (["plus", "minus"], 0)
    assert len(font) > 500  # of 猫, for systems without a Chinese font


@pytest.mark.parametrize(
    "slider, values, texts",
    [
        (
            widgets.FloatSlider(value=0.3, min=-0.2, max=0.3, step=0.1),
            [-0.2, -0.1, 0.0, 0.1, 0.2, 0.3],
            ["−0.20", "−0.10", "0.00", "0.10", "0.20", "0.30"],
        ),
        (
            widgets.FloatSlider(value=0.7, min=0.1, max=0.8, step=0.2, readout_format=".1f"),
            [0.1, 0.3, 0.5, 0.7],
            ["0.1", "0.3", "0.5", "0.7"],
        ),
        (widgets.IntSlider(value=-4, min=-7, max=1, step=3), [-7, -4, -1], ["−7", "−4", "−1"]),
    ],
)
def test_a_slider_offers_the_numbers_that_it_says_and_finds_its_own(slider, values, texts):
    explorer = Explorer("steps", {"number": slider}, lambda number: squares(number, "plus"))
    (control,) = parts(block(explorer))[0]["controls"]
    assert (control["values"], control["texts"]) == (values, texts)
    assert control["values"][control["start"]] == slider.value


def test_every_step_of_a_tenth_is_found():
    for tenths in range(101):
        slider = widgets.FloatSlider(value=tenths / 10, min=0, max=10, step=0.1)
        explorer = Explorer("steps", {"number": slider}, lambda number: squares(1, "plus"))
        assert parts(block(explorer))[0]["controls"][0]["start"] == tenths


def test_a_start_between_floats_is_found_and_one_that_is_not_on_offer_is_refused():
    slider = widgets.FloatSlider(value=0.1 + 0.2, min=0, max=1, step=0.1)
    explorer = Explorer("steps", {"number": slider}, lambda number: squares(1, "plus"))
    assert parts(block(explorer))[0]["controls"][0]["start"] == 3
    with pytest.raises(ValueError, match="number starts at 0.3.*, which is not on offer"):
        block(offering(explorer, Stored({"number": [0.1, 0.2]})))


def test_a_field_for_any_text_cannot_be_stored():
    explorer = Explorer("words", {"word": widgets.Text(value="a")}, lambda word: squares(1, "plus"))
    with pytest.raises(ValueError, match="word takes any text: say which texts are on offer"):
        block(explorer)


def test_numbers_of_numpy_and_beyond_those_of_javascript_go_into_captions():
    def compute(number):
        return squares(1, "plus")[0], Caption("{a} {b:.1f} {c:,}", a=np.int64(3), b=np.float32(0.5), c=2**60)

    explorer = Explorer("sizes", {"number": widgets.IntSlider(value=1, min=1, max=1)}, compute)
    header, _, _ = parts(block(explorer))
    assert header["captions"] == [[0, {"a": 3, "b": 0.5, "c": str(2**60)}]]


def test_a_value_that_is_never_legal_is_refused():
    offer = Stored({"d_model": (24, 128), "length": (24,), "base": (10000,), "pair": (1, 64)})
    with pytest.raises(ValueError, match="pair = 64 is on offer"):
        block(offering(position_explorer(), offer))


def test_an_error_of_the_function_that_is_no_refusal_is_not_hidden():
    explorer = square_explorer()
    explorer.compute = lambda number, sign: 1 / 0
    with pytest.raises(ZeroDivisionError):
        block(explorer)


def test_sentences_on_offer_become_a_choice_and_others_a_field():
    text = widgets.Text(value="a b", description="sentence")
    explorer = Explorer("words", {"sentence": text}, lambda sentence: squares(len(sentence), "plus"))
    (choice,) = parts(block(offering(explorer, Stored({"sentence": ["a", "a b"]}))))[0]["controls"]
    assert (choice["kind"], choice["texts"], choice["start"]) == ("choice", ["a", "a b"], 1)
    (field,) = parts(block(offering(explorer, Computed("any", {}))))[0]["controls"]
    assert (field["kind"], field["start"]) == ("text", "a b")


def test_the_same_explorer_gives_the_same_block():
    assert block(scale_explorer()) == block(scale_explorer())
    assert block(qkv_explorer()) == block(qkv_explorer())


def test_the_scale_explorer_offers_every_width():
    header, _, _ = parts(block(scale_explorer()))
    assert header["controls"][0]["values"] == list(range(1, 257))
    assert len(header["rows"]) == 256


def test_the_pieces_of_a_computed_explorer_hold_no_number_of_a_frame():
    header, _, values = parts(block(qkv_explorer()))
    assert header["function"] == "qkv" and values.size == 0
    assert header["pieces"]["caption"].count("{") == 4 and not re.search(r"\d\.\d{2}", header["pieces"]["caption"])
    start = {named["argument"]: named["values"][named["start"]] for named in header["controls"]}
    assert start == qkv_explorer().settings
