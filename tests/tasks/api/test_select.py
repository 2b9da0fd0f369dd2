"""`chaffinch.select`: any table in, the same frozen record out."""

import os
import subprocess
import sys
import traceback
from dataclasses import FrozenInstanceError
from functools import partial

import dask.dataframe
import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss, make_scorer
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import chaffinch
from chaffinch import FeatureSelector, InputError, ModelSettings
from chaffinch.methods import AfsBm, Flbmo, Gbmo, Ranking, Rfe, Rfecv
from chaffinch.tasks.data.splitting.splits import PARTS
from chaffinch.tasks.settings.method import method_of, method_settings
from tests.synthetic import good_table

QUICK = ModelSettings(tuning="none", parameters={"n_estimators": 10})
FEATURES = ("age", "colour", "income", "noise_1", "noise_2", "noise_3")


def select(data=None, target="churned", *, model=QUICK, **options):
    data = good_table() if data is None else data
    return chaffinch.select(data, target, model=model, **options)


pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def result():
    return select()


@pytest.fixture(scope="module")
def walk():
    return select(method="gbmo")


@pytest.fixture(scope="module")
def kept_run(tmp_path_factory):
    """A store, and the result of the run in it."""
    store = tmp_path_factory.mktemp("store")
    return store, select(store=store)


# Any table in


def test_columns_named_by_numbers_are_named_so_in_the_result(tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 5))
    table = pd.DataFrame(X)
    table[5] = X[:, 0] + X[:, 1] + 2 * X[:, 3]
    named = table.set_axis(list(map(str, table.columns)), axis=1)
    options = {"model": QUICK, "method": "anova_f", "n_features": 3}
    result = chaffinch.select(table, 5, keep=[0], drop=(2,), store=tmp_path, **options)
    assert result.features == [0, 1, 3]
    assert result.candidates == list(result.scores) == [0, 1, 3, 4]
    assert table[result.features].shape == (120, 3)
    assert result.transform(table).columns.tolist() == [0, 1, 3]
    assert result.transform(named).columns.tolist() == ["0", "1", "3"]
    np.testing.assert_array_equal(result.model.predict(table), result.model.predict(named))
    as_text = chaffinch.select(named, "5", keep=["0"], drop=["2"], **options)
    assert as_text.contract == result.contract
    assert as_text.features == ["0", "1", "3"]
    assert chaffinch.load_run(result.run, store=tmp_path).features == as_text.features
    assert chaffinch.reselect(result, table).candidates == result.candidates
    with pytest.raises(chaffinch.InputError, match="target '7' is no column of the table"):
        chaffinch.select(table, 7)


def test_what_is_given_is_never_changed():
    table, estimator = good_table(), RandomForestClassifier(3, random_state=3)
    columns, keep = table.copy(), ["age"]
    select(table, model=estimator, keep=keep, method="gbmo")
    pd.testing.assert_frame_equal(table, columns)
    assert keep == ["age"]
    assert estimator.random_state == 3
    assert not hasattr(estimator, "estimators_")


# The same frozen record out


@pytest.mark.parametrize(
    ("method", "of_path", "parts"),
    [("gbmo", "loss", PARTS), ("auto", "score", ("train", "out_of_fold"))],
)
def test_the_record(result, walk, method, of_path, parts):
    result = walk if method == "gbmo" else result
    assert result.settings["method"]["kind"] == method
    assert result.candidates == list(FEATURES)
    assert sorted(result.features) == list(np.array(FEATURES)[result.mask])
    assert result.mask.dtype == bool

    path = result.path
    assert list(path.columns) == ["step", "feature", of_path, "features_left"]
    assert path["step"].tolist() == [1, 2, 3, 4, 5]
    assert path["features_left"].tolist() == [5, 4, 3, 2, 1]
    step_of = dict(zip(path["feature"], path["step"], strict=True))
    assert result.steps.tolist() == [step_of.get(name, 0) for name in FEATURES]

    assert list(result.losses) == list(parts)
    for losses in result.losses.values():
        assert set(losses) == {"all_features", "selected"}
        assert 0 < losses["selected"] < 2
    judged = result.losses[parts[-1]]
    difference = judged["selected"] - judged["all_features"]
    assert result.comparison["difference"] == pytest.approx(difference)
    low, high = result.comparison["interval"]
    assert low <= difference <= high
    assert result.verdict == result.comparison["sentence"]

    assert result.seed == result.settings["seed"] == 0
    assert result.settings["target"] == "churned"
    assert result.versions["lightgbm"]
    assert result.seconds > 0
    assert result.folder is None
    with pytest.raises(FrozenInstanceError):
        result.seed = 1


