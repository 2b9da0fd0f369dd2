"""Several sets at once by CFS where not all can be listed; where they can, see the sweep."""

import numpy as np
import pytest

from chaffinch.tasks.selection.alternatives import cfs_designs
from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import CFS


def cfs(n: int, seed: int) -> CFS:
    random = np.random.default_rng(seed)
    return CFS(random.uniform(size=n) ** 2, random.uniform(size=(n, n)))


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_where_too_many_sets_are_to_be_listed_there_is_a_bound(aggregate, monkeypatch) -> None:
    quality = cfs(14, 0)
    asked = {"k": 4, "n_alternatives": 3, "tau": 0.75, "search": "simultaneous"}
    best = find_alternatives(quality, **asked, aggregate=aggregate)
    assert best.status == "optimal"
    monkeypatch.setattr(cfs_designs, "_MOST", 20)
    found = find_alternatives(quality, **asked, aggregate=aggregate)
    one_by_one = [
        one.quality for one in find_alternatives(quality, **{**asked, "search": "sequential"})
    ]
    least = min(one_by_one) if aggregate == "min" else sum(one_by_one)
    assert least - 1e-12 <= found.total <= best.total + 1e-12 <= found.bound + 2e-12


@pytest.mark.parametrize("aggregate", ["sum", "min"])
def test_sizes_of_numbers_and_equal_calls_change_no_set(aggregate) -> None:
    quality = cfs(12, 1)
    asked = {"k": 3, "n_alternatives": 2, "tau": 0.6, "search": "simultaneous"}
    sets = [
        [one.indices for one in find_alternatives(other, **asked, aggregate=aggregate)]
        for other in (quality, quality, CFS(quality.relevance * 1e-200, quality.redundancy))
    ]
    assert sets[0] == sets[1] == sets[2]
