"""The summary of a comparison: what it says of methods, and that nothing can fool it."""

import numpy as np
import pytest

from chaffinch.tasks.comparing.plan import Contender, Planned
from chaffinch.tasks.comparing.summary import cells_in_common
from chaffinch.tasks.comparing.text import (
    allowance_of,
    errors_of,
    gaps_of,
    lines_of,
    means_of,
    reason_of,
    reasons_of,
    recommendation_of,
    verdict_over,
    verdicts_of,
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
    with_constant,
)


def test_clear_gains_and_losses_are_told_and_no_difference_is_not() -> None:
    table = only(synthetic(methods=THREE, differences=CLEAR))
    verdicts = {name: outcome.verdict for name, outcome in outcomes(table).items()}
    assert verdicts == {
        "all features": None,
        "anova_f, 5 features": "worse",
        "gbmo": "better",
        "mrmr, 5 features": "cannot tell",
    }
    assert verdicts_of(table) == (
        "Selection is better: with gbmo. It is worse: with anova_f (5 features). "
        "For the other one, these results cannot tell."
    )


def test_what_loses_less_than_is_tolerated_is_as_good() -> None:
    rows = synthetic_rows(methods=THREE, differences=CLEAR, noise=0.001)
    table = only(with_constant(rows, 0.5, 0.001))
    assert outcomes(table)["mrmr, 5 features"].verdict == "as good with fewer columns"
    assert verdicts_of(table) == (
        "Selection is better: with gbmo. It is as good with fewer columns: with mrmr (5 features). "
        "It is worse: with anova_f (5 features)."
    )
    reason = "it loses no more than 2 % of what all features explain beyond a constant"
    assert reasons_of(table) == [f"As good with fewer columns ({reason}): mrmr (5 features)."]
    # what all features explain is too little for that
    small = outcomes(only(with_constant(rows, 0.01, 0.001)))["mrmr, 5 features"]
    assert small.verdict == "cannot tell"


def test_of_the_better_the_lowest_loss_is_recommended_or_else_the_fewest_features() -> None:
    rows = synthetic_rows(methods=THREE, sizes=(5, 10), differences=CLEAR, noise=0.001)
    table = only(with_constant(rows, 0.5, 0.001))
    loss, of_all = (f"{outcomes(table)[name].mean_loss:.4g}" for name in ("gbmo", "all features"))
    assert recommendation_of(table).startswith(
        "Recommended: gbmo. It keeps 10 of 30 features and is shown to have a lower loss, "
        f"{loss} in place of {of_all}; to select takes "
    )
    alike = [row for row in rows if row["method"] != "gbmo"]
    assert recommendation_of(only(with_constant(alike, 0.5, 0.001))).startswith(
        "Recommended: mrmr, 5 features. It keeps 5 of 30 features and is shown to lose no more "
        "than 2 % of what all features explain; to select takes "
    )


def test_nothing_is_recommended_that_is_not_shown() -> None:
    worse = synthetic_rows(methods=("anova_f",), differences={"anova_f": 0.1}, noise=0.001)
    assert recommendation_of(only(with_constant(worse, 0.5, 0.001))) == (
        "No method is recommended: none is shown to be better than all features, or as good."
    )
    assert recommendation_of(only(with_constant(worse, 0.0, 0.05))) == ""  # nothing to select from


def test_where_nothing_beats_a_constant_there_is_nothing_to_select_from() -> None:
    rows = synthetic_rows(methods=THREE, differences={"anova_f": 0.1}, noise=0.01)
    table = only(with_constant(rows, 0.0, 0.05))
    assert table.is_nothing_to_select_from
    assert verdicts_of(table).startswith(
        "All features are not shown to predict better than a constant, so there is nothing to "
        "select from yet. Selection is worse: with anova_f (5 features). For the other 2, "
    )
    assert not only(with_constant(rows, 0.5, 0.05)).is_nothing_to_select_from
    assert not only(table_of(rows)).is_nothing_to_select_from  # not tested


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


