"""Metrics of a run: equal to scikit-learn's on the test rows, and shown wherever losses are."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn import metrics

import chaffinch
from chaffinch.flows.cli.output import show
from chaffinch.tasks.reporting import render_report
from tests.synthetic import good_table
from tests.tasks.reporting.synthetic_report import Page, numbered, synthetic
from tests.tasks.synthetic_runs import causes, rows_of, run_of

CAPTION = "Metrics of the test rows"


@pytest.fixture(scope="module")
def regression(tmp_path_factory):
    weight = np.random.default_rng(1).uniform(0.5, 2, 600).round(3)
    table = causes("x1", "x2", weight=weight)
    return run_of(table, tmp_path_factory.mktemp("store"), weight="weight")


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return run_of(good_table(), tmp_path_factory.mktemp("store"), target="churned")


def check_selected(result, expected) -> None:
    found = {name: result.metrics[name]["selected"] for name in expected}
    assert found == pytest.approx(expected)


def test_a_regression_has_those_of_scikit_learn_with_its_weights(regression) -> None:
    rows = rows_of(regression, "test")
    given = rows["y"], regression.model.predict(rows)
    expected = {
        "r2": metrics.r2_score(*given, sample_weight=rows["weight"]),
        "rmse": metrics.root_mean_squared_error(*given, sample_weight=rows["weight"]),
        "mae": metrics.mean_absolute_error(*given, sample_weight=rows["weight"]),
    }
    check_selected(regression, expected)
    for part in ("all_features", "selected"):
        loss = regression.losses["test"][part]
        assert regression.metrics["rmse"][part] == pytest.approx(loss**0.5)
    constant = regression.comparison["constant_loss"]
    assert regression.metrics["rmse"]["constant"] == pytest.approx(constant**0.5)
    assert regression.class_shares == {}


def test_two_classes_have_those_of_scikit_learn(classes) -> None:
    rows = rows_of(classes, "test")
    y, label = rows["churned"], classes.model.predict(rows)
    probability = classes.model.predict_proba(rows)
    expected = {
        "accuracy": metrics.accuracy_score(y, label),
        "balanced_accuracy": metrics.balanced_accuracy_score(y, label),
        "roc_auc": metrics.roc_auc_score(y, probability[:, 1]),
        "log_loss": metrics.log_loss(y, probability),
    }
    check_selected(classes, expected)
    assert classes.metrics["roc_auc"]["constant"] == 0.5
    assert classes.class_shares == pytest.approx(y.value_counts(normalize=True).to_dict())


def test_another_loss_has_the_same_metrics(regression) -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2, 600).round(3)
    other = run_of(causes("x1", "x2", weight=weight), weight="weight", loss="absolute_error")
    for part in ("all_features", "selected"):
        assert other.metrics["mae"][part] == other.losses["test"][part]
    assert other.metrics["r2"]["all_features"] == regression.metrics["r2"]["all_features"]


def test_they_are_in_the_contract_in_metrics_json_and_in_json_on_the_terminal(
    classes, capsys
) -> None:
    found = {"metrics": classes.metrics, "class_shares": classes.class_shares}
    for name in ("selection.json", "metrics.json"):
        written = json.loads((classes.folder / name).read_text())
        assert {key: written[key] for key in found} == found
    show(classes, as_json=True)
    assert json.loads(capsys.readouterr().out)["metrics"] == classes.metrics
    again = chaffinch.load_run(classes.run, store=classes.folder.parent.parent)
    assert (again.metrics, again.class_shares) == (classes.metrics, classes.class_shares)
    assert f"metrics={{'accuracy': {classes.metrics['accuracy']['selected']:.4g}" in repr(again)


def test_a_contract_of_an_earlier_release_has_none(classes, tmp_path, capsys) -> None:
    contract, path = classes.contract.to_dict(), tmp_path / "earlier.json"
    del contract["metrics"], contract["class_shares"]
    path.write_text(json.dumps(contract))
    earlier = replace(classes, contract=chaffinch.load_contract(path))
    assert (earlier.metrics, earlier.class_shares) == ({}, {})
    show(earlier, as_json=False)
    assert "metric" not in capsys.readouterr().out
    assert earlier.contract.to_dict() == contract
    assert CAPTION not in Page(render_report(synthetic(numbered(4), 2))).text


def test_a_contract_whose_metrics_are_damaged_is_refused_in_one_line(classes, tmp_path) -> None:
    path = tmp_path / "edited.json"
    path.write_text(
        json.dumps({**classes.contract.to_dict(), "metrics": {"accuracy": {"selected": 1.0}}})
    )
    with pytest.raises(chaffinch.InputError, match=r"metrics.accuracy.all_features: field requ"):
        chaffinch.load_contract(path)
