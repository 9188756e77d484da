"""Curves with intervals show the numbers they are given."""

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
