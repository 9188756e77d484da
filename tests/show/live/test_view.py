"""The live view: what it sends to the browser, its text, and the picture for pages without a kernel."""

import base64
import re

import numpy as np
import pytest

from attn_core.show import AttentionView, head_explorer, matrix_panel
from attn_core.show.panels import weight_panels
from attn_core.show.scripts import LIVE, joined, view_script
from attn_core.show.style import CHOICES

SCRIPT = joined(LIVE)
STYLE = str(AttentionView._css)
WEIGHTS = np.array([[[0.25, 0.75, 0.0], [0.5, 0.25, 0.25]], [[1.0, 0.0, 0.0], [0.0, 0.125, 0.875]]])


def two_maps():
    return weight_panels(WEIGHTS, ["猫", "吃"], ["a", "b", "c"])


def decoded(view):
    """The arrays that the browser sees, read as view.js reads them: little-endian float32, from each panel's offset."""
    numbers = np.frombuffer(view.values, "<f4")
    return [
        numbers[panel["offset"] : panel["offset"] + panel["rows"] * panel["columns"]].reshape(
            panel["rows"], panel["columns"]
        )
        for panel in view.panel_layout
    ]


def test_the_bytes_are_the_values_of_the_panels():
    panels = [*two_maps(), matrix_panel([[1.5, -np.inf, 3.0]], "scores", "q", "xyz", "query", "key", "score")]
    shown = decoded(AttentionView(panels))
    assert len(shown) == 3
    for array, panel in zip(shown, panels, strict=True):
        assert np.array_equal(array, panel.values)


def test_the_layout_names_rows_columns_and_scale():
    first = AttentionView(two_maps()).panel_layout[0]
    assert first["row_labels"] == ["猫", "吃"]
    assert first["column_labels"] == ["a", "b", "c"]
    assert (first["row_name"], first["column_name"], first["unit"]) == ("query", "key", "weight")
    assert (first["low"], first["high"], first["palette"]) == (0, 1, "cividis")


def test_every_palette_in_use_is_sent_with_256_colours():
    view = AttentionView([*two_maps(), matrix_panel([[1.0]], "value", "a", "x", "token", "dimension", "value")])
    for panel in view.panel_layout:
        colours = view.palettes[panel["palette"]]
        assert len(colours) == 256
        assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in colours)


def test_new_panels_replace_the_old_ones():
    view = AttentionView(two_maps())
    view.panels = weight_panels([[[1.0]]])
    assert len(view.panels) == len(view.panel_layout) == 1
    assert decoded(view)[0].tolist() == [[1.0]]


def test_new_panels_are_one_message(monkeypatch):
    view = AttentionView(two_maps())
    sent = []
    monkeypatch.setattr(view.comm, "send", lambda data=None, **rest: sent.append(data))
    view.panels = weight_panels(WEIGHTS[:, :, :2] / 2, ["b", "c"])
    assert len(sent) == 1
    names = {*sent[0]["state"], *(path[0] for path in sent[0]["buffer_paths"])}
    assert {"panel_layout", "values"} <= names
    assert "palettes" not in names


def test_no_panels_are_refused_and_the_old_ones_stay():
    view = AttentionView(two_maps())
    before = (view.values, view.panel_layout, view.panels)
    with pytest.raises(ValueError, match="at least one panel"):
        view.panels = []
    assert (view.values, view.panel_layout, view.panels) == before
    with pytest.raises(ValueError, match="at least one panel"):
        AttentionView([])


def test_its_text_is_the_same_each_time_and_has_no_address():
    for caption, text in (("Two heads.", "AttentionView: Two heads."), ("", "AttentionView: head 1, head 2")):
        one, two = AttentionView(two_maps(), caption), AttentionView(two_maps(), caption)
        assert repr(one) == repr(two) == text
        assert "0x" not in repr(one)
        assert one._repr_mimebundle_()[0]["text/plain"] == text


def test_pages_without_a_kernel_get_a_picture_with_its_text():
    data, metadata = AttentionView(two_maps())._repr_mimebundle_()
    assert set(data) == {"text/plain", "application/vnd.jupyter.widget-view+json", "image/png"}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert "猫 to b 0.75" in metadata["image/png"]["alt"]


def test_the_picture_is_the_one_of_the_moment():
    view = AttentionView(two_maps())
    view.panels = weight_panels(WEIGHTS[:1, :, [1, 0, 2]], ["猫", "吃"], ["a", "b", "c"])
    assert "猫 to a 0.75" in view._repr_mimebundle_()[1]["image/png"]["alt"]


def test_the_script_and_the_style_load_nothing():
    script = SCRIPT.replace('const SVG = "http://www.w3.org/2000/svg"', "")  # a name, not an address
    for forbidden in (r"\bimport\b", r"\bfetch\b", "https?:", "XMLHttpRequest", "WebSocket", r"\beval\b", "innerHTML"):
        assert not re.search(forbidden, script), forbidden
    for forbidden in (r"url\(", "@import", "https?:"):
        assert not re.search(forbidden, STYLE), forbidden


def test_the_script_and_the_style_come_with_the_package():
    view = AttentionView(two_maps())
    assert view._esm == view_script() and view._esm.startswith(SCRIPT)
    assert view._css == STYLE and ".attention-view canvas" in STYLE


def test_every_trait_that_the_script_reads_is_sent():
    view = AttentionView(two_maps())
    read = set(re.findall(r'model\.get\("(\w+)"\)', SCRIPT))
    assert {"values", "panel_layout", "palettes", "caption", "problem", "name"} <= read <= set(view.keys)
    made_there = {"values", "rowTexts", "columnTexts", "barTexts", "rowName", "columnName", "numbers"}
    made_there |= {"cell", "origin", "size", "slanted", "left", "bar"}
    for field in set(re.findall(r"\bpanel\.(\w+)", SCRIPT)) - made_there:
        assert field in view.panel_layout[0], field


def test_every_palette_that_the_script_offers_is_sent():
    replacing = {name for choice in CHOICES.values() for name in choice["palettes"].values()}
    assert replacing == {"viridis", "BrBG", "grey"}
    assert replacing | {"cividis", "PuOr"} == set(AttentionView(two_maps()).palettes)


@pytest.mark.parametrize("palette", ["cividis", "viridis", "grey"])
def test_palettes_of_weights_grow_lighter_at_every_step(palette):
    colours = AttentionView(two_maps()).palettes[palette]
    red, green, blue = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in colours]).T
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    assert (luminance[8:] > luminance[:-8]).all()


def test_a_view_has_the_name_of_what_is_explored():
    assert AttentionView(two_maps(), name="heads").name == "heads"
    assert head_explorer().view.name == "heads and dimensions"
