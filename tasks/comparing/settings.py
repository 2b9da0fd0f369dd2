"""Settings of a comparison: one pydantic model for form, command and Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, field_validator, model_validator

from chaffinch.tasks.settings.base import (
    FEWEST_FOLDS,
    MOST_FOLDS,
    Count,
    Name,
    Settings,
    Size,
    setting,
)
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.constraints import (
    MaybeConstraints,
    constraints_setting,
)
from chaffinch.tasks.settings.method import AnyMethod, Method, declared, form_of_methods, method_of
from chaffinch.tasks.settings.selection import (
    TASK_IN_WORDS,
    TOLERANCE,
    TOLERANCE_IN_WORDS,
    Baseline,
    ModelSettings,
    SelectionSettings,
    TaskOrAuto,
    Tolerance,
)

if TYPE_CHECKING:
    from chaffinch.tasks.data.splitting.outer_folds import OuterFolds

_RIVALS = ("auto", "gbmo", "select_from_model", "permutation")


class ComparisonSettings(Settings):
    """Everything that can change the result of a comparison."""

    model_config = ConfigDict(json_schema_extra=form_of_methods("methods"))

    target: Name = Field(description="Column to predict.")
    methods: tuple[AnyMethod, ...] = setting(
        _RIVALS,
        "What to compare; every feature kept is always among it. Of the default ones those that "
        "take sample weights, where there are some.",
        min_length=1,
        validate_default=True,
    )
    models: tuple[ModelSettings, ...] = setting(
        (ModelSettings(),), "Models to select for and to retrain.", min_length=1
    )
    folds: Annotated[int, Field(ge=FEWEST_FOLDS, le=MOST_FOLDS)] = setting(
        5, "Outer folds: each is scored by what was selected without it."
    )
    seeds: Count = setting(
        3,
        "How often the folds are dealt again, with the seeds from 0 on; in time order once, since "
        "there is one way to deal them.",
    )
    sizes: tuple[Size, ...] = setting(
        (),
        "Numbers of features, or shares of all, at which each method that can be asked for a "
        "number is scored besides its own choice.",
    )
    columns: ColumnSettings = setting(ColumnSettings(), "What columns are for.")
    task: TaskOrAuto = setting("auto", TASK_IN_WORDS)
    loss: str | None = setting(
        None,
        "squared_error, absolute_error, log_loss, or a scikit-learn scorer's name, negated. "
        "By default squared error for regression, log loss for classes.",
    )
    baseline: Baseline = setting("mean", "What a masked feature is set to: mean, median or zero.")
    tolerance: Tolerance = setting(TOLERANCE, TOLERANCE_IN_WORDS)
    constraints: MaybeConstraints = constraints_setting()

    @model_validator(mode="before")
    @classmethod
    def _default_methods_with_weights(cls, values: Any) -> Any:
        """With a weight column, restrict the default methods to those that support weights."""
        if not isinstance(values, Mapping) or "methods" in values:
            return values
        columns = values.get("columns")
        roles = columns if isinstance(columns, Mapping) else vars(columns) if columns else {}
        if not roles.get("weight"):
            return values
        rivals = [name for name in _RIVALS if declared(name).traits.takes_weights]
        return {**values, "methods": rivals}

    @field_validator("methods", mode="before")
    @classmethod
    def _methods_by_name(cls, value: Any) -> Any:
        return _refuse_duplicates("method", [method_of(method) for method in _as_list(value)])

    @field_validator("models", mode="before")
    @classmethod
    def _models_by_name(cls, value: Any) -> Any:
        for model in _as_list(value):
            if hasattr(model, "fit"):
                raise ValueError(
                    f"a comparison takes models by name but one is an estimator, {model!r}; give "
                    f"ModelSettings(name={type(model).__name__!r}, parameters=...)"
                )
        named = [ModelSettings(name=m) if isinstance(m, str) else m for m in _as_list(value)]
        return _refuse_duplicates("model", named)

    @model_validator(mode="after")
    def _check_selections(self) -> ComparisonSettings:
        if self.columns.split is not None:
            raise ValueError(
                f"a comparison makes its own folds; leave out split {self.columns.split!r}"
            )
        for model in self.models:
            for method in self.methods:
                self.selection(model, 0, method)
        return self

    @property
    def n_seeds(self) -> int:
        """Number of seeds with different folds."""
        return 1 if self.columns.time else self.seeds

    @property
    def outer_folds(self) -> OuterFolds:
        """Outer folds of every table."""
        from chaffinch.tasks.data.splitting.outer_folds import OuterFolds

        selections = tuple(self.selection(model, 0) for model in self.models)
        return OuterFolds(self.folds, self.n_seeds, selections, self.methods)

    def selection(
        self, model: ModelSettings, seed: int, method: Method | None = None
    ) -> SelectionSettings:
        """Return the settings of a selection; without a method, those that all share."""
        return SelectionSettings(
            target=self.target,
            task=self.task,
            method=method_of("gbmo") if method is None else method,
            model=model,
            columns=self.columns,
            constraints=self.constraints,
            loss=self.loss,
            baseline=self.baseline,
            seed=seed,
        )


def _as_list(value: Any) -> list[Any]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def _refuse_duplicates(what: str, values: list[Any]) -> tuple[Any, ...]:
    names = [getattr(value, "kind", None) or getattr(value, "name", None) for value in values]
    for name in names:
        if name is not None and names.count(name) > 1:
            raise ValueError(f"{what} {name} is given {names.count(name)} times; give it once")
    return tuple(values)
