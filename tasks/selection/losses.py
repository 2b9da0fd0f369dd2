"""Losses: lower is better.

Three families: squared and absolute error for regression, log loss for classes, and any
scikit-learn scorer by name or as `make_scorer` makes it, negated. The first two are means over
rows, so that a paired interval can resample rows; a scorer is a function of the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Schema, Task
from chaffinch.tasks.selection.models.base import nearest

_ROW_LOSSES: dict[str, Task] = {
    "squared_error": "regression",
    "absolute_error": "regression",
    "log_loss": "classification",
}
# other names of losses -> the name here or in scikit-learn
_SHORT = {
    "mse": "squared_error",
    "rmse": "root_mean_squared_error",
    "mae": "absolute_error",
    "mape": "mean_absolute_percentage_error",
    "mcc": "matthews_corrcoef",
    "cross_entropy": "log_loss",
}
# scorers that are the mean of these over the rows, negated: one loss by two names is one loss
_SAME = {
    "neg_mean_squared_error": "squared_error",
    "neg_mean_absolute_error": "absolute_error",
    "neg_log_loss": "log_loss",
}
_DEFAULTS: dict[Task, str] = {"regression": "squared_error", "classification": "log_loss"}
Labels = tuple[int | float | bool | str, ...]
# scikit-learn clips probabilities at the same distance from 0 and 1
PROBABILITY_FLOOR = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Loss:
    """A loss of predictions against truth: one of ours by name, or a scikit-learn scorer."""

    name: str
    task: Task
    labels: Labels | None = None  # for scorers; by default 0, 1, ...
    scorer: Any = None  # by default the one of that name

    @property
    def is_mean_over_rows(self) -> bool:
        return is_mean_over_rows(self.name)

    @property
    def reads_classes(self) -> bool:
        """Whether it is a score of predicted classes, which needs no probabilities."""
        return not self.is_mean_over_rows and reads_classes(self.scorer or self.name)

    def per_row(self, y: NDArray[np.float64] | NDArray[np.int64], prediction: Floats) -> Floats:
        """Return each row's loss (n,); InputError for a scorer, which has no value per row."""
        if self.name == "squared_error":
            return np.square(prediction - y)
        if self.name == "absolute_error":
            return np.abs(prediction - y)
        if self.name == "log_loss":
            truth = prediction[np.arange(len(y)), y.astype(np.int64)]
            clipped = np.clip(truth, PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
            return np.asarray(-np.log(clipped))
        raise InputError(f"{self.name} is a score of a whole table and has no value per row")

    def __call__(
        self,
        y: NDArray[np.float64] | NDArray[np.int64],
        prediction: Floats,
        weight: Floats | None = None,
    ) -> float:
        if self.is_mean_over_rows:
            return float(np.average(self.per_row(y, prediction), weights=weight))
        return 0.0 - _score(self, y, prediction, weight)  # 0.0, not -0.0, for a score of 0


def is_mean_over_rows(name: object) -> bool:
    return name in _ROW_LOSSES


def reads_classes(loss: Any) -> bool:
    """Return whether a loss, by name or a scorer, is a score of predicted classes."""
    return not is_mean_over_rows(loss) and bool(_scorer_of(loss)._response_method == "predict")


def is_scorer(loss: object) -> bool:
    """Return whether a loss is a scorer as scikit-learn's `make_scorer` makes it."""
    return callable(loss) and hasattr(loss, "_score_func")


def name_of_loss(loss: Any) -> Any:
    """Return what a loss is called; InputError for a function that is no scorer."""
    if is_scorer(loss):
        try:
            return repr(loss)
        except AttributeError as error:
            raise InputError(
                "the function of the scorer must have a name, as those by def have"
            ) from error
    if callable(loss):
        name = getattr(loss, "__name__", type(loss).__name__)
        raise InputError(
            f"loss must be a name or a scorer but is the function {name}; give "
            f"make_scorer({name}, greater_is_better=False), or True if a higher score is better"
        )
    return loss


def _scorer_of(loss: Any) -> Any:
    from sklearn.metrics import get_scorer

    return get_scorer(loss) if isinstance(loss, str) else loss


def loss_in_words(name: str) -> str:
    """Return what a loss is called in prose; a score is negated, so that lower is better."""
    return name.replace("_", " ") if name in _ROW_LOSSES else f"{name}, negated"


def resolve_loss(
    loss: Any,
    schema: Schema,
    *,
    weighted: bool = False,
    labels: Labels | None = None,
) -> Loss:
    """Return the loss of that name, of a scorer, or the task's default.

    InputError if it does not fit.
    """
    if loss is None:
        return Loss(_DEFAULTS[schema.task], schema.task)
    scorer, name = loss if is_scorer(loss) else None, name_of_loss(loss)
    name = _SAME.get(name, name)
    task = _ROW_LOSSES.get(name)
    if task is not None:
        if task != schema.task:
            raise InputError(
                f"loss {name!r} is for {task} but the target asks for {schema.task}",
                f"use {_DEFAULTS[schema.task]!r}",
            )
        return Loss(name, task)
    check_loss(loss)
    resolved = Loss(name, schema.task, labels, scorer)
    if schema.task == "regression" and _is_of_module(loss, "sklearn.metrics.cluster"):
        raise _score_error(resolved, "regression")  # it takes numbers for names of clusters
    if schema.task == "classification" and _is_of_module(loss, "sklearn.metrics._regression"):
        raise _score_error(resolved, "classes")  # it takes the positions of classes for quantities
    _try_out(resolved, schema.n_classes, weighted)
    return resolved


def check_loss(name: Any) -> None:
    """Raise InputError for what is no loss for any target."""
    if name is None or is_scorer(name) or is_mean_over_rows(name):
        return
    from sklearn.metrics import get_scorer_names

    if str(name).startswith("make_scorer("):
        raise InputError(
            f"the loss {name} was a scorer made in Python, which settings and runs do not hold; "
            "select again in Python, with the scorer as loss"
        )
    if name not in get_scorer_names():
        known = ", ".join(sorted(_ROW_LOSSES))
        raise InputError(
            f"loss must be one of {known} or a scikit-learn scorer's name but is {name!r}; "
            f"{nearest(_SHORT.get(name, name), [*_ROW_LOSSES, *get_scorer_names()])}"
        )


def _is_of_module(loss: Any, module: str) -> bool:
    """Return whether a scorer's function is of a module of scikit-learn or below it."""
    return str(getattr(_scorer_of(loss)._score_func, "__module__", "")).startswith(module)


def _score_error(loss: Loss, target: str, reason: str = "") -> InputError:
    return InputError(
        f"loss {loss.name!r} cannot score {target}{f' ({reason})' if reason else ''}",
        f"use {_DEFAULTS[loss.task]!r} or another scorer",
    )


def _try_out(loss: Loss, n_classes: int, weighted: bool) -> None:
    """Score a synthetic table, because only the scorer itself shows what it supports."""
    truth: NDArray[np.float64] | NDArray[np.int64]
    if n_classes:
        truth = np.tile(np.arange(n_classes), 2)
        spread = 1.0 + np.arange(len(truth) * n_classes).reshape(len(truth), n_classes) % 7
        prediction = spread / spread.sum(axis=1, keepdims=True)
    else:
        truth, prediction = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.5, 2.5, 2.0, 4.5])
    try:
        loss(truth, prediction, np.ones(len(truth)) if weighted else None)
    except (ValueError, TypeError, AttributeError) as error:
        target = f"{n_classes} classes" if n_classes else "regression"
        weights = " with sample weights" if weighted else ""
        cause = error.__cause__ or error
        reason = str(cause) if isinstance(cause, ValueError) else ""  # others are about our parts
        reason = shorten(reason.partition("\n")[0], 200).rstrip(".")
        raise _score_error(loss, target + weights, reason) from error


