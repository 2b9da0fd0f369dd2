"""Arguments that several functions have in common are given in one way, and mean one thing."""

from inspect import signature

import numpy as np
import pytest
from sklearn.base import clone

import chaffinch
from chaffinch import ColumnSettings, Constraints, FeatureSelector, HistorySettings, InputError
from tests.synthetic import good_table
from tests.tasks.snapshots import check_sentence
from tests.tasks.synthetic_runs import LINEAR

QUICK = {"method": "anova_f", "n_features": 2, "model": LINEAR}
COMPARED = {"methods": ["anova_f"], "models": [LINEAR], "folds": 2, "seeds": 1}
TABLE = good_table(200).assign(code=np.arange(200) % 3, day=np.arange(200), w=1.5)


def select(**options):
    return chaffinch.select(TABLE, "churned", **{**QUICK, **options})


@pytest.mark.parametrize("function", [chaffinch.select, chaffinch.compare])
def test_there_are_few_enough_to_read(function):
    assert len(signature(function).parameters) <= 22


# Settings of columns


def test_settings_and_a_mapping_of_columns_are_the_same():
    asked = {"categorical": ["code"], "embargo": 3}
    by_names = select(time="day", columns=asked)
    assert by_names.settings["columns"]["categorical"] == ["code"]
    for columns in (ColumnSettings(**asked), ColumnSettings(**asked, time="day")):
        assert select(time="day", columns=columns).contract == by_names.contract
    assert select(columns={**asked, "time": "day"}).contract == by_names.contract


@pytest.mark.parametrize(
    "options",
    [
        {"weight": "w", "columns": {"weight": "day"}},
        {"keep": ["age"], "columns": ColumnSettings(keep=["code"])},
        {"columns": {"lags": [1]}},
        {"columns": {3: "x"}},
        {"columns": ["age"]},
        {"columns": {"embargo": 3}},
    ],
)
def test_what_contradicts_itself_is_refused_at_every_door(options):
    with pytest.raises(InputError) as refusal:
        select(**options)
    check_sentence("refusals/settings of columns", options, refusal.value)
    with pytest.raises(InputError) as refusal:
        chaffinch.compare(TABLE, "churned", **COMPARED, **options)
    check_sentence("refusals/settings of columns", options, refusal.value)


def test_constraints_add_to_the_lists_of_either_place():
    constraints = Constraints(must_include=["noise_1"], must_exclude=["noise_2"])
    for options in ({"keep": ["code"]}, {"columns": {"keep": ["code"]}}):
        found = select(constraints=constraints, **options)
        assert set(found.features) == {"code", "noise_1"}
        assert "noise_2" not in found.candidates


def test_labels_of_pandas_that_are_no_text_name_columns_everywhere():
    names = {"age": 0, "income": 1, "colour": ("c", 1), "day": 7, "code": 3, "churned": 9}
    table = TABLE[[*names]].rename(columns=names)
    columns = ColumnSettings(categorical=[np.int64(3)], time=7)
    history = HistorySettings(lags=[1], columns=[1])
    found = chaffinch.select(table, 9, keep=[0], columns=columns, history=history, **QUICK)
    asked = found.settings["columns"]
    assert (asked["categorical"], asked["time"], asked["keep"]) == (["3"], "7", ["0"])
    assert found.settings["history"]["columns"] == ["1"]
    assert 0 in found.features
    assert "('c', 1)" not in chaffinch.select(table, 9, drop=[("c", 1)], **QUICK).candidates
    compared = chaffinch.compare(table, 9, columns={"drop": [7], "keep": [0]}, **COMPARED)
    assert len(compared.results)


# Settings that are rarely set, and who computes


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seed": 3}, "settings takes no 'seed'; it takes {}"),
        (["task"], r"settings must be names with values but is \['task'\]"),
        ({"task": "ranking"}, "task must be 'auto', 'regression' or 'classification' but is 'r"),
    ],
)
def test_an_unknown_setting_is_refused_with_those_there_are(settings, said):
    with pytest.raises(
        InputError,
        match=said.format(
            "task, baseline, shares, search_rows, mask_rows, price_columns and as_published"
        ),
    ):
        select(settings=settings)
    with pytest.raises(InputError, match=said.format("task and baseline")):
        chaffinch.compare(TABLE, "churned", settings=settings, **COMPARED)


