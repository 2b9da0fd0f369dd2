"""The estimate on one of torch's devices says what the CPU's kernels say, to the same bits twice.

torch's own CPU device runs the very code that a GPU runs; what needs a GPU is skipped without one.
"""

from __future__ import annotations

import re
import threading
from functools import partial

import numpy as np
import pytest
import scipy.sparse
import torch

import chaffinch
from chaffinch import InputError
from chaffinch.tasks import differentiable_selection
from chaffinch.tasks.selection.dfs import residual_variance
from chaffinch.tasks.selection.dfs.batches import dense_z
from chaffinch.tasks.selection.dfs.coefficients import chain_weights
from chaffinch.tasks.selection.dfs.gram import TableOnDevice, check_fits
from chaffinch.tasks.selection.dfs.parts import Sharing
from chaffinch.tasks.selection.dfs.residual_variance import residual_variance_on
from chaffinch.tasks.selection.dfs.search import Aim, Rules, path_by_descent, select_by_descent
from chaffinch.tasks.selection.dfs.state import from_bytes, to_bytes
from chaffinch.tasks.selection.dfs.table import read_table
from chaffinch.tasks.selection.dfs.target import read_target
from tests.selection.devices import check_that_the_cpu_is_the_default, needs_a_gpu
from tests.selection.test_dfs_residual_variance import (
    differs,
    made_up,
    plain,
    singular_value,
    spread,
)

CPU = torch.device("cpu")
ON_DEVICE = Sharing(device=CPU)
ORDERS = pytest.mark.parametrize("order", range(1, 9))
KINDS = {"float64": 1e-10, "float32": 5e-6}
of_every_kind = pytest.mark.parametrize(("kind", "within"), KINDS.items())
TARGETS = {
    "numbers": lambda y: y,
    "two classes": lambda y: np.where(y > np.median(y), "yes", "no"),
    "four classes": lambda y: np.digitize(y, np.quantile(y, [0.2, 0.5, 0.8])),
}
of_every_target = pytest.mark.parametrize("target", TARGETS)
INFORMATIVE = [3, 17, 25]


