"""Alternatives by repair: every mask that PEFS draws differs from the given sets."""

import itertools
import re

import numpy as np
import pytest

from chaffinch.tasks.selection.alternatives.dissimilarity import dissimilarity
from chaffinch.tasks.selection.pefs.distance_constraint import Repair
from chaffinch.tasks.selection.pefs.distribution import sample
from chaffinch.tasks.selection.pefs.search import Rules, Search
from tests.selection.pefs.test_pefs_search import QUICK, prepared_of, rows_of

D = 12
SETS = [[0, 1, 2, 3, 4], [3, 4, 5, 6], [9]]


def apart(mask, kind):
    features = np.flatnonzero(mask).tolist()
    return min(dissimilarity(features, one, kind) for one in SETS)


@pytest.mark.parametrize("kind", ["dice", "jaccard"])
@pytest.mark.parametrize("tau", [0, 0.2, 0.5, 0.8, 1])
def test_whatever_is_drawn_is_far_enough_once_repaired_and_not_empty(tau, kind):
    random = np.random.default_rng(0)
    repair = Repair(D, SETS, tau, kind)
    for theta in (np.full(D, 0.5), np.full(D, 0.95), np.full(D, 0.05), random.random(D)):
        masks = sample(theta, 200, random)
        before = masks.copy()
        repaired = repair(masks, theta, random)
        assert (masks == before).all()
        for drawn, mask in zip(masks, repaired, strict=True):
            assert mask.any()
            assert apart(mask, kind) >= tau - 1e-9
            assert repair.is_far(mask)
            if repair.is_far(drawn) and drawn.any():
                assert (mask == drawn).all()  # nothing is mended that is right
            assert not (mask & ~drawn).any() or mask.sum() == 1


def test_what_leaves_is_what_the_distribution_would_not_have_kept():
    theta = np.full(D, 0.9)
    theta[:3] = 0.1
    repair = Repair(D, [[0, 1, 2, 3, 4, 5]], 0.5)
    masks = np.ones((500, D), dtype=bool)
    repaired = repair(masks, theta, np.random.default_rng(0))
    kept = repaired.mean(axis=0)
    assert kept[3:6].min() > kept[:3].max() + 0.3
    assert (kept[6:] == 1).all()
    final = repair.final(masks[0], theta)
    assert repair.is_far(final)
    assert not final[:3].all()
    assert final[3:].sum() >= final[:3].sum()


def test_the_most_probable_of_a_size_keep_apart_too():
    theta = np.linspace(0.9, 0.1, D)
    for tau in (0.3, 0.5, 1):
        repair = Repair(D, SETS, tau)
        mask = repair.most_probable(theta, 4)
        assert mask.sum() == 4
        assert apart(mask, "dice") >= tau - 1e-9
    assert np.flatnonzero(Repair(D, [[0, 1]], 0.5).most_probable(theta, 2)).tolist() == [0, 2]
    with pytest.raises(ValueError, match="n_features must be at most 4, of features that are"):
        Repair(D, SETS, 1).most_probable(theta, 5)


QUARTERS = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
PAIRS = [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("sets", "tau", "size"),
    [(QUARTERS, 0.3, 3), (QUARTERS, 0.3, None), (PAIRS, 0.6, 3), (PAIRS, 0.6, None)],
)
def test_sets_that_leave_no_feature_out_are_kept_apart_from_all_the_same(sets, tau, size):
    d = 1 + max(map(max, sets))
    repair, random = Repair(d, sets, tau, "dice", size), np.random.default_rng(0)

    def distance(mask):
        features = np.flatnonzero(mask).tolist()
        return min(dissimilarity(features, one, "dice") for one in sets)

    for theta in (np.full(d, 0.5), random.random(d)):
        for mask in repair(sample(theta, 100, random), theta, random):
            assert mask.any()
            assert distance(mask) >= tau - 1e-9
        final = repair.final(np.ones(d, dtype=bool), theta)
        assert final.any()
        assert distance(final) >= tau - 1e-9
        if size:
            chosen = repair.most_probable(theta, size)
            assert chosen.sum() == size
            assert distance(chosen) >= tau - 1e-9


