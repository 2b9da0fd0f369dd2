"""Settings of a selection: pydantic models for the UI form, the command line and Python.

`SelectionSettings` is everything that can change a result and nothing else, so that two runs with
equal settings on equal rows have equal results. `ExecutionSettings` is where and how fast.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PrivateAttr, field_validator, model_validator

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.selection.limits import Tuning
from chaffinch.tasks.settings.alternatives import (
    GREEDY,
    WEIGHTED,
    AlternativeSettings,
    AlternativesInput,
    alternatives_of,
)
from chaffinch.tasks.settings.base import (
    FEWEST_FOLDS,
    MOST_FOLDS,
    STARTED_HERE,
    Cluster,
    Name,
    Settings,
    StorePath,
    WorkerCount,
    setting,
)
from chaffinch.tasks.settings.columns import ROW_ROLES, ColumnSettings, HistorySettings
from chaffinch.tasks.settings.constraints import (
    MaybeConstraints,
    constraints_setting,
)
from chaffinch.tasks.settings.method import (
    PERCENT,
    AnyMethod,
    declared,
    form_of_methods,
    method_of,
    rankings,
)
from chaffinch.tasks.settings.reselection import Reselect

TaskOrAuto = Literal["auto", "regression", "classification"]
TASK_IN_WORDS = "What the target is; auto takes text and at most 20 whole numbers as classes."
BaselineKind = Literal["mean", "median", "minimum", "zero"]
BaselineValues = Annotated[
    dict[str, float | str],
    Field(title="Values", description="Values by feature; the other features get their mean."),
]
Baseline = Annotated[BaselineKind, Field(title="Statistic")] | BaselineValues

Tolerance = Annotated[float, Field(ge=0, le=1)]
TOLERANCE = 0.02
TOLERANCE_IN_WORDS = (
    "Share of what all features explain beyond a constant that a smaller set may lose and still be "
    "as good."
)

_Percent = Annotated[int, Field(ge=1, le=97)]
_FewestRows = Annotated[int, Field(ge=1000)]
MASK_ROWS = 500_000


class ModelSettings(Settings):
    """The model whose mask is optimised and which is retrained on the selection."""

    name: str = setting(
        "lightgbm",
        "lightgbm, xgboost, catboost, mlp, linear, pefs-network, or the name of a scikit-learn "
        "estimator such as RandomForestClassifier. pefs-network is the network that the search of "
        "method pefs has trained.",
    )
    parameters: dict[str, Any] = setting(
        {}, 'Fixed hyper-parameters, by the library\'s own names, as JSON: {"num_leaves": 15}.'
    )
    tuning: Tuning = setting(
        "small",
        "Hyper-parameter grid tried by cross-validation: a small one, that of a paper, or none; "
        "paper is 20 draws of paper:bmo.",
    )
    folds: Annotated[int, Field(ge=FEWEST_FOLDS, le=MOST_FOLDS)] = setting(
        5,
        "Folds of the cross-validation that tunes the model, and of auto and rfecv; auto needs at "
        "least 3.",
    )
    tuning_rows: _FewestRows = setting(1_000_000, "Tune on at most this many of the training rows.")

    @field_validator("parameters")
    @classmethod
    def _are_json(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return numbers of numpy as numbers of Python; refuse values that are not JSON."""
        plain = {
            name: value.tolist() if hasattr(value, "tolist") else value
            for name, value in parameters.items()
        }
        for name, value in plain.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                raise ValueError(
                    f"model parameter {name!r} must be a JSON value, with finite numbers, but is "
                    f"{short_repr(value)}"
                ) from error
        return plain


