"""The parts in their shares: nothing lost, nothing twice, no group torn, no future seen."""

import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaffinch.errors import InputError
from chaffinch.tasks.data.splitting.splits import (
    Roles,
    Splits,
    fold_indices,
    split_rows,
)
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.method import PERCENT
from chaffinch.tasks.settings.selection import ModelSettings, SelectionSettings

SHARES = np.array(PERCENT) / 100
FOLDED = {"kind": "auto"}
HOLDOUT = {"kind": "auto", "validation": "holdout"}
SHARES_OF = [("gbmo", SHARES), (HOLDOUT, np.array([0.85, 0.15])), (FOLDED, np.ones(1))]
shares_of_each = pytest.mark.parametrize(
    ("method", "shares"), SHARES_OF, ids=["four parts", "two parts", "one part"]
)
several_parts = pytest.mark.parametrize(
    "method", ["gbmo", HOLDOUT], ids=["four parts", "two parts"]
)
quick = settings(max_examples=60, deadline=None)


def settings_of(
    seed: int = 0, folds: int = 5, method: object = "gbmo", tuning: str = "small", **columns: str
) -> SelectionSettings:
    return SelectionSettings(
        target="y",
        method=method,
        seed=seed,
        model=ModelSettings(folds=folds, tuning=tuning),
        columns=ColumnSettings(**columns),
    )


def parts_of(splits: Splits) -> list[np.ndarray]:
    """Return the parts that there are."""
    parts = [splits.train, splits.mask_validation, splits.model_validation, splits.test]
    return [part for part in parts if len(part)]


def assert_is_partition(splits: Splits, n: int, n_parts: int = 4) -> None:
    parts = parts_of(splits)
    assert len(parts) == n_parts
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))
    for part in parts:
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


def sizes_of(splits: Splits) -> list[int]:
    every = (splits.train, splits.mask_validation, splits.model_validation, splits.test)
    return [len(part) for part in every]


def test_shares_are_the_papers_or_those_of_a_cross_fitted_method():
    rows = np.zeros(1000)

    assert sizes_of(split_rows(Roles(rows), settings_of())) == [450, 300, 100, 150]
    assert sizes_of(split_rows(Roles(rows), settings_of(method=HOLDOUT))) == [850, 0, 0, 150]
    by_default = SelectionSettings(target="y")
    assert sizes_of(split_rows(Roles(rows), by_default)) == [1000, 0, 0, 0]
    in_time = SelectionSettings(target="y", columns=ColumnSettings(time="t"))
    assert sizes_of(split_rows(Roles(rows, times=np.arange(1000)), in_time)) == [850, 0, 0, 150]
    for asked, sizes in (
        ({"shares": (40, 20, 10, 30)}, [700, 0, 0, 300]),
        ({"alternatives": 1}, [1000, 0, 0, 0]),
    ):
        assert sizes_of(split_rows(Roles(rows), SelectionSettings(target="y", **asked))) == sizes


@shares_of_each
@quick
@given(n=st.integers(40, 500), seed=st.integers(0, 2**32 - 1))
def test_numbers_are_parted_within_one_row_of_the_shares(method, shares, n, seed):
    splits = split_rows(Roles(np.linspace(0, 1, n)), settings_of(seed, method=method))

    assert_is_partition(splits, n, len(shares))
    sizes = np.array([len(part) for part in parts_of(splits)])
    assert (np.abs(sizes - shares * n) < 1).all()


@shares_of_each
@quick
@given(sizes=st.lists(st.integers(20, 90), min_size=2, max_size=12), seed=st.integers(0, 99))
def test_classes_keep_their_proportions_and_parts_their_shares(method, shares, sizes, seed):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    splits = split_rows(Roles(y), settings_of(seed, method=method))

    assert_is_partition(splits, len(y), len(shares))
    counts = np.array([np.bincount(y[p], minlength=len(sizes)) for p in parts_of(splits)])
    assert (np.abs(counts - np.outer(shares, sizes)) < 2).all()
    assert (np.abs(counts.sum(axis=1) - shares * len(y)) < 1).all()


