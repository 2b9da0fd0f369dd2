"""What is odd about a table reaches the person, whichever door they stand at."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import chaffinch
from chaffinch import ModelSettings
from chaffinch.tasks.reporting.text import summarise_verdict
from tests.refusals import chaffinch_here
from tests.synthetic import good_table

LINEAR = ModelSettings(name="linear", tuning="none")
QUICK = {"model": LINEAR, "method": "gbmo"}
TELLS = (
    "1 feature predicts the target, or one of its classes, without the others: 'cancelled'; make "
    "sure that this is known before the target is"
)
NUMBERS = "1 feature looks like an identifier: 'row'; drop what only numbers the rows"


def leaking_table():
    """A good table, and a column that was written after the fact, and one that counts."""
    table = good_table()
    return table.assign(cancelled=(table["churned"] == "yes") * 1.5, row=np.arange(len(table)))


def test_the_result_the_contract_and_the_report_hold_them(tmp_path):
    result = chaffinch.select(leaking_table(), "churned", **QUICK, store=tmp_path)
    assert result.warnings == (TELLS, NUMBERS)
    contract = json.loads((result.folder / "selection.json").read_bytes())
    assert contract["warnings"] == [TELLS, NUMBERS]
    back = chaffinch.load_run(result.run, store=tmp_path)
    assert back.warnings == result.warnings

    shown = chaffinch_here("show", result.run, "--store", tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"Warning: {TELLS}\nWarning: {NUMBERS}\n" in shown.stdout
    shown = chaffinch_here("show", result.run, "--store", tmp_path, "--json")
    assert json.loads(shown.stdout)["warnings"] == [TELLS, NUMBERS]


def test_leaks_are_left_out_where_that_is_asked_for():
    table = leaking_table()
    result = chaffinch.select(table, "churned", **QUICK, columns={"drop_leaks": True})
    reason = "leak: it predicts the target, or one of its classes, without the others"
    assert "cancelled" not in result.candidates
    assert {"name": "cancelled", "reason": reason} in result.contract["dropped"]
    assert result.warnings == (NUMBERS,)
    assert result.contract["notes"] == [f"left out: 'cancelled' ({reason})"] == [*result.notes]
    assert "Note:</strong> left out" in result._repr_html_()
    assert "notes=[\"left out: 'cancelled'" in repr(result)
    without = chaffinch.select(table.drop(columns="cancelled"), "churned", **QUICK)
    assert result.candidates == without.candidates
    kept = chaffinch.select(
        table, "churned", **QUICK, columns={"drop_leaks": True}, keep=["cancelled"]
    )
    assert kept.warnings == (NUMBERS,)
    (note,) = kept.contract["notes"]
    assert note.startswith("1 feature on the keep list predicts the target")


def test_a_leak_that_was_dropped_is_a_note_and_stops_no_strict_run(tmp_path):
    table = leaking_table().drop(columns="row")
    table.to_csv(tmp_path / "table.csv", index=False)
    arguments = ("run", tmp_path / "table.csv", "--target", "churned", "--model", "linear")
    strict = (*arguments, "--strict", "--store", tmp_path / "store", "--method", "gbmo")
    assert chaffinch_here(*strict).returncode == 3
    passed = chaffinch_here(*strict, "--drop-leaks")
    assert passed.returncode == 0, passed.stderr
    assert "Note: left out: 'cancelled' (leak:" in passed.stdout
    vouched = chaffinch_here(*strict, "--keep", "cancelled")
    assert vouched.returncode == 0, vouched.stderr
    assert "Note: 1 feature on the keep list predicts the target" in vouched.stdout
    checked = chaffinch_here("check", *arguments[1:], "--keep", "cancelled")
    assert "Note: 1 feature on the keep list predicts the target" in checked.stdout + checked.stderr


def test_a_feature_that_tells_one_class_of_three_is_a_warning_and_no_leak():
    iris = load_iris(as_frame=True).frame
    iris["species"] = iris.pop("target").map({0: "setosa", 1: "versicolor", 2: "virginica"})
    result = chaffinch.select(iris, "species", model=LINEAR, method="anova_f", n_features=2)
    assert "petal length (cm)" in result.features
    assert any("'petal length (cm)'" in warning for warning in result.warnings)
    assert result.comparison["leaks"] == []
    assert not result.verdict.startswith("The selection rests on")
    # what separates all three is one, as a number and as a category of its own
    codes = iris["species"].map({"setosa": 2.0, "versicolor": 7.0, "virginica": 3.0})
    leaky = iris.assign(code=codes, letter=iris["species"].str[:3])
    leaked = chaffinch.select(leaky, "species", model=LINEAR, method="anova_f", n_features=4)
    assert set(leaked.comparison["leaks"]) == {"code", "letter"} & set(leaked.features) != set()


@pytest.mark.parametrize("labels", [2, 3])
def test_a_copy_of_the_classes_is_a_leak_though_some_values_are_missing(labels):
    random = np.random.default_rng(0)
    y = random.integers(labels, size=500)
    X = pd.DataFrame(random.normal(size=(500, 2)), columns=list("ab"))
    copied = X.assign(later=np.where(np.arange(500) % 100 == 7, np.nan, y), y=y)
    result = chaffinch.select(copied, "y", model=LINEAR, method="anova_f", n_features=1)
    assert result.comparison["leaks"] == ["later"]
    copied.loc[::11, "later"] = labels  # no longer a copy
    result = chaffinch.select(copied, "y", model=LINEAR, method="anova_f", n_features=1)
    assert result.comparison["leaks"] == []


@pytest.mark.parametrize("function", [np.exp, np.arctan, lambda y: -(y**3), lambda y: 3 - 2 * y])
def test_a_monotone_function_of_a_numeric_target_is_a_leak(function):
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(400, 3)), columns=list("abc"))
    y = X["a"] + random.normal(size=400)
    table = X.assign(later=function(y), near=function(y) + random.normal(size=400), y=y)
    result = chaffinch.select(table, "y", model=LINEAR, method="correlation", n_features=1)
    (warning,) = result.warnings
    assert warning.startswith("1 feature predicts the target")
    assert "'later'" in warning


@pytest.mark.parametrize("method", ["auto", "anova_f"])
def test_a_verdict_that_rests_on_a_leak_says_so_first_and_decides_nothing(method):
    table = leaking_table()
    n_features = 2 if method == "anova_f" else None
    options = {"model": LINEAR, "method": method, "n_features": n_features}
    leaked = chaffinch.select(table, "churned", **options)
    assert "cancelled" in leaked.features
    assert leaked.verdict.startswith("The selection rests on 'cancelled', which alone predicts")
    assert "Until then, losses with it show nothing." in leaked.verdict
    assert " beyond a constant" not in leaked.verdict
    assert leaked.comparison["verdict"] == "cannot tell"
    assert leaked.comparison["share_lost_at_most"] is None
    assert leaked.comparison["leaks"] == ["cancelled"]
    assert summarise_verdict(leaked.contract).startswith("Rests on a leak, cancelled:")
    if method == "auto":
        return
    # a person who keeps it says that it is known before the target
    vouched = chaffinch.select(table, "churned", keep=["cancelled"], **options)
    assert vouched.comparison["leaks"] == []
    assert "rests on" not in vouched.verdict
    dropped = chaffinch.select(table, "churned", drop=["cancelled"], **options)
    assert dropped.comparison["leaks"] == []


def test_a_comparison_holds_and_shows_them_with_the_name_of_the_table(tmp_path):
    path, store = tmp_path / "left.csv", tmp_path / "store"
    leaking_table().to_csv(path, index=False)
    compared = chaffinch.compare(
        path, "churned", methods=["anova_f"], models=[LINEAR], folds=2, seeds=1, store=store
    )
    assert compared.warnings == (f"left: {TELLS}", f"left: {NUMBERS}")
    shown = chaffinch_here("show", compared.name, "--store", store)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"Warning: left: {TELLS}\nWarning: left: {NUMBERS}\n" in shown.stdout
    shown = chaffinch_here("show", compared.name, "--store", store, "--json")
    assert json.loads(shown.stdout)["warnings"] == list(compared.warnings)


@pytest.mark.parametrize(
    ("marker", "write"),
    [("?", str), ("n/k", str), ("4.2%", "{}%".format), ("$1,000", "${:.2f}".format)],
)
def test_numbers_in_other_spellings_are_refused_with_one_of_them(marker, write):
    table = good_table()
    written = table["age"].map(write)
    written[::8] = marker
    with pytest.raises(chaffinch.InputError, match=r"column 'age' .*name (it|the column) as cate"):
        chaffinch.select(table.assign(age=written), "churned", **QUICK)
    named = chaffinch.select(
        table.assign(age=written), "churned", **QUICK, columns={"categorical": ["age"]}
    )
    assert "age" in named.candidates


def test_that_boruta_confirms_nothing_is_in_the_verdict_and_every_report_of_it(tmp_path):
    random = np.random.default_rng(0)
    noise = pd.DataFrame(random.normal(size=(200, 4)), columns=list("abcd"))
    noise["y"] = random.normal(size=200)
    quick = {"model": LINEAR, "method": chaffinch.methods.Boruta(rounds=20), "store": tmp_path}
    result = chaffinch.select(noise, "y", **quick)
    assert len(result.features) == 1
    assert "Boruta confirms no feature" in result.verdict
    shown = chaffinch_here("show", result.run, "--store", tmp_path)
    assert "Boruta confirms no feature" in shown.stdout
    assert "Boruta confirms no feature" in (result.folder / "report.html").read_text()
    useful = chaffinch.select(noise.assign(y=3 * noise["a"] + noise["y"]), "y", **quick)
    assert useful.features == ["a"]
    assert "confirms no feature" not in useful.verdict


@pytest.mark.parametrize("method", ["auto", "gbmo"])
def test_a_feature_that_alone_explains_nearly_everything_is_noted(method, tmp_path):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(400, 4)), columns=list("abcd"))
    table["y"] = table[["a", "b", "c"]].sum(axis=1) + 0.1 * random.normal(size=400)
    copied = table.assign(booked=table["y"] + 0.08 * random.normal(size=400))
    settings = {"model": LINEAR, "method": method}
    result = chaffinch.select(copied, "y", **settings, store=tmp_path)
    assert result.warnings == ()
    (note,) = result.notes
    assert note.startswith("'booked' alone explains 99.")
    assert f"Note: {note}" in chaffinch_here("show", result.run, "--store", tmp_path).stdout
    assert chaffinch.select(copied, "y", **settings, keep=["booked"]).notes == ()
    assert chaffinch.select(table, "y", **settings).notes == ()
    weak = table.assign(y=table["a"] + random.normal(size=400))
    assert chaffinch.select(weak, "y", **settings).notes == ()
