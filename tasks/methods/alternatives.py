"""Alternative feature sets: qualities by name, the search, missing sets, and the price curve."""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

import numpy as np

from chaffinch.storage.runs.store import Store
from chaffinch.tasks.methods.baselines.rankings import scores_of
from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.methods.refits import Refit, refitted_loss
from chaffinch.tasks.selection.alternatives.designs import Solved
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.alternatives.find import bounds_in_place, find_alternatives
from chaffinch.tasks.selection.alternatives.hill_climbing import MaskedLossQuality, Wrapper
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Quality, Univariate
from chaffinch.tasks.selection.alternatives.result import Alternatives
from chaffinch.tasks.selection.baselines.columns import (
    binned_information,
    binned_information_of_pairs,
)
from chaffinch.tasks.selection.baselines.filters import mutual_information_with, uncertainties
from chaffinch.tasks.selection.baselines.importances import select_from_model
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.core import Floats, MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.masked_loss.mean import MeanLoss
from chaffinch.tasks.settings.alternatives import AlternativeSettings, QualityName, SearchName
from chaffinch.tasks.settings.identity import digest, versions

# The rankings whose scores are qualities of single features.
_RANKINGS = ("mutual_information", "relieff")

MODEL_GAIN = "quality model_gain"  # name in errors of unsuitable models

# Qualities by the dependencies of pairs, and the measure of dependence.
_OF_PAIRS: dict[QualityName, tuple[type[MRMR] | type[FCBF] | type[CFS], str]] = {
    "mrmr": (MRMR, "mutual information"),
    "binned_mrmr": (MRMR, "binned mutual information"),
    "fcbf": (FCBF, "symmetrical uncertainty"),
    "cfs": (CFS, "symmetrical uncertainty"),
}


def quality_of(
    name: QualityName,
    problem: Problem,
    store: Store | None,
    held_out: Callable[[], Sequence[Problem]],
) -> Quality:
    """Return a quality by name, computed on training or mask-validation rows.

    `held_out` gives the inputs of qualities by a model's losses on rows that it has not seen, for
    each such model; the quality is their mean, weighted by the rows.
    """
    names = problem.schema.features
    if name == "model_gain":
        return Univariate(select_from_model(problem.model, MODEL_GAIN), names)
    if name == "permutation":
        problems = held_out()
        scores = [scores_of(name, problem) for problem in problems]
        return Univariate(_mean(scores, problems), names)
    for ranking in _RANKINGS:
        if name == ranking:
            return Univariate(scores_of(ranking, problem), names)
    if name in ("masked_loss", "masked_loss_importance"):
        problems = held_out()
        engine = MeanLoss(list(map(_engine, problems)), list(map(_weight, problems)))
        if name == "masked_loss":
            return MaskedLossQuality(engine, names=names)
        return Univariate(engine.without_each() - engine.loss, names)
    if name == "wrapper":
        return _wrapper(problem)
    if name == "binned_mutual_information":
        return Univariate(binned_information(problem.rows("train"), problem.schema), names)
    quality, measure = _OF_PAIRS[name]
    return quality(*_dependencies(measure, problem, store), names)


def _wrapper(problem: Problem) -> Wrapper:
    """Return less the loss of the model fitted on a set, of the last fold of the training rows.

    Bach, arXiv 2307.11607v3, section 5.3: a stratified 80:20 split, as it is with five folds. The
    climb starts from the set of the highest binned mutual information.
    """
    rows, schema = problem.rows("train"), problem.schema
    refit = Refit(rows, rows.take(slice(0)), schema, problem.recipe, problem.loss)
    refit = refit.fold(problem.folds("train")[-1])

    def score(indices: tuple[int, ...]) -> float:
        mask = np.isin(np.arange(len(schema.features)), indices)
        return -refitted_loss(refit, mask)

    start = binned_information(refit.train, schema)
    return Wrapper(score, len(schema.features), names=schema.features, start=start)


def _dependencies(measure: str, problem: Problem, store: Store | None) -> tuple[Floats, Floats]:
    """Return the dependencies of features on the target (d,) and on each other (d, d).

    The store keeps them for other runs: they are slow to compute and independent of the search.
    """
    rows = problem.rows("train")
    if store is None:
        return _measure(measure, rows, problem)
    key, kept = _key(measure, rows, problem), store.dependencies
    record = kept.finished(key, key)
    if record is None:
        with kept.stage(key, key) as writer:
            content = io.BytesIO()
            np.save(content, np.vstack(_measure(measure, rows, problem)), allow_pickle=False)
            writer.write(f"{key}.npy", content.getvalue())
        record = writer.record
    matrix: Floats = np.load(io.BytesIO(record.read(f"{key}.npy")), allow_pickle=False)
    return matrix[0], matrix[1:]


