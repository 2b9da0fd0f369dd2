"""Data-quality warnings of a table, each a sentence.

Warnings do not stop a run. They include duplicate rows, which can be in both training and test
sets, equal columns, and possible leaks (see `perfect_predictors`).
"""

import hashlib
import re
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.column_names import quoted
from chaffinch.tasks.data.arrow import NUMBER, are_beyond_exact
from chaffinch.tasks.data.column_profile import ColumnProfile, is_badly_scaled
from chaffinch.tasks.data.lag_features import lag_feature_names
from chaffinch.tasks.data.perfect_predictors import PerfectPredictors
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.models import kind_of
from chaffinch.tasks.settings.selection import SelectionSettings

_WHOLE, _CODE = re.compile(r"\s*[+-]?[0-9]+\s*"), re.compile(r"\s*[+-]?0[0-9]+\s*")
_MUCH_MISSING = 0.5
_NEARLY_ALL = 0.9
_RARE_CLASS = 0.01
_MUCH_OF_SQUARES, _FEWEST_FOR_OUTLIER = 0.5, 30
# largest number of sets of equal features with a warning each
_NAMED = 5
# Numbers that often stand for a missing value. One is warned of if it is an extreme, in some rows,
# and either the only number below 0, or more distant from the others than five times their range:
# counts, amounts and ages that happen to be 99 or 999 have others on the way there.
_SENTINELS = {-9, -99, -999, -9999, -99999, 99, 999, 9999, 99999, 999999}
_FEWEST_SENTINELS, _FEWEST_OTHERS, _FAR = 3, 3, 5
_IDENTIFIER_NAME = re.compile(r"(?i:(^|[^a-z])(id|uuid|guid|key|index)$)|[a-z](Id|ID)$")
# not divisible by 2, so that the multiplication loses no bit of a hash
_ODD = np.uint64(0x9E3779B97F4A7C15)
_BLOCK = 2**20  # rows that are hashed at a time

# singular, plural, and what is true of the features named
_PREDICTS = (
    "feature predicts",
    "features predict",
    "the target, or one of its classes, without the others: {}; make sure that this is known "
    "before the target is",
)
_PREDICTS_NUMBERS = (*_PREDICTS[:2], _PREDICTS[2].replace(", or one of its classes,", ""))
_VOUCHED = (
    "feature on the keep list predicts",
    "features on the keep list predict",
    "the target, or one of its classes, without the others: {}; it counts as known before the "
    "target is",
)
_IDENTIFIER = (
    "feature looks",
    "features look",
    "like an identifier: {}; drop what only numbers the rows",
)
_NEARLY_ALL_DIFFERENT = (
    "feature has",
    "features have",
    "another category in nearly every row: {}; drop what only names the rows",
)
_ONE_VALUE = (
    "feature has",
    "features have",
    "a value in one row alone: {}; drop what is missing in all the others",
)
_MISSING = ("feature is", "features are", "missing in more than half of the rows: {}")
_RARE = ("class has", "classes have", "less than 1 % of the rows: {}")
_BADLY_SCALED = (
    "feature varies",
    "features vary",
    "too little, or too little for such large numbers, for models that compute in 32 bits: {}; "
    "subtract the mean and divide by the standard deviation",
)
_WITH_ZEROS = (
    "feature is",
    "features are",
    "taken as categories, for the whole numbers have leading zeros or are beyond 2^53: {}; name as "
    "numeric what is a quantity, and as categorical what is not",
)
_MOSTLY_NUMBERS = (
    "feature is",
    "features are",
    "taken as categories though most rows hold numbers; here with the most frequent other text: "
    "{}; leave such text empty where it stands for a missing value, or name the column as "
    "categorical",
)


def _outlier(y: Floats, target: str) -> Iterator[str]:
    """Yield a warning of a value of the target that decides every mean of squared errors."""
    squares = np.square(y - np.median(y))
    total, largest = squares.sum(), int(squares.argmax())
    if len(y) >= _FEWEST_FOR_OUTLIER and squares[largest] > _MUCH_OF_SQUARES * total:
        yield (
            f"one value of target {target!r}, {y[largest]:.6g}, makes up "
            f"{squares[largest] / total:.1%} of its squared deviations from the median; correct "
            "it if it is wrong, or give the loss absolute_error"
        )


