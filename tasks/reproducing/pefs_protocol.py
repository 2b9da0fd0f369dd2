"""How the authors of PEFS cut rows, select and score: every method by the same network.

Saito, Shirakawa and Akimoto, GECCO '18 Companion (2018), section 3.1. PEFS and LASSO leave a model
of their own, too, which is what the paper shows of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.reproducing.protocol import Order
from chaffinch.tasks.selection.models.threads import single_thread, single_torch_thread
from chaffinch.tasks.selection.pefs.network import Training
from chaffinch.tasks.selection.pefs.predicting import SharedNetwork
from chaffinch.tasks.selection.pefs.rows import Prepared
from chaffinch.tasks.selection.pefs.search import BATCH_SIZE, Rules, Search
from chaffinch.tasks.selection.rivals.binned import binned_information, binned_information_of_pairs
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Rows, Schema

_LEAST_COEFFICIENT = 1e-5  # the paper's
_PASSES = 500  # of SAGA, the paper's

Table = tuple[Floats, NDArray[np.int64]]


@dataclass(frozen=True)
class Point:
    """What a method keeps.

    Attributes
    ----------
    mask : ndarray of bool, shape (d,)
    own_error : float or None
        Test error of the method's own model, where it has one.
    """

    mask: Mask
    own_error: float | None = None


@dataclass(frozen=True)
class Cut:
    """Rows to choose by and rows to judge by, and what they mean."""

    train: Rows
    test: Rows
    schema: Schema

    @classmethod
    def of(cls, table: Table, seed: int) -> Cut:
        """Cut a fifth of the rows off for the test, with as much of each class."""
        from sklearn.model_selection import train_test_split

        X, y = table
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.2, stratify=y, random_state=seed
        )
        d = X.shape[1]
        schema = Schema(tuple(map(str, range(d))), (0,) * d, int(y.max()) + 1)
        return cls(Rows(X[train], y[train]), Rows(X[test], y[test]), schema)

    def error(self, prediction: Floats) -> float:
        """Return the share of test rows whose most probable class is another, in per cent."""
        return 100.0 * float(np.mean(prediction.argmax(axis=1) != self.test.y))

    @property
    def error_of_none(self) -> float:
        """Test error of always the most frequent class of the training rows, in per cent."""
        return 100.0 * float(np.mean(self.test.y != np.bincount(self.train.y).argmax()))


def error_of_a_network(cut: Cut, mask: Mask, seed: int, steps: int) -> float:
    """Return the test error, in per cent, of the paper's network trained on the kept columns.

    Parameters
    ----------
    cut : Cut
    mask : ndarray of bool, shape (d,)
        If it keeps nothing, the error is that of the most frequent class.
    seed : int
        Of the first weights and of the order of the rows.
    steps : int
        Each on as many rows as an iteration of PEFS looks at, under no mask.
    """
    import torch

    if not mask.any():
        return cut.error_of_none
    prepared = _prepared(cut.train.select(mask), cut.schema.select(mask))
    d = int(mask.sum())
    sizes = (d, *Rules(penalty=0.0).hidden_layer_sizes, cut.schema.n_classes)
    training = Training.begin(sizes, torch.Generator().manual_seed(seed))
    with single_torch_thread():
        inputs, target, _ = prepared.tensors()
        unmasked = torch.ones(1, d)
        for rows in _batches(len(prepared), seed, steps):
            at = torch.from_numpy(rows)
            training.train(inputs.index_select(0, at), target.index_select(0, at), None, unmasked)
    network = SharedNetwork(prepared, training.layers())
    return cut.error(network.predict(cut.test.X[:, mask], np.ones(d, dtype=bool)))


def _prepared(rows: Rows, schema: Schema) -> Prepared:
    return Prepared.of(rows, schema, rows.X.mean(axis=0))


def _batches(n_rows: int, seed: int, steps: int) -> Iterator[NDArray[np.int64]]:
    """Yield the rows of each step: all in turn, in an order that is drawn for every epoch."""
    random, size = np.random.default_rng(seed), min(2 * BATCH_SIZE, n_rows)
    order, place = np.arange(0), 0
    for _ in range(steps):
        if place + size > len(order):
            order, place = random.permutation(n_rows), 0
        yield order[place : place + size]
        place += size


def by_pefs(cut: Cut, penalty: float, most_sweeps: int, seed: int) -> Point:
    """Return what is as probable as not in the end, with the error of the search's network."""
    prepared = _prepared(cut.train, cut.schema)
    search = Search(prepared, Rules(penalty=penalty, most_sweeps=most_sweeps), seed)
    search.run()
    mask = search.sweeps[-1].mask
    return Point(mask, cut.error(search.network.predict(cut.test.X, mask)))


def by_lasso(cut: Cut, strength: float, seed: int) -> Point:
    """Return what has a coefficient, with the error of the linear model."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(cut.train.X)
    model = LogisticRegression(
        solver="saga", l1_ratio=1.0, C=strength, max_iter=_PASSES, random_state=seed
    )
    # the paper ends after as many passes, too
    with single_thread(), warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(scaler.transform(cut.train.X), cut.train.y)
    mask = np.abs(model.coef_).max(axis=0) > _LEAST_COEFFICIENT
    return Point(mask, cut.error(model.predict_proba(scaler.transform(cut.test.X))))


def order_of_mrmr(rows: Rows, schema: Schema) -> Order:
    """Return the features by when mRMR takes them, by information in bins.

    Next is the one with the most information about the target, less the mean of what it shares with
    those taken before (equation 6 of Peng, Long and Ding, 2005); of equals the first.
    """
    relevance = binned_information(rows, schema)
    of_pairs = binned_information_of_pairs(rows, schema)
    order = np.empty(len(relevance), dtype=np.int64)
    shared, is_open = np.zeros(len(relevance)), np.ones(len(relevance), dtype=bool)
    for place in range(len(order)):
        merit = np.where(is_open, relevance - shared / max(place, 1), -np.inf)
        order[place] = np.argmax(merit)
        is_open[order[place]] = False
        shared += of_pairs[order[place]]
    return order
