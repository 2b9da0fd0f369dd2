"""Budgets to the last digit that counts, and constraints of a wrong kind refused in one line."""

from __future__ import annotations

import re

import pytest

from chaffinch.tasks.selection.alternatives.find import find_alternatives
from chaffinch.tasks.selection.alternatives.quality import Univariate
from chaffinch.tasks.selection.constraints import Constraints, Group

VALUES = [9, 8, 7, 3, 2, 1]


@pytest.mark.parametrize(
    ("costs", "budget", "best"),
    [
        ([2e-10] * 4, 1e-10, None),
        ([1e-9] * 4, 1e-9, None),  # two cost twice as much
        ([1e-9] * 4, 2e-9, (0, 1)),
        ([0.1, 0.2, 0.3, 0.4], 0.3, (0, 1)),  # although 0.1 + 0.2 > 0.3 in floating point
        ([1e-20, 2e-20, 3e-20, 4e-20], 3e-20, (0, 1)),
        ([10**10 + 5, 10**10, 10**10, 10**10], 2 * 10**10, (1, 2)),
        ([10**10 + 5, 10**10, 10**10, 10**10], 2 * 10**10 + 5, (0, 1)),
        ([2, 1, 1, 1], 2.999999999999, (1, 2)),
        ([0, 0, 1, 1], 0, (0, 1)),
    ],
)
def test_a_budget_is_held_but_for_rounding(costs, budget, best) -> None:
    found = find_alternatives(
        Univariate([4, 3, 2, 1]),
        k=2,
        n_alternatives=0,
        tau=0.5,
        constraints=Constraints(costs=costs, budget=budget),
    )
    assert [one.indices for one in found] == ([] if best is None else [best])


@pytest.mark.parametrize(
    ("limits", "best"), [({"all_or_none": True}, (2, 3)), ({"at_most": 1}, (0, 2))]
)
def test_the_cost_of_a_group_is_paid_once(limits, best) -> None:
    """Together 0 and 1 cost 1.5 and 4 more; one of them 1 or 0.5 and 4 more."""
    constraints = Constraints(
        groups=[Group([0, 1], cost=4, **limits)], costs={0: 1, 1: 0.5}, budget=5
    )
    quality = Univariate([4, 3, 2, 1])
    found = find_alternatives(quality, k=2, n_alternatives=0, tau=0.5, constraints=constraints)
    assert [one.indices for one in found] == [best]


def test_a_feature_has_one_cost_by_whatever_it_is_called() -> None:
    constraints = Constraints(costs={"a": 5, 0: 3}, budget=4)
    quality = Univariate([3, 2, 1], names=["a", "b", "c"])
    with pytest.raises(
        ValueError, match=r"costs must name each feature once but name feature 0 twice; leave"
    ):
        find_alternatives(quality, k=1, n_alternatives=0, tau=1, constraints=constraints)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"groups": [Group([0, 1, 2], at_least=1.5)]}, "a group's at_least must be a whole number"),
        ({"groups": [Group([0, 1, 2], at_least="1")]}, "a group's at_least must be a whole number"),
        ({"groups": [[0, 1]]}, "groups must hold Group but hold [0, 1]; give Group([0, 1])"),
        ({"groups": Group([0, 1])}, "groups must be a sequence of Group but is Group("),
        ({"costs": [1] * 6, "budget": "3"}, "budget must be a number in 0..1e+300 but is '3'"),
        ({"groups": [Group([0, 1], cost=-1)]}, "a group's cost must be a number in 0"),
        ({"groups": [Group([0, 1], cost=1)]}, "a group's cost of 1 is paid once, which alternat"),
        ({"costs": 3, "budget": 1}, "costs must be one for each feature, or a mapping, but are 3"),
        ({"costs": ["a"] * 6, "budget": 1}, "the cost of feature 0 must be a number in"),
        ({"costs": [1e308] * 6, "budget": 1.7e308}, "the cost of feature 0 must be a number in"),
    ],
)
def test_constraints_of_a_wrong_kind(rules, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as error:
        find_alternatives(
            Univariate(VALUES), k=3, n_alternatives=2, tau=0.5, constraints=Constraints(**rules)
        )
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (5, "names must be one for each of 3 features but is 5"),
        ("abc", "names must be one for each of 3 features but is 'abc'"),
        ([1, "1", "x"], "names must be strings but hold 1; name features by strings"),
    ],
)
def test_names_of_a_wrong_kind(names, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Univariate([1, 2, 3], names)
