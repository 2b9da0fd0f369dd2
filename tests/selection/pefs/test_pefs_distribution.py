"""The distribution of masks of PEFS: its steps by hand, and what it is a case of."""

import numpy as np
import pytest

from chaffinch.tasks.selection.pefs import distribution
from chaffinch.tasks.selection.pefs.distribution import entropy, jaccard, margin, moved, sample


def utilities(losses):
    return distribution.utilities(np.array(losses, dtype=np.float64))


@pytest.mark.parametrize(
    ("losses", "worth"),
    [
        ([0.3, 0.1], [-1, 1]),
        ([0.1, 0.3], [1, -1]),
        ([0.2, 0.2], [0, 0]),  # a tie moves nothing
        ([0.3, 0.1, 0.2], [-1, 1, 0]),
        ([5, 4, 3, 2, 1], [-1, -1, 0, 1, 1]),  # a quarter is rounded up
        ([8, 1, 7, 2, 6, 3, 5, 4], [-1, 1, -1, 1, 0, 0, 0, 0]),
        ([1, 2, 2, 2, 3, 4, 5, 5], [1, 1 / 3, 1 / 3, 1 / 3, 0, 0, -1, -1]),
        ([1, 2, 3, 4, 5, 6, 6, 6], [1, 1, 0, 0, 0, -2 / 3, -2 / 3, -2 / 3]),
        ([1] * 8, [0] * 8),
    ],
)
def test_the_best_quarter_is_worth_1_the_worst_less_1_and_ties_share(losses, worth):
    assert utilities(losses).tolist() == pytest.approx(worth)


def none_of(theta):
    return np.zeros(len(theta), dtype=bool)


def test_a_step_of_two_samples_by_hand():
    theta = np.array([0.5, 0.5, 0.3, 0.7, 0.7])
    masks = np.array([[1, 0, 1, 1, 1], [0, 1, 1, 1, 0]], dtype=bool)
    fixed = np.array([0, 0, 0, 0, 1], dtype=bool)
    after = moved(theta, masks, utilities([0.1, 0.2]), fixed, penalty=0.1, rate=0.25)
    # 1/2 (1 - 1/2) - 1/2 (0 - 1/2) = 1/2 where the winner alone has it; 0 where both have it
    by_hand = [
        0.5 + 0.25 * (0.5 - 0.1 * 0.25),
        0.5 + 0.25 * (-0.5 - 0.1 * 0.25),
        0.3 - 0.25 * 0.1 * 0.21,
        0.7 - 0.25 * 0.1 * 0.21,
        0.7,
    ]
    assert after == pytest.approx(by_hand)


def test_a_step_of_eight_samples_by_hand():
    theta = np.array([0.5, 0.4])
    masks = np.array([[1, 1], [1, 0], [0, 0], [0, 1], [1, 1], [1, 1], [1, 0], [0, 0]], dtype=bool)
    worth = utilities([1, 2, 8, 7, 3, 4, 5, 6])  # the first two are the best, the next the worst
    after = moved(theta, masks, worth, none_of(theta), penalty=0.04, rate=0.5)
    # feature 0: (1 + 1 - 0 - 0) / 8; feature 1: (1 + 0 - 0 - 1) / 8
    by_hand = [0.5 + 0.5 * (2 / 8 - 0.04 * 0.25), 0.4 + 0.5 * (0 - 0.04 * 0.24)]
    assert after == pytest.approx(by_hand)


def test_a_tie_leaves_the_penalty_alone():
    theta = np.array([0.5, 0.4])
    masks, worth = np.array([[1, 0], [0, 1]], dtype=bool), utilities([0.7, 0.7])
    after = moved(theta, masks, worth, none_of(theta), penalty=0.2, rate=0.1)
    assert after == pytest.approx(theta - 0.1 * 0.2 * theta * (1 - theta))
    unmoved = moved(theta, masks, worth, none_of(theta), penalty=0.0, rate=0.1)
    assert unmoved == pytest.approx(theta)


@pytest.mark.parametrize("seed", range(5))
def test_without_penalty_two_samples_are_the_compact_genetic_algorithm(seed):
    """Harik, Lobo and Goldberg (1999): where winner and loser differ, 1/n towards the winner."""
    d, population = 12, 40
    drawn, random = np.random.default_rng(seed), np.random.default_rng(seed + 100)
    theta = compact = np.full(d, 0.5)
    for _ in range(200):
        masks = sample(theta, 2, drawn)
        losses = random.random(2)
        worth = utilities(losses)
        theta = moved(theta, masks, worth, none_of(theta), penalty=0.0, rate=2 / population)
        winner, loser = masks[np.argsort(losses)]
        following = compact.copy()
        for j in range(d):
            if winner[j] != loser[j]:
                following[j] += 1 / population if winner[j] else -1 / population
        compact = np.clip(following, 1 / d, 1 - 1 / d)
        assert theta == pytest.approx(compact)


def test_probabilities_stay_within_their_margins_and_two_features_can_move():
    theta = np.array([0.3, 0.7, 0.5, 0.7])
    masks = np.array([[0, 1, 1, 1], [1, 0, 1, 0]], dtype=bool)
    fixed = np.array([0, 0, 0, 1], dtype=bool)
    after = moved(theta, masks, utilities([0.1, 0.2]), fixed, penalty=0.0, rate=1.0)
    assert after.tolist() == [0.25, 0.75, 0.5, 0.7]
    assert theta.tolist() == [0.3, 0.7, 0.5, 0.7]
    assert [margin(d) for d in (2, 3, 10)] == [1 / 3, 1 / 3, 0.1]


def test_masks_are_drawn_as_probable_as_they_are_and_by_the_seed_alone():
    theta = np.array([0, 0.2, 0.9, 1])
    masks = sample(theta, 20_000, np.random.default_rng(3))
    assert masks.mean(axis=0) == pytest.approx(theta, abs=0.01)
    assert (sample(theta, 20_000, np.random.default_rng(3)) == masks).all()


def test_entropy_is_in_bits_and_the_index_is_jaccards():
    assert entropy(np.array([0.5, 0.5])) == 1
    assert entropy(np.array([0.0, 1.0])) == 0
    assert entropy(np.array([0.25, 1.0])) == pytest.approx(0.8112781 / 2)
    one, other = np.array([1, 1, 0, 0], bool), np.array([1, 0, 1, 0], bool)
    assert jaccard(one, other) == pytest.approx(1 / 3)
    assert jaccard(one, one) == jaccard(one & ~one, one & ~one) == 1
