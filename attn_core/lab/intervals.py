"""What several seeds say: means with intervals, differences between paired runs, and the level of chance. And what
answers to many questions say: intervals of shares, and exact tests on the same questions."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats


class Estimate(NamedTuple):
    """A mean, the interval it may lie in, and the number of runs behind it."""

    mean: float
    low: float
    high: float
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}], {self.runs} runs"


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The mean of independent runs with its interval from Student's t.

    The t interval and not a bootstrap: from five values a bootstrap gives intervals that are too short. It knows no
    bounds, so that the interval of an accuracy near 1 can reach beyond 1.
    Raises ValueError for fewer than two values, for values that are not finite and for a confidence outside (0, 1).
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
    return Estimate(mean, mean - half, mean + half, runs)


def estimates(table: pd.DataFrame, by: str | list[str], value: str) -> pd.DataFrame:
    """The estimate of one column for each group, in the table's order: columns mean, low, high, runs.

    None in a column of `by` is a group like any other.
    """
    groups = table.groupby(by, sort=False, dropna=False)[value].agg(list)
    return pd.DataFrame([estimate(group) for group in groups], index=groups.index)


def paired_difference(table: pd.DataFrame, setting: str, first: object, second: object, value: str) -> Estimate:
    """By how much `first` is above `second`, from runs that share their seed: chance that both share cancels out.

    None is a setting like any other.

    Raises ValueError unless every seed of the one is there once for the other.
    """
    where = [table[setting].isna() if choice is None else table[setting] == choice for choice in (first, second)]
    one, other = (table[rows].set_index("seed")[value].sort_index() for rows in where)
    if list(one.index) != list(other.index) or one.index.has_duplicates:
        raise ValueError(
            f"each seed must be there once for both, got seeds {list(one.index)} for {first!r} "
            f"and {list(other.index)} for {second!r}"
        )
    return estimate(one.to_numpy() - other.to_numpy())


def chance_level(answers: Sequence[object]) -> float:
    """The accuracy of always giving the most frequent answer."""
    if len(answers) == 0:
        raise ValueError("a level of chance needs at least one answer")
    return float(pd.Series(answers).value_counts(normalize=True, dropna=False).iloc[0])


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
