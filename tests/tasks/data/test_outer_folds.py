"""Outer folds: each leaves enough rows to select by, or the table is refused."""

import re
from functools import cache

import numpy as np
import pytest

from chaffinch.errors import InputError
from chaffinch.tasks.data.splitting.outer_folds import OuterFolds
from chaffinch.tasks.data.splitting.splits import Roles, fold_indices, split_rows
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import method_of
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings
from tests.tasks.snapshots import check_sentence


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


LITTLE = {
    "a rare class": (2, (ROWS % 20 == 0).astype(int), {}, {}),
    "a rare class of three": (2, np.where(ROWS < 6, 2, ROWS % 2), {}, {}),
    "groups": (2, ROWS // 8 % 2, {"group": "group"}, {"groups": ROWS % 8}),
    "times": (5, ROWS / 7, {"time": "day"}, {"times": ROWS // 8}),
    "more folds than rows": (9, np.arange(8.0), {}, {}),
    "few rows": (5, np.arange(5.0), {}, {}),
    "fewer of a class than folds": (5, (ROWS % 60 == 0).astype(int), {}, {}),
    "fewer groups than folds": (5, ROWS / 7, {"group": "group"}, {"groups": ROWS % 4}),
    "fewer times than folds": (5, ROWS / 7, {"time": "day"}, {"times": ROWS // 40}),
    "folds inside of one class": (2, (ROWS >= 20) * (ROWS % 2), {"time": "day"}, {"times": ROWS}),
    "an outer fold of one class": (5, (ROWS >= 30).astype(int), {"time": "day"}, {"times": ROWS}),
    "a part without a class": (2, (ROWS >= 40).astype(int), {"time": "day"}, {"times": ROWS}),
}


@pytest.mark.parametrize("name", LITTLE)
def test_what_an_outer_fold_leaves_too_little_of_is_refused(name) -> None:
    n_folds, y, columns, keys = LITTLE[name]
    said = refusal_of(n_folds, 1, y, settings_of(**columns), **keys)
    check_sentence("refusals/outer folds", name, said)


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
    ("method", "n_folds", "y"),
    [
        ("mission", 3, np.arange(8.0)),
        ("mutual_information", 3, np.arange(5.0)),
        ("dfs", 3, np.arange(12.0)),
        ({"kind": "pefs", "batch_size": 5}, 3, np.arange(12.0)),
    ],
)
def test_what_a_method_needs_of_the_training_rows_is_asked_for(method, n_folds, y) -> None:
    case = f"{method}, {n_folds} folds, {len(y)} rows"
    check_sentence("refusals/rows for methods", case, refusal_with(method, n_folds, y))


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