def _sentinel(row: ColumnProfile, numbers: Floats) -> Iterator[str]:
    """Yield a warning of a number that seems to stand for a missing value."""
    for value in _SENTINELS & {end for end in (row.minimum, row.maximum) if end is not None}:
        is_it = numbers == value
        others = np.unique(numbers[~is_it & ~np.isnan(numbers)])
        n_rows = int(is_it.sum())
        if n_rows < _FEWEST_SENTINELS or len(others) < _FEWEST_OTHERS:
            continue
        low, high = float(others[0]), float(others[-1])
        gap = low - value if value < low else value - high
        if value < 0 <= low or gap > _FAR * (high - low):
            yield (
                f"column {row.name!r} is {value:.0f} in {n_rows} rows, and from {low:.6g} to "
                f"{high:.6g} in the others; if that stands for a missing value, leave it empty, or "
                f"read CSV with #na={value:.0f}"
            )


class Findings:
    """Collector of data-quality warnings over the features; it keeps no feature in memory."""

    def __init__(
        self,
        y: NDArray[np.float64] | NDArray[np.int64],
        classes: tuple[str, ...],
        settings: SelectionSettings,
    ) -> None:
        from pandas.util import hash_array

        self._hash_array: Callable[[Floats], NDArray[np.uint64]] = hash_array
        self._predictors = PerfectPredictors(y)
        self._lag_features = lag_feature_names(settings)  # they cannot leak the target
        self._settings, self._has_classes = settings, bool(classes)
        self._has_lag_features = False
        self._rows = self._hash_array(y + 0.0)
        self._columns: dict[bytes, list[str]] = {}
        self._names: dict[tuple[str, str, str], list[str]] = {}
        self._leaks: list[str] = []
        self._but_for_blanks = [settings.target] if _differ_in_blanks(classes) else []
        self._of_target: list[str] = []
        self._sentinels: list[str] = []
        if classes:
            shares = np.bincount(y.astype(np.int64)) / len(y)
            for name, share in zip(classes, shares, strict=True):
                self._note(_RARE, name, share < _RARE_CLASS)
        elif settings.loss != "absolute_error":
            self._of_target += _outlier(y.astype(np.float64), settings.target)

    def add(self, row: ColumnProfile, numbers: Floats, categories: tuple[str, ...]) -> bool:
        """Note the warnings about a feature; return whether it is left out as a leak."""
        is_lag_feature = row.name in self._lag_features
        is_predictor = not is_lag_feature and self._predictors.predicts(numbers, len(categories))
        columns = self._settings.columns
        if is_predictor and columns.drop_leaks and row.name not in columns.keep:
            return True
        content = hashlib.sha256(repr(categories).encode())
        for start in range(0, len(numbers), _BLOCK):  # no copy of a column of many rows
            rows = slice(start, start + _BLOCK)
            block = numbers[rows] + 0.0  # -0.0 becomes 0.0
            content.update(block.data)
            self._rows[rows] = self._rows[rows] * _ODD + self._hash_array(block)
        self._columns.setdefault(content.digest(), []).append(row.name)
        name, n_present = row.name, row.rows - row.missing
        self._has_lag_features = self._has_lag_features or is_lag_feature
        if is_predictor and name not in columns.keep:
            self._note(_PREDICTS if self._has_classes else _PREDICTS_NUMBERS, name, True)
            if self._predictors.predicts(numbers, len(categories), whole=True):
                self._leaks.append(name)
        self._note(_VOUCHED, name, is_predictor and name in columns.keep)
        self._note(_ONE_VALUE, name, n_present == 1)
        is_name = bool(categories) and (row.distinct or 0) > _NEARLY_ALL * n_present
        self._note(_NEARLY_ALL_DIFFERENT, name, is_name and n_present > 1)
        self._note(_MISSING, name, n_present > 1 and row.missing > _MUCH_MISSING * row.rows)
        if row.type in ("int64", "float64") and not is_lag_feature:
            self._sentinels += _sentinel(row, numbers)
        self._note(_IDENTIFIER, name, _looks_like_identifier(row))
        self._note(_BADLY_SCALED, name, is_badly_scaled(row))
        if name not in self._settings.columns.categorical:
            self._note(_WITH_ZEROS, name, _are_codes(categories))
            other = frequent_text(numbers, categories)
            self._note(_MOSTLY_NUMBERS, f"{name!r} ({other!r})", other is not None)
        if _differ_in_blanks(categories):
            self._but_for_blanks.append(name)
        return False

    @property
    def leaks(self) -> tuple[str, ...]:
        """Features that alone determine the whole target, but for those to keep."""
        return tuple(sorted(self._leaks))

    def notes(self) -> Iterator[str]:
        """Yield what a setting declares as intended, so that it is no warning."""
        yield from self._sentences(_VOUCHED)

    def _note(self, kind: tuple[str, str, str], name: str, holds: bool) -> None:
        if holds:
            self._names.setdefault(kind, []).append(name)

    def add_target(self, row: ColumnProfile, numbers: Floats) -> None:
        self._of_target += _sentinel(row, numbers)
        if is_badly_scaled(row):
            self._of_target.append(
                f"target {row.name!r} has the standard deviation {row.standard_deviation:.3g} and "
                f"the mean {row.mean:.3g}, of which models that compute in 32 bits see little: "
                "subtract the mean and divide by the standard deviation"
            )

    def warnings(self) -> tuple[str, ...]:
        """Return the warnings, the most severe first."""
        warnings = [*self._sentences(_PREDICTS), *self._sentences(_PREDICTS_NUMBERS)]
        warnings += self._of_target
        warnings += self._filled_across_series()
        n_rows = len(self._rows)
        self._rows.sort()  # in place: rows may be many
        duplicates = int(np.count_nonzero(self._rows[1:] == self._rows[:-1]))
        if duplicates:
            warnings.append(
                f"{duplicates} of {n_rows} rows equal an earlier row in the target and every "
                "feature; equal rows can stand in training and test at once"
            )
        equal = sorted(sorted(names) for names in self._columns.values() if len(names) > 1)
        warnings += [f"features {quoted(names)} are equal in every row" for names in equal[:_NAMED]]
        if equal[_NAMED:]:
            warnings.append(f"{len(equal) - _NAMED} more sets of features are equal in every row")
        for kind in (
            _IDENTIFIER,
            _NEARLY_ALL_DIFFERENT,
            _ONE_VALUE,
            _MISSING,
            _RARE,
            _BADLY_SCALED,
            _WITH_ZEROS,
        ):
            warnings += self._sentences(kind)
        warnings += self._sentences(_MOSTLY_NUMBERS, lambda names: ", ".join(names[:_NAMED]))
        warnings += sorted(self._sentinels)[:_NAMED]
        if self._sentinels[_NAMED:]:
            n_more = len(self._sentinels) - _NAMED
            warnings.append(f"{n_more} more columns hold such numbers, as -999, for missing values")
        if self._but_for_blanks:
            warnings.append(
                "there are categories that differ only in the blanks around them: in "
                f"{quoted(sorted(self._but_for_blanks))}; take the blanks away if they are the same"
            )
        return tuple(warnings)

    def _sentences(
        self, kind: tuple[str, str, str], phrase: Callable[[list[str]], str] = quoted
    ) -> Iterator[str]:
        singular, plural, rest = kind
        if names := self._names.get(kind):
            words = phrase(sorted(names))  # the order of the columns changes no text
            yield f"{len(names)} {singular if len(names) == 1 else plural} {rest}".format(words)

    def _filled_across_series(self) -> Iterator[str]:
        history, model = self._settings.history, self._settings.model.name
        if history is None or history.series is None:
            return
        if kind_of(model).imputes and self._has_lag_features:
            yield (
                "in the first rows of each series the features made of earlier ones are missing, "
                f"and the model {model} takes the mean over all series for them; take a model that "
                "sees what is missing, such as lightgbm"
            )


