"""What `masked_loss` and its engines refuse: one line with the value, the limit and the remedy."""

from __future__ import annotations

import re

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import torch
import xgboost
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from chaffinch import InputError, masked_loss

pytestmark = pytest.mark.usefixtures("one_thread")

D = 4
X = np.random.default_rng(0).normal(size=(60, D))
Y = 2 * X[:, 0] + X[:, 1]
CLASSES = (Y > 0).astype(np.int64)
LINE = LinearRegression().fit(X, Y)


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


def refused(message: str, model=LINE, X=X, y=Y, loss="squared_error", **how) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        masked_loss(model, X, y, loss=loss, **how)
    assert "\n" not in str(refusal.value)


WITH_A_HOLE, WITH_INFINITY = X.copy(), X.copy()
WITH_A_HOLE[3, 2], WITH_INFINITY[3, 1] = np.nan, np.inf
MISFITS = {
    "X": [
        ({"model": first, "X": X + 1j}, "Complex data not supported.*; give an array of numbers"),
        (
            {"model": first, "X": pd.DataFrame(X).assign(z=X[:, 0] + 1j)},
            "column 'z' of X must hold numbers, .* but is complex128",
        ),
        ({"model": first, "X": np.ma.masked_greater(X, 1)}, "X must have no masked values, .* has"),
        ({"model": first, "X": X.astype(str)}, "not compatible with .*strings.*; give an array of"),
        (
            {"model": first, "X": np.full(X.shape, "a", dtype=object)},
            "could not convert .* 'a'.*; give an array",
        ),
        ({"X": [["a"] * D]}, "; give an array of numbers, or a pandas frame$"),
        ({"X": scipy.sparse.csr_array(X)}, "Sparse data was passed for X"),
        ({"X": pl.LazyFrame(X)}, r"; give its \.collect\(\)$"),
        ({"X": torch.tensor(X, requires_grad=True)}, r"Use tensor.detach\(\).numpy\(\) instead"),
        ({"X": X.astype("datetime64[s]")}, r"X must hold real numbers but holds datetime64\[s\]"),
        (
            {"model": first, "X": pd.DataFrame({"a": Y, "b": [[1]] * 60})},
            "column 'b' of X must hold numbers, categories or text but is object",
        ),
        ({"X": X[:, :2]}, "X must have the 4 features that the model was trained on but has 2"),
        ({"model": "trees", "X": X[:, :2]}, "X must have the 4 features that the model was trai"),
        ({"X": X[0]}, r"X must have rows and features, \(K, M\), but has shape \(4,\)"),
        ({"X": WITH_A_HOLE}, "Input X contains NaN"),
        ({"model": torch.nn.Linear(D, 1), "X": WITH_A_HOLE}, "for row 3 of X, where 'x2' is"),
    ],
    "y": [
        ({"y": Y.astype(str)}, "y must hold numbers but holds text, such as '"),
        ({"y": Y + 1j}, "y cannot be read .Complex data not supported"),
        ({"y": np.ma.masked_greater(Y, 1)}, "y must have no masked values"),
        ({"y": np.arange(60).astype("datetime64[s]")}, r"y must hold .* but holds datetime64\[s\]"),
        ({"y": Y[:9]}, r"y must have shape \(60,\), as X has rows, but has \(9,\)"),
        ({"y": np.full(60, np.nan)}, "y must have a value in every row but has none in row 1"),
        (
            {"model": "words", "y": ["low", "great"] * 30, "loss": "log_loss"},
            "y must hold the model's classes, high, low, but holds great",
        ),
    ],
    "weights": [
        ({"sample_weight": ["a"] * 60}, "sample_weight cannot be read .*; give a finite number"),
        ({"sample_weight": np.ma.masked_greater(abs(Y) + 1, 2)}, "sample_weight must have no mask"),
        ({"sample_weight": np.ones(3)}, r"sample_weight must have shape \(60,\), .* \(3,\)"),
        ({"sample_weight": np.zeros(60)}, "finite and above 0 but is 0 in row 1; give a finite"),
    ],
    "loss": [
        *(({"loss": loss}, "loss must be the name of a loss or a scikit-learn scorer but is")
          for loss in (None, 3)),
        ({"loss": first}, r"loss must be a name or a scorer but is the function first; give make"),
        ({"loss": "log_loss"}, "loss 'log_loss' is for classification but the target asks for reg"),
        ({"loss": "squared_eror"}, "loss must be one of .* did you mean squared_error"),
    ],
    "baseline": [
        ({"baseline": "mode"}, "baseline must be zero, .* or values but is 'mode'"),
        ({"baseline": [0, 1]}, "baseline must have one value for each of the 4 features"),
        ({"baseline": {"x": 1}}, "baseline names 'x', which is no feature of X; nearest: x"),
        ({"baseline": {"x1": np.nan}}, "baseline of 'x1' must be a finite number but is nan"),
        (
            {"model": first, "X": WITH_INFINITY, "baseline": "mean"},
            "baseline 'mean' of 'x1' is inf, for the column holds infinite values",
        ),
    ],
    "model": [
        ({"model": Ridge()}, "This Ridge instance is not fitted"),
        ({"model": lightgbm.LGBMRegressor()}, "No booster found. Need to call fit beforehand"),
        ({"model": xgboost.XGBRegressor()}, "need to call fit or load_model beforehand"),
        ({"model": "untrained"}, "the Booster is not trained; train it, or load it with load_mod"),
        ({"model": Ridge}, "model must be a trained LightGBM, XGBoost or scikit-learn model"),
        (
            {"model": "vectors", "y": CLASSES, "loss": "roc_auc"},
            "LinearSVC gives no class probabilities, which 'roc_auc' needs",
        ),
        (
            {"model": "numbers of classes", "y": CLASSES, "loss": "log_loss"},
            "the Booster predicts class numbers with multi:softmax",
        ),
        ({"model": "two targets"}, "the model must predict one value for each row but predicts 2"),
        ({"model": "forest of two"}, "the model must predict one value for each row but predi"),
        ({"model": "names"}, "the Booster knows its columns by name, a, b, c, d; give X"),
        ({"model": lambda T: T[:3]}, "the model must predict 60 rows, as many as X has"),
        (
            {"model": lambda T: torch.tensor(T[:, 0], requires_grad=True)},
            r"the model's prediction cannot be read \(Can't call numpy\(\) on Tensor",
        ),
        *(
            (
                {"model": lambda T, row=row: np.tile(row, (len(T), 1)), "y": CLASSES,
                 "loss": "log_loss"},
                "the model must predict probabilities, in 0..1 and with sum 1, but predicts "
                f"{re.escape(repr(row))} for row 0 of X",
            )
            for row in ([1.0, 1.0], [1.25, -0.25])
        ),
    ],
}  # fmt: skip
MADE = {
    "trees": trees,
    "words": lambda: LogisticRegression().fit(X, np.where(Y > 0, "high", "low")),
    "vectors": lambda: LinearSVC().fit(X, CLASSES),
    "numbers of classes": lambda: booster(objective="multi:softmax", num_class=2),
    "two targets": of_two_targets,
    "forest of two": lambda: RandomForestRegressor(2).fit(X, np.column_stack((Y, Y))),
    "names": named_booster,
    "untrained": xgboost.Booster,
}


