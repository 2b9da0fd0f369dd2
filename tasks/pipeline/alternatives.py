"""Alternatives to the chosen features: different sets of the best possible quality.

The search runs after the selection and does not change its result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.storage.runs.stages import StageRecord, StageWriter
from chaffinch.tasks.errors import as_input_error
from chaffinch.tasks.methods.alternatives import (
    TAUS,
    Search,
    best_known,
    if_known,
    missing_of,
    price_of,
    quality_of,
)
from chaffinch.tasks.methods.fitting import loss_of
from chaffinch.tasks.methods.refits import Refit
from chaffinch.tasks.pipeline.ingestion import description_of, part_roles, part_rows
from chaffinch.tasks.pipeline.search import mask_of, search_context
from chaffinch.tasks.pipeline.stage import Context, stage
from chaffinch.tasks.pipeline.training import read_model, tuned_recipe
from chaffinch.tasks.selection.alternatives.hill_climbing import Wrapper
from chaffinch.tasks.selection.alternatives.result import Alternatives, FeatureSet
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.settings.alternatives import AlternativeSettings
from chaffinch.tasks.statistics.bootstrap import (
    Interval,
    difference_of,
    paired_interval,
    resampling_units,
)
from chaffinch.tasks.workers.interface import InProcess

_CONFIDENCE = 0.95


@stage
def search_alternatives(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    chosen: StageRecord,
) -> None:
    """Find sets that differ from the chosen set and each other, and their qualities by tau."""
    asked = _asked(context)
    mask = mask_of(chosen)
    others = [tau for tau in TAUS if tau != asked.tau]
    # searches: the requested tau, each other tau, and the reason of missing sets
    progress = _Progress(context, n_searches=1 + len(others) + 1)
    material = replace(
        search_context(context, described, divided, trained, "search_alternatives"),
        on_progress=progress.measured,
    )
    with as_input_error():
        quality = quality_of(asked.quality, material, context.store)
        search = Search(quality, asked, tuple(np.flatnonzero(mask).tolist()), material.keep)
        progress.searched(0)
        found = search.sets(asked.tau)
        progress.searched(1)
        chosen_quality = quality.value(search.chosen)
        # Hill climbing caches scores across tau, and its engine uses the workers itself: it stays
        # in this process.
        pricing = InProcess() if isinstance(quality, Wrapper) else context.workers
        at_others = pricing.map(
            _found_at, search, others, lambda done, _: progress.searched(1 + done)
        )
        # one search for the requested tau: with a time limit a second one may differ
        at_each = {**dict(zip(others, at_others, strict=True)), asked.tau: found}
        at_each = best_known(at_each, asked.number, asked.search)
        found = at_each[asked.tau]
        prices = [price_of(tau, at_each[tau]) for tau in TAUS]
        missing = missing_of(search, found, prices)
        progress.searched(1 + len(others) + 1)
    writer.result = {
        "chosen_quality": if_known(chosen_quality),
        "sets": [_as_json(one) for one in found],
        "status": found.status,
        "bound": if_known(found.bound),
        "missing": missing,
        "prices": prices,
    }


@stage
def score_alternatives(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    chosen: StageRecord,
    retrained: StageRecord,
    found: StageRecord,
) -> None:
    """Retrain on each alternative, and compare it with the chosen set on the test rows.

    The selection is final at this stage: the test rows do not influence it.
    """
    schema, mask = description_of(described).schema, mask_of(chosen)
    test = part_rows(context, described, divided, "test")
    roles = part_roles(context, described, divided, "test")
    kind = retrained.result["kind"]
    model = read_model(context, retrained, "model", kind, schema.select(mask))
    scoring = _Scoring(
        Refit(
            part_rows(context, described, divided, "train", "mask_validation"),
            test,
            schema,
            tuned_recipe(context, trained),
            loss_of(context.settings, schema),
        ),
        model.predict(test.X[:, mask]),
        resampling_units(len(test), groups=roles.groups, times=roles.times),
        context.settings.seed,
    )
    scores = context.workers.map(
        _score,
        scoring,
        [np.isin(np.arange(len(mask)), one["indices"]) for one in found.result["sets"]],
        lambda done, total: context.on_progress("score_alternatives", done, total),
    )
    names = schema.features
    writer.result = {
        "format_version": FORMAT_VERSION,
        "format": "chaffinch alternatives",
        "settings": _asked(context).model_dump(mode="json"),
        "chosen": {
            "features": [name for name, kept in zip(names, mask, strict=True) if kept],
            "quality": found.result["chosen_quality"],
        },
        "sets": [
            {
                "features": [names[j] for j in one["indices"]],
                **{key: value for key, value in one.items() if key != "indices"},
                **score,
            }
            for one, score in zip(found.result["sets"], scores, strict=True)
        ],
        "status": found.result["status"],
        "bound": found.result["bound"],
        "missing": found.result["missing"],
        "confidence": _CONFIDENCE,
        "prices": found.result["prices"],
    }
    writer.write("alternatives.json", to_json(writer.result))


class _Progress:
    """Overall progress of a search for alternatives."""

    def __init__(self, context: Context, n_searches: int) -> None:
        self._on_progress, self._n_searches = context.on_progress, n_searches
        self._n_measured = 0

    def measured(self, done: int, total: int) -> None:
        """Report progress of the quality measurement, which precedes the searches."""
        self._n_measured = total
        self._tell(done)

    def searched(self, done: int) -> None:
        """Report the number of finished searches."""
        self._tell(self._n_measured + done)

    def _tell(self, done: int) -> None:
        self._on_progress("search_alternatives", done, self._n_measured + self._n_searches)


@dataclass(frozen=True)
class _Scoring:
    """Inputs that the scores of all alternatives share."""

    refit: Refit
    chosen: Floats
    units: Any
    seed: int


def _asked(context: Context) -> AlternativeSettings:
    """Return the settings of alternatives."""
    asked = context.settings.alternatives
    if asked is None:
        raise ValueError("no alternatives are asked for")
    return asked


def _as_json(one: FeatureSet) -> dict[str, Any]:
    """Return a set as JSON; an unknown bound is None."""
    return {
        "indices": list(one.indices),
        "quality": one.quality,
        "bound": if_known(one.bound),
        "status": one.status,
    }


def _found_at(search: Search, tau: float) -> Alternatives:
    return search.sets(tau)


def _score(scoring: _Scoring, mask: Mask) -> dict[str, Any]:
    refit = scoring.refit
    prediction = refit.model(mask).predict(refit.held_out.X[:, mask])
    rows, loss = refit.held_out, refit.loss
    test_loss = loss(rows.y, prediction, rows.weight)
    interval: Interval | None = paired_interval(
        loss,
        rows,
        scoring.chosen,
        prediction,
        scoring.units,
        confidence=_CONFIDENCE,
        seed=scoring.seed,
    )
    chosen_loss = loss(rows.y, scoring.chosen, rows.weight)
    difference = difference_of(test_loss, chosen_loss)
    return {"test_loss": test_loss, "difference": difference, "interval": interval}
