"""The polynomials against a linear programme, and the weights of chains against binomials."""

from __future__ import annotations

from math import comb, pi, tan

import numpy as np
import pytest
from scipy.optimize import linprog

from chaffinch.tasks.selection.dfs.estimate import COEFFICIENTS, chain_weights, check_order

GRID = np.linspace(0, 1, 1001)
ORDERS = pytest.mark.parametrize("order", range(1, 9))


def powers(order):
    return GRID[:, np.newaxis] ** (np.arange(order) + 2)


@ORDERS
def test_the_least_error_is_the_closed_form(order) -> None:
    to_fit, error = powers(order), -np.ones((len(GRID), 1))
    found = linprog(
        np.r_[np.zeros(order), 1],
        A_ub=np.block([[to_fit, error], [-to_fit, error]]),
        b_ub=np.r_[GRID, -GRID],
        bounds=[(None, None)] * order + [(0, None)],
        method="highs",
    )
    assert found.x[-1] == pytest.approx(tan(pi / (4 * (order + 1))) / (order + 1), rel=2e-4)


@ORDERS
def test_the_coefficients_are_the_smallest_within_twice_the_least_error(order) -> None:
    to_fit, weight = powers(order), 2.0 ** (np.arange(order) + 1)
    error = 2 * tan(pi / (4 * (order + 1))) / (order + 1)
    found = linprog(
        np.r_[weight, weight],
        A_ub=np.block([[to_fit, -to_fit], [-to_fit, to_fit]]),
        b_ub=np.r_[GRID + error, error - GRID],
        bounds=(0, None),
        method="highs",
    )
    ours = np.array(COEFFICIENTS[order])
    assert np.abs(to_fit @ ours - GRID).max() <= error * (1 + 1e-4)
    assert weight @ np.abs(ours) == pytest.approx(found.fun, rel=5e-4)
    np.testing.assert_allclose(
        ours, found.x[:order] - found.x[order:], rtol=1e-3, atol=1e-3 * np.abs(ours).max()
    )


@ORDERS
@pytest.mark.parametrize("n_rows", [10, 1000, 10**7])
def test_a_chain_counts_as_one_of_all_that_can_be_made(order, n_rows) -> None:
    exact = [a * n_rows ** (i + 1) / comb(n_rows, i + 2) for i, a in enumerate(COEFFICIENTS[order])]
    np.testing.assert_allclose(chain_weights(order, n_rows), exact, rtol=1e-14)


@pytest.mark.parametrize(
    ("order", "n_rows", "said"),
    [
        (9, 100, r"must be in 1\.\.8 but is 9: with each order more the noise .* take a lower one"),
        (0, 100, r"must be in 1\.\.8 but is 0"),
        (2.0, 100, r"must be a whole number in 1\.\.8 but is 2\.0"),
        (True, 100, r"must be a whole number in 1\.\.8 but is True"),
        (6, 6, "order 6 needs at least 7 rows, .* but there are 6; give more rows or a lower"),
    ],
)
def test_an_order_that_cannot_be_is_refused(order, n_rows, said) -> None:
    with pytest.raises(ValueError, match=said):
        check_order(order, n_rows)
    check_order(6, 7)
