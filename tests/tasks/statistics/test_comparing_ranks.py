"""Ranks of methods, and the choice of a size: what a summary says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chaffinch.tasks.comparing.plan import Contender
from chaffinch.tasks.comparing.text import (
    choices_of,
    gaps_of,
    lines_of,
    ranks_of,
    short_name_of,
    sizes_left_out,
    sizes_of,
    verdicts_of,
)
from tests.tasks.comparing.synthetic_results import failing, synthetic, synthetic_rows, table_of
from tests.tasks.comparing.synthetic_summary import CLEAR, THREE, only, summarise, with_constant


def test_ranks_over_tables_have_a_critical_difference() -> None:
    tables = [f"t{i}" for i in range(8)]
    (ranking,) = summarise(synthetic(tables=tables, methods=THREE, differences=CLEAR)).rankings
    assert (ranking.over, ranking.n_blocks) == ("tables", 8)
    assert (ranking.methods[0], ranking.methods[-1]) == ("gbmo", "anova_f")
    assert (ranking.mean_ranks[0], ranking.mean_ranks[-1]) == (1, 4)
    assert ranking.friedman_p < 0.01
    assert ranking.critical_difference == pytest.approx(2.569 * (20 / 48) ** 0.5, rel=1e-3)
    assert (0, 3) not in ranking.groups
    assert "Some are better than others" in ranks_of(ranking)


def test_ranks_over_cells_of_one_table_have_none_and_say_so() -> None:
    (ranking,) = summarise(synthetic(methods=THREE, differences=CLEAR)).rankings
    assert (ranking.over, ranking.n_blocks) == ("cells", 15)
    assert (ranking.friedman_p, ranking.critical_difference, ranking.groups) == (None, None, ())
    assert sum(ranking.mean_ranks) == pytest.approx(1 + 2 + 3 + 4)
    assert "not independent" in ranks_of(ranking)


def test_unless_friedmans_test_rejects_no_methods_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    methods = [f"m{i}" for i in range(7)]
    rows = synthetic_rows(tables="abcdef", methods=methods, n_seeds=1, n_folds=1)
    for row in rows:  # one apart from another, and six between them that blur it
        row["loss"] = rng.random() + {"all": -0.42, "m0": 0.42}.get(row["method"], 0)
    (ranking,) = summarise(table_of(rows)).rankings
    assert ranking.friedman_p > 0.05
    assert np.ptp(ranking.mean_ranks) > ranking.critical_difference
    assert ranking.groups == ((0, 7),)
    assert "this holds for every pair" in ranks_of(ranking)


def test_sizes_of_unlike_tables_are_ranked_by_their_place() -> None:
    rows = synthetic_rows(tables=["narrow"], methods=THREE, sizes=(3, 6))
    rows += synthetic_rows(tables=["wide"], methods=THREE, sizes=(30, 60), n_total=90)
    first, second = summarise(table_of(rows)).rankings
    assert (first.sizes, second.sizes) == ((3, 30), (6, 60))
    assert sizes_of(second) == "6 to 60 features, by table"
    rows += synthetic_rows(tables=["tiny"], methods=THREE, sizes=(1,), n_total=4)
    (uneven,) = summarise(table_of(rows)).rankings
    assert set(uneven.methods) == {"all features", "gbmo"}


def test_a_method_that_chose_its_size_as_well_is_two_in_the_ranks() -> None:
    rows = synthetic_rows(methods=("flbmo",))
    own = [{**r, "size": None} for r in rows if r["method"] == "flbmo"]
    (ranking,) = summarise(table_of(rows + own)).rankings
    assert set(ranking.methods) == {"all features", "flbmo", "flbmo, its own size"}


def test_a_method_at_its_own_size_is_said_to_be_so_where_it_has_other_sizes() -> None:
    rows = synthetic_rows(methods=("rfe", "gbmo"), differences={"rfe": -0.1, "gbmo": -0.1})
    own = [{**r, "size": None, "loss": r["loss"] - 0.1} for r in rows if r["method"] == "rfe"]
    for row in rows:  # asked for a size, it may be better or worse
        if row["method"] == "rfe":
            row["loss"] += 0.1 + 0.02 * (row["fold"] % 2)
    summary = summarise(table_of(rows + own))
    (table,) = summary.tables
    assert verdicts_of(table).startswith("Selection is better: with gbmo, rfe (its own size).")
    shown = [line.split("  ")[1] for line in lines_of(summary) if line.startswith("  ")]
    assert shown[1:5] == ["all features", "gbmo", "rfe, its own size", "rfe, 5 features"]
    assert short_name_of(Contender("rfe", None), table.contenders, 2) == "r…, its own"
    # and where there is no other size there is nothing to tell apart
    alone = only(table_of([row for row in rows + own if row["size"] is None]))
    assert verdicts_of(alone) == "Selection is better: with gbmo, rfe."


def test_where_the_smallest_is_best_nothing_is_said_of_smaller_ones() -> None:
    rows = synthetic_rows(methods=("mrmr",), sizes=(2, 5), noise=0)
    for row in rows:
        row["loss"] += 0.5 if row["size"] == 5 else 0
    assert choices_of(only(table_of(rows))) == [
        "Of the sizes asked for, mrmr does best with 2 features; no fewer were asked for."
    ]


def test_the_choice_of_size_is_put_into_words() -> None:
    rows = synthetic_rows(methods=("mrmr", "relieff"), sizes=(2, 5, 20), noise=0)
    for row in rows:
        if row["size"] == 2 or (row["method"], row["size"]) == ("relieff", 5):
            row["loss"] += 0.5
        elif row["size"] == 5:
            row["loss"] += 0.01 if row["fold"] % 2 == 0 else -0.008
    assert choices_of(only(table_of(rows))) == [
        "Of the sizes asked for, mrmr does best with 20 features; with 5 it is within one standard "
        "error of that.",
        "Of the sizes asked for, relieff does best with 20 features; none smaller is near it.",
    ]


def test_no_size_is_commended_that_does_no_better_than_a_constant() -> None:
    """With 5 features the loss is near that with 20, and at or above the constant's."""
    rows = synthetic_rows(methods=("mrmr",), sizes=(5, 20), noise=0)
    for row in rows:
        if row["size"] == 5:
            row["loss"] += 0.01 if row["fold"] % 2 == 0 else -0.008
    best = "Of the sizes asked for, mrmr does best with 20 features;"
    for excess, fewer in (
        (0.1, "with 5 it is within one standard error of that."),
        (0.001, "none smaller is near it and better than a constant."),
        (-0.1, "no size does better than a constant."),
    ):
        assert choices_of(only(with_constant(rows, excess)))[-1] == f"{best} {fewer}"