class _Predicted:
    """Stands in for a fitted estimator, so that any scikit-learn scorer reads our predictions."""

    def __init__(self, prediction: Floats) -> None:
        self._prediction = prediction
        self.is_fitted_ = True

    def fit(self) -> None:
        """Scorers ask for this name; it is never called."""

    def __sklearn_tags__(self) -> object:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        is_classifier = self._prediction.ndim == 2
        return Tags(
            estimator_type="classifier" if is_classifier else "regressor",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags() if is_classifier else None,
            regressor_tags=None if is_classifier else RegressorTags(),
        )

    def predict(self, X: object) -> NDArray[Any]:
        return self._prediction


class _PredictedClasses(_Predicted):
    def __init__(self, prediction: Floats, classes: NDArray[Any]) -> None:
        super().__init__(prediction)
        self.classes_ = classes

    def predict(self, X: object) -> NDArray[Any]:
        return np.asarray(self.classes_[self._prediction.argmax(axis=1)])

    def predict_proba(self, X: object) -> Floats:
        return self._prediction


def _score(
    loss: Loss,
    y: NDArray[np.float64] | NDArray[np.int64],
    prediction: Floats,
    weight: Floats | None,
) -> float:
    name, truth, predicted = loss.name, np.asarray(y), _Predicted(prediction)
    if loss.task == "classification":
        classes = np.arange(prediction.shape[1]) if loss.labels is None else np.array(loss.labels)
        truth, predicted = classes[y], _PredictedClasses(prediction, classes)
    weights = {} if weight is None else {"sample_weight": weight}
    try:
        return float(_scorer_of(loss.scorer or name)(predicted, None, truth, **weights))
    except ValueError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(
            f"loss {name!r} cannot score these predictions ({reason})", "choose another loss"
        ) from error
