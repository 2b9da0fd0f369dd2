"""The order that kernels put numbers in, and what became of the compiler's own."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score

from chaffinch.tasks.selection.baselines.columns import binned_information_of_pairs
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.masked_loss.numba_tools import stable_order
from tests.flows.cli.programs import python

ROOT = Path(__file__).parents[3]


@given(st.lists(st.integers(-3, 3) | st.integers(-(2**62), 2**62), max_size=200))
def test_whole_numbers_come_in_order_and_equal_ones_as_they_were(numbers):
    values = np.array(numbers, dtype=np.int64)
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()


@given(st.lists(st.floats(allow_nan=False), max_size=200))
def test_so_do_numbers_with_a_point_and_infinities(numbers):
    values = np.array(numbers, dtype=np.float64)
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()


@pytest.mark.parametrize("n", [15, 16, 17, 31, 32, 33, 1000, 4097])
def test_so_do_many(n):
    random = np.random.default_rng(n)
    for values in (random.integers(0, n // 3, n), random.normal(size=n), np.arange(n)[::-1].copy()):
        assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()


def rows_of_names(n, seed):
    random = np.random.default_rng(seed)
    sizes = (0, n // 2, 3, n)
    columns = [random.normal(size=n), *(random.integers(0, size, n) for size in sizes[1:])]
    X = np.column_stack(columns).astype(np.float64)
    X[random.random((n, 4)) < 0.05] = np.nan
    return Rows(X, np.zeros(n)), Schema(("number", "half", "few", "all"), sizes)


@pytest.mark.parametrize("n", [3, 40, 300])
def test_pairs_of_many_values_share_the_information_of_their_joint_counts(n):
    rows, schema = rows_of_names(n, n)
    found = binned_information_of_pairs(rows, schema, 2 * n)
    labels = np.where(np.isnan(rows.X), -99, rows.X)
    for i in range(4):
        for j in range(i):
            expected = mutual_info_score(labels[:, i].astype(str), labels[:, j].astype(str))
            assert found[i, j] == found[j, i] == pytest.approx(expected, abs=1e-12)


def test_the_order_of_rows_changes_no_bit_of_it():
    rows, schema = rows_of_names(300, 0)
    found = binned_information_of_pairs(rows, schema)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(300)
        assert np.array_equal(binned_information_of_pairs(rows.take(order), schema), found)


ALL_OF_ONE_NUMBER = """
import sys
from itertools import repeat

import numba
import numpy as np
from numba.core.bytecode import FunctionIdentity

FunctionIdentity._unique_ids = repeat(7)
values = np.random.default_rng(0).integers(0, 50, 300)
if sys.argv[1] == "with those of others":
    numba.njit(lambda values: np.argsort(values))(values)

from chaffinch.tasks.selection.masked_loss.numba_tools import stable_order
from chaffinch.tasks.selection.baselines.columns import binned_information_of_pairs
from tests.selection.masked_loss.test_ordering import rows_of_names

assert (stable_order(values) == np.argsort(values, kind="stable")).all()
print(binned_information_of_pairs(*rows_of_names(300, 0)).tolist())
"""


@pytest.mark.e2e
def test_kernels_that_were_kept_are_not_mixed_up_with_those_of_others(tmp_path):
    """The compiler numbers functions again in each process; here all have one number."""
    said = [
        python(
            ALL_OF_ONE_NUMBER,
            kernels,
            cwd=ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            check=True,
        ).stdout
        for kernels in ("alone, to be kept", "with those of others")
    ]
    expected = binned_information_of_pairs(*rows_of_names(300, 0)).tolist()
    assert said == [f"{expected}\n"] * 2