@pytest.mark.xdist_group("dask")
@pytest.mark.e2e
def test_a_number_is_of_local_processes(tmp_path):
    alone = select(method="gbmo", cluster="none")
    assert select(method="gbmo", cluster=2, store=tmp_path).contract == alone.contract


# Names of earlier releases


@pytest.mark.parametrize(
    ("function", "old", "value", "place"),
    [
        (chaffinch.select, "lags", (1, 7), "history=HistorySettings(lags=(1, 7))"),
        (chaffinch.select, "history_columns", ["a"], "history=HistorySettings(columns=['a'])"),
        (chaffinch.compare, "drop_leaks", True, "columns=ColumnSettings(drop_leaks=True)"),
        (chaffinch.compare, "warn", print, "warnings a filter, as warnings.simplefilter does"),
        (chaffinch.reselect, "on_progress", print, "the function as verbose"),
        (chaffinch.differentiable_path, "random_state", 4, "seed=4"),
        (chaffinch.compare, "workers", 4, "cluster=4"),
        (chaffinch.select, "random_state", 1, "seed=1"),
        (chaffinch.select, "folds", 3, "cv=3"),
        (FeatureSelector, "workers", 2, "n_jobs=2"),
        (FeatureSelector, "seed", 2, "random_state=2"),
        (FeatureSelector, "task", "regression", "settings={'task': 'regression'}"),
        (
            FeatureSelector,
            "min_score",
            3,
            "it to a ranking, as in method={'kind': 'anova_f', 'min_score': 3}",
        ),
    ],
)
def test_an_argument_of_earlier_releases_is_refused_with_its_place(function, old, value, place):
    with pytest.raises(InputError) as refusal:
        function(TABLE, "churned", **{old: value})
    assert str(refusal.value) == f"{function.__name__} takes no {old}; give {place}"


def test_a_lowest_score_goes_to_the_method_that_was_given():
    with pytest.raises(InputError, match=r"method=\{'kind': 'correlation', 'min_score': 0.1\}"):
        chaffinch.select(TABLE, "churned", method="correlation", min_score=0.1)


def test_what_never_was_an_argument_is_an_error_of_python():
    for call in (chaffinch.compare, chaffinch.reselect, chaffinch.FeatureSelector):
        with pytest.raises(TypeError):
            call(TABLE, "churned", lags=[1])


# The transformer of scikit-learn


X, y = TABLE[["age", "income", "code", "noise_1"]], TABLE["churned"]


def test_features_of_an_array_are_named_by_position_in_settings_too():
    for columns in ({"categorical": [2]}, ColumnSettings(categorical=[2])):
        found = FeatureSelector(columns=columns, keep=[3], **QUICK).fit(X.to_numpy(), y)
        asked = found.result_.settings["columns"]
        assert (asked["categorical"], asked["keep"]) == (["x2"], ["x3"])
        assert clone(found).columns == columns
    limits = Constraints(groups=[chaffinch.Group([0, "x2"], at_most=1)], costs={1: 2.0}, budget=9)
    found = FeatureSelector(constraints=limits, **QUICK).fit(X.to_numpy(), y)
    assert found.result_.settings["constraints"]["groups"][0]["features"] == ["x0", "x2"]
    labelled = X.set_axis(range(4), axis=1)
    limits = Constraints(costs={1: 2.0}, budget=9)
    found = FeatureSelector(constraints=limits, **QUICK).fit(labelled, y)
    assert found.result_.settings["constraints"]["costs"] == {"1": 2.0}
    with pytest.raises(InputError, match="there is no column '2'"):
        FeatureSelector(columns={"categorical": [2]}, **QUICK).fit(X, y)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"weight": "age"}, "weight in columns; give fit its values, as sample_weight$"),
        ({"time": "age"}, "time in columns; give fit its values, as time$"),
        ({"drop_rows_without_target": True}, "leave rows without a target out of X and y$"),
    ],
)
def test_what_describes_rows_belongs_to_fit(columns, said):
    with pytest.raises(InputError, match=f"^FeatureSelector takes no .*{said}"):
        FeatureSelector(columns=columns, **QUICK).fit(X, y)
