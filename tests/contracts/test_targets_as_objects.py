"""A target whose numbers are held as objects is, wherever one is taken, that of its numbers."""

from __future__ import annotations

from datetime import time
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression

import chaffinch
from chaffinch import InputError, qualities

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(400, 12))
Y = 2 * X[:, 0] + X[:, 3] + 0.1 * RANDOM.normal(size=400)
SOME_WHOLE = np.where(np.arange(400) % 2, Y, np.round(Y))
WHOLE = np.round(1000 * Y).astype(np.int64)


def mixed() -> np.ndarray:
    """Return some numbers as int, and others as floats of three types."""
    types = (float, int, np.float64, np.longdouble)
    return np.array(
        [types[row % 4 if row % 2 == 0 else 1 if y == int(y) else 0](y)
         for row, y in enumerate(SOME_WHOLE.tolist())],
        dtype=object,
    )  # fmt: skip


AS_NUMBERS = {
    "floats": (Y.astype(object), Y),
    "a series": (pd.Series(Y, dtype=object), Y),
    "of several types": (mixed(), SOME_WHOLE),
    "many whole numbers": (WHOLE.astype(object), WHOLE),
    "two whole numbers": ((Y > 0).astype(int).astype(object), (Y > 0).astype(int)),
    "true and false": ((Y > 0).astype(object), Y > 0),
    "true, 0 and 1": (np.array([True, *(Y[1:] > 0).astype(int)], object), [1, *(Y[1:] > 0)]),
}


def test_numbers_between_classes_are_refused_for_a_model_of_several_outputs() -> None:
    def three(table: np.ndarray) -> np.ndarray:
        return np.full((len(table), 3), 1 / 3)

    for y in (Y, Y.astype(object)):
        with pytest.raises(InputError, match=r"predicts 3 values a row, .* but y holds numbers b"):
            chaffinch.masked_loss(three, X, y, loss="squared_error")


def of_masks(y: object) -> list[float]:
    """Return masked losses of a model that was fitted on the numbers."""
    numbers = np.asarray(y).astype(float)
    few = len(np.unique(numbers)) == 2
    model = (LogisticRegression() if few else LinearRegression()).fit(X, numbers)
    loss = "log_loss" if few else "squared_error"
    return chaffinch.masked_loss(model, X, y, loss=loss).without_each().tolist()


def of_pefs(y: object) -> list[float]:
    asked = {"n_features": 2, "hidden_layer_sizes": (8,), "batch_size": 64, "most_sweeps": 1}
    found = chaffinch.probabilistic_selection(X, y, **asked)
    return [*found.probabilities, *found.predict(X[:5]).ravel()]


def of_variance(y: object) -> list[float]:
    value, gradient = chaffinch.residual_variance(X, y, np.linspace(0, 1, 12))
    return [value, *gradient]


FOUND = {
    "differentiable_selection": lambda y: chaffinch.differentiable_selection(
        X, y, n_features=2
    ).scores.tolist(),
    "residual_variance": of_variance,
    "a quality": lambda y: qualities.mutual_information(X, y).values.tolist(),
    "probabilistic_selection": of_pefs,
    "masked_loss": of_masks,
}


@pytest.mark.parametrize("find", FOUND.values(), ids=FOUND)
@pytest.mark.parametrize(("objects", "numbers"), AS_NUMBERS.values(), ids=AS_NUMBERS)
def test_what_is_found_is_that_of_the_numbers(find, objects, numbers) -> None:
    assert find(objects) == find(np.asarray(numbers))


DOORS = {
    "differentiable_selection": lambda y: chaffinch.differentiable_selection(X, y, n_features=2),
    "probabilistic_selection": lambda y: chaffinch.probabilistic_selection(
        X, y, n_features=2, hidden_layer_sizes=(2,), most_sweeps=1
    ),
    "a quality": lambda y: qualities.mutual_information(X, y),
    "masked_loss": lambda y: chaffinch.masked_loss(
        LinearRegression().fit(X, Y), X, y, loss="squared_error"
    ),
}
door = pytest.mark.parametrize("ask", DOORS.values(), ids=DOORS)