@pytest.mark.parametrize(
    ("given", "message"), [case for cases in MISFITS.values() for case in cases]
)
def test_what_does_not_fit_is_refused_in_one_line(given, message: str) -> None:
    model = given.get("model", LINE)
    refused(message, **given | {"model": MADE[model]() if isinstance(model, str) else model})


def test_a_masked_array_without_a_masked_value_is_an_array() -> None:
    assert masked_loss(LINE, np.ma.array(X), Y, loss="squared_error").loss < 1e-20


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
    for masks, shape in (([[]], r"\(1, 0\)"), (np.ones(D, dtype=bool), r"\(4,\)")):
        with pytest.raises(ValueError, match=rf"masks must have shape \(m, 4\) but are {shape}"):
            engine(masks)
    engine.remove(2)
    with pytest.raises(ValueError, match="feature 2 is masked already"):
        engine.remove(2)


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


@pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("model", [Ridge(), lightgbm.LGBMRegressor(n_estimators=3, verbose=-1)])
def test_columns_in_another_order_than_in_training_are_refused(model, kind) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted_model = model.fit(frame, Y)
    assert masked_loss(fitted_model, kind(frame), Y, loss="r2").loss > -np.inf
    for changed in (frame[list("dcba")], frame.rename(columns={"a": "z"})):
        with pytest.raises(InputError, match=r"^X must have the columns that"):
            masked_loss(fitted_model, kind(changed), Y, loss="r2")
