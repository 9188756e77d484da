import math

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from attn_core.course import show_claims
from attn_core.lab.intervals import SHARE, estimate, estimate_grid
from attn_core.show import show_table, tables


@pytest.fixture
def shown(monkeypatch):
    """What is displayed: a dict of forms for each table."""
    kept = []
    monkeypatch.setattr(tables, "display", lambda data, raw: kept.append(data))
    return kept


def cells(data):
    rows = BeautifulSoup(data["text/html"], "html.parser")("tr")
    return [[cell.get_text() for cell in row(["th", "td"])] for row in rows]


def test_the_html_has_the_cells_of_the_text(shown):
    show_table([{"code": "none", "d_k": 1, "loss": 0.25}, {"code": "rotary", "d_k": 1024, "loss": -1.0}])
    assert cells(shown[0]) == [["code", "d_k", "loss"], ["none", "1", "0.2500"], ["rotary", "1,024", "−1.0000"]]
    lines = [line.split() for line in shown[0]["text/plain"].splitlines()]
    assert [lines[0], *lines[2:]] == cells(shown[0])


@pytest.mark.parametrize(
    ("value", "form", "written"),
    [
        (12345, ".2f", "12,345"),
        (1 / 3, ".2f", "0.33"),
        (2.0, ".2f", "2.00"),
        (1e6, ",.0f", "1,000,000"),
        (-0.5, ".2f", "−0.50"),
        (True, ".2f", "True"),
        ("a", ".2f", "a"),
        (None, ".2f", ""),
        (math.nan, ".2f", ""),
        (math.inf, ".2f", "∞"),
        (estimate([0.25, 0.25]), ".2f", "0.25 [0.25, 0.25]"),
    ],
)
def test_a_value_is_written_in_the_form_that_its_kind_has(shown, value, form, written):
    show_table([{"value": value}], form)
    assert cells(shown[0])[1] == [written]


def test_a_numpy_number_is_written_as_pythons_is(shown):
    show_table(pd.DataFrame({"whole": [1000], "part": [0.5]}), ".1f")
    assert cells(shown[0])[1] == ["1,000", "0.5"]


def test_numbers_stand_at_the_right_and_texts_at_the_left(shown):
    show_table([{"name": "a", "n": 1, "mean": estimate([0.0, 1.0])}])
    sides = [cell["style"] for cell in BeautifulSoup(shown[0]["text/html"], "html.parser")("td")]
    assert sides == ["text-align: left", "text-align: right", "text-align: right"]


def test_a_readers_text_is_no_markup(shown):
    show_table([{"<i>": "<b> & $x$"}], title="<u>")
    assert cells(shown[0]) == [["<i>"], ["<b> & $x$"]]
    assert not BeautifulSoup(shown[0]["text/html"], "html.parser")(["i", "b", "u"])


def test_a_title_stands_above_both_forms(shown):
    show_table([{"n": 1}], title="loss by length")
    assert shown[0]["text/plain"].splitlines()[0] == "loss by length"
    assert BeautifulSoup(shown[0]["text/html"], "html.parser").caption.text == "loss by length"


def test_chinese_characters_take_the_room_of_two_letters_in_the_text(shown):
    show_table([{"word": "猫吃鱼", "n": 1}, {"word": "cat", "n": 2}])
    lines = shown[0]["text/plain"].splitlines()
    assert len(lines[2]) + 3 == len(lines[3])


def test_a_long_text_goes_on_in_the_next_line_of_its_column(shown):
    show_table([{"n": 1, "said": "word " * 30}])
    assert max(map(len, shown[0]["text/plain"].splitlines())) < 60
    assert cells(shown[0])[1][1].split() == ["word"] * 30


def test_a_named_index_becomes_columns_and_groups_make_a_grid_of_estimates(shown):
    runs = pd.DataFrame(
        [
            {"code": code, "length": length, "seed": seed, "right": share}
            for code, share in (("b", 0.5), ("a", 0.25))
            for length in (64, 8)
            for seed in range(3)
        ]
    )
    show_table(estimate_grid(runs, "code", "length", "right", SHARE), ".2f")
    assert cells(shown[0]) == [
        ["code", "64", "8"],
        ["b", "0.50 [0.50, 0.50]", "0.50 [0.50, 0.50]"],
        ["a", "0.25 [0.25, 0.25]", "0.25 [0.25, 0.25]"],
    ]


def test_claims_are_shown_in_words_with_a_stripe_of_the_colour_of_their_verdict(shown):
    show_claims(["scores", "qkv", "weights"])
    assert [row[-1] for row in cells(shown[0])] == ["verdict", "holds", "corrected", "corrected"]
    assert "scores" not in {cell for row in cells(shown[0]) for cell in row}
    styles = [cell["style"] for cell in BeautifulSoup(shown[0]["text/html"], "html.parser")("td")]
    stripes = [style for style in styles if "border-left" in style]
    assert len(stripes) == 3 and stripes[0] != stripes[1] == stripes[2]