# Runs are kept and found again


def test_a_kept_run_is_read_back_the_same(kept_run):
    store, result = kept_run
    back = chaffinch.load_run(result.run, store=store)
    assert back.folder == result.folder == store / "runs" / result.run
    assert back.contract == result.contract
    assert (back.features, back.seconds) == (result.features, result.seconds)
    pd.testing.assert_frame_equal(back.path, result.path)
    table = good_table(seed=1)
    np.testing.assert_array_equal(
        back.model.predict_proba(table), result.model.predict_proba(table)
    )


def test_the_same_again_does_nothing_again_in_whatever_order_columns_are_named(kept_run):
    store, result = kept_run
    files = {path: path.stat().st_mtime_ns for path in result.folder.rglob("[!.]*.*")}
    again = select(store=store)
    assert again.run == result.run
    assert files == {path: path.stat().st_mtime_ns for path in result.folder.rglob("[!.]*.*")}
    one = select(store=store, drop=["noise_1", "noise_2"], method="gbmo")
    again = select(store=store, drop=("noise_2", "noise_1", "noise_1"), method="gbmo")
    assert again.run == one.run


def test_the_command_lines_store_is_the_default(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = select(store="chaffinch-store", method="gbmo")
    assert chaffinch.load_run(result.run).features == result.features


# What is asked for is done


def rows_lost(truth, made, *, of=1):
    return of * float(np.mean(truth != made))


@pytest.mark.usefixtures("few_resamples")
def test_a_scorer_of_ones_own_is_the_loss_that_the_one_of_that_name_is():
    by_name = select(method="gbmo", loss="balanced_accuracy")
    scorer = make_scorer(balanced_accuracy_score)
    own = select(method="gbmo", loss=scorer)
    assert (own.features, own.losses) == (by_name.features, by_name.losses)
    assert own.path.equals(by_name.path)
    assert own.contract["loss"] == own.settings["loss"] == repr(scorer)
    assert own.comparison["interval"] == by_name.comparison["interval"]
    table = good_table()
    selector = FeatureSelector("gbmo", model=QUICK, loss=scorer)
    assert selector.fit(table.drop(columns="churned"), table["churned"]).result_.features == (
        by_name.features
    )


@pytest.mark.usefixtures("few_resamples")
def test_a_scorer_of_ones_own_gets_the_labels_of_classes_and_is_part_of_what_a_run_is(tmp_path):
    by_label = make_scorer(f1_score, pos_label="yes")
    assert select(method="gbmo", loss=by_label).losses == select(method="gbmo", loss="f1").losses
    edited = copied(rows_lost, lambda truth, made, of: 0.0)
    once, again, *others = (
        select(loss=make_scorer(score, greater_is_better=False, of=2), store=tmp_path)
        for score in (rows_lost, rows_lost, edited, times(1), times(3))
    )
    assert once.run == again.run
    assert len({once.run, *(other.run for other in others)}) == 4
    with pytest.raises(InputError, match="was a scorer made in Python, which settings and runs do"):
        once.at(2)


def times(factor):
    def score(truth, made, *, of):
        return factor * rows_lost(truth, made, of=of)

    return score


def copied(function, other):
    """Return another function of the same name and place, as one that was edited."""
    other.__name__, other.__qualname__ = function.__name__, function.__qualname__
    return other


BY_SIZES = ("flbmo", "rfe", "sequential_forward", "mrmr", "dfs", "pefs")


@pytest.mark.parametrize("kind", BY_SIZES)
def test_one_number_of_features_needs_no_list_wherever_it_is_given(kind):
    for one in (3, 0.5):
        assert method_of({"kind": kind, "n_features": one}).n_features == (one,)
    assert method_of({"kind": kind, "n_features": 3}) == method_settings(kind, 3)
    assert Rfe(n_features=3) == Rfe(n_features=(3,))
    for wrong, said in (
        (0, "n_features"),
        (1.0, "a size must be a whole number of features, or a share below 1, but is 1.0"),
        (True, "n_features must be a whole number of features, a share below 1, or a list of such"),
        ("3", "a share below 1, or a list of such, but is '3'"),
        ((), "n_features must be a list of at least 1"),
    ):
        with pytest.raises(InputError, match=said) as error:
            method_of({"kind": kind, "n_features": wrong})
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("method", "named"),
    [
        (Flbmo(n_features=(2, 5)), "2, 5"),
        (Gbmo(n_features=1), "1"),
        (AfsBm(n_features=1), "1"),
        ({"kind": "mrmr", "n_features": [0.5]}, "0.5"),
        (Rfecv(n_features=2), "2"),
        (Rfe(n_features=(2,)), "2"),
        ({"kind": "pefs", "n_features": [2]}, "2"),
        ({"kind": "rfe", "n_features": [2]}, "2"),
    ],
)
def test_two_numbers_of_features_are_refused(method, named):
    with pytest.raises(InputError, match="give it once") as error:
        select(method=method, n_features=3)
    said = str(error.value)
    assert said.startswith(f"n_features is 3, but {named} in the settings of method ")


