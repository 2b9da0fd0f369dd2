"""The content of ``selection.json``, the feature contract, as a typed object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    ValidationError,
    model_validator,
)

from chaffinch.errors import StorageError
from chaffinch.storage.column_names import nearest
from chaffinch.storage.files import FORMAT_VERSION, parse_json
from chaffinch.tasks.data.reselection_fit import NO_COLUMN
from chaffinch.tasks.data.roles import TargetType, labels_of
from chaffinch.tasks.settings.columns import ROW_ROLES, HistorySettings
from chaffinch.tasks.settings.reselection import FeatureKind
from chaffinch.tasks.statistics.bootstrap import Interval, SignTest
from chaffinch.tasks.statistics.verdict import Accuracy, is_nothing_to_select_from


class _Part(BaseModel):
    """A part of a contract, which may have been written by hand; unknown fields are kept."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", serialize_by_alias=True)


class DatasetRows(_Part):
    hash: Annotated[str, Field(pattern="^([0-9a-f]{64})?$")] = ""
    rows: int = 0
    rows_by_part: dict[str, int] = {}


class Target(_Part):
    name: str
    task: Literal["regression", "classification"]
    type: TargetType = "text"
    classes: list[str]

    @model_validator(mode="after")
    def _classes_are_of_the_type(self) -> Self:
        labels_of(self.classes, self.type)
        return self


class KeptFeature(_Part):
    name: str
    type: FeatureKind
    values: str | None = None
    missing: float | None = None
    quantiles: Annotated[list[FiniteFloat], Field(min_length=3, max_length=3)] | None = None
    baseline: float | str | None = None
    step: int | None = None
    categories: list[str] | None = None
    made_of: str | None = None  # the column of dates that it is a part of

    @property
    def kind(self) -> str:
        """``"category"``, ``"boolean"`` or ``"number"``; early contracts have no booleans."""
        return self.values or self.type

    @model_validator(mode="after")
    def _category_has_categories(self) -> Self:
        if self.type == "category" and self.categories is None:
            raise ValueError("a category must have categories")
        return self


class DroppedColumn(_Part):
    name: str
    reason: str = "left out"
    step: int | None = None


class Stability(_Part):
    index: float | None
    n_folds: int
    share_of_folds: dict[str, float]


class FinalModel(_Part):
    kind: str
    name: str = ""
    parameters: dict[str, Any] = {}


class SettingsOrigin(_Part):
    name: str


class PartLoss(_Part):
    all_features: float
    selected: float


class Metric(PartLoss):
    constant: float
    difference: float
    difference_percent: float | None = None


class Comparison(_Part):
    difference: float
    interval: Interval | None
    confidence: float
    units: int
    verdict: str
    constant_loss: float | None = None
    over_constant: Interval | None = None
    all_features_over_constant: Interval | None = None
    tolerance: float | None = None
    share_lost_at_most: float | None = None
    explained: Interval | None = None
    sentence: str
    leaks: list[str] = []
    sign_test: SignTest | None = None
    sign_test_over_constant: SignTest | None = None
    accuracies: dict[str, Accuracy] = {}

    @property
    def is_nothing_to_select_from(self) -> bool:
        intervals = self.over_constant, self.all_features_over_constant
        return is_nothing_to_select_from(intervals, self.units, self.accuracies)


class Costs(_Part):
    kept: float
    all: float
    loss_per_cost_saved: float | None


class _Columns(_Part):
    split: str | None = None
    weight: str | None
    group: str | None
    time: str | None


class _Kind(_Part):
    kind: str


class _Settings(_Part):
    columns: _Columns
    method: _Kind
    history: HistorySettings | None = None


class _ReadSettings(_Part):
    """What every reader takes from the settings, which of an earlier release may be invalid."""

    settings: _Settings


def _each_once(names: list[str]) -> list[str]:
    counted = Counter(names).most_common(1)
    if counted and counted[0][1] > 1:
        raise ValueError(f"{counted[0][0]!r} is named twice")
    return names


def _each_feature_once(features: list[KeptFeature]) -> list[KeptFeature]:
    _each_once([feature.name for feature in features])
    return features


