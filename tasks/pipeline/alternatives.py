"""Alternatives to the chosen features: different sets of the best possible quality.

The search runs after the selection and does not change its result, nor the split of the rows.

Of a cross-fitted method, which leaves no mask-validation rows, qualities are measured on the rows
that its folds hold out, and sets are compared there: the alternatives and the chosen set, found on
all these rows, are refitted without each fold. That flatters the losses of all sets alike, so they
are compared with each other, and the verdict of the selection is not from them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from chaffinch.errors import as_input_error
from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.tasks.methods.alternatives import (
    TAUS,
    Search,
    best_known,
    if_known,
    missing_of,
    price_of,
    quality_of,
)
from chaffinch.tasks.methods.fitting import Fold
from chaffinch.tasks.methods.protocol import Problem, Seen
from chaffinch.tasks.methods.refits import Refit
from chaffinch.tasks.pipeline.judge import CONFIDENCE, Judge, judge_of, predicted
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.selection.alternatives.hill_climbing import Wrapper
from chaffinch.tasks.selection.alternatives.result import Alternatives
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.core import FittedModel, Mask, Rows
from chaffinch.tasks.settings.alternatives import AlternativeSettings
from chaffinch.tasks.workers.interface import InProcess, OnDone


@stage("describe", "split", "train_base_model", "choose_mask")
def search_alternatives(run: SelectionRun, writer: Writer) -> None:
    """Find sets that differ from the chosen set and each other; by each tau if asked for."""
    asked, mask = _asked(run), run.mask
    # the requested tau, and each other one for the price curve
    others = [tau for tau in TAUS if asked.price_curve and tau != asked.tau]
    progress = _Progress(run, n_searches=1 + len(others))
    problem = replace(run.problem("search_alternatives"), on_progress=progress.measured)
    with as_input_error():
        quality = quality_of(asked.quality, problem, run.store, partial(_in_folds, run, problem))
        search = Search(
            quality, asked, tuple(np.flatnonzero(mask).tolist()), _of_every_set(run, problem.keep)
        )
        progress.searched(0)
        found = search.sets(asked.tau)
        progress.searched(1)
        chosen_quality = quality.value(search.chosen)
        prices: list[dict[str, Any]] = []
        if asked.price_curve:
            # Hill climbing caches scores across tau, and its engine uses the workers itself: it
            # stays in this process.
            pricing = InProcess() if isinstance(quality, Wrapper) else run.workers
            at_others = pricing.map(
                _found_at, search, others, lambda done, _: progress.searched(1 + done)
            )
            at_each = {**dict(zip(others, at_others, strict=True)), asked.tau: found}
            at_each = best_known(at_each, asked.number, asked.search)
            found = at_each[asked.tau]
            prices = [price_of(tau, at_each[tau]) for tau in TAUS]
        missing = missing_of(search, found)
    writer.result = {
        "chosen_quality": if_known(chosen_quality),
        "sets": [
            {
                "indices": list(one.indices),
                "quality": one.quality,
                "bound": if_known(one.bound),
                "status": one.status,
            }
            for one in found
        ],
        "status": found.status,
        "bound": if_known(found.bound),
        "missing": missing,
        "prices": prices,
    }


@stage("describe", "split", "train_base_model", "choose_mask", "retrain", "search_alternatives")
def score_alternatives(run: SelectionRun, writer: Writer) -> None:
    """Retrain on each alternative, and compare it with the chosen set on the rows that judge.

    The selection is final at this stage.
    """
    mask, judge, found = run.mask, judge_of(run), run.result("search_alternatives")
    if judge.part == "out_of_fold":  # where folds chose sets of their own
        judge = replace(judge, with_selected=predicted(judge, mask))
    scores = run.workers.map(
        _score,
        judge,
        [np.isin(np.arange(len(mask)), one["indices"]) for one in found["sets"]],
        partial(run.progress, "score_alternatives"),
    )
    names = run.schema.features
    writer.result = {
        "format_version": FORMAT_VERSION,
        "format": "chaffinch alternatives",
        "settings": _asked(run).model_dump(mode="json"),
        "chosen": {
            "features": [name for name, kept in zip(names, mask, strict=True) if kept],
            "quality": found["chosen_quality"],
            "test_loss": judge.loss(judge.with_selected),
        },
        "judged_on": judge.part,
        "sets": [
            {
                "features": [names[j] for j in one["indices"]],
                **{key: value for key, value in one.items() if key != "indices"},
                **score,
            }
            for one, score in zip(found["sets"], scores, strict=True)
        ],
        "status": found["status"],
        "bound": found["bound"],
        "missing": found["missing"],
        "confidence": CONFIDENCE,
        "prices": found["prices"],
    }
    writer.write("alternatives.json", to_json(writer.result))


class _Progress:
    def __init__(self, run: SelectionRun, n_searches: int) -> None:
        self._on_progress, self._n_searches = run.progress, n_searches
        self._n_measured = 0

    def measured(self, done: int, total: int) -> None:
        """Report progress of the quality measurement, which precedes the searches."""
        self._n_measured = total
        self._report(done)

    def searched(self, done: int) -> None:
        self._report(self._n_measured + done)

    def _report(self, done: int) -> None:
        self._on_progress("search_alternatives", done, self._n_measured + self._n_searches)


def _asked(run: SelectionRun) -> AlternativeSettings:
    asked = run.settings.alternatives
    if asked is None:
        raise ValueError("no alternatives are asked for")
    return asked


def _in_folds(run: SelectionRun, problem: Problem) -> list[Problem]:
    """Return inputs whose model has not seen their mask-validation rows: one, or one a fold."""
    if len(run.splits.mask_validation):
        return [problem]
    rows, folds = run.rows("train"), run.folds("train")
    refit = Refit(rows, rows.take(slice(0)), run.schema, run.recipe, run.loss)
    models = run.workers.map(_model_outside, refit, folds)
    return [
        replace(
            problem,
            model=model,
            rows=partial(_held_out, rows.take(held_out)),
            on_progress=partial(_part_done, problem.on_progress, number, len(folds)),
        )
        for number, (model, (_, held_out)) in enumerate(zip(models, folds, strict=True))
    ]


def _model_outside(refit: Refit, fold: Fold) -> FittedModel:
    return refit.recipe.fit(refit.train.take(fold[0]), refit.schema)


def _held_out(rows: Rows, *parts: Seen) -> Rows:
    if parts != ("mask_validation",):
        raise ValueError(f"a fold holds out mask-validation rows alone, not {parts}")
    return rows


def _part_done(on_done: OnDone, number: int, n_parts: int, done: int, total: int) -> None:
    on_done(number * total + done, n_parts * total)


def _of_every_set(run: SelectionRun, keep: tuple[int, ...]) -> Constraints:
    constraints = replace(run.feasible.constraints, must_include=keep)
    if constraints.budget is not None:
        return constraints
    groups = [replace(group, cost=0.0) for group in constraints.groups]
    return replace(constraints, groups=groups, costs=None)  # nothing depends on the costs


def _found_at(search: Search, tau: float) -> Alternatives:
    return search.sets(tau)


def _score(judge: Judge, mask: Mask) -> dict[str, Any]:
    """Return the loss of a set on the rows that judge, and its difference from the chosen set."""
    prediction = predicted(judge, mask)
    return {
        "test_loss": judge.loss(prediction),
        **judge.difference(prediction, judge.with_selected),
    }
