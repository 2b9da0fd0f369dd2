"""AFS-BM: alternate training of the model and random masking of features.

Adaptive Feature Selection with Binary Masking, arXiv 2401.11250. Each slack, with each number of
rejections, is a sequential walk of trainings; walks are independent, so that each worker computes
whole walks. A walk of less patience is the beginning of one of more, so that one walk has the masks
of all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import BeforeValidator, ConfigDict, Field, field_validator

from chaffinch.tasks.methods.bmo import Slack
from chaffinch.tasks.methods.fitting import Fold, Tuner
from chaffinch.tasks.methods.protocol import Problem, unique_masks, unused_features_error
from chaffinch.tasks.methods.refits import Refit, refit_of
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, MaskedLoss
from chaffinch.tasks.selection.elimination.afs_bm import MaskingWalk, Rules, alternate
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.settings.base import Count, InOrder, as_list, setting
from chaffinch.tasks.settings.method import Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

logger = logging.getLogger(__name__)

_Counts = Annotated[tuple[Count, ...], Field(min_length=1), BeforeValidator(as_list), InOrder]


class AfsBm(Method):
    """Adaptive feature selection with binary masking: train and mask at random, in turn."""

    model_config = ConfigDict(title="AFS-BM")
    # masks are random: a mask is not the best of its size
    declared_traits = Traits(takes_sizes=False, limits_size=True)
    published = MappingProxyType(  # Table 1 and section 5.1.2
        {
            "method.slacks": (0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05),
            "method.rejections": (5, 6, 7, 8, 9, 10),
            "method.patience": (3, 4, 5, 6, 7),
            "shares": (50, 20, 20, 10),
        }
    )

    kind: Literal["afs_bm"] = setting(
        "afs_bm",
        "Adaptive feature selection with binary masking trains the model again between rounds in "
        "which features, drawn at random, are masked; it finds the number of features itself.",
    )
    slacks: tuple[Slack, ...] = setting(
        (0.01, 0.02, 0.03, 0.05),
        "A feature stays masked while loss <= last accepted loss x (1 + slack). Of several slacks, "
        "rejections or patiences, those whose mask does best on the model-validation rows win.",
        min_length=1,
    )
    n_features: Count | None = setting(
        None,
        "Keep at most this many features: a search that would end with more continues to mask the "
        "feature that costs least.",
        title="At most this many features",
    )
    drift_cap: Slack | None = setting(
        None,
        "A feature stays masked only while loss <= very first loss x (1 + cap) as well. By default "
        "no cap.",
    )
    rejections: _Counts = setting((10,), "A round ends once this many features were put back.")
    patience: _Counts = setting(
        (5,), "The search ends after this many rounds in a row that masked nothing."
    )
    start: tuple[str, ...] = setting(
        (), "Features to begin with, besides those that are kept. By default all."
    )
    tune_every_round: bool = setting(
        False,
        "Choose the hyper-parameters again for each training of the search. By default they are "
        "those of the base model.",
    )
    penalty: Annotated[float, Field(ge=0)] = setting(
        0.0,
        "Each loss that is compared has the share of kept features added to it, so many times. 1 "
        "is equation 5 of the paper; its algorithm has no penalty.",
    )

    @field_validator("slacks", "start")
    @classmethod
    def _sorted(cls, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Sort values, so that their order does not change the identity of settings."""
        return tuple(sorted(set(values)))

    @property
    def named_features(self) -> tuple[str, ...]:
        return self.start

    def check_tuning(self, tuning: str) -> None:
        """Raise ValueError if there are no hyper-parameters to tune every round."""
        if self.tune_every_round and tuning == "none":
            raise ValueError(
                "tune_every_round needs hyper-parameters to choose from but tuning is none; leave "
                "it out, or set tuning to small"
            )

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> None:
        """Return None: rounds end where the loss rises."""
        return

    def search(self, problem: Problem) -> SearchResult:
        """Alternate training and masking, once for each slack and number of rejections."""
        search = _Search(
            self,
            refit_of(problem),
            problem.tuner,
            tuple(problem.folds("train")) if self.tune_every_round else (),
            problem.model,
            problem.baseline,
            problem.keep,
            problem.seed,
        )
        limits = list(product(self.slacks, self.rejections))
        walks = problem.workers.map(_walk, search, limits, problem.on_progress)
        line = (
            "slack %g, rejections %d: %d rounds, model %s trained %d times, %d of %d features kept"
        )
        for walk in walks:
            trained = problem.recipe.name, walk.n_trainings
            kept = walk.mask.sum(), len(walk.mask)
            logger.info(line, walk.slack, walk.rejections, len(walk.rounds), *trained, *kept)
        rounds = [record for walk in walks for record in walk.rounds]
        is_flat = all(loss == record.trained_loss for record in rounds for loss in record.losses)
        if is_flat and not problem.keep:
            raise unused_features_error(problem, rounds[0].trained_loss)
        return _result_of(walks, problem.schema.features)

    def candidates(self, result: SearchResult) -> list[Candidate]:
        most, by_mask = self.n_features, dict[tuple[float, bytes], Candidate]()
        steps = zip(result.steps.to_pylist(), result.masks, strict=True)
        for (slack, _), rounds in groupby(steps, lambda step: _walk_of(step[0])):
            n_unchanged, not_ended = 0, set(self.patience)
            for record, mask in rounds:
                n_unchanged = 0 if record["removed"] else n_unchanged + 1
                # with less patience a walk may end above the limit, which the longest comes to
                if n_unchanged in not_ended and mask.sum() <= (most or len(mask)):
                    not_ended.remove(n_unchanged)
                    by_mask[slack, mask.tobytes()] = Candidate(mask, [slack], at_most=most)
        return unique_masks(list(by_mask.values()))

    def report(self, result: SearchResult) -> dict[str, Any]:
        return {"rounds": result.steps.to_pylist()}


