"""One run of the pipeline: its inputs, and the results of its stages.

A stage takes the run and sets its results there. Results of an earlier process are read from the
files of the run at their first use.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.datasets.steps import ignored
from chaffinch.storage.files import parse_json
from chaffinch.storage.runs.stages import Checkpoints, StageRecord
from chaffinch.storage.runs.store import Run, Store
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.data.feature_constraints import feasible_masks
from chaffinch.tasks.data.matrix import load_roles, load_rows
from chaffinch.tasks.data.roles import labels_of, target_type
from chaffinch.tasks.data.splitting.custom_folds import CustomFolds
from chaffinch.tasks.data.splitting.splits import FINAL, PARTS, Roles, Splits, fold_indices
from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.data.stored_rows import StoredRows, StoredTable
from chaffinch.tasks.data.table_check import TableDescription
from chaffinch.tasks.methods.fitting import Fold, OnLeader, Recipe, loss_of, recipe_of
from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.methods.refits import Refit
from chaffinch.tasks.pipeline.memory import is_in_files
from chaffinch.tasks.pipeline.progress import OnProgress, as_progress, no_progress
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.fitted_estimators import fitted_model
from chaffinch.tasks.settings.identity import NO_CUSTOM_OBJECTS, CustomObjects
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.search_result import SearchResult
from chaffinch.tasks.settings.selection import SelectionSettings, SettingsFile
from chaffinch.tasks.statistics.bootstrap import resampling_units
from chaffinch.tasks.workers.interface import InProcess, OnDone, Workers

# Files of a run that are read back.
PROFILE_FILE = "profile.json"
SPLITS_FILE = "splits.parquet"
FOLDS_FILE = "folds.parquet"
PATH_FILE = "elimination.parquet"
OUT_OF_FOLD_FILE = "out_of_fold.parquet"
CONTRACT_FILE = "selection.json"
TRAINED_MODELS = "trained_models"  # folder of the models that a search trained
EXPLANATION_FILE = "explanation.json"

DESCRIPTION = TypeAdapter(TableDescription)
_FEW_CELLS = 2**20  # 8 MiB of numbers


@dataclass(frozen=True)
class LoadedTable:
    """All rows of a table as inputs of a model, with their other roles."""

    rows: Rows
    roles: Roles


class StageResults:
    """Results of the stages of a run; `records` has the finished stages by name."""

    def __init__(self, name: str, records: Iterable[StageRecord] = ()) -> None:
        self.name = name
        self.records = {record.stage: record for record in records}

    def result(self, stage: str) -> dict[str, Any]:
        return self.records[stage].result

    @property
    def seconds(self) -> dict[str, float]:
        return {name: record.seconds for name, record in self.records.items()}

    @cached_property
    def description(self) -> TableDescription:
        """Roles, classes and categories of the table's columns."""
        return DESCRIPTION.validate_json(self.records["describe"].read(PROFILE_FILE))

    @cached_property
    def custom_folds(self) -> CustomFolds | None:
        """Folds that a splitter of scikit-learn, or the caller, made; None without such."""
        record = self.records["split"]
        if FOLDS_FILE not in record.files:
            return None
        return CustomFolds.from_table(record.read_table(FOLDS_FILE))

    @cached_property
    def path(self) -> pa.Table:
        """The recorded search, a row per step."""
        return self.records["optimise_mask"].read_table(PATH_FILE)

    @cached_property
    def out_of_fold(self) -> pa.Table | None:
        """Predictions of the rows that folds held out; None unless the search made them."""
        record = self.records["optimise_mask"]
        return record.read_table(OUT_OF_FOLD_FILE) if OUT_OF_FOLD_FILE in record.files else None

    @property
    def search_result(self) -> SearchResult:
        """The result of the search, without the predictions."""
        facts = self.result("optimise_mask")
        return SearchResult(self.description.features, self.path, facts, files=self.trained_files)

    @cached_property
    def trained_files(self) -> Mapping[str, bytes]:
        """Files of the models that the search trained, by name."""
        return model_files(self.records["optimise_mask"], TRAINED_MODELS)

    @property
    def mask(self) -> Mask:
        """The chosen features, shape (d,)."""
        return np.array(self.result("choose_mask")["mask"], dtype=bool)

    @cached_property
    def contract(self) -> Contract:
        """The feature contract."""
        record = self.records["evaluate"]
        return Contract.read(record.read(CONTRACT_FILE), record.path(CONTRACT_FILE))

    @cached_property
    def explanation(self) -> dict[str, Any] | None:
        """What the report shows of the final model; None in runs of earlier releases."""
        record = self.records["evaluate"]
        if EXPLANATION_FILE not in record.files:
            return None
        return parse_json(record.read(EXPLANATION_FILE), record.path(EXPLANATION_FILE), {})


