"""Features that are masked together: an elimination of groups, against a plain one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.tasks.selection.elimination.bmo import eliminate
from chaffinch.tasks.selection.masked_loss.base import MaskState
from chaffinch.tasks.selection.masked_loss.grouped import GroupedMaskedLoss, grouped


class AnyLoss(MaskState):
    """A masked loss that is another number for every mask."""

    def __init__(self, n_features: int, seed: int) -> None:
        super().__init__(n_features)
        self._losses = np.random.default_rng(seed).random(2**n_features)

    @property
    def loss(self) -> float:
        return float(self([self.mask])[0])

    def without_each(self) -> np.ndarray:
        losses = np.full(len(self.mask), np.inf)
        for j in np.flatnonzero(self.mask):
            losses[j] = self([self.mask & (np.arange(len(self.mask)) != j)])[0]
        return losses

    def __call__(self, masks) -> np.ndarray:
        numbers = np.asarray(masks) @ (1 << np.arange(len(self.mask)))
        return self._losses[numbers]


def plainly(engine: AnyLoss, units: list[list[int]]) -> tuple[list[list[int]], list[float]]:
    """Remove the unit without which the loss is the lowest, again and again."""
    units, removed, losses = list(units), [], []
    while units:
        left = [np.isin(np.arange(len(engine.mask)), np.concatenate(units)) for _ in units]
        for mask, unit in zip(left, units, strict=True):
            mask[unit] = False
        found = engine(left)
        removed.append(units.pop(int(np.argmin(found))))
        losses.append(float(found.min()))
    return removed, losses


@given(st.integers(2, 7), st.integers(0, 50), st.data())
def test_groups_leave_one_after_the_other_each_at_once(n_features, seed, data) -> None:
    place = data.draw(st.lists(st.integers(0, 2), min_size=n_features, max_size=n_features))
    groups = [np.flatnonzero(np.array(place) == number) for number in (1, 2)]
    groups = [group for group in groups if len(group)]
    units = [[j] for j in range(n_features) if not place[j]] + [group.tolist() for group in groups]
    removed, losses = plainly(AnyLoss(n_features, seed), units)

    path = eliminate(GroupedMaskedLoss(AnyLoss(n_features, seed), groups))
    expected = [j for unit in removed for j in sorted(unit)]
    assert [*path.removed] == expected[:-1]  # the last feature stays
    each = [loss for unit, loss in zip(removed, losses, strict=True) for _ in unit]
    assert [*path.losses] == each[:-1]
    assert path.unmasked_loss == AnyLoss(n_features, seed).loss


def test_an_engine_without_groups_is_the_engine() -> None:
    engine = AnyLoss(3, 0)
    assert grouped(engine, []) is engine
    masks = [[True, False, True], [False, False, False]]
    wrapped = grouped(engine, [np.array([0, 2])])
    np.testing.assert_array_equal(wrapped(masks), engine(masks))
