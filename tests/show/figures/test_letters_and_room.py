"""What a figure does with texts that fonts lack, that are read as formulas, or that do not fit their place."""

import gc
import warnings

import numpy as np
import pandas as pd
import pytest
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
    panel_figure,
    save,
    style,
)

WEIGHTS = torch.full((3, 3), 1 / 3)
LACKING = ["고양이", "बिल्ली", "นอน", "🙂", "\ue000"]


def curves(text):
    rows = {"x": [1, 2], "kind": text, "mean": 0.5, "low": 0.4, "high": 0.6}
    guides = [(text, [1, 2], [0.3, 0.3])]
    labels = {"x_label": text, "y_label": text, "title": text}
    return interval_curves(pd.DataFrame(rows), "x", "kind", guides=guides, **labels)


FIGURES = {
    "heatmap": lambda text: heatmap(WEIGHTS, [text, "a", "b"], title=text),
    "head_grid": lambda text: head_grid(WEIGHTS[None], [text, "a", "b"], titles=[text], title=text),
    "matrix": lambda text: panel_figure([matrix_panel(np.eye(2), text, [text, "a"], "ab", text, text, "value")]),
    "bars": lambda text: panel_figure([bar_panel([1, 2], text, [text, "a"], [text, "b"], "FLOPs")]),
    "lines": lambda text: panel_figure([line_panel(WEIGHTS, text, [text, "a", "b"])]),
    "wall": lambda text: map_wall(WEIGHTS[None, None], text),
    "curves": curves,
}


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
LONG = [f"internationalisation number {i}" for i in range(40)]


@pytest.mark.parametrize(
    "made",
    [
        lambda: head_grid(torch.full((12, 6, 6), 1 / 6), PIECES),
        lambda: heatmap(torch.full((40, 40), 1 / 40), LONG),
        lambda: head_grid(torch.full((4, 40, 40), 1 / 40), LONG),
        lambda: head_grid(torch.full((8, 3, 3), 1 / 3), titles=["a title that is far too long for one map"] * 8),
    ],
    ids=["twelve heads of pieces", "40 long words", "four heads of 40 long words", "long titles"],
)
def test_no_text_reaches_into_another_or_out_of_its_cell(made):
    figure = made()
    figure.draw_without_rendering()
    titles = [axis.title for axis in figure.axes]
    assert overlapping(boxes(figure, titles)) == []
    for axis in figure.axes:
        for labels in (axis.get_xticklabels(), axis.get_yticklabels()):
            assert overlapping(boxes(figure, labels)) == []
        cell = axis.transData.transform([[0, 0], [1, 1]])
        width, height = np.abs(cell[1] - cell[0])
        for box in boxes(figure, axis.texts):
            assert box.width <= width and box.height <= height


@pytest.mark.parametrize("lowest", [-1e9, torch.finfo(torch.float16).min, torch.finfo(torch.float32).min, -np.inf])
def test_a_score_that_a_mask_made_very_low_is_drawn_as_hidden_and_leaves_the_scale_alone(lowest):
    panel = matrix_panel([[1.0, lowest], [2.0, -3.0]], "scores", "ab", "ab", "query", "key", "score")
    assert panel.limits == (-3.0, 3.0)
    assert panel.values[0, 1] == -np.inf


def test_the_font_that_a_view_sends_leaves_no_file_open():
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        assert style.font_for("龘靐")
        gc.collect()
    assert [str(warning.message) for warning in told if warning.category is ResourceWarning] == []
