"""CatBoost by name: what its own estimators predict, and files that are damaged or hostile."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from catboost import CatBoostClassifier, CatBoostRegressor

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import FittedModel, Rows, Schema
from chaffinch.tasks.selection.models import fit, load
from tests.flows.cli.programs import python

RANDOM = np.random.default_rng(0)
N = 400
CODES = RANDOM.integers(0, [6, 5, 2], size=(N, 3))
X = np.column_stack([RANDOM.normal(size=(N, 2)), CODES])
X[::9, 0] = np.nan
# both codes together say most
Y = np.nan_to_num(X[:, 0]) + 3 * RANDOM.normal(size=(6, 5))[CODES[:, 0], CODES[:, 1]] + CODES[:, 2]
WEIGHT = RANDOM.uniform(0.5, 2, N)
FEATURES, SIZES = ("a", "b", "c", "d", "e"), (0, 0, 6, 5, 2)
QUICK = {"iterations": 40, "depth": 4, "learning_rate": 0.2}
OWN = {"random_seed": 3, "thread_count": 2, "verbose": False, "allow_writing_files": False}
HOSTILE = (-1, 2**31, 10**30, 1e400, "x", None, [], {}, True)


def rows(n_classes: int) -> tuple[Rows, Schema]:
    y = Y
    if n_classes:
        y = np.digitize(Y, np.quantile(Y, np.arange(1, n_classes) / n_classes))
    return Rows(X, y, WEIGHT), Schema(FEATURES, SIZES, n_classes)


@pytest.mark.parametrize("parameters", [QUICK, {**QUICK, "boosting_type": "Ordered", "rsm": 0.5}])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_predictions_are_those_of_its_own_estimators(n_classes: int, parameters: dict) -> None:
    given, schema = rows(n_classes)
    model = fit("catboost", given, schema, parameters, seed=3)
    kind = CatBoostClassifier if n_classes else CatBoostRegressor
    table = pd.DataFrame(X).astype({2: int, 3: int, 4: int})
    own = kind(**parameters, **OWN, cat_features=[2, 3, 4]).fit(
        table, given.y, sample_weight=WEIGHT
    )
    expected = own.predict_proba(table) if n_classes else own.predict(table)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(model.importances(), own.feature_importances_, rtol=1e-9)
    assert (model.importances() > 0).tolist() <= model.used_features.tolist()


@pytest.mark.parametrize("only", [0, 2])
def test_where_all_rows_are_of_one_class_it_is_likely(only: int) -> None:
    schema = rows(3)[1]
    one = Rows(X, np.full(N, only), WEIGHT)
    assert fit("catboost", one, schema, QUICK, seed=0).predict(X)[:, only].min() > 0.9


@pytest.mark.parametrize(
    ("table", "parameters", "reason"),
    [
        (np.ones_like(X), {}, "All features are either constant or ignored"),
        (X, {"bootstrap_type": "No", "subsample": 0.5}, "CatBoost says: "),
    ],
)
def test_its_own_refusals_are_one_line(table: np.ndarray, parameters: dict, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refused:
        fit("catboost", Rows(table, Y), Schema(FEATURES, (0,) * 5), parameters, seed=0)
    assert "\n" not in str(refused.value)


def small(n_classes: int = 3, iterations: int = 9) -> tuple[FittedModel, Schema]:
    given, schema = rows(n_classes)
    parameters = {**QUICK, "iterations": iterations, "max_ctr_complexity": 4}
    return fit("catboost", given, schema, parameters, seed=3), schema


def shape(thing: Any) -> str:
    """Return which keys and types JSON is made of."""
    if isinstance(thing, dict):
        kinds = [thing.get(name) for name in ("combination_element", "split_type", "ctr_type")]
        return f"{kinds} {[(key, shape(thing[key])) for key in sorted(thing)]}"
    if isinstance(thing, list):
        return str(sorted({*map(shape, thing)}))
    return type(thing).__name__


def changes(thing: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the places in JSON; of members of a list that are made alike the first."""
    yield place
    if isinstance(thing, list):
        alike = {shape(member): at for at, member in reversed([*enumerate(thing)])}
        for at in alike.values():
            yield from changes(thing[at], (*place, at))
    for key, value in thing.items() if isinstance(thing, dict) else ():
        yield from changes(value, (*place, key))


def changed(thing: Any, place: tuple[Any, ...], value: Any) -> Any:
    other = copy.deepcopy(thing)
    inside = other
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return other


def load_what_is_damaged() -> None:
    """Load files with each value changed, and predict from those that are not refused."""
    n_refused = 0
    # the second has tables of categories by numbers and by other categories
    for n_classes, iterations, of_parts in ((3, 9, ""), (0, 40, "features_info")):
        model, schema = small(n_classes, iterations)
        whole = json.loads(model.to_files()["model.json"])
        places = [place for place in changes(whole) if place and place[0].startswith(of_parts)]
        for place, value in product(places, HOSTILE):
            damaged = json.dumps(changed(whole, place, value)).encode()
            try:
                back = load("catboost", {"model.json": damaged}, schema)
            except InputError:
                n_refused += 1
            else:
                assert back.predict(X).shape == model.predict(X).shape
                back.shap_values(X[:5])
                back.importances()
    elements = [e for table in whole["features_info"]["ctrs"] for e in table["elements"]]
    assert len({element["combination_element"] for element in elements}) == 3
    sys.stdout.write(str(n_refused))


@pytest.mark.e2e
def test_no_damaged_file_ends_the_process() -> None:
    done = python(f"from {__name__} import *; load_what_is_damaged()")
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout.split()[-1]) > 500


def test_a_file_is_of_its_features_and_classes() -> None:
    model, schema = small()
    files = model.to_files()
    for other in (
        Schema(FEATURES, SIZES, 2),
        Schema(FEATURES, SIZES),
        Schema(FEATURES, (0, 6, 0, 5, 2), 3),
        Schema(FEATURES, (0, 0, 6, 5, 0), 3),
    ):
        with pytest.raises(InputError, match="no CatBoost model of these features and classes"):
            load("catboost", files, other)
    with pytest.raises(InputError, match="damaged"):
        load("catboost", {"model.json": files["model.json"][:-9]}, schema)


def test_rows_can_be_written_after_a_prediction() -> None:
    schema = Schema(FEATURES, (0,) * 5)
    given = np.asfortranarray(np.nan_to_num(X))
    model = fit("catboost", Rows(given, Y), schema, QUICK, seed=0)
    model.predict(given)
    given[0, 0] = 1.0
