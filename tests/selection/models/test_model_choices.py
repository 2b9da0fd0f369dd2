"""What can be asked of the models: names, parameters, grids, files, and estimators of one's own."""

from __future__ import annotations

import io
import json
import threading
import zipfile
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import all_estimators
from sklearn.utils.validation import check_array

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import (
    MODELS,
    ScikitLearnModel,
    check_estimator,
    check_model,
    fit,
    fit_estimator,
    kind_of,
    load,
    packages_of,
    parameter_grid,
)
from chaffinch.tasks.selection.models.encoding import Encoding


def regression(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = 3 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=n)
    return Rows(X, y), Schema(tuple("abcdefghij"[:d]), (0,) * d)


def classes(n=120, d=4):
    rows, schema = regression(n, d)
    return Rows(rows.X, (rows.y > 0).astype(np.int64)), Schema(
        schema.features, schema.n_categories, 2
    )


def of_both_tasks(*families):
    """Return every model, and estimators, with each task that it suits."""
    suffixes = {"regression": "Regressor", "classification": "Classifier"}
    found = [(name, task) for name in MODELS for task in suffixes if kind_of(name).suits(task)]
    return found + [(name + suffixes[task], task) for name in families for task in suffixes]


def rows_for(name):
    return regression() if kind_of(name).suits("regression") else classes()


