"""Outer folds: every one leaves enough to select by, or the number of them that would is named."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chaffinch.storage.errors import InputError
from chaffinch.tasks.column_settings import ColumnSettings
from chaffinch.tasks.outer_folds import OuterFolds, RowsToDeal
from chaffinch.tasks.part_needs import NOT_FINER
from chaffinch.tasks.settings import ModelSettings, SelectionSettings

WITHIN = "are needed there (5 to train on, for the folds within, and 1 in each other part)"
IN_TIME = WITHIN.replace("5 to", "6 to")


def settings_of(folds=5, **columns):
    model = ModelSettings(name="linear", folds=folds)
    return SelectionSettings(target="y", model=model, columns=ColumnSettings(**columns))


def refusal_of(n_folds, n_seeds, y, settings, **keys):
    """Return the line that rows are refused with, or None."""
    try:
        OuterFolds(n_folds, n_seeds, (settings,)).check(RowsToDeal(y, **keys))
    except InputError as error:
        return str(error)
    return None


ROWS = np.arange(160)


@pytest.mark.parametrize(
    ("n_folds", "y", "columns", "keys", "message"),
    [
        (
            2, (ROWS % 20 == 0).astype(int), {}, {},
            "class 1 has 8 rows, of which an outer fold leaves 4 to select by, but 7 "
            f"{WITHIN}: merge or drop rare classes, or use 8 outer folds",
        ),
        (
            2, (ROWS % 40 == 0).astype(int), {}, {},
            "class 1 has 4 rows, of which an outer fold leaves 2 to select by, but 7 "
            f"{WITHIN}: merge or drop rare classes",
        ),
        (
            2, ROWS // 8 % 2, {"group": "group"}, {"groups": ROWS % 8},
            "group column 'group' has 8 different values, of which an outer fold leaves 4 to "
            f"select by, but 7 {WITHIN}: name a finer one, or use 8 outer folds",
        ),
        (
            5, ROWS / 7, {"time": "day"}, {"times": ROWS // 8},
            "time column 'day' has 20 different values, of which an outer fold leaves 5 to select "
            f"by, but 8 {IN_TIME}: name a finer one ({NOT_FINER}), or use 6 outer folds",
        ),
        (
            5, ROWS / 7, {"time": "day"}, {"times": ROWS // 16},
            "time column 'day' has 10 different values, of which an outer fold leaves 5 to select "
            f"by, but 8 {IN_TIME}: name a finer one ({NOT_FINER})",
        ),
        (
            9, np.arange(8.0), {}, {},
            "the table has 8 rows but 9 outer folds and the parts inside need at least 9: give "
            "more rows, or use 8 outer folds",
        ),
        (
            5, np.arange(5.0), {}, {},
            "the table has 5 rows, of which an outer fold leaves 4 to select by, but 7 "
            f"{WITHIN}: give more rows",
        ),
        (
            7, np.arange(6.0), {}, {},
            "the table has 6 rows but 7 outer folds and the parts inside need at least 9: give "
            "more rows",
        ),
        (
            5, (ROWS % 60 == 0).astype(int), {}, {},
            "class 1 has 3 rows but 5 outer folds and the parts inside need at least 9: merge or "
            "drop rare classes",
        ),
        (
            5, ROWS / 7, {"group": "group"}, {"groups": ROWS % 4},
            "group column 'group' has 4 different values but 5 outer folds and the parts inside "
            "need at least 9: name a finer one",
        ),
        (
            5, ROWS / 7, {"time": "day"}, {"times": ROWS // 40},
            "time column 'day' has 4 different values but 5 outer folds and the parts inside need "
            f"at least 23: name a finer one ({NOT_FINER})",
        ),
        (
            2, (ROWS >= 20) * (ROWS % 2), {"time": "day"}, {"times": ROWS},
            "inside an outer fold, fold 1 of 5 would be fitted on one class only: name no group "
            "or time column",
        ),
        (
            5, (ROWS >= 30).astype(int), {"time": "day"}, {"times": ROWS},
            "outer fold 1 of 5 would be fitted on one class only: name no group or time column",
        ),
        (
            2, (ROWS >= 40).astype(int), {"time": "day"}, {"times": ROWS},
            "class 1 has 0 rows in the train part inside an outer fold but needs 1, because groups "
            "stay whole and times in order: merge or drop rare classes, or name no group or time "
            "column",
        ),
    ],
    ids=[
        "a rare class", "too rare a class", "groups", "times", "too few times", "more folds than "
        "rows", "few rows", "fewer rows than folds, and few", "fewer of a class than folds",
        "fewer groups than folds", "fewer times than folds", "folds inside of one class",
        "an outer fold of one class", "a part without a class",
    ],
)  # fmt: skip
def test_what_an_outer_fold_leaves_too_little_of_is_refused(
    n_folds, y, columns, keys, message
) -> None:
    assert refusal_of(n_folds, 1, y, settings_of(**columns), **keys) == message


@given(
    n_rows=st.integers(4, 40),
    n_folds=st.integers(2, 20),
    n_seeds=st.integers(1, 2),
    n_inside=st.integers(2, 5),
    kind=st.sampled_from(["rows", "classes", "groups", "classes by group", "times"]),
    cycle=st.integers(2, 12),
)
@hypothesis_settings(max_examples=60)
def test_the_nearest_number_that_is_enough_is_named_if_any_is(
    n_rows, n_folds, n_seeds, n_inside, kind, cycle
) -> None:
    rows = np.arange(n_rows)
    y = (rows % cycle == 0).astype(np.int64) if "classes" in kind else rows / 7
    keys, columns = {}, {}
    if "group" in kind:
        keys, columns = {"groups": rows * 7 % 11}, {"group": "g"}
    elif kind == "times":
        keys, columns = {"times": rows // 2}, {"time": "t"}
    settings = settings_of(folds=n_inside, **columns)
    said = refusal_of(n_folds, n_seeds, y, settings, **keys)
    if said is None:
        return
    enough = {
        other for other in range(2, 21) if refusal_of(other, n_seeds, y, settings, **keys) is None
    }
    named = re.search(r"use (\d+) outer folds$", said)
    assert bool(named) == bool(enough)
    if named:
        nearest = min(abs(other - n_folds) for other in enough)
        assert int(named[1]) in enough
        assert abs(int(named[1]) - n_folds) == nearest
    assert "fewer" not in said
