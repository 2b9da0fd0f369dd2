"""A fitted estimator is the base model of GBMO and FLBMO, and is masked as it is."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import chaffinch
from chaffinch import InputError
from tests.tasks.pipeline.stages import goes_on_from_what_was_found
from tests.tasks.synthetic_runs import rows_of

pytestmark = pytest.mark.usefixtures("undrawn")

NAMES = ["height of roof", "e", "a", "d", "c", "b"]  # a run has them in another order


def table(seed=0, n=240):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)) + 0.5 * random.normal(size=(n, 1))
    y = X @ [2.0, 0.0, -1.5, 0.7, 0.1, 0.0] + 0.3 * random.normal(size=n)
    return pd.DataFrame(X.round(6), columns=NAMES).assign(y=y.round(6))


ESTIMATORS = {
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=15, min_child_samples=5, verbose=-1, n_jobs=1),
    "xgboost": xgboost.XGBRegressor(n_estimators=8, max_depth=3, n_jobs=1),
    "forest": RandomForestRegressor(n_estimators=5, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), LinearRegression()),
    "no engine": KNeighborsRegressor(),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_its_own_losses_lead_the_search(name, tmp_path) -> None:
    """Against a prediction of the estimator itself for each masked table."""
    other = table(seed=1)
    model = ESTIMATORS[name].fit(other[NAMES], other["y"])
    result = chaffinch.select(
        table(), "y", model=model, method="flbmo", n_features=2, store=tmp_path
    )
    held_out = rows_of(result, "mask_validation")
    mean = rows_of(result, "train").mean()
    masked, left = held_out[NAMES].copy(), sorted(NAMES)
    for step in result.path.itertuples():
        losses = {}
        for feature in left:
            trial = masked.assign(**{feature: mean[feature]})
            losses[feature] = np.mean((model.predict(trial) - held_out["y"]) ** 2)
        assert step.loss == pytest.approx(min(losses.values()), rel=1e-5)
        assert losses[step.feature] == pytest.approx(step.loss, rel=1e-5)
        masked[step.feature] = mean[step.feature]
        left.remove(step.feature)
    assert result.losses["test"]["selected"] > 0


def test_columns_without_names_are_those_of_the_table_in_order() -> None:
    other = table(seed=1)
    by_name, by_place = (
        lightgbm.LGBMRegressor(n_estimators=15, verbose=-1, n_jobs=1).fit(X, other["y"])
        for X in (other[NAMES], other[NAMES].to_numpy())
    )
    paths = [
        chaffinch.select(table(), "y", model=model, method="gbmo").path
        for model in (by_name, by_place)
    ]
    pd.testing.assert_frame_equal(*paths)


def test_classes_are_those_of_its_labels() -> None:
    rows, other = (
        table(seed).assign(y=lambda t: np.where(t["y"] > 0, "up", "down")) for seed in (0, 1)
    )
    model = LogisticRegression().fit(other[NAMES], other["y"])
    result = chaffinch.select(rows, "y", model=model, method="flbmo", n_features=3)
    assert {"height of roof", "a"} < set(result.features)


def test_it_is_left_as_it_is_and_another_fit_is_another_run(tmp_path) -> None:
    first, second = (table(seed) for seed in (1, 2))
    model = RandomForestRegressor(n_estimators=5, random_state=0)
    options = {"method": "flbmo", "n_features": 2, "store": tmp_path}
    runs = set()
    for rows in (first, second):
        model.fit(rows[NAMES], rows["y"])
        before = model.predict(first[NAMES])
        result = chaffinch.select(table(), "y", model=model, **options)
        assert (model.predict(first[NAMES]) == before).all()
        runs.add(result.run)
    assert len(runs) == 2
    goes_on_from_what_was_found(
        result, lambda: chaffinch.select(table(), "y", model=model, **options)
    )


def test_other_methods_fit_it_again() -> None:
    rows = table()
    unfitted = RandomForestRegressor(n_estimators=5, random_state=0)
    fitted = RandomForestRegressor(n_estimators=5, random_state=0).fit(rows[NAMES][::-1], rows["y"])
    paths = [
        chaffinch.select(rows, "y", model=model, method="select_from_model", n_features=3).path
        for model in (unfitted, fitted)
    ]
    pd.testing.assert_frame_equal(*paths)


@pytest.mark.parametrize(
    ("change", "fitted_on", "said"),
    [
        (
            lambda rows: rows.assign(a=np.where(rows["a"] > 0, "high", "low")),
            NAMES,
            "cannot be masked where 'a' is a category",
        ),
        (lambda rows: rows, NAMES[:5], "must know the 6 features of the table but knows 5.*'b'"),
        (lambda rows: rows.drop(columns="a"), NAMES, "the 5 features of .* but knows 6.*'a'"),
    ],
)
def test_one_that_was_fitted_on_other_columns_is_refused(change, fitted_on, said) -> None:
    model = lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1)
    model.fit(table()[fitted_on], table()["y"])
    with pytest.raises(InputError, match=said):
        chaffinch.select(change(table()), "y", model=model, method="gbmo")


def test_one_that_knows_other_classes_is_refused() -> None:
    rows = table().assign(y=lambda t: np.where(t["y"] > 0, "up", "down"))
    model = LogisticRegression().fit(rows[NAMES], rows["y"] == "up")
    said = "must know the classes 'down', 'up' but knows False, True; fit it on the same target"
    with pytest.raises(InputError, match=said):
        chaffinch.select(rows, "y", model=model, method="gbmo")


class Doubled(LinearRegression):
    def predict(self, X):
        return 2 * super().predict(X)


def test_one_that_changes_its_own_predictions_is_refused() -> None:
    model = Doubled().fit(table()[NAMES], table()["y"])
    with pytest.raises(InputError, match=r"cannot be masked: .*; give it unfitted, or ask"):
        chaffinch.select(table(), "y", model=model, method="gbmo")