def test_a_method_that_is_all_features_under_another_name_never_helps() -> None:
    rows = synthetic_rows(methods=THREE)
    all_rows = [row for row in rows if row["method"] == "all"]
    same_losses = [{**row, "method": "copy", "n_features": 29} for row in all_rows]
    # trained with other seeds, it may do better; but nothing was selected
    luckier = [{**row, "method": "full", "loss": row["loss"] - 0.1} for row in all_rows]
    for i, row in enumerate(luckier):
        row["loss"] += 0.001 * (i % 3)
    table = only(table_of(rows + same_losses + luckier))
    found = outcomes(table)
    assert found["copy"].verdict == "cannot tell"
    assert reason_of(found["copy"], table) == (
        "the loss is the same as with all features in each of 15 pairs"
    )
    assert found["full"].verdict == "cannot tell"
    assert reason_of(found["full"], table) == "it keeps every feature"
    assert table.n_tested == 3  # neither of the two was


def test_where_selection_changes_no_loss_it_is_as_good_with_fewer_columns() -> None:
    same = synthetic_rows(methods=("gbmo",), noise=0)
    table = only(with_constant(same, 0.5, 0.1))
    assert table.rivals[0].verdict == "as good with fewer columns"
    assert verdicts_of(table) == "Selection is as good with fewer columns: with gbmo."
    table = only(table_of(same))  # whether all features are of any use is not known
    assert table.rivals[0].verdict == "cannot tell"
    assert reason_of(table.rivals[0], table) == (
        "the loss is the same as with all features in each of 15 pairs"
    )
    # a score of labels may be the same in each of a few cells by chance
    scored = [{**row, "loss_name": "accuracy"} for row in same]
    table = only(with_constant(scored, 0.5, 0.1))
    (found,) = table.rivals
    assert found.verdict == "cannot tell"
    assert reason_of(found, table) == (
        "the score is the same in each of 15 pairs, which may be chance where it counts labels"
    )


def test_what_is_a_constant_in_every_cell_is_not_better() -> None:
    rows = synthetic_rows(methods=("gbmo",), differences={"gbmo": -0.1})
    of_gbmo = [row for row in rows if row["method"] == "gbmo"]
    rows += [{**row, "method": "none", "features": []} for row in of_gbmo]
    table = only(table_of(rows))
    (found,) = table.rivals
    assert found.difference.interval[1] < 0
    assert found.verdict == "cannot tell"
    assert reason_of(found, table) == "no better than a constant, which looks at no feature"


def test_one_lucky_method_of_many_is_not_called_a_win() -> None:
    """The same rows: alone the method would win, among twenty it does not."""
    rows = synthetic_rows(methods=["lucky", *(f"m{i}" for i in range(19))], noise=0.05)
    excess = iter(np.random.default_rng(1).normal(-0.035, 0.03, 15))
    reference = {(r["seed"], r["fold"]): r["loss"] for r in rows if r["method"] == "all"}
    for row in rows:
        if row["method"] == "lucky":
            row["loss"] = reference[row["seed"], row["fold"]] + next(excess)
    alone = outcomes(only(table_of([r for r in rows if r["method"] in ("all", "lucky")])))
    table = only(table_of(rows))
    among = outcomes(table)
    assert alone["lucky, 5 features"].verdict == "better"
    assert among["lucky, 5 features"].verdict == "cannot tell"
    assert among["lucky, 5 features"].difference == alone["lucky, 5 features"].difference
    assert among["lucky, 5 features"].difference.interval[1] < 0
    assert reason_of(among["lucky, 5 features"], table) == "may be luck among 20 that were tested"


