"""How the authors of GBMO cut rows, tune, select and score, followed to the letter.

Lorasdagi, Turali, Koc and Kozat, arXiv 2401.12644, section 4. GBMO and FLBMO have four parts;
their rivals train on the first two together. Every method tries its settings, refits on its
training rows, and keeps what does best on the model-validation part.

The published runs refit on the training part alone, give their models no seed, and mask with 0.
So does this; a run of ours does otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.given_model import masked_loss
from chaffinch.tasks.selection.bmo import EliminationPath, eliminate
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.rivals.filters import correlation, mutual_information
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Rows, Schema

Order = NDArray[np.int64]
Grid = Mapping[str, Sequence[Any]]

LIGHTGBM_GRID: Grid = {
    "num_leaves": [7, 15],
    "learning_rate": [0.01, 0.025, 0.05],
    "subsample": [0.6, 0.8],
    "colsample_bytree": [0.6, 0.8],
    "min_child_samples": [5, 10],
}


@dataclass(frozen=True)
class Parts:
    """The four parts that the authors cut."""

    train: Rows
    mask_validation: Rows
    model_validation: Rows
    test: Rows

    @property
    def train_of_rivals(self) -> Rows:
        """The first two together, which is what methods without masks train on."""
        both = (self.train, self.mask_validation)
        return Rows(np.concatenate([p.X for p in both]), np.concatenate([p.y for p in both]))


@dataclass(frozen=True)
class Learner:
    """A model with the hyper-parameters that its tuning tries.

    Attributes
    ----------
    estimator : callable
        Takes hyper-parameters and the seed to an estimator of scikit-learn's kind.
    grid : mapping
        Values to try, by hyper-parameter.
    scoring : str
        Of scikit-learn; higher is better.
    loss : str
        ``"squared_error"`` or ``"log_loss"``.
    """

    estimator: Callable[..., Any]
    grid: Grid
    scoring: str
    loss: str

    def tuned(self, rows: Rows, seed: int) -> Any:
        """Return the estimator fitted with the best of 20 draws, by 5 folds."""
        from sklearn.model_selection import RandomizedSearchCV

        search = RandomizedSearchCV(
            self.estimator(), self.grid, n_iter=20, cv=5, random_state=seed, scoring=self.scoring
        )
        with _undisturbed():
            return search.fit(rows.X, rows.y).best_estimator_

    def refitted(self, tuned: Any, rows: Rows, mask: Mask) -> Any:
        """Return a copy fitted on the kept columns."""
        from sklearn.base import clone

        with _undisturbed():
            return clone(tuned).fit(rows.X[:, mask], rows.y)

    def loss_of(self, fitted: Any, rows: Rows, mask: Mask) -> float:
        """Return its loss on the kept columns of other rows."""
        from sklearn.metrics import log_loss, mean_squared_error

        X = rows.X[:, mask]
        with _undisturbed():
            if self.loss == "squared_error":
                return float(mean_squared_error(rows.y, fitted.predict(X)))
            return float(log_loss(rows.y, fitted.predict_proba(X), labels=fitted.classes_))


@dataclass(frozen=True)
class Chosen:
    """The mask that a method came to, and the test loss of the model refitted on it."""

    mask: Mask
    test_loss: float


def walk(learner: Learner, fitted: Any, rows: Rows) -> EliminationPath:
    """Return the order in which features leave under the authors' baseline, zero."""
    return eliminate(masked_loss(fitted, rows.X, rows.y, loss=learner.loss, baseline="zero"))


def results(
    learner: Learner,
    parts: Parts,
    seed: int,
    *,
    slacks: Sequence[float],
    sizes: Sequence[int],
    with_rfe: bool,
) -> Iterator[tuple[str, Chosen]]:
    """Yield what each method of the paper comes to with one seed.

    Parameters
    ----------
    learner : Learner
    parts : Parts
    seed : int
        Of the tuning.
    slacks : sequence of float
        That GBMO tries.
    sizes : sequence of int
        Numbers of features that the others try.
    with_rfe : bool
        Whether the model has importances for recursive feature elimination to go by.
    """
    tuned = learner.tuned(parts.train, seed)
    path = walk(learner, tuned, parts.mask_validation)
    masks = [path.gbmo(slack) for slack in slacks]
    yield "GBMO", best_of(masks, learner, tuned, parts.train, parts)
    masks = [path.flbmo(size) for size in sizes]
    yield "FLBMO", best_of(masks, learner, tuned, parts.train, parts)
    rows = parts.train_of_rivals
    tuned = learner.tuned(rows, seed)
    orders = {name: best_first(scores) for name, scores in filters(rows, learner, seed)}
    if with_rfe:
        orders["RFE"] = order_of_rfe(tuned, rows, min(sizes))
    everything = np.ones(rows.X.shape[1], dtype=bool)
    yield "All features", best_of([everything], learner, tuned, rows, parts)
    for name, order in orders.items():
        masks = [first_of(order, size) for size in sizes]
        yield name, best_of(masks, learner, tuned, rows, parts)


def best_of(
    masks: Sequence[Mask], learner: Learner, tuned: Any, rows: Rows, parts: Parts
) -> Chosen:
    """Return the mask whose model, fitted on `rows`, does best on the model-validation part."""
    fits = [learner.refitted(tuned, rows, mask) for mask in masks]
    losses = [
        learner.loss_of(fitted, parts.model_validation, mask)
        for fitted, mask in zip(fits, masks, strict=True)
    ]
    at = int(np.argmin(losses))
    return Chosen(masks[at], learner.loss_of(fits[at], parts.test, masks[at]))


def filters(rows: Rows, learner: Learner, seed: int) -> Iterator[tuple[str, Floats]]:
    """Yield the filters that the papers compare with: a name, and the score of each feature."""
    n_features = rows.X.shape[1]
    n_classes = len(np.unique(rows.y)) if learner.loss == "log_loss" else 0
    schema = Schema(tuple(map(str, range(n_features))), (0,) * n_features, n_classes)
    yield "CC", correlation(rows, schema)
    yield "MI", mutual_information(rows, schema, seed)


def best_first(scores: Floats) -> Order:
    """Return the features by falling score; the lower index first among equals."""
    return np.argsort(-scores, kind="stable")


def order_of_rfe(tuned: Any, rows: Rows, fewest: int) -> Order:
    """Return the features by when recursive elimination drops them, the last to go first.

    One feature leaves at a time, so that each set of more than `fewest` holds all smaller ones.
    """
    from sklearn.base import clone
    from sklearn.feature_selection import RFE

    with _undisturbed():
        found = RFE(clone(tuned), n_features_to_select=fewest, step=1).fit(rows.X, rows.y)
    return np.argsort(found.ranking_, kind="stable")


def first_of(order: Order, size: int) -> Mask:
    """Return the mask of the first features of an order."""
    mask = np.zeros(len(order), dtype=bool)
    mask[order[:size]] = True
    return mask


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Use one thread, and leave unsaid that a network has not converged, as the authors did."""
    with warnings.catch_warnings(action="ignore"), single_thread():
        yield
