"""PEFS, Figure 1: test error against the share of features kept, with mRMR, ReliefF and LASSO.

Saito, Shirakawa and Akimoto, GECCO '18 Companion (2018), section 3. The same network, three layers
of 200, is trained on what each method keeps; PEFS and LASSO have a model of their own as well,
which is what the paper shows of them. Not followed: the paper's 100,000 iterations for any table,
and its wrapper by particle swarms, which takes it four days a table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from chaffinch import qualities
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.models.runtime import single_thread, single_torch_thread
from chaffinch.tasks.selection.pefs.network import Prepared, Training
from chaffinch.tasks.selection.pefs.results import SharedNetwork
from chaffinch.tasks.selection.pefs.search import BATCH_SIZE, Rules, Search
from tests.benchmarks.papers import experiment, gbmo
from tests.benchmarks.papers.experiment import Experiment, Measured, Table

LEAST_COEFFICIENT, PASSES = 1e-5, 500  # of LASSO by SAGA, the paper's
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # that filters keep; all features come to the same for each
EVERYTHING, FILTERS, LASSO = "all features", ("mRMR", "ReliefF"), "LASSO"


class Effort(NamedTuple):
    """How much is done for one table.

    `penalties` are the epsilon of a search each, `strengths` the C of LASSO, and `steps` those of
    training a network, on 256 rows each. `at` are the shares, in per cent, at which PEFS is
    compared with its rivals: those of the paper's claim, with points of PEFS on both sides.
    """

    penalties: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0)
    strengths: tuple[float, ...] = (0.001, 0.003, 0.01, 0.03)
    at: tuple[int, ...] = (10, 20, 30, 40)
    most_sweeps: int = 60
    steps: int = 1000


class Cut(NamedTuple):
    """Rows to choose by and rows to judge by, and what they mean."""

    train: Rows
    test: Rows
    schema: Schema

    @classmethod
    def of(cls, table: Table, seed: int) -> Cut:
        """Cut a fifth of the rows off for the test, with as much of each class."""
        rows, numbers = Rows(*table), np.arange(len(table[1]))
        train, test = train_test_split(numbers, test_size=0.2, stratify=rows.y, random_state=seed)
        schema = experiment.schema_of(rows.X, int(rows.y.max()) + 1)
        return cls(rows.take(train), rows.take(test), schema)

    def error(self, prediction: Floats) -> float:
        """Return the share of test rows whose most probable class is another, in per cent."""
        return 100.0 * float(np.mean(prediction.argmax(axis=1) != self.test.y))

    @property
    def error_of_none(self) -> float:
        """Return the test error of always the most frequent class, in per cent."""
        return 100.0 * float(np.mean(self.test.y != np.bincount(self.train.y).argmax()))

    def prepared(self, mask: Mask) -> Prepared:
        rows = self.train.select(mask)
        return Prepared.of(rows, self.schema.select(mask), rows.X.mean(axis=0))


def error_of_a_network(cut: Cut, mask: Mask, seed: int, steps: int) -> float:
    """Return the test error of the paper's network trained on the kept columns, in per cent.

    Each step is on as many rows as an iteration of PEFS looks at, under no mask.
    """
    if not mask.any():
        return cut.error_of_none
    prepared, everything = cut.prepared(mask), np.ones(int(mask.sum()), dtype=bool)
    sizes = (len(everything), *Rules(penalty=0.0).hidden_layer_sizes, cut.schema.n_classes)
    training = Training.begin(sizes, torch.Generator().manual_seed(seed))
    with single_torch_thread():
        inputs, target, _ = prepared.tensors()
        unmasked = torch.ones(1, len(everything))
        for rows in batches(len(prepared), seed, steps):
            at = torch.from_numpy(rows)
            training.train(inputs.index_select(0, at), target.index_select(0, at), None, unmasked)
    network = SharedNetwork(prepared, training.layers())
    return cut.error(network.predict(cut.test.X[:, mask], everything))


def batches(n_rows: int, seed: int, steps: int) -> Iterator[np.ndarray]:
    """Yield the rows of each step: all in turn, in an order that is drawn for every epoch."""
    random, size = np.random.default_rng(seed), min(2 * BATCH_SIZE, n_rows)
    order, place = np.arange(0), 0
    for _ in range(steps):
        if place + size > len(order):
            order, place = random.permutation(n_rows), 0
        yield order[place : place + size]
        place += size


def by_pefs(cut: Cut, penalty: float, most_sweeps: int, seed: int) -> tuple[Mask, float]:
    """Return what is as probable as not in the end, and the error of the search's network."""
    prepared = cut.prepared(np.ones(len(cut.schema.features), dtype=bool))
    search = Search(prepared, Rules(penalty=penalty, most_sweeps=most_sweeps), seed)
    search.run()
    mask = search.sweeps[-1].mask
    return mask, cut.error(search.network.predict(cut.test.X, mask))


