"""Models trained elsewhere: prediction, classes, and the engine that suits each.

The masked loss is defined by the model's own prediction on a table with the baseline in a column.
An engine reads the model in another form, so the two are compared before it is trusted.
"""

from __future__ import annotations

import copy
import json
import logging
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError, NotCovered, short_repr
from chaffinch.tasks.selection.core import Floats, Mask, MaskedLoss, Predictor, Schema
from chaffinch.tasks.selection.losses import reads_classes
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.masked_loss.torch_modules import frozen, layers
from chaffinch.tasks.selection.masked_loss.torch_modules import predict as predict_by_module
from chaffinch.tasks.selection.masked_loss.trees.engine import MOST_ROUNDING, TreeEngine
from chaffinch.tasks.selection.models import LightGBMModel, ScikitLearnModel, XGBoostModel
from chaffinch.tasks.selection.models.base import GivenModel, check_own, own_name
from chaffinch.tasks.selection.models.dense import DenseModel, Link
from chaffinch.tasks.selection.models.lightgbm import features_in

logger = logging.getLogger(__name__)

_AGREEMENT, _AGREEMENT_IN_SINGLE_PRECISION = 1e-9, 1e-4
_ROUNDING = 1e-12  # of the greatest prediction: what float64 leaves of a row's error


def _every_feature(n_features: int) -> Mask:
    return np.ones(n_features, dtype=bool)


@dataclass(frozen=True)
class ExternalModel:
    """A trained model as its own library gives it."""

    name: str
    predict: Callable[[Any], Any]  # table -> values (n,) or class probabilities (n, n_classes)
    # in the order of the probabilities; empty for regression; None if not known before
    classes: NDArray[Any] | None
    n_features: int | None  # None if not known
    # that a table's categorical columns were trained with, column by column; None if the model
    # takes a table as it is
    categories: Sequence[Sequence[Any]] | None
    translate: Callable[[Schema], Predictor]  # raises NotCovered
    # d -> features that can change a prediction, shape (d,)
    used_features: Callable[[int], Mask] = _every_feature


def read_model(model: Any, loss: Any) -> ExternalModel:
    """Return a model of LightGBM, XGBoost, scikit-learn or torch, or a function as `ExternalModel`.

    Raises InputError if it is none of these, not fitted, or a classifier without probabilities.
    """
    if _is_of(model, "lightgbm", "Booster", "LGBMModel"):
        return of_lightgbm(model)
    if _is_of(model, "xgboost", "Booster", "XGBModel"):
        return of_xgboost(model)
    if _is_of(model, "torch.nn", "Module"):
        return _of_module(model, loss)
    if hasattr(model, "predict") and not isinstance(model, type):
        return _of_estimator(model, loss)
    if callable(model) and not isinstance(model, type):
        return _of_function(model)
    raise InputError(
        "model must be a trained LightGBM, XGBoost or scikit-learn model, a torch module or a "
        f"function from X to predictions but is {short_repr(model)}"
    )


def engine_of(
    model: ExternalModel, evaluator: MaskEvaluator, *, plain: bool, threads: int
) -> MaskedLoss:
    """Return the fastest engine that gives a model's own losses.

    `plain`: whether the model reads the numbers of X as they are, so that there is no category that
    only its own library can read.
    """
    rows, loss, baseline = evaluator.rows, evaluator.loss, evaluator.baseline
    try:
        if not plain:
            raise NotCovered("only its own library knows how it reads columns of categories")
        translated = model.translate(evaluator.model.schema)
        engine = masked_loss(translated, rows, loss, baseline, threads=threads)
        if isinstance(engine, BlackBox):
            return BlackBox(evaluator)
        if not _agrees(engine, evaluator, single=translated.is_single_precision):
            raise NotCovered("the engine does not give its own predictions")
    except NotCovered as reason:
        logger.info("masked losses of the %s model by one prediction each: %s", model.name, reason)
        return BlackBox(evaluator)
    return engine


def _agrees(engine: MaskedLoss, evaluator: MaskEvaluator, *, single: bool) -> bool:
    """Compare with the model's own predictions, and its losses with everything kept and masked."""
    own = evaluator.model.predict(evaluator.rows.X)
    greatest = np.abs(own).max()
    if isinstance(engine, TreeEngine):
        within = _AGREEMENT_IN_SINGLE_PRECISION if single else _AGREEMENT
        if not np.allclose(engine.prediction, own, rtol=within, atol=within * greatest):
            return False
    loss = evaluator.loss
    if not loss.is_mean_over_rows:
        return True  # a rank can turn on the last bit, and with it any other score
    masks = [engine.mask, ~engine.mask]
    losses, expected = engine(masks), evaluator(masks)
    if loss.name == "squared_error":  # so that each is of the size of a row's error
        losses, expected = np.sqrt(losses), np.sqrt(expected)
    # each by itself: a small loss may come with a large loss
    within = MOST_ROUNDING if single else _AGREEMENT
    return np.allclose(losses, expected, rtol=within, atol=_ROUNDING * greatest)