def _looks_like_identifier(row: ColumnProfile) -> bool:
    if row.type != "int64" or row.distinct != row.rows - row.missing or row.distinct == 1:
        return False
    if row.distinct is None or row.minimum is None or row.maximum is None:
        return False
    sequential = row.maximum - row.minimum == row.distinct - 1
    return sequential or _IDENTIFIER_NAME.search(row.name) is not None


def _are_codes(categories: tuple[str, ...]) -> bool:
    """Return whether the categories are whole numbers, some with leading zeros or beyond 2^53."""
    has_zero = any(map(_CODE.fullmatch, categories))
    are_codes = has_zero and all(map(_WHOLE.fullmatch, categories))
    return are_codes or are_beyond_exact(categories)


def frequent_text(codes: Floats, categories: tuple[str, ...]) -> str | None:
    """Return the most frequent text that is not a number if most rows hold numbers, or None."""
    is_plain = np.array([NUMBER.fullmatch(text.strip()) is not None for text in categories], bool)
    if is_plain.all():
        return None
    counts = np.bincount(codes[~np.isnan(codes)].astype(np.int64), minlength=len(categories))
    if 2 * counts[is_plain].sum() <= counts.sum():
        return None
    return categories[int(np.argmax(np.where(is_plain, 0, counts)))]


def _differ_in_blanks(categories: tuple[str, ...]) -> bool:
    return len({category.strip() for category in categories}) < len(categories)