def a_table(n_rows=1500, n_features=120, seed=0):
    """Three columns make the target, one is constant, and one is far from 0."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.4)
    X[:, 9] = 1.5
    X[:, 11] += 100
    return X, X[:, INFORMATIVE] @ [3, -2, 2] + random.normal(size=n_rows)


def batch_of(X, y, n, seed=0):
    """Return rows in an order of their own, what is kept of the columns, and their outputs."""
    random = np.random.default_rng(seed)
    rows = random.permutation(len(X))[:n]
    return rows, random.random(X.shape[1]), read_target(y, len(y))[rows]


@ORDERS
@of_every_kind
def test_the_value_and_the_gradient_are_those_of_the_definition(order, kind, within) -> None:
    X, y, s = made_up()
    X = X.astype(kind)
    value, gradient = residual_variance_on(CPU, X, y, s, order)
    expected, slope = plain(spread(X) / singular_value(X.astype(float)), y, s, order)
    assert abs(value - expected) <= within * np.var(y)
    assert differs(gradient, slope) <= within
    assert gradient[-1] == 0  # constant


@ORDERS
@of_every_kind
@of_every_target
def test_a_batch_says_what_the_kernels_say(order, kind, within, target) -> None:
    """In several tiles of columns, of which the last is filled up."""
    X, y = a_table(700, 2300)
    table = read_table(X.astype(kind))
    rows, s, outputs = batch_of(X, TARGETS[target](y), 300)
    asked = rows, s.astype(kind), outputs, chain_weights(order, len(rows))
    z, slopes = dense_z(TableOnDevice(table, CPU), *asked)
    expected, of_kernels = dense_z(table, *asked)
    assert z == pytest.approx(expected, rel=within, abs=within)
    assert slopes.dtype == of_kernels.dtype == kind
    assert differs(slopes, of_kernels) <= within


@pytest.mark.parametrize("order", [1, 2, 4, 8])
@of_every_target
def test_the_gradient_is_what_the_value_changes_by(order, target) -> None:
    X, y = a_table(300, 40)
    outputs = read_target(TARGETS[target](y), 300)
    s, step = np.random.default_rng(0).uniform(0.2, 0.8, 40), 1e-4
    _, gradient = residual_variance_on(CPU, X, outputs, s, order)
    changes = np.zeros(40)
    for d in range(40):
        off = np.where(np.arange(40) == d, step, 0)
        either = [residual_variance_on(CPU, X, outputs, s + sign * off, order) for sign in (1, -1)]
        changes[d] = (either[0][0] - either[1][0]) / (2 * step)
    assert differs(gradient, changes) <= 1e-6


def test_float32_keeps_its_digits_where_rows_and_columns_are_many_and_far_from_zero() -> None:
    random = np.random.default_rng(0)
    X = (random.normal(size=(1200, 5000)) + 2.0**20).astype(np.float32)
    y, s = X[:, :20].sum(axis=1, dtype=float) + random.normal(size=1200), random.random(5000)
    value, gradient = residual_variance_on(CPU, X, y, s, 6)
    expected, slope = residual_variance_on(CPU, X.astype(float), y, s, 6)
    assert abs(value - expected) <= 5e-6 * np.var(y)
    assert differs(gradient, slope) <= 5e-6


@of_every_kind
def test_equal_columns_have_equal_slopes_wherever_they_stand(kind, within) -> None:
    X, y, s = made_up(n_features=4500)
    for place in (130, 2047, 2048, 4499):
        X[:, place], s[place] = X[:, 0], s[0]
    _, gradient = residual_variance_on(CPU, X.astype(kind), y, s)
    found = gradient[[0, 130, 2047, 2048, 4499]]
    assert (found == found[0]).all()
    assert found[0] != 0


def test_a_table_that_may_not_be_written_to_is_taken_and_left_as_it_was() -> None:
    X, y, s = made_up()
    before = X.copy()
    X.flags.writeable = False
    residual_variance_on(CPU, X, y, s)
    np.testing.assert_array_equal(X, before)


@of_every_target
def test_a_search_goes_the_way_of_the_kernels(target) -> None:
    """With the same draws, in batches that differ in size from the rows."""
    X, y = a_table(2900)
    asked = X, TARGETS[target](y), Aim(n_features=10), Rules(steps=30, seed=3)
    found, expected = select_by_descent(*asked, ON_DEVICE), select_by_descent(*asked)
    assert found.features.tolist() == expected.features.tolist()
    assert set(INFORMATIVE) <= set(found.features.tolist())
    for name in ("scores", "kept", "losses", "sums", "penalties"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=1e-6, atol=1e-9, err_msg=name
        )


@pytest.mark.parametrize("order", [1, 2, 6, 8])
def test_so_it_does_for_other_orders_and_penalties(order) -> None:
    X, y = a_table()
    asked = X, y, Aim(penalty=0.5), Rules(order=order, steps=20)
    found, expected = select_by_descent(*asked, ON_DEVICE), select_by_descent(*asked)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6, atol=1e-9)


def test_float32_goes_its_way_in_float32() -> None:
    X, y = a_table()
    asked = X.astype(np.float32), y, Aim(n_features=3), Rules(steps=30)
    found, expected = select_by_descent(*asked, ON_DEVICE), select_by_descent(*asked)
    assert found.features.tolist() == expected.features.tolist() == INFORMATIVE
    assert found.state.held.v.dtype == np.float32
    np.testing.assert_allclose(found.losses, expected.losses, atol=1e-3)


def test_every_step_is_computed_on_the_device_that_was_named(monkeypatch) -> None:
    """By the public functions; torch's CPU stands in for a GPU."""
    asked, computed, z = a_table(), [], TableOnDevice.z

    def counted(table, *given):
        computed.append(given)
        return z(table, *given)

    monkeypatch.setattr(TableOnDevice, "z", counted)
    for module in (residual_variance, differentiable_selection):
        monkeypatch.setattr(module, "device_named", {"cpu": None, "cuda": CPU}.get)
    for device, times in (("cpu", 0), ("cuda", 1)):
        chaffinch.differentiable_selection(*asked, n_features=3, steps=6, device=device)
        assert len(computed) == 6 * times
        chaffinch.differentiable_path(*asked, penalties=[0.1, 1.0], steps=4, device=device)
        assert len(computed) == (6 + 2 * 4) * times
        chaffinch.residual_variance(*asked, np.ones(120), device=device)
        assert len(computed) == (6 + 2 * 4 + 1) * times


def test_a_path_goes_the_way_of_the_kernels() -> None:
    asked = *a_table(), [0.1, 1.0, 100.0], Rules(steps=15)
    for found, expected in zip(
        path_by_descent(*asked, ON_DEVICE), path_by_descent(*asked), strict=True
    ):
        assert found.features.tolist() == expected.features.tolist()
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6, atol=1e-9)


