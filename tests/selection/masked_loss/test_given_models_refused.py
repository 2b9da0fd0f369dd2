"""What `masked_loss` and its engines refuse: one line with the value, the limit and the remedy."""

from __future__ import annotations

import re

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression

from chaffinch import InputError, masked_loss
from chaffinch.tasks.selection.models.runtime import single_thread

D = 4
X = np.random.default_rng(0).normal(size=(60, D))
Y = 2 * X[:, 0] + X[:, 1]
CLASSES = (Y > 0).astype(np.int64)
LINE = LinearRegression().fit(X, Y)


@pytest.fixture(autouse=True)
def _one_thread():
    with single_thread():
        yield


def first(table) -> np.ndarray:
    return np.asarray(table)[:, 0]


def trees() -> lightgbm.LGBMRegressor:
    return lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbosity=-1).fit(X, Y)


def booster(**parameters) -> xgboost.Booster:
    target = CLASSES if "objective" in parameters else Y
    return xgboost.train({"nthread": 1, **parameters}, xgboost.DMatrix(X, target), 3)


def named_booster() -> xgboost.Booster:
    frame = pd.DataFrame(X, columns=list("abcd"))
    return xgboost.train({"nthread": 1}, xgboost.DMatrix(frame, Y), 3)


def of_two_targets() -> xgboost.XGBRegressor:
    return xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(X, np.column_stack((Y, Y)))


def refused(message: str, model, table=X, y=Y, loss="squared_error", **how) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        masked_loss(model, table, y, loss=loss, **how)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("threads", [0, 2.5])
@pytest.mark.parametrize("make", [trees, lambda: first], ids=["trees", "function"])
def test_threads_are_a_whole_number(make, threads) -> None:
    refused(f"threads must be .*at least 1 but is {threads!r}", make(), threads=threads)


def test_numpys_whole_numbers_are_whole_numbers() -> None:
    engine = masked_loss(trees(), X, Y, loss="squared_error", threads=np.int64(2))
    engine.remove(np.int32(1))
    assert engine.mask.tolist() == [True, False, True, True]


@pytest.mark.parametrize("loss", [None, first, 3])
def test_a_loss_is_a_name(loss) -> None:
    refused("loss must be the name of a loss or a scikit-learn scorer but is", LINE, loss=loss)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (X + 1j, "Complex data not supported.*; give an array of numbers"),
        (
            pd.DataFrame(X).assign(z=X[:, 0] + 1j),
            "column 'z' of X must hold numbers, .* but is complex128",
        ),
        (np.ma.masked_greater(X, 1), "X must have no masked values, .* but has"),
        (X.astype(str), "not compatible with .*strings.*; give an array of numbers"),
        (np.full(X.shape, "a", dtype=object), "could not convert .* 'a'.*; give an array"),
    ],
    ids=["complex", "complex column", "masked", "text", "text as objects"],
)
def test_a_table_of_numbers_loses_nothing_in_silence(table, message: str) -> None:
    refused(message, first, table)


def test_a_masked_array_without_a_masked_value_is_an_array() -> None:
    assert masked_loss(LINE, np.ma.array(X), Y, loss="squared_error").loss < 1e-20


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y.astype(str), "y must hold numbers but holds text"),
        (Y + 1j, "y cannot be read .Complex data not supported"),
        (np.ma.masked_greater(Y, 1), "y must have no masked values"),
    ],
    ids=["text", "complex", "masked"],
)
def test_a_target_loses_nothing_in_silence(y, message: str) -> None:
    refused(message, LINE, y=y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (["a"] * 60, "sample_weight cannot be read .*; give a finite number above 0 for each row"),
        (np.ma.masked_greater(abs(Y) + 1, 2), "sample_weight must have no masked values"),
    ],
    ids=["text", "masked"],
)
def test_weights_are_numbers(weight, message: str) -> None:
    refused(message, LINE, sample_weight=weight)