def _measure(measure: str, rows: Rows, problem: Problem) -> tuple[Floats, Floats]:
    if measure == "symmetrical uncertainty":
        return uncertainties(rows, problem.schema)
    if measure == "binned mutual information":
        of_pairs = binned_information_of_pairs(rows, problem.schema)
        return binned_information(rows, problem.schema), of_pairs
    # without progress, which counts the columns of all pairs only
    silent = replace(problem, on_progress=lambda done, total: None)
    relevance = scores_of("mutual_information", silent)
    return relevance, _information_of_pairs(rows, problem)


def _key(measure: str, rows: Rows, problem: Problem) -> str:
    """Return a digest of the inputs of the dependencies."""
    schema = problem.schema
    parts = [np.ascontiguousarray(part).data for part in (rows.X, rows.y)]
    hashes = [hashlib.sha256(part).hexdigest() for part in parts]
    return digest(
        {
            "measure": measure,
            "rows": hashes,
            "shape": list(rows.X.shape),
            "categories": list(schema.n_categories),
            "classes": schema.n_classes,
            "seed": problem.seed,
            "versions": versions(),
        }
    )


def _engine(problem: Problem) -> MaskedLoss:
    return replace(problem, feasible=None).masked_loss()


def _weight(problem: Problem) -> float:
    rows = problem.masked_rows()
    return float(len(rows) if rows.weight is None else rows.weight.sum())


def _mean(scores: Sequence[Floats], problems: Sequence[Problem]) -> Floats:
    return np.asarray(np.average(scores, axis=0, weights=list(map(_weight, problems))))


def _information_of_pairs(rows: Rows, problem: Problem) -> Floats:
    """Return the mutual information of all pairs of features, shape (d, d)."""
    pairs = rows, problem.schema, problem.seed
    features = range(len(problem.schema.features))
    columns = problem.workers.map(_information_with, pairs, features, problem.on_progress)
    matrix = np.stack(columns, axis=1)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def _information_with(pairs: tuple[Rows, Schema, int], feature: int) -> Floats:
    return mutual_information_with(*pairs, feature)


def copies_stood_for(
    groups: Sequence[Sequence[int]],
    chosen: Collection[int],
    quality: Quality,
    constraints: Constraints,
) -> dict[int, list[int]]:
    """Return the near copies that a feature stands for, so that no set takes them.

    Of each group a feature that every set keeps stands for the others, or else a chosen one; of
    several the cheapest, and then that of the highest quality by itself. Features of the
    constraints' groups stand for themselves alone.
    """
    grouped = {j for group in constraints.groups for j in group.features}
    kept, costs = constraints.included, constraints.costs
    stood_for: dict[int, list[int]] = {}
    for group in groups:
        members = sorted(
            (j for j in group if j not in grouped),
            key=lambda j: (
                j not in kept,
                j not in chosen,
                0.0 if costs is None else costs[j],
                -quality.value([j]),
            ),
        )
        if copies := sorted(j for j in members[1:] if j not in kept):
            stood_for[members[0]] = copies
    return stood_for


# Reasons why no more sets are possible, all proven by the search.
Reason = Literal["tau", "at_once", "redundant", "all_features", "all_kept", "no_more"]
# Changes that may allow more sets.
Remedy = Literal[
    "lower_tau",
    "fewer_alternatives",
    "sequential",
    "fewer_kept",
    "fewer_features",
    "another_quality",
    "constraints",
]


class Missing(TypedDict):
    """Reason for fewer sets than requested, and remedies."""

    reason: Reason
    remedies: list[Remedy]


@dataclass(frozen=True)
class Search:
    """Search for sets of k features, at any tau, without near copies.

    With the chosen set they are its alternatives, without it one set more.
    """

    quality: Quality
    settings: AlternativeSettings
    k: int
    chosen: tuple[int, ...] | None
    constraints: Constraints  # of every set; they exclude near copies

    @property
    def n_sets(self) -> int:
        """Number of sets to find."""
        return self.settings.number + (self.chosen is None)

    def sets(self, tau: float) -> Alternatives:
        """Return the sets that exist, at most the requested number."""
        settings, chosen = self.settings, self.chosen
        return find_alternatives(
            self.quality,
            k=self.k,
            n_alternatives=self.n_sets - 1,
            tau=tau,
            dissimilarity=settings.dissimilarity,
            search=settings.search,
            aggregate=settings.aggregate,
            constraints=self.constraints,
            previous=() if chosen is None else [chosen],
            time_limit=settings.time_limit,
        )


