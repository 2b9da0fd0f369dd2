"""A removal is all or nothing: Ctrl-C at any line leaves an engine that stands for its mask."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import pytest

from chaffinch.tasks.selection.core import MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import BlackBox, MaskEvaluator, masked_loss
from chaffinch.tasks.selection.masked_loss.distributed_rows import PartedLoss, RowPart, parts_of
from chaffinch.tasks.selection.masked_loss.row_blocks import RowSums
from chaffinch.tasks.selection.models import fit

pytestmark = pytest.mark.usefixtures("one_thread")

D = 5
SCHEMA = Schema(tuple("abcde"), (0, 0, 0, 3, 0))
LOSS = resolve_loss("squared_error", SCHEMA)
BASELINE = np.array([0.5, -1, 2, 1, 0])


def synthetic(n: int) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    X[:, 3] = rng.integers(0, 3, n)
    return Rows(X, 2 * X[:, 0] + X[:, 1] * X[:, 2] + (X[:, 3] == 1) + rng.normal(size=n) / 2)


ROWS = synthetic(1100)
LEAVES = {"num_leaves": 100, "min_child_samples": 2, "n_estimators": 3}
FITTED = {
    name: fit(model, ROWS.take(slice(300)), SCHEMA, parameters, seed=0)
    for name, model, parameters in (
        ("trees", "lightgbm", {"n_estimators": 5, "num_leaves": 8}),
        ("deep trees", "lightgbm", LEAVES),
        ("network", "mlp", {"hidden_layer_sizes": [4], "max_iter": 3}),
        ("linear", "linear", {}),
    )
}


def in_parts() -> MaskedLoss:
    some = masked_loss(FITTED["trees"], ROWS, LOSS, BASELINE)
    assert isinstance(some, RowSums)
    parts = parts_of(FITTED["trees"], ROWS, LOSS, BASELINE, some.rows_in_block, 2)
    n_blocks = -(-len(ROWS) // some.rows_in_block)

    def ask(asked):
        return [RowPart.answer(part, asked) for part in parts]

    return PartedLoss(some, float(len(ROWS)), n_blocks, ask)


def engine_of(name: str, threads: int = 1) -> Callable[[], MaskedLoss]:
    return lambda: masked_loss(FITTED[name], ROWS, LOSS, BASELINE, threads=threads)


ENGINES = {
    "trees": engine_of("trees"),
    "trees, two threads": engine_of("trees", 2),
    "deep trees": engine_of("deep trees"),
    "network": engine_of("network"),
    "linear": engine_of("linear"),
    "parts": in_parts,
    "black box": lambda: BlackBox(MaskEvaluator(FITTED["linear"], ROWS, LOSS, BASELINE)),
}


# Its lock is for the whole process. A trace meets the line of a `with` once more before the lock is
# given back, where Python looks at no signal, so that it would be kept as no Ctrl-C can keep it.
UNTRACED = "chaffinch.tasks.selection.models.runtime"


class Interrupt:
    """Stands for Ctrl-C at the k-th line of the package that runs."""

    def __init__(self, k: int) -> None:
        self._left = k

    def __call__(self, frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if not module.startswith("chaffinch.") or module == UNTRACED:
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return self


def is_interrupted(k: int, work: Callable[..., object], *arguments: object) -> bool:
    """Work until the k-th line; whether there are as many."""
    former = sys.gettrace()
    sys.settrace(Interrupt(k))
    try:
        work(*arguments)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(former)
    return False


def check_that_it_stands_for_its_mask(engine: MaskedLoss) -> None:
    mask = engine.mask
    without = [np.where(np.arange(D) == j, False, mask) for j in range(D)]
    expected = np.where(mask, engine(without), np.inf)
    assert engine.loss == pytest.approx(engine([mask])[0], rel=1e-12)
    assert engine.without_each() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ENGINES)
def test_a_removal_that_is_interrupted_at_any_line_is_done_or_is_not(name: str) -> None:
    k = 0
    while True:
        k += 1
        engine = ENGINES[name]()
        engine.without_each()
        engine.remove(4)
        engine.loss  # noqa: B018
        was_interrupted = is_interrupted(k, engine.remove, 0)
        check_that_it_stands_for_its_mask(engine)
        if not engine.mask[0]:
            with pytest.raises(ValueError, match="feature 0 is masked already"):
                engine.remove(0)
        else:
            engine.remove(0)
        engine.remove(1)
        assert engine.mask.tolist() == [False, False, True, True, False]
        check_that_it_stands_for_its_mask(engine)
        if not was_interrupted:
            break
    assert k > 5


@pytest.mark.parametrize("name", ENGINES)
def test_so_is_a_question_after_a_removal_that_was_interrupted(name: str) -> None:
    k, lines = 0, 60 if name == "parts" else 5  # most of the lines there are those of new parts
    while True:
        k += 1
        engine = ENGINES[name]()
        is_interrupted(6 + k % 5, engine.remove, 0)
        was_interrupted = is_interrupted(lines * k, engine.without_each)
        check_that_it_stands_for_its_mask(engine)
        if not was_interrupted:
            break
    assert k > 5
