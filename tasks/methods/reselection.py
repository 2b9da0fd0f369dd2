"""Reselection: start with the features of a former run, and add or remove features."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from chaffinch.tasks.methods.protocol import Problem, unused_features_error
from chaffinch.tasks.methods.refits import PARTS_OF_REFITS, refit_of
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask
from chaffinch.tasks.selection.elimination.bmo import eliminate
from chaffinch.tasks.selection.elimination.reselection import Gap, revise
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.settings.method import Traits
from chaffinch.tasks.settings.reselection import Reselect
from chaffinch.tasks.settings.search_result import Candidate, SearchResult
from chaffinch.tasks.statistics.bootstrap import PairedLosses

logger = logging.getLogger(__name__)


class Reselection(Reselect):
    """The search of a reselection."""

    declared_traits = Traits(
        refits="the search begins with the former features, lets one return where a model refitted "
        "with it is shown to have a lower loss on the mask-validation rows, and lets one leave "
        "where the loss without it is shown to be hardly higher",
        score_is_place=True,
        finds_size=True,
        parts_used=PARTS_OF_REFITS,
    )

    def search(self, problem: Problem) -> SearchResult:
        """Add and remove features, starting with the former mask."""
        start = np.isin(problem.schema.features, list(self.former))
        start[list(problem.keep)] = True
        if problem.feasible is not None and not problem.feasible.allow(start):
            start = problem.feasible.best(problem.by_masked_loss(start), int(start.sum()))
        refits = _Refits(problem)
        _check_that_features_matter(refits, start)
        revision = revise(
            refits,
            start,
            gain=self.gain,
            slack=self.slack,
            rejections=self.rejections,
            keep=problem.keep,
            feasible=problem.feasible,
        )
        line = "%d former features, %d changes tried, %d made, %d features kept"
        n_made, n_kept = sum(trial.is_made for trial in revision.trials), revision.masks[-1].sum()
        logger.info(line, start.sum(), len(revision.trials), n_made, n_kept)
        features = problem.schema.features
        trials = [
            {
                "feature": features[trial.feature],
                "change": "return" if trial.is_return else "leave",
                "difference": trial.difference,
                "highest": trial.highest if np.isfinite(trial.highest) else None,
                "is_made": trial.is_made,
            }
            for trial in revision.trials
        ]
        return SearchResult.of_masks(
            features, revision.masks, revision.losses, facts={"trials": trials}
        )

    def candidates(self, result: SearchResult) -> list[Candidate]:
        return [Candidate(result.masks[-1], [])]

    def report(self, result: SearchResult) -> dict[str, Any]:
        return {**super().report(result), "trials": result.facts["trials"]}


class _Refits:
    """Models fitted on the training rows, scored on the mask-validation rows; see `Refits`."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self._refit = problem, refit_of(problem)
        of, rows, units = problem.loss, self._refit.held_out, problem.units("mask_validation")
        self._pair = PairedLosses(of, rows, units, problem.seed)
        self._judged: dict[bytes, tuple[Floats, float]] = {}
        self._last: tuple[bytes, FittedModel] | None = None  # a single model, to save memory

    def loss(self, mask: Mask) -> float:
        return self.predict(mask)[1]

    def gap(self, mask: Mask, other: Mask) -> Gap:
        """Return the loss of `mask` minus that of `other`."""
        (first, loss), (second, other_loss) = self.predict(mask), self.predict(other)
        return Gap(loss - other_loss, self._pair.error(second, first), self._pair.n_units)

    def returning(self, mask: Mask) -> list[int]:
        """Return the features outside the mask, the most important in the base model first."""
        if mask.all():
            return []
        engine = self.problem.masked_loss(int((~mask).sum()))
        path = eliminate(engine, keep=np.flatnonzero(mask).tolist())
        return list(reversed(path.removed))

    def leaving(self, mask: Mask) -> list[int]:
        """Return the features of the mask, the lowest masked loss first."""
        held_out, baseline = self.problem.masked_rows().select(mask), self.problem.baseline[mask]
        engine = masked_loss(self._model(mask), held_out, self._refit.loss, baseline)
        order = np.argsort(engine.without_each(), kind="stable")
        return [int(j) for j in np.flatnonzero(mask)[order]]

    def predict(self, mask: Mask) -> tuple[Floats, float]:
        """Return the cached predictions and loss of the model on a mask."""
        key = mask.tobytes()
        if key not in self._judged:
            rows = self._refit.held_out.select(mask)
            prediction = rows.predicted_by(self._model(mask))
            self._judged[key] = prediction, self._refit.loss(rows.y, prediction, rows.weight)
        return self._judged[key]

    def _model(self, mask: Mask) -> FittedModel:
        if mask.all():
            return self.problem.model
        key = mask.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self._refit.model(mask)
        return self._last[1]


def _check_that_features_matter(refits: _Refits, start: Mask) -> None:
    """Raise InputError if predictions are constant with the former and with all features."""
    for mask in (start, np.ones_like(start)):
        prediction, _ = refits.predict(mask)
        if len(prediction) == 1 or np.ptp(prediction, axis=0).any():  # too few rows
            return
    raise unused_features_error(refits.problem, refits.loss(start))