def missing_of(search: Search, alternatives: Alternatives) -> Missing | None:
    """Return the reason for missing sets and remedies, or None without a proof."""
    if alternatives.status != "infeasible":
        return None
    settings, k = search.settings, search.k
    if k == search.quality.n_features - len(search.constraints.must_exclude):
        return {"reason": "all_features", "remedies": ["fewer_features"]}
    n_kept = len(search.constraints.must_include)
    if k == n_kept:
        return {"reason": "all_kept", "remedies": ["fewer_kept"]}
    is_far = largest_overlap(k, k, settings.tau, settings.dissimilarity) < k - 1
    is_by_pairs = isinstance(search.quality, FCBF) and k > 1
    is_at_once = settings.search == "simultaneous" and search.n_sets > 1
    may_help: dict[Remedy, bool] = {
        "lower_tau": is_far,
        "fewer_alternatives": is_at_once,
        "sequential": is_at_once,
        "fewer_kept": n_kept > 0,
        "fewer_features": is_far and k - n_kept > 1,
        "another_quality": is_by_pairs,
        "constraints": bool(search.constraints.groups) or search.constraints.budget is not None,
    }
    reason: Reason = "tau" if is_far else "no_more"
    if is_by_pairs:
        reason = "redundant"
    if is_at_once:
        reason = "at_once"
    return {"reason": reason, "remedies": [remedy for remedy, may in may_help.items() if may]}


# Price curve: the best known sets at each tau. Sets that differ by tau also differ by every lower
# tau: where a search without a proof finds worse sets, those of the higher tau are used.

TAUS = tuple(tenths / 10 for tenths in range(1, 11))


def rising_taus(k: int, dissimilarity: Dissimilarity) -> list[float]:
    """Return the tenths of tau, of those with as many features in common the lowest."""
    of_overlap = {largest_overlap(k, k, tau, dissimilarity): tau for tau in reversed(TAUS)}
    return sorted(of_overlap.values())


def best_known(
    by_tau: Mapping[float, Alternatives], n_sets: int, search: SearchName
) -> dict[float, Alternatives]:
    """Return the best known sets of each tau; proven and incomplete sets are unchanged."""
    known: dict[float, Alternatives] = {}
    best: Alternatives | None = None
    for tau in sorted(by_tau, reverse=True):
        sets = by_tau[tau]
        if best is not None and sets.status == "feasible" and best.total > sets.total:
            sets = _with_sets_of(sets, best, search)
        if len(sets) == n_sets and (best is None or sets.total > best.total):
            best = sets
        known[tau] = sets
    return {tau: known[tau] for tau in by_tau}


def price_of(tau: float, sets: Alternatives) -> dict[str, Any]:
    """Return the point of the price curve at a tau; an unknown bound is None."""
    return {
        "tau": tau,
        "qualities": [feature_set.quality for feature_set in sets],
        "bounds": [if_known(feature_set.bound) for feature_set in sets],
        "statuses": [feature_set.status for feature_set in sets],
        "bound": if_known(sets.bound),
        "status": sets.status,
    }


def if_known(value: float) -> float | None:
    """Return a finite number, or None for an infeasible set or an unknown bound."""
    return value if math.isfinite(value) else None


def _with_sets_of(sets: Alternatives, better: Alternatives, search: SearchName) -> Alternatives:
    """Return better sets of a higher tau, with the bounds of the search at the lower tau."""
    qualities = [feature_set.quality for feature_set in better]
    if search == "sequential":
        # the first set is constrained least: its bound holds for every set
        bounds = [max(quality, sets[0].bound) for quality in qualities]
        bound = math.fsum(bounds)
    else:
        bound = max(better.total, sets.bound)
        solved = Solved(None, better.total, bound, complete=False)
        # with aggregate "min", the highest bound of a set holds for every set
        highest = (
            max(feature_set.bound for feature_set in sets) if sets.aggregate == "min" else math.inf
        )
        bounds = bounds_in_place(qualities, solved, len(qualities), sets.aggregate, highest)
    replaced = tuple(
        replace(feature_set, bound=known, status="feasible", seconds=old.seconds)
        for feature_set, old, known in zip(better, sets, bounds, strict=True)
    )
    return replace(sets, sets=replaced, total=better.total, bound=bound)
