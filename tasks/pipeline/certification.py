"""Certified sets: sets that are all shown to lose no more than the tolerance.

The rows that find the sets do not certify them. With a test part all other rows find, and the test
rows certify the models that are refitted on all others; the chosen set is one of the sets. Without
one, the last half of the folds certify: each holds rows out of refits on all others. The rows that
no such fold holds out find the sets, with models and held-out rows of their own. The chosen set
comes from all rows, so it is not one of these sets; its size is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.data.splitting.splits import PARTS
from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.methods.alternatives import TAUS, Search, rising_taus
from chaffinch.tasks.methods.fitting import Fold
from chaffinch.tasks.pipeline.evaluation import leaks_in
from chaffinch.tasks.pipeline.judge import Judge, predicted
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.selection.core import Mask
from chaffinch.tasks.settings.alternatives import AlternativeSettings
from chaffinch.tasks.statistics.bootstrap import widening
from chaffinch.tasks.statistics.certified_sets import Claim, claims_in_order, share_lost
from chaffinch.tasks.statistics.verdict import CONFIDENCE, Judgement
from chaffinch.tasks.workers.interface import OnDone

Found = tuple[float, list[tuple[int, ...]]]  # a tau and its sets


def rows_that_find(run: SelectionRun) -> tuple[Index, list[Fold]]:
    """Return the training rows that find sets where folds certify them, and the folds among them.

    InputError if there are too few rows.
    """
    folds = run.folds("train")
    fitted = [rows for rows, _ in folds[_n_finding(folds) :]]
    index = reduce(np.intersect1d, fitted)
    try:
        inside = run.folds_among(index)
    except InputError as error:
        raise InputError(
            f"of certified sets, {len(index)} rows find them, too few for folds: {error.message}",
            "give more rows, or leave certified out",
        ) from error
    if not inside:
        raise InputError(
            f"of certified sets, {len(index)} rows find them, and no fold is inside these",
            "give folds that hold out each row once, or leave certified out",
        )
    return index, inside


def _n_finding(folds: Sequence[Fold]) -> int:
    return len(folds) // 2


def check_certified(run: SelectionRun) -> None:
    """Raise InputError, before anything is trained, for too few rows or features."""
    settings, n_features = run.settings.alternatives, len(run.schema.features)
    if settings is None or not settings.certified:
        return
    if settings.certified_size is not None and settings.certified_size >= n_features:
        raise InputError(
            f"certified_size must be below {n_features}, the number of features, but is "
            f"{settings.certified_size}"
        )
    if not len(run.splits.test):
        rows_that_find(run)


def found_at_rising_taus(search: Search, on_done: OnDone) -> list[Found]:
    """Return the sets at each tau, up to the first with too few of them."""
    found: list[Found] = []
    for tau in rising_taus(search.k, search.settings.dissimilarity):
        sets = search.sets(tau)
        if len(sets) < search.n_sets:
            break
        found.append((tau, [one.indices for one in sets]))
        on_done(len(found), len(TAUS))
    on_done(len(TAUS), len(TAUS))
    return found


def certified_sets(
    run: SelectionRun, judge: Judge, settings: AlternativeSettings, found: Sequence[Found]
) -> dict[str, Any]:
    """Return the sets of the highest tau that is shown, or those of the first tested."""
    has_test = judge.part == "test"
    has_chosen = has_test and not settings.together
    judging = judge if has_test else _on_certifying_folds(run, judge)
    names, chosen = run.schema.features, run.mask

    def claims() -> Iterator[Claim]:
        for tau, sets in found:
            masks = [chosen] * has_chosen + [np.isin(np.arange(len(chosen)), one) for one in sets]
            shared = judging, run.settings.tolerance
            judgements = [
                replace(judged, verdict="cannot tell") if leaks_in(run, mask) else judged
                for mask, judged in zip(
                    masks, run.workers.map(_judgement, shared, masks), strict=True
                )
            ]
            yield Claim(tau, tuple(masks), tuple(judgements))

    tested = claims_in_order(claims())
    shown = [claim for claim in tested if claim.is_shown]
    given = shown[-1] if shown else tested[0] if tested else None
    given_sets = [] if given is None else zip(given.sets, given.judgements, strict=True)
    n_outside = sum(len(getattr(run.splits, part)) for part in PARTS if part != "test")
    loss_of_all = judging.loss_of(judging.with_all_features)
    return {
        "is_shown": bool(shown),
        "tau": None if given is None else given.tau,
        "tolerance": run.settings.tolerance,
        "confidence": CONFIDENCE,
        "all_features_loss": loss_of_all,
        "rows": {
            "finding": n_outside if has_test else len(rows_that_find(run)[0]),
            "certifying": len(judging.rows),
        },
        "units": judging.n_units,
        "has_chosen": has_chosen,
        "leaks": [] if given is None else leaks_in(run, np.any(given.sets, axis=0)),
        "sets": [
            {
                "features": [name for name, kept in zip(names, mask, strict=True) if kept],
                "loss": loss_of_all + judged.difference,
                "difference": judged.difference,
                "share_lost": share_lost(judged, loss_of_all),
                "share_lost_at_most": judged.share_lost_at_most,
                "verdict": judged.verdict,
            }
            for mask, judged in given_sets
        ],
        "tested": [
            {
                "tau": claim.tau,
                "is_shown": claim.is_shown,
                "share_lost_at_most": claim.share_lost_at_most,
            }
            for claim in tested
        ],
    }


def _on_certifying_folds(run: SelectionRun, judge: Judge) -> Judge:
    """Return the judge of the folds that take no part in finding the sets."""
    if run.out_of_fold is None:
        raise ValueError("without a test part there are predictions of held-out rows")
    fold = run.out_of_fold["fold"].to_numpy()
    first = _n_finding(run.folds("train"))
    place = np.flatnonzero(fold >= first)
    numbers = dict.fromkeys(fold.tolist())
    certifying = [one for number, one in zip(numbers, judge.folds, strict=True) if number >= first]
    return replace(
        judge,
        folds=tuple(certifying),
        rows=judge.rows.take(place),
        units=np.unique(judge.units[place], return_inverse=True)[1],
        with_all_features=judge.with_all_features[place],
        with_selected=judge.with_selected[place],
        constant=judge.constant[place],
        widen=widening((len(fitted), len(held_out)) for fitted, held_out in certifying),
    )


def _judgement(shared: tuple[Judge, float], mask: Mask) -> Judgement:
    judge, tolerance = shared
    prediction = predicted(judge, mask)
    return judge.judgement(
        prediction, judge.with_all_features, is_smaller=True, tolerance=tolerance
    )
