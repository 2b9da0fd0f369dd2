"""Outer folds: every one leaves enough to select by, or the number of them that would is named."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from chaffinch.storage.errors import InputError
from chaffinch.tasks.data.outer_folds import OuterFolds, RowsToSplit
from chaffinch.tasks.data.split_requirements import NOT_FINER
from chaffinch.tasks.data.splits import fold_indices, split_rows
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import method_of
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings

WITHIN = "are needed there (5 to train on, for the folds within, and 1 in each other part)"
IN_TIME = WITHIN.replace("5 to", "6 to")


def settings_of(folds=5, **columns):
    model = ModelSettings(name="linear", folds=folds)
    return SelectionSettings(target="y", model=model, columns=ColumnSettings(**columns))


def refusal_of(n_folds, n_seeds, y, settings, **keys):
    """Return the line that rows are refused with, or None."""
    try:
        OuterFolds(n_folds, n_seeds, (settings,)).check(RowsToSplit(y, **keys))
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
            f"{WITHIN}; give more rows of it, or use 8 outer folds",
        ),
        (
            2, (ROWS % 40 == 0).astype(int), {}, {},
            "class 1 has 4 rows, of which an outer fold leaves 2 to select by, but 7 "
            f"{WITHIN}; give more rows of it",
        ),
        (
            2, np.where(ROWS < 6, 2, ROWS % 2), {}, {},
            "class 2 has 6 rows, of which an outer fold leaves 3 to select by, but 7 "
            f"{WITHIN}; give more rows of it, or merge or drop rare classes",
        ),
        (
            2, np.arange(14) % 2, {}, {},
            "the table has 14 rows, of which an outer fold leaves 7 to select by, but 7 of each of "
            f"its 2 classes {WITHIN}; give more rows",
        ),
        (
            2, np.arange(27) % 2, {}, {},
            "class 1 has 13 rows, of which an outer fold leaves 6 to select by, but 7 "
            f"{WITHIN}; give more rows of it, or use 3 outer folds",
        ),
        (
            3, np.arange(12) % 3, {}, {},
            "the table has 12 rows, of which an outer fold leaves 8 to select by, but 7 of each of "
            f"its 3 classes {WITHIN}; give more rows, or merge or drop rare classes",
        ),
        (
            5, np.arange(8) % 2, {}, {},
            "the table has 8 rows but 5 outer folds and the parts inside need at least 9 of each "
            "of its 2 classes; give more rows",
        ),
        (
            2, ROWS // 8 % 2, {"group": "group"}, {"groups": ROWS % 8},
            "group column 'group' has 8 different values, of which an outer fold leaves 4 to "
            f"select by, but 7 {WITHIN}; give rows of more groups, "
            "or name a finer one, or use 8 outer folds",
        ),
        (
            5, ROWS / 7, {"time": "day"}, {"times": ROWS // 8},
            "time column 'day' has 20 different values, of which an outer fold leaves 5 to select "
            f"by, but 8 {IN_TIME}; give rows of more times, "
            f"or name a finer one ({NOT_FINER}), or use 6 outer folds",
        ),
        (
            5, ROWS / 7, {"time": "day"}, {"times": ROWS // 16},
            "time column 'day' has 10 different values, of which an outer fold leaves 5 to select "
            f"by, but 8 {IN_TIME}; give rows of more times, "
            f"or name a finer one ({NOT_FINER})",
        ),
        (
            9, np.arange(8.0), {}, {},
            "the table has 8 rows but 9 outer folds and the parts inside need at least 9; give "
            "more rows, or use 8 outer folds",
        ),
        (
            5, np.arange(5.0), {}, {},
            "the table has 5 rows, of which an outer fold leaves 4 to select by, but 7 "
            f"{WITHIN}; give more rows",
        ),
        (
            7, np.arange(6.0), {}, {},
            "the table has 6 rows but 7 outer folds and the parts inside need at least 9; give "
            "more rows",
        ),
        (
            5, (ROWS % 60 == 0).astype(int), {}, {},
            "class 1 has 3 rows but 5 outer folds and the parts inside need at least 9; give more "
            "rows of it",
        ),
        (
            5, ROWS / 7, {"group": "group"}, {"groups": ROWS % 4},
            "group column 'group' has 4 different values but 5 outer folds and the parts inside "
            "need at least 9; give rows of more groups, "
            "or name a finer one",
        ),
        (
            5, ROWS / 7, {"time": "day"}, {"times": ROWS // 40},
            "time column 'day' has 4 different values but 5 outer folds and the parts inside need "
            f"at least 23; give rows of more times, "
            f"or name a finer one ({NOT_FINER})",
        ),
        (
            2, (ROWS >= 20) * (ROWS % 2), {"time": "day"}, {"times": ROWS},
            "inside an outer fold, fold 1 of 5 would be fitted on one class only; name no group "
            "or time column",
        ),
        (
            5, (ROWS >= 30).astype(int), {"time": "day"}, {"times": ROWS},
            "outer fold 1 of 5 would be fitted on one class only; name no group or time column",
        ),
        (
            2, (ROWS >= 40).astype(int), {"time": "day"}, {"times": ROWS},
            "class 1 has 0 rows in the train part inside an outer fold but needs 1, because groups "
            "stay whole and times in order; name no group or time "
            "column",
        ),
    ],
    ids=[
        "a rare class", "too rare a class", "a rare class of three", "two equal classes",
        "two classes that are nearly enough", "three equal classes",
        "fewer of every class than folds", "groups", "times", "too few times", "more folds than "
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


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_folds", [2, 3, 5])
def test_what_is_said_to_be_needed_of_each_class_is_enough_at_once(n_classes, n_folds) -> None:
    """Nobody is sent from one refusal to the next: as many of each class, and it is accepted."""
    said = refusal_of(n_folds, 1, np.arange(2 * n_classes + 4) % n_classes, settings_of())
    needed = int(re.search(r"(\d+) of each of its", said)[1])
    assert f"of each of its {n_classes} classes" in said
    n_each = needed
    if "are needed there" in said:  # in what an outer fold leaves
        n_each = next(n for n in range(99) if n - -(-n // n_folds) >= needed)
    assert refusal_of(n_folds, 1, np.arange(n_each * n_classes) % n_classes, settings_of()) is None


UNTUNED = SelectionSettings(target="y", model=ModelSettings(name="linear", tuning="none"))


def refusal_with(method, n_folds, y, n_seeds=1):
    """Return the line that rows are refused with where a method is compared, or None."""
    try:
        OuterFolds(n_folds, n_seeds, (UNTUNED,), (method_of(method),)).check(RowsToSplit(y))
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("method", "n_folds", "y", "message"),
    [
        (
            "mission", 3, np.arange(8.0),
            "mission needs at least 3 training rows but an outer fold leaves it 2; give more rows, "
            "or compare without mission, or use 4 outer folds",
        ),
        (
            "mutual_information", 3, np.arange(5.0),
            "mutual_information needs at least 3 training rows but an outer fold leaves it 1; give "
            "more rows, or compare without mutual_information",
        ),
        (
            "dfs", 3, np.arange(12.0),
            "dfs needs at least 5 training rows but an outer fold leaves it 4; give more rows, or "
            "take a lower order, or compare without dfs, or use 4 outer folds",
        ),
        (
            "rfecv", 3, np.arange(12.0),
            "inside an outer fold, 5 folds need 5 rows but there are 4; give more rows, or use 4 "
            "outer folds",
        ),
        (
            {"kind": "pefs", "batch_size": 5}, 3, np.arange(12.0),
            "batch_size must be at most 4, the number of training rows, but is 5; leave it out, or "
            "give more rows",
        ),
    ],
)  # fmt: skip
def test_what_a_method_needs_of_the_training_rows_is_asked_for(method, n_folds, y, message) -> None:
    assert refusal_with(method, n_folds, y) == message


@pytest.mark.parametrize("method", ["mission", "correlation", "dfs", "rfecv", "robust_elimination"])
@pytest.mark.parametrize("kind", ["values", "classes"])
def test_no_outer_fold_leaves_less_than_a_method_needs(method, kind) -> None:
    """And of those without folds of their own, nothing is refused that leaves enough."""
    fewest = 5 if method == "dfs" else 3
    for n_rows in range(6, 26):
        y = np.arange(n_rows) % 2 if kind == "classes" else np.arange(n_rows) / 7
        for n_folds in (2, 3, 5):
            folds = OuterFolds(n_folds, 2, (UNTUNED,))
            if refusal_of(n_folds, 2, y, UNTUNED):
                continue
            every = [
                folds.splits(fold, RowsToSplit(y), UNTUNED.model_copy(update={"seed": seed}))
                for fold in range(n_folds)
                for seed in range(2)
            ]
            is_enough = all(len(splits.train) >= fewest for splits in every)
            is_refused = refusal_with(method, n_folds, y, 2) is not None
            if method in ("mission", "correlation", "dfs"):
                assert is_refused != is_enough, (n_rows, n_folds)
            elif not is_refused:
                for splits in every:
                    also = splits.mask_validation if method == "robust_elimination" else []
                    seen = np.concatenate([splits.train, also]).astype(np.int64)
                    assert len(fold_indices(y[seen], UNTUNED)) == 5


@pytest.mark.parametrize(("method", "n_rows"), [("mission", 6), ("dfs", 8)])
def test_a_selection_as_well_is_refused_where_its_training_part_is_too_small(
    method, n_rows
) -> None:
    settings = UNTUNED.model_copy(update={"method": method_of(method)})
    with pytest.raises(InputError, match=f"^{method} needs at least . training rows but the parts"):
        split_rows(np.arange(float(n_rows)), settings)
    assert len(split_rows(np.arange(float(n_rows)), UNTUNED).train) >= 2
