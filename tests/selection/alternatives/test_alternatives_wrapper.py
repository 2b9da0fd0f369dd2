"""Hill climbing by swaps: the paper's algorithm as a plain loop, and masked losses as a quality."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestRegressor

import chaffinch
from chaffinch.tasks.selection.alternatives.exact.best_sets import Limits
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.hill_climbing import MaskedLossQuality, Wrapper
from chaffinch.tasks.selection.constraints import Constraints
from tests.selection.alternatives import exhaustive


def climbed(score, n, k, allowed, max_steps):
    """Algorithm 1, with every set tried in place of a solver."""
    sets = [one for one in itertools.combinations(range(n), k) if allowed(one)]
    if not sets:
        return None
    best, steps, j1, j2 = sets[0], 1, 0, 1
    while steps < max_steps and j1 < n - 1:
        turned = [one for one in sets if all((j in one) != (j in best) for j in (j1, j2))]
        nearest = min(turned, key=lambda one: (len({*best} - {*one}), one), default=None)
        steps += 1
        if nearest is not None and score(nearest) > score(best):
            best, j1, j2 = nearest, 0, 1
        elif j2 < n - 1:
            j2 += 1
        else:
            j1 += 1
            j2 = j1 + 1
    return best


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_it_climbs_as_the_paper_does(data):
    n = data.draw(st.integers(1, 7))
    k = data.draw(st.integers(1, n))
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    worth = {one: random.random() for one in itertools.combinations(range(n), k)}
    limits = data.draw(exhaustive.limits(n, k))
    rules = data.draw(exhaustive.constraints(n, k))
    max_steps = data.draw(st.integers(1, 40))

    def allowed(one):
        shared = limits.sets[:, list(one)].sum(axis=1)
        return exhaustive.obeys(one, rules) and (shared <= limits.at_most).all()

    wrapper = Wrapper(worth.__getitem__, n, max_steps=max_steps)
    found = wrapper.climb(k, limits=limits, constraints=rules)
    assert found.indices == climbed(worth.__getitem__, n, k, allowed, max_steps)


def test_a_set_that_is_worth_the_same_takes_no_place():
    """In Algorithm 1 a set has to be worth more; else the climb wanders on."""
    found = Wrapper(lambda _: 1.0, 5).climb(2, limits=Limits.none(5), constraints=Constraints())
    assert found.indices == (0, 1)  # the first


def test_a_set_is_scored_once_whatever_is_searched_for():
    asked = []

    def score(features):
        asked.append(features)
        return float(np.sin(features).sum())

    wrapper = Wrapper(score, 8)
    for n_alternatives in (0, 2):
        find_alternatives(wrapper, k=3, n_alternatives=n_alternatives, tau=0.5)
    assert len(asked) == len(set(asked)) > 10


def test_what_is_found_is_no_proof():
    found = find_alternatives(Wrapper(sum, 6, names=list("abcdef")), k=2, n_alternatives=1, tau=1)
    assert [one.features for one in found] == [("e", "f"), ("c", "d")]
    assert [one.status for one in found] == ["feasible"] * 2
    assert found.status == "feasible"
    assert found.bound == found.gap == np.inf
    too_many = find_alternatives(Wrapper(sum, 3), k=2, n_alternatives=1, tau=1)
    assert (len(too_many), too_many.status) == (1, "infeasible")


def test_one_set_at_least_is_scored_however_late_it_is():
    found = find_alternatives(Wrapper(sum, 50), k=5, n_alternatives=0, tau=1, time_limit=1e-9)
    assert found[0].indices == (0, 1, 2, 3, 4)


@pytest.mark.parametrize("score", [np.nan, np.inf, 1e308, None, "1", 1j])
def test_a_score_that_is_no_number_or_too_large_is_refused_in_one_line(score):
    with pytest.raises(ValueError, match=r"^score must be a number, at most 1e\+300 .*") as error:
        find_alternatives(Wrapper(lambda features: score, 3), k=1, n_alternatives=0, tau=1)
    message = str(error.value)
    assert message.endswith(f"set that is not to be, but is {score!r} for the features (0,)")
    assert "\n" not in message


def test_what_the_score_itself_raises_is_not_hidden():
    def score(features):
        raise TypeError("of the user's own")

    with pytest.raises(TypeError, match="of the user's own"):
        find_alternatives(Wrapper(score, 3), k=1, n_alternatives=0, tau=1)


def test_a_set_that_is_worth_less_than_anything_is_not_there():
    def score(features):
        return -np.inf if 0 in features else float(sum(features))

    found = find_alternatives(Wrapper(score, 5), k=2, n_alternatives=0, tau=1)
    assert [one.indices for one in found] == [(3, 4)]
    none = find_alternatives(Wrapper(lambda _: -np.inf, 5), k=2, n_alternatives=1, tau=1)
    assert (len(none), none.status) == (0, "not_solved")
    assert (none.total, none.bound) == (-np.inf, np.inf)
    rules = Constraints(max_sets_per_feature=1)
    some = find_alternatives(Wrapper(score, 5), k=2, n_alternatives=2, tau=1 / 2, constraints=rules)
    assert [one.indices for one in some] == [(3, 4), (1, 2)]
    assert (some.total, some.status) == (10.0, "infeasible")


@pytest.fixture(scope="module")
def engine():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 8))
    X[:, 4:] = X[:, :4] + 0.3 * random.normal(size=(300, 4))
    y = X[:, 0] + 2 * X[:, 1] + X[:, 2] * X[:, 3]
    forest = RandomForestRegressor(20, random_state=0).fit(X[:200], y[:200])
    return chaffinch.masked_loss(forest, X[200:], y[200:], loss="squared_error", baseline="mean")


def test_the_quality_of_a_set_is_less_the_loss_with_all_but_the_set_masked(engine):
    quality = MaskedLossQuality(engine)
    mask = np.zeros((1, 8), dtype=bool)
    mask[0, [1, 3, 4]] = True
    assert quality.value((4, 1, 3)) == -engine(mask)[0]
    found = find_alternatives(quality, k=3, n_alternatives=2, tau=1 / 3)
    others = [quality.value(one) for one in itertools.combinations(range(8), 3)]
    assert found[0].quality > np.quantile(others, 0.9)
    for place, one in enumerate(found):
        before = [other.indices for other in found[:place]]
        assert exhaustive.are_apart(one.indices, before, 1 / 3, "dice")


def test_a_search_changes_nothing_about_the_engine(engine):
    before = engine.loss
    find_alternatives(MaskedLossQuality(engine), k=2, n_alternatives=1, tau=1)
    assert engine.mask.all()
    assert engine.loss == before


def test_only_what_may_be_turned_round_is():
    wrapper = Wrapper(sum, 5)
    rules = Constraints(must_include=[0], must_exclude=[4]).checked(5, 2, 1)
    assert wrapper.climb(2, limits=Limits.none(5), constraints=rules).indices == (0, 3)
