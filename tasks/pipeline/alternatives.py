"""Alternatives to the chosen features: different sets of the best possible quality.

The search runs after the selection and does not change its result, nor the split of the rows.

A cross-fitted method leaves no mask-validation rows. Its qualities are measured on the rows that
its folds hold out. The alternatives and the chosen set, selected on all these rows, are refitted
without each fold and compared there. This flatters the losses of all sets alike: they can be
compared with each other, but the verdict of the selection does not use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from chaffinch.errors import as_input_error
from chaffinch.storage.datasets.steps import ignored
from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.tasks.methods.alternatives import (
    TAUS,
    Search,
    best_known,
    copies_stood_for,
    if_known,
    missing_of,
    price_of,
    quality_of,
)
from chaffinch.tasks.methods.fitting import Fold
from chaffinch.tasks.methods.paths import RANKED_ON
from chaffinch.tasks.methods.protocol import Problem, Seen
from chaffinch.tasks.methods.refits import Refit
from chaffinch.tasks.pipeline.certification import (
    certified_sets,
    found_at_rising_taus,
    rows_that_find,
)
from chaffinch.tasks.pipeline.judge import Judge, judge_of, predicted
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.selection.alternatives.hill_climbing import Wrapper
from chaffinch.tasks.selection.alternatives.result import Alternatives
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.core import FittedModel, Mask, Rows
from chaffinch.tasks.settings.alternatives import AlternativeSettings
from chaffinch.tasks.statistics.verdict import CONFIDENCE
from chaffinch.tasks.workers.interface import InProcess, OnDone


@stage("describe", "split", "train_base_model", "optimise_mask", "choose_mask")
def search_alternatives(run: SelectionRun, writer: Writer) -> None:
    """Find sets that differ from the chosen set and from each other, for one tau or for all."""
    settings, mask = _alternative_settings(run), run.mask
    other_taus = [tau for tau in TAUS if settings.price_curve and tau != settings.tau]
    n_before = 1 + len(other_taus)
    progress = _Progress(run, n_searches=n_before + len(TAUS) * settings.certified)
    problem = replace(run.problem("search_alternatives"), on_progress=progress.measured)
    with as_input_error():
        quality = quality_of(settings.quality, problem, run.store, partial(_held_out, run, problem))
        chosen = np.flatnonzero(mask).tolist()
        constraints = _constraints_of_sets(run, problem.keep)
        place = {name: j for j, name in enumerate(run.schema.features)}
        groups = run.result("optimise_mask").get("near_copies", ())
        groups = [[place[name] for name in group] for group in groups]
        stood_for = copies_stood_for(groups, chosen, quality, constraints)
        copies = {*chain(*stood_for.values())}
        kept = tuple(j for j in chosen if j not in copies)
        fixed = None if settings.together else kept
        search = Search(quality, settings, len(kept), fixed, _without(copies, constraints))
        progress.searched(0)
        alternatives = search.sets(settings.tau)
        progress.searched(1)
        chosen_quality = quality.value(kept)
        prices: list[dict[str, Any]] = []
        if settings.price_curve:
            # Hill climbing caches scores across tau, and its engine uses the workers itself: it
            # stays in this process.
            pricing = InProcess() if isinstance(quality, Wrapper) else run.workers
            at_other_taus = pricing.map(
                _search_at, search, other_taus, lambda done, _: progress.searched(1 + done)
            )
            by_tau = {
                **dict(zip(other_taus, at_other_taus, strict=True)),
                settings.tau: alternatives,
            }
            by_tau = best_known(by_tau, settings.n_sets, settings.search)
            alternatives = by_tau[settings.tau]
            prices = [price_of(tau, by_tau[tau]) for tau in TAUS]
        missing = missing_of(search, alternatives)
        to_certify = []
        if settings.certified:
            finding = search
            if not len(run.splits.test):
                finding = _search_among_folds(run, problem, groups, search.k)
            n_left = len(run.schema.features) - len(finding.constraints.must_exclude)
            size = min(settings.certified_size or search.k, n_left)
            to_certify = found_at_rising_taus(
                replace(finding, k=size), lambda done, _: progress.searched(n_before + done)
            )
    writer.result = {
        "chosen_quality": if_known(chosen_quality),
        "sets": [
            {
                "indices": list(alternative.indices),
                "quality": alternative.quality,
                "bound": if_known(alternative.bound),
                "status": alternative.status,
            }
            for alternative in alternatives
        ],
        "status": alternatives.status,
        "bound": if_known(alternatives.bound),
        "missing": missing,
        "prices": prices,
        "near_copies": list(stood_for.items()),
        "to_certify": to_certify,
    }


@stage("describe", "split", "train_base_model", "choose_mask", "retrain", "search_alternatives")
def score_alternatives(run: SelectionRun, writer: Writer) -> None:
    """Retrain on each alternative, and compare it with the chosen set on the rows that judge.

    The selection is final at this stage.
    """
    mask, judge, search = run.mask, judge_of(run), run.result("search_alternatives")
    if judge.part == "out_of_fold":  # the folds chose sets of their own
        judge = replace(judge, with_selected=predicted(judge, mask))
    scores = run.workers.map(
        _score,
        judge,
        [np.isin(np.arange(len(mask)), alternative["indices"]) for alternative in search["sets"]],
        partial(run.progress, "score_alternatives"),
    )
    names = run.schema.features
    writer.result = {
        "format_version": FORMAT_VERSION,
        "format": "chaffinch alternatives",
        "settings": _alternative_settings(run).model_dump(mode="json"),
        "chosen": {
            "features": [name for name, kept in zip(names, mask, strict=True) if kept],
            "quality": search["chosen_quality"],
            "test_loss": judge.loss_of(judge.with_selected),
        },
        "judged_on": judge.part,
        "sets": [
            {
                "features": [names[j] for j in alternative["indices"]],
                **{key: value for key, value in alternative.items() if key != "indices"},
                **score,
            }
            for alternative, score in zip(search["sets"], scores, strict=True)
        ],
        "status": search["status"],
        "bound": search["bound"],
        "missing": search["missing"],
        "confidence": CONFIDENCE,
        "prices": search["prices"],
    }
    if search["near_copies"]:
        writer.result["near_copies"] = {
            names[j]: [names[copy] for copy in copies] for j, copies in search["near_copies"]
        }
    settings = _alternative_settings(run)
    if settings.certified:
        writer.result["certified"] = certified_sets(run, judge, settings, search["to_certify"])
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


def _alternative_settings(run: SelectionRun) -> AlternativeSettings:
    settings = run.settings.alternatives
    if settings is None:
        raise ValueError("no alternatives are asked for")
    return settings


def _held_out(run: SelectionRun, problem: Problem) -> list[Problem]:
    """Return the problem, or one for each fold: the model has not seen mask-validation rows."""
    if len(run.splits.mask_validation):
        return [problem]
    return _in_folds(run, problem, run.rows("train"), run.folds("train"))


def _in_folds(
    run: SelectionRun, problem: Problem, rows: Rows, folds: Sequence[Fold]
) -> list[Problem]:
    """Return a problem for each fold of some rows, of a model that is fitted outside the fold."""
    refit = Refit(rows, rows.take(slice(0)), run.schema, run.recipe, run.loss)
    models = run.workers.map(_model_outside, refit, folds)
    return [
        replace(
            problem,
            base_model=partial(_itself, model),
            rows=partial(_mask_validation, rows.take(held_out)),
            on_progress=partial(_report_fold, problem.on_progress, number, len(folds)),
        )
        for number, (model, (_, held_out)) in enumerate(zip(models, folds, strict=True))
    ]


def _itself(model: FittedModel) -> FittedModel:
    return model


def _model_outside(refit: Refit, fold: Fold) -> FittedModel:
    return refit.recipe.fit(refit.train.take(fold[0]), refit.schema)


def _mask_validation(rows: Rows, *parts: Seen) -> Rows:
    if parts != ("mask_validation",):
        raise ValueError(f"a fold holds out mask-validation rows alone, not {parts}")
    return rows


def _train(rows: Rows, *parts: Seen) -> Rows:
    if parts not in (("train",), RANKED_ON):  # without a test part there are no others
        raise ValueError(f"these are training rows alone, not {parts}")
    return rows


def _folds(folds: Sequence[Fold], *parts: Seen) -> Sequence[Fold]:
    if parts != ("train",):
        raise ValueError(f"these are folds of training rows alone, not {parts}")
    return folds


def _search_among_folds(
    run: SelectionRun, problem: Problem, groups: Sequence[Sequence[int]], k: int
) -> Search:
    """Return the search for sets of k features by the rows that certify none of them."""
    settings, constraints = _alternative_settings(run), _constraints_of_sets(run, problem.keep)
    index, folds = rows_that_find(run)
    rows = run.rows("train").take(index)
    model = run.recipe.fit(rows, run.schema)
    finding = replace(
        problem,
        base_model=partial(_itself, model),
        rows=partial(_train, rows),
        folds=partial(_folds, folds),
        on_progress=ignored,  # what was measured before is the first part of the progress
    )
    held_out = partial(_in_folds, run, finding, rows, folds)
    quality = quality_of(settings.quality, finding, run.store, held_out)
    copies = chain(*copies_stood_for(groups, (), quality, constraints).values())
    return Search(quality, settings, k, None, _without(copies, constraints))


def _without(copies: Iterable[int], constraints: Constraints) -> Constraints:
    return replace(constraints, must_exclude=sorted({*constraints.excluded, *copies}))


def _report_fold(on_done: OnDone, number: int, n_parts: int, done: int, total: int) -> None:
    on_done(number * total + done, n_parts * total)


def _constraints_of_sets(run: SelectionRun, keep: tuple[int, ...]) -> Constraints:
    constraints = replace(run.feasible.constraints, must_include=keep)
    if constraints.budget is not None:
        return constraints
    groups = [replace(group, cost=0.0) for group in constraints.groups]
    return replace(constraints, groups=groups, costs=None)  # nothing depends on the costs


def _search_at(search: Search, tau: float) -> Alternatives:
    return search.sets(tau)


def _score(judge: Judge, mask: Mask) -> dict[str, Any]:
    """Return the loss of a set on the rows that judge, and its difference from the chosen set."""
    prediction = predicted(judge, mask)
    return {
        "test_loss": judge.loss_of(prediction),
        **judge.difference(prediction, judge.with_selected),
    }
