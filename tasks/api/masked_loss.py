"""`chaffinch.masked_loss`: the loss of a trained model of your own without each feature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from chaffinch.errors import InputError, as_input_error, short_repr
from chaffinch.tasks.data.user_input import (
    GivenTable,
    check_columns,
    read_given_table,
    target_numbers,
)
from chaffinch.tasks.selection.core import Floats, MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.input_checks import (
    check_count,
    check_same_order,
    read_floats,
    read_target,
)
from chaffinch.tasks.selection.losses import is_scorer, name_of_loss, resolve_loss
from chaffinch.tasks.selection.masked_loss.base import MaskState
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.external_models import (
    ExternalModel,
    engine_of,
    read_model,
)
from chaffinch.tasks.selection.models.base import GivenModel
from chaffinch.tasks.selection.models.runtime import single_thread

_ROUNDING_OF_A_SUM = 1e-3  # of probabilities, which may be of float16


def masked_loss(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    loss: Any,
    baseline: str | ArrayLike | Mapping[str, Any] | pd.Series = "zero",
    sample_weight: ArrayLike | None = None,
    threads: int = 1,
) -> MaskedLoss:
    """Ask a trained model what its loss becomes without each feature; nothing is trained.

    A *masked* feature is one whose whole column is set to its baseline value, missing values
    included. Every loss is that of the model's own prediction on such a table, up to the order of
    a sum, or to 5e-10 of it where single values are much larger than the others. Trees, networks
    and linear models have exact engines that need no prediction for each feature; any other model
    predicts mask by mask. The log of `chaffinch`, at level INFO, names the engine.

    XGBoost adds in float32, engines do not. Of squared and absolute error they then give 1e-5 or
    better, 1e-6 commonly; of log loss 1e-6, or 1e-5 where next to all probabilities are 1. Where
    XGBoost's rounding moves the rows' losses by more than 5e-5 of them (a target far from 0 for
    its spread, or next to no loss at all) it is asked mask by mask.

    Parameters
    ----------
    model : trained model, or callable
        LightGBM's or XGBoost's Booster or scikit-learn interface; any scikit-learn estimator; a
        torch module, which computes in float64 here; or a function from X to values (K,) or
        class probabilities (K, n_classes). It must not change as long as the result is in use.
        Several outputs of a module are scores of classes, of which a softmax makes probabilities,
        and a single one is log odds under log loss, unless the module is a ``Sequential`` that
        ends in Softmax, LogSoftmax or Sigmoid.
    X : array of numbers (K, M) or pandas.DataFrame
        The rows to judge by, best ones that the model has not seen. The model is given fresh
        copies, which it may change: of an array in float64, of a frame with its columns' types.
    y : array, shape (K,)
        What is true: numbers, or labels as in the model's `classes_` (0, 1, ... for Boosters,
        torch modules and functions). False and True may stand for 0 and 1.
    loss : str or scorer
        ``"squared_error"``, ``"absolute_error"``, ``"log_loss"``, a scikit-learn scorer's name, or
        a scorer by ``make_scorer``; scores are negated, so that lower is better. A predicted class
        is the likeliest one. A scorer of your own sees the labels of `classes_`; one by name sees
        labels that are numbers as they are, and others as 0, 1, ... in the order of `classes_`.
    baseline : "zero", "mean", "median", "minimum", array (M,), mapping or pandas.Series
        What a masked feature is set to. A mapping, and a Series by its index, give values by
        feature, the others the mean; a Series whose index is 0, 1, 2, ... gives them in order.
        Means and medians are those of X, weighted where `sample_weight` is given. A category has
        none of these: it is set to the most frequent one, or to the one given.
    sample_weight : array, shape (K,), optional
        Above 0.
    threads : int, at least 1
        How many threads an engine may use; changes no number.

    Returns
    -------
    MaskedLoss
        ``.loss`` under the present ``.mask``; ``.without_each()``, the losses (M,) of masking one
        more feature each, inf where already masked; ``.remove(j)`` masks feature j, given by its
        position or its name, for good; ``.names`` has the features in order, as in
        ``pandas.Series(engine.without_each(), engine.names)``; and a call with masks (m, M), True
        for a kept feature, returns their losses (m,). Threads that ask at the same time are
        answered one after the other; after a fork each process has its own; it can be copied but
        not pickled: make it again from the model.

    Raises
    ------
    InputError
        If the model is not fitted, or it, X, y and the settings do not fit each other; the message
        names what is wrong and the remedy.

    Notes
    -----
    In addition to X, an engine takes about four tables of its size in float64 while it is made,
    a network's for five to six, and a black box for three to five whenever it is asked.

    Examples
    --------
    >>> import chaffinch, numpy
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> X = numpy.random.default_rng(0).normal(size=(300, 4))
    >>> y = 3 * X[:, 0] + X[:, 1]
    >>> forest = RandomForestRegressor(random_state=0).fit(X[:200], y[:200])
    >>> engine = chaffinch.masked_loss(forest, X[200:], y[200:], loss="squared_error")
    >>> losses = engine.without_each()
    >>> int(losses.argmax())
    0
    >>> engine.remove(2)
    >>> bool(numpy.isclose(engine.loss, losses[2]))
    True
    """
    with as_input_error():
        if not isinstance(name_of_loss(loss), str):
            raise InputError(
                f"loss must be the name of a loss or a scikit-learn scorer but is "
                f"{short_repr(loss)}"
            )
        check_count("threads", threads, 1)
        user_model, evaluator, plain = evaluator_of(model, X, y, loss, baseline, sample_weight)
        engine = engine_of(user_model, evaluator, plain=plain, threads=threads)
    cast(MaskState, engine).names = evaluator.model.schema.features
    return engine


@as_input_error()
def evaluator_of(
    model: Any,
    X: Any,
    y: ArrayLike,
    loss: Any,
    baseline: str | ArrayLike | Mapping[str, Any] | pd.Series = "zero",
    sample_weight: ArrayLike | None = None,
) -> tuple[ExternalModel, MaskEvaluator, bool]:
    """Return the user's model, an evaluator of its rows, and whether it reads X as numbers."""
    user_model = read_model(model, loss)
    check_same_order(X, y)
    check_same_order(X, sample_weight, "sample_weight")
    table = read_given_table(X, user_model.categories)
    if user_model.n_features not in (None, len(table.names)):
        raise InputError(
            f"X must have the {user_model.n_features} features that the model was trained on but "
            f"has {len(table.names)}"
        )
    check_columns(model, user_model.name, X)
    prediction = _first_prediction(user_model, table)
    classes = user_model.classes
    if classes is None:
        n_classes = prediction.shape[1] if prediction.ndim == 2 else 0
        classes = np.arange(n_classes if n_classes > 1 else 0)
    schema = Schema(table.names, (0,) * len(table.names), len(classes))
    truth = read_target(y, len(table.matrix))
    if user_model.classes is None and len(classes):
        _check_classes_are_meant(loss, truth, len(classes))
    rows = _rows(table.matrix, truth, classes, sample_weight)
    own = GivenModel(
        user_model.name,
        schema,
        lambda matrix: user_model.predict(table.as_given(matrix)),
        user_model.used_features(len(table.names)),
    )
    labels = tuple(classes.tolist()) if is_scorer(loss) else _numeric_labels(classes)
    evaluator = MaskEvaluator(
        own,
        rows,
        resolve_loss(loss, schema, weighted=sample_weight is not None, labels=labels),
        table.baseline(baseline, rows),
    )
    return user_model, evaluator, user_model.categories is not None or not any(table.categories)


