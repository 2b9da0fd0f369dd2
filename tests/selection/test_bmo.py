"""GBMO and FLBMO: what the algorithms say, on losses that can be worked out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.tasks.selection.elimination.bmo import EliminationPath, eliminate
from tests.selection.priced_loss import Priced


def test_the_cheapest_feature_goes_first() -> None:
    path = eliminate(Priced([3.0, 1.0, 2.0]))
    assert path.removed == (1, 2)
    assert path.losses == (2.0, 4.0)
    assert path.unmasked_loss == 1.0


def test_a_tie_goes_to_the_lowest_index() -> None:
    assert eliminate(Priced([1.0, 1.0, 1.0, 1.0])).removed == (0, 1, 2)


def test_what_must_be_kept_is_kept_however_useless() -> None:
    path = eliminate(Priced([0.0, 1.0, 2.0]), keep=[0])
    assert path.removed == (1, 2)
    both = eliminate(Priced([0.0, 1.0, 2.0]), keep=[0, 2])
    assert both.removed == (1,)


def test_progress_counts_every_removal() -> None:
    seen: list[tuple[int, int]] = []
    eliminate(Priced([1.0, 2.0, 3.0]), on_removal=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


PATH = EliminationPath(5, 1.0, (4, 3, 2, 1), (1.5, 1.0, 1.04, 2.0))


def test_gbmo_always_accepts_the_first_removal() -> None:
    # 1.5 is far above the unmasked 1.0, yet the paper compares it with infinity
    assert PATH.gbmo(0.0).sum() == 3


@pytest.mark.parametrize(("slack", "kept"), [(0.0, 3), (0.03, 3), (0.04, 2), (0.9, 2), (1.0, 1)])
def test_gbmo_stops_at_the_first_loss_above_the_slack(slack: float, kept: int) -> None:
    assert PATH.gbmo(slack).sum() == kept


def test_gbmo_goes_on_to_the_number_asked_for() -> None:
    assert PATH.gbmo(0.0, n_features=1).tolist() == [True, False, False, False, False]
    assert PATH.gbmo(0.0, n_features=4).sum() == 3


def test_the_drift_cap_bounds_the_loss_against_the_unmasked_one() -> None:
    assert PATH.gbmo(1.0, drift_cap=0.4).sum() == 5
    assert PATH.gbmo(1.0, drift_cap=0.5).sum() == 2


def test_a_slack_loosens_a_loss_below_zero_too() -> None:
    path = EliminationPath(3, -1.0, (0, 1), (-0.9, -0.88))
    assert path.gbmo(0.0).sum() == 2
    assert path.gbmo(0.05).sum() == 1


def test_flbmo_reads_any_size_off_the_path() -> None:
    assert PATH.flbmo(5).all()
    assert PATH.flbmo(2).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("size", [0, 6])
def test_a_size_that_the_path_does_not_reach_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"n_features must be in 1..5 but is {size}"):
        PATH.flbmo(size)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PATH.gbmo(-0.1), "slack must be at least 0 but is -0.1"),
        (lambda: PATH.gbmo(0.1, drift_cap=-1.0), "drift_cap must be at least 0 but is -1.0"),
        (lambda: eliminate(Priced([1.0]), min_features=2), "min_features must be in 1..1"),
        (lambda: eliminate(Priced([1.0]), keep=[3]), "keep must name features in 0..0"),
    ],
)
def test_limits_are_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


prices = st.lists(st.floats(0, 10, allow_nan=False), min_size=1, max_size=8)


@given(prices=prices, slacks=st.lists(st.floats(0, 2), min_size=2, max_size=2))
def test_masks_are_nested_and_a_larger_slack_keeps_no_more(prices, slacks) -> None:
    path = eliminate(Priced(prices))
    assert sorted(path.removed) == sorted(set(path.removed))
    masks = [path.flbmo(size) for size in range(1, len(prices) + 1)]
    for smaller, larger in itertools.pairwise(masks):
        assert (larger | smaller == larger).all()
    tight, loose = (path.gbmo(slack) for slack in sorted(slacks))
    assert loose.sum() <= tight.sum()


@given(prices=prices, slack=st.floats(0, 2))
def test_one_path_gives_what_algorithm_2_gives_when_walked_by_itself(prices, slack) -> None:
    engine = Priced(prices)
    previous = np.inf
    while engine.mask.sum() > 1:
        losses = engine.without_each()
        if losses.min() > previous * (1 + slack):
            break
        previous = losses.min()
        engine.remove(int(np.argmin(losses)))
    assert (eliminate(Priced(prices)).gbmo(slack) == engine.mask).all()
