"""Masks under constraints: all of them are enumerated, and the greedy choice is among the best."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.tasks.selection.constraints import Constraints, Group
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks
from tests.selection.alternatives.exhaustive import obeys


@st.composite
def constraints_of(draw, n_features: int) -> Constraints:
    """Groups that do not overlap, costs in tenths, some with a budget, some features to keep."""
    place = draw(st.lists(st.integers(0, 3), min_size=n_features, max_size=n_features))
    groups = []
    for number in (1, 2, 3):  # 0 is no group
        features = [j for j in range(n_features) if place[j] == number]
        if features:
            limits = {
                "at_least": draw(st.integers(0, 2)),
                "at_most": draw(st.none() | st.integers(0, 3)),
                "all_or_none": draw(st.booleans()),
                "cost": draw(st.integers(0, 5)) / 10,
            }
            groups.append(Group(features, **limits))
    return Constraints(
        must_include=sorted(draw(st.sets(st.integers(0, n_features - 1), max_size=2))),
        groups=groups,
        costs=[draw(st.integers(0, 5)) / 10 for _ in range(n_features)],
        budget=draw(st.none() | st.integers(0, 15).map(lambda tenths: tenths / 10)),
    )


def cost_by_hand(constraints: Constraints, features: set[int]) -> float:
    own = sum(constraints.costs[j] for j in features)
    return own + sum(one.cost for one in constraints.groups if features & set(one.features))


def is_feasible(constraints: Constraints, features: set[int]) -> bool:
    return bool(features) and obeys(features, constraints, rounding=1e-12)


def every_mask(n_features: int):
    for bits in itertools.product([True, False], repeat=n_features):
        yield np.array(bits)


@st.composite
def cases(draw):
    n_features = draw(st.integers(1, 6))
    constraints = draw(constraints_of(n_features))
    order = draw(st.permutations(range(n_features)))
    return constraints, order


@given(cases())
def test_masks_are_allowed_and_cost_as_the_constraints_have_it(case) -> None:
    constraints, order = case
    masks = FeasibleMasks(len(order), constraints)
    for mask in every_mask(len(order)):
        features = set(np.flatnonzero(mask).tolist())
        assert masks.allow(mask) == is_feasible(constraints, features)
        assert masks.cost(mask) == pytest.approx(cost_by_hand(constraints, features))


@given(cases())
def test_the_smallest_and_the_cheapest_are_known_and_whether_there_is_any(case) -> None:
    constraints, order = case
    masks = FeasibleMasks(len(order), constraints)
    allowed = [mask for mask in every_mask(len(order)) if masks.allow(mask)]
    assert masks.fewest == min((int(mask.sum()) for mask in allowed), default=None)
    if allowed:
        assert masks.cheapest == pytest.approx(min(map(masks.cost, allowed)))
        assert (masks.always <= np.all(allowed, axis=0)).all()
    else:
        with pytest.raises(ValueError, match="allow none"):
            masks.best(order, 1)


@given(cases(), st.integers(1, 6))
def test_the_best_mask_of_a_size_has_the_best_feature_that_any_can_have_then_the_next(
    case, at_most
) -> None:
    constraints, order = case
    masks = FeasibleMasks(len(order), constraints)
    if masks.fewest is None:
        return
    most = max(at_most, masks.fewest)
    allowed = [m for m in every_mask(len(order)) if masks.allow(m) and m.sum() <= most]
    best = max(allowed, key=lambda mask: mask[order].tolist())
    np.testing.assert_array_equal(masks.best(order, most, at_most=at_most), best)


@given(cases(), st.integers(1, 6))
def test_what_is_taken_is_feasible_and_no_more_than_is_taken_and_needed(case, n_taken) -> None:
    constraints, order = case
    masks = FeasibleMasks(len(order), constraints)
    if masks.fewest is None:
        return
    taken = masks.best(order, n_taken)
    assert masks.allow(taken)
    # whatever of it comes after the first n_taken is there for a group
    later = [j for j in order if taken[j]][n_taken:]
    groups = [set(one.features) for one in constraints.groups if one.all_or_none or one.at_least]
    assert all(j in constraints.must_include or any(j in one for one in groups) for j in later)


@given(cases(), st.data())
def test_a_feasible_mask_stays_as_it_is(case, data) -> None:
    constraints, order = case
    masks = FeasibleMasks(len(order), constraints)
    allowed = [mask for mask in every_mask(len(order)) if masks.allow(mask)]
    if allowed:
        mask = data.draw(st.sampled_from(allowed))
        own_first = sorted(order, key=lambda j: not mask[j])
        np.testing.assert_array_equal(masks.best(own_first, int(mask.sum())), mask)


@given(cases(), st.data())
def test_groups_that_go_together_are_found_among_the_features_of_a_mask(case, data) -> None:
    constraints, order = case
    masks = FeasibleMasks(len(order), constraints)
    mask = data.draw(st.sampled_from([*every_mask(len(order))]))
    there = np.flatnonzero(mask)
    groups = [set(one.features) & {*there} for one in constraints.groups if one.all_or_none]
    found = [{*there[group]} for group in masks.all_or_none(mask)]
    assert found == [group for group in groups if group]
    for j in order:
        own = [group for group in groups if j in group] if mask.all() else []
        assert not own or {*masks.together(j)} == own[0]


@given(st.permutations(range(6)), st.integers(1, 6))
def test_without_constraints_the_best_are_taken(order, size) -> None:
    masks = FeasibleMasks(6, Constraints())
    assert masks.are_all
    assert set(np.flatnonzero(masks.best(order, size))) == set(order[:size])


def test_groups_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="in one group"):
        FeasibleMasks(3, Constraints(groups=[Group([0, 1]), Group([1, 2])]))


def test_the_burden_is_the_share_of_the_budget_and_one_more_where_not_all_can_be_kept() -> None:
    groups = [Group([1, 2], cost=0.5), Group([3, 4], at_most=1), Group([5], at_most=1)]
    constraints = Constraints(groups=groups, costs=[1, 0, 2, 0, 1, 0, 4], budget=2)
    burden = FeasibleMasks(7, constraints).burden
    assert burden == pytest.approx([0.5, 0.25, 1.25, 1, 1.5, 0, 2])