@of_every_kind
def test_one_seed_gives_one_result_to_the_last_bit(kind, within) -> None:
    X, y = a_table()
    asked = X.astype(kind), y, Aim(n_features=9), Rules(steps=10)
    one, other = (select_by_descent(*asked, ON_DEVICE) for _ in range(2))
    assert one.scores.tobytes() == other.scores.tobytes()
    assert one.losses.tobytes() == other.losses.tobytes()


def test_a_descent_goes_on_where_it_stopped_there_or_on_the_other_device() -> None:
    X, y = a_table()
    ask = partial(select_by_descent, X, y, Aim(n_features=5))
    whole = ask(Rules(steps=14), ON_DEVICE)
    half = from_bytes(to_bytes(ask(Rules(steps=7), ON_DEVICE).state))
    assert ask(Rules(steps=7), ON_DEVICE, half).scores.tobytes() == whole.scores.tobytes()
    on_kernels = ask(Rules(steps=7), None, half)
    np.testing.assert_allclose(on_kernels.scores, whole.scores, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("was", "inside"), [("tf32", "ieee"), ("ieee", "ieee"), ("none", "none")])
def test_products_of_float32_are_whole_and_the_users_setting_comes_back(
    was, inside, monkeypatch
) -> None:
    seen, sum_of, products = [], torch.Tensor.sum, torch.backends.cuda.matmul

    def watched(*given, **options):
        seen.append(products.fp32_precision)
        return sum_of(*given, **options)

    before = products.fp32_precision
    products.fp32_precision = was
    try:
        monkeypatch.setattr(torch.Tensor, "sum", watched)
        residual_variance_on(CPU, *made_up())
        assert set(seen) == {inside}
        assert products.fp32_precision == was
    finally:
        products.fp32_precision = before


def test_threads_that_ask_at_the_same_time_leave_the_users_setting_as_it_was() -> None:
    X, y, s = made_up()
    expected, products = residual_variance_on(CPU, X, y, s), torch.backends.cuda.matmul
    before, found = products.fp32_precision, []
    products.fp32_precision = "tf32"

    def ask() -> None:
        found.extend(residual_variance_on(CPU, X, y, s) for _ in range(5))

    try:
        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert products.fp32_precision == "tf32"
    finally:
        products.fp32_precision = before
    assert len(found) == 20
    for value, gradient in found:
        assert value == expected[0]
        assert (gradient == expected[1]).all()


class Unread:
    """A source that nobody may read."""

    shape, block_rows, target_type, labels = (5000, 3), (5000,), np.dtype(float), None

    def read(self, block):
        raise AssertionError("it was read")


def test_all_but_dense_tables_in_memory_are_refused_in_one_line() -> None:
    X, y = a_table()
    said = "cannot be computed on cpu: it takes dense tables in memory; use device='cpu'$"
    s, aim, sparse = np.ones(120), Aim(n_features=3), scipy.sparse.csr_array(X)
    with pytest.raises(ValueError, match=f"^a sparse table {said}"):
        residual_variance_on(CPU, sparse, y, s)
    with pytest.raises(ValueError, match=f"^a source of rows {said}"):
        residual_variance_on(CPU, Unread(), None, np.ones(3))
    with pytest.raises(ValueError, match=f"^a sparse table {said}"):
        select_by_descent(sparse, y, aim, Rules(), ON_DEVICE)
    with pytest.raises(ValueError, match=f"^a sparse table {said}"):
        path_by_descent(sparse, y, [1.0], Rules(), ON_DEVICE)
    with pytest.raises(ValueError, match=f"^a source of rows {said}"):
        select_by_descent(Unread(), None, aim, Rules(), ON_DEVICE)


def test_what_does_not_fit_is_refused_before_any_work() -> None:
    """The table has a gap, which is what any work on it would find first."""
    n_rows = 9000
    X, y = np.full((n_rows, 2), np.nan), np.arange(n_rows) % 7 / 7
    said = (
        "^9000 rows of 2 features, and the products of {} rows with each other, take .* GB on cpu "
        "but it has 1.074 GB for them; give fewer rows or use device='cpu'$"
    )
    with pytest.raises(ValueError, match=said.format(9000)):
        residual_variance_on(CPU, X, y, np.ones(2))
    rules, aim = Rules(batch_rows=8500), Aim(n_features=1)
    with pytest.raises(ValueError, match=said.format(9000)):
        select_by_descent(X, y, aim, rules, ON_DEVICE)
    with pytest.raises(ValueError, match="X must be finite"):
        select_by_descent(X, y, aim, Rules(), ON_DEVICE)  # batches of 1,000 rows fit


