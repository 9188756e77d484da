"""What several seeds say: means with intervals, differences between paired runs, and the level of chance. And what
answers to many questions say: intervals of shares, and exact tests on the same questions."""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special, stats

SHARE = (0, 1)  # the bounds of shares, such as accuracies


class Estimate(NamedTuple):
    """A mean, the interval it may lie in, and the number of runs behind it."""

    mean: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return f"{self:.3f}, {self.runs} runs"

    def __format__(self, form: str) -> str:
        """The mean and its interval, each in a form such as ".3f"; as `str` without one."""
        if not form:
            return str(self)
        mean, low, high = (f"{end:z{form}}" for end in self[:3])
        return f"{mean} [{low}, {high}]"


def estimate(values: Sequence[float], confidence: float = 0.95, bounds: tuple[float, float] | None = None) -> Estimate:
    """The mean of independent runs with its interval from Student's t.

    bounds: the least and the greatest value there can be: SHARE for an accuracy, (0, 100) for percent, None where there
    are none, as for ratios. The interval stays within them. For that Student's t is taken of the mean's log odds and
    turned back: "xlogit" in svyciprop of R's package survey; Dean and Pagano 2015 compare its like. To cut off the
    interval of the mean at the bounds is plainer but right less often where values lean to a bound: near 1 its low end
    is too high. A bootstrap is right less often too, or far wider. The tests measure how often this interval is right.

    Equal values give an interval without width. It says that these runs did not differ, not that none can: after n
    equal runs, up to 1 - 0.05 ** (1 / n) of all runs may still go otherwise (26 % after 10, 14 % after 20). In the
    same way no interval can tell of failures so rare that no run has shown one.

    Raises ValueError for fewer than two values, for values that are not finite or not within the bounds, for bounds
    that are not two finite numbers in order, and for a confidence outside (0, 1).
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"an interval needs at least 2 values in one row, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"the values must be finite, got {values[~np.isfinite(values)][0]}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    mean, runs = float(values.mean()), len(values)
    half = float(stats.t.ppf((1 + confidence) / 2, runs - 1) * values.std(ddof=1) / math.sqrt(runs))
    if bounds is None:
        return Estimate(mean, mean - half, mean + half, runs)
    _check_within(values, bounds)
    low, width = bounds[0], bounds[1] - bounds[0]
    if half < 1e-12 * width:  # equal values, but for rounding; at a bound their log odds are infinite
        return Estimate(mean, mean, mean, runs)
    share = (mean - low) / width
    half = half / width / (share * (1 - share))  # times the slope of the log odds there (the delta method)
    ends = low + width * special.expit(special.logit(share) + np.array([-half, half]))
    return Estimate(mean, float(ends[0]), float(ends[1]), runs)


def median_estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The median of independent runs, in the place of the mean, with its interval from the order of the values alone
    (scipy's quantile_test, after Conover 1999). All three are values that occur: of an even number the lower of the two
    in the middle. Infinite values are taken: a run that needs more than was tried is above all others.

    Raises ValueError for too few values to be that sure: less than 6 for 95 %.
    """
    values = np.asarray(values, dtype=float)
    if values.ndim != 1 or len(values) == 0 or np.isnan(values).any():
        raise ValueError(f"a median needs numbers in one row, got {values}")
    low, high = stats.quantile_test(values).confidence_interval(confidence)
    if np.isnan([low, high]).any():
        raise ValueError(f"{len(values)} values are too few for an interval of their median at {confidence}")
    return Estimate(statistics.median_low(values.tolist()), float(low), float(high), len(values))


def estimates(
    table: pd.DataFrame, by: str | list[str], value: str, bounds: tuple[float, float] | None = None
) -> pd.DataFrame:
    """The estimate of one column for each group, in the table's order: columns mean, low, high, runs.

    None in a column of `by` is a group like any other. bounds: of the column, as for `estimate`.
    """
    groups = table.groupby(by, sort=False, dropna=False)[value].agg(list)
    return pd.DataFrame([estimate(group, bounds=bounds) for group in groups], index=groups.index)


def estimate_grid(
    table: pd.DataFrame, row: str, column: str, value: str, bounds: tuple[float, float] | None = None
) -> pd.DataFrame:
    """The same for each pair of groups, as a frame of estimates: one row for each group of `row`, one column for each
    of `column`."""
    groups = table.groupby([row, column], sort=False, dropna=False)[value].agg(list)
    return groups.map(lambda values: estimate(values, bounds=bounds)).unstack(sort=False)


def paired_difference(
    table: pd.DataFrame,
    setting: str,
    first: object,
    second: object,
    value: str,
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """By how much `first` is above `second`, from runs that share their seed: chance that both share cancels out.

    None is a setting like any other. bounds: of the column, as for `estimate`; two shares differ by -1 to 1.

    Raises ValueError unless every seed of the one is there once for the other.
    """
    where = [table[setting].isna() if choice is None else table[setting] == choice for choice in (first, second)]
    one, other = (table[rows].set_index("seed")[value].sort_index() for rows in where)
    if list(one.index) != list(other.index) or one.index.has_duplicates:
        raise ValueError(
            f"each seed must be there once for both, got seeds {list(one.index)} for {first!r} "
            f"and {list(other.index)} for {second!r}"
        )
    if bounds is not None:
        for values in (one, other):
            _check_within(values.to_numpy(dtype=float), bounds)
        bounds = (bounds[0] - bounds[1], bounds[1] - bounds[0])
    return estimate(one.to_numpy() - other.to_numpy(), bounds=bounds)


def _check_within(values: np.ndarray, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"the bounds must be two finite numbers, the lower first, got {bounds!r}")
    outside = values[(values < low) | (values > high)]
    if len(outside):
        raise ValueError(f"the values must lie within {low} and {high}, got {outside[0]}")


def share_interval(hits: int, tries: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson's, 1927): low and high, never beyond 0 and 1."""
    interval = stats.binomtest(hits, tries).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def paired_p(first: Sequence[bool], second: Sequence[bool]) -> float:
    """McNemar's exact test of two ways to answer the same questions, two-sided: the chance of a difference at least
    this large if both were equally good.

    first, second: whether each question was answered rightly. Only those count on which the two differ.
    """
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    won, lost = int((first & ~second).sum()), int((~first & second).sum())
    return float(stats.binomtest(won, won + lost).pvalue) if won + lost else 1.0


def holm(p: Sequence[float]) -> np.ndarray:
    """The p values of several tests, corrected for having made all of them (Holm 1979), in the same order."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1)
    return corrected