class SelectionSettings(Settings):
    """Everything that can change the result of a selection."""

    model_config = ConfigDict(json_schema_extra=form_of_methods("method"))

    target: Name = Field(description="Column to predict.")
    method: AnyMethod = setting(
        "auto",
        "How the features are chosen; each way has settings of its own.",
        validate_default=True,
    )
    model: ModelSettings = setting(ModelSettings(), "The model and its tuning.")
    task: TaskOrAuto = setting("auto", TASK_IN_WORDS)
    columns: ColumnSettings = setting(ColumnSettings(), "What columns are for.")
    alternatives: AlternativeSettings | None = setting(
        None,
        "Feature sets that differ from the chosen one, each as good as it can be; by default none.",
    )
    loss: str | None = setting(
        None,
        "squared_error, absolute_error, log_loss, or a scikit-learn scorer's name, negated. "
        "By default squared error for regression, log loss for classes.",
    )
    baseline: Baseline = setting(
        "mean",
        "What a masked feature is set to: mean, median or minimum of the training rows, or zero; a "
        "masked category becomes the most frequent one.",
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = setting(
        0, "The only source of randomness: one seed in, one result out."
    )
    history: HistorySettings | None = setting(
        None, "Features made of earlier rows, for tables in time order; by default none."
    )
    shares: tuple[_Percent, ...] = setting(
        PERCENT,
        "Percent of the rows to train on, for mask validation, for model validation and for the "
        "test, in time order the earliest first; AFS-BM's published runs have 50,20,20,10. Method "
        "auto develops on the first three together.",
        min_length=4,
        max_length=4,
    )
    tolerance: Tolerance = setting(TOLERANCE, TOLERANCE_IN_WORDS)
    search_rows: _FewestRows | None = setting(
        None,
        "Tune and search on at most this many of the rows outside the test part, in time order "
        "the latest of each part; without a test part these judge. The final models are fitted on "
        "all. By default on all rows.",
    )
    mask_rows: _FewestRows = setting(
        MASK_ROWS,
        "Compute masked losses on at most this many rows, and of each fold of auto judge on no "
        "more. A mean loss over n rows has a standard error of 1/sqrt(n) of their deviation.",
    )
    price_columns: bool = setting(
        False,
        "Price each kept column by models fitted again without it, of at most 200: a fit for each, "
        "and with folds one for each fold. By default by masking it, which costs no fit.",
    )
    constraints: MaybeConstraints = constraints_setting()

    @property
    def former(self) -> Reselect | None:
        """The former run that a reselection begins with; None for any other method."""
        return self.method if isinstance(self.method, Reselect) else None

    @field_validator("model", mode="before")
    @classmethod
    def _model_by_name(cls, value: Any) -> Any:
        return ModelSettings(name=value) if isinstance(value, str) else value

    @field_validator("alternatives", mode="before", json_schema_input_type=AlternativesInput)
    @classmethod
    def _alternatives_of_number(cls, value: Any) -> Any:
        if isinstance(value, dict) and "number" not in value:
            reason = f"{', '.join(value)} is for alternatives but none are asked for"
            raise ValueError(
                f"{reason if value else 'alternatives have no number'}; say how many, as in "
                "--alternatives 3, or by the number of AlternativeSettings"
            )
        return alternatives_of(value)

    @field_validator("shares")
    @classmethod
    def _sum_to_100(cls, shares: tuple[int, ...]) -> tuple[int, ...]:
        if sum(shares) != 100:
            listed = ", ".join(map(str, shares))
            raise ValueError(f"shares must add up to 100 but are {listed}, in all {sum(shares)}")
        return shares

    @model_validator(mode="after")
    def _time_is_named(self) -> "SelectionSettings":
        if self.columns.time is not None:
            return self
        if self.columns.embargo is not None:
            raise ValueError("an embargo needs a time column; name it, or leave the embargo out")
        if self.history is not None:
            raise ValueError(
                "lags and rolling windows need time order; name the time column, as in --time day"
            )
        return self

    @model_validator(mode="after")
    def _constraints_fit(self) -> "SelectionSettings":
        constraints = self.constraints
        has_limit = constraints is not None and constraints.budget is not None
        for group in () if constraints is None else constraints.groups:
            dropped = set(group.features).intersection(self.columns.drop)
            if group.all_or_none and 0 < len(dropped) < len(group.features):
                raise ValueError(
                    f"{group.label} has all_or_none but {min(dropped)!r} is named to drop; drop "
                    "all of the group, or take it out of the group"
                )
            if self.alternatives and has_limit and group.cost and not group.has_linear_cost:
                raise ValueError(
                    f"{group.label} has a cost that is paid once, which alternatives can count "
                    "only with all_or_none or at_most 1; give costs of features, or leave out "
                    "alternatives"
                )
        return self

    @model_validator(mode="after")
    def _target_has_one_role(self) -> "SelectionSettings":
        c = self.columns
        series = None if self.history is None else self.history.series
        for role, names in (
            ("series", (series,)),
            ("keep", c.keep),
            ("drop", c.drop),
            *((role, (getattr(c, role),)) for role in ROW_ROLES),
        ):
            if self.target in names:
                raise ValueError(
                    f"target {self.target!r} is named for {role} as well; name it once"
                )
        return self

    @model_validator(mode="after")
    def _method_fits(self) -> "SelectionSettings":
        self.method.check_tuning(self.model.tuning)
        fewest = self.method.traits.fewest_folds
        if self.model.folds < fewest:
            raise ValueError(
                f"folds must be at least {fewest} for method {self.method.kind} "
                f"but is {self.model.folds}; use more folds, or another method"
            )
        alternatives, weight, split = self.alternatives, self.columns.weight, self.columns.split
        if split is not None and (self.shares != PERCENT or not self.method.has_test_part(self, 0)):
            other = "shares are given" if self.shares != PERCENT else "validation is folds"
            raise ValueError(
                f"split {split!r} names the test rows but {other}; leave out one of them"
            )
        if not self.method.has_test_part(self, 0) and self.shares != PERCENT:
            raise ValueError(
                "shares are for a test part but validation is folds; leave out shares, or set "
                "validation to holdout"
            )
        if alternatives is not None and weight and alternatives.quality not in WEIGHTED:
            raise ValueError(
                f"quality {alternatives.quality} takes no sample weights; leave out the weight "
                f"column {weight!r}, or use {', '.join(WEIGHTED[:-1])} or {WEIGHTED[-1]}"
            )
        has_rules = self.constraints is not None and (
            self.constraints.groups or self.constraints.budget is not None
        )
        is_free = not self.columns.keep and not has_rules
        if alternatives is not None and alternatives.search in GREEDY and not is_free:
            raise ValueError(
                f"search {alternatives.search} takes no columns to keep, groups or budget; use "
                "sequential or simultaneous"
            )
        if weight and not self.method.traits.takes_weights:
            others = [kind for kind in rankings() if declared(kind).traits.takes_weights]
            raise ValueError(
                f"method {self.method.kind} takes no sample weights; leave out the weight column "
                f"{weight!r}, or use {', '.join(others[:-1])} or {others[-1]}"
            )
        return self


def published_form(settings: SelectionSettings) -> SelectionSettings:
    """Return settings with the form of the method's paper in place of our defaults.

    Raises
    ------
    InputError
        If the method has no form of a paper that departs from our defaults.
    """
    method, alternatives = settings.method, settings.alternatives
    published = dict(method.published)
    if alternatives is not None:
        published |= {f"alternatives.{name}": v for name, v in alternatives.published.items()}
    if not published:
        raise InputError(
            f"method {method.kind} has no published form of its own; leave out as_published"
        )
    by_default = {
        "": {name: field.default for name, field in SelectionSettings.model_fields.items()},
        "method": dict(method_of(method.kind)),
        "alternatives": dict(AlternativeSettings(number=1)),
    }
    values = {"": dict(settings), "method": dict(method), "alternatives": dict(alternatives or {})}
    for path, value in published.items():
        group, _, name = path.rpartition(".")
        if values[group][name] == by_default[group][name]:
            values[group][name] = value
    changed = {**values[""], "method": type(method)(**values["method"])}
    if alternatives is not None:
        changed["alternatives"] = AlternativeSettings(**values["alternatives"])
    return SelectionSettings(**changed)


class SettingsFile(Settings):
    """The file that settings come from, which the contract names."""

    model_config = ConfigDict(title="Settings file")

    name: str = setting(..., "Name of the file.")
    sha256: str = setting(..., "Hash of its content.", title="SHA-256")


class ExecutionSettings(Settings):
    """Where a run is kept, what computes it, when it stops; nothing here changes a result."""

    store: StorePath = setting(
        Path("chaffinch-store"),
        "Folder that keeps datasets and runs, or an address such as s3://bucket/prefix.",
    )
    cluster: Cluster = setting(
        "auto",
        "auto: this process, and worker processes on this machine once a step is long enough to "
        "gain by them; local: worker processes; none: this process alone; or the address of a Dask "
        "scheduler such as tcp://host:8786.",
    )
    workers: WorkerCount | None = setting(
        None, "Worker processes of a local cluster. By default one per core."
    )

    strict: bool = setting(
        False, "Fail before anything is trained if there are warnings about the table; exit code 3."
    )
    settings_file: SettingsFile | None = setting(
        None, "File that the settings come from; the contract names it."
    )

    _client: Any = PrivateAttr(None)

    @classmethod
    def with_client(cls, client: Any, **settings: Any) -> "ExecutionSettings":
        """Return settings by which a client of Dask computes, in place of a cluster."""
        execution = cls(cluster="none", **settings)
        execution._client = client
        return execution

    @property
    def client(self) -> Any:
        """The client of Dask that computes; None for the cluster of the settings."""
        return self._client

    @model_validator(mode="after")
    def _workers_are_needed(self) -> "ExecutionSettings":
        if self.workers is not None and self.cluster not in STARTED_HERE:
            raise ValueError(
                "workers must be left out unless cluster is local, whose processes they are, but "
                f"is {self.workers} with cluster {self.cluster}; leave it out, or set cluster to "
                "local"
            )
        return self
