"""The selector in scikit-learn: its own checks, its tools, and the same features as `select`."""

import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from scipy.sparse import csc_array, csr_array, issparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, get_scorer, r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import chaffinch
from chaffinch import FeatureSelector, InputError, ModelSettings
from chaffinch.methods import Boruta, ParticleSwarm, Pefs
from chaffinch.tasks.pipeline.progress import STEPS
from chaffinch.tasks.settings.method import class_of, kinds, method_of
from chaffinch.tasks.settings.stage_titles import title_of

# Parts and folds are dealt by rows: one of weight 2 lies in one of them, two equal rows may in two.
EXPECTED_FAILED_CHECKS = {
    f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")
}
# one of each class, and a ranking that asks a model
METHODS = {
    class_of(kind): kind for kind in kinds() if kind not in ("gbmo", "reselect", "tree_shap")
}
# settings with which the checks, which fit some 60 times, are quick
SHORT = {
    "boruta": Boruta(rounds=20),
    "particle_swarm": ParticleSwarm(individuals=4, generations=4),
    "pefs": Pefs(hidden_layer_sizes=(16,), most_sweeps=2, seeds=1, penalties=(0.1,)),
}
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X, y = X.iloc[:200, :8], y[:200]
COUNTED = X.set_axis([f"x{j}" for j in range(8)], axis=1)  # as the columns of an array
FAST = {"method": "gbmo", "model": ModelSettings(name="linear", tuning="none")}


@pytest.mark.parametrize(
    "method",
    [
        "gbmo",
        *(pytest.param(kind, marks=pytest.mark.e2e) for kind in ("tree_shap", *METHODS.values())),
    ],
)
def test_scikit_learn_checks_pass(method):
    by_trees = {"name": "xgboost", "parameters": {"min_child_weight": 0}}
    model = by_trees if method == "tree_shap" else {"name": "linear"}
    few_rows = ModelSettings(**model, tuning="none", folds=3 if method == "auto" else 2)
    selector = FeatureSelector(SHORT.get(method, method), model=few_rows)
    done = check_estimator(selector, on_skip=None, on_fail=None)
    failed = {
        check["check_name"]: check["exception"] for check in done if check["status"] == "failed"
    }
    if method_of(SHORT.get(method, method)).traits.takes_weights:
        assert failed.keys() == EXPECTED_FAILED_CHECKS, failed
    else:
        assert all("sample_weight" in name for name in failed), failed


@pytest.mark.parametrize(
    ("convert", "output"),
    [
        *((pl.from_pandas, output) for output in ("default", "pandas", "polars")),
        (lambda table: pl.from_pandas(table).lazy(), "pandas"),
        (pa.Table.from_pandas, "polars"),
        (lambda table: pa.Table.from_pandas(table).to_reader(), "default"),
        (lambda table: dask.dataframe.from_pandas(table, npartitions=2), "default"),
    ],
    ids=["polars", "polars to pandas", "polars to polars", "lazy", "arrow", "reader", "dask"],
)
def test_tables_of_all_kinds_are_transformed_alike(convert, output):
    selector = FeatureSelector(**FAST).set_output(transform=output).fit(convert(X), y)
    kept, expected = selector.transform(convert(X)), selector.transform(X)
    assert type(kept) is type(expected)
    assert np.array_equal(kept, expected)
    with pytest.raises(ValueError, match="feature names"):
        selector.transform(convert(X[X.columns[::-1]]))


FRAME, ARRAY = pd.DataFrame, np.asarray
KINDS = (FRAME, pl.from_pandas, pa.Table.from_pandas, ARRAY, csr_array, lambda X: ARRAY(X).tolist())


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        (y, KINDS),
        (y.rename("grade"), (ARRAY,)),
        (y.to_numpy(), (pl.from_pandas,)),
        (y.rename(None), (FRAME,)),
        ([*y], (csr_array,)),
    ],
)
def test_the_record_is_that_of_select_whatever_holds_rows_and_target(target, kinds):
    named = {"target"} if getattr(target, "name", None) is None else {target.name}
    by_frame = chaffinch.select(COUNTED, target, **FAST).contract
    assert {by_frame["settings"]["target"]} == named
    for kind in kinds:
        X = kind(COUNTED)
        assert FeatureSelector(**FAST).fit(X, target).result_.contract == by_frame
        assert kind is FRAME or chaffinch.select(X, target, **FAST).contract == by_frame