def test_a_verdict_by_the_constant_is_no_verdict_by_one_lucky_interval_of_many() -> None:
    """Alone a method is shown to be better than a constant; among twenty it is not."""
    names = ["lucky", *(f"m{i}" for i in range(19))]
    rows = synthetic_rows(methods=names, differences={**dict.fromkeys(names, -0.07), "lucky": -0.1})
    few = [row for row in rows if row["method"] in ("all", "lucky")]
    alone, among = (only(with_constant(some, -0.07, 0.01)) for some in (few, rows))
    one, same = outcomes(alone)["lucky, 5 features"], outcomes(among)["lucky, 5 features"]
    assert one.over_constant.interval == same.over_constant.interval
    assert (one.verdict, same.verdict) == ("better", "cannot tell")
    assert (alone.n_tested_to_constant, among.n_tested_to_constant) == (1, 20)
    assert allowance_of(alone) == ""
    assert allowance_of(among) == (
        "Verdicts allow for all 20 differences to all features and all 20 to a constant that were "
        "tested (Holm); intervals stand for themselves."
    )
    assert allowance_of(among) in lines_of(summarise(with_constant(rows, -0.07, 0.01)))


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


def test_a_method_with_few_cells_does_not_take_them_from_the_others() -> None:
    rows = synthetic_rows(methods=THREE)
    cut = [r for r in rows if not (r["method"] == "mrmr" and (r["seed"] or r["fold"] > 2))]
    summary = summarise(table_of(cut))
    (table,) = summary.tables
    found = outcomes(table)["mrmr, 5 features"]
    assert table.n_shared == 15
    assert not found.is_compared
    assert not found.is_on_front
    assert found.difference.n_pairs == 3
    assert means_of(table) == (
        "Losses are means over the 15 cells that all compared have, of mrmr, 5 features over its "
        "own 3; differences over all cells that the two of them have."
    )
    assert summary.rankings[0].left_out == ("mrmr",)
    assert gaps_of(summary)[1] == (
        "wine, linear: too few cells to be ranked or on the Pareto front: mrmr (5 features)."
    )


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


