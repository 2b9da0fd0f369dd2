"""Outer folds: each leaves enough rows to select by, or the table is refused."""

import re
from functools import cache

import numpy as np
import pytest

from chaffinch.errors import InputError
from chaffinch.tasks.data.splitting.outer_folds import OuterFolds
from chaffinch.tasks.data.splitting.splits import NOT_FINER, Roles, fold_indices, split_rows
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import method_of
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings

WITHIN = (
    "outside an outer fold but needs 7 (5 to train on, for the folds, and 1 in each other part)"
)
IN_TIME = WITHIN.replace("7 (5 to", "8 (6 to")


def settings_of(folds=5, **columns):
    model = ModelSettings(name="linear", folds=folds)
    columns = ColumnSettings(**columns)
    return SelectionSettings(target="y", method="gbmo", model=model, columns=columns)


def refusal_of(n_folds, n_seeds, y, settings, **keys):
    """Return the line that rows are refused with, or None."""
    try:
        OuterFolds(n_folds, n_seeds, (settings,)).check(Roles(y, **keys))
    except InputError as error:
        return str(error)
    return None


ROWS = np.arange(160)


@pytest.mark.parametrize(
    ("n_folds", "y", "columns", "keys", "message"),
    [
        (2, (ROWS % 20 == 0).astype(int), {}, {},
         f"class 1 has 4 rows {WITHIN}; give more rows of it, or use more outer folds"),
        (2, np.where(ROWS < 6, 2, ROWS % 2), {}, {},
         f"class 2 has 3 rows {WITHIN}; give more rows of it, or merge or drop rare classes, or "
         "use more outer folds"),
        (2, ROWS // 8 % 2, {"group": "group"}, {"groups": ROWS % 8},
         f"group column 'group' has 4 different values {WITHIN}; give rows of more groups, "
         "or name a finer one, or use more outer folds"),
        (5, ROWS / 7, {"time": "day"}, {"times": ROWS // 8},
         f"time column 'day' has 5 different values {IN_TIME}; give rows of more times, "
         f"or name a finer one ({NOT_FINER}), or use more outer folds"),
        (9, np.arange(8.0), {}, {},
         "9 outer folds need 9 rows but there are 8; give more rows, or use fewer outer folds"),
        (5, np.arange(5.0), {}, {},
         f"the table has 4 rows {WITHIN}; give more rows, or use more outer folds"),
        (5, (ROWS % 60 == 0).astype(int), {}, {},
         "5 outer folds need 5 rows of its rarest class but there are 3; give more rows, or use "
         "fewer outer folds"),
        (5, ROWS / 7, {"group": "group"}, {"groups": ROWS % 4},
         "5 outer folds need 5 groups but there are 4; give more rows, or use fewer outer folds"),
        (5, ROWS / 7, {"time": "day"}, {"times": ROWS // 40},
         "5 outer folds need 5 different times after the first but there are 3; give more rows, "
         "or use fewer outer folds"),
        (2, (ROWS >= 20) * (ROWS % 2), {"time": "day"}, {"times": ROWS},
         "inside an outer fold, fold 1 of 5 would be fitted on one class only; use fewer "
         "outer folds, or leave out the earliest or the latest rows"),
        (5, (ROWS >= 30).astype(int), {"time": "day"}, {"times": ROWS},
         "outer fold 1 of 5 would be fitted on one class only; use fewer outer folds, or leave "
         "out the earliest or the latest rows"),
        (2, (ROWS >= 40).astype(int), {"time": "day"}, {"times": ROWS},
         "class 1 has 0 rows in the train part inside an outer fold but needs 1, because groups "
         "stay whole and times in order; use fewer outer folds, or leave out the earliest or "
         "the latest rows"),
    ],
    ids=[
        "a rare class", "a rare class of three", "groups", "times", "more folds than rows",
        "few rows", "fewer of a class than folds", "fewer groups than folds",
        "fewer times than folds", "folds inside of one class", "an outer fold of one class",
        "a part without a class",
    ],
)  # fmt: skip
def test_what_an_outer_fold_leaves_too_little_of_is_refused(
    n_folds, y, columns, keys, message
) -> None:
    assert refusal_of(n_folds, 1, y, settings_of(**columns), **keys) == message


@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_as_many_rows_of_each_class_as_an_outer_fold_must_leave_are_enough(n_folds) -> None:
    refusal = refusal_of(n_folds, 1, np.arange(16) % 2, settings_of())
    needed = int(re.search(r"needs (\d+)", refusal)[1])
    n_each = next(n for n in range(99) if n - -(-n // n_folds) >= needed)
    assert refusal_of(n_folds, 1, np.arange(n_each * 2) % 2, settings_of()) is None
    assert refusal_of(n_folds, 1, np.arange(n_each * 2 - 2) % 2, settings_of()) is not None


UNTUNED = SelectionSettings(
    target="y", method="gbmo", model=ModelSettings(name="linear", tuning="none")
)


def refusal_with(method, n_folds, y, n_seeds=1):
    """Return the line that rows are refused with where a method is compared, or None."""
    try:
        OuterFolds(n_folds, n_seeds, (UNTUNED,), (method_of(method),)).check(Roles(y))
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("method", "n_folds", "y", "message"),
    [
        ("mission", 3, np.arange(8.0),
         "mission needs at least 3 training rows but an outer fold leaves it 2; give more rows, "
         "or compare without mission"),
        ("mutual_information", 3, np.arange(5.0),
         "mutual_information needs at least 3 training rows but an outer fold leaves it 1; give "
         "more rows, or compare without mutual_information"),
        ("dfs", 3, np.arange(12.0),
         "dfs needs at least 5 training rows but an outer fold leaves it 4; give more rows, or "
         "compare without dfs"),
        ({"kind": "pefs", "batch_size": 5}, 3, np.arange(12.0),
         "batch_size must be at most 4, the number of training rows, but is 5; leave it out, or "
         "give more rows"),
    ],
)  # fmt: skip
def test_what_a_method_needs_of_the_training_rows_is_asked_for(method, n_folds, y, message) -> None:
    assert refusal_with(method, n_folds, y) == message


def target_of(kind, n_rows):
    return np.arange(n_rows) % 2 if kind == "classes" else np.arange(n_rows) / 7


@cache
def splits_of(kind, n_rows, n_folds):
    """Return the parts inside of each outer fold by two seeds, or none where that is refused."""
    y, folds = target_of(kind, n_rows), OuterFolds(n_folds, 2, (UNTUNED,))
    if refusal_of(n_folds, 2, y, UNTUNED):
        return []
    return [
        folds.splits(fold, Roles(y), UNTUNED.model_copy(update={"seed": seed}))
        for fold in range(n_folds)
        for seed in range(2)
    ]


@pytest.mark.parametrize("method", ["mission", "correlation", "dfs", "rfecv"])
@pytest.mark.parametrize("kind", ["values", "classes"])
def test_no_outer_fold_leaves_less_than_a_method_needs(method, kind) -> None:
    """And of those without folds of their own, nothing is refused that leaves enough."""
    fewest = 5 if method == "dfs" else 3
    for n_rows in range(6, 26):
        y = target_of(kind, n_rows)
        for n_folds in (2, 3, 5):
            every = splits_of(kind, n_rows, n_folds)
            if not every:
                continue
            is_enough = all(len(splits.train) >= fewest for splits in every)
            is_refused = refusal_with(method, n_folds, y, 2) is not None
            if method in ("mission", "correlation", "dfs"):
                assert is_refused != is_enough, (n_rows, n_folds)
            elif not is_refused:
                for splits in every:
                    seen = np.concatenate([splits.train, splits.mask_validation])
                    assert len(fold_indices(Roles(y[seen]), UNTUNED)) == 5


@pytest.mark.parametrize(("method", "n_rows"), [("mission", 6), ("dfs", 8)])
def test_a_selection_as_well_is_refused_where_its_training_part_is_too_small(
    method, n_rows
) -> None:
    settings = UNTUNED.model_copy(update={"method": method_of(method)})
    with pytest.raises(InputError, match=f"^{method} needs at least . training rows but the parts"):
        split_rows(Roles(np.arange(float(n_rows))), settings)
    assert len(split_rows(Roles(np.arange(float(n_rows))), UNTUNED).train) >= 2
