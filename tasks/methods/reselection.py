"""Search from a former mask: the refits, the masked losses and the bounds that decide."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.methods.inputs import Material, no_use_made
from chaffinch.tasks.methods.wrappers import Refit
from chaffinch.tasks.selection.bmo import eliminate
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.reselection import Gap, Revision, revise
from chaffinch.tasks.settings.methods import Reselect
from chaffinch.tasks.statistics.bootstrap import paired_error, resampling_units

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Judged:
    """What a model fitted on a mask makes of the mask-validation rows."""

    prediction: Floats
    loss: float


class _Refits:
    """Models fitted on the training rows, judged on the mask-validation rows; see `Refits`."""

    def __init__(self, material: Material) -> None:
        held_out = material.rows("mask_validation")
        self.material = material
        self._refit = Refit(
            material.rows("train"), held_out, material.schema, material.recipe, material.loss
        )
        self._units = (
            resampling_units(len(held_out)) if material.units is None else material.units()
        )
        self._judged: dict[bytes, _Judged] = {}
        self._last: tuple[bytes, FittedModel] | None = None  # all of them would fill the memory

    def loss(self, mask: Mask) -> float:
        """Return the loss of a model fitted on a mask's features alone."""
        return self.judged(mask).loss

    def gap(self, mask: Mask, other: Mask) -> Gap:
        """Return the loss of `mask` less that of `other`."""
        first, second = self.judged(mask), self.judged(other)
        error = paired_error(
            self._refit.loss,
            self._refit.held_out,
            second.prediction,
            first.prediction,
            self._units,
            seed=self.material.seed,
        )
        return Gap(first.loss - second.loss, error, int(self._units.max()) + 1)

    def returning(self, mask: Mask) -> list[int]:
        """Return first what the base model, which has every feature, would be the last to spare."""
        if mask.all():
            return []
        material = self.material
        engine = material.workers.masked_loss(
            material.model, self._refit.held_out, material.loss, material.baseline
        )
        path = eliminate(engine, keep=np.flatnonzero(mask).tolist())
        return list(reversed(path.removed))

    def leaving(self, mask: Mask) -> list[int]:
        """Return first what the model on the mask can spare most easily."""
        held_out, baseline = self._refit.held_out.select(mask), self.material.baseline[mask]
        engine = masked_loss(self._model(mask), held_out, self._refit.loss, baseline)
        order = np.argsort(engine.without_each(), kind="stable")
        return [int(j) for j in np.flatnonzero(mask)[order]]

    def judged(self, mask: Mask) -> _Judged:
        """Return what the model on a mask makes of the rows; fitted once."""
        key = mask.tobytes()
        if key not in self._judged:
            rows = self._refit.held_out.select(mask)
            prediction = self._model(mask).predict(rows.X)
            self._judged[key] = _Judged(
                prediction, self._refit.loss(rows.y, prediction, rows.weight)
            )
        return self._judged[key]

    def _model(self, mask: Mask) -> FittedModel:
        if mask.all():
            return self.material.model
        key = mask.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self._refit.model(mask)
        return self._last[1]


def search_by_reselection(method: Reselect, material: Material) -> Revision:
    """Return what becomes of the former mask."""
    start = np.isin(material.schema.features, list(method.former))
    start[list(material.keep)] = True
    refits = _Refits(material)
    with said_to_the_user():
        _check_that_features_matter(refits, start)
        revision = revise(
            refits,
            start,
            gain=method.gain,
            slack=method.slack,
            rejections=method.rejections,
            keep=material.keep,
        )
    logger.info(
        "%d former features, %d changes tried, %d made, %d features kept",
        start.sum(),
        len(revision.trials),
        sum(trial.is_made for trial in revision.trials),
        revision.masks[-1].sum(),
    )
    return revision


def _check_that_features_matter(refits: _Refits, start: Mask) -> None:
    """Refuse a model that predicts the same for every row, on the former features and on all."""
    for mask in (start, np.ones_like(start)):
        prediction = refits.judged(mask).prediction
        if len(prediction) == 1 or np.ptp(prediction, axis=0).any():  # one row says nothing of it
            return
    raise no_use_made(refits.material, refits.loss(start))