def test_errors_are_told_in_words_and_once() -> None:
    rows = synthetic_rows(methods=THREE, sizes=(5, 10))
    summary = summarise(table_of(failing(rows, lambda r: r["method"] == "mrmr", "needs classes")))
    assert list(errors_of(summary)) == [
        "wine, linear: mrmr (every size) failed in 15 cells each: needs classes"
    ]
    some = failing(rows, lambda r: r["method"] == "mrmr" and r["fold"] < r["size"] // 5, "no")
    assert list(errors_of(summarise(table_of(some)))) == [
        "wine, linear: mrmr (every size) failed in 3 to 6 cells each: no"
    ]
    found = outcomes(summary.tables[0])["mrmr, 5 features"]
    assert (found.n_failed, found.n_missing, found.mean_loss) == (15, 0, None)
    assert (found.verdict, found.difference, found.stability) == ("cannot tell", None, None)
    assert reason_of(found, 3) == "no cell has both its loss and that with all features"


def test_errors_that_differ_in_figures_alone_are_one_with_the_first_as_an_example() -> None:
    figures = ["0.75", "1.6", "-2", "1e-07", "2e+20", "nan", "-inf", "12", "0", "3", "4", "5", "6"]
    rows = synthetic_rows(methods=("gbmo", "mrmr"), n_folds=13, n_seeds=1)
    for row in rows:
        if row["method"] != "all":
            row["loss"], row["error"] = None, f"Tom's error is {figures[row['fold']]}; give more"
    assert list(errors_of(summarise(table_of(rows)))) == [
        "wine, linear: gbmo, mrmr (5 features) failed in 13 cells each, for reasons that differ in "
        "figures alone, such as: Tom's error is 0.75; give more"
    ]


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


def test_without_all_features_nothing_can_be_told() -> None:
    table = only(table_of([r for r in synthetic_rows(methods=THREE) if r["method"] != "all"]))
    assert verdicts_of(table) == (
        "No method could be compared to all features: no cell has both losses."
    )
    assert {outcome.verdict for outcome in table.rivals} == {"cannot tell"}
    assert table.reference.mean_loss is None


@pytest.mark.parametrize(("n_seeds", "n_folds"), [(1, 1), (2, 1), (1, 2)])
def test_one_or_two_cells_tell_nothing_and_break_nothing(n_seeds: int, n_folds: int) -> None:
    results = synthetic(methods=THREE, differences=CLEAR, n_seeds=n_seeds, n_folds=n_folds)
    table = only(results)
    assert {outcome.verdict for outcome in table.rivals} == {"cannot tell"}
    n = n_seeds * n_folds
    words = "1 pair where 3 are needed" if n == 1 else "2 pairs where 3 are needed"
    assert reason_of(table.rivals[0], table) == words
    assert any("cannot tell" in line for line in lines_of(summarise(results)))


def test_a_model_that_was_never_reached_on_a_table_is_missing_there() -> None:
    rows = synthetic_rows(tables=("a", "b"), models=("linear", "mlp"))
    cut = [r for r in rows if (r["table"], r["model"]) != ("b", "mlp")]
    summary = summarise(table_of(cut))
    assert [(t.table, t.model, t.n_missing) for t in summary.tables] == [
        *(("a", "linear", 0), ("a", "mlp", 0), ("b", "linear", 0)),
    ]
    assert summary.not_reached == (("b", "mlp"),)
    assert (summary.n_planned, summary.n_missing) == (120, 30)
    assert gaps_of(summary)[1] == "Tables not reached with some model: b with mlp."


def test_what_was_not_reached_is_named_and_counts_as_planned() -> None:
    """Of 3 tables, 2 models, 6 cells and 3 contenders each, 2 cells are there."""
    rows = synthetic_rows(tables=("a",), methods=("gbmo", "mrmr"), n_seeds=1, n_folds=2)
    cells = tuple((seed, fold) for seed in range(3) for fold in range(2))
    contenders = (Contender("all", None), Contender("gbmo", None), Contender("mrmr", 5))
    meant = Planned(dict.fromkeys("abc", contenders), ("linear", "mlp"), cells, 0.02)
    summary = summarise(table_of(rows), meant)
    assert (summary.n_planned, summary.n_missing) == (3 * 2 * 6 * 3, 3 * 2 * 6 * 3 - 2 * 3)
    assert len(summary.not_reached) == 5
    said = [
        "102 of 108 losses were not computed. What is compared is compared over the cells that all "
        "concerned have.",
        "Tables not reached with any model: b, c.",
        "Models not reached on any table: mlp.",
    ]
    assert gaps_of(summary) == said
    assert lines_of(summary)[-3:] == said


def test_a_method_that_fails_does_so_at_every_size_it_was_to_be_asked_for() -> None:
    rows = synthetic_rows(methods=("mrmr",), sizes=(5, 10))
    of_all = [row for row in rows if row["method"] == "all"]
    failed = failing([{**row, "method": "mrmr"} for row in of_all], lambda row: True, "no")
    sizes = (None, 5, 10)
    contenders = (Contender("all", None), *(Contender("mrmr", size) for size in sizes))
    meant = Planned(
        {"wine": contenders}, ("linear",), tuple((s, f) for s in range(3) for f in range(5)), 0.02
    )
    summary = summarise(table_of(of_all + failed), meant)
    (table,) = summary.tables
    assert list(errors_of(summary)) == ["wine, linear: mrmr failed in 15 cells: no"]
    assert [(o.n_failed, o.n_missing) for o in table.rivals] == [(15, 0)] * 3


def test_a_selection_that_rests_on_a_leak_says_so_first_and_gives_it_as_the_reason() -> None:
    tables = [f"t{i}" for i in range(8)]
    rows = synthetic_rows(tables=tables, methods=["gbmo"], differences=CLEAR)
    leak = next(row["features"][0] for row in rows if row["method"] == "gbmo")
    summary = summarise(table_of(rows), leaks={"t3": frozenset({leak})})
    leaking = summary.tables[3]
    (outcome,) = leaking.rivals
    assert outcome.verdict == "cannot tell"
    assert repr(leak) in reason_of(outcome, leaking)
    first, *_ = verdict_over(summary.tables).split(". ")
    assert first.startswith("In 1 of 8 ")
    assert repr(leak) in first
    assert "gbmo (7)" in verdict_over(summary.tables)


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