def _is_of(model: Any, library: str, *names: str) -> bool:
    """Return whether a model is of some classes of a library, which is then imported already."""
    module = sys.modules.get(library)
    return module is not None and isinstance(model, tuple(getattr(module, name) for name in names))


def _of_function(function: Callable[[Any], Any]) -> ExternalModel:
    name = getattr(function, "__name__", type(function).__name__)
    return ExternalModel(name, function, None, None, None, _no_engine("it is a function"))


def _no_engine(reason: str) -> Callable[[Schema], Predictor]:
    def translate(schema: Schema) -> Predictor:
        raise NotCovered(reason)

    return translate


@dataclass(frozen=True, eq=False)
class GivenModule(GivenModel):
    """A torch module in float64 and evaluation mode; `own` is made of it."""

    module: Any

    def dense(self) -> DenseModel:
        weights, biases, activation = layers(self.module)
        n_classes = self.schema.n_classes
        link: Link = "identity"
        if n_classes:
            link = "logistic" if weights[-1].shape[1] == 1 else "softmax"
        return DenseModel(
            encode=np.array,  # a copy
            feature_of_column=np.arange(len(self.schema.features)),
            weights=weights,
            biases=biases,
            activation=activation,
            link=link,
            classes=np.arange(n_classes),
        )


def _of_module(module: Any, loss: Any) -> ExternalModel:
    own = frozen(module)

    def predict(table: Any) -> Floats:
        return predict_by_module(own, np.asarray(table, dtype=np.float64), loss)

    def translate(schema: Schema) -> Predictor:
        every = _every_feature(len(schema.features))
        return GivenModule("torch", schema, predict, every, own)

    return ExternalModel(type(module).__name__, predict, None, None, None, translate)


def _of_estimator(estimator: Any, loss: Any) -> ExternalModel:
    from sklearn.base import BaseEstimator, is_classifier
    from sklearn.utils.validation import check_is_fitted

    name = type(estimator).__name__
    is_of_scikit_learn = isinstance(estimator, BaseEstimator)
    if is_of_scikit_learn:
        check_is_fitted(estimator)
    classes = np.zeros(0)
    has_classes = np.size(getattr(estimator, "classes_", ())) > 0  # a regression may have none
    if is_classifier(estimator) if is_of_scikit_learn else has_classes:
        has_probabilities = hasattr(estimator, "predict_proba")
        if not (has_probabilities or reads_classes(loss)):
            raise InputError(
                f"{name} gives no class probabilities, which {loss!r} needs; wrap it in "
                "CalibratedClassifierCV, give a function that does, or choose a loss such as "
                "'accuracy'"
            )
        classes = np.asarray(estimator.classes_)
        if classes.ndim != 1 or len(classes) < 2:
            raise InputError(
                f"{name} must tell one target's classes apart, two at least, but knows "
                f"{estimator.classes_!r}"
            )
    n_features = getattr(estimator, "n_features_in_", None)
    if len(classes) and not has_probabilities:
        return ExternalModel(
            name,
            lambda table: (np.asarray(estimator.predict(table))[:, None] == classes) * 1.0,
            classes,
            n_features,
            None,
            _no_engine("it gives classes without probabilities"),
        )
    predict = estimator.predict_proba if len(classes) else estimator.predict
    translate = partial(_translated_estimator, estimator)
    return ExternalModel(name, predict, classes, n_features, None, translate)


def _translated_estimator(estimator: Any, schema: Schema) -> Predictor:
    from sklearn.pipeline import Pipeline

    check_own(estimator, "sklearn", "scikit-learn")
    last = estimator
    while type(last) is Pipeline:
        last = last.steps[-1][1]
        check_own(last, "sklearn", "scikit-learn")
    steps = [("columns", "passthrough"), ("estimator", _without_names(estimator))]
    return ScikitLearnModel(schema, Pipeline(steps))


def _without_names(estimator: Any) -> Any:
    """Return a copy that has classes 0, 1, ... and no column names; fitted arrays are shared."""
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, str) or estimator is None:
        return estimator
    bare = copy.copy(estimator)
    if type(bare) is Pipeline:
        bare.steps = [(name, _without_names(step)) for name, step in bare.steps]
        return bare
    vars(bare).pop("feature_names_in_", None)
    if isinstance(vars(bare).get("classes_"), np.ndarray):
        bare.classes_ = np.arange(len(bare.classes_))
    if getattr(bare, "_preprocessor", None) is not None:  # of histogram gradient boosting
        bare._preprocessor = _without_names(bare._preprocessor)
    return bare


_NO_CLASSES: NDArray[Any] = np.zeros(0)


