"""What a figure does with texts that fonts lack, that are read as formulas, or that do not fit their place."""

import gc
import warnings
from operator import attrgetter

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
import regex
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from attn_core.show import (
    bar_panel,
    head_grid,
    heatmap,
    interval_curves,
    line_panel,
    map_wall,
    matrix_panel,
    new_figure,
    panel_figure,
    save,
    style,
)
from attn_core.show.texts import shortened

WEIGHTS = torch.full((3, 3), 1 / 3)
LACKING = ["고양이", "बिल्ली", "นอน", "🙂", "\ue000"]


def curves(text):
    rows = {"x": [1, 2], "kind": text, "mean": 0.5, "low": 0.4, "high": 0.6}
    guides = [(text, [1, 2], [0.3, 0.3])]
    labels = {"x_label": text, "y_label": text, "title": text}
    return interval_curves(pd.DataFrame(rows), "x", "kind", guides=guides, **labels)


def own(text):
    """What somebody draws who writes past the functions of the course."""
    figure, axis = new_figure(3, 2, f"a line named {text}")
    axis.plot([0, 1], [0, 1], label=text)
    axis.set_xticks([0, 1], [text, "b"], parse_math=False)
    axis.text(0.5, 0.5, text, parse_math=False)
    axis.legend().get_texts()[0].set_parse_math(False)
    return figure