def _walk_of(record: Mapping[str, Any]) -> tuple[float, int | None]:
    """Return what sets the walk of a round apart; earlier runs had one number of rejections."""
    return record["slack"], record.get("rejections")


def _result_of(walks: Sequence[MaskingWalk], features: Sequence[str]) -> SearchResult:
    """Return each round of each walk, walk by walk."""
    rounds = [record for walk in walks for record in walk.rounds]

    def names(positions: Iterable[Sequence[int]]) -> pa.Array:
        return pa.array([[features[j] for j in some] for some in positions], pa.list_(pa.string()))

    columns = {
        "slack": pa.array([walk.slack for walk in walks for _ in walk.rounds], pa.float64()),
        "rejections": pa.array(
            [walk.rejections for walk in walks for _ in walk.rounds], pa.int64()
        ),
        "round": pa.array(
            [number for walk in walks for number, _ in enumerate(walk.rounds, 1)], pa.int64()
        ),
        "trained_loss": pa.array([record.trained_loss for record in rounds], pa.float64()),
        "tried": names(record.tried for record in rounds),
        "tried_losses": pa.array([record.losses for record in rounds], pa.list_(pa.float64())),
        "rejected": names(record.rejected for record in rounds),
        "removed": names(record.removed for record in rounds),
    }
    masks, losses = [record.mask for record in rounds], [record.loss for record in rounds]
    return SearchResult.of_masks(features, masks, losses, columns)


@dataclass(frozen=True)
class _Search:
    """Inputs that the walks of all slacks share."""

    method: AfsBm
    refit: Refit
    tuner: Tuner
    folds: tuple[Fold, ...]
    model: FittedModel
    baseline: Floats
    keep: tuple[int, ...]
    seed: int

    def trained(self, mask: Mask) -> MaskedLoss:
        """Return the masked loss of a model trained on the features of a mask (d,)."""
        held_out, baseline = self.refit.held_out.select(mask), self.baseline[mask]
        return masked_loss(self._model(mask), held_out, self.refit.loss, baseline)

    def _model(self, mask: Mask) -> FittedModel:
        if mask.all():
            return self.model  # tuned and fitted with all features
        if not self.method.tune_every_round:
            return self.refit.model(mask)
        rows, schema = self.refit.train.select(mask), self.refit.schema.select(mask)
        return self.tuner.recipe_for(rows, schema, self.folds).fit(rows, schema)


def _walk(search: _Search, limits: tuple[float, int]) -> MaskingWalk:
    """Return the walk of a slack and a number of rejections."""
    method, keep, features = search.method, search.keep, search.refit.schema.features
    rules = Rules(*limits, method.patience[-1], method.drift_cap, method.penalty)
    start = np.isin(features, method.start or features)
    start[list(keep)] = True
    most = method.n_features
    return alternate(search.trained, start, rules, search.seed, keep=keep, at_most=most)