def by_lasso(cut: Cut, strength: float, seed: int) -> tuple[Mask, float]:
    """Return what has a coefficient, and the error of the linear model."""
    scaler = StandardScaler().fit(cut.train.X)
    model = LogisticRegression(
        solver="saga", l1_ratio=1.0, C=strength, max_iter=PASSES, random_state=seed
    )
    # the paper ends after as many passes, too
    with single_thread(), warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        model.fit(scaler.transform(cut.train.X), cut.train.y)
    mask = np.abs(model.coef_).max(axis=0) > LEAST_COEFFICIENT
    return mask, cut.error(model.predict_proba(scaler.transform(cut.test.X)))


def order_of_mrmr(rows: Rows) -> np.ndarray:
    """Return the features by when mRMR takes them, by information in bins.

    Next is the one with the most information about the target, less the mean of what it shares with
    those taken before (equation 6 of Peng, Long and Ding, 2005); of equals the first.
    """
    known = qualities.binned_mrmr(rows.X, rows.y, task="classification")
    order: list[int] = []
    shared, is_open = np.zeros(len(known.relevance)), np.ones(len(known.relevance), dtype=bool)
    while is_open.any():
        merit = np.where(is_open, known.relevance - shared / max(len(order), 1), -np.inf)
        order.append(int(np.argmax(merit)))
        is_open[order[-1]] = False
        shared += known.redundancy[order[-1]]
    return np.array(order)


def points_of(cut: Cut, effort: Effort, seed: int) -> Iterator[tuple[str, Mask, float | None]]:
    """Yield the name of each point, what is kept, and the error of a model of its own."""
    d = len(cut.schema.features)
    for penalty in effort.penalties:
        yield f"PEFS, epsilon = {penalty:g}", *by_pefs(cut, penalty, effort.most_sweeps, seed)
    of_relieff = qualities.relieff(cut.train.X, cut.train.y, task="classification", seed=seed)
    orders = (order_of_mrmr(cut.train), gbmo.best_first(of_relieff.values))
    for rival, order in zip(FILTERS, orders, strict=True):
        for share in SHARES:
            yield f"{rival}, {share:.0%} kept", gbmo.first_of(order, max(1, round(share * d))), None
    for strength in effort.strengths:
        yield f"{LASSO}, C = {strength:g}", *by_lasso(cut, strength, seed)
    yield EVERYTHING, np.ones(d, dtype=bool), None


def interpolated(shares: Sequence[float], errors: Sequence[float], at: Sequence[float]) -> Floats:
    """Return the error at some shares, on straight lines between the points by rising share.

    Points of one share count as their mean.
    """
    known, place = np.unique(shares, return_inverse=True)
    means = np.bincount(place, weights=errors) / np.bincount(place)
    return np.asarray(np.interp(at, known, means))


