"""How far a feature moved, on tables small enough to count."""

from datetime import date

import pandas as pd
import pytest

from chaffinch.tasks.statistics.drift import FeatureDrift, drift_between
from tests.sources import ingest


def moved(before, after, folder, **roles):
    """Return how far the column x moved from one list of values to the other."""
    tables = [
        pd.DataFrame({"x": pd.Series(values), "row": range(len(values))})
        for values in (before, after)
    ]
    datasets = [ingest(table, folder, **roles) for table in tables]
    return drift_between(*datasets, "x")


@pytest.mark.parametrize(
    ("before", "after", "distance"),
    [
        ([1.0, 2.0, 3.0, 4.0], [3.0, 4.0, 5.0, 6.0], 0.5),
        ([1, 2, 3], [1.0, 2.0, 3.0], 0.0),
        ([1, 2], [7, 8, 9], 1.0),
        ([1, 3, 5], [2, 4, 6], 1 / 3),  # no value in common, and hardly moved
        ([0, 0, 0, 1], [0, 1, 1, 1, 1], 0.55),  # 3/4 and 1/5 are at most 0
        ([5, 5, 5], [4], 1.0),
        ([True, True, False, False], [True, True, True, False], 0.25),
    ],
)
def test_of_numbers_it_is_the_largest_gap_of_the_two_distributions(
    before, after, distance, tmp_path
):
    found = moved(before, after, tmp_path)
    assert found.measure == "Kolmogorov-Smirnov"
    assert found.distance == pytest.approx(distance)


@pytest.mark.parametrize(
    ("before", "after", "distance"),
    [
        (["a", "a", "a", "b"], ["a", "b", "c", "c"], 0.5),
        (["b", "a"], ["a", "b", "b", "a"], 0.0),
        (["a", "b"], ["c", "d", "c"], 1.0),
    ],
)
def test_of_categories_it_is_half_the_sum_of_the_differences_in_share(
    before, after, distance, tmp_path
):
    found = moved(before, after, tmp_path)
    assert found.measure == "total variation"
    assert found.distance == pytest.approx(distance)


def test_missing_values_are_counted_by_themselves(tmp_path):
    numbers = moved([1.0, 2.0, None, None], [1.0, 2.0, 1.0, None], tmp_path)
    assert (numbers.missing_before, numbers.missing_after) == (0.5, 0.25)
    assert numbers.distance == pytest.approx(1 / 6)
    texts = moved(["a", None], ["a", "b", "b", "b"], tmp_path)
    assert texts == FeatureDrift("x", "total variation", 0.75, 0.5, 0.0, 1, 4, unseen_after=0.75)
    gone = moved(["a", "b"], [None, None], tmp_path)
    assert gone == FeatureDrift("x", "total variation", None, 0.0, 1.0, 2, 0)
    empty = moved(pd.Series([None, None], dtype=float), [1.0, 2.0], tmp_path)
    assert empty == FeatureDrift("x", "Kolmogorov-Smirnov", None, 1.0, 0.0, 0, 2)


def test_what_is_in_one_table_alone_or_another_thing_there_did_not_move(tmp_path):
    assert moved([1, 2], ["a", "b"], tmp_path) is None
    here = ingest(pd.DataFrame({"x": [1, 2], "day": [date(2026, 1, 1)] * 2}), tmp_path)
    there = ingest(pd.DataFrame({"z": [1, 2]}), tmp_path)
    assert drift_between(here, there, "x") is None
    assert drift_between(there, here, "x") is None


def test_order_and_number_of_rows_do_not_matter(tmp_path):
    values = [0.5, 1.5, 2.5, 9.0]
    found = moved(values, values[::-1] * 50, tmp_path)
    assert found.distance == pytest.approx(0)
