"""Numbers and captions: the same texts in Python and in JavaScript."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from attn_core import show
from attn_core.show.texts import MINUS, Caption, cell, number

FORMS = (".2f", ".4f", ",.2f", "short")


def many_numbers():
    """Ties of every form, their neighbours, zeros, what rounds to zero, and numbers of every size, with both signs."""
    random = np.random.default_rng(0)
    ties = [k / 2**digits for digits in range(1, 7) for k in range(0, 200, 3)]
    near = [math.nextafter(tie, side) for tie in ties for side in (-math.inf, math.inf)]
    decimals = [k / 1000 for k in range(0, 2000, 5)] + [k / 100_000 for k in range(0, 2000, 5)]
    large = [999.995, 999_999.995, 1e6, 2.0**52 + 0.5, 2.0**53, 1e20, 1e21, 1.5e300, 628_318.530718]
    spread = (10 ** random.uniform(-8, 12, 3000)).tolist()
    positive = [*ties, *near, *decimals, *large, *spread, 0.0, 1e-300]
    return positive + [-value for value in positive]


@pytest.mark.parametrize("form", FORMS)
def test_a_number_is_the_same_text_in_python_and_javascript(javascript, form):
    values = many_numbers()
    written = javascript("number", [[value, form] for value in values])
    wrong = [(v, number(v, form), text) for v, text in zip(values, written, strict=True) if number(v, form) != text]
    assert wrong == []


def test_whole_numbers_are_the_same_text_too_also_past_what_javascript_counts(javascript):
    values = [0, 7, 999, 1000, 123_456, 2**53, -5, -12_345, "79164837200896", str(2**70 + 1)]
    expected = [number(int(value), ",") for value in values]
    assert javascript("number", [[value, ","] for value in values]) == expected
    assert expected[-1] == f"{2**70 + 1:,}"


@pytest.mark.parametrize(
    "value, form, text",
    [
        (0.125, ".2f", "0.12"),  # exactly between: the even one, as Python prints it
        (0.375, ".2f", "0.38"),
        (-0.001, ".2f", "0.00"),
        (-0.0, ".4f", "0.0000"),
        (-1.5, ".2f", "−1.50"),
        (-1234.5, ",.2f", "−1,234.50"),
        (0.25, "short", "0.25"),
        (-4.0, "short", "−4"),
        (0.00001, "short", "0"),
        (math.inf, ".2f", "∞"),
        (-math.inf, ".2f", "−∞"),
    ],
)
def test_how_numbers_are_written(javascript, value, form, text):
    assert number(value, form) == text
    if math.isfinite(value):
        assert javascript("number", [[value, form]]) == [text]


def test_a_cell_of_a_figure_says_what_the_live_view_says_which_has_float32(javascript):
    values = [k / 1000 for k in range(1001)]
    assert [cell(value) for value in values] == javascript("number", [[float(np.float32(v)), ".2f"] for v in values])
    assert cell(0.155) == "0.16" != number(0.155)  # where it makes a difference


def test_a_caption_is_filled_alike_in_both(javascript):
    template = "{name}: {count} {count:head|heads}, {x:.4f} of {all:,} ({inner})"
    for count in (0, 1, 2):
        inner = Caption("about {share:.2f}%", share=12.125)
        caption = Caption(template, name="猫 {x}", count=count, x=-0.5, all=1_234_567, inner=inner)
        assert caption == f"猫 {{x}}: {count} head{'s' * (count != 1)}, −0.5000 of 1,234,567 (about 12.12%)"
        described = {"template": template, "values": {**caption.values, "inner": vars(inner)}}
        assert javascript("filled", [[described]]) == [caption]


def test_a_caption_is_a_text_that_remembers_its_template():
    caption = Caption("d_k = {d_k}", d_k=3)
    assert isinstance(caption, str) and (caption.template, caption.values) == ("d_k = {d_k}", {"d_k": 3})
    with pytest.raises(KeyError, match="width"):
        Caption("{width}")


def test_no_other_place_formats_numbers_for_readers():
    folder = Path(show.__file__).parent
    for file in folder.rglob("*.js"):
        if file.name not in ("texts.js", "files.js"):  # in files: for programs that read them
            assert not re.search(r"toFixed|toPrecision|toLocaleString", file.read_text(encoding="utf-8")), file.name
    for file in folder.rglob("*.py"):
        if file.name not in ("texts.py", "panels.py"):  # in panels: messages to programmers
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"\bf['\"].*\{[^{}'\"]*:[,.]\d?\w?\}", text), file.name
    assert MINUS == "\u2212"
