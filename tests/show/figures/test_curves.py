"""Curves with intervals show the numbers they are given."""

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest

from attn_core.show import interval_curves, style

LABELS = {"x_label": "length", "y_label": "accuracy"}


def table():
    rows = [
        ("short", 32, 0.9, 0.8, 1.0),
        ("short", 64, 0.5, 0.4, 0.7),
        ("long", 32, 0.7, 0.6, 0.8),
        ("long", 64, None, None, None),
    ]
    return pd.DataFrame(rows, columns=["kind", "length", "mean", "low", "high"])


def drawn(figure):
    return {container.get_label(): container for container in figure.axes[0].containers}


def test_each_kind_gets_a_curve_of_its_means():
    curves = drawn(interval_curves(table(), "length", "kind", **LABELS))
    assert list(curves) == ["short", "long"]
    assert curves["short"].lines[0].get_ydata().tolist() == [0.9, 0.5]


def test_bars_reach_from_low_to_high():
    bars = drawn(interval_curves(table(), "length", "kind", **LABELS))["short"].lines[2][0].get_segments()
    assert [sorted(bar[:, 1].round(6).tolist()) for bar in bars] == [[0.8, 1.0], [0.4, 0.7]]


def test_a_mean_that_is_not_there_is_left_out():
    curve = drawn(interval_curves(table(), "length", "kind", **LABELS))["long"].lines[0]
    assert curve.get_xdata().tolist() == pytest.approx([32], abs=0.2)


def test_none_is_a_kind_like_any_other():
    with_none = table().replace({"kind": {"long": None}})
    figure = interval_curves(with_none, "length", "kind", **LABELS)
    assert [len(curve.lines[0].get_xdata()) for curve in figure.axes[0].containers] == [2, 1]
    assert figure.alt.endswith("none: 32 0.70.")


def test_a_place_at_0_is_refused_on_a_logarithmic_axis():
    at_0 = table().replace({"length": {32: 0}})
    with pytest.raises(ValueError, match="on a logarithmic axis length must be above 0, got 0"):
        interval_curves(at_0, "length", "kind", log_x=True, **LABELS)


@pytest.mark.parametrize("places", [[None, 32, 64], ["32", "64", "128"]])
def test_places_that_are_no_numbers_are_refused(places):
    wrong = pd.DataFrame({"length": places, "kind": "a", "mean": 0.5, "low": 0.4, "high": 0.6})
    with pytest.raises(ValueError, match="length must hold a number for each mean, got"):
        interval_curves(wrong, "length", "kind", **LABELS)


@pytest.mark.parametrize(
    "column, value, options, message",
    [
        ("length", 0, {"log_x": True}, "on a logarithmic axis length must be above 0, got 0"),
        ("mean", 0, {"log_y": True}, "on a logarithmic axis mean must be above 0, got 0"),
        ("length", math.inf, {}, "length must hold a number for each mean, got inf"),
        ("mean", math.inf, {}, "mean must hold a number for each mean, got inf"),
        ("mean", "high", {}, "mean must hold a number for each mean, got 'high'"),
        ("low", "0.5", {}, "low must hold a number for each mean, got '0.5'"),
        ("low", 0.95, {}, "a mean must lie between low and high, got 0.9 beside 0.95 to 1"),
        ("high", 0.5, {}, "a mean must lie between low and high, got 0.9 beside 0.8 to 0.5"),
    ],
)
def test_what_no_axis_can_show_is_refused_with_its_value(column, value, options, message):
    wrong = table().astype({column: object})
    wrong.loc[0, column] = value
    with pytest.raises(ValueError, match=re.escape(message)):
        interval_curves(wrong, "length", "kind", **options, **LABELS)


def test_estimates_without_a_mean_are_refused():
    with pytest.raises(ValueError, match="the estimates have no mean"):
        interval_curves(table().assign(mean=None), "length", "kind", **LABELS)


@pytest.mark.parametrize("nothing", [None, math.nan, pd.NA])
def test_a_mean_without_an_interval_is_a_point_without_a_bar(nothing):
    open_ended = table().astype(object)
    open_ended.loc[0, ["low", "high"]] = nothing
    short = drawn(interval_curves(open_ended, "length", "kind", **LABELS))["short"]
    assert short.lines[0].get_ydata().tolist() == [0.9, 0.5]
    first, second = short.lines[2][0].get_segments()
    assert np.size(first) == 0 or np.isnan(first).any()
    assert sorted(second[:, 1].round(6)) == [0.4, 0.7]


