"""GBMO and FLBMO: repeatedly remove the feature with the lowest masked loss.

Binary Mask Optimization, arXiv 2401.12644.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from chaffinch.tasks.methods.protocol import Candidate, Recorded, SearchContext, no_use_made
from chaffinch.tasks.methods.removals import (
    RemovalMethod,
    masks_of_sizes,
    masks_on_the_way,
    read_elimination,
    record_elimination,
)
from chaffinch.tasks.selection.bmo import EliminationPath, eliminate
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.settings.base import SIZES, Count, Sizes, setting

Slack = Annotated[float, Field(ge=0)]


class _MaskOptimisation(RemovalMethod[EliminationPath]):
    """The search that GBMO and FLBMO share."""

    @property
    def reads_files(self) -> bool:
        return True

    def search(self, context: SearchContext) -> EliminationPath:
        """Remove one feature at a time by masked losses of the base model."""
        engine = context.masked_loss(len(context.schema.features) - len(context.keep))
        path = eliminate(engine, keep=context.keep, on_removal=context.on_progress)
        is_flat = all(loss == path.unmasked_loss for loss in path.losses)
        # a model that uses one feature has a constant loss until only that feature is left
        if is_flat and not context.keep and engine.without_each().min() == path.unmasked_loss:
            raise no_use_made(context, path.unmasked_loss)
        return path

    def unmasked_loss(self, found: EliminationPath) -> float:
        return found.unmasked_loss

    def record(self, found: EliminationPath, schema: Schema) -> Recorded:
        return record_elimination(found, schema)

    def read(self, table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> EliminationPath:
        return read_elimination(table, facts, schema)


class Gbmo(_MaskOptimisation):
    """General binary mask optimisation: remove features while the loss allows it."""

    model_config = ConfigDict(title="GBMO")

    limits_size = True

    kind: Literal["gbmo"] = setting(
        "gbmo",
        0,
        "Kind",
        "General binary mask optimisation finds the number of features itself.",
    )
    slacks: tuple[Slack, ...] = setting(
        (0.00025, 0.001, 0.01, 0.05),
        1,
        "Slacks",
        "A removal is accepted while loss <= previous loss x (1 + slack); the slack whose mask "
        "does best on the model-validation rows wins.",
        min_length=1,
    )
    n_features: Count | None = setting(
        None,
        2,
        "At most this many features",
        "Keep at most this many features: removals continue until no more are left.",
    )
    drift_cap: Slack | None = setting(
        None,
        3,
        "Drift cap",
        "Also stop once the loss exceeds the unmasked loss x (1 + cap). By default no cap.",
    )

    def candidates(self, found: EliminationPath) -> list[Candidate]:
        sizes: dict[int, list[float]] = {}
        for slack in self.slacks:
            mask = found.gbmo(slack, n_features=self.n_features, drift_cap=self.drift_cap)
            sizes.setdefault(int(mask.sum()), []).append(slack)
        return masks_on_the_way(found, sizes, self.n_features)


class Flbmo(_MaskOptimisation):
    """Fixed-length binary mask optimisation: remove features until a size is reached."""

    model_config = ConfigDict(title="FLBMO")

    kind: Literal["flbmo"] = setting(
        "flbmo",
        0,
        "Kind",
        "Fixed-length binary mask optimisation keeps a fixed number of features.",
    )
    n_features: Sizes = SIZES

    def candidates(self, found: EliminationPath) -> list[Candidate]:
        return masks_of_sizes(found, self.n_features)
