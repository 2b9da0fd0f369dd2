"""Workers on demand: this process for short steps, a cluster for what is left of a long one."""

import numpy as np
import pytest

from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.elimination.bmo import eliminate
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import BlackBox
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.workers import distributed_masked_loss, on_demand
from chaffinch.tasks.workers.interface import InProcess
from chaffinch.tasks.workers.on_demand import OnDemand

ITEMS = [*range(12)]


class Cluster(InProcess):
    """Workers that know which items, masks and models they were given."""

    n_threads = 2

    def __init__(self):
        self.given, self.masks, self.models = [], [], []

    def masked_loss(self, model, *asked):
        self.models.append(model)
        return super().masked_loss(model, *asked)

    def evaluating(self, evaluator, seconds_per_mask):
        def evaluate(masks):
            self.masks += masks
            return evaluator(masks)

        return evaluate

    def map(self, function, shared, items, on_done=None):
        self.given += items
        return super().map(function, shared, items, on_done)

    def as_done(self, function, shared, items):
        self.given += items
        yield from reversed([*super().as_done(function, shared, items)])


def power(shared, item):
    sum(range(20_000))  # takes some CPU time, which decides where the next item is computed
    return shared**item


@pytest.fixture
def patient(monkeypatch):
    monkeypatch.setattr(on_demand, "_SECONDS_WORTH_STARTING", float("inf"))


@pytest.fixture
def impatient(monkeypatch):
    """Make any gain enough; with eight workers, as this process may use several cores."""
    monkeypatch.setattr(on_demand, "_SECONDS_WORTH_STARTING", 0.0)
    return OnDemand(Cluster(), 8)


def test_short_steps_start_no_cluster(patient):
    workers, reported = OnDemand(Cluster(), 8), []
    found = workers.map(power, 3, ITEMS, lambda *done: reported.append(done))
    assert found == [3**item for item in ITEMS]
    assert dict(workers.as_done(power, 3, ITEMS)) == {item: 3**item for item in ITEMS}
    assert reported == [(n, 12) for n in range(1, 13)]
    assert workers.n_threads == 1
    assert workers._cluster.given == []


def test_a_step_that_gains_continues_on_the_cluster_where_it_was(impatient):
    reported = []
    found = impatient.map(power, 3, ITEMS, lambda *done: reported.append(done))
    assert found == [3**item for item in ITEMS]
    assert reported == [(n, 12) for n in range(1, 13)]
    assert impatient._cluster.given == ITEMS[1:]
    assert impatient.n_threads == 2


def test_items_are_numbered_alike_wherever_they_are_computed(impatient):
    for n_here in (1, 0):  # the second step begins on the cluster
        found = [*impatient.as_done(power, 3, ITEMS)]
        assert dict(found) == {item: 3**item for item in ITEMS}
        assert [number for number, _ in found[n_here:]] == ITEMS[n_here:][::-1]


def test_one_item_that_is_left_is_not_worth_a_cluster(impatient):
    assert impatient.map(power, 3, ITEMS[:2]) == [1, 3]
    assert impatient._cluster.given == []


N_FEATURES = 8


def asked_about(name):
    """Return a model and the rows that its masked losses are computed on."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, N_FEATURES))
    y = X @ np.arange(N_FEATURES) + random.normal(size=400)
    schema = Schema(tuple(f"x{j}" for j in range(N_FEATURES)), (0,) * N_FEATURES, 0)
    model = fit(name, Rows(X[:200], y[:200]), schema, {}, seed=0)
    rows = Rows(X[200:], y[200:])
    return model, rows, Loss("squared_error", "regression"), X[:200].mean(axis=0)


A_BLACK_BOX, OF_TREES = "KNeighborsRegressor", "lightgbm"
MODELS = pytest.mark.parametrize("name", [A_BLACK_BOX, OF_TREES])


@MODELS
def test_masked_losses_of_a_small_table_start_no_cluster(name):
    asked, workers = asked_about(name), OnDemand(Cluster(), 8)
    path = eliminate(workers.masked_loss(*asked, N_FEATURES))
    assert path == eliminate(InProcess().masked_loss(*asked))
    assert workers.n_threads == 1
    assert workers._cluster.masks == workers._cluster.models == []


def test_an_elimination_that_gains_continues_on_the_cluster_where_it_was(impatient):
    asked = asked_about(A_BLACK_BOX)
    here = InProcess().masked_loss(*asked)
    assert isinstance(here, BlackBox)
    path = eliminate(impatient.masked_loss(*asked, N_FEATURES))
    assert path == eliminate(here)
    n_masks = 1 + sum(range(2, N_FEATURES + 1))  # of all features, then of each removal
    assert n_masks - len(impatient._cluster.masks) == max(on_demand._MASKS_AT_LOOKS)
    assert impatient.n_threads == 2
    assert impatient.map(power, 3, ITEMS) == [3**item for item in ITEMS]
    assert impatient._cluster.given == ITEMS  # it stays where it is


def test_losses_of_masks_are_in_their_order_wherever_they_are_computed(impatient):
    asked, masks = asked_about(A_BLACK_BOX), ~np.eye(N_FEATURES, dtype=bool)
    losses = impatient.masked_loss(*asked)(masks)
    assert losses.tolist() == InProcess().masked_loss(*asked)(masks).tolist()
    assert 0 < len(impatient._cluster.masks) < N_FEATURES


def test_an_elimination_by_sums_over_rows_begins_on_the_cluster_if_that_gains(impatient):
    asked = asked_about(OF_TREES)
    path = eliminate(impatient.masked_loss(*asked, N_FEATURES))
    assert path == eliminate(InProcess().masked_loss(*asked))
    assert impatient._cluster.models == [asked[0]]


def test_the_losses_of_one_step_are_not_worth_a_cluster(impatient):
    impatient.masked_loss(*asked_about(OF_TREES)).without_each()
    assert impatient._cluster.models == []


def test_real_workers_give_the_same_losses_to_the_last_bit(impatient, two_workers, monkeypatch):
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_BATCH", -1.0)
    asked, workers = asked_about(A_BLACK_BOX), OnDemand(two_workers, 8)
    path = eliminate(workers.masked_loss(*asked, N_FEATURES))
    assert path == eliminate(InProcess().masked_loss(*asked))
    assert workers._present is two_workers
