"""What the report shows of the final model beyond its loss; no decision uses it.

The importance of a kept feature is the rise of the loss, on rows that judge, once the feature has
its baseline value in every row. A test part is predicted by the final model. Rows that folds hold
out are predicted by models refitted on the kept features without their fold. Of large tables,
2,000 rows of the first folds are used. With `price_columns` models are fitted without the feature
instead, so that others may stand for it; as many rows are used as predictions fit in memory.

The price of a kept feature is the share that the model then explains less, of what it explains
beyond a constant. Intervals and bounds hold for all features together: they are Student's, at a
level divided by the number of features (Bonferroni). Over folds, which share the rows that their
models are fitted on, they are widened as the verdict's (`widening`). Features of which all or none
are kept have no price alone: they are masked, or left out, together, and each has the figures of
all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.methods.refits import Refit
from chaffinch.tasks.pipeline.judge import Judge, predicted
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows
from chaffinch.tasks.settings.search_result import step_of_each
from chaffinch.tasks.statistics.associations import associations, stand_ins
from chaffinch.tasks.statistics.bootstrap import Interval, difference_of
from chaffinch.tasks.statistics.metrics import prediction_figures
from chaffinch.tasks.statistics.size_curve import SizeCurve
from chaffinch.tasks.statistics.verdict import CONFIDENCE, loss_if_any, too_few_units

_MOST_ROWS = 2_000
MOST_PRICES = 200
_MOST_CELLS = 8_000_000  # of predictions that are held at once: 64 MB


def associations_of(run: SelectionRun, rows: Rows) -> dict[str, Any]:
    """Return which dropped features the kept ones stand for, and associations with the target.

    They are those of at most 2,000 training rows.
    """
    drawn = rows.take(_draw_rows(len(rows), run.settings.seed, _MOST_ROWS))
    kept = _most_useful(run, MOST_PRICES)
    *of_kept, of_target = associations(drawn.X, run.schema, kept, drawn.y)
    standing = stand_ins(np.array(of_kept), run.schema, run.mask, kept)
    named = dict(zip(run.schema.features, of_target.tolist(), strict=True))
    return {
        "stand_ins": {"rows": len(drawn), **standing},
        "with_target": {"rows": len(drawn), "associations": named},
    }


def explanation_of(run: SelectionRun, judge: Judge) -> dict[str, Any]:
    """Return the importance of kept features, and figures of the predictions."""
    sample = _rows_to_explain(run, judge)
    importance = _importance(run, judge, sample)
    return {
        "importance": {
            **importance,
            "rows": len(sample),
            "n_kept": int(run.mask.sum()),
            "refitted": run.settings.price_columns,
        },
        "predictions": prediction_figures(
            judge.rows.y, judge.with_selected, judge.rows.weight, run.description.classes, sample
        ),
    }


def _rows_to_explain(run: SelectionRun, judge: Judge) -> Index:
    """Return at most 2,000 of the rows that judge; for refits as many as fit in memory."""
    if not run.settings.price_columns:
        return _draw_rows(_n_rows_of_few_folds(run, judge), run.settings.seed, _MOST_ROWS)
    n_values = max(1, run.schema.n_classes) * (1 + min(MOST_PRICES, int(run.mask.sum())))
    most = max(_MOST_ROWS, _MOST_CELLS // n_values)
    return _draw_rows(len(judge.rows), run.settings.seed, most)


def _n_rows_of_few_folds(run: SelectionRun, judge: Judge) -> int:
    """Return the number of rows in the first folds that have 2,000; of a test part, all."""
    if judge.part == "test" or run.out_of_fold is None:
        return len(judge.rows)
    fold = run.out_of_fold["fold"].to_numpy()
    return int(np.flatnonzero(fold == fold[min(_MOST_ROWS, len(fold)) - 1])[-1]) + 1


def _draw_rows(n_rows: int, seed: int, most: int) -> Index:
    """Return at most so many rows, drawn at random, in order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))


def _most_useful(run: SelectionRun, most: int) -> list[int]:
    """Return the kept features that left last, or sorted by name without steps."""
    step_of, names = step_of_each(run.path), run.schema.features
    kept = np.flatnonzero(run.mask).tolist()
    return sorted(kept, key=lambda j: -step_of.get(names[j], math.inf))[:most]