def _numeric_labels(classes: NDArray[Any]) -> tuple[int | float, ...] | None:
    """Return labels that are numbers, which a scorer may take as such, if not just positions."""
    if classes.dtype.kind not in "iuf" or np.array_equal(classes, np.arange(len(classes))):
        return None
    return tuple(classes.tolist())


def _first_prediction(user_model: ExternalModel, table: GivenTable) -> Floats:
    """Return the prediction of the unmasked table; InputError if it is invalid."""
    with single_thread():
        predicted = user_model.predict(table.as_given(table.matrix))
    prediction = read_floats(
        predicted, "the model's prediction", "give a model that predicts numbers"
    )
    n_rows = len(table.matrix)
    n_values = prediction.shape[1] if prediction.ndim == 2 else 1
    if user_model.classes is not None and not len(user_model.classes) and n_values > 1:
        raise InputError(
            f"the model must predict one value for each row but predicts {n_values}; give a "
            "function that predicts one of them"
        )
    if prediction.ndim not in (1, 2) or len(prediction) != n_rows:
        raise InputError(
            f"the model must predict {n_rows} rows, as many as X has, but predicts an array of "
            f"shape {prediction.shape}"
        )
    wrong = np.flatnonzero(~np.isfinite(prediction.reshape(n_rows, -1)).all(axis=1))
    if len(wrong):
        missing = np.flatnonzero(np.isnan(table.matrix[wrong[0]]))
        where = f", where {table.names[missing[0]]!r} is missing" if len(missing) else ""
        raise InputError(
            f"the model must predict finite numbers but does not for row {wrong[0]} of X{where}; "
            "leave such rows out, or fill them in"
        )
    if user_model.classes is None and n_values > 1:
        _check_probabilities(prediction)
    return prediction


