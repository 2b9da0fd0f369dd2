"""A run of MLflow has the figures of a run, and its model predicts what the run's model does."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError
from chaffinch.exports import to_mlflow
from chaffinch.tasks.selection.models import MODELS
from tests.flows.cli.programs import free_port
from tests.tasks.exports.conftest import orders
from tests.tasks.synthetic_runs import LINEAR, causes, run_of

pytestmark = [
    pytest.mark.usefixtures("undrawn"),
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def tracking(tmp_path_factory):
    """Log to a file of this module."""
    global mlflow  # which takes a second, when the tests are collected as well
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
        yield folder
        mlflow.set_tracking_uri(None)
    assert Path.cwd() == before


@pytest.fixture(scope="module")
def logged(exported):
    return to_mlflow(exported)


def test_settings_are_parameters_and_figures_are_metrics(exported, logged):
    data = mlflow.get_run(logged).data
    assert data.params["method.kind"] == "anova_f"
    assert data.params["target"] == "churned"
    assert json.loads(data.params["columns.categorical"]) == ["size"]
    losses = exported.losses[exported.contract["judged_on"]]
    assert data.metrics["loss_all_features"] == losses["all_features"]
    assert data.metrics["loss_selected"] == losses["selected"]
    assert data.metrics["roc_auc_selected"] == exported.metrics["roc_auc"]["selected"]
    assert data.metrics["n_features"] == len(exported.features)
    assert data.metrics["n_candidates"] == len(exported.candidates)
    assert data.tags["chaffinch.verdict"] == exported.comparison["verdict"]
    assert data.tags["chaffinch.dataset_hash"] == exported.contract["dataset"]["hash"]
    assert data.tags["chaffinch.data_set"] == "orders"
    assert data.tags["mlflow.runName"] == exported.run


def test_contract_and_report_are_artifacts(exported, logged):
    for name in ("selection.json", "report.html"):
        path = Path(mlflow.artifacts.download_artifacts(f"runs:/{logged}/{name}"))
        assert path.read_bytes() == (exported.folder / name).read_bytes()


def test_the_model_predicts_as_the_run_does(exported, logged):
    model = mlflow.pyfunc.load_model(f"runs:/{logged}/model")
    table = orders()
    expected = exported.model.predict(table)
    np.testing.assert_array_equal(model.predict(table[exported.features]), expected)
    features = [column.name for column in model.metadata.signature.inputs]
    assert features == exported.features
    rows = table[exported.features].iloc[:4].assign(age=[1, 2, 3, 4], colour=None)
    np.testing.assert_array_equal(model.predict(rows), exported.model.predict(rows))


def test_the_model_of_a_classification_gives_probabilities_too(exported, logged):
    model, table = mlflow.pyfunc.load_model(f"runs:/{logged}/model"), orders()[exported.features]
    made = model.predict(table, params={"predict_method": "predict_proba"})
    np.testing.assert_array_equal(made, exported.model.predict_proba(table))
    with pytest.raises(InputError, match="predict_method must be predict or predict_proba"):
        model.predict(table, params={"predict_method": "to_files"})


def test_nothing_of_a_model_is_a_pickle_or_code(logged):
    folder = Path(mlflow.artifacts.download_artifacts(f"runs:/{logged}/model"))
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {name for name in files if not name.endswith((".txt", ".yaml", ".yml"))} <= {
        "MLmodel", "registered_model_meta", "data/model/selection.json",
        "data/model/model/model.skops",
    }  # fmt: skip
    flavour = mlflow.models.Model.load(folder).flavors["python_function"]
    assert flavour["loader_module"] == "chaffinch.exports"
    assert not flavour.get("code")


@pytest.mark.parametrize("name", [name for name, kind in MODELS.items() if not kind.of_method])
def test_models_of_every_library(name, tmp_path):
    table = causes("x1", "x2", n=200)
    if not MODELS[name].suits("regression"):
        table["y"] = np.where(table["y"] > 0, "yes", "no")
    model = chaffinch.ModelSettings(name=name, tuning="none")
    result = run_of(table, tmp_path, model=model, method="anova_f")
    address = f"runs:/{to_mlflow(result)}/model"
    found = mlflow.pyfunc.load_model(address)
    np.testing.assert_array_equal(found.predict(table), result.model.predict(table))
    extra = {"xgboost": "[xgboost]", "catboost": "[catboost]", "mlp": "[torch]"}.get(name, "")
    needed = Path(mlflow.pyfunc.get_model_dependencies(address)).read_text()
    assert f"chaffinch{extra}=={chaffinch.__version__}" in needed.splitlines()


def test_a_model_on_parts_of_dates_takes_the_dates(tmp_path):
    table = causes("x1", n=200).assign(day=pd.date_range("2024-01-01", periods=200))
    options = {"model": LINEAR, "method": "anova_f", "columns": {"dates": "parts"}}
    result = run_of(table, tmp_path, keep=["day_month_cos"], **options)
    found = mlflow.pyfunc.load_model(f"runs:/{to_mlflow(result)}/model")
    assert "day" in found.metadata.signature.inputs.input_names()
    np.testing.assert_array_equal(found.predict(table), result.model.predict(table))


def test_an_experiment_is_made_once(exported):
    ids = [to_mlflow(exported, experiment="shop") for _ in range(2)]
    assert len(set(ids)) == 2
    runs = mlflow.search_runs(experiment_names=["shop"], output_format="list")
    assert {run.info.run_id for run in runs} == set(ids)


def test_inside_a_run_of_the_user_it_is_nested(exported):
    with mlflow.start_run() as outer:
        inner = to_mlflow(exported)
        assert mlflow.active_run().info.run_id == outer.info.run_id
    assert mlflow.get_run(inner).data.tags["mlflow.parentRunId"] == outer.info.run_id


def test_a_contract_alone_or_a_result_in_memory_has_no_model(exported):
    for given in (exported.folder / "selection.json", run_of(causes("x1", "x2"), model=LINEAR)):
        with pytest.raises(InputError, match="needs a run in a store"):
            to_mlflow(given)


def test_what_mlflow_refuses_is_one_line(exported):
    with pytest.raises(InputError, match="MLflow does not take the run") as caught:
        to_mlflow(exported, experiment="")
    assert "\n" not in str(caught.value)


def test_a_server_that_does_not_answer_and_its_password(exported, monkeypatch, tracking):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    mlflow.set_tracking_uri(f"http://reader:hid@den@127.0.0.1:{free_port()}")
    with pytest.raises(InputError, match="check MLFLOW_TRACKING_URI") as caught:
        to_mlflow(exported)
    mlflow.set_tracking_uri(f"sqlite:///{tracking}/mlflow.db")
    assert "127.0.0.1" in str(caught.value)
    assert "hid" not in str(caught.value)
