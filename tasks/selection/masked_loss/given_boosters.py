"""LightGBM's and XGBoost's own models, trained elsewhere: how they predict, and as ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.given_models import Given
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered, check_own
from chaffinch.tasks.selection.models import LightGBMModel, XGBoostModel
from chaffinch.tasks.selection.models.lightgbm import features_in
from chaffinch.tasks.selection.models.own_classes import own_name
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Predictor, Schema

_NO_CLASSES: NDArray[Any] = np.zeros(0)


def of_lightgbm(model: Any) -> Given:
    """Read a Booster, or the scikit-learn interface of one.

    It is asked itself, with its own parameters; what engines read is a copy, cut at the best
    iteration where training stopped early.

    Raises
    ------
    ValueError
        If it is not fitted, or a classifier gives no probabilities.
    """
    import lightgbm

    own = model if isinstance(model, lightgbm.Booster) else model.booster_
    text = own.model_to_string()
    booster = lightgbm.Booster(model_str=text)
    classes = _lightgbm_classes(text)
    asked = model.predict
    if isinstance(model, lightgbm.LGBMClassifier):
        if len(classes) != len(model.classes_):
            raise ValueError(
                "the LGBMClassifier's objective is not binary or multiclass, so that its class "
                "probabilities are not known here; give a function that returns them"
            )
        classes, asked = np.asarray(model.classes_), model.predict_proba
    is_own = bool(own_name(model, "lightgbm") and own_name(own, "lightgbm"))
    used = features_in(text, booster.num_feature())  # at once: the text may be large
    how = {"num_threads": 1} if is_own else {}

    def predict(table: Any) -> Floats:
        try:
            predicted = asked(table, **how)
        except ValueError as error:  # which columns it does not take stands on a line of its own
            raise ValueError(" ".join(map(str.strip, str(error).splitlines()))) from error
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

    def used_features(n_features: int) -> Mask:
        return used if is_own else np.ones(n_features, dtype=bool)

    return Given(
        name=type(model).__name__,
        predict=predict,
        classes=classes,
        n_features=booster.num_feature(),
        categories=booster.pandas_categorical or [],
        translate=translate,
        used_features=used_features,
    )


def _lightgbm_classes(text: str) -> NDArray[Any]:
    found = re.search(r"^objective=(\w+)(?:.* num_class:(\d+))?", text, re.MULTILINE)
    if found is None:
        return _NO_CLASSES
    if found[1] == "binary":
        return np.arange(2)
    return np.arange(int(found[2])) if found[1].startswith("multiclass") else _NO_CLASSES


def of_xgboost(model: Any) -> Given:
    """Read a Booster, or the scikit-learn interface of one.

    Raises
    ------
    ValueError
        If it is not trained, or predicts the numbers of classes.
    """
    import xgboost

    is_booster = isinstance(model, xgboost.Booster)
    try:
        booster = model.copy() if is_booster else model.get_booster()
        n_features = booster.num_features()
    except xgboost.core.XGBoostError as error:
        raise ValueError(
            "the Booster is not trained; train it, or load it with load_model"
        ) from error
    asked = booster if own_name(model, "xgboost") else model  # a copy is of xgboost's own class
    learner = json.loads(booster.save_config())["learner"]
    objective = learner["objective"]["name"]
    classes: NDArray[Any] = _NO_CLASSES
    predict: Callable[[Any], Any]
    if isinstance(model, xgboost.XGBClassifier):
        classes, predict = np.asarray(model.classes_), model.predict_proba
    elif not is_booster:
        predict = model.predict
    elif objective == "multi:softmax":
        raise ValueError(
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
                raise ValueError(
                    f"the Booster knows its columns by name, {names}; give X as a pandas frame "
                    "with them"
                )
            matrix = xgboost.DMatrix(table, enable_categorical=True, nthread=1)
            return _of_two_classes(asked.predict(matrix), len(classes))

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

    def used_features(n_features: int) -> Mask:
        return np.ones(n_features, dtype=bool)

    return Given(
        name=type(model).__name__,
        predict=predict,
        classes=classes,
        n_features=n_features,
        categories=None,
        translate=translate,
        used_features=used_features,
    )


def _of_two_classes(prediction: Any, n_classes: int) -> Floats:
    """Return both probabilities where there are two classes and only the second's is given."""
    given = np.asarray(prediction, dtype=np.float64)
    return np.column_stack((1 - given, given)) if n_classes == 2 and given.ndim == 1 else given
