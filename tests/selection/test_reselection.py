"""What may return and what may leave, of losses that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from chaffinch.tasks.selection.elimination.reselection import Gap, revise


class Told:
    """Losses of masks by what each feature is worth, with one standard error for all."""

    def __init__(self, worth, *, error=0.001, base=10.0, n_units=200):
        self.worth, self.error, self.base, self.n_units = np.array(worth), error, base, n_units
        self.asked = []

    def loss(self, mask):
        return self.base - float(self.worth[mask].sum())

    def gap(self, mask, other):
        self.asked.append((mask.copy(), other.copy()))
        return Gap(self.loss(mask) - self.loss(other), self.error, self.n_units)

    def returning(self, mask):
        outside = np.flatnonzero(~mask)
        return outside[np.argsort(-self.worth[outside], kind="stable")].tolist()

    def leaving(self, mask):
        inside = np.flatnonzero(mask)
        return inside[np.argsort(self.worth[inside], kind="stable")].tolist()


def mask_of(*features, d=5):
    return np.isin(np.arange(d), features)


def end(refits, start, gain=0.01, slack=0.02, keep=()):
    revision = revise(refits, start, gain=gain, slack=slack, rejections=10, keep=keep)
    return np.flatnonzero(revision.masks[-1]).tolist()


def test_what_is_worth_more_than_the_slack_returns_and_what_is_worth_nothing_leaves() -> None:
    refits = Told([0.0, 2.0, 2.0, 0.0, 0.0])
    revision = revise(refits, mask_of(0, 1), gain=0.01, slack=0.02, rejections=10)
    assert [np.flatnonzero(mask).tolist() for mask in revision.masks] == [[0, 1], [0, 1, 2], [1, 2]]
    assert revision.losses == (8.0, 6.0, 6.0)
    made = [(t.feature, t.is_return) for t in revision.trials if t.is_made]
    assert made == [(2, True), (0, False)]


def test_where_nothing_is_to_be_changed_the_mask_is_the_former_one() -> None:
    refits = Told([2.0, 2.0, 0.0, 0.0, 0.0])
    revision = revise(refits, mask_of(0, 1), gain=0.01, slack=0.02, rejections=10)
    assert len(revision.masks) == 1
    assert {(t.feature, t.is_return) for t in revision.trials} == {
        (0, False), (1, False), (2, True), (3, True), (4, True)
    }  # fmt: skip
    assert not any(t.is_made for t in revision.trials)


@pytest.mark.parametrize(("worth", "returns"), [(0.09, True), (0.07, False)])
def test_a_return_must_save_more_than_the_gain(worth, returns) -> None:
    refits = Told([2.0, 0.0, worth, 0.0, 0.0])  # the former loss is 8, and its gain 0.08
    assert (2 in end(refits, mask_of(0))) == returns


@pytest.mark.parametrize(("worth", "leaves"), [(0.15, True), (0.159, False), (0.17, False)])
def test_a_leave_must_be_shown_to_cost_no_more_than_the_slack(worth, leaves) -> None:
    refits = Told([2.0, worth, 0.0, 0.0, 0.0], base=10 + worth)  # the slack is 0.16
    left = 1 not in end(refits, mask_of(0, 1), gain=0.05)
    assert left == leaves  # 0.159 + 1.65 * 0.001 > 0.16


@pytest.mark.parametrize(("error", "leaves"), [(0.01, False), (0.08, True)])
def test_what_is_shown_to_help_stays_however_wide_the_slack(error, leaves) -> None:
    refits = Told([2.0, 0.1, 0.0, 0.0, 0.0], base=10.1, error=error)
    assert (1 not in end(refits, mask_of(0, 1), slack=0.05)) == leaves


def test_what_the_rows_cannot_show_changes_nothing() -> None:
    assert end(Told([0.0, 2.0, 2.0, 0.0, 0.0], error=2.0), mask_of(0, 1)) == [0, 1]
    assert end(Told([0.0, 2.0, 2.0, 0.0, 0.0], error=math.nan), mask_of(0, 1)) == [0, 1]
    assert end(Told([0.0, 2.0, 2.0, 0.0, 0.0], n_units=1), mask_of(0, 1)) == [0, 1]


def test_the_bound_of_a_return_holds_for_all_that_could() -> None:
    few, many = (
        revise(
            Told([2.0, *[0.5] * (d - 1)], error=0.2), mask_of(0, d=d), gain=0, slack=0, rejections=1
        )
        for d in (2, 101)
    )
    for revision, n_candidates in ((few, 1), (many, 100)):
        first = next(t for t in revision.trials if t.is_return)
        quantile = stats.t.ppf(1 - 0.05 / n_candidates, 199)
        assert first.highest == pytest.approx(-0.5 + quantile * 0.2)
    assert few.trials[0].is_made
    assert not many.trials[0].is_made


def test_all_that_leave_in_a_round_together_cost_no_more_than_the_slack() -> None:
    refits = Told([2.0, 0.1, 0.1, 0.1, 0.1], base=10.4)  # each alone is within 0.16, no two are
    assert len(end(refits, mask_of(0, 1, 2, 3, 4), gain=0.05)) == 4


def test_negated_scores_have_a_slack_as_well() -> None:
    refits = Told([0.02, 0.0, 0.05, 0.0, 0.0], base=-0.8, error=0.0001)
    assert end(refits, mask_of(0, 1)) == [0, 2]


def test_a_round_ends_once_enough_was_tried_in_vain() -> None:
    refits = Told([2.0, *[0.0] * 49])
    revision = revise(refits, mask_of(0, d=50), gain=0.01, slack=0.02, rejections=4)
    assert [t.feature for t in revision.trials] == [1, 2, 3, 4]


def test_the_last_feature_and_those_to_keep_never_leave() -> None:
    assert len(end(Told([0.0] * 5), mask_of(0, 1, 2))) == 1
    assert end(Told([0.0] * 5), mask_of(0, 1, 2), keep=[1, 2]) == [1, 2]


def test_what_leaves_and_returns_in_turn_comes_to_an_end() -> None:
    class Turning(Told):
        """Each return makes the loss much lower, whatever was there before."""

        def gap(self, mask, other):
            return Gap(-5.0, 0.001, 200)

    masks = revise(Turning([0.0] * 3), mask_of(0, d=3), gain=0.01, slack=0.1, rejections=3).masks
    assert len(masks) < 20


def test_what_cannot_be_is_refused() -> None:
    told, none = Told([0.0] * 5), np.zeros(5, dtype=bool)
    for start, options, message in (
        (none, {}, "start must keep at least 1 of 5 features but keeps none"),
        (mask_of(0), {"keep": [1]}, "keep must name features of start but is"),
        (mask_of(0), {"slack": -0.1}, "slack must be at least 0 but is -0.1"),
        (mask_of(0), {"rejections": 0}, "rejections must be at least 1 but is 0"),
    ):
        with pytest.raises(ValueError, match=message):
            revise(told, start, **{"gain": 0, "slack": 0.02, "rejections": 3, **options})