def told(rows: list[dict[str, Any]]) -> list[str]:
    return list(sizes_left_out(summarise(table_of(rows)).tables))


def test_who_was_not_asked_for_sizes_is_told() -> None:
    sized = synthetic_rows(methods=("mrmr", "relieff"), sizes=(2, 5))
    own = [{**r, "size": None} for r in sized if r["method"] == "mrmr" and r["size"] == 2]
    assert not told([*sized, *own])
    alone = [{**r, "method": "afs_bm"} for r in own]
    assert told([*sized, *own, *alone]) == [
        "afs_bm finds its number of features without being asked for a size."
    ]
    assert not told(alone + [r for r in sized if r["method"] == "all"])


def test_of_a_table_that_failed_wholly_it_is_said_that_it_failed() -> None:
    rows = synthetic_rows(tables=("a", "b"), methods=("mrmr", "relieff"), sizes=(2, 5))
    own = [{**r, "size": None} for r in rows if r["size"] == 2]  # how a method fails
    failed = failing([r for r in own + rows if r["size"] is None], lambda r: True, "no")
    summary = summarise(table_of([r for r in rows if r["table"] == "a"] + [
        r for r in failed if r["table"] == "b"
    ]))  # fmt: skip
    assert not list(sizes_left_out(summary.tables))
    assert gaps_of(summary)[1:] == ["b, linear: not in the ranks, since everything failed there."]
    assert [ranking.sizes for ranking in summary.rankings] == [(2,), (5,)]


def test_a_table_on_which_all_features_alone_have_losses_is_said_to_be_out_of_the_ranks() -> None:
    rows = synthetic_rows(tables=("a", "b"), methods=("mrmr",))
    failed = failing(rows, lambda r: r["table"] == "b" and r["method"] == "mrmr", "no")
    assert gaps_of(summarise(table_of(failed)))[1:] == [
        "b, linear: not in the ranks, since losses are there of all features alone."
    ]


def test_sizes_that_are_not_ranked_because_tables_have_unlike_numbers_of_them_are_told() -> None:
    many = synthetic_rows(methods=("mrmr",), sizes=(2, 5))
    few = [{**r, "table": "narrow"} for r in synthetic_rows(methods=("mrmr",), sizes=(2,))]
    assert told(many + few) == [
        "linear: tables have unlike numbers of sizes (1, 2), as where shares of few features come "
        "to one number, so only what chose its own size is ranked."
    ]
