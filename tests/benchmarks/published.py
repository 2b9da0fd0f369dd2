"""The published synthetic protocol of GBMO and FLBMO, followed to the letter.

Eq 22 of arXiv 2401.12644 with the authors' splits, base model and search, so that our elimination
can be held to theirs. Only the search for hyper-parameters and the splits are scikit-learn's; the
masks are ours.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from lightgbm import LGBMRegressor
from sklearn.model_selection import RandomizedSearchCV, train_test_split

from chaffinch.tasks.selection.bmo import EliminationPath, eliminate
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.models import load
from chaffinch.tasks.selection.vocabulary import FittedModel, Mask, Rows, Schema

INFORMATIVE = 10
SLACKS = (0.001, 0.005, 0.02, 0.05)
_GRID = {
    "num_leaves": [7, 15],
    "learning_rate": [0.01, 0.025, 0.05],
    "n_estimators": [20, 40],
    "subsample": [0.6, 0.8],
    "colsample_bytree": [0.6, 0.8],
    "min_child_samples": [5, 10],
}


@dataclass(frozen=True)
class Parts:
    """The parts that the authors cut."""

    train: Rows
    mask_validation: Rows
    model_validation: Rows
    test: Rows


def equation_22(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X (300, 100) and y (300,): ten informative features, no noise, numpy's old seed."""
    random = np.random.RandomState(seed)
    X = np.hstack([random.rand(300, INFORMATIVE), random.rand(300, 90)])
    informative = X[:, :INFORMATIVE]
    return X, (informative**2 + np.sin(informative)).sum(axis=1)


def cut(X: np.ndarray, y: np.ndarray, seed: int) -> Parts:
    """Cut the parts with three calls of train_test_split, as published."""
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.55, random_state=seed)
    X_test, X_val, y_test, y_val = train_test_split(
        X_rest, y_rest, test_size=0.73, random_state=seed
    )
    X_mask, X_model, y_mask, y_model = train_test_split(
        X_val, y_val, test_size=0.33, random_state=seed
    )
    return Parts(
        Rows(X_train, y_train), Rows(X_mask, y_mask), Rows(X_model, y_model), Rows(X_test, y_test)
    )


def search(train: Rows, seed: int) -> LGBMRegressor:
    """Return the authors' base model, tuned by their randomised search and fitted.

    The search has the seed; the model has none and so LightGBM's own, as in the published runs.
    """
    base = LGBMRegressor(n_jobs=1, verbose=-1)
    found = RandomizedSearchCV(
        base,
        _GRID,
        n_iter=20,
        cv=5,
        random_state=seed,
        scoring="neg_mean_squared_error",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return found.fit(train.X, train.y).best_estimator_


def as_model(fitted: LGBMRegressor) -> FittedModel:
    """Return our view of a model that LightGBM's scikit-learn wrapper fitted."""
    n_features = fitted.n_features_in_
    schema = Schema(tuple(f"x{j}" for j in range(n_features)), (0,) * n_features)
    text = fitted.booster_.model_to_string(num_iteration=-1)
    return load("lightgbm", {"model.txt": text.encode()}, schema)


def walk(model: FittedModel, rows: Rows) -> EliminationPath:
    """Walk the elimination path with the authors' baseline, zero."""
    n_features = rows.X.shape[1]
    loss = Loss("squared_error", "regression")
    evaluator = MaskEvaluator(model, rows, loss, np.zeros(n_features))
    return eliminate(BlackBox(evaluator))


def refitted_loss(fitted: LGBMRegressor, parts: Parts, mask: Mask) -> float:
    """Refit on the kept features of the training part; return the model-validation error."""
    refitted = LGBMRegressor(**fitted.get_params()).fit(parts.train.X[:, mask], parts.train.y)
    prediction = refitted.booster_.predict(parts.model_validation.X[:, mask])
    return float(np.mean((prediction - parts.model_validation.y) ** 2))


def gbmo(fitted: LGBMRegressor, parts: Parts, path: EliminationPath) -> Mask:
    """Return the mask of the slack that does best on the model-validation part."""
    masks = [path.gbmo(slack) for slack in SLACKS]
    losses = [refitted_loss(fitted, parts, mask) for mask in masks]
    return masks[int(np.argmin(losses))]
