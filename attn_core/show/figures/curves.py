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
    Raises ValueError for missing columns, more curves than markers, places that are no numbers, and
    places of 0 or less on a logarithmic axis.
    """
    if missing := [name for name in (x, by, "mean", "low", "high") if name not in estimates]:
        raise ValueError(f"the estimates must have the columns {', '.join(missing)}, got {', '.join(estimates)}")
    estimates = estimates[estimates["mean"].notna()]
    if estimates.empty or not pd.api.types.is_numeric_dtype(estimates[x]) or estimates[x].isna().any():
        raise ValueError(f"{x} must hold a number for each mean, got {estimates[x].tolist()[:5]}")
    groups = estimates.groupby(by, sort=False, dropna=False, observed=True)
    if len(groups) > len(MARKERS):
        raise ValueError(f"at most {len(MARKERS)} curves can be told apart, got {len(groups)}")
    places = sorted(set(estimates[x]))
    if log_x and not places[0] > 0:
        raise ValueError(f"on a logarithmic axis {x} must be above 0, got {places[0]}")
    handles: list = []
    with rc_context(style.literal()):
        figure, axis = new_figure(7.5, 4.2, _alt(estimates, x, by, x_label, y_label, title))
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
        axis.set_xticks(places, [number(place, ",") for place in places])
        axis.minorticks_off()
        x_label, y_label, title = (style.drawable(text or "") for text in (x_label, y_label, title))
        axis.set(xlabel=x_label, ylabel=y_label, title=title, ylim=limits)
        axis.grid(alpha=0.3)
        # Named here: matplotlib leaves out names that begin with an underscore where it collects them itself.
        names = [style.drawable(handle.get_label()) for handle in handles]
        figure.legend(handles, names, loc="outside right center", frameon=False)
    return figure


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
