"""Estimates from few runs: against values by hand and scipy, and by asking whether 95 % intervals are right in 95 %."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from attn_core.lab.intervals import (
    Estimate,
    chance_level,
    estimate,
    estimates,
    holm,
    paired_difference,
    paired_p,
    share_interval,
)


def table(rows):
    return pd.DataFrame(rows, columns=["encoding", "max_len", "length", "seed", "accuracy"])


def two_codes(first=(0.9, 0.8, 0.7), second=(0.5, 0.4, 0.6)):
    """Runs of two codes, as a sweep gives them: seed by seed."""
    return table(
        [
            row
            for seed, (one, two) in enumerate(zip(first, second, strict=True))
            for row in (("rotary", None, 64, seed, one), ("learned", 32, 64, seed, two))
        ]
    )


def test_the_estimate_of_one_to_five_is_that_by_hand():
    half = 2.776445 * math.sqrt(2.5) / math.sqrt(5)  # t for 95 % and 4 degrees of freedom; variance 10 / 4
    assert half == pytest.approx(1.963, abs=1e-3)
    assert estimate([1, 2, 3, 4, 5]) == pytest.approx((3.0, 3 - half, 3 + half, 5), abs=1e-5)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.99])
def test_the_interval_is_that_of_scipy(confidence):
    values = np.random.default_rng(0).normal(3, 2, size=7)
    low, high = stats.t.interval(confidence, 6, loc=values.mean(), scale=stats.sem(values))
    assert estimate(values, confidence) == pytest.approx((values.mean(), low, high, 7))


def test_equal_values_give_an_interval_without_width():
    assert estimate((0.5, 0.5)) == (0.5, 0.5, 0.5, 2)


def test_an_estimate_reads_well():
    assert str(Estimate(0.51234, 0.4, 0.6249, 5)) == "0.512 [0.400, 0.625], 5 runs"


@pytest.mark.parametrize("runs, confidence", [(5, 0.95), (3, 0.8)])
def test_the_promised_share_of_intervals_holds_the_true_mean(runs, confidence):
    samples = np.random.default_rng(0).normal(0.7, 0.1, size=(2000, runs))
    intervals = [estimate(values, confidence) for values in samples]
    share = np.mean([interval.low <= 0.7 <= interval.high for interval in intervals])
    assert share == pytest.approx(confidence, abs=3 * math.sqrt(confidence * (1 - confidence) / 2000))


@pytest.mark.parametrize(
    "values, confidence, message",
    [
        ([0.5], 0.95, r"needs at least 2 values in one row, got shape \(1,\)"),
        ([], 0.95, r"needs at least 2 values in one row, got shape \(0,\)"),
        ([[1, 2], [3, 4]], 0.95, r"needs at least 2 values in one row, got shape \(2, 2\)"),
        ([1, math.nan], 0.95, "the values must be finite, got nan"),
        ([1, None], 0.95, "the values must be finite, got nan"),
        ([1, math.inf], 0.95, "the values must be finite, got inf"),
        ([1, 2], 95, "confidence must lie between 0 and 1, got 95"),
        ([1, 2], 1.0, "confidence must lie between 0 and 1, got 1.0"),
        ([1, 2], math.nan, "confidence must lie between 0 and 1, got nan"),
    ],
)
def test_values_without_an_interval_get_a_sentence(values, confidence, message):
    with pytest.raises(ValueError, match=message):
        estimate(values, confidence)


@pytest.mark.parametrize("by", ["encoding", ["encoding"]])
def test_estimates_by_one_column_have_one_row_for_each_group_in_the_tables_order(by):
    found = estimates(two_codes(), by, "accuracy")
    assert found.index.name == "encoding" and list(found.index) == ["rotary", "learned"]
    assert list(found.columns) == ["mean", "low", "high", "runs"]
    assert tuple(found.loc["rotary"]) == estimate([0.9, 0.8, 0.7])
    assert [kind.kind for kind in found.dtypes] == ["f", "f", "f", "i"]


def test_estimates_by_two_columns_keep_their_names():
    longer = two_codes((0.3, 0.2, 0.1)).assign(length=128)
    found = estimates(pd.concat([two_codes(), longer]), ["encoding", "length"], "accuracy")
    assert found.index.names == ["encoding", "length"]
    assert tuple(found.loc["rotary", 128]) == estimate([0.3, 0.2, 0.1])
    plain = found.reset_index()
    assert list(plain.columns) == ["encoding", "length", "mean", "low", "high", "runs"]
    assert plain["encoding"].tolist() == ["rotary", "learned"] * 2 and plain["length"].tolist() == [64, 64, 128, 128]


def test_a_group_without_a_value_for_its_setting_is_not_lost():
    found = estimates(two_codes(), ["encoding", "max_len"], "accuracy").reset_index()
    assert found["encoding"].tolist() == ["rotary", "learned"]
    assert math.isnan(found["max_len"][0]) and found["max_len"][1] == 32


def test_chance_that_both_share_cancels_out_of_their_difference():
    random = np.random.default_rng(0)
    shared, own = random.normal(0, 0.2, size=8), random.normal(0, 0.001, size=8)
    runs = two_codes(0.6 + shared + own, 0.5 + shared)
    difference = paired_difference(runs, "encoding", "rotary", "learned", "accuracy")
    assert difference.mean == pytest.approx(0.1, abs=0.002)
    assert difference.low > 0.095 and difference.high < 0.105 and difference.runs == 8
    alone = estimates(runs, "encoding", "accuracy")
    assert alone.loc["rotary", "low"] < alone.loc["learned", "high"], "each alone could not tell"
    backwards = paired_difference(runs, "encoding", "learned", "rotary", "accuracy")
    assert backwards == pytest.approx((-difference.mean, -difference.high, -difference.low, 8))


def test_runs_are_paired_by_seed_whatever_the_order_of_the_rows():
    runs = two_codes((0.9, 0.5, 0.1), (0.8, 0.4, 0.0))
    expected = paired_difference(runs, "encoding", "rotary", "learned", "accuracy")
    assert expected == pytest.approx((0.1, 0.1, 0.1, 3))
    for seed in range(5):
        shuffled = runs.sample(frac=1, random_state=seed)
        assert paired_difference(shuffled, "encoding", "rotary", "learned", "accuracy") == expected


def test_none_is_a_setting_to_compare_with():
    runs = two_codes((0.9, 0.5, 0.1), (0.8, 0.4, 0.0))
    control = runs.replace({"encoding": {"learned": None}})
    named = paired_difference(runs, "encoding", "rotary", "learned", "accuracy")
    assert paired_difference(control, "encoding", "rotary", None, "accuracy") == named


@pytest.mark.parametrize(
    "runs, message",
    [
        (two_codes().drop(index=0), r"got seeds \[1, 2\] for 'rotary' and \[0, 1, 2\] for 'learned'"),
        (two_codes().replace({"seed": {2: 1}}), r"got seeds \[0, 1, 1\] for 'rotary'"),  # twice for both
        (two_codes().replace({"encoding": {"rotary": "rotatory"}}), r"got seeds \[\] for 'rotary'"),
    ],
)
def test_seeds_that_are_not_there_once_for_both_are_refused(runs, message):
    with pytest.raises(ValueError, match=message):
        paired_difference(runs, "encoding", "rotary", "learned", "accuracy")


def test_the_level_of_chance_is_the_share_of_the_most_frequent_answer():
    assert chance_level([1, 2, 2, 3]) == 0.5
    assert chance_level(["a"]) == 1.0
    assert chance_level([None, None, None, "a"]) == 0.75
    with pytest.raises(ValueError, match="at least one answer"):
        chance_level([])


def test_the_interval_of_a_share_is_that_of_the_formula_and_stays_within_0_and_1():
    z, share, tries = 1.959964, 0.75, 40
    middle = (share + z**2 / (2 * tries)) / (1 + z**2 / tries)
    half = z * math.sqrt(share * (1 - share) / tries + z**2 / (4 * tries**2)) / (1 + z**2 / tries)
    assert share_interval(30, 40) == pytest.approx((middle - half, middle + half), abs=1e-6)
    assert share_interval(0, 5)[0] == 0 and share_interval(5, 5)[1] == 1
    assert 0 < share_interval(5, 5)[0] < share_interval(50, 50)[0] < 1


def test_the_paired_test_counts_the_questions_on_which_two_differ():
    first, second = [1, 1, 1, 1, 1, 1, 0, 1, 0], [0, 0, 0, 0, 0, 0, 1, 1, 0]
    by_hand = 2 * (1 + 7) / 2**7  # 0 or 1 of 7 coins, and as many on the other side
    assert paired_p(first, second) == paired_p(second, first) == pytest.approx(by_hand)
    assert paired_p(first, first) == 1


def test_equal_ways_to_answer_differ_significantly_in_at_most_5_of_100_cases():
    random = np.random.default_rng(0)
    found = [paired_p(random.random(40) < 0.6, random.random(40) < 0.6) < 0.05 for _ in range(1000)]
    assert sum(found) < 60


def test_holms_correction_is_that_of_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.2, 0.9, 0.5]) == pytest.approx([0.6, 1, 1])
    assert holm([0.04]) == pytest.approx([0.04])


def test_of_many_true_hypotheses_holm_rejects_one_in_at_most_5_of_100_cases():
    random = np.random.default_rng(1)
    found = [(holm(random.random(72)) < 0.05).any() for _ in range(1000)]
    assert 30 < sum(found) < 70
