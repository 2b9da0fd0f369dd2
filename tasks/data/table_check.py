"""Checks of a table against the settings, and its description.

`describe_table` runs before any training. It raises InputError with a line that names the column
and the remedy. It returns the roles of columns, the columns that cannot be features, and
data-quality warnings.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from chaffinch.errors import InputError, about_column
from chaffinch.storage.column_names import nearest_or_all, quoted, quoted_with_reasons
from chaffinch.storage.datasets.column_types import DATE_IN_TEXT, MIXED_ZONES, NO_DATE
from chaffinch.storage.datasets.steps import OnDone, ignored
from chaffinch.storage.datasets.text_spellings import stands_for_missing
from chaffinch.storage.sources.formats.text_options import date_formats_of
from chaffinch.tasks.data.arrow import as_numbers, categories_of, column_of, kind_of, other_type
from chaffinch.tasks.data.column_profile import (
    LARGEST,
    ColumnProfile,
    check_magnitude,
    profile_column,
)
from chaffinch.tasks.data.feature_constraints import check_constrained_columns, check_constraints
from chaffinch.tasks.data.reselection_fit import (
    check_kinds_fit,
    check_target_fits,
    check_type_fits,
    optional_columns,
    why_gone,
    word_read_as_missing,
)
from chaffinch.tasks.data.roles import (
    check_roles,
    describe_target,
    encode_target,
    named_roles,
    refuse_others,
)
from chaffinch.tasks.data.splitting.outer_folds import OuterFolds, check_parts
from chaffinch.tasks.data.splitting.splits import require_rows
from chaffinch.tasks.data.table_warnings import Findings, frequent_text
from chaffinch.tasks.selection.core import Schema, Task
from chaffinch.tasks.settings.selection import SelectionSettings

CONSTANT = "constant"
EMPTY = "every value is missing"
IDENTIFIER = "identifier: every value is different"
MOSTLY_NUMBERS = (
    "numbers but for text such as {!r}: unless it is an identifier, leave such text empty where it "
    "stands for a missing value, or write it as a number"
)
LEAK = "leak: it predicts the target, or one of its classes, without the others"
TIMESTAMPS = "timestamps"
DATE_PARTS = "dates, of which the parts are features"
_USE_TIMESTAMPS = (
    ": to use one, give columns={'dates': 'parts'} (--dates parts), or name it as the time column "
    "or as categorical"
)
_INTENDED = (LEAK, DATE_PARTS)  # what the settings ask for
_OTHER_BASELINE = "give another baseline"
_USE_OTHERS = ": to use one, make it numbers or text"
_USE_DATES = (
    ": to use them, write all as 2023-01-31, or all in one other format and add it, as in "
    "#date_format=%d.%m.%Y, to the path of delimited text; or name it as categorical"
)
_USE_ZONES = (
    ": to use them, write all with a zone, as in 2023-01-31 08:00+01:00, or all without; or name "
    "it as categorical"
)


@dataclass(frozen=True)
class TableDescription:
    """Roles of a table's columns, with profiles and warnings."""

    features: tuple[str, ...]
    n_categories: tuple[int, ...]
    categories: dict[str, tuple[str, ...]]
    excluded: dict[str, str]
    task: Task
    task_reason: str
    classes: tuple[str, ...]
    profile: list[dict[str, Any]]
    warnings: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what the settings did as intended; no reason to refuse a table
    # features that alone determine the whole target; those on the keep list are not
    leaks: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        return Schema(self.features, self.n_categories, len(self.classes))