@shares_of_each
@quick
@given(sizes=st.lists(st.integers(8, 30), min_size=2, max_size=12), seed=st.integers(0, 99))
def test_every_part_gets_every_class_and_training_enough_for_the_folds(method, shares, sizes, seed):
    y = np.repeat(np.arange(len(sizes)), sizes)
    splits = split_rows(Roles(y), settings_of(seed, method=method))

    assert_is_partition(splits, len(y), len(shares))
    for part in parts_of(splits):
        assert set(y[part]) == set(range(len(sizes)))
    assert np.bincount(y[splits.train]).min() >= 5
    assert len(fold_indices(Roles(y[splits.train]), settings_of(seed))) == 5


def test_a_class_of_four_rows_is_enough_without_tuning():
    y = np.repeat([0, 1], [4, 40])
    splits = split_rows(Roles(y), settings_of(tuning="none"))

    assert [np.bincount(y[p])[0] for p in parts_of(splits)] == [1, 1, 1, 1]


@several_parts
def test_the_seed_decides_and_nothing_else(method):
    y = np.arange(200) % 3
    one, same, other = (
        split_rows(Roles(y), settings_of(seed, method=method)) for seed in (7, 7, 8)
    )

    pairs = zip(parts_of(one), parts_of(same), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert not np.array_equal(one.test, other.test)


@shares_of_each
@quick
@given(sizes=st.lists(st.integers(1, 30), min_size=8, max_size=80), seed=st.integers(0, 99))
def test_no_group_is_in_two_parts(method, shares, sizes, seed):
    groups = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    splits = split_rows(
        Roles(np.zeros(len(groups)), groups=groups), settings_of(seed, method=method)
    )

    assert_is_partition(splits, len(groups), len(shares))
    held = [set(groups[part]) for part in parts_of(splits)]
    assert sum(map(len, held)) == len(sizes)
    assert len(held[0]) >= 5


@shares_of_each
def test_groups_of_like_size_come_near_the_shares_in_every_class(method, shares):
    random = np.random.default_rng(0)
    groups = random.integers(0, 200, 4000)
    y = (random.random(4000) < np.where(groups < 60, 0.5, 0.02)).astype(np.int64)
    splits = split_rows(Roles(y, groups=groups), settings_of(method=method))

    counts = np.array([np.bincount(y[part]) for part in parts_of(splits)])
    assert len(counts) == len(shares)
    assert (np.abs(counts / counts.sum(axis=0) - shares[:, np.newaxis]) < 0.01).all()


def test_a_class_in_four_groups_only_reaches_all_four_parts():
    groups = np.repeat(np.arange(40), 10)
    y = np.where((groups < 4) & (np.arange(400) % 10 < 5), 1, 0)
    splits = split_rows(Roles(y, groups=groups), settings_of(folds=2))

    assert [set(y[part]) for part in parts_of(splits)] == [{0, 1}] * 4


@several_parts
def test_parts_by_group_do_not_depend_on_the_order_of_rows(method):
    random = np.random.default_rng(3)
    groups, y = random.integers(0, 30, 600), random.integers(0, 2, 600)
    order = random.permutation(600)
    one = split_rows(Roles(y, groups=groups), settings_of(method=method))
    other = split_rows(Roles(y[order], groups=groups[order]), settings_of(method=method))

    assert [set(groups[p]) for p in parts_of(one)] == [
        set(groups[order][p]) for p in parts_of(other)
    ]


@shares_of_each
@quick
@given(
    times=st.lists(st.integers(0, 40), min_size=60, max_size=300).filter(lambda t: len(set(t)) >= 9)
)
def test_later_parts_are_strictly_later(method, shares, times):
    times = np.array(times)
    splits = split_rows(Roles(np.zeros(len(times)), times=times), settings_of(method=method))

    assert_is_partition(splits, len(times), len(shares))
    parts = [times[part] for part in parts_of(splits)]
    for earlier, later in pairwise(parts):
        assert earlier.max() < later.min()
    assert len(set(parts[0])) >= 6


def test_training_gets_times_for_its_folds_however_many_rows_one_time_has():
    times = np.repeat(np.arange(12), [60] + [1] * 11)
    splits = split_rows(Roles(np.zeros(71), times=times), settings_of())

    assert [sorted(set(times[part])) for part in parts_of(splits)] == [
        [0, 1, 2, 3, 4, 5], [6], [7], [8, 9, 10, 11],
    ]  # fmt: skip
    assert len(fold_indices(Roles(np.zeros(65), times=times[splits.train]), settings_of())) == 5


@pytest.mark.parametrize(
    ("y", "given_as", "message"),
    [
        (np.zeros(7), {}, "the table has 7 rows but needs 8 (5 to train on, for the folds, and 1 "
         "in each other part); give more rows, or use fewer folds"),
        (np.repeat([0, 1], [40, 6]), {}, "class 'rare' has 6 rows but needs 8"),
        (np.zeros(40), {"groups": np.arange(40) % 7}, "group column 'g' has 7 different values "
         "but needs 8"),
        (np.zeros(40), {"times": np.arange(40) % 8}, "time column 't' has 8 different values but "
         "needs 9 (6 to train on"),
        (np.repeat([0, 1], [60, 20]), {"groups": np.arange(80) // 10},
         "class 'rare' has 0 rows in the model_validation part but needs 1, because groups stay "
         "whole and times in order; "),
        (np.repeat([0, 1], [60, 20]), {"times": np.arange(80)},
         "class 'rare' has 0 rows in the train part but needs 1"),
        (np.zeros(40), {"times": np.arange(40), "groups": np.arange(40)},
         "rows are split by groups or by times, not by both"),
    ],
)  # fmt: skip
def test_too_little_to_part_is_said_in_one_line(y, given_as, message):
    column = {"groups": {"group": "g"}, "times": {"time": "t"}}.get(next(iter(given_as), ""), {})
    with pytest.raises(InputError, match=re.escape(message)) as error:
        split_rows(Roles(y, classes=("often", "rare"), **given_as), settings_of(**column))
    assert "\n" not in str(error.value)


def _refusal(y, settings, given_as):
    """Return what parting the rows is refused with; empty where they can be parted."""
    try:
        split_rows(Roles(y, **given_as), settings)
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("method", "fewest", "too_few"), [("gbmo", 2, 7), (HOLDOUT, 3, 5), (FOLDED, 3, 4)]
)
@pytest.mark.parametrize("kind", ["rows", "a class", "every class", "groups", "times"])
def test_fewer_folds_are_offered_where_the_fewest_would_do_and_nowhere_else(
    kind, method, fewest, too_few
):
    for n in range(1, too_few + 1):
        of_40 = np.arange(40) % n
        y, given_as = {
            "rows": (np.zeros(n), {}),
            "a class": (np.repeat([0, 1, 2], [40, n, 7]), {}),
            "every class": (np.repeat([0, 1], [n, 7]), {}),
            "groups": (np.zeros(40), {"groups": of_40}),
            "times": (np.zeros(40), {"times": of_40}),
        }[kind]
        said = {
            folds: _refusal(y, settings_of(folds=folds, method=method), given_as)
            for folds in (5, fewest)
        }
        assert said[5]
        assert "fewer folds" not in said[fewest]
        assert said[5].endswith(", or use fewer folds") == (not said[fewest])
        assert not re.search(r"\b1 (rows|different values)\b", said[5])


def test_a_finer_column_is_offered_only_where_rows_would_do():
    for n_rows, remedy in (
        (8, "give more rows"),
        (9, "give rows of more times, or name a finer one (times"),
    ):
        said = _refusal(np.zeros(n_rows), settings_of(time="t"), {"times": np.arange(n_rows) // 4})
        assert f"; {remedy}" in said
        assert "needs 9 (6 to train on" in said
    assert not _refusal(np.zeros(9), settings_of(time="t"), {"times": np.arange(9)})


@pytest.mark.parametrize("embargo", [None, 3])
def test_a_class_that_a_part_of_time_lacks_never_costs_the_order_of_time(embargo):
    y, times = (np.arange(80) < 67) * (np.arange(80) % 2), np.arange(80.0)
    with pytest.raises(InputError) as refused:
        split_rows(Roles(y, times=times, embargo=embargo or 0.0), settings_of())
    assert refused.value.message.startswith("class 1 has 0 rows in the test part")
    assert "time column" not in refused.value.hint
    assert "choose other shares" in refused.value.hint
    assert "leave out the earliest or the latest rows" in refused.value.hint
    assert ("shorten the embargo" in refused.value.hint) == (embargo is not None)


@pytest.mark.parametrize("target", ["numbers", "classes"])
@pytest.mark.parametrize("order", ["none", "groups", "times"])
def test_folds_hold_out_every_row_once_or_the_later_ones(target, order):
    random = np.random.default_rng(5)
    y = random.integers(0, 3, 120) if target == "classes" else random.normal(size=120)
    keys = random.integers(0, 25, 120)
    given_as = {} if order == "none" else {order: keys}
    folds = fold_indices(Roles(y, **given_as), settings_of())

    assert len(folds) == 5
    held_out = np.concatenate([held for _, held in folds])
    for fitted, held in folds:
        assert not set(fitted) & set(held)
        if order == "groups":
            assert not set(keys[fitted]) & set(keys[held])
        if order == "times":
            assert keys[fitted].max() < keys[held].min()
            assert len(fitted) == (keys < keys[held].min()).sum()
    if order == "times":
        assert len(set(held_out)) == len(held_out)
    else:
        assert sorted(held_out) == list(range(120))
    again = fold_indices(Roles(y, **given_as), settings_of())
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))


@pytest.mark.parametrize(
    ("y", "given_as", "message"),
    [
        (np.zeros(3), {}, "5 folds need 5 rows but there are 3"),
        (np.repeat([0, 1], [20, 4]), {}, "5 folds need 5 rows of its rarest class but there are 4"),
        (np.zeros(40), {"groups": np.arange(40) % 4}, "5 folds need 5 groups but there are 4"),
        (np.zeros(40), {"times": np.arange(40) % 5},
         "5 folds need 5 different times after the first but there are 4"),
        (np.repeat([0, 1], [30, 10]), {"times": np.arange(40)},
         "fold 1 of 5 would be fitted on one class only"),
    ],
)  # fmt: skip
def test_too_little_to_fold_is_said_in_one_line(y, given_as, message):
    with pytest.raises(InputError, match=re.escape(message) + ".*; use fewer folds"):
        fold_indices(Roles(y, **given_as), settings_of())


EMBARGO = 9.0


@several_parts
@quick
@given(st.integers(0, 99), st.integers(80, 300))
def test_an_embargo_lies_between_every_part_and_the_next(method, seed, n):
    times = np.sort(np.random.default_rng(seed).integers(0, 900, n))
    rows = Roles(np.zeros(n), times=times, embargo=EMBARGO)
    without = split_rows(replace(rows, embargo=0), settings_of(method=method))
    splits = split_rows(rows, settings_of(method=method))
    parts, all_parts = parts_of(splits), parts_of(without)
    np.testing.assert_array_equal(splits.test, without.test)
    for earlier, later in pairwise(parts):
        assert times[later].min() - times[earlier].max() >= EMBARGO
    for part, whole, later in zip(parts, all_parts, all_parts[1:], strict=False):
        early = times[whole] <= times[later].min() - EMBARGO
        np.testing.assert_array_equal(part, whole[early])
    for fitted, held_out in fold_indices(rows, settings_of(method=method)):
        early = times <= times[held_out].min() - EMBARGO
        np.testing.assert_array_equal(fitted, np.flatnonzero(early))


def test_an_embargo_longer_than_a_part_is_refused_in_one_line():
    rows = Roles(np.zeros(200), times=np.arange(200), embargo=150)
    with pytest.raises(InputError, match="the embargo leaves no row in the train part; give"):
        split_rows(rows, settings_of())


def given_parts(sizes):
    """Return rows of the user's own parts, in an order at random."""
    codes = np.random.default_rng(2).permutation(np.repeat([0, 1, 2], sizes))
    return codes, Roles(np.zeros(len(codes)), split=codes)


@pytest.mark.parametrize(
    ("method", "given", "sizes"),
    [
        (HOLDOUT, [60, 20, 40], [80, 0, 0, 40]),  # trains on all but the rows of the test
        ("gbmo", [60, 20, 40], [60, 15, 5, 40]),  # validates on given rows
        ("gbmo", [100, 0, 40], [53, 35, 12, 40]),  # or on others, by shares
    ],
)
def test_given_parts_are_what_a_method_makes_of_them(method, given, sizes):
    codes, rows = given_parts(given)
    splits = split_rows(rows, settings_of(method=method))
    assert sizes_of(splits) == sizes
    np.testing.assert_array_equal(splits.test, np.flatnonzero(codes == 2))
    if sizes[0] == given[0]:
        np.testing.assert_array_equal(splits.train, np.flatnonzero(codes == 0))
    assert not set(splits.train) & {*splits.mask_validation, *splits.model_validation, *splits.test}


def test_given_parts_in_time_keep_rows_early_enough_only():
    rows = Roles(np.zeros(60), times=np.arange(60), split=np.repeat([0, 2], [40, 20]), embargo=5)
    splits = split_rows(rows, settings_of(method=HOLDOUT, tuning="none"))
    np.testing.assert_array_equal(splits.train, np.arange(36))


@pytest.mark.parametrize(
    ("given_as", "message"),
    [
        ({"times": np.arange(60)},
         "has 1 rows of train that are not earlier by 't' than every row"),
        ({"groups": np.arange(60) // 40},
         "has 1 groups of 'g' in both train and test; correct the"),
    ],
)  # fmt: skip
def test_given_parts_against_time_or_groups_are_refused(given_as, message):
    given = np.repeat([0, 2, 0], [30, 29, 1]) if "times" in given_as else np.repeat([0, 2], 30)
    columns = {"time": "t"} if "times" in given_as else {"group": "g"}
    rows = Roles(np.zeros(60), split=given, **given_as)
    for method in ("gbmo", HOLDOUT):
        with pytest.raises(InputError, match=message):
            split_rows(rows, settings_of(method=method, split="part", **columns))


def search_of(rows, n, method="gbmo", **columns):
    asked = settings_of(method=method, **columns)
    asked = asked.model_copy(update={"search_rows": n})
    return split_rows(rows, asked.model_copy(update={"search_rows": None})), split_rows(rows, asked)


@pytest.mark.parametrize("method", ["gbmo", HOLDOUT, FOLDED])
@pytest.mark.parametrize("kind", ["classes", "numbers", "groups", "times"])
def test_of_many_rows_some_search_and_all_are_for_the_final_models(method, kind):
    random = np.random.default_rng(0)
    y = random.choice(3, 9000, p=[0.6, 0.37, 0.03]) if kind == "classes" else random.random(9000)
    groups = random.choice(600, 9000) if kind == "groups" else None
    times = random.choice(500, 9000) if kind == "times" else None
    names = {"group": "g"} if kind == "groups" else {"time": "t"} if kind == "times" else {}
    whole, part = search_of(Roles(y, groups, times), 3000, method, **names)
    np.testing.assert_array_equal(part.test, whole.test)
    searched = np.concatenate(parts_of(part)[: 3 if method == "gbmo" else 1])
    assert 2700 <= len(searched) <= 3000
    every = np.sort(np.concatenate([searched, part.final, part.test]))
    np.testing.assert_array_equal(every, np.arange(9000))
    for name in ("train", "mask_validation", "model_validation"):
        before, after = getattr(whole, name), getattr(part, name)
        assert np.isin(after, before).all()
        left = np.setdiff1d(before, after)
        if kind == "classes" and len(before):
            shares = [np.bincount(y[index], minlength=3) / len(index) for index in (before, after)]
            assert np.abs(shares[0] - shares[1]).max() <= 1 / len(after)
        if kind == "groups":
            assert not np.isin(groups[after], groups[left]).any()
        if kind == "times" and len(before):
            assert times[after].min() > times[left].max()


def test_a_table_of_fewer_rows_is_searched_whole():
    whole, part = search_of(Roles(np.random.default_rng(0).random(1000)), 1000, FOLDED)
    np.testing.assert_array_equal(part.train, whole.train)
    assert not len(part.final)


def test_search_rows_that_leave_too_few_of_a_class_say_how_many_do():
    y = (np.arange(50_000) % 500 == 0).astype(np.int64)
    message = r"1,000 search_rows leave 2 .* class 1 .* folds need 5; give at least 2,500 search"
    with pytest.raises(InputError, match=message):
        search_of(Roles(y), 1000, FOLDED)
    assert np.bincount(y[search_of(Roles(y), 2500, FOLDED)[1].train])[1] == 5
