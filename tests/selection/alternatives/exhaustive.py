"""Feature sets by trying every one: what the searches for alternatives are held against."""

import itertools
import math

import numpy as np
from hypothesis import strategies as st

from chaffinch.tasks.selection.alternatives.dissimilarity import dissimilarity
from chaffinch.tasks.selection.alternatives.exact.best_sets import Limits
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.constraints import Constraints, Group

ROUNDING = 1e-9


def obeys(features, constraints, rounding=ROUNDING):
    """Return whether indices obey constraints of indices, in the words of their documentation."""
    kept = set(features)
    for group in constraints.groups:
        n_kept = len(kept & set(group.features))
        most = len(group.features) if group.at_most is None else group.at_most
        if not group.at_least <= n_kept <= most:
            return False
        if group.all_or_none and n_kept not in (0, len(group.features)):
            return False
    if constraints.budget is not None:
        shared = [group.cost for group in constraints.groups if kept & set(group.features)]
        spent = math.fsum([*(constraints.costs[j] for j in features), *shared])
        if spent > constraints.budget + rounding:
            return False
    return kept >= set(constraints.must_include) and not kept & set(constraints.must_exclude)


def every_set(form, k, limits, constraints):
    """Return what each allowed set is worth, by the set."""
    worth = {}
    for features in itertools.combinations(range(len(form.gains)), k):
        shared = limits.sets[:, list(features)].sum(axis=1)
        if obeys(features, constraints) and (shared <= limits.at_most).all():
            value = form.value(features)
            if value > -math.inf:
                worth[features] = value
    return worth


def first_of_the_best(worth):
    """Return the best of sets; of those that are worth the same the first as a word."""
    best = max(worth.values())
    return min(features for features, value in worth.items() if value >= best - ROUNDING)


def are_apart(features, others, tau, kind):
    return all(dissimilarity(features, other, kind) >= tau - ROUNDING for other in others)


def one_by_one(quality, sizes, tau, kind, previous=(), constraints=None):
    """Return the best set for each size beside all before it, for as long as there is one."""
    constraints = constraints or Constraints()
    found = []
    for k in sizes:
        used = [feature for features in found for feature in features]
        most = constraints.max_sets_per_feature or math.inf
        worth = {
            features: quality.value(features)
            for features in itertools.combinations(range(quality.n_features), k)
            if are_apart(features, [*previous, *found], tau, kind)
            and obeys(features, constraints)
            and all(used.count(feature) < most for feature in features)
        }
        worth = {features: value for features, value in worth.items() if value > -math.inf}
        if not worth:
            break
        found.append(first_of_the_best(worth))
    return found


@st.composite
def numbers(draw, size):
    """Draw numbers, many of which are equal, or all of which differ."""
    seed, are_few = draw(st.integers(0, 2**32 - 1)), draw(st.booleans())
    random = np.random.default_rng(seed)
    return random.integers(-2, 6, size).astype(float) if are_few else random.normal(size=size)


@st.composite
def forms(draw, n):
    """Draw gains and, often, pair costs, some of which are infinite."""
    gains = draw(numbers(n))
    if draw(st.booleans()):
        return Form(gains)
    costs = np.triu(draw(numbers((n, n))), 1)
    if draw(st.booleans()):
        random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        costs[np.triu(random.random((n, n)) < 0.25, 1)] = math.inf
    return Form(gains, costs + costs.T)


@st.composite
def limits(draw, n, k):
    sets = draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), max_size=4))
    at_most = [draw(st.integers(0, k)) for _ in sets]
    return Limits(np.array(sets, dtype=bool).reshape(-1, n), np.array(at_most, dtype=np.int64))


@st.composite
def constraints(draw, n, k):
    """Draw constraints, none of which is impossible by itself."""
    order = draw(st.permutations(range(n)))
    n_in = draw(st.integers(0, min(k, 2)))
    n_out = draw(st.integers(0, min(n - k, 3)))
    groups = []
    for _ in range(draw(st.integers(0, 2))):
        features = draw(st.lists(st.integers(0, n - 1), min_size=1, unique=True))
        at_least = draw(st.integers(0, min(k, len(features), 2)))
        at_most = draw(st.none() | st.integers(at_least, len(features)))
        groups.append(Group(features, at_least, at_most, draw(st.booleans())))
    has_costs = draw(st.booleans())
    return Constraints(
        must_include=order[:n_in],
        must_exclude=order[n - n_out :],
        groups=groups,
        costs=[draw(st.integers(0, 4)) / 10 for _ in range(n)] if has_costs else None,
        budget=draw(st.integers(1, 12)) / 10 if has_costs else None,
    ).checked(n, k, 1)
