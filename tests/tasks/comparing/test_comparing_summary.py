"""The summary of a comparison: what it says of methods, and that nothing can fool it."""

import numpy as np
import pytest

from chaffinch.tasks.comparing.summary import cells_in_common
from chaffinch.tasks.comparing.text import (
    errors_of,
    gaps_of,
    lines_of,
    means_of,
    ranks_of,
)
from chaffinch.tasks.reporting.text import NOTHING
from chaffinch.tasks.statistics.metrics import METRICS
from tests.tasks.comparing.synthetic_results import failing, synthetic, synthetic_rows, table_of
from tests.tasks.comparing.synthetic_summary import (
    CLEAR,
    THREE,
    only,
    outcomes,
    summarise,
)


def test_figures_are_those_of_the_rows() -> None:
    rows = synthetic_rows(methods=THREE, sizes=(5, 10))
    found = outcomes(only(table_of(rows)))["mrmr, 10 features"]
    own = [r for r in rows if (r["method"], r["size"]) == ("mrmr", 10)]
    reference = [r for r in rows if r["method"] == "all"]
    losses, others = (np.array([r["loss"] for r in which]) for which in (own, reference))
    assert found.mean_loss == pytest.approx(losses.mean())
    assert found.deviation == pytest.approx(losses.std(ddof=1))
    assert found.difference.mean == pytest.approx((losses - others).mean())
    assert (found.n_scored, found.n_failed, found.n_missing) == (15, 0, 0)
    assert (found.n_features, found.n_total, found.keeps_all) == (10, 30, False)
    assert (found.selection_seconds, found.training_seconds) == (1.5, 0.25)
    assert -0.2 < found.stability.value < 0.2  # the sets were drawn at random


def test_metrics_are_means_over_the_same_cells_as_the_loss() -> None:
    rows = synthetic_rows(sizes=(), n_seeds=1, n_folds=4)
    rows += [{**row, "method": "none"} for row in rows if row["method"] == "all"]
    for row in rows:
        # in the last fold a class has no rows
        row |= {"accuracy": 0.6 + 0.1 * row["fold"], "roc_auc": (0.5, 0.7, 0.9, None)[row["fold"]]}
    rows = failing(rows, lambda row: row["method"] == "gbmo" and row["fold"] == 0, "no")
    table = only(table_of(rows))
    expected = {"accuracy": pytest.approx(0.8), "roc_auc": pytest.approx(0.8)}
    assert [outcome.metrics for outcome in table.outcomes] == [expected] * 2
    assert table.constant_metrics == expected


def test_results_of_an_earlier_release_have_no_metrics() -> None:
    results = synthetic()
    table = only(results.drop_columns(list(METRICS)))
    assert table == only(results)
    assert {len(outcome.metrics) for outcome in table.outcomes} == {0}


def test_the_order_of_rows_and_of_columns_changes_nothing() -> None:
    rows = synthetic_rows(tables=("a", "b"), methods=THREE, sizes=(5, 10), differences=CLEAR)
    rows = failing(rows, lambda r: r["method"] == "mrmr" and r["fold"] == 1, "no")[:-7]
    plain = summarise(table_of(rows))
    for seed in range(3):
        turned = table_of([rows[i] for i in np.random.default_rng(seed).permutation(len(rows))])
        assert summarise(turned.select(turned.column_names[::-1])) == plain


def test_missing_cells_are_counted_and_every_difference_is_of_pairs() -> None:
    rows = synthetic_rows(methods=THREE, differences=CLEAR)
    rows += [{**r, "method": "none", "features": []} for r in rows if r["method"] == "all"]
    cut = [r for r in rows if not (r["method"] == "gbmo" and r["seed"] == 2)]
    cut = [r for r in cut if not (r["method"] == "all" and (r["seed"], r["fold"]) == (0, 0))]
    summary = summarise(table_of(cut))
    (table,) = summary.tables
    found = outcomes(table)
    assert (summary.n_planned, summary.n_missing, summary.n_failed) == (60, 6, 0)
    assert (found["gbmo"].n_scored, found["gbmo"].n_missing) == (10, 5)
    assert found["gbmo"].difference.n_pairs == 9
    assert found["mrmr, 5 features"].difference.n_pairs == 14
    assert table.n_shared == 9
    shared = [r for r in rows if r["seed"] < 2 and (r["seed"], r["fold"]) != (0, 0)]
    for method, name in (("gbmo", "gbmo"), ("mrmr", "mrmr, 5 features")):
        losses = [r["loss"] for r in shared if r["method"] == method]
        assert found[name].mean_loss == pytest.approx(np.mean(losses))
    constant = [r["loss"] for r in shared if r["method"] == "none"]
    assert table.constant_loss == pytest.approx(np.mean(constant))
    assert means_of(table) in lines_of(summary)
    assert means_of(table) == (
        "Losses are means over the 9 cells that all compared have; differences over all cells that "
        "the two of them have."
    )
    assert gaps_of(summary)[0].startswith("6 of 60 losses were not computed.")


def test_cells_in_common_are_those_of_all_that_are_compared() -> None:
    rng = np.random.default_rng(0)
    for _ in range(100):
        scored = rng.random((6, 10)) < rng.uniform(0.3, 1, (6, 1))
        compared, shared = cells_in_common(scored)
        assert (shared == scored[compared].all(axis=0)).all() or not compared.any()
        assert shared.sum() >= scored.sum(axis=1).max() / 2
    compared, shared = cells_in_common(np.zeros((3, 4), dtype=bool))
    assert not compared.any()
    assert not shared.any()


@pytest.mark.parametrize(
    "reasons",
    [
        ("class '1' is rare", "class '2' is rare"),
        ("column x1 is constant", "column x2 is constant"),
        ("column 'a 1 b' is constant", "column 'a 2 b' is constant"),
        ("no 1st", "no 2nd"),
        ("it is nan", "it is nanny"),
    ],
)
def test_errors_that_name_other_things_are_not_one(reasons) -> None:
    rows = synthetic_rows(n_seeds=1, n_folds=2)
    for row in rows:
        if row["method"] != "all":
            row["loss"], row["error"] = None, reasons[row["fold"]]
    assert list(errors_of(summarise(table_of(rows)))) == [
        f"wine, linear: gbmo failed in 1 cell: {reason}" for reason in reasons
    ]


def test_lines_for_a_terminal_are_aligned_and_hold_what_matters() -> None:
    rows = synthetic_rows(tables=("a", "b\n"), methods=(*THREE, "選択[/bold]\x1b[2J"))
    lines = lines_of(summarise(table_of(rows[:-1])))
    assert lines[0] == "a, linear: log loss, lower is better; 3 seeds, 5 outer folds"
    assert lines[1].split()[:3] == ["method", "kept", "loss"]
    assert all(name in "\n".join(lines) for name in ("gbmo", "anova_f, 5 features", "Mean ranks"))
    assert "[/bold]\N{SYMBOL FOR ESCAPE}[2J, 5 features" in "\n".join(lines)
    assert not any("\x1b" in line or "\n" in line for line in lines)
    assert lines[2][lines[1].index("verdict")] == NOTHING
    assert lines[-1].startswith("1 of 150 losses were not computed")


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
