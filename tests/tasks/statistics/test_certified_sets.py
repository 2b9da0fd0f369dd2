"""Which claims about sets are made, and how often a false one is."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from chaffinch.tasks.statistics.certified_sets import Claim, claims_in_order, share_lost
from chaffinch.tasks.statistics.verdict import Judgement

LOST = Judgement(
    0.3, (-0.1, 0.2), 0.95, 100, "cannot tell", 2.0, (-2, -1), (-2, -1), 0.02, 0.03, None
)
GOOD = replace(LOST, verdict="as good with fewer columns", share_lost_at_most=0.01)
BETTER = replace(LOST, verdict="better", share_lost_at_most=-0.1)


def claim(*judgements: Judgement, tau: float = 0.5) -> Claim:
    return Claim(tau, tuple(range(len(judgements))), judgements)


@pytest.mark.parametrize(
    ("judgements", "is_shown"),
    [
        ((GOOD, BETTER), True),
        ((GOOD, LOST), False),
        ((replace(LOST, verdict="worse"),), False),
    ],
)
def test_a_claim_is_shown_where_each_of_its_sets_is(judgements, is_shown) -> None:
    assert claim(*judgements).is_shown == is_shown


def test_the_bound_of_all_is_the_highest_and_none_where_one_is_unknown() -> None:
    assert claim(GOOD, BETTER, LOST).share_lost_at_most == 0.03
    assert claim(GOOD, replace(LOST, share_lost_at_most=None)).share_lost_at_most is None


def test_nothing_is_tested_after_the_first_claim_that_is_not_shown() -> None:
    claims = iter([claim(GOOD), claim(BETTER), claim(LOST), claim(GOOD)])
    assert [one.is_shown for one in claims_in_order(claims)] == [True, True, False]
    assert next(claims).is_shown  # not asked for
    assert claims_in_order([]) == []


@pytest.mark.parametrize(
    ("constant", "of_all", "share"), [(2.0, 1.0, 0.3), (3.0, 1.0, 0.15), (1.0, 1.0, None)]
)
def test_the_share_lost_is_of_what_all_features_explain(constant, of_all, share) -> None:
    assert share_lost(replace(LOST, constant_loss=constant), of_all) == share


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize("n_false", [1, 3])
def test_one_false_claim_in_twenty_at_most_without_any_correction(correlation, n_false) -> None:
    """Five taus of three sets, of which some lose exactly what is tolerated, others nothing."""
    random = np.random.default_rng(0)
    n_trials, shape = 4_000, (5, 3)
    is_false = np.arange(3) < n_false
    level = stats.norm.ppf(0.95)
    made = 0
    for _ in range(n_trials):
        shared, own = random.normal(size=()), random.normal(size=shape)
        errors = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
        is_within = errors + np.where(is_false, 0, -5.0) + level <= 0
        claims = [claim(*(GOOD if one else LOST for one in sets)) for sets in is_within]
        made += claims_in_order(claims)[0].is_shown
    assert made <= stats.binom.ppf(0.999, n_trials, 0.05)
    assert (n_false > 1) or made > 0.8 * 0.05 * n_trials  # the level is used in full