def _check_probabilities(prediction: Floats) -> None:
    """Raise InputError unless a function predicts probabilities of classes."""
    is_one = np.abs(prediction.sum(axis=1) - 1) <= _ROUNDING_OF_A_SUM
    wrong = np.flatnonzero(~is_one | (prediction < 0).any(axis=1) | (prediction > 1).any(axis=1))
    if len(wrong):
        raise InputError(
            "the model must predict probabilities, in 0..1 and with sum 1, but predicts "
            f"{prediction[wrong[0]].tolist()} for row {wrong[0]} of X"
        )


def _check_classes_are_meant(loss: Any, truth: NDArray[Any], n_outputs: int) -> None:
    """Raise InputError for several outputs a row where numbers are to be compared with y."""
    if truth.dtype.kind == "f" and (truth != np.round(truth)).any():
        raise InputError(
            f"the model predicts {n_outputs} values a row, which stand for classes 0 to "
            f"{n_outputs - 1}, but y holds numbers between; give a model of one output for {loss!r}"
        )


def _rows(matrix: Floats, truth: NDArray[Any], classes: NDArray[Any], sample_weight: Any) -> Rows:
    """Return the rows with targets as numbers or positions among the classes."""
    weight = None if sample_weight is None else _read_weight(sample_weight, matrix)
    if not len(classes):
        return Rows(matrix, target_numbers(truth), weight)
    if classes.dtype.kind in "iuf" and truth.dtype.kind == "b":
        truth = truth.astype(np.int64)
    position = pd.Index(classes).get_indexer(pd.Index(truth))
    if (position < 0).any():
        raise InputError(
            f"y must hold the model's classes, {', '.join(map(str, classes[:10]))}, but holds "
            f"{truth[position < 0][0]}"
        )
    return Rows(matrix, position.astype(np.int64), weight)


def _read_weight(sample_weight: Any, matrix: Floats) -> Floats:
    """Return weights, shape (K,), divided by a power of two near the largest."""
    hint = "give a finite number above 0 for each row, or leave the row out"
    weight = read_floats(sample_weight, "sample_weight", hint)
    if weight.shape != (len(matrix),):
        raise InputError(
            f"sample_weight must have shape ({len(matrix)},), as X has rows, but has "
            f"{weight.shape}",
            hint,
        )
    is_wrong = ~(np.isfinite(weight) & (weight > 0))
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise InputError(
            f"sample_weight must be finite and above 0 but is {weight[row]:g} in row {row + 1}",
            hint,
        )
    # so that no sum overflows or loses digits, and no share is rounded
    shares: Floats = np.ldexp(weight, -np.frexp(weight.max())[1])
    return shares
