"""Differentiable selection as a ranking, by every door."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.methods import Dfs
from chaffinch.tasks.selection.baselines.columns import one_table
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.dfs.search import dfs
from tests.synthetic import good_table

LINEAR = ModelSettings(name="linear", tuning="none")


def numbers(n, n_classes=0):
    return Schema(tuple(f"x{j}" for j in range(n)), (0,) * n, n_classes)


def synthetic(n_rows=800, n_features=40, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features))
    return Rows(X, 3 * X[:, 5] + 2 * X[:, 11] + 1.5 * X[:, 30] + random.normal(size=n_rows))


@pytest.mark.parametrize("order", [1, 2, 4, 6])
def test_what_makes_the_target_stays_at_the_highest_penalties(order) -> None:
    scores = dfs(synthetic(), numbers(40), 0, order=order, steps=1000)
    assert set(np.argsort(scores)[-3:]) == {5, 11, 30}
    assert scores.argmax() == 5
    assert scores.min() > 0
    assert len(np.unique(scores)) > 30


def test_the_best_of_a_ranking_are_what_a_descent_for_that_number_chooses() -> None:
    rows = synthetic()
    scores = dfs(rows, numbers(40), 0, order=4, steps=1000)
    for size in (1, 2, 3):
        chosen = chaffinch.differentiable_selection(rows.X, rows.y, n_features=size).features
        assert set(np.argsort(scores)[-size:]) == set(chosen)


def test_a_score_is_at_least_a_penalty_where_the_feature_stays_at_it() -> None:
    rows, penalties = synthetic(), (0.01, 0.1, 5.0, 20.0)
    scores = dfs(rows, numbers(40), 0, order=4, steps=60, penalties=penalties)
    path = chaffinch.differentiable_path(rows.X, rows.y, penalties=penalties, steps=60)
    sizes = [found.n_left for found in path]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1] > 0
    for penalty, found in zip(penalties, path, strict=True):
        assert set(np.flatnonzero(scores >= penalty)) == set(found.features)


def test_constants_and_tables_of_one_feature() -> None:
    rows = synthetic()
    rows.X[:, 5] = 2.0
    scores = dfs(rows, numbers(40), 0, order=4, steps=5)
    assert scores[5] == 0 < np.delete(scores, 5).min()
    assert (
        dfs(synthetic(n_features=31).select(np.arange(31) == 5), numbers(1), 0, order=4, steps=5)
        > 0
    )
    still = Rows(rows.X, np.ones(800))
    assert not dfs(still, numbers(40), 0, order=4, steps=5).any()


def test_too_few_rows_for_the_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order 6 needs at least 7 rows"):
        dfs(synthetic(n_rows=6), numbers(40), 0, order=6, steps=5)


def test_mostly_empty_columns_are_sparse_and_mean_the_same() -> None:
    random = np.random.default_rng(0)
    codes = random.integers(-1, 30, 500).astype(float)
    codes[codes < 0] = np.nan
    number = np.where(random.random(500) < 0.1, np.nan, random.normal(size=500))
    rows = Rows(np.column_stack([number, codes, np.full(500, 2.0)]), random.normal(size=500))
    table, feature = one_table(rows, Schema(("a", "b", "c"), (0, 30, 0)))
    dummies = pd.get_dummies(pd.Series(codes), dummy_na=True).to_numpy(float)
    filled = np.where(np.isnan(number), np.nanmean(number), number)
    expected = np.column_stack([filled, dummies[:, -1:], dummies[:, :-1]])
    assert table.format == "csr"
    np.testing.assert_allclose(table.toarray(), expected)
    assert feature.tolist() == [0] + [1] * 31
    dense, _ = one_table(Rows(rows.X[:, :1], rows.y), numbers(1))
    np.testing.assert_allclose(dense, filled[:, np.newaxis])


def test_its_settings_come_by_every_way_to_ask() -> None:
    def select(method, **options):
        return chaffinch.select(good_table(), "churned", method=method, model=LINEAR, **options)

    by_name = select("dfs", n_features=2).contract
    assert by_name["settings"]["method"] == {
        "kind": "dfs", "n_features": [2], "min_score": None, "penalty": None, "order": 4,
        "steps": 1000, "batch_rows": None,
    }  # fmt: skip
    assert select(Dfs(n_features=(2,))).contract == by_name
    other = select({"kind": "dfs", "order": 2, "steps": 12}, n_features=2).contract
    assert other["settings"]["method"]["order"] == 2
    assert other["settings"]["method"]["steps"] == 12
    kept = select(Dfs(min_score=1.0))
    assert len(kept.features) == sum(score >= 1 for score in kept.scores.values()) > 0
    with pytest.raises(InputError, match="kind"):
        chaffinch.methods.Ranking(kind="dfs")


def test_a_run_takes_penalties_and_the_best_of_several_by_held_out_rows_wins() -> None:
    def select(**settings):
        method = {"kind": "dfs", "batch_rows": 100, **settings}
        return chaffinch.select(good_table(), "churned", method=method, model=LINEAR)

    one, several = select(penalty=0.5), select(penalty=[2, 0.1, 0.5])
    assert one.contract["settings"]["method"]["penalty"] == [0.5]
    assert several.contract["settings"]["method"]["penalty"] == [0.1, 0.5, 2.0]
    assert 0 < len(one.features) < 12
    assert all((score >= 0.5) == (name in one.features) for name, score in one.scores.items())
    with pytest.raises(InputError, match="n_features and penalty exclude each other but are 2 and"):
        Dfs(n_features=2, penalty=1)
    with pytest.raises(InputError, match=r"penalty must be above 0\.0 but is 0"):
        Dfs(penalty=0)
    said = "penalty must be one that a feature is worth, but all .* leave by dfs below 10000; give"
    with pytest.raises(InputError, match=said):
        select(penalty=1e4)


def test_it_is_compared_and_reported(tmp_path) -> None:
    result = chaffinch.compare(
        good_table(), "churned", methods=["dfs", "mission"], models=[LINEAR], folds=2, seeds=1,
        sizes=[2], store=tmp_path,
    )  # fmt: skip
    assert {"dfs", "mission"} <= set(result.results["method"])
    chosen = chaffinch.select(good_table(), "churned", method="dfs", model=LINEAR, n_features=2)
    chosen.report(tmp_path / "report.html")
    assert "residual variance" in (tmp_path / "report.html").read_text()
