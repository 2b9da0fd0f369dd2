"""Boruta's tests of hits, by answers known by hand, and the shuffled copies it compares with."""

import numpy as np
import pytest
from scipy.stats import binomtest

from chaffinch.tasks.selection.baselines.shadows import ROUNDS_AT_ONCE, confirm, with_shadows
from chaffinch.tasks.selection.core import Rows, Schema


def hits_by(chances, asked):
    """Return hits with these chances, and note what is asked for."""

    def hits(mask, rounds):
        asked.append((mask.tolist(), [*rounds]))
        drawn = [np.random.default_rng(number).random(len(mask)) for number in rounds]
        return np.array(drawn)[:, mask] < np.array(chances)[mask]

    return hits


def test_what_always_has_a_hit_is_confirmed_and_what_never_has_leaves() -> None:
    asked = []
    found = confirm(hits_by([1.0, 0.0, 0.5], asked), 3, rounds=20, alpha=0.05)
    assert found.confirmed.tolist() == [True, False, False]
    assert found.tentative.tolist() == [False, False, True]
    assert found.shares[:2].tolist() == [1.0, 0.0]
    # 2^-5 > 0.05 / 3 > 2^-10: decided after ten rounds, no earlier
    masks, rounds = zip(*asked, strict=True)
    assert list(masks) == [[True] * 3] * 2 + [[True, False, True]] * 2
    assert [number for numbers in rounds for number in numbers] == [*range(20)]
    assert {len(numbers) for numbers in rounds} == {ROUNDS_AT_ONCE}


@pytest.mark.parametrize("rounds", [5, 10, 35, 100])
def test_the_tests_are_binomial_with_bonferronis_rule(rounds) -> None:
    chances, asked = np.linspace(0, 1, 11), []
    found = confirm(hits_by(chances, asked), 11, rounds=rounds, alpha=0.2)
    drawn = np.array([np.random.default_rng(n).random(11) < chances for n in range(rounds)])
    for j in range(11):
        confirmed = rejected = False
        for n in range(ROUNDS_AT_ONCE, rounds + 1, ROUNDS_AT_ONCE):
            n_hits = int(drawn[:n, j].sum())
            confirmed = binomtest(n_hits, n, alternative="greater").pvalue <= 0.2 / 11
            rejected = binomtest(n_hits, n, alternative="less").pvalue <= 0.2 / 11
            if confirmed or rejected:
                break
        assert (found.confirmed[j], found.tentative[j]) == (
            confirmed,
            not confirmed and not rejected,
        )
        assert found.shares[j] == pytest.approx(n_hits / n)
    order = np.lexsort((found.confirmed, found.shares))
    decided = found.confirmed * 2 + found.tentative
    assert (np.diff(decided[order]) >= 0).all()  # by their shares too


def test_what_is_to_be_kept_is_never_rejected_and_asks_for_no_rounds_of_its_own() -> None:
    asked = []
    found = confirm(hits_by([0.0, 1.0, 0.0], asked), 3, rounds=100, alpha=0.05, keep=[0])
    assert len(asked) == 2
    assert (found.confirmed.tolist(), found.tentative.tolist()) == (
        [False, True, False],
        [True, False, False],
    )


@pytest.mark.parametrize("k", [1, 2, 7])
def test_copies_are_shuffled_columns_five_at_least_and_have_names_of_their_own(k) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(50, k))
    X[::7, 0] = np.nan
    names = ("a shuffled0", *(f"b{j}" for j in range(k - 1)))
    rows, schema = Rows(X, X[:, 0], np.ones(50)), Schema(names, (0, *(3,) * (k - 1)), 2)
    extended, of_all = with_shadows(rows, schema, random)
    n = max(k, 5)
    assert extended.X.shape == (50, k + n)
    np.testing.assert_array_equal(extended.X[:, :k], X)
    for place in range(n):
        original, copy = X[:, place % k], extended.X[:, k + place]
        assert not np.array_equal(copy, original, equal_nan=True)
        np.testing.assert_array_equal(np.sort(copy), np.sort(original))
        assert of_all.n_categories[k + place] == schema.n_categories[place % k]
    assert len(set(of_all.features)) == k + n
    assert (extended.weight == 1).all()
