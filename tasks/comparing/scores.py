"""The results of a comparison, read into arrays: contenders by cells, for each table and model.

A contender is a method at a size; a cell is an outer fold under a seed. A row that is not there, or
that says why it has no loss, leaves NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.comparing.planned import Cell, Contender, Planned
from chaffinch.tasks.comparing.results import ALL, NONE, RESULTS
from chaffinch.tasks.selection.vocabulary import Floats

ALL_IN_WORDS = "all features"
_NAMED = ("table", "model", "method", "seed", "fold", "loss_name")  # of every row
_MEASURED = (  # of every row with a loss
    *("n_features", "n_total", "features", "n_train", "n_test"),
    *("selection_seconds", "training_seconds"),
)
_FIGURES = ("n_features", "n_total", "selection_seconds", "training_seconds")

_Row = Mapping[str, Any]


@dataclass(frozen=True)
class Scores:
    """What was measured on one table with one model, of k contenders in c cells.

    Attributes
    ----------
    table, model, loss_name : str
        What they are of.
    contenders : tuple of Contender
        The first is that with all features.
    cells : tuple of (int, int)
        Seed and fold of each cell.
    losses : ndarray, shape (k, c)
        NaN where there is none.
    failed : ndarray of bool, shape (k, c)
        Whether there is a row that says that the loss could not be computed.
    test_share : ndarray, shape (k, c)
        Test rows per row inside the fold; NaN where there is no loss, as in the figures.
    figures : mapping
        ``n_features``, ``n_total``, ``selection_seconds`` and ``training_seconds``, shape (k, c).
    features : mapping
        Contender -> the sets it kept, in the order of the cells.
    errors : tuple of (Contender, str, int)
        What went wrong, and in how many cells; of each contender in the order of these.
    constant : ndarray, shape (c,)
        Losses of a constant, which looks at no feature and is no contender.
    """

    table: str
    model: str
    loss_name: str
    contenders: tuple[Contender, ...]
    cells: tuple[Cell, ...]
    losses: Floats
    failed: NDArray[np.bool_]
    test_share: Floats
    figures: Mapping[str, Floats]
    features: Mapping[Contender, Sequence[frozenset[str]]]
    errors: tuple[tuple[Contender, str, int], ...]
    constant: Floats


def read_scores(results: pa.Table, planned: Planned | None = None) -> tuple[list[Scores], Planned]:
    """Return the scores of each table and model with any row, and what was meant to be measured.

    The plan is not in the results. Without it, it is read off them: each model that occurs is taken
    to have been meant for each table, and on a table each contender that occurs there, and all
    features, for each seed that occurs with each fold. The order of the rows is of no matter.

    Parameters
    ----------
    results : pyarrow.Table
        Columns as in `RESULTS`; others are ignored.
    planned : Planned, optional
        What was meant; a contender that occurs beyond it is taken in.

    Raises
    ------
    InputError
        If a column is missing or of another type, a row lacks what it must have, two rows are of
        the same cell, or the losses of a table are not of one name.
    """
    rows = [_named_rightly(row) for row in _typed(results).to_pylist()]
    if not rows:
        raise InputError("the results hold no rows; a comparison needs one at least")
    _refuse_twice(rows)
    by_table: dict[str, list[_Row]] = {}
    for row in rows:
        by_table.setdefault(row["table"], []).append(row)
    meant = _planned(by_table, planned)
    reached = sorted({(row["table"], row["model"]) for row in rows})
    return [_scores(*pair, by_table[pair[0]], meant) for pair in reached], meant


def _typed(results: pa.Table) -> pa.Table:
    missing = [name for name in RESULTS.names if name not in results.column_names]
    if missing:
        raise InputError(
            f"results must have a column {missing[0]!r} but have "
            f"{', '.join(results.column_names) or 'none'}; give the table as a comparison wrote it"
        )
    chosen = results.select(RESULTS.names)
    try:
        return chosen.cast(RESULTS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"results must have the types of a comparison's ({reason}); "
            "give the table as a comparison wrote it"
        ) from error


def _named_rightly(row: _Row) -> _Row:
    """Return the row, with the reference under its one name, if it has all that it must have."""
    needed = _NAMED if _reason_of(row) is not None else _NAMED + _MEASURED
    lacking = next((name for name in needed if row[name] is None), None)
    if lacking is not None:
        raise InputError(f"each row of results must have {lacking!r} but one has none: {_at(row)}")
    if row["n_train"] is not None and row["n_train"] < 1 and "n_train" in needed:
        raise InputError(f"n_train must be at least 1 but is {row['n_train']}: {_at(row)}")
    return {**row, "size": None} if row["method"] == ALL else row


def _reason_of(row: _Row) -> str | None:
    """Return why a row has no loss to go by, or None if it has one."""
    if row["error"] is not None:
        return str(row["error"])
    if row["loss"] is None:
        return "no loss, and no reason given"
    return None if math.isfinite(row["loss"]) else f"the loss is not finite ({row['loss']})"


def _refuse_twice(rows: Iterable[_Row]) -> None:
    seen = set()
    for row in rows:
        key = tuple(row[name] for name in ("table", "model", "method", "size", "seed", "fold"))
        if key in seen:
            raise InputError(f"results must hold a cell once but hold one twice: {_at(row)}")
        seen.add(key)


def _at(row: _Row) -> str:
    names = ("table", "model", "method", "size", "seed", "fold")
    return ", ".join(f"{name} {row[name]!r}" for name in names if row[name] is not None)


def _scores(table: str, model: str, rows: Sequence[_Row], meant: Planned) -> Scores:
    """Return the scores of a model, given the rows of a table with every model."""
    contenders, cells = meant.contenders[table], meant.cells
    shape = len(contenders), len(cells)
    position_of = {contender: i for i, contender in enumerate(contenders)}
    column_of = {cell: j for j, cell in enumerate(cells)}
    scored: dict[tuple[int, int], _Row] = {}
    failed, constant = np.zeros(shape, dtype=bool), np.full(len(cells), np.nan)
    errors: dict[tuple[Contender, str], list[int]] = {}
    for row in rows:
        if row["model"] != model:
            continue
        contender, reason = _contender(row), _reason_of(row)
        column = column_of[row["seed"], row["fold"]]
        if contender.method == NONE:
            constant[column] = row["loss"] if reason is None else np.nan
            continue
        at = position_of[contender], column
        if reason is None:
            scored[at] = row
        else:
            failed[
                [contender == other or _goes_for(row, other) for other in contenders], column
            ] = True
            errors.setdefault((contender, reason), []).append(column)

    for at in scored:
        failed[at] = False

    def measured(value_of: Callable[[_Row], float]) -> Floats:
        values = np.full(shape, np.nan)
        for at, row in scored.items():
            values[at] = value_of(row)
        return values

    return Scores(
        table=table,
        model=model,
        loss_name=_loss_name(table, rows),
        contenders=contenders,
        cells=cells,
        losses=measured(itemgetter("loss")),
        failed=failed,
        test_share=measured(lambda row: row["n_test"] / row["n_train"]),
        figures={name: measured(itemgetter(name)) for name in _FIGURES},
        features={
            contender: [frozenset(scored[at]["features"]) for at in sorted(scored) if at[0] == i]
            for contender, i in position_of.items()
        },
        errors=tuple(
            (contender, reason, len(columns))
            for (contender, reason), columns in sorted(
                errors.items(), key=lambda found: (found[0][0].place, min(found[1]), found[0][1])
            )
        ),
        constant=constant,
    )


def _planned(by_table: Mapping[str, Sequence[_Row]], planned: Planned | None) -> Planned:
    """Return what was meant to be measured, with every contender that occurs."""
    rows = [row for of_table in by_table.values() for row in of_table]
    occurring = {
        table: {_contender(row) for row in of_table if row["method"] != NONE}
        for table, of_table in by_table.items()
    }
    if planned is None:
        seeds, folds = (sorted({row[name] for row in rows}) for name in ("seed", "fold"))
        models = tuple(sorted({row["model"] for row in rows}))
        planned = Planned({}, models, tuple(product(seeds, folds)))
    contenders = {
        table: {Contender(ALL, None), *planned.contenders.get(table, ()), *occurring.get(table, ())}
        for table in dict.fromkeys([*planned.contenders, *sorted(occurring)])
    }
    by_place = {
        table: tuple(sorted(named, key=lambda contender: contender.place))
        for table, named in contenders.items()
    }
    return replace(planned, contenders=by_place)


def _goes_for(row: _Row, contender: Contender) -> bool:
    """Return whether a failure is also that of a contender: with its own choice a method fails."""
    return row["size"] is None and row["method"] == contender.method


def _contender(row: _Row) -> Contender:
    return Contender(row["method"], row["size"])


def _loss_name(table: str, rows: Iterable[_Row]) -> str:
    first, *others = sorted({row["loss_name"] for row in rows})
    if others:
        raise InputError(
            f"a table must have one loss but {table!r} has {', '.join([first, *others])}; "
            "compare under one loss at a time"
        )
    return str(first)