def of_lightgbm(model: Any) -> ExternalModel:
    """Read a Booster, or its scikit-learn interface.

    It predicts itself, with its own parameters; engines read a copy, cut at the best iteration
    where training stopped early.
    """
    import lightgbm

    own = model if isinstance(model, lightgbm.Booster) else model.booster_
    text = own.model_to_string()
    booster = lightgbm.Booster(model_str=text)
    classes = _lightgbm_classes(text)
    own_predict = model.predict
    if isinstance(model, lightgbm.LGBMClassifier):
        if len(classes) != len(model.classes_):
            raise InputError(
                "the LGBMClassifier's objective is not binary or multiclass, so that its class "
                "probabilities are not known here; give a function that returns them"
            )
        classes, own_predict = np.asarray(model.classes_), model.predict_proba
    is_own = bool(own_name(model, "lightgbm") and own_name(own, "lightgbm"))
    used = features_in(text, booster.num_feature())  # at once: the text may be large
    how = {"num_threads": 1} if is_own else {}

    def predict(table: Any) -> Floats:
        try:
            predicted = own_predict(table, **how)
        except ValueError as error:  # which columns it does not take stands on a line of its own
            raise InputError(" ".join(map(str.strip, str(error).splitlines()))) from error
        return _of_two_classes(predicted, len(classes))

    def translate(schema: Schema) -> Predictor:
        check_own(model, "lightgbm", "lightgbm")
        check_own(own, "lightgbm", "lightgbm")
        if not booster.num_trees():
            raise NotCovered("it has no trees")
        settings = {} if model is own else model.get_params()
        for name, value in settings.items():
            if name.startswith("pred") and value:
                raise NotCovered(f"it predicts with {name}={value}")
        return LightGBMModel(schema, booster)

    return ExternalModel(
        name=type(model).__name__,
        predict=predict,
        classes=classes,
        n_features=booster.num_feature(),
        categories=booster.pandas_categorical or [],
        translate=translate,
        used_features=(lambda n_features: used) if is_own else _every_feature,
    )


def _lightgbm_classes(text: str) -> NDArray[Any]:
    match = re.search(r"^objective=(\w+)(?:.* num_class:(\d+))?", text, re.MULTILINE)
    if match is None:
        return _NO_CLASSES
    if match[1] == "binary":
        return np.arange(2)
    return np.arange(int(match[2])) if match[1].startswith("multiclass") else _NO_CLASSES


def of_xgboost(model: Any) -> ExternalModel:
    import xgboost

    is_booster = isinstance(model, xgboost.Booster)
    try:
        booster = model.copy() if is_booster else model.get_booster()
        n_features = booster.num_features()
    except xgboost.core.XGBoostError as error:
        raise InputError(
            "the Booster is not trained; train it, or load it with load_model"
        ) from error
    own_model = booster if own_name(model, "xgboost") else model  # a copy is of xgboost's own class
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    classes: NDArray[Any] = _NO_CLASSES
    predict: Callable[[Any], Any]
    if isinstance(model, xgboost.XGBClassifier):
        classes, predict = np.asarray(model.classes_), model.predict_proba
    elif not is_booster:
        predict = model.predict
    elif objective == "multi:softmax":
        raise InputError(
            "the Booster predicts class numbers with multi:softmax; train it with multi:softprob"
        )
    else:
        if objective == "binary:logistic":
            classes = np.arange(2)
        elif objective == "multi:softprob":
            classes = np.arange(int(learner["learner_model_param"]["num_class"]))

        def predict(table: Any) -> Floats:
            if booster.feature_names and isinstance(table, np.ndarray):
                names = ", ".join(booster.feature_names[:10])
                raise InputError(
                    f"the Booster knows its columns by name, {names}; give X as a pandas frame "
                    "with them"
                )
            matrix = xgboost.DMatrix(table, enable_categorical=True, nthread=1)
            return _of_two_classes(own_model.predict(matrix), len(classes))

    def translate(schema: Schema) -> Predictor:
        check_own(model, "xgboost", "xgboost")
        if not is_booster:
            check_own(model.get_booster(), "xgboost", "xgboost")
        if learner["gradient_booster"]["name"] == "gblinear":
            raise NotCovered("its booster is 'gblinear'")
        if objective == "binary:logistic" and not len(classes):
            raise NotCovered("it is a regressor that predicts probabilities")
        if not is_booster and not np.isnan(model.missing):
            raise NotCovered(f"it reads {model.missing} as missing")
        stopped_early = not is_booster and hasattr(model, "best_iteration")
        last = model.best_iteration + 1 if stopped_early else booster.num_boosted_rounds()
        if not last:
            raise NotCovered("it has no trees")
        part = booster[:last]
        part.feature_names = None
        return XGBoostModel(schema, part)

    return ExternalModel(type(model).__name__, predict, classes, n_features, None, translate)


def _of_two_classes(prediction: Any, n_classes: int) -> Floats:
    """Return both probabilities of two classes where a prediction has only the second's."""
    p = np.asarray(prediction, dtype=np.float64)
    return np.column_stack((1 - p, p)) if n_classes == 2 and p.ndim == 1 else p
