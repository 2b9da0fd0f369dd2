"""The laws that hold for every model, whatever its library, and for every kind of table."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import json
import os
import pickletools
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch

from chaffinch.tasks.selection.core import FittedModel, Rows, Schema
from chaffinch.tasks.selection.models import MODELS, fit, kind_of, load
from tests.flows.cli.programs import python

PARAMETERS = {name: {} for name in MODELS} | {
    "lightgbm": {"n_estimators": 30, "min_child_samples": 5, "min_data_per_group": 10},
    "xgboost": {"n_estimators": 30, "max_depth": 3},
    "catboost": {"iterations": 30, "depth": 4, "learning_rate": 0.2},
    "mlp": {"max_iter": 60, "learning_rate_init": 0.01},
    "pefs-network": {"steps": 550, "hidden_layer_sizes": [20]},
    "RandomForest": {"n_estimators": 20},
    "HistGradientBoosting": {"max_iter": 30},
    "KNeighbors": {},
}
OF_CLASSES = [name for name in PARAMETERS if kind_of(name).suits("classification")]
WEIGHTLESS = {"KNeighbors"}
N_CLASSES = {"regression": 0, "binary": 2, "three classes": 3}
CONSTANT = 5
N_TRAINED = 200
STORE_FORMAT = Path(__file__).parents[3] / "storage" / "README.md"


@functools.cache
def table(target: str, rich: bool, n: int = 300) -> tuple[Rows, Schema]:
    """Make a table; a rich one has categories, missing values and weights."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 6))
    X[:, CONSTANT] = 0.1
    signal = 2 * X[:, 0] + X[:, 1] ** 2
    categories, weight = [0] * 6, None
    if rich:
        codes = np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n)])
        signal = signal + np.array([0.0, 3.0, -3.0, 1.0])[codes[:, 0]]
        # a categorical feature between numeric ones, so that positions have to be kept apart
        X = np.column_stack([X[:, :2], codes, X[:, 2:]])
        categories = [0, 0, 4, 3, 0, 0, 0, 0]
        X[rng.random(X.shape) < 0.05] = np.nan
        X[:, CONSTANT + 2] = 0.1
        weight = rng.uniform(0.5, 2, n)
    signal = signal + 0.3 * rng.normal(size=n)
    k = N_CLASSES[target]
    y = np.digitize(signal, np.quantile(signal, np.arange(1, k) / k)) if k else signal
    names = tuple(f"feature {i}" for i in range(X.shape[1]))
    return Rows(X, y, weight), Schema(names, tuple(categories), k)


def full_name(name: str, target: str) -> str:
    if name[0].islower():
        return name
    return name + ("Regressor" if target == "regression" else "Classifier")


def training(name: str, target: str, rich: bool) -> tuple[Rows, Schema]:
    """Return the first 200 rows."""
    rows, schema = table(target, rich)
    rows = rows.take(np.arange(N_TRAINED))
    return Rows(rows.X, rows.y) if name in WEIGHTLESS else rows, schema


@functools.cache
def trained(name: str, target: str, rich: bool) -> FittedModel:
    return fit(full_name(name, target), *training(name, target, rich), PARAMETERS[name], seed=3)


cases = pytest.mark.parametrize(
    ("name", "target", "rich"),
    [
        pytest.param(name, target, rich, id=f"{name}-{target}-{'rich' if rich else 'plain'}")
        for name in PARAMETERS
        for target, k in N_CLASSES.items()
        if kind_of(name).suits("classification" if k else "regression")
        for rich in (False, True)
    ],
)


@cases
def test_predictions_have_the_shape_of_the_target(name, target, rich):
    rows, schema = table(target, rich)
    model = trained(name, target, rich)
    prediction = model.predict(rows.X)
    assert isinstance(model, FittedModel)
    assert prediction.dtype == np.float64
    if schema.n_classes:
        assert prediction.shape == (len(rows), schema.n_classes)
        assert (prediction >= 0).all()
        np.testing.assert_allclose(prediction.sum(axis=1), 1, atol=1e-12)
    else:
        assert prediction.shape == (len(rows),)
    assert model.predict(rows.X[:0]).shape == prediction[:0].shape


@cases
def test_a_model_beats_the_constant_predictor(name, target, rich):
    rows, schema = table(target, rich)
    truth = np.eye(schema.n_classes)[rows.y] if schema.n_classes else rows.y
    predicted = trained(name, target, rich).predict(rows.X[N_TRAINED:])
    error = np.square(predicted - truth[N_TRAINED:]).mean()
    constant = truth[:N_TRAINED].mean(axis=0)
    constant_error = np.square(constant - truth[N_TRAINED:]).mean()
    assert error < 0.8 * constant_error