@pytest.mark.parametrize("of_sizes", [Flbmo, partial(Ranking, kind="mrmr")])
def test_methods_with_settings_of_their_own(of_sizes):
    assert len(select(method=of_sizes(n_features=(0.5,))).features) == 3
    assert len(select(method=of_sizes(n_features=(2, 5))).features) in (2, 5)
    assert len(select(method=of_sizes(n_features=(3,)), n_features=3).features) == 3
    assert len(select(method=of_sizes(), n_features=4).features) == 4
    kind = of_sizes().kind
    assert select(method={"kind": kind, "n_features": [4]}).contract == (
        select(method=kind, n_features=4).contract
    )


def test_gbmo_keeps_at_most_so_many_and_by_a_slack_without_end_one_but_for_the_cap():
    for n_features in (1, 4):
        assert len(select(method="gbmo", n_features=n_features).features) <= n_features
    assert len(select(method=Gbmo(slacks=(1e9,))).features) == 1
    assert len(select(method=Gbmo(slacks=(1e9,), drift_cap=0.0)).features) > 1


def test_a_ranking_has_scores_where_a_walk_has_losses(walk):
    ranked = select(method="correlation", keep=["noise_1"], n_features=3)
    assert list(ranked.path.columns) == ["step", "feature", "score", "features_left"]
    assert ranked.path["score"].is_monotonic_increasing
    assert ranked.path["features_left"].tolist() == [5, 4, 3, 2, 1]
    assert list(ranked.scores) == list(FEATURES)
    shown = ranked.to_frame()
    assert shown["score"].tolist() == list(ranked.scores.values())
    in_order = shown[shown["step"] > 0].sort_values("step")["score"]
    assert in_order.is_monotonic_increasing
    assert shown.set_index("feature")["step"]["noise_1"] == 0

    assert walk.scores is None
    assert list(walk.to_frame().columns) == ["feature", "kept", "rank", "step"]


