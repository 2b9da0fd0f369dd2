"""The price of tau: what is not proven best is no worse than what a higher tau found."""

import math
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import chaffinch
from chaffinch import AlternativeSettings
from chaffinch.tasks.methods.alternatives import best_known, price_of
from chaffinch.tasks.selection.alternatives.result import Alternatives, FeatureSet
from tests.tasks.methods.synthetic_alternatives import LINE


def climbed(tau: float) -> chaffinch.SelectionResult:
    """One set besides five of thirty features, climbed to: the climb for .6 ends below that for .7.

    The run chooses the five by correlation. The noise makes near copies less alike.
    """
    table = load_breast_cancer(as_frame=True).frame
    X = table.drop(columns="target")
    noise = np.random.default_rng(1).normal(size=X.shape)
    return chaffinch.select(
        table.assign(**(X + 0.25 * X.std().to_numpy() * noise)),
        "target",
        method="correlation",
        n_features=5,
        model=LINE,
        alternatives=AlternativeSettings(
            number=1, tau=tau, quality="masked_loss", price_curve=True
        ),
    )


@pytest.fixture(scope="module")
def at_six_tenths() -> chaffinch.SelectionResult:
    return climbed(0.6)


def test_the_curve_of_a_climb_does_not_rise_with_tau_and_proves_nothing(at_six_tenths) -> None:
    prices = at_six_tenths.alternatives["prices"]
    worths = [price["qualities"][0] for price in prices]
    assert len(worths) == 10
    assert all(higher <= lower for lower, higher in pairwise(worths))
    assert {price["status"] for price in prices} == {"feasible"}
    assert {tuple(price["statuses"]) for price in prices} == {("feasible",)}


def test_the_set_that_is_told_and_scored_is_that_of_its_point_in_the_curve(at_six_tenths) -> None:
    """It is the set that the run at the higher tau tells, scored alike."""
    ours, theirs = climbed(0.5).alternatives, at_six_tenths.alternatives
    by_tau = {price["tau"]: price for price in ours["prices"]}
    assert [one["quality"] for one in ours["sets"]] == by_tau[0.5]["qualities"]
    assert by_tau[0.5]["qualities"] == by_tau[0.6]["qualities"]
    assert (ours["sets"], ours["prices"]) == (theirs["sets"], theirs["prices"])


def sets(qualities, status="feasible", bounds=None, bound=math.inf, aggregate="sum"):
    """What a search has found: sets of one feature each."""
    bounds = bounds or [math.inf] * len(qualities)
    each = tuple(
        FeatureSet((j,), (j,), worth, known, "feasible", 0.0)
        for j, (worth, known) in enumerate(zip(qualities, bounds, strict=True))
    )
    total = {"sum": math.fsum, "min": min}[aggregate](qualities)
    return Alternatives(each, total, bound, status, 0.0, aggregate)


def worths(found, search="sequential", n_sets=2):
    known = best_known(found, n_sets, search)
    assert list(known) == list(found)
    return {tau: [one.quality for one in sets] for tau, sets in known.items()}


def test_what_is_worth_more_in_all_counts_at_every_lower_tau_in_its_order() -> None:
    found = {0.1: sets([4, 4]), 0.2: sets([9, 0]), 0.3: sets([3, 6]), 0.4: sets([5, 3])}
    assert worths(found) == {0.1: [3, 6], 0.2: [9, 0], 0.3: [3, 6], 0.4: [5, 3]}
    in_another_order = dict(reversed(found.items()))
    assert worths(in_another_order) == worths(found)


@pytest.mark.parametrize("status", ["optimal", "infeasible", "not_solved"])
def test_what_is_proven_stays_as_it_is_and_so_do_fewer_sets(status) -> None:
    """One after the other, proven sets may be worth less in all than those at a higher tau."""
    of_status = sets([5, 1] if status == "optimal" else [5], status)
    found = {0.1: sets([4, 1]), 0.2: of_status, 0.3: sets([4, 4])}
    known = best_known(found, 2, "sequential")
    assert known[0.2] is of_status
    assert known[0.3] is found[0.3]
    assert [one.quality for one in known[0.1]] == [4, 4]


def test_sets_of_a_higher_tau_lose_their_proof_and_no_bound_is_below_them() -> None:
    """One by one, what bounds the first set bounds each: it alone differs from the chosen alone."""
    lower = sets([4, 2], bounds=[6, 3], bound=9)
    known = best_known({0.1: lower, 0.2: sets([5, 4], "optimal")}, 2, "sequential")[0.1]
    assert (known.total, known.bound, known.status) == (9, 12, "feasible")
    assert [one.bound for one in known] == [6, 6]
    assert {one.status for one in known} == {"feasible"}
    above = best_known({0.1: lower, 0.2: sets([7, 4], "optimal")}, 2, "sequential")[0.1]
    assert [one.bound for one in above] == [7, 6]


def test_at_once_what_bounds_all_bounds_the_sets_of_a_higher_tau() -> None:
    lower = sets([4, 2], bounds=[7, 5], bound=9)
    known = best_known({0.1: lower, 0.2: sets([5, 3], "optimal")}, 2, "simultaneous")[0.1]
    assert (known.total, known.bound, known.status) == (8, 9, "feasible")
    assert [one.bound for one in known] == pytest.approx([6, 4])
    above = best_known({0.1: lower, 0.2: sets([6, 4], "optimal")}, 2, "simultaneous")[0.1]
    assert (above.total, above.bound) == (10, 10)


def test_by_the_smallest_what_is_worth_more_has_the_better_worst_set() -> None:
    lower = sets([9, 2], bounds=[9, 4], bound=4, aggregate="min")
    higher = sets([5, 3], "optimal", aggregate="min")
    known = best_known({0.1: lower, 0.2: higher}, 2, "simultaneous")[0.1]
    assert [one.quality for one in known] == [5, 3]
    assert (known.total, known.bound, known.status) == (3, 4, "feasible")
    assert [one.bound for one in known] == [9, 4]


def test_a_price_has_the_bounds_that_are_known() -> None:
    assert price_of(0.5, sets([4, 2], bounds=[5, math.inf])) == {
        "tau": 0.5,
        "qualities": [4, 2],
        "bounds": [5, None],
        "statuses": ["feasible"] * 2,
        "bound": None,
        "status": "feasible",
    }
