"""Exact searches against trying everything, on many small problems with many ties.

Every quality, aggregate, dissimilarity and kind of constraint, by the public call.
"""

from __future__ import annotations

import math
from contextlib import suppress
from itertools import combinations

import numpy as np
import pytest

import chaffinch
from chaffinch.tasks.selection.alternatives.exact import price_and_enumerate
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Univariate
from chaffinch.tasks.selection.constraints import Constraints, Group
from tests.selection.alternatives.exhaustive import are_apart, obeys

ROUNDING = 1e-9
A_BLOCK = 250  # problems of a seed
# all searches; prices without the search by features; prices on the sets that are left; and
# integer programs in place of the branch and bound among known sets
NO_FEATURES = {"feature_by_feature": lambda *_: None}
WAYS = (
    {},
    NO_FEATURES,
    NO_FEATURES | {"_WORK_BEFORE_SHARPENING": 0},
    NO_FEATURES | {"_WORK_BEFORE_SHARPENING": 0, "_WORK_AT_FIRST": 0},
)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(len(WAYS)))
def test_nothing_is_better_than_what_is_called_optimal(seed, monkeypatch) -> None:
    sweep(seed, monkeypatch)


@pytest.mark.e2e
@pytest.mark.parametrize("seed", range(100, 116))
def test_nothing_is_better_on_four_thousand_problems(seed, monkeypatch) -> None:
    sweep(seed, monkeypatch)


def sweep(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in WAYS[seed % len(WAYS)].items():
        monkeypatch.setattr(price_and_enumerate, name, value)
    for number in range(A_BLOCK):
        random = np.random.default_rng([seed, number])
        quality, asked = a_problem(random)
        found = chaffinch.find_alternatives(quality, **asked)
        by_trying = one_after_another if asked["search"] == "sequential" else at_once
        by_trying(quality, found, asked, (seed, number, asked))


def a_problem(random):
    """Draw a quality of few features and what is asked for."""
    n = int(random.integers(3, 8))
    k = int(random.integers(1, min(n, 4) + 1))
    numbers = random.random(n), random.random((n, n))
    if random.random() < 0.5:  # many ties
        numbers = random.integers(0, 5, n) / 10, random.integers(0, 4, (n, n)) / 10
    relevance, redundancy = numbers
    kind = (Univariate, FCBF, MRMR, CFS)[random.integers(4)]
    quality = kind(relevance - 0.2) if kind is Univariate else kind(relevance, redundancy)
    search = "sequential" if random.random() < 0.3 else "simultaneous"
    asked = {
        "k": k,
        "n_alternatives": int(random.integers(0, 4)),
        "tau": float(random.choice([0.2, 0.4, 0.5, 0.7, 1.0])),
        "dissimilarity": str(random.choice(["dice", "jaccard"])),
        "search": search,
        "previous": [random.permutation(n)[:k].tolist() for _ in range(random.integers(0, 3) // 2)],
    }
    if search == "simultaneous":
        asked["aggregate"] = str(random.choice(["sum", "min"]))
    if random.random() < 0.6:
        rules = some_constraints(random, n, k)
        with suppress(ValueError):  # no set at all
            rules.checked(n, k, 1 + asked["n_alternatives"])
            asked["constraints"] = rules
    return quality, asked


def some_constraints(random, n, k) -> Constraints:
    """Draw constraints of one or more kinds; they may leave no set."""
    order, drawn = random.permutation(n).tolist(), random.random(5) < 0.35
    features = order[1 : int(random.integers(2, n))] or order[:1]
    group = (
        Group(features, at_least=int(random.integers(0, 2))),
        Group(features, at_most=int(random.integers(1, 3))),
        Group(features[:k], all_or_none=True),
    )[random.integers(3)]
    costs = (random.integers(0, 4, n) / 10).tolist()
    return Constraints(
        must_include=order[:1] if drawn[0] else [],
        must_exclude=order[-1:] if drawn[1] else [],
        groups=[group] if drawn[2] else [],
        costs=costs if drawn[3] else None,
        budget=float(random.integers(1, 10)) / 10 if drawn[3] else None,
        max_sets_per_feature=int(random.integers(1, 4)) if drawn[4] else None,
    )


def allowed_sets(quality, asked):
    """Return the worth of each set that constraints and earlier sets allow."""
    n, tau, kind = quality.n_features, asked["tau"], asked["dissimilarity"]
    rules = asked.get("constraints", Constraints())
    worth = {
        features: quality.value(features)
        for features in combinations(range(n), asked["k"])
        if obeys(features, rules) and are_apart(features, asked["previous"], tau, kind)
    }
    return {features: value for features, value in worth.items() if value > -math.inf}


def one_after_another(quality, found, asked, which) -> None:
    """Compare with the first of the best sets, one at a time."""
    worth, tau, kind = allowed_sets(quality, asked), asked["tau"], asked["dissimilarity"]
    most = asked.get("constraints", Constraints()).max_sets_per_feature or math.inf
    uses = np.zeros(quality.n_features)
    for place in range(1 + asked["n_alternatives"]):
        before = [one.indices for one in found[:place]]
        left = {
            features: value
            for features, value in worth.items()
            if are_apart(features, before, tau, kind) and (uses[list(features)] < most).all()
        }
        if not left:
            assert (len(found), found.status) == (place, "infeasible"), which
            return
        best = max(left.values())
        first = min(one for one, value in left.items() if value >= best - ROUNDING)
        assert (found[place].indices, found[place].status) == (first, "optimal"), which
        assert found[place].quality == pytest.approx(best, abs=ROUNDING), which
        uses[list(first)] += 1
    assert found.status == "optimal", which


def at_once(quality, found, asked, which) -> None:
    """Compare with the best of all designs."""
    worth, n_sets = allowed_sets(quality, asked), 1 + asked["n_alternatives"]
    tau, kind = asked["tau"], asked["dissimilarity"]
    most = asked.get("constraints", Constraints()).max_sets_per_feature or n_sets
    sets = list(worth)
    best = best_of_designs(sets, list(worth.values()), n_sets, tau, kind, most, asked["aggregate"])
    if best == -math.inf:
        assert (len(found), found.status) == (0, "infeasible"), which
        return
    assert found.status == "optimal", which
    assert found.total == pytest.approx(best, abs=ROUNDING), which
    assert found.total <= found.bound <= best + ROUNDING, which
    chosen = [one.indices for one in found]
    assert len(chosen) == n_sets, which
    assert all(one in worth for one in chosen), which
    assert all(are_apart(one, [other], tau, kind) for one, other in combinations(chosen, 2)), which
    assert np.bincount(np.ravel(chosen)).max() <= most, which


def best_of_designs(sets, values, n_sets, tau, kind, most, aggregate) -> float:
    """Return the worth of the best design, -inf without one, by all cliques of sets."""
    go_together = [
        {j for j in range(i) if are_apart(sets[i], [sets[j]], tau, kind)} for i in range(len(sets))
    ]
    best = -math.inf

    def extend(chosen, candidates) -> None:
        nonlocal best
        if len(chosen) == n_sets:
            uses = np.bincount(np.ravel([sets[i] for i in chosen]))
            if most >= n_sets or uses.max() <= most:
                of_sets = [values[i] for i in chosen]
                best = max(best, min(of_sets) if aggregate == "min" else math.fsum(of_sets))
            return
        for i in candidates:
            extend([*chosen, i], candidates & go_together[i])

    extend([], set(range(len(sets))))
    return best