@cases
def test_one_seed_gives_one_model_in_any_order_of_memory_and_inputs_stay_as_they_were(
    name, target, rich
):
    rows, schema = training(name, target, rich)
    weight = None if rows.weight is None else rows.weight.copy()
    by_column = Rows(np.array(rows.X, order="F"), rows.y.copy(), weight)
    again = fit(full_name(name, target), by_column, schema, PARAMETERS[name], seed=3)
    model = trained(name, target, rich)
    if name != "KNeighbors":  # which keeps the rows as they lie
        assert again.to_files() == model.to_files()
    np.testing.assert_array_equal(again.predict(by_column.X), model.predict(rows.X))
    np.testing.assert_array_equal(by_column.X, rows.X)
    np.testing.assert_array_equal(by_column.y, rows.y)
    if weight is not None:
        np.testing.assert_array_equal(weight, rows.weight)


@cases
def test_a_model_comes_back_from_files_without_pickle_to_the_last_bit(name, target, rich):
    rows, schema = table(target, rich)
    model = trained(name, target, rich)
    files = model.to_files()
    back = load(model.kind, files, schema)
    np.testing.assert_array_equal(back.predict(rows.X), model.predict(rows.X))
    np.testing.assert_array_equal(back.used_features, model.used_features)
    for file, content in files.items():
        if file.endswith(".skops"):
            archive = zipfile.ZipFile(io.BytesIO(content))
            for member in archive.namelist():
                if member == "schema.json":
                    json.loads(archive.read(member))
                else:
                    np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
        else:
            assert f"`{file}`" in STORE_FORMAT.read_text()
            with pytest.raises(ValueError, match=r"opcode|pickle|expected|newline|STOP"):
                list(pickletools.genops(content))


def test_a_linear_model_of_classes_that_are_not_there_is_a_value_error():
    schema = table("binary", False)[1]
    model = trained("linear", "binary", False)
    model = replace(model, pipeline=copy.deepcopy(model.pipeline))
    model.estimator.classes_ = np.array([0, 10])
    with pytest.raises(ValueError, match="damaged"):
        load("sklearn", model.to_files(), schema)


def test_damaged_files_of_a_network_are_a_value_error():
    schema = table("binary", False)[1]
    files = trained("mlp", "binary", False).to_files()
    tensors, words = files["model.safetensors"], json.loads(files["config.json"])
    damaged = [
        {"model.safetensors": tensors[:20]},
        {"model.safetensors": tensors.replace(b"weight_1", b"weight_7")},
        {"model.safetensors": tensors[:-4] + np.float32(np.nan).tobytes()},
        {"config.json": b"[1"},
        {"config.json": b"[" * 100_000},
        *(
            {"config.json": json.dumps(words | {field: value}).encode()}
            for field, value in (
                ("layers", 0),
                ("layers", "2"),
                ("activation", "x"),
                ("scale", None),
                ("location", float("inf")),
            )
        ),
    ]
    for changed in damaged:
        with pytest.raises(ValueError, match="the model's files are damaged"):
            load("mlp", files | changed, schema)


@cases
def test_a_model_travels_to_a_worker_to_the_last_bit(name, target, rich):
    rows, _ = table(target, rich)
    model = trained(name, target, rich)
    sent = cloudpickle.loads(cloudpickle.dumps(model))
    np.testing.assert_array_equal(sent.predict(rows.X), model.predict(rows.X))


@cases
def test_an_unused_feature_changes_no_bit(name, target, rich):
    rows, schema = table(target, rich)
    model = trained(name, target, rich)
    before, rng = model.predict(rows.X), np.random.default_rng(1)
    for feature in np.flatnonzero(~model.used_features):
        X = rows.X.copy()
        size = schema.n_categories[feature]
        X[:, feature] = rng.integers(0, size, len(X)) if size else rng.normal(size=len(X))
        np.testing.assert_array_equal(model.predict(X), before)


@cases
def test_used_features_are_those_that_matter(name, target, rich):
    model = trained(name, target, rich)
    assert model.used_features[[0, 1]].all()
    if rich:
        assert model.used_features[2]
    assert not model.used_features[CONSTANT + 2 * rich]


@cases
def test_a_row_is_predicted_by_itself(name, target, rich):
    rows, _ = table(target, rich)
    model = trained(name, target, rich)
    some = np.array([5, 3, 211, 64])
    np.testing.assert_allclose(
        model.predict(rows.X[some]), model.predict(rows.X)[some], rtol=1e-12, atol=1e-12
    )


@cases
def test_a_category_nobody_saw_is_no_error(name, target, rich):
    rows, schema = table(target, rich)
    X = rows.X[:5].copy()
    for feature in schema.categorical:
        X[:, feature] = [-1, 4, 2.5, 1e6, np.nan]
    assert np.isfinite(trained(name, target, rich).predict(X)).all()