def test_roles_are_named_as_their_values_are():
    customer = pd.Series(np.arange(len(y)) // 3, name="customer")
    record = FeatureSelector(**FAST).fit(X, y, groups=customer).result_.contract
    table = X.assign(target=y, customer=customer)
    assert record == chaffinch.select(table, "target", group="customer", **FAST).contract
    inside = FeatureSelector(**FAST).fit(X, y, groups=customer.rename(X.columns[0])).result_
    assert inside.settings["columns"]["group"] == "group"


def test_sparse_matrices_select_what_arrays_do():
    values = np.where(X.quantile(0.7) < X, X, 0)
    by_array = FeatureSelector(**FAST).fit(values, y)
    for make in (csr_array, csc_array):
        sparse = make(values)
        selector = FeatureSelector(**FAST).fit(sparse, y)
        assert selector.get_support().tolist() == by_array.get_support().tolist()
        kept = selector.transform(sparse)
        assert issparse(kept)
        assert (kept.toarray() == by_array.transform(values)).all()
        expected = by_array.model_.predict(values)
        for given in (sparse, kept):
            assert (selector.model_.predict(given) == expected).all()
        assert chaffinch.select(sparse, y, **FAST).features == by_array.result_.features


def test_a_sparse_matrix_larger_than_memory_is_refused():
    wide = csr_array((1_000_000, 1_000_000))
    with pytest.raises(MemoryError, match=r"take 8,000.0 GB as a dense table but .* is free;"):
        FeatureSelector(**FAST).fit(wide, np.arange(1_000_000) % 2)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_missing_values_of_y_are_refused(missing):
    X, y = np.arange(40.0).reshape(20, 2), ["a", "b"] * 9 + ["a", missing]
    for target in (y, np.array(y, dtype=object), pd.DataFrame({"y": y}, dtype=object)):
        with pytest.raises(InputError, match=r"^y has missing values; fill them"):
            FeatureSelector(**FAST).fit(X, target)


def test_columns_of_text_and_missing_values_are_features_and_leaks_can_be_dropped():
    table = X.assign(text=np.where(y, "benign", "malignant"))
    table.iloc[::7, 0] = np.nan
    selector = FeatureSelector(**FAST).set_output(transform="pandas").fit(table, y)
    assert "text" in selector.transform(table).columns
    without = FeatureSelector(**FAST, columns={"drop_leaks": True}).fit(table, y)
    assert "text" not in without.get_feature_names_out()


def in_a_pipeline():
    return make_pipeline(FeatureSelector(**FAST), DecisionTreeClassifier(random_state=0))


def test_it_is_a_step_of_searches():
    grid = {"featureselector__n_features": [2, 6]}
    search = GridSearchCV(in_a_pipeline(), grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.best_estimator_[0].get_feature_names_out()) <= 6


def test_it_is_a_step_of_pipelines_whatever_the_table_is():
    by_frame, *others = (
        cross_validate(in_a_pipeline(), kind(COUNTED), y, cv=2, error_score="raise")["test_score"]
        for kind in (pd.DataFrame, pl.from_pandas, csr_array, np.asarray)
    )
    assert by_frame.min() > 0.8
    for scores in others:
        assert scores.tolist() == by_frame.tolist()


def test_a_stored_selector_is_loaded_without_pickle(tmp_path):
    selector = FeatureSelector(**FAST, store=tmp_path).fit(X, y)
    again = chaffinch.load_run(selector.result_.run, store=tmp_path)
    assert again.features == selector.get_feature_names_out().tolist()
    assert (again.model.predict(X) == selector.model_.predict(X)).all()


def test_weights_and_groups_are_routed():
    groups = np.arange(len(y)) // 3
    given = {"sample_weight": np.linspace(0, 2, len(y)), "groups": groups}
    with sklearn.config_context(enable_metadata_routing=True):
        selector = FeatureSelector(**FAST).set_fit_request(sample_weight=True, groups=True)
        ridge = Ridge().set_fit_request(sample_weight=True)
        # without a scorer, scikit-learn before 1.7 does not let weights through a pipeline
        scorer = get_scorer("r2").set_score_request(sample_weight=True)
        options = {"cv": GroupKFold(3), "params": given, "error_score": "raise", "scoring": scorer}
        pipeline = make_pipeline(selector, ridge)
        done = cross_validate(pipeline, X, y, return_estimator=True, **options)
    contract = done["estimator"][0][0].result_.contract
    assert contract["settings"]["columns"]["group"] == "group"
    assert contract["settings"]["columns"]["weight"] == "weight"


class Tasks:
    """A callback that notes the names of tasks that begin and end."""

    max_propagation_depth = 1

    def __init__(self):
        self.noted, self.fitted = [], None

    def setup(self, estimator, context):
        self.noted.append("setup")

    def teardown(self, estimator, context):
        self.noted.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.noted.append((context.task_name, "begins"))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.noted.append((context.task_name, "ends"))
        self.fitted = fitted_estimator


has_callbacks = pytest.mark.skipif(
    not hasattr(FeatureSelector, "set_callbacks"), reason="scikit-learn before 1.9 has no callbacks"
)


@has_callbacks
def test_callbacks_are_told_of_each_stage_and_each_item():
    tasks = Tasks()
    selector = FeatureSelector(**FAST, verbose=True).set_callbacks(tasks).fit(X, y)
    assert (tasks.noted[0], tasks.noted[-1]) == ("setup", "teardown")
    stages = [name for name, how in tasks.noted[1:-1] if name != "item" and how == "begins"]
    assert stages == ["fit", *map(title_of, STEPS)]
    ends = [name for name, how in tasks.noted[1:-1] if name != "item" and how == "ends"]
    assert ends == [*stages[1:], "fit"]
    n_items = sum(noted == ("item", "ends") for noted in tasks.noted)
    assert n_items >= len(selector.result_.path)
    assert tasks.fitted.get_support().tolist() == selector.get_support().tolist()


@has_callbacks
def test_callbacks_end_where_a_fit_fails():
    tasks = Tasks()
    with pytest.raises(InputError):
        FeatureSelector("unknown").set_callbacks(tasks).fit(X, y)
    assert tasks.noted == ["setup", ("fit", "begins"), "teardown"]


def test_times_and_parts_are_those_of_columns():
    when, parts = np.arange(len(y)), np.resize(["train", "validation", "test"], len(y))
    for role, values in {"time": when, "split": parts}.items():
        selector = FeatureSelector(**FAST).fit(X, y, **{role: values})
        table = X.assign(**{"target": y, role: values})
        result = chaffinch.select(table, "target", columns={role: role}, **FAST)
        assert selector.get_feature_names_out().tolist() == result.features
        assert selector.result_.losses == result.losses


def test_kept_features_are_named_or_counted():
    labelled = X.set_axis(range(8), axis=1)
    for table, keep in (
        (X, [X.columns[4], X.columns[7]]),
        (X.to_numpy(), [4, 7]),
        (labelled, [4, 7]),
    ):
        selector = FeatureSelector(**FAST, n_features=2, keep=keep).fit(table, y)
        assert selector.get_support(indices=True).tolist() == [4, 7]
    with pytest.raises(InputError, match="'x9000' is no column"):
        FeatureSelector(**FAST, keep=["x9000"]).fit(X.to_numpy(), y)


def test_ranking_counts_on_from_the_features_removed_last():
    selector = FeatureSelector(**FAST, n_features=1).fit(X, y)
    path = selector.result_.path["feature"].tolist()
    ranks = dict(zip(X.columns, selector.ranking_.tolist(), strict=True))
    assert [ranks[name] for name in reversed(path)] == [*range(2, len(path) + 2)]
    assert (selector.ranking_ == 1).tolist() == selector.get_support().tolist()


def test_seed_and_settings_are_those_of_select():
    settings = chaffinch.methods.Rfe(n_features=(3,))
    selector = FeatureSelector(settings, model=Ridge(), random_state=3)
    diabetes = load_diabetes(as_frame=True)
    fitted = clone(selector).fit(diabetes.data, diabetes.target)
    result = chaffinch.select(diabetes.frame, "target", method=settings, model=Ridge(), seed=3)
    assert fitted.get_feature_names_out().tolist() == result.features
    assert fitted.result_.contract["seed"] == 3


def test_any_random_state_of_scikit_learn_is_taken():
    for state in (None, np.random.RandomState(0)):
        assert FeatureSelector(**FAST, random_state=state).fit(X, y).get_support().any()


def test_the_number_of_jobs_changes_no_result():
    alone = FeatureSelector(**FAST).fit(X, y).result_.contract
    assert FeatureSelector(**FAST, n_jobs=-1).fit(X, y).result_.contract == alone


@pytest.mark.parametrize("load", [load_breast_cancer, load_diabetes])
def test_the_model_predicts_and_scores_like_an_estimator(load):
    table, target = load(return_X_y=True, as_frame=True)
    table, target = table.iloc[:200, :8], target[:200]
    selector = FeatureSelector(**FAST).fit(table, target)
    model, is_class = selector.model_, load is load_breast_cancer
    assert model.classes_.tolist() == ([0, 1] if is_class else [])
    made, score = model.predict(table), accuracy_score if is_class else r2_score
    assert model.score(table, target) == pytest.approx(score(target, made))
    np.testing.assert_array_equal(model.predict(selector.transform(table)), made)
    with pytest.raises(InputError, match="an array must have"):
        model.predict(table.to_numpy())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: FeatureSelector(**FAST).fit(X, y, sample_weight=0 * y), "weight is zero"),
        (lambda: FeatureSelector(**FAST).fit(X, y[:9]), "target must hold one value for each of"),
        (lambda: FeatureSelector(**FAST).fit(X, y, groups=y[:9]), "group must hold one value for"),
        (lambda: FeatureSelector(**FAST).fit(X, y[::-1]), "y has the row labels of X in another"),
        (lambda: FeatureSelector(**FAST).fit(X, np.column_stack([y, y])),
         r"target must hold one value for .* has shape \(200, 2\); give one column$"),
        (lambda: FeatureSelector(**FAST).fit([*X.to_numpy()], [[0, 1]] * 200),
         r"^y should be a 1d array, got an array of shape \(200, 2\) instead.$"),
        (lambda: FeatureSelector(**FAST).fit(X.to_dict("records"), y), "^Expected 2D array, got 1"),
        (lambda: FeatureSelector(**FAST).fit(X.set_axis([*"abcdefga"], axis=1), y),
         "names column 'a' twice"),
        (lambda: chaffinch.select(np.array([[1, "a"], [2, 3]] * 9, object), np.arange(18.0)),
         "column 'x1' holds 'a' in row 1 but 3 in row 2"),
        (lambda: FeatureSelector(**FAST).fit(np.array([[1, "a"], [2, 3]] * 9, object), y[:18]),
         r"column 1 of X \(x1\) must hold numbers, as X is an array \(.*'a'\); give a data"),
        (lambda: FeatureSelector(**FAST).fit(X, y, time="day"),
         "time must hold a value for each row but is 'day'"),
        (lambda: FeatureSelector(n_jobs=0).fit(X, y), "n_jobs must be a whole number other than 0"),
        (lambda: FeatureSelector(n_jobs=1.5).fit(X, y), "or None, but is 1.5"),
        (lambda: FeatureSelector(keep="x1").fit(X, y), "keep must be a list but is 'x1'"),
        (lambda: chaffinch.select("table.csv", y), "target must name a column of a file"),
        (lambda: chaffinch.select(X, y[:9]), "target must hold one value for each"),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        given()


def test_dates_that_are_selected_beside_numbers_stay_dates():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    days = pd.Series(pd.date_range("2020-01-01", periods=len(y), freq="37h"), name="day")
    table = X.iloc[:, :3].assign(day=days)
    late = (days.dt.month > 6).astype(int)
    selector = FeatureSelector(
        "anova_f", n_features=3, model="linear", columns={"dates": "parts"}, keep=["mean radius"]
    )
    selected = selector.fit(table, y ^ late).transform(table)
    names = selector.get_feature_names_out().tolist()
    assert {"day", "mean radius"} <= set(names)
    assert (selected[:, names.index("day")] == days.to_numpy(object)).all()
    selector.set_output(transform="pandas")
    pd.testing.assert_series_equal(selector.transform(table)["day"], days)


def test_columns_that_are_left_out_may_be_dates_or_text():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    table = X.iloc[:, :4].assign(day=pd.Timestamp("2026-01-01"), note="new")
    selected = FeatureSelector("mrmr", n_features=2, model="linear").fit(table, y).transform(table)
    assert (selected.shape, selected.dtype) == ((569, 2), np.float64)
