"""Sets of features against each other: each refitted on the same rows, judged on the test rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaffinch.storage.runs import StageRecord
from chaffinch.tasks.dealing import Index
from chaffinch.tasks.ingestion import description_of, part_roles, part_rows
from chaffinch.tasks.paired_bootstrap import (
    Interval,
    difference_of,
    paired_interval,
    resampling_units,
)
from chaffinch.tasks.refitting import Refit
from chaffinch.tasks.selection.vocabulary import Floats, Mask
from chaffinch.tasks.stage import Context
from chaffinch.tasks.training import loss_of, tuned_recipe

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Judge:
    """Judges predictions of the test rows.

    Attributes
    ----------
    refit : Refit
        Fits on the training and mask-validation rows, holds out the test rows.
    units : ndarray of int, shape (n,)
        From `resampling_units`, of the n test rows.
    seed : int
        Of the resampling.
    """

    refit: Refit
    units: Index
    seed: int

    @property
    def n_units(self) -> int:
        """How many rows, groups or blocks of time there are."""
        return int(self.units.max()) + 1

    def loss(self, prediction: Floats) -> float:
        """Return the test loss."""
        rows = self.refit.held_out
        return self.refit.loss(rows.y, prediction, rows.weight)

    def difference(self, prediction: Floats, other: Floats) -> dict[str, Any]:
        """Return how much lower or higher the first loss is, with its interval if there is one.

        What is rounding alone is 0.
        """
        interval: Interval | None = paired_interval(
            self.refit.loss,
            self.refit.held_out,
            other,
            prediction,
            self.units,
            confidence=CONFIDENCE,
            seed=self.seed,
        )
        difference = difference_of(self.loss(prediction), self.loss(other))
        return {"difference": difference, "interval": interval}


def judge_of(
    context: Context, described: StageRecord, divided: StageRecord, trained: StageRecord
) -> Judge:
    """Return the judge of a run, who fits with the hyper-parameters that its tuning chose."""
    schema = description_of(described).schema
    test = part_rows(context, described, divided, "test")
    roles = part_roles(context, described, divided, "test")
    refit = Refit(
        part_rows(context, described, divided, "train", "mask_validation"),
        test,
        schema,
        tuned_recipe(context, trained),
        loss_of(context.settings, schema),
    )
    units = resampling_units(len(test), groups=roles.groups, times=roles.times)
    return Judge(refit, units, context.settings.seed)


def predicted(refit: Refit, mask: Mask) -> Floats:
    """Return what a model fitted on the features of a mask (d,) alone makes of the test rows."""
    return refit.model(mask).predict(refit.held_out.X[:, mask])