@door
@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("kind", [object, float])
def test_what_is_not_finite_is_refused_with_its_row(ask, value, kind) -> None:
    y = np.array([*Y[1:], value], dtype=kind)
    with pytest.raises(InputError, match=f"^y must be finite but is {value} in row 400; leave out"):
        ask(y)


@door
@pytest.mark.parametrize("kind", [object, float])
def test_a_gap_is_refused_with_its_row(ask, kind) -> None:
    y = np.array([*Y[:6], np.nan, *Y[7:]], dtype=kind)
    with pytest.raises(InputError, match=r"^y must .* row but has none in row 7; leave"):
        ask(y)


def test_what_is_not_finite_is_refused_by_the_mathematics_too() -> None:
    y = np.array([*Y[1:], np.inf], dtype=object)
    with pytest.raises(ValueError, match=r"^y must be finite but is inf in row 400; leave"):
        chaffinch.residual_variance(X, y, np.ones(12))


DAYS = pd.Series(pd.date_range("2026-01-01", periods=400))
NO_TARGETS = {
    "days": (DAYS, r"datetime64\[.s\]"),
    "dates": (DAYS.dt.date, r"datetime.date\(2026, 1, 1\) in row 1"),
    "months": (DAYS.dt.to_period("M"), r"Period\('2026-01', 'M'\) in row 1"),
    "hours": ([time(row % 2) for row in range(400)], r"datetime.time\(0, 0\) in row 1"),
    "spans": (DAYS - DAYS[0], r"timedelta64\[.s\]"),
    "spans as objects": (list((DAYS - DAYS[0]).to_numpy()), r"timedelta64\[.s\]"),
    "decimals": ([Decimal(repr(value)) for value in Y.tolist()], r"Decimal\(.*\) in row 1"),
    "two decimals": ([Decimal(row % 2) for row in range(400)], r"Decimal\('0'\) in row 1"),
    "bytes": (np.where(Y > 0, b"yes", b"no"), r"\|S3"),
}


@door
@pytest.mark.parametrize(("y", "said"), NO_TARGETS.values(), ids=NO_TARGETS)
def test_times_decimals_and_bytes_are_refused_alike_with_what_to_give(ask, y, said) -> None:
    with pytest.raises(InputError, match=rf"^y must hold numbers.* but holds {said}; give floats"):
        ask(y)


@door
@pytest.mark.parametrize("large", [2**63, 2**70, 10**400])
def test_whole_numbers_of_more_than_64_bits_are_refused(ask, large) -> None:
    with pytest.raises(InputError, match=r"^y must hold whole numbers .* but holds"):
        ask(np.array([large + 1, *range(399)], dtype=object))


@door
def test_a_column_is_a_target_as_scikit_learn_takes_it(ask) -> None:
    for column in (Y[:, np.newaxis], pd.DataFrame({"y": Y})):
        assert ask(column) is not None


OF_Y = torch.from_numpy(Y)
TENSORS = {
    "gradients": (OF_Y.clone().requires_grad_(), "detach"),
    "bfloat16": (OF_Y.bfloat16(), "BFloat16"),
    "sparse": (OF_Y.to_sparse(), "to_dense"),
    "a list": (list(OF_Y.clone().requires_grad_()), "detach"),
}


@door
@pytest.mark.parametrize(("y", "said"), TENSORS.values(), ids=TENSORS)
def test_tensors_that_are_no_arrays_are_refused_with_what_to_give(ask, y, said) -> None:
    with pytest.raises(InputError, match=rf"^y .*{said}"):
        ask(y)
    assert ask(OF_Y) is not None


def test_an_array_has_no_column_to_name() -> None:
    with pytest.raises(InputError, match=r"^an array has no column 'y'; give the target by its"):
        chaffinch.select(np.c_[X, Y], "y")


@door
@pytest.mark.parametrize(
    "given",
    [(DAYS - DAYS[0]).dt.days, [float(Decimal(repr(value))) for value in Y.tolist()]],
    ids=["days since the first", "floats of decimals"],
)
def test_what_is_to_be_given_is_taken(ask, given) -> None:
    assert ask(given) is not None