class Doubler(TransformerMixin, BaseEstimator):
    """A step that skops does not know."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return 2 * X


# ------------------------------------------------------------------ what is refused, and how


@pytest.mark.parametrize(
    ("name", "task", "parameters", "message"),
    [
        ("lightbgm", None, {}, "there is no model 'lightbgm'; did you mean lightgbm"),
        ("RandomForrest", None, {}, "did you mean RandomForest"),
        ("RandomForestRegressor", "classification", {}, "no classifier but the target is a class"),
        ("RandomForestClassifier", "regression", {}, "no regressor but the target is a number"),
        ("LinearSVC", "classification", {}, "gives no class probabilities"),
        ("StackingClassifier", "classification", {}, "made of other estimators; pass an instance"),
        ("lightgbm", None, {"num_leafs": 3}, "no parameter 'num_leafs'; did you mean num_leaves"),
        ("lightgbm", None, {"num_leaves": 1}, "must be a whole number in 2..131072 but is 1"),
        ("lightgbm", None, {"num_leaves": 7.0}, "must be a whole number in 2..131072 but is 7.0"),
        ("lightgbm", None, {"num_leaves": True}, "must be a whole number in 2..131072"),
        ("lightgbm", None, {"subsample": 0}, "must be a number above 0 and at most 1 but is 0"),
        ("lightgbm", None, {"learning_rate": "x"}, "must be a number above 0 but is 'x'"),
        ("lightgbm", None, {"extra_trees": 1}, "must be true or false but is 1"),
        ("lightgbm", None, {"boosting_type": "gblinear"}, "must be one of gbdt, dart, rf, goss"),
        ("lightgbm", None, {"boosting_type": "rf"}, "would grow equal trees; set colsample"),
        ("lightgbm", None, {"bagging_fraction": 0.5}, "goes by the name 'subsample' here"),
        ("lightgbm", None, {"num_threads": 4}, "follows from the free cores"),
        ("lightgbm", None, {"objective": "l1"}, "follows from the target"),
        ("lightgbm", None, {"verbosity": 1}, "models are trained quietly"),
        ("xgboost", None, {"seed": 1}, "comes from the seed of the run"),
        ("xgboost", None, {"eta": 0.1}, "goes by the name 'learning_rate' here"),
        ("xgboost", None, {"tree_method": "exact"}, "is fixed at 'hist'"),
        ("xgboost", None, {"max_depth": -1}, "must be a whole number in 0.."),
        ("catboost", None, {"n_estimators": 9}, "goes by the name 'iterations' here"),
        ("catboost", None, {"grow_policy": "Lossguide"}, "is fixed at 'SymmetricTree'"),
        ("CatBoostClassifier", None, {}, "there is no model 'CatBoostClassifier'; did you mean"),
        ("mlp", None, {"hidden_layer_sizes": []}, "must be a list of at least one layer's size"),
        ("pefs-network", None, {"hidden_layer_sizes": []}, "a list of at least one layer's size"),
        ("mlp", None, {"hidden_layer_sizes": 20}, "must be a list of at least one layer's size"),
        ("mlp", None, {"activation": "tanh"}, "must be one of relu, logistic but is 'tanh'"),
        ("mlp", None, {"alpha": float("nan")}, "a number at least 0 and at most 1e.30 but is nan"),
        ("mlp", None, {"alpha": 1e308}, "a number at least 0 and at most 1e.30 but is 1e.308"),
        ("mlp", None, {"learning_rate_init": 1e308}, "above 0 and at most 1e.30 but is 1e.308"),
        ("linear", "regression", {"C": 1}, "Ridge has no parameter 'C'"),
        ("linear", "classification", {"penalty": None}, "is deprecated in scikit-learn"),
        ("linear", None, {"n_estimators": 1}, "has no parameter 'n_estimators'"),
        ("linear", "regression", {"alpha": -1.0}, "'alpha' parameter of Ridge must be"),
        ("SVR", "regression", {"verbose": True}, "models are trained quietly"),
        ("RandomForestRegressor", "regression", {"n_jobs": 2}, "follows from the free cores"),
        ("RandomForestRegressor", "regression", {"max_dept": 2}, "did you mean max_depth"),
    ],
)
def test_what_cannot_work_is_refused_at_once(name, task, parameters, message):
    with pytest.raises(ValueError, match=message):
        check_model(name, task, parameters)


@pytest.mark.parametrize(
    ("of", "other", "message"),
    [
        ("classification", "regression", "mlp is no regressor but the target is a number; use one"),
        ("regression", "classification", "mlp is no classifier but the target is a class; use one"),
    ],
)
def test_a_model_of_one_task_is_refused_for_the_other(of, other, message, monkeypatch):
    monkeypatch.setitem(MODELS, "mlp", replace(MODELS["mlp"], task=of))
    for suited in (of, None):
        check_model("mlp", suited, {})
    with pytest.raises(ValueError, match=message):
        check_model("mlp", other, {})


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("lightgbm", {"n_estimators": 5, "cat_smooth": 1, "extra_trees": True}),
        ("xgboost", {"booster": "dart", "rate_drop": 0.1}),
        ("mlp", {"hidden_layer_sizes": (20, 10), "batch_size": 32}),
        ("linear", {"C": 0.1}),
        ("linear", {"alpha": 0.1}),
        ("SVR", {"C": 2.0}),
    ],
)
def test_what_can_work_for_some_target_passes_before_the_target_is_known(name, parameters):
    check_model(name, None, parameters)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((120, 3))}, r"X must have shape \(n, 4\)"),
        ({"X": np.zeros((0, 4)), "y": np.zeros(0)}, "at least 1 row and 1 feature but has 0 and 4"),
        ({"y": np.zeros(3)}, r"y must have shape \(120,\)"),
        ({"y": np.full(120, np.nan)}, "y must be finite"),
        ({"weight": np.zeros(120)}, "weight must be above 0"),
        ({"weight": np.full(120, np.nan)}, "weight must be above 0"),
        *(
            ({"y": y, "n_classes": 2}, r"y must hold class indices in 0\.\.1")
            for y in (np.zeros(120), np.full(120, 2), np.full(120, -1))
        ),
        *(({"code": c}, rf"'c' must hold codes in 0\.\.2 but holds {c}") for c in (-1, 3, 0.5)),
        *(({"seed": s}, rf"seed must be in 0\.\.4294967295 but is {s}") for s in (-1, 2**32)),
    ],
)
def test_what_cannot_be_trained_on_is_refused(change, message):
    rows, schema = regression()
    given = {"X": rows.X, "y": rows.y, "weight": None, "n_classes": 0, "seed": 0} | change
    n_categories = (0, 0, 3 * ("code" in given), 0)
    if "code" in given:
        given["X"][:, 2] = 1
        given["X"][7, 2] = given["code"]
    schema = Schema(schema.features, n_categories, given["n_classes"])
    with pytest.raises(ValueError, match=message):
        fit("xgboost", Rows(*map(given.get, ("X", "y", "weight"))), schema, {}, seed=given["seed"])


@pytest.mark.parametrize("name", [*MODELS, "ExtraTreesRegressor"])
def test_the_largest_seed_is_a_seed(name):
    rows, schema = rows_for(name)
    fit(name, rows, schema, SMALL.get(name, {}), seed=2**32 - 1).predict(rows.X)


@pytest.mark.parametrize("name", MODELS)
def test_files_of_another_model_are_refused(name):
    rows, schema = rows_for(name)
    model = fit(name, rows, schema, SMALL.get(name, {}), seed=0)
    narrower = schema.select(np.array([True, True, False, False]))
    with pytest.raises(ValueError, match="has 4 features but the schema 2"):
        load(model.kind, model.to_files(), narrower)
    with pytest.raises(ValueError, match=r"files must hold model\.\w+ but hold nothing"):
        load(model.kind, {}, schema)


def test_an_unknown_kind_of_file_is_refused():
    known = ", ".join(dict.fromkeys(kind.model.kind for kind in MODELS.values()))
    with pytest.raises(ValueError, match=f"one of {known} but is 'pickle'"):
        load("pickle", {}, regression()[1])


# ------------------------------------------------------------------------------------- grids


@pytest.mark.parametrize(
    ("preset", "name", "size"),
    [
        ("paper", "lightgbm", 96),
        ("paper:bmo", "lightgbm", 96),
        ("paper:bmo", "xgboost", 96),
        ("paper:bmo", "mlp", 48),
        ("paper:afs-bm", "lightgbm", 2 * 3**5 * 2),
        ("paper:afs-bm", "xgboost", 3**5 * 2),
        ("paper:afs-bm", "mlp", 48),
    ],
)
def test_the_grid_of_a_paper_is_all_of_its_table_1(preset, name, size):
    candidates = parameter_grid(name, preset, "regression", 1000)
    assert len(candidates) == size
    assert len({json.dumps(candidate) for candidate in candidates}) == size
    for candidate in candidates:
        check_model(name, None, candidate)


def test_the_papers_grid_comes_in_a_fixed_order():
    first, second = parameter_grid("lightgbm", "paper", "regression", 1000)[:2]
    assert first == {
        "num_leaves": 7,
        "learning_rate": 0.01,
        "n_estimators": 10,
        "subsample": 0.6,
        "colsample_bytree": 0.6,
        "min_child_samples": 5,
    }
    assert second == first | {"min_child_samples": 10}


@pytest.mark.parametrize(
    ("name", "task"), of_both_tasks("RandomForest", "HistGradientBoosting", "KNeighbors")
)
def test_the_small_grid_has_at_most_four_candidates(name, task):
    candidates = parameter_grid(name, "small", task, 1000)
    assert 1 <= len(candidates) <= 4
    for candidate in candidates:
        check_model(name, task, candidate)


@pytest.mark.parametrize(
    ("name", "parameter", "sizes"),
    [
        ("lightgbm", "min_child_samples", [1, 3, 19, 20, 20, 20]),
        ("lightgbm", "min_data_per_group", [1, 9, 49, 50, 100, 100]),
        ("HistGradientBoostingRegressor", "min_samples_leaf", [1, 3, 19, 20, 20, 20]),
    ],
)
def test_few_rows_make_small_leaves_and_groups(name, parameter, sizes):
    for n_rows, size in zip((5, 36, 199, 200, 1000, 10**6), sizes, strict=True):
        candidates = parameter_grid(name, "small", "regression", n_rows)
        assert {candidate[parameter] for candidate in candidates} == {size}
    assert parameter_grid(name, "none", "regression", 36) == [{}]


def test_a_grid_nobody_published_is_refused():
    assert parameter_grid("linear", "none", "regression", 1000) == [{}]
    with pytest.raises(ValueError, match="no grid for 'linear', only for lightgbm, xgboost, mlp"):
        parameter_grid("linear", "paper", "regression", 1000)
    with pytest.raises(ValueError, match="no grid for 'catboost', only for lightgbm, xgboost, mlp"):
        parameter_grid("catboost", "paper:afs-bm", "regression", 1000)
    with pytest.raises(ValueError, match=r"must be one of small, .*, none but is 'large'"):
        parameter_grid("linear", "large", "regression", 1000)


# ------------------------------------------------------------------------------ known answers


def test_lightgbm_is_the_regressor_that_the_published_runs_used():
    import lightgbm

    rows, schema = regression(200)
    parameters = parameter_grid("lightgbm", "paper", "regression", 1000)[50]
    theirs = lightgbm.LGBMRegressor(
        **parameters,
        random_state=42,
        n_jobs=1,
        deterministic=True,
        force_col_wise=True,
        verbosity=-1,
    ).fit(rows.X, rows.y)
    ours = fit("lightgbm", rows, schema, parameters, seed=42)
    np.testing.assert_array_equal(ours.predict(rows.X), theirs.booster_.predict(rows.X))


def test_linear_is_ridge_on_standardised_columns():
    rows, schema = regression()
    Z = (rows.X - rows.X.mean(axis=0)) / rows.X.std(axis=0)
    centred = rows.y - rows.y.mean()
    w = np.linalg.solve(Z.T @ Z + 2 * np.eye(4), Z.T @ centred)
    model = fit("linear", rows, schema, {"alpha": 2.0}, seed=0)
    np.testing.assert_allclose(model.predict(rows.X), Z @ w + rows.y.mean(), rtol=1e-10)


def test_only_what_takes_no_missing_values_is_fitted_on_standardised_columns():
    rows, schema = regression()
    X = rows.X * [1, 10, 100, 1000]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    for own, seen in ((KNeighborsRegressor(), Z), (RandomForestRegressor(random_state=0), X)):
        model = fit_estimator(own, Rows(X, rows.y), schema, seed=0)
        expected = own.set_params(n_jobs=1).fit(seen, rows.y).predict(seen)
        np.testing.assert_allclose(model.predict(X), expected)


def test_the_network_learns_what_scikit_learns_does():
    from sklearn.neural_network import MLPClassifier

    rows, schema = classes(600)
    train, held_out = rows.take(np.arange(400)), rows.take(np.arange(400, 600))
    parameters = {"learning_rate_init": 0.01, "alpha": 0.01}
    ours = fit("mlp", train, schema, parameters | {"max_iter": 1000}, seed=0).predict(held_out.X)
    theirs = MLPClassifier((20,), max_iter=1000, random_state=0, **parameters)
    theirs.fit(train.X, train.y)

    def log_loss(probabilities):
        return -np.log(probabilities[np.arange(200), held_out.y]).mean()

    assert abs(log_loss(ours) - log_loss(theirs.predict_proba(held_out.X))) < 0.03


@pytest.mark.parametrize("activation", ["relu", "logistic"])
def test_a_network_predicts_in_float64_from_float32_weights(activation):
    rows, schema = regression()
    parameters = {"hidden_layer_sizes": [7, 5], "activation": activation, "max_iter": 3}
    model = fit("mlp", rows, schema, parameters, seed=0)
    hidden = (rows.X - rows.X.mean(axis=0)) / rows.X.std(axis=0)
    for w, b in zip(model.weights[:-1], model.biases[:-1], strict=True):
        np.testing.assert_array_equal(w, w.astype(np.float32))
        hidden = hidden @ w + b
        hidden = np.maximum(hidden, 0) if activation == "relu" else 1 / (1 + np.exp(-hidden))
    outputs = hidden @ model.weights[-1] + model.biases[-1]
    expected = rows.y.mean() + rows.y.std() * outputs[:, 0]
    np.testing.assert_allclose(model.predict(rows.X), expected, rtol=1e-12)


def test_a_network_leaves_torch_as_it_was():
    import torch

    before, state = torch.get_num_threads(), torch.get_rng_state()
    fit("mlp", *regression(), {"max_iter": 2}, seed=0)
    assert torch.get_num_threads() == before
    assert torch.equal(torch.get_rng_state(), state)


def test_a_diverging_network_says_so():
    rows, schema = regression()
    with pytest.raises(ValueError, match=r"diverged; lower learning_rate_init \(it is 1e\+30\)"):
        fit("mlp", rows, schema, {"learning_rate_init": 1e30}, seed=0)


def test_encoding_of_a_table_by_hand():
    X = np.array([[1.0, 0.0, 5.0], [3.0, 2.0, 5.0], [np.nan, np.nan, 5.0]])
    encoding = Encoding.fit(X, (0, 3, 0))
    assert encoding.feature_of_column.tolist() == [0, 1, 1, 1, 2]
    np.testing.assert_array_equal(
        encoding.transform(X), [[-1, 1, 0, 0, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]]
    )
    np.testing.assert_array_equal(encoding.transform(np.array([[5.0, 9, 6]])), [[3, 0, 0, 0, 1]])


@pytest.mark.parametrize(("name", "task"), of_both_tasks("RandomForest"))
def test_a_table_without_information_gives_the_mean_or_the_shares_of_the_classes(name, task):
    X = np.column_stack([np.full(50, 0.1), np.full(50, np.nan), np.full(50, 1.0)])
    is_number = task == "regression"
    y, expected = (np.arange(50.0), 24.5) if is_number else (np.arange(50) % 5 // 3, [0.6, 0.4])
    schema = Schema(("a", "b", "c"), (0, 0, 2), 0 if is_number else 2)
    few = {"steps": 500, "hidden_layer_sizes": [20]} if name == "pefs-network" else {}
    predicted = fit(name, Rows(X, y), schema, few, seed=0).predict(X)
    np.testing.assert_allclose(predicted, np.broadcast_to(expected, predicted.shape), rtol=0.05)


# ------------------------------------------------------------------- estimators of one's own


def test_an_estimator_is_copied_and_never_changed():
    rows, schema = regression()
    mine = RandomForestRegressor(n_estimators=3, n_jobs=2)
    model = fit_estimator(mine, rows, schema, seed=5)
    assert mine.random_state is None
    assert mine.n_jobs == 2
    assert not hasattr(mine, "estimators_")
    assert model.estimator.random_state == 5
    assert model.estimator.n_jobs == 1
    again = fit_estimator(mine, rows, schema, seed=5)
    np.testing.assert_array_equal(model.predict(rows.X), again.predict(rows.X))


def test_a_pipeline_gets_seeds_weights_and_missing_values_in_its_steps():
    rows, schema = regression()
    X = rows.X.copy()
    X[3, 0] = np.nan
    weight = np.ones(len(rows))
    weight[:60] = 100
    mine = make_pipeline(SimpleImputer(), PolynomialFeatures(2), RandomForestRegressor(3))
    model = fit_estimator(mine, Rows(X, rows.y), schema, seed=1)
    weighted = fit_estimator(mine, Rows(X, rows.y, weight), schema, seed=1)
    assert model.pipeline.named_steps["columns"] == "passthrough"
    assert model.estimator[-1].random_state == 1
    assert model.used_features.all()
    assert (model.predict(X) != weighted.predict(X)).any()
    back = load("sklearn", weighted.to_files(), schema)
    np.testing.assert_array_equal(back.predict(X), weighted.predict(X))


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        (
            make_pipeline(ColumnTransformer([("hot", OneHotEncoder(), [2])]), Ridge()),
            "Pipeline must choose no columns but has a ColumnTransformer, .* give the estimator",
        ),
        (
            HistGradientBoostingRegressor(categorical_features=[2]),
            r"must name no columns by position but has categorical_features=\[2\], .* leave it out",
        ),
        (
            make_pipeline(StandardScaler(), LGBMRegressor(monotone_constraints=[1, 0, 0, 0])),
            r"has lgbmregressor__monotone_constraints=\[1, 0, 0, 0\], and",
        ),
    ],
)
def test_what_names_columns_is_refused_since_models_are_fitted_on_some_of_them(mine, said):
    rows, schema = regression()
    for check in (
        lambda: check_estimator(mine, "regression"),
        lambda: fit_estimator(mine, rows, schema, seed=0),
    ):
        with pytest.raises(ValueError, match=said):
            check()


def test_a_class_wrapped_for_its_probabilities_works():
    rows, schema = classes()
    with pytest.raises(ValueError, match=r"CalibratedClassifierCV\(LinearSVC\(\), ensemble=False"):
        fit_estimator(LinearSVC(), rows, schema, seed=0)
    mine = CalibratedClassifierCV(SVC(), ensemble=False)
    model = fit_estimator(mine, rows, schema, seed=0)
    assert (model.predict(rows.X).argmax(axis=1) == rows.y).mean() > 0.9
    load("sklearn", model.to_files(), schema)


def test_weights_that_an_estimator_cannot_take_are_refused():
    rows, schema = regression()
    weighted = Rows(rows.X, rows.y, np.ones(len(rows)))
    with pytest.raises(ValueError, match="KNeighborsRegressor takes no sample weights; use"):
        fit_estimator(
            make_pipeline(SimpleImputer(), KNeighborsRegressor()), weighted, schema, seed=0
        )


@pytest.mark.parametrize("mine", [Ridge, "Ridge", object()])
def test_what_is_no_estimator_is_refused(mine):
    with pytest.raises(ValueError, match="must be an instance with scikit-learn's get_params"):
        fit_estimator(mine, *regression(), seed=0)


def test_an_estimator_for_another_target_is_refused():
    with pytest.raises(ValueError, match="LogisticRegression is no regressor"):
        fit_estimator(LogisticRegression(), *regression(), seed=0)


def test_a_type_that_is_not_trusted_is_named_and_loads_only_if_trusted():
    rows, schema = regression()
    model = fit_estimator(make_pipeline(Doubler(), Ridge()), rows, schema, seed=0)
    name = f"{Doubler.__module__}.Doubler"
    with pytest.raises(ValueError, match=f"types that are not trusted: {name}; name them in"):
        load("sklearn", model.to_files(), schema)
    back = ScikitLearnModel.from_files(model.to_files(), schema, trusted=[name])
    np.testing.assert_array_equal(back.predict(rows.X), model.predict(rows.X))


SMALL = {
    "lightgbm": {"n_estimators": 5},
    "xgboost": {"n_estimators": 5},
    "catboost": {"iterations": 5},
    "mlp": {"max_iter": 5},
    "pefs-network": {"steps": 10},
    "ExtraTreesRegressor": {"n_estimators": 5},
}


def dumps(estimator):
    import skops.io  # takes half a second

    return skops.io.dumps(estimator)


def edited(content, *changes):
    """Return a skops file in whose schema one text stands in the place of another."""
    source, target = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            member = source.read(name)
            if name == "schema.json":
                for old, new in changes:
                    assert json.dumps(old).encode() in member
                    member = member.replace(json.dumps(old).encode(), json.dumps(new).encode())
            archive.writestr(name, member)
    return target.getvalue()


ATTACKS = {  # the function that is called on predict, and what it is bound to
    "a helper of scikit-learn's tests that starts Python": (
        "sklearn.experimental.tests.test_enable_hist_gradient_boosting",
        "assert_run_python_script_without_output",
        "open({!r}, 'w')",
    ),
    "a function that a module of scikit-learn has imported": (
        "sklearn.utils.discovery",
        "import_module",
        "hostile",
    ),
    "a function of scikit-learn that writes a file": (
        "sklearn.tree._export",
        "export_graphviz",
        "",
    ),
    "a function of Python": ("builtins", "exec", "open({!r}, 'w')"),
    "a function of numpy": ("numpy", "load", ""),
    "a name in a package of classes that comes from elsewhere": (
        "sklearn.pipeline",
        "Interval",
        "",
    ),
    "a method": ("sklearn.pipeline.Pipeline", "fit", ""),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_that_names_code_to_run_is_refused_and_runs_nothing(attack, tmp_path, monkeypatch):
    module, function, bound = ATTACKS[attack]
    ran = tmp_path / "ran"
    (tmp_path / "hostile.py").write_text(f"open({str(ran)!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    rows, schema = regression()
    step = FunctionTransformer(partial(check_array, "bound"))
    pipeline = Pipeline([("columns", step), ("estimator", Ridge().fit(rows.X, rows.y))])
    step.n_features_in_ = 4
    content = edited(
        dumps(pipeline),
        ("sklearn.utils.validation", module),
        ("check_array", function),
        ('"bound"', json.dumps(bound.format(str(ran)))),
    )
    with pytest.raises(ValueError, match=f"types that are not trusted: {module}.{function}; name"):
        load("sklearn", {"model.skops": content}, schema).predict(rows.X)
    assert not ran.exists()


def test_what_a_trusted_package_has_imported_is_not_trusted():
    rows, schema = regression()
    model = fit_estimator(make_pipeline(Doubler(), Ridge()), rows, schema, seed=0)
    content = edited(model.to_files()["model.skops"], ("Doubler", "BaseEstimator"))
    with pytest.raises(ValueError, match=r"not trusted: .*BaseEstimator; name"):
        load("sklearn", {"model.skops": content}, schema, trusted=[Doubler.__module__])


def test_an_estimator_is_trusted_with_its_types_and_package_but_not_all_of_numpy():
    estimator = make_pipeline(FunctionTransformer(np.nan_to_num), Doubler(), Ridge())
    package = Doubler.__module__.partition(".")[0]
    assert packages_of(estimator) == tuple(
        sorted(["numpy.nan_to_num", f"{Doubler.__module__}.Doubler", package])
    )
    rows, schema = regression()
    model = fit_estimator(estimator, rows, schema, seed=0)
    back = load("sklearn", model.to_files(), schema, trusted=packages_of(estimator))
    np.testing.assert_array_equal(back.predict(rows.X), model.predict(rows.X))


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
@pytest.mark.filterwarnings("ignore")  # of sixty estimators on a small table
def test_every_estimator_that_can_be_fitted_comes_back_without_trust(kind):
    rows, schema = regression() if kind == "regressor" else classes()
    back = []
    for name, estimator in all_estimators(type_filter=kind):
        try:
            model = fit_estimator(estimator(), Rows(abs(rows.X), rows.y), schema, seed=0)
            expected = model.predict(rows.X)
        except (AttributeError, TypeError, ValueError):  # made of others, or no such target
            continue
        read = load("sklearn", model.to_files(), schema)
        np.testing.assert_array_equal(read.predict(rows.X), expected)
        back.append(name)
    assert len(back) >= 20


DAMAGED = {
    "nothing": lambda whole: b"",
    "something else": lambda whole: b"<html>not found</html>",
    "cut short": lambda whole: whole[:-100],
    "another byte in an array": lambda whole: whole[:60] + b"?" + whole[61:],
    "another byte in the list of members": lambda whole: whole[:-60] + b"\xff" + whole[-59:],
    "another way of compressing": lambda whole: (
        whole[: (at := whole.rindex(b"PK\1\2") + 10)] + b"c" + whole[at + 1 :]
    ),
    "no schema": lambda whole: whole.replace(b"schema.json", b"schema.jsom"),
    "another object": lambda whole: dumps(Ridge()),
    "a name that is none": lambda whole: edited(whole, ("Ridge", "Ri\x1b[2J\ndge")),
    "an unknown loader": lambda whole: edited(whole, ("ObjectNode", "SubjectNode")),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_of_an_estimator_is_one_line(damage):
    rows, schema = regression()
    whole = fit("Ridge", rows, schema, {}, seed=0).to_files()["model.skops"]
    with pytest.raises(ValueError, match=r"is no skops file or is damaged; give it as"):
        load("sklearn", {"model.skops": DAMAGED[damage](whole)}, schema)


@pytest.mark.parametrize(
    "name", ["DecisionTree", "RandomForest", "AdaBoost", "HistGradientBoosting"]
)
def test_a_tree_that_leads_out_of_its_arrays_is_damaged(name):
    rows, schema = regression()
    few = {"n_estimators": 2} if name in ("RandomForest", "AdaBoost") else {}
    files = fit(f"{name}Regressor", rows, schema, few, seed=0).to_files()
    load("sklearn", files, schema)  # whole
    field = "left" if name.startswith("Hist") else "left_child"
    source = zipfile.ZipFile(io.BytesIO(files["model.skops"]))
    for child in (0, 1_000_000):
        damaged, n_changed = io.BytesIO(), 0
        with zipfile.ZipFile(damaged, "w") as archive:
            for member in source.namelist():
                content = source.read(member)
                header = content[:2000].decode("latin-1")
                if member.endswith(".npy") and f"'{field}'" in header:
                    nodes = np.load(io.BytesIO(content))
                    inner = (
                        (nodes["is_leaf"] == 0)
                        if "is_leaf" in nodes.dtype.names
                        else nodes[field] >= 0
                    )
                    nodes[field][np.flatnonzero(inner)[0]] = child
                    content = io.BytesIO()
                    np.save(content, nodes)
                    content, n_changed = content.getvalue(), n_changed + 1
                archive.writestr(member, content)
        assert n_changed
        with pytest.raises(ValueError, match="is no skops file or is damaged"):
            load("sklearn", {"model.skops": damaged.getvalue()}, schema)


@pytest.mark.parametrize("size", [200, 255, 256, 300])
def test_histogram_boosting_takes_codes_up_to_its_bins_and_one_hot_beyond(size):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, size, 600).astype(np.float64)
    X = np.column_stack([rng.normal(size=600), codes, rng.normal(size=600)])
    schema = Schema(("a", "b", "c"), (0, size, 0))
    rows = Rows(X, 5.0 * (codes % 2) + X[:, 2])
    model = fit_estimator(HistGradientBoostingRegressor(max_iter=20), rows, schema, seed=0)
    natively = model.estimator.is_categorical_ is not None
    assert natively == (size <= 255)
    assert model.used_features[2]
    back = load("sklearn", model.to_files(), schema)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))


def test_models_are_trained_side_by_side_as_they_are_alone():
    rows, schema = regression()
    alone = [fit("mlp", rows, schema, {"max_iter": 5}, seed=s).predict(rows.X) for s in range(3)]
    together: dict[int, np.ndarray] = {}

    def work(seed: int) -> None:
        together[seed] = fit("mlp", rows, schema, {"max_iter": 5}, seed=seed).predict(rows.X)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(3):
        np.testing.assert_array_equal(together[seed], alone[seed])
