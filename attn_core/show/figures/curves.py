"""Curves with intervals: what several runs measured, by a setting and for each of several kinds."""

import itertools
import math
from collections.abc import Sequence
from numbers import Real

import numpy as np
import pandas as pd
import seaborn
from matplotlib import rc_context

from attn_core.show import style
from attn_core.show.figures.figure import CourseFigure, new_figure
from attn_core.show.figures.room import LINE, fitted, text_width, wrapped
from attn_core.show.texts import number, shortened

MARKERS = "osD^vP*Xd<>h"
SHIFT = 0.008  # from curve to curve, as a share of the x axis


def interval_curves(
    estimates: pd.DataFrame,
    x: str,
    by: str,
    *,
    x_label: str,
    y_label: str,
    title: str | None = None,
    guides: Sequence[tuple[str, Sequence[float], Sequence[float]]] = (),
    log_x: bool = False,
    log_y: bool = False,
    limits: tuple[float, float] | None = None,
) -> CourseFigure:
    """One curve of means for each value of `by`, with a bar for the interval; marker and colour
    tell them apart.

    The curves are moved sideways a little, so that no bar hides another.

    estimates: one row per point, with the columns x, by, mean, low and high; a mean that is not
    there is left out.
    guides: names with x and y values of lines to compare with, drawn grey and broken. limits: of
    the y axis.
    A mean without low or high has no bar.
    Raises ValueError for missing columns, more curves than markers, places that are no numbers, an
    interval without its mean, and what is 0 or less on a logarithmic axis.
    """
    if missing := [name for name in (x, by, "mean", "low", "high") if name not in estimates]:
        raise ValueError(f"the estimates must have the columns {', '.join(missing)}, got {', '.join(estimates)}")
    estimates = estimates[estimates["mean"].notna()]
    if estimates.empty:
        raise ValueError("the estimates have no mean, and at least one is needed")
    for name in (x, "mean", "low", "high"):
        estimates = estimates.assign(**{name: _numbers(estimates[name], may_be_missing=name in ("low", "high"))})
    for name, logarithmic in ((x, log_x), ("mean", log_y)):
        if logarithmic and not estimates[name].min() > 0:
            raise ValueError(f"on a logarithmic axis {name} must be above 0, got {estimates[name].min():g}")
    beside = estimates[(estimates["low"] > estimates["mean"]) | (estimates["high"] < estimates["mean"])]
    if len(beside):
        low, mean, high = beside[["low", "mean", "high"]].iloc[0]
        raise ValueError(f"a mean must lie between low and high, got {mean:g} beside {low:g} to {high:g}")
    groups = estimates.groupby(by, sort=False, dropna=False, observed=True)
    if len(groups) > len(MARKERS):
        raise ValueError(f"at most {len(MARKERS)} curves can be told apart, got {len(groups)}")
    places = sorted(set(estimates[x]))
    handles: list = []
    alt = _alt(estimates, x, by, x_label, y_label, title)
    # In the order in which they are drawn below.
    names = [_name(kind) for kind, _ in groups] + [name for name, *_ in guides]
    names = [shortened(style.drawable(name), style.BAR_LETTERS) for name in names]
    width = 6.2 - max(text_width(name, style.LABEL_SIZE) for name in names)  # inches that the axes have beside them
    title = wrapped(style.drawable(title or ""), width)
    with rc_context(style.literal()):
        figure, axis = new_figure(7.5, 4.2 + LINE * title.count("\n"), alt)
        colours = seaborn.color_palette(style.CURVES, len(MARKERS))
        for order, ((kind, points), marker, colour) in enumerate(zip(groups, MARKERS, colours, strict=False)):
            points = points.sort_values(x)
            bars = (points["mean"] - points["low"], points["high"] - points["mean"])
            aside = SHIFT * (order - (len(groups) - 1) / 2)
            first, last = places[0], places[-1]
            xs = points[x] * (last / first) ** aside if log_x else points[x] + (last - first) * aside
            look = {"label": _name(kind), "marker": marker, "color": colour, "capsize": 3, "ms": 6}
            handles.append(axis.errorbar(xs, points["mean"], bars, **look))
        for (name, xs, ys), line in zip(guides, itertools.cycle(["--", ":", "-."])):
            handles += axis.plot(xs, ys, line, color=style.GUIDE, label=name)
        if log_x:
            axis.set_xscale("log", base=2)
        if log_y:
            axis.set_yscale("log")
        axis.set_xticks(places, _apart(places, width, log_x))
        axis.minorticks_off()
        axis.set(xlabel=fitted(style.drawable(x_label), width), ylabel=fitted(style.drawable(y_label), 3.2))
        axis.set(title=title, ylim=limits)
        axis.grid(alpha=0.3)
        # Named here: matplotlib leaves out names that begin with an underscore where it collects them itself.
        figure.legend(handles, names, loc="outside right center", frameon=False)
    return figure


def _numbers(column: pd.Series, may_be_missing: bool) -> pd.Series:
    for value in column:
        missing = pd.isna(value)
        if missing and may_be_missing:
            continue
        if missing or isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise ValueError(f"{column.name} must hold a number for each mean, got {value!r}")
    return pd.to_numeric(column)


def _apart(places: Sequence[float], width: float, log_x: bool) -> list[str]:
    """The names of places, empty where one would stand on the one before."""
    scaled = np.log(places) if log_x else np.asarray(places)
    names, end = [], -math.inf
    for place, inches in zip(places, 0.9 * width * (scaled - scaled[0]) / (scaled[-1] - scaled[0] or 1), strict=True):
        name = number(place, ",")
        half = text_width(name, style.LABEL_SIZE) / 2
        names.append(name if inches - half > end else "")
        end = inches + half if names[-1] else end
    return names


def _name(kind: object) -> str:
    return "none" if pd.isna(kind) else str(kind)


def _alt(estimates: pd.DataFrame, x: str, by: str, x_label: str, y_label: str, title: str | None) -> str:
    parts = [f"{title}." if title else "", f"{y_label} against {x_label}."]
    for kind, points in estimates.groupby(by, sort=False, dropna=False, observed=True):
        values = ", ".join(
            f"{number(place, ',')} {number(mean)}" for place, mean in zip(points[x], points["mean"], strict=True)
        )
        parts.append(f"{_name(kind)}: {values}.")
    return " ".join(filter(None, parts))