def test_a_ranking_is_of_the_development_rows_and_of_no_others(tmp_path):
    ranked = select(drop=["colour"], method="anova_f", store=tmp_path)
    rows = part_of_rows(tmp_path, ranked, *ranked.candidates, "churned")
    developed = rows[rows["part"].isin(["train", "mask_validation"])]
    numbers = developed[ranked.candidates]
    expected = f_classif(numbers.fillna(numbers.mean()), developed["churned"])[0]
    assert list(ranked.scores.values()) == pytest.approx(expected, rel=1e-9)


def test_shap_values_are_those_of_the_base_model_on_the_rows_that_it_did_not_see(tmp_path):
    table = good_table().drop(columns="colour").assign(w=np.linspace(1, 3, 240))
    options = {"method": "tree_shap", "n_features": 2, "weight": "w"}
    result = select(table, store=tmp_path, **options)
    rows = part_of_rows(tmp_path, result, *result.candidates, "w")
    rows = rows[rows["part"] == "mask_validation"]
    (file,) = tmp_path.rglob("base_model/model.txt")
    booster = lightgbm.Booster(model_file=str(file))
    values = np.abs(booster.predict(rows[result.candidates].to_numpy(), pred_contrib=True))
    expected = np.average(values[:, :-1], axis=0, weights=rows["w"])
    assert list(result.scores.values()) == pytest.approx(expected, rel=1e-12)


def test_a_ranking_that_finds_nothing_is_refused_rather_than_followed():
    with pytest.raises(InputError, match="permutation finds no use in any of the 12 features"):
        select(few_rows(), "y", method="permutation")  # too few for its leaves


def test_fixed_parameters_are_the_ones_fitted():
    fixed = ModelSettings(parameters={"n_estimators": 5, "num_leaves": 4}, folds=3)
    parameters = select(model=fixed, method="gbmo").contract["model"]["parameters"]
    assert parameters.items() >= {"n_estimators": 5, "num_leaves": 4}.items()


def test_weights_weigh(walk):
    table = good_table()
    table["w"] = np.where(table["churned"] == "yes", 100.0, 1.0)
    weighted = select(table, weight="w", method="gbmo")
    assert "w" not in weighted.candidates
    plain, said = ((result.model.predict(table) == "yes").mean() for result in (walk, weighted))
    assert said > plain + 0.1


def part_of_rows(store, result, *columns):
    """Return each row's part beside columns of the table, read from the run's own files."""
    dataset = result.contract["dataset"]["hash"][:16]
    table = pd.read_parquet(store / "datasets" / dataset / "table.parquet", columns=list(columns))
    return table.assign(part=pd.read_parquet(result.folder / "splits.parquet")["part"].astype(str))


@pytest.mark.parametrize(("method", "parts"), [("auto", PARTS[:1]), ("gbmo", PARTS)])
def test_the_losses_are_those_of_the_models_own_predictions(kept_run, method, parts):
    store, result = kept_run
    result = select(method=method, store=store)
    rows = part_of_rows(store, result, *FEATURES, "churned")
    assert set(rows["part"]) == set(parts)
    for part, of_part in rows.groupby("part"):
        own = log_loss(of_part["churned"], result.model.predict_proba(of_part))
        assert result.losses[part]["selected"] == pytest.approx(own, rel=1e-9)


# Estimators of one's own