FIGURES = {
    "heatmap": lambda text: heatmap(WEIGHTS, [text, "a", "b"], title=text),
    "head_grid": lambda text: head_grid(WEIGHTS[None], [text, "a", "b"], titles=[text], title=text),
    "matrix": lambda text: panel_figure([matrix_panel(np.eye(2), text, [text, "a"], "ab", text, text, "value")]),
    "bars": lambda text: panel_figure([bar_panel([1, 2], text, [text, "a"], [text, "b"], "FLOPs")]),
    "lines": lambda text: panel_figure([line_panel(WEIGHTS, text, [text, "a", "b"])]),
    "wall": lambda text: map_wall(WEIGHTS[None, None], text),
    "curves": curves,
    "one's own": own,
}
INVISIBLE = ["\ufeffa", "a\u200b", "猫\u2060\u00ad", "\u200b", "\ufe0f", "a\U000e0100", "\n"]


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("text", INVISIBLE, ids=ascii)
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_what_nobody_sees_stops_no_file(figure, text, ending, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(FIGURES[figure](text), tmp_path / f"picture.{ending}")


@pytest.mark.parametrize("text", INVISIBLE, ids=ascii)
def test_no_label_is_blank_where_there_is_a_token(text):
    figure = heatmap(WEIGHTS, [text, "a", "b"])
    shown = figure.axes[0].get_yticklabels()[0].get_text()
    assert shown.strip() and not regex.search(r"\p{Default_Ignorable_Code_Point}", shown)


def test_a_figure_of_pyplot_is_saved_in_letters_that_the_fonts_have_too(tmp_path):
    figure, axis = matplotlib.pyplot.subplots()
    axis.set_title("猫 고양이")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(figure, tmp_path / "picture.png")
    matplotlib.pyplot.close(figure)
    assert axis.get_title() == "猫 GoYangI"


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("text", LACKING)
def test_letters_that_no_font_has_get_a_readable_stand_in_without_a_warning(figure, text, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = FIGURES[figure](text)
        save(made, tmp_path / "picture.pdf")
        made._repr_mimebundle_()
    shown = [part.get_text() for part in made.findobj(Text)]
    assert style.drawable(text) in shown and text not in shown
    assert text in made.alt


def test_stand_ins_keep_tokens_apart_and_known_letters_as_they_are():
    assert style.drawable("고양이 猫 √d_k é") == "GoYangI 猫 √d_k é"
    assert len({style.drawable(text) for text in LACKING}) == len(LACKING)
    assert style.drawable("\ue000") == "U+E000"


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("text", ["cost $5 to $6", "$x$ and $"])
def test_a_readers_dollar_sign_is_no_formula(figure, text, tmp_path):
    made = FIGURES[figure](text)
    save(made, tmp_path / "picture.svg")
    found = [part for part in made.findobj(Text) if part.get_text() == text]
    assert found and not any(part.get_parse_math() for part in found)


def boxes(figure, texts):
    renderer = FigureCanvasAgg(figure).get_renderer()
    return [text.get_window_extent(renderer) for text in texts if text.get_text() and text.get_visible()]


def overlapping(found):
    shrunk = [box.shrunk(0.98, 0.9) for box in found]
    return [(a, b) for i, a in enumerate(shrunk) for b in shrunk[i + 1 :] if a.overlaps(b)]


PIECES = ["[CLS]", "antidisestablish", "##ment", "##arianism", ".", "[SEP]"]
LARGE = np.linspace(-1e7, 1e7, 16).reshape(4, 4) ** 3 / 1e12
LONG = [f"internationalisation number {i}" for i in range(40)]


@pytest.mark.parametrize(
    "made",
    [
        lambda: head_grid(torch.full((12, 6, 6), 1 / 6), PIECES),
        lambda: heatmap(torch.full((40, 40), 1 / 40), LONG),
        lambda: head_grid(torch.full((4, 40, 40), 1 / 40), LONG),
        lambda: head_grid(torch.full((8, 3, 3), 1 / 3), titles=["a title that is far too long for one map"] * 8),
        lambda: head_grid(torch.full((8, 8, 8), 1 / 8)),
        lambda: heatmap(torch.full((8, 8), 1 / 8), ["国际化"] * 8, title="一个很长的标题" * 9),
        lambda: panel_figure([line_panel(torch.full((40, 40), 1 / 40), "lines of long words", LONG)]),
        lambda: panel_figure(
            [bar_panel([1, 2], "long bars " * 9, [LONG[0] * 3, "a"], [LONG[1] * 3, "b"], "FLOPs")] * 2
        ),
        lambda: panel_figure([matrix_panel(LARGE, LONG[0], "abcd", "abcd", LONG[1], LONG[2], "value")] * 4),
        lambda: panel_figure([matrix_panel(LARGE[:1], "row", "a", "abcd", LONG[1] * 2, LONG[2] * 3, "value")] * 4),
        lambda: map_wall(torch.full((2, 64, 3, 3), 1 / 3), "a wall of many heads " * 9),
    ],
    ids=["pieces", "words", "heads", "titles", "8 tokens", "Chinese", "lines", "bars", "numbers", "names", "wall"],
)
def test_no_text_reaches_into_another_or_out_of_its_cell(made):
    figure = made()
    figure.draw_without_rendering()
    axes = [axis for axis in figure.axes if axis.axison]
    for kind in ("title", "xaxis.label", "yaxis.label"):
        assert overlapping(boxes(figure, map(attrgetter(kind), axes))) == [], kind
    for box in boxes(figure, [*figure.texts, *(text for axis in axes for text in axis.findobj(Text))]):
        assert box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
    rows = [label for axis in axes for label in axis.get_yticklabels()]
    columns = [label for axis in axes for label in axis.get_xticklabels()]
    assert overlapping(boxes(figure, rows)) == overlapping(boxes(figure, columns)) == []
    for axis in axes:
        if not axis.collections:
            continue  # bars and walls have no numbers in cells
        cell = axis.transData.transform([[0, 0], [1, 1]])
        width, height = np.abs(cell[1] - cell[0])
        for box in boxes(figure, axis.texts):
            assert box.width <= width and box.height <= height


def test_a_number_that_no_cell_can_hold_is_left_out_and_the_others_stand():
    axis = panel_figure([matrix_panel([[1.0, 1e12]], "large", "a", "xy", "row", "column", "value")]).axes[0]
    assert [text.get_text() for text in axis.texts] == ["1.00"]


def test_a_label_loses_its_middle_the_same_way_in_the_live_view(javascript):
    texts = [*LONG, *LACKING, "", "a" * 16, "a" * 17, "一" * 40, "one\ntwo", "\U00020000" * 30]
    calls = [[text, most] for text in texts for most in (style.LABEL_LETTERS, style.BAR_LETTERS)]
    assert javascript("shortened", calls) == [shortened(*call) for call in calls]
    assert shortened("antidisestablishmentarianism", 16) == "antidise…rianism"


def layout(values, row_labels, kind="map", texts=()):
    rows, columns = np.shape(values)
    names = {"row_labels": row_labels, "column_labels": ["x"] * columns, "row_name": LONG[0], "column_name": LONG[1]}
    sizes = {"rows": rows, "columns": columns, "stretch": [1, 1], "values": np.ravel(values).tolist()}
    return {"kind": kind, "texts": list(texts), **names, **sizes}


def test_numbers_of_the_live_view_stand_only_where_they_fit_and_its_labels_are_short(javascript):
    numbers = layout([[0.5, -1.25], [1e6, 12.5]], [LONG[0], "b"])
    bars = layout([[1.0], [2.0]], [LONG[0] * 3, "b"], "bars", [LONG[1] * 3, "2"])
    arranged = "((layout) => arrange(layout, { measureText: (text) => ({ width: 7 * text.length }) }, 900))"
    (drawn,), (beside,) = javascript(arranged, [[[numbers]], [[bars]]])
    assert drawn["numbers"] == ["0.50", "−1.25", "", "12.50"]
    assert drawn["rowTexts"] == [shortened(LONG[0], 16), "b"]
    assert drawn["rowName"] == shortened(LONG[0], 16)
    assert drawn["origin"][1] + 2 * drawn["cell"][1] >= 7 * len("← " + drawn["rowName"])
    assert drawn["size"][0] - drawn["origin"][0] >= 7 * len(drawn["columnName"] + " →")
    assert beside["rowTexts"] == [shortened(LONG[0] * 3, 40), "b"]
    assert beside["barTexts"] == [shortened(LONG[1] * 3, 40), "2"]


@pytest.mark.parametrize(
    "lowest", [-9_997.5, -1e9, torch.finfo(torch.float16).min, torch.finfo(torch.float32).min, -np.inf]
)
def test_a_score_that_a_mask_made_very_low_is_drawn_as_hidden_and_leaves_the_scale_alone(lowest):
    panel = matrix_panel([[1.0, lowest], [2.0, -3.0]], "scores", "ab", "ab", "query", "key", "score")
    assert panel.limits == (-3.0, 3.0)
    assert panel.values[0, 1] == -np.inf


def test_scores_that_are_all_large_are_drawn_as_they_are():
    panel = matrix_panel([[3e4, -2e4], [1e4, -5e4]], "scores", "ab", "ab", "query", "key", "score")
    assert panel.values.min() == -5e4


def test_the_font_that_a_view_sends_leaves_no_file_open():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        assert style.font_for("龘靐")
        gc.collect()
    assert [str(warning.message) for warning in told if warning.category is ResourceWarning] == []