def describe_table(
    table: Any,
    settings: SelectionSettings,
    outer_folds: OuterFolds | None = None,
    on_done: OnDone = ignored,
) -> TableDescription:
    """Check a table against the settings and return its description.

    Row numbers in errors count the rows of `table` from 1. `on_done` is called with the number of
    columns that are done, and of all.
    """
    roles = check_names(table.schema, settings)
    refuse_others(table, settings)
    if outer_folds is None and settings.columns.split is None:
        by_time = settings.columns.time is not None
        require_rows(settings, table.num_rows, by_time=by_time)
    target_column = column_of(table, settings.target, "target")
    if settings.former is not None:
        check_target_fits(settings.former, settings.target, kind_of(settings.target, target_column))
    target = describe_target(target_column, settings)
    check_roles(table, settings)
    y = encode_target(target_column, settings.target, target.task, target.classes)
    del target_column
    if target.task == "regression":
        check_magnitude(f"target {settings.target!r}", y.astype(np.float64, copy=False))
    check_parts(table, settings, y, target.classes, outer_folds)

    findings = Findings(y, target.classes, settings)
    profile: list[ColumnProfile] = []
    categories: dict[str, tuple[str, ...]] = {}
    excluded: dict[str, str] = {}
    words = {} if settings.former is None else settings.former.former_words
    lost: list[str] = []  # which of these words may be
    for name, column in zip(table.column_names, table.columns, strict=True):
        with about_column(name):
            names: tuple[str, ...] = ()
            numbers = np.empty(0)
            if other := other_type(column):
                row = ColumnProfile(name, roles[name], other, len(column), column.null_count, None)
            else:
                kind = kind_of(name, column)
                names = categories_of(column) if kind == "category" else ()
                numbers = as_numbers(column, names)
                row = profile_column(name, roles[name], kind, column, numbers, names)
                word = word_read_as_missing(words.get(name, ()), names, row.missing, row.rows)
                lost += [f"column {name!r} {word}"] if word else []
            if row.role == "feature":
                reason = _reason_to_exclude(row, settings)
                if reason == IDENTIFIER and name not in settings.columns.categorical:
                    other = frequent_text(numbers, names)
                    reason = reason if other is None else MOSTLY_NUMBERS.format(other)
                if reason:
                    excluded[name] = reason
                    row = replace(row, role="excluded")
                else:
                    if row.type == "float64":
                        remedy = ", or leave empty what stands for a missing value"
                        check_magnitude(f"column {name!r}", numbers, remedy)
                    if findings.add(row, numbers, names):
                        excluded[name] = LEAK
                        row = replace(row, role="excluded")
                    elif row.type == "category":
                        categories[name] = names
            elif row.role == "target" and target.task == "regression":
                findings.add_target(row, numbers)
        profile.append(row)
        on_done(len(profile), len(table.column_names))
        del column, numbers  # before the next is read
    # sorted, because fits, ties and draws depend on positions: a table's order changes no result
    features = tuple(sorted(n for n in roles if roles[n] == "feature" and n not in excluded))
    excluded = dict(sorted(excluded.items()))
    _check_features(features, excluded, settings)
    _check_baseline(features, categories, settings)
    for name in settings.method.named_features:
        _require_feature("start", name, features)
    if settings.former is not None:
        gone = why_gone(settings.former, settings, features, excluded, table.column_names)
        check_kinds_fit(settings.former, features, categories, gone)
    return TableDescription(
        features=features,
        n_categories=tuple(len(categories.get(name, ())) for name in features),
        categories=categories,
        excluded=excluded,
        task=target.task,
        task_reason=target.reason,
        classes=target.classes,
        profile=[asdict(row) for row in profile],
        warnings=(*sorted(lost), *findings.warnings(), *_left_out_warning(excluded, but=_INTENDED)),
        notes=(
            *filter(None, [target.note]),
            *findings.notes(),
            *_left_out_warning(excluded, only=_INTENDED),
        ),
        leaks=findings.leaks,
    )


def check_names(schema: Any, settings: SelectionSettings) -> dict[str, str]:
    """Return column -> role, in the table's order."""
    table, passed_over = schema.empty_table(), optional_columns(settings)
    roles = dict.fromkeys(schema.names, "feature")
    for role, name in named_roles(settings):
        is_type = role in ("categorical column", "numeric column")
        if role == "series column" or (is_type and name in passed_over and name not in roles):
            continue
        column_of(table, name, role)
        if not is_type and role != "keep column":
            roles[name] = role.removesuffix(" column")
    roles |= {name: "drop" for name in settings.columns.drop if name in roles}
    check_constrained_columns(table, roles, settings)
    return roles


