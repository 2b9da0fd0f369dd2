"""Workers on demand: this process for short steps, a cluster for what is left of a long one."""

import pytest

from chaffinch.tasks.workers import on_demand
from chaffinch.tasks.workers.interface import InProcess
from chaffinch.tasks.workers.on_demand import OnDemand

ITEMS = [*range(12)]


class Cluster(InProcess):
    """Workers that know which items they were given."""

    n_threads = 2

    def __init__(self):
        self.given = []

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
