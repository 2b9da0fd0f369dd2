"""Descents for a number of features or for penalties, and the ranking that descents give."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.baselines.columns import one_table
from chaffinch.tasks.selection.core import Floats, Rows, Schema, Task
from chaffinch.tasks.selection.dfs.batches import Draws, batch_size
from chaffinch.tasks.selection.dfs.descent import (
    STEPS_AT_A_PENALTY,
    Descent,
    DescentState,
    Step,
    with_other_rows,
)
from chaffinch.tasks.selection.dfs.learning import learn
from chaffinch.tasks.selection.dfs.observations import Observations
from chaffinch.tasks.selection.dfs.scaling import Scale
from chaffinch.tasks.selection.input_checks import check_count, is_number


@dataclass(frozen=True, eq=False)
class DifferentiableSelection:
    """Result of a descent, and its course.

    Attributes
    ----------
    features : ndarray of int, shape (m,)
        Positions of the chosen features, ascending: the requested number with the highest scores,
        of equal v those further right, constant columns never; or, for a penalty, all with s
        above 1/2.
    scores : ndarray of float64, shape (D,)
        v; higher is better, above 0 is s above 1/2. -30 for a constant column. The order of columns
        that all stay is less reliable: informative features rest at their maximum, below s = 1, and
        others may pass them.
    kept : ndarray of float64, shape (D,)
        s = sigma(2 v); next to 0 for a constant column.
    losses : ndarray of float64, shape (n_steps,)
        Of each step's batch: the estimated share of the target's variance that is left, and the
        penalty.
    sums : ndarray of float64, shape (n_steps,)
        sum s, before each step.
    penalties : ndarray of float64, shape (n_steps,)
        lambda, of the term lambda / D sum s.
    n_left : int
        How many columns the last penalty leaves: those with s above 1/2, or above half of where the
        polynomial of the order has its first maximum.
    state : DescentState
        State for continuing the descent.
    names : tuple, or None
        Labels of the chosen features, of a table whose columns have some.
    """

    features: NDArray[np.int64]
    scores: Floats = field(repr=False)
    kept: Floats = field(repr=False)
    losses: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    penalties: Floats = field(repr=False)
    n_left: int
    state: DescentState = field(repr=False)
    names: tuple[Any, ...] | None = None


_WINDOW, _SETTLED = 50, 1e-5  # steps of a mean, and the relative change of the loss

OnStep = Callable[[Descent, int], None]  # with the number of steps so far


@dataclass(frozen=True)
class Rules:
    """Settings of a descent; see `chaffinch.differentiable_selection`."""

    order: int = 4
    steps: int = 1000  # at most, at least 1
    batch_rows: int | None = None
    task: Task | None = None
    seed: int = 0
    decay: float | None = None  # with a start alone


@dataclass(frozen=True)
class Aim:
    """Goal of a descent: a number of features, or a penalty; one of the two."""

    n_features: int | None = None
    penalty: float | None = None


def select_by_descent(
    X: Any, y: ArrayLike, aim: Aim, rules: Rules, start: DescentState | None = None
) -> DifferentiableSelection:
    """Choose features for a linear model; see `chaffinch.differentiable_selection`."""
    _check_one_aim(aim)
    return _follow(_open_descent(X, y, aim, rules, start), rules.steps, aim)


def path_by_descent(
    X: Any, y: ArrayLike, penalties: Sequence[float], rules: Rules
) -> tuple[DifferentiableSelection, ...]:
    """Choose features for ever larger penalties; see `chaffinch.differentiable_path`."""
    if not len(penalties):
        raise InputError("penalties must hold at least one but are none")
    for penalty in penalties:
        _check_penalty(penalty)
    for lower, higher in pairwise(penalties):
        if higher <= lower:
            raise InputError(
                f"penalties must ascend but {higher} comes after {lower}: what has left does not "
                "come back; sort them"
            )
    descent = _open_descent(X, y, Aim(penalty=penalties[0]), rules)
    results = []
    for penalty in penalties:
        descent.forget()
        results.append(_follow(descent, rules.steps, Aim(penalty=penalty)))
    return tuple(results)


def open_descent(
    data: Observations, rules: Rules, start: DescentState | None = None, n_features: int = 1
) -> Descent:
    """Return a descent before its first step.

    InputError if a setting is out of its range, the rows cannot be used, or fewer than `n_features`
    columns vary.
    """
    n_rows, _ = data.shape
    draws = Draws(n_rows, batch_size(n_rows, rules.order, rules.batch_rows), rules.seed)
    known, check = start.learned if start else None, partial(_check_varying, n_features)
    decay = _checked_decay(rules.decay, start)
    learned = learn(data, rules.task, known, check=check, decay=decay)
    held = start.held if start else None
    if start and not (learned.latest == start.learned.latest and draws == start.draws):
        held = with_other_rows(start.held, learned.scale.squares(learned.top), decay)
    return Descent(data, learned, draws, rules.order, held)


def _checked_decay(decay: float | None, start: DescentState | None) -> float:
    """Return how much of what earlier rows taught is kept, by default all of it."""
    if decay is None:
        return 1.0
    if start is None:
        raise InputError(
            f"decay must be left out without a start, as nothing came before, but is {decay!r}; "
            "leave it out, or name a start"
        )
    if not is_number(decay) or not 0 < decay <= 1:
        raise InputError(f"decay must be above 0 and at most 1 but is {decay!r}; 1 forgets nothing")
    return float(decay)


def _open_descent(
    X: Any, y: ArrayLike, aim: Aim, rules: Rules, start: DescentState | None = None
) -> Descent:
    """Check the settings, and return a descent before its first step."""
    for name, least in (("steps", 1), ("seed", 0)):
        check_count(name, getattr(rules, name), least)
    data = Observations(X, y)
    _check_aim(data.shape[1], aim)
    return open_descent(data, rules, start, int(aim.n_features or 1))


def _check_one_aim(aim: Aim) -> None:
    """Raise InputError unless exactly one of the two is set."""
    if aim.n_features is None and aim.penalty is None:
        raise InputError(
            "one of n_features and penalty must be given but they are None and None; say how many "
            "features to choose, by n_features, or what each costs, by penalty"
        )
    if aim.n_features is not None and aim.penalty is not None:
        raise InputError(
            "one of n_features and penalty must be given but they are "
            f"{aim.n_features} and {aim.penalty}; leave out penalty to choose so many features, or "
            "n_features to choose those that are worth the penalty"
        )


def _check_penalty(penalty: object) -> None:
    if not is_number(penalty) or not 0 <= penalty <= sys.float_info.max:  # type: ignore[operator]
        raise InputError(f"penalty must be a finite number, at least 0, but is {penalty!r}")


def _check_aim(n_columns: int, aim: Aim) -> None:
    """Raise InputError if no table of so many columns can reach an aim."""
    if aim.penalty is not None:
        _check_penalty(aim.penalty)
    if aim.n_features is not None:
        check_count("n_features", aim.n_features, 1, n_columns)


def _check_varying(n_features: int, scale: Scale) -> None:
    """Refuse to choose more columns than vary."""
    n_varying = int(np.count_nonzero(scale.inverse))
    if n_features > n_varying:
        raise InputError(
            f"n_features must be at most {n_varying}, as only {n_varying} of {len(scale.inverse)} "
            f"columns vary, but is {n_features}; ask for at most {n_varying}"
        )


def _follow(descent: Descent, steps: int, aim: Aim) -> DifferentiableSelection:
    n_features, way = aim.n_features, _descend(descent, steps, aim)
    v = descent.v.astype(np.float64)
    chosen = np.flatnonzero(v > 0)
    if n_features is not None:
        best_last = np.lexsort((v, descent.varies))
        chosen = np.sort(best_last[len(v) - n_features :])
    return DifferentiableSelection(
        chosen,
        v,
        descent.kept.astype(np.float64),
        np.array([step.loss for step in way]),
        np.array([step.kept for step in way]),
        np.array([step.penalty for step in way]),
        descent.n_left,
        descent.state(),
    )


def _descend(
    descent: Descent, steps: int, aim: Aim, on_step: OnStep = lambda descent, n_steps: None
) -> list[Step]:
    """Make steps until the descent is done; return them."""
    way: list[Step] = []
    while len(way) < steps and not _is_done(descent, way, aim.n_features):
        way.append(descent.step(penalty=aim.penalty, n_features=aim.n_features or 1))
        on_step(descent, len(way))
    return way


def _is_done(descent: Descent, way: Sequence[Step], n_features: int | None) -> bool:
    """Return whether as few columns are left as are to be chosen, or the loss does not fall.

    The loss is of other rows at each step, so that means over some steps are compared, in place of
    the paper's two steps.
    """
    if n_features is not None:
        return descent.leaves(n_features)
    if len(way) < 2 * _WINDOW or len(way) % _WINDOW:
        return False
    before, now = (
        float(np.mean([step.loss for step in part]))
        for part in (way[-2 * _WINDOW : -_WINDOW], way[-_WINDOW:])
    )
    return before - now < _SETTLED * abs(before)


def dfs(
    rows: Rows,
    schema: Schema,
    seed: int,
    *,
    order: int,
    steps: int,
    batch_rows: int | None = None,
    penalties: Sequence[float] = (),
) -> Floats:
    """Score by the penalty at which a feature leaves the descent, shape (d,); 0 for a constant.

    One descent serves every size: the penalty rises over the grid of `Descent.step` until a single
    column is left, or over the ascending `penalties`, and each time the descent continues from
    where it ended. The score is at least a penalty if a column of the feature stays at it, and
    between two penalties it rises with the steps for which the column stayed at the larger one.

    There are at most so many `steps`, or as many for each of the `penalties`.
    """
    scores = np.zeros(len(schema.features))
    table, feature = one_table(rows, schema)
    if not len(feature) or (rows.y == rows.y[0]).all():
        return scores
    rules = Rules(order=order, batch_rows=batch_rows, task=schema.task, seed=seed)
    descent = open_descent(Observations(table, rows.y), rules)
    of_columns, n_stayed = np.zeros((2, len(descent.v)))
    least = 0.0 if penalties else descent.left  # v of a column that stays

    def count(descent: Descent, n_steps: int) -> None:
        n_stayed[descent.v > least] = n_steps

    lower, stays = 0.0, descent.varies
    along = _along(descent, steps, penalties, count)
    for penalty, n_steps in along if penalties else _along_grid(descent, steps, count):
        share = descent.kept * (1 + np.exp(-2 * least))  # above 1 of those that stay
        leaves, stays = stays & (descent.v <= least), descent.v > least
        upper = (n_stayed + share) / (n_steps + 1)
        of_columns[leaves] = lower + (penalty - lower) * upper[leaves]
        of_columns[stays] = penalty * share[stays]
        lower, n_stayed[:] = penalty, 0
    np.maximum.at(scores, feature, of_columns)
    return scores


def _along(
    descent: Descent, steps: int, penalties: Sequence[float], on_step: OnStep
) -> Iterator[tuple[float, int]]:
    """Yield each penalty and the number of its steps, after the descent at it."""
    for penalty in penalties:
        descent.forget()
        yield penalty, len(_descend(descent, steps, Aim(penalty=penalty), on_step))


def _along_grid(descent: Descent, steps: int, on_step: OnStep) -> Iterator[tuple[float, int]]:
    """Yield the same of the grid, until a single column is left or all steps are made."""
    n_features = max(1, int(np.count_nonzero(descent.varies)) // 2)
    for first in range(0, steps, STEPS_AT_A_PENALTY):
        way: list[Step] = []
        for _ in range(min(STEPS_AT_A_PENALTY, steps - first)):
            way.append(descent.step(n_features=n_features))
            on_step(descent, len(way))
        yield way[-1].penalty, len(way)
        if descent.leaves(1):
            return