def _reason_to_exclude(row: ColumnProfile, settings: SelectionSettings) -> str | None:
    """Return why a column cannot be a feature, or None; raise InputError for a keep column."""
    kept = row.name in settings.columns.keep
    if row.type == "timestamp" or row.distinct is None:
        if settings.former is not None:
            check_type_fits(settings.former, row.name, row.type)
        if row.type == "timestamp":
            as_parts = settings.columns.dates == "parts"
            reason = DATE_PARTS if as_parts else TIMESTAMPS + _USE_TIMESTAMPS
        elif row.type.startswith(DATE_IN_TEXT):
            reason = f"{row.type}{_USE_ZONES if row.type == MIXED_ZONES else _USE_DATES}"
            if row.type.startswith(NO_DATE):
                reason = _not_in_every_row(row.type.removeprefix(NO_DATE).strip("'"))
        else:
            reason = f"type {row.type}{_USE_OTHERS}"
    elif not row.distinct:
        reason = EMPTY
    elif row.distinct == 1 and not row.missing:
        reason = CONSTANT
    elif row.type == "category" and row.distinct == row.rows - row.missing > 1 and not kept:
        return IDENTIFIER
    else:
        return None
    if kept:
        raise InputError(
            f"keep column {row.name!r} is no use as a feature ({reason})",
            "take it off the keep list",
        )
    return reason


def _not_in_every_row(text: str) -> str:
    """Return why a column is left out that holds dates but for some rows, such as of `text`."""
    kind = f"{DATE_IN_TEXT}, but not in every row"
    # other values of a column that is left out are in no warning
    if not stands_for_missing(text):
        formats = " or ".join(f"#date_format={form}" for form in date_formats_of(pa.array([text])))
        add = f", or add {formats} to the path of delimited text without a format" * bool(formats)
        return (
            f"{kind} as 2023-01-31: to use them, write all so{add}; or leave empty what is none, "
            "or name it as categorical"
        )
    return (
        f"{kind}, such as {text!r}: if it stands for a missing value, leave it empty, or add "
        f"#na={quote(text)} to the path of delimited text; else correct it"
    )


def _left_out_warning(
    excluded: dict[str, str], *, but: Collection[str] = (), only: Collection[str] = ()
) -> Iterator[str]:
    named = {n: w for n, w in excluded.items() if w not in but and (not only or w in only)}
    if named:
        yield f"left out: {quoted_with_reasons(named)}"


def _check_features(
    features: tuple[str, ...], excluded: dict[str, str], settings: SelectionSettings
) -> None:
    if not features:
        left_out = quoted_with_reasons(excluded)
        why = f"left out: {left_out}; give columns of numbers or text that vary"
        other = "every column is dropped or has another role; drop fewer, or give more"
        raise InputError(f"the table has no feature: {why if left_out else other}")
    lowest = check_constraints(features, excluded, settings).fewest or 1
    by = "on the keep list" if settings.constraints is None else "the fewest that can be kept"
    for size in settings.method.sizes:
        if not lowest <= size <= len(features):
            kept = f" ({lowest} are {by})" if lowest > size else ""
            must = f"n_features must be in {lowest}..{len(features)} but is {size}{kept}"
            raise InputError("; ".join([must, *_left_out_warning(excluded)]))


def _check_baseline(
    features: tuple[str, ...], categories: dict[str, tuple[str, ...]], settings: SelectionSettings
) -> None:
    """Check the user's baseline values of masked features."""
    baseline = {} if isinstance(settings.baseline, str) else settings.baseline
    for name, value in baseline.items():
        if settings.former is not None and name not in features:
            continue  # a setting of the former run, which need not have kept the feature
        _require_feature("baseline", name, features)
        known = categories.get(name)
        if known is not None and str(value) not in known:
            raise InputError(
                f"baseline of {name!r} must be one of its categories {quoted(known, 'or')} but is "
                f"{value!r}",
                _OTHER_BASELINE,
            )
        if known is None and (isinstance(value, str) or not math.isfinite(value)):
            raise InputError(
                f"baseline of {name!r} must be a finite number but is {value!r}", _OTHER_BASELINE
            )
        if known is None and abs(float(value)) > LARGEST:
            raise InputError(
                f"baseline of {name!r} must lie within -{LARGEST:g}..{LARGEST:g} but is {value!r}",
                _OTHER_BASELINE,
            )


def _require_feature(role: str, name: str, features: tuple[str, ...]) -> None:
    if name not in features:
        near = nearest_or_all(name, features)
        raise InputError(f"{role} names {name!r}, which is no feature of the table{near}")
