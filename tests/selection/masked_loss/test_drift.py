"""A first layer is computed again when rounding may have spoilt it, and not before."""

import numpy as np

from chaffinch.tasks.selection.masked_loss.networks import Drift

NONE = np.zeros(2, dtype=bool)
SIZES = np.array([[1.0, 8.0], [100.0, 5.0]])  # two blocks of two units


def test_a_block_is_due_once_a_unit_is_far_smaller_than_it_has_been() -> None:
    drift = Drift(SIZES)
    assert drift.due(SIZES * [[1 / 64], [1.0]], NONE).tolist() == [False, False]
    assert drift.due(SIZES * [[100.0, 1.0], [1.0, 1.0]], NONE).tolist() == [False, False]
    assert drift.due(SIZES * [[1.0, 1.0], [1.0, 1 / 65]], NONE).tolist() == [True, True]


def test_what_was_computed_again_is_measured_by_its_new_size() -> None:
    drift = Drift(SIZES)
    assert drift.due(SIZES / [[1000], [1]], NONE).tolist() == [True, False]
    drift.renewed(SIZES / [[1000], [1]])
    assert drift.due(SIZES / [[60_000], [1]], NONE).tolist() == [False, False]
    assert drift.due(SIZES / [[70_000], [1]], NONE).tolist() == [True, False]


def test_every_block_is_due_after_64_removals_and_again_after_64_more() -> None:
    drift = Drift(SIZES)
    removals = [drift.due(SIZES, NONE).tolist() for _ in range(130)]
    assert [i + 1 for i, is_due in enumerate(removals) if all(is_due)] == [64, 128]
    assert sum(map(any, removals)) == 2


def test_the_sizes_it_is_given_are_left_alone() -> None:
    given = SIZES.copy()
    Drift(given).due(SIZES * 2, NONE)
    assert (given == SIZES).all()


def test_a_block_is_due_once_a_row_of_it_is_next_to_nothing() -> None:
    assert Drift(SIZES).due(SIZES, np.array([False, True])).tolist() == [False, True]