def _importance(run: SelectionRun, judge: Judge, sample: Index) -> dict[str, Any]:
    names, loss = run.schema.features, judge.loss
    rows = Rows(
        np.empty((len(sample), 0)),
        judge.rows.y[sample],
        None if judge.rows.weight is None else judge.rows.weight[sample],
    )
    n_values = max(1, run.schema.n_classes) * len(sample)
    features = _most_useful(run, min(MOST_PRICES, max(1, _MOST_CELLS // n_values)))
    together = {j: tuple(sorted(run.feasible.together(j).tolist())) for j in features}
    groups = list(dict.fromkeys(together.values()))
    predictions = _refitted_predictions if run.settings.price_columns else _masked_predictions
    unmasked, *masked = predictions(run, judge, sample, groups)
    before = loss_if_any(loss, rows.y, unmasked, rows.weight)
    if before is None:
        why = f"the {loss.name} of {len(sample):,} rows drawn at random is undefined"
        return {"features": [], "why_none": why}
    losses = {
        i: loss_if_any(loss, rows.y, prediction, rows.weight) for i, prediction in enumerate(masked)
    }
    rises = {
        i: difference_of(loss_masked, before)
        for i, loss_masked in losses.items()
        if loss_masked is not None
    }
    order = sorted(rises, key=lambda i: -rises[i])
    units = np.unique(judge.units[sample], return_inverse=True)[1]
    prices: list[tuple[Interval | None, float | None]] = [(None, None)] * len(masked)
    why = ""
    if not loss.is_mean_over_rows:
        why = f"{loss.name} is a score of all rows together"
    elif lacking := too_few_units(int(units.max()) + 1):
        why = f"{lacking[0].lower()}{lacking[1:]}"
    else:
        made = unmasked, *masked, judge.constant[sample]
        *losses_of_rows, constant = (loss.per_row(rows.y, prediction) for prediction in made)
        weight = np.ones(len(rows)) if rows.weight is None else rows.weight
        in_one = np.zeros(len(rows), np.int64)
        sizes = tuple(range(len(losses_of_rows), 0, -1))
        curve = SizeCurve(sizes, np.array(losses_of_rows), constant, weight, units, in_one)
        bounds = curve.shares_lost(judge.widen, n_bounds=len(masked))
        ends = curve.intervals(judge.widen, n_bounds=len(masked))
        prices = [(end, bound) for end, (_, bound) in zip(ends[1:], bounds[1:], strict=True)]
    return {
        "features": [
            {
                "feature": names[j],
                "rise": rises[i],
                "interval": prices[i][0],
                "price": prices[i][1],
                **({"together": [names[k] for k in groups[i]]} if len(groups[i]) > 1 else {}),
            }
            for i in order
            for j in features
            if together[j] == groups[i]
        ],
        "loss": before,
        "confidence": CONFIDENCE,
        "why_no_interval": why,
    }


def _refitted_predictions(
    run: SelectionRun, judge: Judge, sample: Index, groups: Sequence[Sequence[int]]
) -> NDArray[np.float64]:
    """Return predictions of sampled rows by models fitted with and without each group."""
    masks = [run.mask, *(run.mask & ~np.isin(np.arange(len(run.mask)), group) for group in groups)]
    done = partial(run.progress, "evaluate")
    return np.array(run.workers.map(_refitted_predictions_of, (judge, sample), masks, done))


def _refitted_predictions_of(shared: tuple[Judge, Index], mask: Mask) -> Floats:
    judge, sample = shared
    return predicted(judge, mask)[sample] if mask.any() else judge.constant[sample]


def _masked_predictions(
    run: SelectionRun, judge: Judge, sample: Index, groups: Sequence[Sequence[int]]
) -> NDArray[np.float64]:
    """Return predictions of sampled rows, with no feature and with each group masked."""
    mask = run.mask
    position = np.cumsum(mask) - 1  # among the kept features
    masking = ([position[list(group)].tolist() for group in groups], run.baseline[mask])
    if judge.part == "test":
        return masked_predictions(run.selected_model, judge.rows.take(sample, mask).X, *masking)
    table = run.out_of_fold
    if table is None:
        raise ValueError(f"method {run.method.kind} made no predictions of held-out rows")
    held_out, number = (table[name].to_numpy()[sample] for name in ("row", "fold"))
    folds = run.folds("train")
    numbers = np.unique(number).tolist()
    parts = run.workers.map(
        _predictions_of_fold,
        (judge.refit, mask, *masking),
        [(folds[fold][0], held_out[number == fold]) for fold in numbers],
    )
    predictions = np.empty((parts[0].shape[0], len(sample), *parts[0].shape[2:]))
    for fold, of_fold in zip(numbers, parts, strict=True):
        predictions[:, number == fold] = of_fold
    return predictions


def _predictions_of_fold(
    shared: tuple[Refit, Mask, Sequence[list[int]], Floats], item: tuple[Index, Index]
) -> NDArray[np.float64]:
    refit, mask, groups, baseline = shared
    fitted, held_out = item
    model = refit.recipe.fit(refit.train.take(fitted, mask), refit.schema.select(mask))
    return masked_predictions(model, refit.train.take(held_out, mask).X, groups, baseline)


def masked_predictions(
    model: FittedModel, X: Floats, groups: Sequence[list[int]], baseline: Floats
) -> NDArray[np.float64]:
    """Return predictions with no feature and with each group masked, (m + 1, n[, n_classes])."""
    X, used = X.copy(order="F"), model.used_features
    predictions = [model.predict(X)]
    for group in groups:
        if not used[group].any():
            predictions.append(predictions[0])
            continue
        values = X[:, group]  # a copy
        X[:, group] = baseline[group]
        predictions.append(model.predict(X))
        X[:, group] = values
    return np.array(predictions)
