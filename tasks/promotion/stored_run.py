"""A finished run whose rows are still in the store, so that other sets can be tried on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.runs.store import Run
from chaffinch.tasks.data.arrow import as_numbers
from chaffinch.tasks.data.matrix import load_roles
from chaffinch.tasks.data.table_warnings import PerfectPredictors
from chaffinch.tasks.pipeline.evaluation import CONFIDENCE, judge_of, predicted
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.pipeline.stage import stage_key
from chaffinch.tasks.results.previous_run import may_be_ones_own
from chaffinch.tasks.settings.selection import SelectionSettings

_STAGES = ("describe", "split", "train_base_model")


@dataclass(frozen=True)
class LossDifference:
    """How the two sets did on the test rows of the second run.

    Attributes
    ----------
    name : str
        What the loss is.
    before, after : float
        Test loss of the first set, or of what the newer rows still have of it, and of the second,
        each refitted on the newer rows.
    difference : float
        `after` less `before`; below 0 the second set is better.
    interval : (float, float) or None
        Of the difference, by paired bootstrap; None of one unit.
    confidence : float
        Of the interval.
    units : int
        Number of things resampled: rows, groups, or blocks of time.
    """

    name: str
    before: float
    after: float
    difference: float
    interval: tuple[float, float] | None
    confidence: float
    units: int


@dataclass(frozen=True)
class KeptRun:
    """What fitting a run's model to any of its features takes.

    Attributes
    ----------
    run : SelectionRun
        The run, with its description, split and base model; this process computes.
    """

    run: SelectionRun

    @classmethod
    def open(cls, folder: Path, contract: Mapping[str, Any], table: Dataset) -> KeptRun:
        """Return the run in a folder, after checking that its files are whole."""
        run = Run(folder)
        recorded = {record.stage: record for record in run.records()}
        whole = [run.finished(name, recorded[name].key) for name in _STAGES if name in recorded]
        records = [record for record in whole if record is not None]
        if len(records) < len(_STAGES):
            raise StorageError(
                f"files of run {run.name!r} have changed since they were written; run the same "
                "command again and they are made again"
            )
        again = SelectionRun(SelectionSettings(**contract["settings"]), table, name=run.name)
        again.records = {record.stage: record for record in records}
        key, model = again.records["describe"].key, again.settings.model
        if may_be_ones_own(model) and key != stage_key("describe", again):
            raise InputError(
                f"the model {model.name} may have been an estimator of your own, which a store "
                "does not hold, so that nothing can be refitted"
            )
        return cls(again)

    @property
    def kinds(self) -> dict[str, str]:
        """Number or category, by feature."""
        description = self.run.description
        categories = description.categories
        return {n: "category" if n in categories else "number" for n in description.features}

    def loss_difference(self, before: Sequence[str], after: Sequence[str]) -> LossDifference:
        """Refit two sets of features and judge them on the test rows."""
        if not before:
            raise InputError("the newer rows have no feature of the first set")
        judge = judge_of(self.run)
        features = judge.refit.schema.features
        first, second = (
            predicted(judge.refit, np.isin(features, set_)) for set_ in (before, after)
        )
        return LossDifference(
            name=judge.refit.loss.name,
            before=judge.loss(first),
            after=judge.loss(second),
            **judge.difference(second, first),
            confidence=CONFIDENCE,
            units=judge.n_units,
        )

    def telling(self, features: Sequence[str]) -> tuple[str, ...]:
        """Return which features alone tell the target, by the rule of the run's own warnings."""
        if not features:
            return ()
        dataset, description = self.run.dataset, self.run.description
        categories, settings = description.categories, self.run.settings
        y = load_roles(dataset, settings, description).y
        predictors = PerfectPredictors(y)

        def predicts(name: str) -> bool:
            known = categories.get(name, ())
            return predictors.predicts(
                as_numbers(dataset.read([name]).column(0), known), len(known)
            )

        return tuple(name for name in features if predicts(name))
