"""Alternatives by repair: every mask that PEFS draws differs from the given sets."""

import numpy as np
import pytest

from chaffinch.tasks.selection.alternatives.dissimilarity import dissimilarity
from chaffinch.tasks.selection.pefs.distribution import sample
from chaffinch.tasks.selection.pefs.repair import Repair
from chaffinch.tasks.selection.pefs.search import Rules, Search
from tests.selection.test_pefs_search import QUICK, prepared_of, rows_of

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
        (
            [list(range(6)), list(range(6, 12))],
            1,
            "must leave one that is tau 1 from all 2 of them",
        ),
    ],
)
def test_what_cannot_be_repaired_is_refused(sets, tau, said):
    with pytest.raises(ValueError, match=said):
        Repair(D, sets, tau)
    with pytest.raises(ValueError, match="dissimilarity must be"):
        Repair(D, [[0]], 0.5, "cosine")