@pytest.mark.parametrize("log_x", [False, True])
def test_names_of_places_do_not_stand_on_one_another(log_x):
    places = [2**i for i in range(12)]
    many = pd.DataFrame({"length": places, "kind": "a", "mean": 0.5, "low": 0.4, "high": 0.6})
    figure = interval_curves(many, "length", "kind", log_x=log_x, **LABELS)
    axis = figure.axes[0]
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in axis.get_xticklabels() if label.get_text()]
    assert all(before.x1 < after.x0 for before, after in itertools.pairwise(boxes))
    assert len(axis.get_xticks()) == 12 and len(boxes) == (12 if log_x else 6)


def test_long_texts_leave_room_for_the_curves_and_stay_on_the_figure():
    long = table().replace({"kind": {"long": "a name of a curve that goes on and on, " * 3}})
    labels = {"x_label": "a long name of an axis " * 9, "y_label": "accuracy of all of them " * 9}
    figure = interval_curves(long, "length", "kind", title="a title of many words " * 9, **labels)
    figure.draw_without_rendering()
    axis = figure.axes[0]
    assert axis.get_window_extent().width > 0.25 * figure.bbox.width
    for text in (axis.title, axis.xaxis.label, axis.yaxis.label, *figure.legends[0].get_texts()):
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1, text.get_text()
        assert figure.bbox.y0 <= box.y0 and box.y1 <= figure.bbox.y1, text.get_text()


@pytest.mark.parametrize("name", ["_hidden", "cost $5 to $6", "고양이"])
def test_the_legend_has_every_kind_whatever_its_name(name):
    figure = interval_curves(table().replace({"kind": {"long": name}}), "length", "kind", **LABELS)
    texts = figure.legends[0].get_texts()
    assert [text.get_text() for text in texts] == ["short", style.drawable(name)]
    assert not any(text.get_parse_math() for text in texts)


@pytest.mark.parametrize("log_x", [False, True])
def test_curves_stand_a_little_aside_of_one_another_so_that_no_bar_hides_another(log_x):
    curves = drawn(interval_curves(table(), "length", "kind", log_x=log_x, **LABELS)).values()
    first, second = (curve.lines[0].get_xdata()[0] for curve in curves)
    assert first < 32 < second
    assert second - first < 0.05 * (64 - 32)


def test_curves_differ_in_marker_and_colour():
    lines = [curve.lines[0] for curve in drawn(interval_curves(table(), "length", "kind", **LABELS)).values()]
    assert len({line.get_marker() for line in lines}) == len({line.get_color() for line in lines}) == 2


def test_guides_are_drawn_and_named():
    figure = interval_curves(table(), "length", "kind", guides=[("chance", [32, 64], [0.2, 0.1])], **LABELS)
    guides = [line for line in figure.axes[0].lines if line.get_label() == "chance"]
    assert list(guides[0].get_ydata()) == [0.2, 0.1]
    assert "chance" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_the_text_for_those_who_cannot_see_says_the_means():
    alt = interval_curves(table(), "length", "kind", title="Test", **LABELS).alt
    assert alt == "Test. accuracy against length. short: 32 0.90, 64 0.50. long: 32 0.70."


def test_missing_columns_get_a_sentence():
    with pytest.raises(ValueError, match="the estimates must have the columns low, got kind, length, mean, high"):
        interval_curves(table().drop(columns="low"), "length", "kind", **LABELS)


def test_more_kinds_than_markers_get_a_sentence():
    many = pd.concat([table().assign(kind=f"kind {i}") for i in range(13)])
    with pytest.raises(ValueError, match="at most 12 curves can be told apart, got 13"):
        interval_curves(many, "length", "kind", **LABELS)


def test_logarithmic_axes_keep_the_values_as_ticks():
    figure = interval_curves(table(), "length", "kind", log_x=True, log_y=True, **LABELS)
    axis = figure.axes[0]
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axis.get_xticklabels()] == ["32", "64"]