@pytest.mark.parametrize("kind", [bool, "boolean", object])
def test_true_and_false_are_the_classes_1_and_0(kind) -> None:
    y = pd.Series(CLASSES > 0).astype(kind)
    for model in (
        booster(objective="binary:logistic"),
        lightgbm.LGBMClassifier(n_estimators=3, n_jobs=1, verbosity=-1).fit(X, CLASSES),
    ):
        found = masked_loss(model, X, y, loss="log_loss").without_each()
        assert (
            found.tolist()
            == masked_loss(model, X, CLASSES, loss="log_loss").without_each().tolist()
        )


@pytest.mark.parametrize(
    ("predicted", "found"),
    [
        (lambda T: np.ones((len(T), 2)), r"\[1.0, 1.0\]"),
        (lambda T: np.tile([1.25, -0.25], (len(T), 1)), r"\[1.25, -0.25\]"),
    ],
)
def test_probabilities_of_a_function_are_probabilities(predicted, found: str) -> None:
    refused(
        "the model must predict probabilities, in 0..1 and with sum 1, but predicts "
        f"{found} for row 0 of X",
        predicted,
        y=CLASSES,
        loss="log_loss",
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            of_two_targets,
            "the model must predict one value for each row but predicts 2; give a function that "
            "predicts one of them",
        ),
        (
            lambda: RandomForestRegressor(2).fit(X, np.column_stack((Y, Y))),
            "the model must predict one value for each row but predicts 2",
        ),
        (
            named_booster,
            "the Booster knows its columns by name, a, b, c, d; give X as a pandas frame with them",
        ),
        (xgboost.Booster, "the Booster is not trained; train it, or load it with load_model"),
    ],
    ids=["two targets", "two targets of a forest", "names", "untrained"],
)
def test_models_that_do_not_suit(make, message: str) -> None:
    refused(message, make())


@pytest.mark.parametrize("model", [trees(), LINE, first], ids=["trees", "linear", "function"])
def test_what_an_engine_is_asked(model) -> None:
    engine = masked_loss(model, X, Y, loss="squared_error")
    for feature in ("a", 1.0, True, None, [1], -1, 4):
        with pytest.raises(ValueError, match=r"feature must be (a whole number )?in 0\.\.3 but is"):
            engine.remove(feature)
    assert engine.mask.all()
    assert engine([]).shape == engine(np.ones((0, D))).shape == (0,)
    assert engine([[1, 0, 1, 1]]).tolist() == engine([[True, False, True, True]]).tolist()
    for masks in ([["a"] * D], [[np.nan] * D], [[1, 1, 0, 2]], [[None] * D]):
        with pytest.raises(ValueError, match="masks must hold True for a feature that is kept"):
            engine(masks)
    with pytest.raises(ValueError, match=r"masks must have shape \(m, 4\) but are \(1, 0\)"):
        engine([[]])


IDS = 2**53 + np.arange(60)
WHOLE = "must hold whole numbers that float64 has, as all up to 2^53, but holds"


@pytest.mark.parametrize("dtype", ["int64", "uint64", "Int64", "int64[pyarrow]"])
def test_whole_numbers_that_would_change_are_refused(dtype: str) -> None:
    frame = pd.DataFrame({"id": pd.Series(IDS, dtype=dtype), "b": Y})
    message = rf"column 'id' of X {re.escape(WHOLE)} {2**53 + 1}; round them with astype\(float\)"
    refused(message, first, frame)
    rounded = masked_loss(first, frame.astype({"id": float}), Y, loss="squared_error")
    assert rounded.loss == pytest.approx(np.mean((IDS.astype(float) - Y) ** 2))


def test_large_whole_numbers_that_float64_has_are_taken() -> None:
    held = 2**53 + 2 * np.arange(59)
    even = pd.DataFrame({"id": pd.Series([*held, None], dtype="Int64")})
    engine = masked_loss(lambda table: table["id"].fillna(0) / 2**53, even, Y, loss="squared_error")
    values = np.append(held / 2**53, 0)
    assert engine.loss == pytest.approx(np.mean((values - Y) ** 2), rel=1e-12)


def test_an_array_of_whole_numbers_is_refused_as_a_frame_is() -> None:
    refused(rf"X {re.escape(WHOLE)} {2**53 + 1};", first, np.column_stack((IDS, IDS)))
    refused(rf"y {re.escape(WHOLE)} {2**53 + 1};", first, y=IDS)