def test_many_classes_take_their_room() -> None:
    X = np.full((4000, 2), np.nan)
    rules = Rules(order=8, batch_rows=4000, task="classification")
    with pytest.raises(ValueError, match=r"the products of 4000 rows .* take .* GB on cpu"):
        select_by_descent(X, np.arange(4000) % 1000, Aim(n_features=1), rules, ON_DEVICE)


def test_the_room_that_is_asked_for_is_that_of_the_table_and_of_two_matrices() -> None:
    X = np.empty((50_000, 300), np.float32)
    with pytest.raises(ValueError, match="take") as refused:
        check_fits(CPU, X, 20_000, 4, memory=0)
    needed = float(re.search(r"take (\S+) GB", str(refused.value))[1]) * 1e9
    assert X.nbytes + 12 * 20_000**2 < needed < 1.1 * (X.nbytes + 12 * 20_000**2)
    check_fits(CPU, X, 20_000, 4, memory=int(needed * 1.001))


ASK = {
    "residual_variance": lambda **more: chaffinch.residual_variance(None, None, None, **more),
    "differentiable_selection": lambda **more: chaffinch.differentiable_selection(
        None, None, n_features=1, start="nowhere", **more
    ),
    "differentiable_path": lambda **more: chaffinch.differentiable_path(
        None, None, penalties=[], **more
    ),
}


@pytest.mark.parametrize("name", ASK)
@pytest.mark.parametrize("device", ["cuda:99", "gpu", "CUDA", "mps"])
def test_a_device_that_is_not_there_is_an_error_before_any_work(name, device) -> None:
    with pytest.raises(ValueError, match=f"device must be .*cpu.* but is '{device}'") as refused:
        ASK[name](device=device)
    assert re.search(r"torch \S+ sees \d+ CUDA devices$", str(refused.value))
    assert isinstance(refused.value, InputError) or name == "residual_variance"


def test_the_cpu_is_the_default_and_needs_no_torch() -> None:
    script = """
X = numpy.random.default_rng(0).normal(size=(1200, 5))
y = X[:, 0] + X[:, 3]
either = [
    (
        chaffinch.residual_variance(X, y, [1] * 5, **more)[0],
        chaffinch.differentiable_selection(X, y, n_features=2, steps=3, **more).scores.tolist(),
        chaffinch.differentiable_path(X, y, penalties=[1], steps=3, **more)[0].scores.tolist(),
    )
    for more in ({}, {"device": "cpu"})
]
"""
    check_that_the_cpu_is_the_default(script)


@needs_a_gpu
@ORDERS
@of_every_kind
def test_a_gpu_says_what_the_kernels_say_and_the_same_bits_twice(order, kind, within) -> None:
    X, y, s = made_up(700, 4500)
    ask = partial(chaffinch.residual_variance, X.astype(kind), y, s, order)
    (value, gradient), (expected, slope) = ask(device="cuda"), ask()
    assert abs(value - expected) <= within * np.var(y)
    assert differs(gradient, slope) <= within
    for device in ("cuda", "cuda:0"):
        again = ask(device=device)
        assert again[0] == value
        assert (again[1] == gradient).all()


@needs_a_gpu
@of_every_target
def test_a_search_on_a_gpu_goes_the_way_of_the_cpu_and_the_same_twice(target) -> None:
    X, y = a_table(2900)
    ask = partial(chaffinch.differentiable_selection, X, TARGETS[target](y), n_features=10)
    found, expected = ask(device="cuda"), ask()
    assert found.features.tolist() == expected.features.tolist()
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-6, atol=1e-9)
    assert ask(device="cuda:0").scores.tobytes() == found.scores.tobytes()


@needs_a_gpu
def test_tf32_that_is_on_for_others_takes_no_digit_on_a_gpu() -> None:
    X, y, s = made_up(700, 4500)
    ask = partial(chaffinch.residual_variance, X.astype(np.float32), y, s, device="cuda")
    products, expected = torch.backends.cuda.matmul, ask()
    before = products.fp32_precision
    products.fp32_precision = "tf32"
    try:
        value, gradient = ask()
    finally:
        products.fp32_precision = before
    assert value == expected[0]
    assert (gradient == expected[1]).all()
