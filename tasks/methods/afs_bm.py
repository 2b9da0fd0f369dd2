"""AFS-BM: alternate training of the model and random masking of features.

Adaptive Feature Selection with Binary Masking, arXiv 2401.11250. Each slack is a sequential walk of
trainings; walks are independent, so that each worker computes whole walks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, field_validator

from chaffinch.tasks.methods.bmo import Slack
from chaffinch.tasks.methods.fitting import Fold, Tuner
from chaffinch.tasks.methods.masks import FLOATS, NAMES, columns_of_masks, names_of
from chaffinch.tasks.methods.protocol import (
    Candidate,
    Recorded,
    SearchContext,
    SearchMethod,
    each_mask_once,
    no_use_made,
)
from chaffinch.tasks.methods.refits import Refit, refit_of
from chaffinch.tasks.selection.afs_bm import (
    MaskingRound,
    MaskingWalk,
    MaskingWalks,
    Rules,
    alternate,
)
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, MaskedLoss, Schema
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.settings.base import Count, setting

logger = logging.getLogger(__name__)


class AfsBm(SearchMethod[MaskingWalks]):
    """Adaptive feature selection with binary masking: train and mask at random, in turn."""

    model_config = ConfigDict(title="AFS-BM")
    takes_sizes = False  # masks are random: a mask is not the best of its size
    limits_size = True

    @property
    def named_features(self) -> tuple[str, ...]:
        return self.start

    kind: Literal["afs_bm"] = setting(
        "afs_bm",
        0,
        "Kind",
        "Adaptive feature selection with binary masking trains the model again between rounds in "
        "which features, drawn at random, are masked; it finds the number of features itself.",
    )
    slacks: tuple[Slack, ...] = setting(
        (0.01, 0.02, 0.03, 0.05),
        1,
        "Slacks",
        "A feature stays masked while loss <= last accepted loss x (1 + slack). Each slack is a "
        "search of its own; the one whose mask does best on the model-validation rows wins.",
        min_length=1,
    )
    n_features: Count | None = setting(
        None,
        2,
        "At most this many features",
        "Keep at most this many features: a search that would end with more continues to mask the "
        "feature that costs least.",
    )
    drift_cap: Slack | None = setting(
        None,
        3,
        "Drift cap",
        "A feature stays masked only while loss <= very first loss x (1 + cap) as well. By default "
        "no cap.",
    )
    rejections: Count = setting(
        10, 4, "Rejections", "A round ends once this many features were put back."
    )
    patience: Count = setting(
        5, 5, "Patience", "The search ends after this many rounds in a row that masked nothing."
    )
    start: tuple[str, ...] = setting(
        (),
        6,
        "Start",
        "Features to begin with, besides those that are kept. By default all.",
    )
    tune_every_round: bool = setting(
        False,
        7,
        "Tune every round",
        "Choose the hyper-parameters again for each training of the search. By default they are "
        "those of the base model.",
    )

    @field_validator("slacks", "start")
    @classmethod
    def _in_one_order(cls, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Sort values, so that their order does not change the identity of settings."""
        return tuple(sorted(set(given)))

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

    def search(self, context: SearchContext) -> MaskingWalks:
        """Alternate training and masking, once for each slack."""
        search = _Search(
            self,
            refit_of(context),
            context.tuner,
            tuple(context.folds("train")) if self.tune_every_round else (),
            context.model,
            context.baseline,
            context.keep,
            context.seed,
        )
        walks = context.workers.map(_walk, search, self.slacks, context.on_progress)
        line = "slack %g: %d rounds, model %s trained %d times, %d of %d features kept"
        for walk in walks:
            trained = context.recipe.name, walk.n_trainings
            kept = walk.mask.sum(), len(walk.mask)
            logger.info(line, walk.slack, len(walk.rounds), *trained, *kept)
        rounds = [one for walk in walks for one in walk.rounds]
        is_flat = all(loss == one.trained_loss for one in rounds for loss in one.losses)
        if is_flat and not context.keep:
            raise no_use_made(context, rounds[0].trained_loss)
        return MaskingWalks(tuple(walks))

    def candidates(self, found: MaskingWalks) -> list[Candidate]:
        most = self.n_features
        return each_mask_once(
            [Candidate(walk.mask, [walk.slack], at_most=most) for walk in found.walks]
        )

    def record(self, found: MaskingWalks, schema: Schema) -> Recorded:
        rows = [
            (walk.slack, n, one) for walk in found.walks for n, one in enumerate(walk.rounds, 1)
        ]
        rounds = [one for _, _, one in rows]
        columns = {
            "slack": pa.array([slack for slack, _, _ in rows], pa.float64()),
            "round": pa.array([number for _, number, _ in rows], pa.int64()),
            "trained_loss": pa.array([one.trained_loss for one in rounds], pa.float64()),
            "tried": pa.array([names_of(one.tried, schema) for one in rounds], NAMES),
            "tried_losses": pa.array([one.losses for one in rounds], FLOATS),
            "rejected": pa.array([names_of(one.rejected, schema) for one in rounds], NAMES),
            "removed": pa.array([names_of(one.removed, schema) for one in rounds], NAMES),
        }
        masks, losses = [one.mask for one in rounds], [one.loss for one in rounds]
        columns |= columns_of_masks(masks, losses, schema)
        return Recorded(columns, [int(mask.sum()) for mask in masks])

    def read(self, table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> MaskingWalks:
        position = {name: j for j, name in enumerate(schema.features)}
        walks: list[tuple[float, list[MaskingRound]]] = []
        for row in table.to_pylist():
            if row["round"] == 1:
                walks.append((row["slack"], []))
            tried, rejected, removed = (
                tuple(position[name] for name in row[column])
                for column in ("tried", "rejected", "removed")
            )
            walks[-1][1].append(
                MaskingRound(
                    np.isin(schema.features, row["features"]),
                    row["trained_loss"],
                    tried,
                    tuple(row["tried_losses"]),
                    rejected,
                    removed,
                    row["loss"],
                )
            )
        return MaskingWalks(tuple(MaskingWalk(slack, tuple(rounds)) for slack, rounds in walks))

    def report(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, Any]:
        return {"rounds": table.to_pylist()}


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


def _walk(search: _Search, slack: float) -> MaskingWalk:
    method, keep, features = search.method, search.keep, search.refit.schema.features
    rules = Rules(slack, method.rejections, method.patience, method.drift_cap)
    start = np.isin(features, method.start or features)
    start[list(keep)] = True
    most = method.n_features
    return alternate(search.trained, start, rules, search.seed, keep=keep, at_most=most)