class Contract(_Part):
    """The content of ``selection.json``: fields in the order of the file.

    Fields that have a default are absent in contracts of earlier writers, or for other methods.
    `settings` are plain JSON, since those of an earlier release may be invalid.
    """

    format_version: int = FORMAT_VERSION
    format: str = ""
    dataset: DatasetRows = DatasetRows()
    target: Target
    kept: Annotated[
        list[KeptFeature], Field(alias="features", min_length=1), AfterValidator(_each_feature_once)
    ]
    table_order: list[str] = []
    zoned: list[str] | None = None
    dropped: list[DroppedColumn] = []
    candidates: Annotated[list[str], AfterValidator(_each_once)]
    stability: Stability | None = None
    model: FinalModel
    loss: str
    warnings: list[str]
    notes: list[str] = []
    settings: dict[str, Any]
    settings_file: SettingsOrigin | None = None
    seed: int
    versions: dict[str, Any]
    costs: Costs | None = None
    judged_on: str = "test"
    losses: dict[str, PartLoss]
    comparison: Comparison
    metrics: dict[str, Metric] = {}
    class_shares: dict[str, float] = {}

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """Return the contract in JSON; raise ValueError with its first problem."""
        try:
            _ReadSettings.model_validate_json(content)
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
            raise ValueError(f"{reason.removeprefix(': '):.300}") from error

    @classmethod
    def read(cls, content: bytes, path: Path) -> Self:
        """Return the contract in the bytes of the ``selection.json`` at `path`."""
        parse_json(content, path, {})
        try:
            return cls.parse(content)
        except ValueError as error:
            raise StorageError(f"{path} is damaged ({error}); remove it and run again") from error

    @property
    def features(self) -> list[str]:
        """Kept features, in the table's order."""
        names = [feature.name for feature in self.kept]
        return self.table_order if sorted(self.table_order) == sorted(names) else names

    @property
    def types(self) -> dict[str, FeatureKind]:
        """The type of each kept feature, sorted by name."""
        return {feature.name: feature.type for feature in self.kept}

    @property
    def kinds(self) -> dict[str, str]:
        """What each kept feature holds: ``"number"``, ``"boolean"`` or ``"category"``."""
        return {feature.name: feature.kind for feature in self.kept}

    @property
    def made_of(self) -> dict[str, str]:
        """The column of dates of each kept feature that is a part of one."""
        return {feature.name: feature.made_of for feature in self.kept if feature.made_of}

    @property
    def zones(self) -> dict[str, bool]:
        """Whether the times of each column that features are made of or ordered by had a zone.

        Empty for contracts of earlier writers.
        """
        time = self.settings["columns"]["time"] if self.settings.get("history") else None
        names = {*self.made_of.values(), *([] if time is None else [time])}
        return {} if self.zoned is None else {name: name in self.zoned for name in names}

    @property
    def numeric(self) -> tuple[str, ...]:
        """The columns that were named as numeric."""
        named = self.settings["columns"].get("numeric")
        return tuple(named) if isinstance(named, list) else ()

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The categories of each kept feature that has some, in the order of their codes."""
        return {
            feature.name: tuple(feature.categories or ())
            for feature in self.kept
            if feature.type == "category"
        }

    @property
    def steps(self) -> dict[str, int]:
        """The step at which each candidate leaves, of those that leave at steps of their own."""
        columns: list[KeptFeature | DroppedColumn] = [*self.kept, *self.dropped]
        return {column.name: column.step for column in columns if column.step is not None}

    @property
    def judged_losses(self) -> PartLoss:
        """The losses that the comparison is of."""
        return self.losses[self.judged_on]

    def gone_from(
        self, newer: Contract, kinds: Mapping[str, str], categories: Mapping[str, Collection[str]]
    ) -> dict[str, str]:
        """Return which kept features the newer rows lack, and why.

        `kinds` are "number", "boolean" or "category" of the newer rows' features, `categories` the
        categories that they have.
        """
        reasons = {column.name: column.reason for column in newer.dropped}
        for role in ROW_ROLES:
            reasons[newer.settings["columns"].get(role)] = f"the {role} column now"
        gone = {}
        for feature in self.kept:
            name, kind = feature.name, feature.kind
            now = kinds.get(name, kind)
            # a database may write true and false as 1 and 0; early contracts call both numbers
            is_alike = {kind, now} <= {"number", "boolean"} and feature.values != "number"
            if name not in newer.candidates:
                renamed = nearest(name, sorted({*newer.candidates} - {*self.candidates}))
                gone[name] = reasons.get(name) or f"{NO_COLUMN}{renamed}"
            elif kind != now and not is_alike:
                gone[name] = f"was a {kind}, is a {now} now"
            elif name in categories and set(categories[name]).isdisjoint(feature.categories or ()):
                gone[name] = "has none of its former categories now"
        return gone

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``selection.json`` as a new dictionary of plain values."""
        return self.model_dump(mode="json", exclude_unset=True)
