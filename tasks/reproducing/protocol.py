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


class Refits:
    """Models of one learner on one set of rows, each mask's fitted once.

    Parameters
    ----------
    learner : Learner
    rows : Rows
        That they are fitted on.
    seed : int
        Of the tuning, on every column.
    """

    def __init__(self, learner: Learner, rows: Rows, seed: int) -> None:
        self.learner, self.rows = learner, rows
        self.tuned = learner.tuned(rows, seed)
        self._fitted: dict[bytes, Any] = {}

    def __call__(self, mask: Mask) -> Any:
        """Return the model of the kept columns."""
        if mask.tobytes() not in self._fitted:
            self.keep(mask, self.learner.refitted(self.tuned, self.rows, mask))
        return self._fitted[mask.tobytes()]

    def keep(self, mask: Mask, fitted: Any) -> None:
        """Take a model that was fitted on the kept columns elsewhere."""
        self._fitted[mask.tobytes()] = fitted


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
    refits = Refits(learner, parts.train, seed)
    path = walk(learner, refits.tuned, parts.mask_validation)
    yield "GBMO", best_of([path.gbmo(slack) for slack in slacks], refits, parts)
    yield "FLBMO", best_of([path.flbmo(size) for size in sizes], refits, parts)
    rows = parts.train_of_rivals
    refits = Refits(learner, rows, seed)
    orders = {name: best_first(scores) for name, scores in filters(rows, learner, seed)}
    if with_rfe:
        orders["RFE"] = order_of_rfe(refits, min(sizes))
    everything = np.ones(rows.X.shape[1], dtype=bool)
    yield "All features", best_of([everything], refits, parts)
    for name, order in orders.items():
        yield name, best_of([first_of(order, size) for size in sizes], refits, parts)


def best_of(masks: Sequence[Mask], refits: Refits, parts: Parts) -> Chosen:
    """Return the mask whose model does best on the model-validation part."""
    loss_of = refits.learner.loss_of
    losses = [loss_of(refits(mask), parts.model_validation, mask) for mask in masks]
    best = masks[int(np.argmin(losses))]
    return Chosen(best, loss_of(refits(best), parts.test, best))


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


def order_of_rfe(refits: Refits, fewest: int) -> Order:
    """Return the features by when recursive elimination drops them, the last to go first.

    One feature leaves at a time, so that each set of more than `fewest` holds all smaller ones. The
    models of those sets are kept: they are the ones that the sets are judged by.
    """
    from sklearn.base import clone
    from sklearn.feature_selection import RFE

    fits = []

    def importances(fitted: Any) -> Floats:
        fits.append(fitted)
        linear: Floats | None = getattr(fitted, "coef_", None)
        found: Floats = fitted.feature_importances_ if linear is None else linear
        return found

    rows = refits.rows
    with _undisturbed():
        rfe = RFE(
            clone(refits.tuned), n_features_to_select=fewest, step=1, importance_getter=importances
        ).fit(rows.X, rows.y)
    order = np.argsort(rfe.ranking_, kind="stable")
    fits.append(rfe.estimator_)
    for left, fitted in enumerate(fits):
        refits.keep(first_of(order, len(order) - left), fitted)
    return order


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