def measure(table: Table, seed: int, *, effort: Effort) -> Measured:
    """Return the figures of one seed: the points, and PEFS less each rival."""
    cut, measured = Cut.of(table, seed), {}
    kept, errors, own = {}, {}, {}
    for name, mask, own_error in points_of(cut, effort, seed):
        kept[name] = measured[name, "kept, %"] = 100.0 * float(mask.mean())
        error = error_of_a_network(cut, mask, seed, effort.steps)
        errors[name] = measured[name, "test error, %"] = error
        if own_error is not None:
            own[name] = measured[name, "of its own model, %"] = own_error

    def curve(method: str, error_of: Mapping[str, float]) -> Floats:
        names = [name for name in error_of if name.startswith(method)]
        shares = [0.0, *(kept[name] for name in names), 100.0]
        of_all = [cut.error_of_none, *(error_of[name] for name in names), errors[EVERYTHING]]
        return interpolated(shares, of_all, effort.at)

    for rival in (*FILTERS, LASSO):
        of_rival = own if rival == LASSO else errors
        for row, difference in (
            (f"PEFS less {rival}", curve("PEFS", errors) - curve(rival, errors)),
            (f"own: PEFS less {rival}", curve("PEFS", own) - curve(rival, of_rival)),
        ):
            for share, value in zip(effort.at, difference, strict=True):
                measured[row, f"at {share} %"] = float(value)
            measured[row, "mean of these"] = float(difference.mean())
    return measured


def digits_and_noise(seed: int) -> Table:
    """Return scikit-learn's digits, with a column of standard normal noise for each pixel."""
    X, y = load_digits(return_X_y=True)
    noise = np.random.default_rng(seed).normal(size=X.shape)
    return np.hstack((X, noise)), y.astype(np.int64)


def measure_digits(_: None, seed: int, *, effort: Effort) -> Measured:
    return measure(digits_and_noise(seed), seed, effort=effort)


def on(name: str, effort: Effort, claim: str, measure: Any = measure, **more: Any) -> Experiment:
    return Experiment(
        title=f"test error and share of features on {name}, PEFS, mRMR, ReliefF and LASSO",
        source="Embedded Feature Selection Using Probabilistic Model-Based Optimization, GECCO '18 "
        "Companion, Figure 1",
        measure=partial(measure, effort=effort),
        notes=(
            claim,
            "PEFS less a rival: the difference of test errors at the same share of features, in "
            "points of per cent, on straight lines between points. Below 0 PEFS is better.",
            f"The test error is that of the paper's network, trained for {effort.steps:,} steps on "
            "what is kept. Rows that begin with own are of the networks that PEFS leaves, and of "
            "LASSO's linear model, as in the paper.",
        ),
        **more,
    )


def of_user(name: str, effort: Effort, claim: str, **columns: int) -> Experiment:
    claim = f"The paper draws this without figures. It claims: PEFS is better than {claim}"
    return on(name, effort, claim, read=partial(experiment.read_classes, name, **columns))


# Where epsilon is .05 hardly any feature of pcmac stays; 30 sweeps are the paper's 100,000.
ON_PCMAC = Effort((0.0, 0.005, 0.02), (0.01, 0.03, 0.1, 1.0), (40, 50), most_sweeps=30, steps=500)
# Of digits, an epsilon above .3 leaves no column; LASSO keeps none below a C of .01.
ON_DIGITS = Effort((0.0, 0.01, 0.03, 0.1, 0.2, 0.3), (0.01, 0.03, 0.1, 1.0), (20, 30, 40, 50))
PCMAC = "the filters around 50 %, and LASSO is better than PEFS."
USPS = "the filters from 10 to 40 %, and better than LASSO."
ADULT = "the filters from 10 to 40 %, and as good as LASSO with fewer features."
DIGITS = "Not a table of the paper: scikit-learn's digits, with a column of noise for each pixel."
EXPERIMENTS = {
    "pefs-figure-1-pcmac": of_user("pcmac", ON_PCMAC, PCMAC, n_columns=3289),
    "pefs-figure-1-usps": of_user("usps", Effort(), USPS, n_columns=256, n_classes=10),
    "pefs-figure-1-adult": of_user("adult", Effort(), ADULT, n_columns=104),
    "pefs-figure-1-digits-and-noise": on("digits-and-noise", ON_DIGITS, DIGITS, measure_digits),
}
