"""The feature contract: the columns that a source must give, and checks of newer rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chaffinch.errors import InputError
from chaffinch.storage.column_names import quoted
from chaffinch.storage.datasets.column_types import NUMBER, is_text
from chaffinch.storage.datasets.text_spellings import TRUTH
from chaffinch.storage.sources import source_of
from chaffinch.tasks.contract import Contract, KeptFeature
from chaffinch.tasks.data.arrow import as_numbers
from chaffinch.tasks.data.column_profile import check_largest
from chaffinch.tasks.data.lag_features import made_names, order_of
from chaffinch.tasks.data.matrix import feature_matrix
from chaffinch.tasks.data.reselection_fit import word_read_as_missing
from chaffinch.tasks.results.model import read_features, typed_feature
from chaffinch.tasks.results.notebook import as_html
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.columns import HistorySettings
from chaffinch.tasks.statistics.drift import is_emptied, is_other_scale, reach

if TYPE_CHECKING:
    import pandas as pd

_MOST_NAMES = 10  # of a message
_MOSTLY = 0.75  # far above the half of zeros that a median other than 0 allows
_OFTEN = 0.2  # at most .05 of the values lay on either side of the quantiles
_STOPPED = "and varied at the selection; make sure that its source still fills it"


@dataclass(frozen=True)
class BytesRead:
    """Bytes of the contract's columns in a source (`kept`), and of all its columns (`all`)."""

    kept: int
    all: int

    @property
    def share_saved(self) -> float:
        """Share of bytes that need not be read, in 0..1; 0 for an empty source."""
        return 1 - self.kept / self.all if self.all else 0.0


