"""`chaffinch.differentiable_selection`: features for a linear model, of a dense or sparse table."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from chaffinch.errors import InputError, as_input_error, short_repr
from chaffinch.storage.files import check_regular, file_to_write, path_from, write_file
from chaffinch.tasks.api.arguments import refusing_moved_names
from chaffinch.tasks.selection.core import Task
from chaffinch.tasks.selection.dfs.descent import NAME_IT, DescentState, from_bytes, to_bytes
from chaffinch.tasks.selection.dfs.search import (
    Aim,
    DifferentiableSelection,
    Rules,
    path_by_descent,
    select_by_descent,
)

logger = logging.getLogger(__name__)


@refusing_moved_names
def differentiable_selection(
    X: Any,
    y: ArrayLike,
    *,
    n_features: int | None = None,
    penalty: float | None = None,
    order: int = 4,
    steps: int = 1000,
    batch_rows: int | None = None,
    task: Task | None = None,
    seed: int = 0,
    start: DescentState | str | Path | None = None,
    decay: float | None = None,
) -> DifferentiableSelection:
    """Choose features for a linear model, by descent of an estimate that needs no model.

    Parameters
    ----------
    X : array (N, D), frame or scipy sparse matrix
        Finite numbers of any scale. Sparse tables stay sparse: a million features are no matter.
        In float32 it takes half the memory; there a spread below 3e-39 is that of a constant, as
        one below 2e-162 is in float64. A table larger than memory comes in parts: one call for
        each, with the `start` of the one before.
    y : array, shape (N,)
        Numbers or classes.
    n_features : int in 1..D, optional
        How many to choose, of the columns that vary. The penalty rises over a grid, from one that
        leaves about eight times as many to the first that leaves no more.
    penalty : float, at least 0, optional
        lambda of the term lambda / D sum s, in units of the target's variance; in place of a
        number. The descent ends when the mean loss of 50 steps is not below that of the 50 before
        by 1e-5 of it.
    order : int in 1..8
        See `chaffinch.residual_variance`; 4 or less where rows are few.
    steps : int, at least 1
        At most so many. A number of features takes at most some 250.
    batch_rows : int above the order, optional
        Rows of each batch, at least. By default 1,000, or all where there are fewer. The estimate
        of small batches varies much, so that a step takes the mean over as many as have 1,000 rows
        together.
    task : "classification" or "regression", optional
        By default classification for text, true and false, and for whole numbers with at most 20
        different values; with a start as it was.
    seed : int
        Draws a new order of the rows for every round through the table. One seed, one result,
        for any number of threads.
    start : DescentState or path, optional
        ``state`` of an earlier result, or where `chaffinch.save_state` kept one, of a table with
        the same columns in the same order; names, where both have some, are compared. With the rows
        that it saw last, the same seed and batches the descent resumes and gives the same result.
        Any other rows are taken to be newer: means, spreads and classes are then those of all
        before and of these together.
    decay : float above 0 and at most 1, optional
        With a start and newer rows: how much of what earlier rows taught is kept. Each of them
        counts as such a share of a row, and the mask is as much nearer to half of each column. By
        default 1.

    Returns
    -------
    DifferentiableSelection
        `features` are the positions of the chosen features, ascending; `scores`, shape (D,), are
        higher for better ones, and `kept`, shape (D,), is the relaxed mask in 0..1. `losses`,
        `sums` (of the mask) and `penalties` have one value per step. A later call continues from
        `state`.

    Raises
    ------
    InputError
        If a setting is out of its range, fewer columns vary than are to be chosen, X, y and start
        do not fit each other or cannot be used, or a step leaves the finite numbers.

    Notes
    -----
    Sheth and Fusi, "Differentiable feature selection by discrete relaxation", AISTATS 2020, with
    departures: columns are standardised, not just centred, and for a number of features the descent
    at a penalty begins where that at the last one ended.

    Examples
    --------
    >>> import chaffinch, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 50))
    >>> y = 2 * X[:, 7] - X[:, 30]
    >>> chaffinch.differentiable_selection(X, y, n_features=2).features.tolist()
    [7, 30]
    """
    rules = Rules(order, steps, batch_rows, task, seed, decay)
    if isinstance(start, str | os.PathLike):
        start = _state_from(start)
    if start is not None:
        _check_state("start", start)
    selection = select_by_descent(X, y, Aim(n_features, penalty), rules, start)
    _warn_of_too_few_steps(selection)
    return _with_labels(selection, X)


def _warn_of_too_few_steps(selection: DifferentiableSelection) -> None:
    """Log it where a descent for a number of features ended at a penalty that leaves more."""
    if selection.n_left > len(selection.features):
        logger.warning(
            "after %d steps the penalty leaves %d columns, of which the %d highest were taken, "
            "though their order is unreliable as yet; give more steps",
            len(selection.losses),
            selection.n_left,
            len(selection.features),
        )


def _with_labels(selection: DifferentiableSelection, X: Any) -> DifferentiableSelection:
    """Return a result with the labels of its features, if the columns of X have some."""
    labels = getattr(X, "columns", None)
    if labels is None:
        return selection
    return replace(selection, names=tuple(labels[j] for j in selection.features))


@refusing_moved_names
def differentiable_path(
    X: Any,
    y: ArrayLike,
    *,
    penalties: Sequence[float],
    order: int = 4,
    steps: int = 1000,
    batch_rows: int | None = None,
    task: Task | None = None,
    seed: int = 0,
) -> tuple[DifferentiableSelection, ...]:
    """Choose features for ever larger penalties, each descent beginning where the last one ended.

    Parameters
    ----------
    X, y, order, batch_rows, task, seed
        See `differentiable_selection`.
    penalties : sequence of float, at least 0
        Ascending: what has left does not come back, so that a path cannot go the other way.
    steps : int, at least 1
        At most so many for each penalty.

    Returns
    -------
    tuple of DifferentiableSelection
        One for each penalty; see `differentiable_selection`.

    Raises
    ------
    InputError
        If penalties are not several or do not ascend, a setting is out of its range, or X and y
        cannot be used.
    """
    rules = Rules(order, steps, batch_rows, task, seed)
    try:
        penalties = tuple(penalties)
    except TypeError as error:
        raise InputError(
            f"penalties must be several numbers but are {short_repr(penalties)}; give them as in "
            "[0.1, 1.0]"
        ) from error
    with as_input_error():
        path = path_by_descent(X, y, penalties, rules)
        return tuple(_with_labels(selection, X) for selection in path)


def save_state(state: DescentState, path: str | Path) -> None:
    """Write the state of a descent to a file, from which a later one continues with newer rows.

    Parameters
    ----------
    state : DescentState
        ``state`` of what `differentiable_selection` returned.
    path : path
        The file, in the format safetensors; it appears whole or not at all. Behind a symbolic
        link its target is written.

    Raises
    ------
    InputError
        If it is no state, what is there is no regular file, or writing there is not allowed.
    StorageError
        If the device is full or fails.
    """
    _check_state("state", state)
    what = "the file of the state"
    write_file(file_to_write(path_from(path, what), what), to_bytes(state))


def _check_state(name: str, state: object) -> None:
    if not isinstance(state, DescentState):
        raise InputError(
            f"{name} must be the state of a descent but is of type {type(state).__name__}; of a "
            "result give its state, as in result.state"
        )


def _state_from(start: str | os.PathLike[str]) -> DescentState:
    """Return the state that `save_state` wrote."""
    path = path_from(start, "start")
    check_regular(path, "start", NAME_IT)
    try:
        content = path.read_bytes()
    except IsADirectoryError as error:
        raise InputError(f"start must be a file but {path} is a folder; {NAME_IT}") from error
    except OSError as error:
        raise InputError(f"start {path} cannot be read: {error.strerror}; {NAME_IT}") from error
    with as_input_error(f"start {path}: "):
        return from_bytes(content)
