"""Where rounding is too much for a loss: XGBoost's own in float32, and the tree engine's units.

A sum of float32 is off by some 1e-7 of the sums that lead to it. That is nothing beside the
residuals of most models. It is much where the target is far from 0 for its spread, where hundreds
of trees each add less than such a step, or where next to no loss is left, as on training rows.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.losses import Loss, resolve_loss
from chaffinch.tasks.selection.masked_loss.coarseness import shows
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.models import XGBoostModel
from chaffinch.tasks.selection.vocabulary import MaskedLoss, Predictor, Rows

# Of the loss. It bounds what rows may be off by when none makes up for another; they mostly do, so
# that a loss is off by a tenth of it or less. A hundred trees of an ordinary target come to 1e-6.
MOST_ROUNDING = 5e-5
# The first rows speak for all, so that a cluster decides as one process does; see `spreading`.
_ROWS_TO_CHECK = 4096
_FINE = 5e-13  # of how far ordinary targets are apart


def check_unit(engine: MaskedLoss, rows: Rows, loss: Loss) -> None:
    """Raise NotCovered if beside a forest's greatest values its unit is too coarse for other rows.

    The model would be asked for nearly every loss then, see `coarseness`. Where the unit is coarse
    only beside next to no loss at all, as on rows that are learnt by heart, it is asked for few.

    Parameters
    ----------
    engine : MaskedLoss
        With every feature kept; only a `TreeEngine` is looked at.
    rows, loss
        Its own.
    """
    from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine

    if not isinstance(engine, TreeEngine):
        return
    some = rows.take(slice(_ROWS_TO_CHECK))
    if loss.task == "regression":
        apart = np.abs(some.y - np.median(some.y))
        spread = np.quantile(apart[apart > 0], 0.25) if apart.any() else 0.0
        if engine.rounding <= _FINE * spread:
            return
    if shows(engine.rounding, loss, engine.prediction[: len(some)], some.y):
        raise NotCovered(
            f"beside its greatest values a row may be off by {engine.rounding:.2g}, too much for "
            "the losses of the other rows"
        )


def check_rounding(engine: MaskedLoss, model: Predictor, rows: Rows, loss: Loss) -> None:
    """Raise NotCovered if XGBoost's rounding is too much for a loss.

    Parameters
    ----------
    engine : MaskedLoss
        With every feature kept.
    model, rows, loss
        Its own; only a `TreeEngine` of XGBoost's is looked at. Of a scorer, which has no value per
        row, squared error or log loss is looked at.
    """
    from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine

    if not isinstance(model, XGBoostModel) or not isinstance(engine, TreeEngine):
        return
    some = rows.take(slice(_ROWS_TO_CHECK))
    by_row = loss if loss.is_mean_over_rows else resolve_loss(None, model.schema)
    own = by_row.per_row(some.y, model.predict(some.X))
    exact = by_row.per_row(some.y, engine.prediction[: len(some)])
    rounding = np.average(np.abs(exact - own), weights=some.weight)
    total = np.average(own, weights=some.weight)
    if not rounding <= MOST_ROUNDING * total:
        raise NotCovered(
            f"it adds in float32, which moves the rows' losses by {rounding:.2g} of {total:.2g}"
        )