class FeatureContract(Contract, Mapping[str, Any]):
    """The content of ``selection.json``, which also checks tables.

    The fields of the file are attributes, such as ``contract.comparison.verdict``, but for its
    ``features``: `features` has their names, and ``kept`` their entries. As a mapping it has plain
    values, such as ``contract["features"]``, and `to_dict` returns all of them.
    """

    def __getitem__(self, field: str) -> Any:
        return self.to_dict()[field]

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def to_frame(self) -> pd.DataFrame:
        """Return one row per kept feature: name, type, baseline and the rest of its entry."""
        import pandas as pd

        return pd.DataFrame(self["features"])

    def _repr_html_(self) -> str:
        title, verdict = f"Features for {self.target.name!r}", self.comparison.sentence
        return as_html(title, [verdict], self.to_frame(), warnings=self.warnings)

    @property
    def columns(self) -> list[str]:
        """Columns of a source that the kept features need, in the features' order.

        Parts of dates need the column of dates. Lag features need the column that they are made of
        and the time column, which comes after all features, then the series column if there is one.
        """
        history, order = self._history(), self.settings["columns"]["time"]
        columns = self.origins().values()
        if history is None or all(name == column for name, column in self._of_lags().items()):
            return list(dict.fromkeys(columns))
        roles = (role for role in (order, history.series) if role is not None)
        return list(dict.fromkeys([*columns, *roles]))

    def validate(self, table: Any) -> None:  # type: ignore[override]
        """Raise InputError for a table that does not fit the contract.

        Parameters
        ----------
        table : path or address, or pandas, polars or Arrow table
            Newer rows, with the `columns` of the contract; other columns are ignored.

        Raises
        ------
        InputError
            If a column is missing, or a kept feature has another type: booleans, or text that is
            no number, instead of numbers; numbers instead of text; or numbers other than 0 and 1
            instead of booleans; if a number may be one category or another, such as 500 for 00500
            and 500; or if a number is beyond 1e30. Columns that lag features are made of must hold
            numbers too, and the time and series columns what `with_history` takes.

        Warns
        -----
        UserWarning
            For a table without rows, and for each kept feature, or column that lag features are
            made of, of which every value is missing, or that holds categories which were not seen
            at the selection. Also where less than a tenth of the share of rows with a value is
            left, of 30 or more such rows; a column that lag features are made of has no known
            share. Of 30 values or more also for one number in every row, or 0 in three
            quarters of them, where the column varied; for one number in a fifth of them that is
            beyond the 5 and 95 % quantiles at the selection, such as -999; and for another scale:
            the larger of these quantiles by size is at least 30 times what it was, or at most a
            thirtieth.
            Also for times with a zone where they had none at the selection, and the reverse.

        Notes
        -----
        A column without values fits, with a warning: few rows may well have none. Numbers in text
        fit, as in `select`, and so do 0 and 1 instead of booleans, as many databases write them.
        """
        categories, columns = self.categories, self.columns
        source = read_features(
            table, {*columns, *self.features}, categories, self.made_of, self.zones, self.numeric
        )
        if not source.num_rows:
            warnings.warn("the table has no rows", UserWarning, stacklevel=2)
        missing = [name for name in columns if name not in source.column_names]
        if missing:
            raise InputError(
                f"the table lacks {quoted(missing[:_MOST_NAMES])}, {len(missing)} of the "
                f"{len(columns)} columns that the contract needs; bring them back, or select again"
            )
        for feature in (*self.kept, *self._made_into_lags()):
            name = feature.name
            if name in source.column_names and source.num_rows:
                typed, values = _checked(source, name, categories.get(name), feature.values)
                for change in _changes(values, typed, source.column(name), feature):
                    warnings.warn(f"column {name!r} {change}", UserWarning, stacklevel=2)
        history, time = self._history(), self.settings["columns"]["time"]
        if history is not None and time in columns and source.num_rows:
            order_of(source, history.series, time)

    def bytes_in(self, source: Any) -> BytesRead:
        """Return the bytes of the contract's columns in a source, and of all its columns.

        Parameters
        ----------
        source : path or address, or pandas, polars or Arrow table
            Compressed columns of Parquet, fields of delimited text, or buffers of a table in
            memory.

        Returns
        -------
        BytesRead
            Bytes of the contract's columns (`kept`) and of all columns (`all`), and the share that
            need not be read (`share_saved`, 0..1).

        Raises
        ------
        InputError
            If the source cannot be read, or lacks one of the columns.
        """
        bytes_of, columns = source_of(source).column_bytes(), self.columns
        missing = [name for name in columns if name not in bytes_of]
        if missing:
            raise InputError(
                f"the source lacks {quoted(missing[:_MOST_NAMES])}; name the one that the contract "
                "was made from"
            )
        return BytesRead(sum(bytes_of[name] for name in columns), sum(bytes_of.values()))

    def origins(self) -> dict[str, str]:
        """Return the column that each kept feature is, or is made of, in the features' order."""
        return self._of_lags() | self.made_of

    def _of_lags(self) -> dict[str, str]:
        """Return the column that each kept feature is, or is a lag feature of."""
        history = self._history()
        if history is None:
            return {name: name for name in self.features}
        made = {c: made_names(c, history) for c in history.columns or (self.target.name,)}
        origin = {name: column for column, names in made.items() for name in names}
        return {name: origin.get(name, name) for name in self.features}

    def _made_into_lags(self) -> Iterator[KeptFeature]:
        """Yield the columns that kept features are made of, with the quantiles of a lag of each."""
        history, kept = self._history(), {feature.name: feature for feature in self.kept}
        if history is None:
            return
        for column in dict.fromkeys(self._of_lags().values()):
            if column in kept:
                continue
            lags = made_names(column, history)[: len(history.lags)]
            of_lags = (kept[name].quantiles for name in lags if name in kept)
            quantiles = next(of_lags, None)  # means reach less far, and deviations elsewhere
            yield KeptFeature(name=column, type="number", values="number", quantiles=quantiles)

    def _history(self) -> HistorySettings | None:
        history = self.settings.get("history")
        return None if history is None else HistorySettings(**history)


