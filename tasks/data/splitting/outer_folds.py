"""Outer folds of a comparison, and the inner split of the other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.data.arrow import kind_of
from chaffinch.tasks.data.roles import rows_with_roles
from chaffinch.tasks.data.splitting.splits import (
    MORE_OUTER_FOLDS,
    MORE_ROWS,
    RareClassError,
    Roles,
    Splits,
    fold_indices,
    has_folds,
    remedy_of_keys,
    require_to_train_on,
    split_around,
    split_rows,
)
from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import SelectionSettings


@dataclass(frozen=True)
class OuterFolds:
    """Split of a table's rows into 2 to 20 outer folds, repeated with the seeds 0 to n_seeds - 1.

    `selections` are the settings that all methods share, by model. The folds do not
    depend on `methods`, so that a method's selection is the same in every comparison.
    """

    n_folds: int
    n_seeds: int
    selections: tuple[SelectionSettings, ...]
    methods: tuple[Method, ...] = ()

    def splits(self, fold: int, rows: Roles, settings: SelectionSettings) -> Splits:
        """Return the split around an outer fold (from 0), which is the test set."""
        return split_around(self._held_out(rows, settings)[fold], rows, settings)

    def check(self, rows: Roles) -> None:
        """Raise InputError unless every outer fold leaves enough rows to select by."""
        for selection in self.selections:
            for seed in range(self.n_seeds):
                settings = selection.model_copy(update={"seed": seed})
                folded = next((m for m in self.methods if m.traits.folded_parts), settings.method)
                neediest = settings.model_copy(update={"method": folded})
                for test in self._held_out(rows, neediest):
                    train = split_around(test, rows, neediest).train
                    if has_folds(neediest) and rows.has_keys:
                        _fold_inside(train, rows, neediest)
                    self._check_methods(split_around(test, rows, settings), rows, settings)

    def _check_methods(self, splits: Splits, rows: Roles, settings: SelectionSettings) -> None:
        for method in self.methods:
            require_to_train_on(len(splits.train), method, rows.y, is_within=True)
            method.check_training_rows(len(splits.train))
            if method.traits.folded_parts:
                seen = [getattr(splits, part) for part in method.traits.folded_parts]
                _fold_inside(np.sort(np.concatenate(seen)), rows, settings)

    def _held_out(self, rows: Roles, settings: SelectionSettings) -> list[Index]:
        """Return the rows of each outer fold."""
        return [held_out for _, held_out in fold_indices(rows, settings, outer=self.n_folds)]


def _fold_inside(train: Index, rows: Roles, settings: SelectionSettings) -> None:
    try:
        fold_indices(rows.take(train), settings)
    except InputError as error:
        more = f"{MORE_ROWS}, or {MORE_OUTER_FOLDS}"
        remedy = remedy_of_keys(rows, is_outer=True) if rows.has_keys else more
        raise type(error)(f"inside an outer fold, {error.message}", remedy) from error


def check_parts(
    table: Any,
    settings: SelectionSettings,
    y: Floats | Index,
    classes: tuple[str, ...],
    outer_folds: OuterFolds | None,
) -> None:
    """Raise InputError unless the rows can be split."""
    rows = rows_with_roles(table, settings, y, classes)
    try:
        if outer_folds is not None:
            outer_folds.check(rows)
        else:
            splits = split_rows(rows, settings)
            settings.method.check_training_rows(len(splits.train))
    except RareClassError as error:
        if settings.task == "auto" and all(label.lstrip("-").isdigit() for label in classes):
            is_text = kind_of(settings.target, table[settings.target]) == "category"
            remedy = "name it as numeric and " if is_text else ""  # it has leading zeros
            remedy += "set task to regression"
            hint = f"{error.hint}; if {settings.target!r} is a quantity, {remedy}"
            raise InputError(error.message, hint) from error
        if 2 * len(classes) > len(table):
            raise InputError(
                f"target {settings.target!r} has {len(classes)} different texts in {len(table)} "
                "rows, too many to be classes: give numbers, or classes of several rows each"
            ) from error
        raise