@pytest.mark.parametrize("kind", ["dice", "jaccard"])
def test_no_mask_has_a_feature_that_is_the_same_in_all_rows_and_what_is_refused_is_impossible(kind):
    random, d, verdicts = np.random.default_rng(1), 6, set()
    for attempt in range(60):
        sets = [
            random.choice(d, random.integers(1, 4), replace=False).tolist()
            for _ in range(random.integers(1, 4))
        ]
        varying = random.random(d) < (0.6 if attempt % 2 else 1)
        tau, size = random.choice([0.3, 0.5, 0.75, 1.0]), int(random.integers(1, d + 1))
        every = [
            one
            for n in range(1, d + 1)
            for one in itertools.combinations(np.flatnonzero(varying).tolist(), n)
            if min(dissimilarity(one, other, kind) for other in sets) >= tau - 1e-9
        ]
        for asked, is_possible in (
            (None, bool(every)),
            (size, any(len(one) == size for one in every)),
        ):
            verdicts.add((asked is None, is_possible))
            if not is_possible:
                with pytest.raises(ValueError, match=r"lower tau") as refusal:
                    Repair(d, sets, tau, kind, asked, varying=varying)
                said = re.search(r"n_features must be at (most|least) (\d+)", str(refusal.value))
                assert bool(said) == bool(every)
                assert not said or int(said[2]) in {len(one) for one in every}
                continue
            repair, theta = Repair(d, sets, tau, kind, asked, varying=varying), random.random(d)
            made = [*repair(random.random((20, d)) < 0.5, theta, random)]
            made += [repair.final(np.ones(d, dtype=bool), theta)]
            made += [repair.final(np.zeros(d, dtype=bool), theta)]
            made += [repair.most_probable(theta, asked)] if asked else []
            for mask in made:
                features = tuple(np.flatnonzero(mask).tolist())
                assert features in every
    assert len(verdicts) == 4


def test_it_says_that_a_feature_would_have_to_vary():
    varying = np.array([True, True, True, False, False])
    with pytest.raises(ValueError, match=r"no set of the 3 features that vary is; lower tau, or"):
        Repair(5, [[0, 1], [2]], 1, varying=varying)
    with pytest.raises(ValueError, match=r"n_features must be at most 1, of features that vary"):
        Repair(5, [[0, 1]], 1, size=2, varying=varying)
    assert Repair(5, [[0, 1]], 1, size=3).most_probable(np.full(5, 0.5), 3).tolist() == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_where_one_by_one_leads_nowhere_the_whole_mask_is_chosen():
    # the most probable, 0, is in both sets and would leave but one more
    repair = Repair(5, [[0, 1, 2], [0, 3, 4]], 0.6)
    theta = np.array([0.9, 0.5, 0.4, 0.3, 0.2])
    assert np.flatnonzero(repair.most_probable(theta, 2)).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("kind", "tau", "size", "n_shared"),
    [
        ("dice", 0.7, None, 0),
        ("dice", 0.5, None, 1),
        ("dice", 0.7, 10, 1),  # .15 (10 + 3)
        ("jaccard", 0.9, None, 0),
        ("jaccard", 0.7, None, 1),  # two sets of three that share one are 1 - 1/5 apart
    ],
)
def test_a_larger_mask_makes_no_room_for_more_of_a_given_set(kind, tau, size, n_shared):
    shared = [3, 7, 11]
    repair = Repair(30, [shared], tau, kind, size)
    drawn, theta = np.ones((20, 30), dtype=bool), np.full(30, 0.5)
    for mask in repair(drawn, theta, np.random.default_rng(0)):
        assert mask[shared].sum() == n_shared


def test_features_that_tell_nothing_are_not_kept_for_the_sake_of_shared_ones():
    rows = rows_of(n=4000, d=24)
    repair = Repair(24, [[3, 5, 7]], 0.7)
    search = Search(
        prepared_of(rows), Rules(penalty=0.1, most_sweeps=12, **QUICK), 0, repair=repair
    )
    search.run()
    kept = repair.final(search.sweeps[-1].mask, search.probabilities)
    assert np.flatnonzero(kept).tolist() == [0]


def test_every_mask_that_a_search_draws_is_far_enough():
    given = [[0, 3, 5, 7]]
    repair, drawn = Repair(10, given, 0.6), []

    def watched(masks, theta, random):
        drawn.append(repair(masks, theta, random))
        return drawn[-1]

    search = Search(prepared_of(rows_of()), Rules(penalty=0.05, **QUICK), 0, repair=watched)
    search.run()
    masks = np.concatenate(drawn)
    assert len(masks) == 2 * search.training.step
    for mask in np.unique(masks, axis=0):
        assert dissimilarity(np.flatnonzero(mask).tolist(), given[0], "dice") >= 0.6 - 1e-9


@pytest.mark.parametrize(
    ("sets", "tau", "said"),
    [
        ([[0], []], 0.5, "previous set 2 is empty; leave it out"),
        ([[0, 12]], 0.5, r"features in 0..11 but set 1 is \[0, 12\]"),
        ([[0]], 1.5, r"tau must be in 0..1 but is 1.5"),
        ([list(range(6)), list(range(6, 12))], 1, "must leave one that is tau 1 from all 2"),
    ],
)
def test_what_cannot_be_repaired_is_refused(sets, tau, said):
    with pytest.raises(ValueError, match=said):
        Repair(D, sets, tau)
    with pytest.raises(ValueError, match="dissimilarity must be"):
        Repair(D, [[0]], 0.5, "cosine")