class SelectionRun(StageResults):
    """A run of the pipeline.

    Without `stored`, the folder of the run, results are kept in memory only. Runs share results in
    `store`. `custom` are objects instead of what the settings name.
    """

    part: pa.Array  # the part of each row, set by the stage that splits them
    report: ReportContent  # set by the last stage

    def __init__(
        self,
        settings: SelectionSettings,
        dataset: Dataset,
        *,
        name: str = "",
        stored: Run | None = None,
        store: Store | None = None,
        workers: Workers | None = None,
        on_progress: OnProgress = no_progress,
        custom: CustomObjects = NO_CUSTOM_OBJECTS,
        loaded: LoadedTable | None = None,
    ) -> None:
        super().__init__(name)
        self.settings, self.dataset = settings, dataset
        self.stored, self.store = stored, store
        self.workers = InProcess() if workers is None else workers
        self.progress, self.custom = as_progress(on_progress), custom
        self.custom_folds = custom.folds
        self.settings_file: SettingsFile | None = None
        self.source = ""  # name of the file or table that was read
        self.base_fit_seconds: float | None = None  # None if an earlier process fitted it
        # called with the position of tuning's best candidate so far
        self.on_leader: OnLeader | None = None
        self.on_fits: Callable[[Sequence[int]], None] | None = None  # see `Problem`
        self.promoted_as: str | None = None  # by default the name of that table
        self._loaded = loaded
        self._begun: dict[bytes, Generator[tuple[int, FittedModel], None, None]] = {}

    def with_method(self, method: Method) -> SelectionRun:
        """Return a run with the results so far and another method."""
        other = copy.copy(self)
        other.records = dict(self.records)
        other.settings = self.settings.model_copy(update={"method": method})
        return other

    @property
    def method(self) -> Method:
        return self.settings.method

    @property
    def schema(self) -> Schema:
        """Schema of the d candidate features."""
        return self.description.schema

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each feature: "number", "boolean" or "category"."""
        kinds = {"category": "category", "bool": "boolean"}
        return {n: kinds.get(self.dataset.columns[n], "number") for n in self.description.features}

    @cached_property
    def loss(self) -> Loss:
        scorer = self.custom.scorer
        if scorer is None:
            return loss_of(self.settings, self.schema)
        of_type = target_type(self.dataset.columns[self.settings.target])
        labels = labels_of(self.description.classes, of_type)
        return loss_of(self.settings, self.schema, scorer, labels or None)

    @cached_property
    def is_in_files(self) -> bool:
        """Whether rows are held in files, because they are a large share of the memory."""
        return is_in_files(self.dataset, self.settings)

    @cached_property
    def _search_is_in_memory(self) -> bool:
        """Whether the rows that the search reads are few of those in files, so that they fit."""
        n = self.settings.search_rows
        return n is not None and not is_in_files(self.dataset, self.settings, n)

    @cached_property
    def splits(self) -> Splits:
        """Row numbers of the sets."""
        part = part_of_rows(self.records["split"]).dictionary_encode()  # texts take 60 bytes a row
        codes, names = part.indices.fill_null(-1).to_numpy(), part.dictionary.to_pylist()
        of_part = [names.index(name) if name in names else len(names) for name in (*PARTS, FINAL)]
        return Splits(*(np.flatnonzero(codes == code) for code in of_part))

    @property
    def fitted_parts(self) -> tuple[str, ...]:
        """Sets that the final models are fitted on."""
        return *PARTS[: 3 if self.method.traits.is_cross_fitted else 2], FINAL

    @property
    def untuned_recipe(self) -> Recipe:
        """The model with the fixed hyper-parameters of the settings."""
        return recipe_of(self.settings, self.custom.estimator)

    @property
    def recipe(self) -> Recipe:
        """The model with the tuned hyper-parameters."""
        tuned = self.result("train_base_model")["parameters"]
        return replace(self.untuned_recipe, parameters=tuned)

    @property
    def has_base_model(self) -> bool:
        """Whether a base model is fitted.

        A cross-fitted method does not search with it, and of rows in files its fit would only delay
        the search: the final model on all features takes its place. So it does where the final
        models are fitted on other rows too.
        """
        if (record := self.records.get("train_base_model")) is not None:
            return "kind" in record.result
        is_apart = self._reads_files or len(self.splits.final)
        return bool(len(self.splits.mask_validation) or not is_apart)

    @property
    def is_base_model_final(self) -> bool:
        """Whether the base model is fitted on the rows of the final models."""
        others = len(self.splits.mask_validation) + len(self.splits.final)
        return self.has_base_model and not others

    @property
    def _reads_files(self) -> bool:
        return self.is_in_files and self._loaded is None

    @cached_property
    def base_model(self) -> FittedModel:
        """The model fitted on the training set with every feature, or the one that was given."""
        if self.custom.fitted is not None:
            order = [name for name in self.dataset.columns if name in self.schema.features]
            estimator, classes = self.custom.estimator, self.description.classes
            labels = labels_of(classes, target_type(self.dataset.columns[self.settings.target]))
            return cast(FittedModel, fitted_model(estimator, self.schema, order, labels))
        if not self.has_base_model:
            return self.all_features_model
        return self._read_model("train_base_model", "base_model", self.schema)

    @cached_property
    def all_features_model(self) -> FittedModel:
        """The final model on all features."""
        return self._read_model("retrain", "all_features_model", self.schema)

    @cached_property
    def selected_model(self) -> FittedModel:
        """The final model on the chosen features."""
        return self._read_model("retrain", "model", self.schema.select(self.mask))

    def rows(self, *parts: str, mask: Mask | None = None) -> Rows:
        """Return the rows of some sets as inputs of a model, in the dataset's order.

        With a mask (d,), they have the kept features only.
        """
        index = self._index(parts)
        if self._loaded is not None:
            rows = self._loaded.rows.take(index)
            return rows if mask is None else rows.select(mask)
        if self._small_table is not None:
            rows = self._small_table.rows.take(index, mask)
            return replace(rows, X=np.asfortranarray(rows.X))  # as they are where they are loaded
        most = self.settings.search_rows or 0
        if not self.is_in_files or (len(index) <= most and self._search_is_in_memory):
            return load_rows(self.dataset, self.settings, self.description, index, mask)
        folder = self.dataset.path if self.stored is None else self.stored.folder
        table = StoredTable.of(self.dataset, self.settings, self.description, folder)
        schema = self.schema if mask is None else self.schema.select(mask)
        return StoredRows(table, table.numbers(index), schema.features)

    def roles(self, *parts: str) -> Roles:
        """Return target, weights, groups and times of some sets, in the order of `rows`."""
        if (table := self._loaded or self._small_table) is not None:
            return table.roles.take(self._index(parts))
        roles = load_roles(self.dataset, self.settings, self.description)
        return roles.take(self._index(parts))

    @cached_property
    def _small_table(self) -> LoadedTable | None:
        """The rows of a small table, which are loaded once; None of a large one."""
        if self.is_in_files or self.dataset.n_rows * len(self.dataset.columns) > _FEW_CELLS:
            return None
        about = self.dataset, self.settings, self.description
        return LoadedTable(load_rows(*about), load_roles(*about))

    def folds(self, *parts: str) -> list[Fold]:
        """Return the folds of cross-validation inside some sets."""
        roles = self.roles(*parts)
        if self.custom_folds is None:
            return fold_indices(roles, self.settings)
        return self.custom_folds.inside(self._index(parts), roles.y)

    def folds_among(self, index: Index) -> list[Fold]:
        """Return the folds of cross-validation inside some of the training rows."""
        if self.custom_folds is None:
            return fold_indices(self.roles("train").take(index), self.settings)
        is_in = np.zeros(len(self.splits.train), dtype=bool)
        is_in[index] = True
        number = np.cumsum(is_in) - 1
        inside = [tuple(number[rows[is_in[rows]]] for rows in fold) for fold in self.folds("train")]
        return [(fitted, held) for fitted, held in inside if len(fitted) and len(held)]

    def units(self, *parts: str) -> Index:
        """Return the resampling unit of each row of some sets."""
        roles = self.roles(*parts)
        return resampling_units(len(roles.y), groups=roles.groups, times=roles.times)

    def refit(self, fitted: tuple[str, ...], held_out: str) -> Refit:
        """Return the inputs of refits on some sets that are scored on another."""
        return Refit(self.rows(*fitted), self.rows(held_out), self.schema, self.recipe, self.loss)

    def trained_models(self, step: str, masks: Sequence[Mask]) -> list[FittedModel | None]:
        """Return the model that the search trained for each mask; None where one is to be fitted.

        `step` is the step of the run that asks.
        """
        if not self.trained_files:
            return [None] * len(masks)
        problem = self.problem(step)
        return [self.method.trained_model(problem, self.search_result, mask) for mask in masks]

    def fit(
        self,
        recipe: Recipe,
        rows: Callable[[Mask], Rows],
        masks: Sequence[Mask],
        on_done: OnDone = ignored,
    ) -> list[FittedModel]:
        """Return a model of each mask's features: of rows in files, fitted by the workers.

        Rows in memory are made for one fit at a time, here: to send them takes longer.
        """
        every = rows(np.ones(len(self.schema.features), dtype=bool)) if self.is_in_files else None
        if isinstance(every, StoredRows):
            items = [(every.select(mask), self.schema.select(mask)) for mask in masks]
            return self.workers.map(_fit, recipe, items, on_done)
        fitted: list[FittedModel] = []
        for mask in masks:
            fitted.append(recipe.fit(rows(mask), self.schema.select(mask)))
            on_done(len(fitted), len(masks))
        return fitted

    def begin_final(self, mask: Mask) -> None:
        """Let a worker without other work fit the final model of a mask, of rows in files.

        Besides the model on all features only that of the last mask is fitted.
        """
        key, every = mask.tobytes(), np.ones_like(mask).tobytes()
        is_made = key == every and self.is_base_model_final
        if is_made or key in self._begun or not self._reads_files:
            return
        for other in self._begun.keys() - {every}:
            self._begun.pop(other).close()
        item = self._fitted_rows(mask), self.schema.select(mask)
        self._begun[key] = self.workers.as_done(_fit, self.recipe, [item])

    def final_models(self, masks: Sequence[Mask], on_done: OnDone = ignored) -> list[FittedModel]:
        """Return the final model of each mask; those begun are waited for."""
        begun, self._begun = self._begun, {}
        keys = [mask.tobytes() for mask in masks]
        for other in begun.keys() - set(keys):
            begun.pop(other).close()
        left = [mask for key, mask in zip(keys, masks, strict=True) if key not in begun]
        made = iter(self.fit(self.recipe, self._fitted_rows, left, on_done))
        return [next(begun[key])[1] if key in begun else next(made) for key in keys]

    def _fitted_rows(self, mask: Mask) -> Rows:
        return self.rows(*self.fitted_parts, mask=mask)

    def predictions(self, *pairs: tuple[FittedModel, Rows]) -> list[Floats]:
        """Return the predictions of rows by models: of rows in files, by the workers."""
        n_shares = self.workers.n_threads
        are_shared = all(
            isinstance(rows, StoredRows) and model.rows_are_independent for model, rows in pairs
        )
        if n_shares == 1 or not are_shared:
            return [rows.predicted_by(model) for model, rows in pairs]
        shares = []
        for model, rows in pairs:
            ends = np.linspace(0, len(rows), n_shares + 1).astype(int).tolist()
            shares += [(model, rows.take(slice(*share))) for share in pairwise(ends)]
        predicted = self.workers.map(_predict, None, shares)
        starts = range(0, len(shares), n_shares)
        return [np.concatenate(predicted[start : start + n_shares]) for start in starts]

    @cached_property
    def feasible(self) -> FeasibleMasks:
        """The masks that satisfy the constraints."""
        return feasible_masks(self.schema.features, self.settings)

    def problem(self, step: str, checkpoints: Checkpoints | None = None) -> Problem:
        """Return the inputs of a search in a step of the run."""
        feasible = self.feasible
        return Problem(
            settings=self.settings,
            schema=self.schema,
            recipe=self.recipe,
            base_model=lambda: self.base_model,
            baseline=self.baseline,
            keep=tuple(np.flatnonzero(feasible.always).tolist()),
            rows=self.rows,
            folds=self.folds,
            workers=self.workers,
            on_progress=partial(self.progress, step),
            warnings=self.description.warnings,
            units=self.units,
            checkpoints=checkpoints,
            on_fits=self.on_fits,
            feasible=None if feasible.are_all else feasible,
            given_loss=self.loss,
            begin_final=self.begin_final,
        )

    @property
    def baseline(self) -> Floats:
        """The value of each feature when it is masked, shape (d,)."""
        return np.array(self.result("train_base_model")["baseline"])

    def _index(self, parts: Iterable[str]) -> Index:
        return np.sort(np.concatenate([getattr(self.splits, part) for part in parts]))

    def _read_model(self, stage: str, folder: str, schema: Schema) -> FittedModel:
        record = self.records[stage]
        # the user's own estimator is trusted
        estimator = self.custom.estimator
        own = () if estimator is None else models.packages_of(estimator)
        return models.load(record.result["kind"], model_files(record, folder), schema, own)


def _fit(recipe: Recipe, item: tuple[Rows, Schema]) -> FittedModel:
    return recipe.fit(*item)


def _predict(_: None, item: tuple[FittedModel, Rows]) -> Floats:
    model, rows = item
    return rows.predicted_by(model)


def model_files(record: StageRecord, folder: str) -> dict[str, bytes]:
    """Return the native files of a model by name."""
    names = [name for name in record.files if name.startswith(f"{folder}/")]
    return {name.removeprefix(f"{folder}/"): record.read(name) for name in names}


def part_of_rows(record: StageRecord) -> pa.Array:
    """Return the part of each row as the stage that splits them recorded it."""
    return record.read_table(SPLITS_FILE)["part"].combine_chunks()
