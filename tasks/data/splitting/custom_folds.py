"""Folds that a splitter of scikit-learn, or the caller, makes of the rows of a table."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.errors import InputError, as_input_error, short_repr
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.tasks.data.arrow import column_of
from chaffinch.tasks.data.roles import check_roles, describe_target, rows_with_roles
from chaffinch.tasks.data.splitting.splits import Roles, are_early, check_folds, has_folds
from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.settings.base import MOST_FOLDS
from chaffinch.tasks.settings.columns import ROW_ROLES
from chaffinch.tasks.settings.selection import SelectionSettings

_FITTED, _HELD_OUT = 1, 2
_MADE_BY = b"made_by"


@dataclass(frozen=True)
class CustomFolds:
    """K folds of the n rows of a dataset.

    `codes`, shape (K, n), are 1 where a fold is fitted on a row, 2 where it holds the row out, and
    0 otherwise. `made_by` is the splitter, in words.
    """

    made_by: str
    codes: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def hash(self) -> str:
        """SHA-256 of the folds and of what made them."""
        content = self.made_by.encode() + repr(self.codes.shape).encode() + self.codes.tobytes()
        return hashlib.sha256(content).hexdigest()

    def inside(self, index: Index, y: NDArray[Any]) -> list[tuple[Index, Index]]:
        """Return the folds of some rows, with their target, as positions among these rows.

        InputError if a fold has no row there to fit on, or to hold out, or one class only.
        """
        folds = [*map(_fold, self.codes[:, index])]
        check_folds(folds, y, "fold", f"give other folds than {self.made_by}")
        return folds

    def to_table(self) -> pa.Table:
        """Return a column for each fold, with a row for each of the dataset."""
        columns = {f"fold_{number}": codes for number, codes in enumerate(self.codes, start=1)}
        return pa.table(columns).replace_schema_metadata({_MADE_BY: self.made_by})

    @classmethod
    def from_table(cls, table: pa.Table) -> Self:
        codes = np.array([column.to_numpy() for column in table.columns], dtype=np.int8)
        return cls(table.schema.metadata[_MADE_BY].decode(), codes)


def _fold(codes: NDArray[np.int8]) -> tuple[Index, Index]:
    return np.flatnonzero(codes == _FITTED), np.flatnonzero(codes == _HELD_OUT)


def custom_folds(cv: Any, dataset: Dataset, settings: SelectionSettings) -> CustomFolds:
    """Return the folds of a splitter of scikit-learn, or of pairs (train, test) of row numbers.

    Rows are counted in the source's order. A splitter gets the target, the groups if there are any,
    and no features. InputError if the method cannot use the folds.
    """
    method = settings.method
    if not has_folds(settings):
        raise InputError(
            f"cv is for folds but method {method.kind} makes none, and the model is not tuned",
            "leave out cv",
        )
    in_source = dataset.rows_in_source()
    named = (settings.target, *(getattr(settings.columns, role) for role in ROW_ROLES))
    table = dataset.read([name for name in named if name]).take(pa.array(np.argsort(in_source)))
    target = column_of(table, settings.target, "target")
    describe_target(target, settings)  # refuses what is no target
    check_roles(table, settings)
    roles = rows_with_roles(table, settings, np.zeros(len(table)), ())
    if isinstance(cv, list):
        made_by, pairs = f"{len(cv)} pairs of rows", cv
        n_rows, rows = len(table) + dataset.n_left_out, np.sort(in_source)
    else:
        # without addresses, which differ from process to process
        made_by = re.sub(r" at 0x[0-9A-Fa-f]+", "", " ".join(repr(cv).split()))
        pairs = _split(cv, target, table, settings)
        n_rows, rows = len(table), np.arange(len(table))
    codes = np.array([*_codes(pairs, n_rows)], dtype=np.int8).reshape(-1, n_rows)[:, rows]
    _check(codes, roles, settings)
    # from the order of the source to that of the dataset
    return CustomFolds(made_by, codes[:, np.argsort(np.argsort(in_source))])


def _split(
    cv: Any, target: Any, table: pa.Table, settings: SelectionSettings
) -> list[tuple[Any, Any]]:
    from sklearn.utils.metadata_routing import get_routing_for_object

    group, kind = settings.columns.group, type(cv).__name__
    if group is None and get_routing_for_object(cv).consumes("split", {"groups"}):
        raise InputError(f"{kind} needs groups", "name their column: columns={'group': ...}")
    groups = None if group is None else np.asarray(table[group].to_pandas())
    X, y = np.arange(len(table))[:, None], np.asarray(target.to_pandas())
    with warnings.catch_warnings(), as_input_error(f"{kind} makes no folds: "):
        warnings.filterwarnings("ignore", "The groups parameter is ignored")  # `_check` sees to it
        return [*cv.split(X, y, groups)]


def _codes(pairs: Iterable[Any], n_rows: int) -> Iterator[NDArray[np.int8]]:
    for number, pair in enumerate(pairs, start=1):
        codes = np.zeros(n_rows, dtype=np.int8)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(
                f"fold {number} of cv must be a pair (train, test) of row numbers but is "
                f"{short_repr(pair)}"
            )
        for rows, code in zip(map(np.asarray, pair), (_FITTED, _HELD_OUT), strict=True):
            name = "train" if code == _FITTED else "test"
            if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
                raise InputError(
                    f"{name} of fold {number} of cv must be a list of row numbers, counted from 0, "
                    f"but has shape {rows.shape} and type {rows.dtype}"
                )
            if rows.min() < 0 or rows.max() >= n_rows:
                wrong = rows.min() if rows.min() < 0 else rows.max()
                raise InputError(
                    f"{name} of fold {number} of cv has row {wrong} but there are {n_rows} rows, "
                    "counted from 0; correct it"
                )
            if (codes[rows] == _FITTED).any():
                raise InputError(
                    f"fold {number} of cv is fitted on a row that it holds out; make train and "
                    "test disjoint"
                )
            codes[rows] = code
        yield codes


def _check(codes: NDArray[np.int8], roles: Roles, settings: SelectionSettings) -> None:
    """Raise InputError for folds, in the source's order, that the method cannot use."""
    method, columns = settings.method, settings.columns
    fewest = method.traits.fewest_folds
    if not fewest <= len(codes) <= MOST_FOLDS:
        raise InputError(
            f"method {method.kind} takes {fewest} to {MOST_FOLDS} folds but cv makes {len(codes)}; "
            "use a splitter of as many"
        )
    fitted, held_out = codes == _FITTED, codes == _HELD_OUT
    if method.traits.is_cross_fitted:
        if held_out.sum(axis=0).max() > 1:
            raise InputError(
                f"method {method.kind} takes folds that hold out each row at most once but those "
                "of cv overlap; use a splitter such as KFold, or another method, such as rfecv"
            )
        if not any(fit[held].all() for fit in fitted for held in held_out):
            raise InputError(
                f"method {method.kind} needs a fold that is fitted on all rows that another holds "
                "out but cv makes none; use a splitter such as KFold"
            )
    for fold, (fit, held) in enumerate(zip(fitted, held_out, strict=True), start=1):
        if roles.groups is not None and np.isin(roles.groups[fit], roles.groups[held]).any():
            raise InputError(
                f"fold {fold} of cv tears groups of {columns.group!r}: some of their rows are "
                "fitted on, others held out",
                "use a splitter such as GroupKFold, or leave out the group column",
            )
        if (
            roles.times is not None
            and held.any()
            and not are_early(roles.times[fit], roles.times[held].min(), roles.embargo).all()
        ):
            raise InputError(
                f"fold {fold} of cv is fitted on rows that are not early enough by "
                f"{columns.time!r} for those it holds out",
                "leave out cv, so that folds are in time order, or leave out the time column",
            )
