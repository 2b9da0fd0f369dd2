"""The authors' own synthetic run, to the last mask; over seeds it is `make reproduce`."""

from __future__ import annotations

import numpy as np
import pytest

from chaffinch.tasks.selection.losses import Loss
from tests.benchmarks.papers.gbmo import (
    N_INFORMATIVE,
    SLACKS,
    cut_synthetic,
    equation_22,
    learner,
    walk,
)


@pytest.fixture(scope="module")
def authors_seed():
    X, y = equation_22(42)
    parts = cut_synthetic(X, y, 42)
    model = learner().tuned(parts.train, 42)
    return model, parts, walk(learner(), model, parts.mask_validation)


def test_equation_22_at_the_authors_seed_gives_the_authors_masks(authors_seed) -> None:
    _, _, path = authors_seed
    assert [path.gbmo(slack).sum() for slack in SLACKS] == [31, 19, 10, 9]
    # Table 2: the ten informative features and no redundant one
    assert path.gbmo(0.02).tolist() == [True] * N_INFORMATIVE + [False] * 90
    assert path.flbmo(N_INFORMATIVE).tolist() == [True] * N_INFORMATIVE + [False] * 90


def test_the_walk_is_that_of_one_predict_per_feature(authors_seed) -> None:
    """Algorithm 1 written out plainly: a copy of the rows and one predict for every feature."""
    model, parts, path = authors_seed
    X, y = parts.mask_validation.X.copy(), parts.mask_validation.y
    loss = Loss("squared_error", "regression")
    kept, removed, losses = list(range(X.shape[1])), [], []
    while len(kept) > 1:
        candidates = []
        for j in kept:
            masked = X.copy()
            masked[:, j] = 0.0
            candidates.append(loss(y, model.predict(masked)))
        best = int(np.argmin(candidates))
        losses.append(candidates[best])
        X[:, kept[best]] = 0.0
        removed.append(kept.pop(best))
    assert path.removed == tuple(removed)
    np.testing.assert_allclose(path.losses, losses, rtol=1e-12)
