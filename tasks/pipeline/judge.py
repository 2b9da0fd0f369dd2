"""The rows that judge a selection: a test set, or the rows that folds hold out.

In a run without a test set each row is predicted by models that were fitted outside its fold. With
the selected features these are the predictions of the search, whose order and number of features
did not know the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from chaffinch.tasks.methods.fitting import Fold
from chaffinch.tasks.methods.refits import Refit
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.statistics.bootstrap import PairedLosses, difference_of
from chaffinch.tasks.statistics.verdict import (
    CONFIDENCE,
    Judgement,
    constant_prediction,
    judgement_of,
)


@dataclass(frozen=True, eq=False)
class Judge(PairedLosses):
    """Comparison of predictions for the n rows that judge.

    Units of resampling are rows, groups or blocks of time.
    """

    part: Literal["test", "out_of_fold"]
    refit: Refit  # on the rows of the final models, scored on the test rows if there are any
    folds: tuple[Fold, ...]  # of the rows fitted on; none with test rows
    with_all_features: Floats
    with_selected: Floats
    constant: Floats

    def difference(self, prediction: Floats, other: Floats) -> dict[str, Any]:
        """Return the first loss minus the second, with its interval or None.

        A difference within rounding errors is 0.
        """
        difference = difference_of(self.loss_of(prediction), self.loss_of(other))
        return {"difference": difference, "interval": self.interval(other, prediction, CONFIDENCE)}

    def judgement(
        self,
        prediction: Floats,
        other: Floats,
        *,
        is_smaller: bool,
        tolerance: float,
        confidence: float = CONFIDENCE,
    ) -> Judgement:
        """Return the verdict on the first prediction against the second and a constant."""
        return judgement_of(
            self,
            other,
            prediction,
            self.constant,
            is_smaller=is_smaller,
            tolerance=tolerance,
            confidence=confidence,
        )


def predicted(judge: Judge, mask: Mask) -> Floats:
    """Return the predictions of models refitted on the features of a mask (d,)."""
    refits = [judge.refit.fold(fold) for fold in judge.folds] or [judge.refit]
    return np.concatenate([refit.prediction_of(refit.model(mask), mask) for refit in refits])


def judge_of(run: SelectionRun) -> Judge:
    """Return the `Judge` of a run with its tuned hyper-parameters."""
    seed = run.settings.seed
    if len(run.splits.test):
        refit = run.refit(run.fitted_parts, "test")
        fitted, rows = refit.train, refit.held_out
        constant = constant_prediction(
            run.loss, fitted.y, fitted.weight, len(rows), run.schema.n_classes
        )
        every, selected = run.predictions(
            (run.all_features_model, rows), (run.selected_model, rows.select(run.mask))
        )
        units = run.units("test")
        paired = run.loss, rows, units, seed
        return Judge(*paired, "test", refit, (), every, selected, constant)
    table = run.out_of_fold
    if table is None:
        raise ValueError(f"method {run.method.kind} made no predictions of held-out rows")
    held_out, number, folds = table["row"].to_numpy(), table["fold"].to_numpy(), run.folds("train")
    refit = run.refit(("train",), "train")
    names = ("all_features", "selected", "constant")
    every, selected, constant = (np.array(table[name].to_pylist()) for name in names)
    return Judge(
        run.loss,
        refit.train.take(held_out),
        np.unique(run.units("train")[held_out], return_inverse=True)[1],
        seed,
        "out_of_fold",
        refit,
        # of a fold's rows the search predicts no more than mask_rows
        tuple((folds[f][0], held_out[number == f]) for f in dict.fromkeys(number.tolist())),
        every,
        selected,
        constant,
        widen=run.result("optimise_mask")["widen"],
    )