def _changes(
    values: Floats, typed: pa.ChunkedArray, held: pa.ChunkedArray, feature: KeptFeature
) -> Iterator[str]:
    """Yield what a person should know of a column that fits the contract."""
    present = values[~np.isnan(values)]
    if typed.null_count == len(typed):
        yield "has no value in any row; make sure that its source still fills it"
        return
    present_now, present_then = 1 - typed.null_count / len(typed), 1 - (feature.missing or 0)
    if feature.missing is not None and is_emptied(present_then, present_now, len(typed)):
        yield (
            f"has a value in {present_now:.1%} of the rows, and had in {present_then:.0%} at the "
            "selection; make sure that its source still fills it"
        )
    if feature.type == "category":
        now, known = typed.unique().to_pylist(), feature.categories or ()
        if lost := word_read_as_missing(known, now, typed.null_count, len(typed)):
            yield lost
        is_new = np.isnan(values) & typed.is_valid().to_numpy()
        if is_new.any():
            example = held[int(np.argmax(is_new))].as_py()
            yield (
                f"holds categories that were not seen at the selection, such as {example!r}, in "
                f"{int(is_new.sum())} of {len(held)} rows; they count as missing"
            )
    elif feature.quantiles and (now := reach(present)) is not None:
        before = float(np.abs(feature.quantiles).max())
        lowest, median, highest = feature.quantiles
        zeros = float(np.mean(present == 0))
        distinct, counts = np.unique(present, return_counts=True)
        most_frequent, share = distinct[counts.argmax()], counts.max() / len(present)
        if lowest < highest and present.min() == present.max():
            yield f"is {present[0]:.6g} in every row, {_STOPPED}"
        elif median and zeros >= _MOSTLY:
            yield f"is 0 in {zeros:.0%} of its values, {_STOPPED}"
        elif lowest < highest and share >= _OFTEN and not lowest <= most_frequent <= highest:
            yield (
                f"is {most_frequent:.6g} in {share:.0%} of its values, beyond its 5 and 95 % "
                "quantiles at the selection; make sure that it does not stand for a missing value"
            )
        elif is_other_scale(before, now) or (not before and np.median(present)):
            yield (
                f"reaches to {now:.3g} where it reached to {before:.3g} at the selection (by the 5 "
                "and 95 % quantiles); make sure that its unit is the same"
            )


def _checked(
    source: pa.Table, name: str, categories: tuple[str, ...] | None, values: str | None
) -> tuple[pa.ChunkedArray, Floats]:
    """Return a column in the contract's type, and as numbers or codes.

    InputError if its values are not of that type.
    """
    held = source.column(name)
    if held.null_count == len(held):
        return held, np.full(len(held), np.nan)
    if categories is None:
        before = "true and false" if values == "boolean" else "numbers"
        try:
            typed = typed_feature(source, name, None)
        except InputError as error:
            if not is_text(held.type):
                raise
            texts = held.cast(pa.large_string())
            fits = rf"{NUMBER}|^\s*$" + (f"|{TRUTH}" if values == "boolean" else "")
            others = texts.filter(pc.invert(pc.match_substring_regex(texts, fits)))
            raise InputError(_changed(name, "text", before, others or texts)) from error
        if pa.types.is_boolean(typed.type) and values == "number":
            raise InputError(_changed(name, "true and false", before, held))
        numbers = as_numbers(typed)
        is_other = ~np.isin(numbers, (0, 1)) & ~np.isnan(numbers)
        if values == "boolean" and is_other.any():
            raise InputError(_changed(name, "numbers", before, held.filter(pa.array(is_other))))
        check_largest(f"column {name!r}", numbers, ", or leave it empty")
        return typed, numbers
    typed = typed_feature(source, name, categories)
    codes = feature_matrix(pa.table([typed], names=[name]), [name], {name: categories})[:, 0]
    # whole numbers, such as codes, may all be new
    may_be_new = pa.types.is_integer(held.type) and any(map(str.isdecimal, categories))
    if not (is_text(held.type) or may_be_new) and np.isnan(codes).all():
        raise InputError(_changed(name, str(held.type), "text", held))
    return typed, codes


def _changed(name: str, now: str, before: str, held: pa.ChunkedArray) -> str:
    example = held.drop_null()[0].as_py()
    return (
        f"column {name!r} holds {now}, such as {example!r}, where the contract has {before}; bring "
        "its type back, or select again"
    )
