"""Curves with intervals: what several runs measured, by a setting and for each of several kinds."""

import itertools
from collections.abc import Sequence

import pandas as pd
import seaborn
from matplotlib import rc_context

from attn_core.show import style
from attn_core.show.figures.figure import CourseFigure, new_figure
from attn_core.show.texts import number

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
    Raises ValueError for missing columns or more curves than markers.
    """
    if missing := [name for name in (x, by, "mean", "low", "high") if name not in estimates]:
        raise ValueError(f"the estimates must have the columns {', '.join(missing)}, got {', '.join(estimates)}")
    groups = estimates.groupby(by, sort=False, dropna=False, observed=True)
    if len(groups) > len(MARKERS):
        raise ValueError(f"at most {len(MARKERS)} curves can be told apart, got {len(groups)}")
    figure, axis = new_figure(7.5, 4.2, _alt(estimates, x, by, x_label, y_label, title))
    with rc_context(style.rc_params()):
        places = sorted(set(estimates[x]))
        colours = seaborn.color_palette(style.CURVES, len(MARKERS))
        for order, ((kind, points), marker, colour) in enumerate(zip(groups, MARKERS, colours, strict=False)):
            points = points[points["mean"].notna()].sort_values(x)
            bars = (points["mean"] - points["low"], points["high"] - points["mean"])
            aside = SHIFT * (order - (len(groups) - 1) / 2)
            first, last = (limit(place for place in places if place > 0 or not log_x) for limit in (min, max))
            xs = points[x] * (last / first) ** aside if log_x else points[x] + (last - first) * aside
            axis.errorbar(xs, points["mean"], bars, label=kind, marker=marker, color=colour, capsize=3, ms=6)
        for (name, xs, ys), line in zip(guides, itertools.cycle(["--", ":", "-."])):
            axis.plot(xs, ys, line, color=style.GUIDE, label=name)
        if log_x:
            axis.set_xscale("log", base=2)
        if log_y:
            axis.set_yscale("log")
        axis.set_xticks(places, [number(place, ",") for place in places])
        axis.minorticks_off()
        axis.set(xlabel=x_label, ylabel=y_label, title=title or "", ylim=limits)
        axis.grid(alpha=0.3)
        figure.legend(loc="outside right center", frameon=False)
    return figure


def _alt(estimates: pd.DataFrame, x: str, by: str, x_label: str, y_label: str, title: str | None) -> str:
    parts = [f"{title}." if title else "", f"{y_label} against {x_label}."]
    for kind, points in estimates[estimates["mean"].notna()].groupby(by, sort=False, dropna=False, observed=True):
        values = ", ".join(
            f"{number(place, ',')} {number(mean)}" for place, mean in zip(points[x], points["mean"], strict=True)
        )
        parts.append(f"{kind}: {values}.")
    return " ".join(filter(None, parts))