@pytest.mark.parametrize("name", [name for name in OF_CLASSES if name != "KNeighbors"])
def test_a_class_without_a_row_has_a_column_and_almost_no_probability(name):
    rows, schema = table("three classes", True)
    two = rows.take(np.flatnonzero(rows.y != 1))
    model = fit(full_name(name, "three classes"), two, schema, PARAMETERS[name], seed=0)
    prediction = model.predict(two.X)
    assert prediction.shape == (len(two), 3)
    assert prediction[:, 1].mean() < 0.01


@pytest.mark.parametrize("target", N_CLASSES)
@pytest.mark.parametrize(
    ("name", "parameters", "tolerance"),
    [
        # few stumps, because LightGBM estimates the number of rows in a leaf from their weight
        (
            "lightgbm",
            {
                "num_leaves": 2,
                "n_estimators": 5,
                "min_data_in_bin": 1,
                "max_bin": 1000,
                "min_child_samples": 0,
            },
            1e-9,
        ),
        ("xgboost", {"n_estimators": 20, "max_depth": 3, "max_bin": 1000}, 1e-4),
        ("linear", {}, 0.01),  # the standardisation does not know the weights
    ],
)
def test_a_weight_of_two_is_a_row_twice(name, parameters, tolerance, target):
    rows, schema = table(target, False)
    twice = np.arange(100)
    weight = np.ones(len(rows))
    weight[twice] = 2
    repeated = rows.take(np.concatenate([np.arange(len(rows)), twice]))
    by_weight = fit(name, Rows(rows.X, rows.y, weight), schema, parameters, seed=0)
    by_rows = fit(name, repeated, schema, parameters, seed=0)
    unweighted = fit(name, rows, schema, parameters, seed=0)
    apart = np.abs(by_weight.predict(rows.X) - by_rows.predict(rows.X)).max()
    assert apart < tolerance
    assert apart < np.abs(unweighted.predict(rows.X) - by_rows.predict(rows.X)).max() / 2


def digests() -> dict[str, str]:
    """Predictions of every model on a table large enough for threads to matter."""
    rows, schema = table("three classes", True, n=3000)
    found = {}
    for name in OF_CLASSES:
        given = Rows(rows.X, rows.y) if name in WEIGHTLESS else rows
        smaller = PARAMETERS[name] | ({"max_iter": 5} if name == "mlp" else {})
        model = fit(full_name(name, "binary"), given, schema, smaller, seed=1)
        found[name] = hashlib.sha256(model.predict(rows.X).tobytes()).hexdigest()
    return found


@pytest.mark.e2e
def test_the_number_of_threads_changes_no_bit():
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.selection.models.test_models"],
            stdout=subprocess.PIPE,
            env=os.environ
            | {f"{library}_NUM_THREADS": threads for library in ("OMP", "OPENBLAS", "MKL")},
        )
        for threads in ("1", "3")
    ]
    one, three = (json.loads(process.communicate()[0]) for process in processes)
    assert set(one) == set(PARAMETERS)
    assert one == three


def test_who_fits_an_estimator_loads_neither_its_file_format_nor_torch_and_who_saves_it_no_torch():
    # both together take each process two seconds and 200 MB
    code = (
        "import sys, numpy as np\n"
        "from chaffinch.tasks.selection import models\n"
        "from chaffinch.tasks.selection.core import Rows, Schema\n"
        "X = np.arange(24.0).reshape(12, 2)\n"
        "rows, schema = Rows(X, np.arange(12) % 2), Schema(('a', 'b'), (0, 0), 2)\n"
        "for name in ('linear', 'RandomForestClassifier'):\n"
        "    model = models.fit(name, rows, schema, {}, seed=0)\n"
        "print({'skops', 'torch'} & set(sys.modules))\n"
        "models.check_model('MLPClassifier', 'classification', {})\n"
        "model.to_files()\n"
        "print({'dask', 'skops', 'torch'} & set(sys.modules))"
    )
    done = python(code, check=True)
    assert done.stdout.splitlines() == ["set()", "{'skops'}"]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(digests()))


def test_torchs_default_type_changes_no_bit_of_a_network():
    rows, schema = table("regression", rich=False)
    before = fit("mlp", rows, schema, PARAMETERS["mlp"], seed=0).predict(rows.X)
    torch.set_default_dtype(torch.float64)
    try:
        after = fit("mlp", rows, schema, PARAMETERS["mlp"], seed=0).predict(rows.X)
    finally:
        torch.set_default_dtype(torch.float32)
    assert (after == before).all()