class Centroids(ClassifierMixin, BaseEstimator):
    """Probabilities from the distance to each class's mean, as a third party might write it."""

    def __init__(self, sharpness=1.0):
        self.sharpness = sharpness

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.centres_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        self.n_features_in_ = X.shape[1]
        return self

    def predict_proba(self, X):
        distance = np.square(X[:, np.newaxis] - self.centres_).sum(axis=2)
        near = np.exp(-self.sharpness * (distance - distance.min(axis=1, keepdims=True)))
        return near / near.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(20),
        Centroids(sharpness=0.3),
        VotingClassifier([("a", LogisticRegression())], voting="soft"),
        StackingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], cv=2),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
        make_pipeline(SelectKBest(k="all"), PolynomialFeatures(2), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_an_estimator_of_ones_own_is_trained_kept_and_read_back(estimator, tmp_path):
    options = {"model": estimator, "method": "gbmo", "n_features": 2, "store": tmp_path}
    table = numbers_and_a_word()
    result = select(table, "y", **options)
    assert set(result.features) == {"a", "b"}
    back = chaffinch.load_run(result.run, store=tmp_path, trusted=[Centroids.__module__])
    assert (back.model.predict(table) == table.y).mean() > 0.85
    assert select(table, "y", **options).contract == result.contract


def test_an_estimator_of_another_package_is_loaded_only_if_that_is_trusted(tmp_path):
    run = select(model=Centroids(), method="gbmo", store=tmp_path).run
    assert select(model=Centroids(0.1), method="gbmo", store=tmp_path).run != run
    with pytest.raises(InputError, match=r"types that are not trusted: .*Centroids; name"):
        chaffinch.load_run(run, store=tmp_path).model.predict(good_table())
    trusting = chaffinch.load_run(run, store=tmp_path, trusted=[Centroids.__module__])
    assert len(trusting.model.predict(good_table())) == 240


# No server, no guard, no warning


@pytest.mark.e2e
def test_no_prefect_and_no_server_is_needed(tmp_path):
    good_table().to_csv(tmp_path / "table.csv", index=False)
    script = (
        "import sys, chaffinch\n"
        "result = chaffinch.select('table.csv', 'churned', n_features=2,\n"
        "    model=chaffinch.ModelSettings(tuning='none'))\n"
        "assert len(result.features) <= 2\n"
        "print([name for name in ('prefect', 'distributed', 'torch') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


# Few rows


def few_rows(n_rows=80):
    """Made-up rows in which the first of 12 features is the whole truth."""
    noise = np.random.default_rng(0).normal(size=(n_rows, 12))
    table = pd.DataFrame(noise, columns=[f"f{j}" for j in range(12)])
    return table.assign(y=10 * table.f0)


@pytest.mark.parametrize(("method", "n_rows"), [("gbmo", 80), ("auto", 48)])
def test_a_model_that_uses_no_feature_is_refused_rather_than_masked(method, n_rows):
    # 20 rows a leaf are too many for 36 training rows, or for the 38 outside a fold
    with pytest.raises(InputError, match="lightgbm makes no use of any of the 12 features"):
        select(few_rows(n_rows), "y", method=method)


# Estimators made of others, and what they hold of scikit-learn's own


def numbers_and_a_word():
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(200, 3)), columns=list("abc"))
    return table.assign(y=np.where(table.a + table.b > 0, "yes", "no"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "linear", "loss": "neg_mean_gamma_deviance"},
         "loss 'neg_mean_gamma_deviance' cannot score these predictions"),
        ({"model": "RadiusNeighborsRegressor"},
         "squared_error must be finite but is nan with 2 of 3 features kept; choose another"),
        ({"model": "RadiusNeighborsRegressor", "method": "gbmo"},
         "squared_error must be finite but is nan with 3 of 3 features kept; choose another"),
        ({"model": "RadiusNeighborsRegressor", "method": "mrmr", "n_features": 2},
         "squared_error must be finite but is nan with 3 of 3 features kept; choose another"),
        ({"model": ModelSettings(parameters={"learning_rate": 1e308}, tuning="none")},
         "squared_error must be finite but is inf with 3 of 3 features kept; choose another"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:One or more samples have no neighbors")
def test_what_only_training_shows_is_one_line_as_well(options, message):
    table = numbers_and_a_word().drop(columns="y")
    table["y"] = np.exp(3 * table.a) + 0.01
    with pytest.raises(InputError, match=message):
        select(table, "y", **options)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_baseline_of_ones_own_is_finite(value):
    with pytest.raises(InputError, match="baseline must be"):
        select(settings={"baseline": {"age": value}})


NUMBERS = good_table()[["age", "income", "noise_1"]]
CLASSES = good_table()["churned"]


@pytest.mark.parametrize("target", ["churned", CLASSES], ids=["by name", "by values"])
@pytest.mark.parametrize(
    ("data", "remedy"),
    [
        (NUMBERS["age"], ".to_frame()"),
        (pl.Series([1.0, 2.0]), ".to_frame()"),
        (NUMBERS.to_dict("records"), "pandas.DataFrame"),
        (NUMBERS.to_dict("list"), "pandas.DataFrame"),
        ([NUMBERS, NUMBERS], "a table"),
        (np.zeros((240, 2, 2)), "pandas.DataFrame"),
        (np.zeros(240), "pandas.DataFrame"),
        (5, "a table of pandas, polars or Arrow"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_table_is_refused_with_what_makes_one_of_it(data, target, remedy):
    with pytest.raises(InputError) as refused:
        select(data, target)
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    "as_lazy",
    [
        lambda table: pl.from_pandas(table).lazy(),
        lambda table: dask.dataframe.from_pandas(table, npartitions=2),
        lambda table: pyarrow.dataset.dataset(pa.Table.from_pandas(table)),
    ],
    ids=["polars", "dask", "data set"],
)
def test_a_lazy_table_and_a_data_set_are_computed(as_lazy):
    rows = NUMBERS.assign(churned=CLASSES.to_numpy())
    lazy, now = (select(data, "churned", method="gbmo") for data in (as_lazy(rows), rows))
    assert lazy.contract["features"] == now.contract["features"]
    selector = chaffinch.FeatureSelector(method="gbmo", model=now.settings["model"]["name"])
    assert selector.fit(as_lazy(NUMBERS), CLASSES).feature_names_in_.tolist() == [*NUMBERS]


@pytest.mark.parametrize(
    ("target", "has"),
    [
        (NUMBERS, "is a table of type DataFrame with 3 columns"),
        (NUMBERS.to_numpy(), "has shape (240, 3)"),
        (["churned", "age"], "has shape (2,)"),
        (CLASSES[:5], "has shape (5,)"),
        (pl.LazyFrame({"churned": CLASSES}), "is a LazyFrame"),
        ({"churned": 1}, "is a dict"),
        (float("nan"), "is a float"),
    ],
)
def test_a_target_that_is_not_one_value_for_each_row_is_refused(target, has):
    one_for_each = f"target must hold one value for each of the 240 rows but {has}; "
    for data in (NUMBERS, pl.from_pandas(NUMBERS)):
        with pytest.raises(InputError) as refused:
            select(data, target)
        assert str(refused.value).startswith(one_for_each)


def test_a_column_may_be_a_table_of_one_a_period_or_sparse():
    rows = good_table().assign(month=pd.period_range("2020-01", periods=240, freq="D"))
    usual = select(rows.assign(month=rows["month"].dt.to_timestamp()), time="month", method="gbmo")
    by_period = select(rows, time="month", method="gbmo")
    assert by_period.contract == usual.contract
    sparse = NUMBERS.astype(pd.SparseDtype(float, 0.0))
    by_values = select(sparse, CLASSES.to_frame(), method="gbmo")
    assert by_values.features == select(NUMBERS, CLASSES, method="gbmo").features


def test_no_traceback_quotes_a_table_that_was_given_for_a_setting():
    rows = pd.DataFrame({"a": [987654.3125], "b": [0]})
    for wrong in (rows, rows["a"], rows.to_dict("records"), rows.to_numpy()):
        with pytest.raises(InputError) as refused:
            select(loss=wrong)
        assert "987654" not in "".join(traceback.format_exception(refused.value))


def test_a_target_by_its_values_is_named_as_its_series_is():
    X, y = good_table().drop(columns="churned"), good_table()["churned"]
    as_named = {"left": "left", None: "target", "income": "target"}
    for name, target in as_named.items():
        assert select(X, y.rename(name), method="anova_f").contract.target.name == target
    assert select(X, y.to_numpy(), method="anova_f").contract.target.name == "target"
