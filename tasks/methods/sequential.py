"""Sequential selection: add or remove one feature at a time, each by a refit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict

from chaffinch.tasks.methods.masks import read_masks, record_masks, report_masks
from chaffinch.tasks.methods.protocol import (
    Candidate,
    Recorded,
    SearchContext,
    SearchMethod,
    sizes_asked_for,
)
from chaffinch.tasks.methods.refits import PARTS_OF_REFITS, RefitLosses, log_refits
from chaffinch.tasks.methods.removals import (
    best_first,
    read_elimination,
    record_elimination,
    report_removals,
)
from chaffinch.tasks.selection.baselines.names import SequentialName
from chaffinch.tasks.selection.baselines.wrappers import (
    FoundMasks,
    n_refits_backward,
    n_refits_forward,
    sequential_backward,
    sequential_forward,
)
from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.core import Mask, Schema
from chaffinch.tasks.settings.base import SIZES, Sizes, setting

_KINDS: dict[SequentialName, str] = {
    "sequential_forward": "the feature whose refit has the lowest loss on the mask-validation rows "
    "is added, and so on",
    "sequential_backward": "the feature without which the refit has the lowest loss on the "
    "mask-validation rows is removed, and so on",
}


class Sequential(SearchMethod[FoundMasks | EliminationPath]):
    """Sequential selection: add or remove one feature at a time, each by a refit."""

    model_config = ConfigDict(title="Sequential")

    kind: SequentialName = setting(
        "sequential_forward",
        0,
        "Kind",
        "; ".join(f"{kind}: {words}" for kind, words in _KINDS.items()) + ".",
    )
    n_features: Sizes = SIZES

    @property
    def refits(self) -> str:
        return _KINDS[self.kind]

    @property
    def parts_used(self) -> Mapping[str, str]:
        return PARTS_OF_REFITS

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        sizes = np.array([*sizes_asked_for(self.n_features, n_features, 1)])
        forward, backward = np.arange(1, sizes.max() + 1), np.arange(sizes.min(), n_features)
        size = forward if self._is_forward else backward
        tried = n_features - size + 1 if self._is_forward else size + 1
        return np.repeat(size, tried).tolist()

    def search(self, context: SearchContext) -> FoundMasks | EliminationPath:
        """Add or remove one feature at a time."""
        keep, n_features = context.keep, len(context.schema.features)
        sizes = sizes_asked_for(self.n_features, n_features, max(1, len(keep)))
        limit = max(sizes) if self._is_forward else min(sizes)
        count = n_refits_forward if self._is_forward else n_refits_backward
        n_refits = count(n_features, limit, len(keep))
        log_refits(self.kind, context, n_refits)
        losses = RefitLosses(context, n_refits)
        found: FoundMasks | EliminationPath
        if self._is_forward:
            found = sequential_forward(losses, n_features, largest=limit, keep=keep)
        else:
            found = sequential_backward(losses, n_features, smallest=limit, keep=keep)
        losses.check_that_features_matter()
        return found

    def unmasked_loss(self, found: Any) -> float | None:
        return None if self._is_forward else float(found.unmasked_loss)

    def candidates(self, found: FoundMasks | EliminationPath) -> list[Candidate]:
        masks = self._masks(found)
        sizes = sizes_asked_for(self.n_features, found.n_features, min(masks))
        order = self._best_first(found)
        return [Candidate(masks[size], sizes[size], order, size) for size in sorted(sizes)]

    def reaching(self, sizes: Sequence[int]) -> Sequential:
        return self.model_copy(update={"n_features": (*self.n_features, *sizes)})

    def mask_of_size(self, found: FoundMasks | EliminationPath, size: int) -> Mask | None:
        return self._masks(found).get(size)

    @property
    def _is_forward(self) -> bool:
        return self.kind == "sequential_forward"

    def _best_first(self, found: Any) -> list[int]:
        if not self._is_forward:
            return best_first(found.n_features, found.removed)
        n_masks = np.sum(found.masks, axis=0)  # those added first are in most
        order: list[int] = np.argsort(-n_masks, kind="stable").tolist()
        return order

    def _masks(self, found: Any) -> dict[int, Mask]:
        if self._is_forward:
            return {int(mask.sum()): mask for mask in found.masks}
        fewest = found.n_features - len(found.removed)
        return {size: found.flbmo(size) for size in range(fewest, found.n_features + 1)}

    def record(self, found: Any, schema: Schema) -> Recorded:
        return (record_masks if self._is_forward else record_elimination)(found, schema)

    def read(
        self, table: pa.Table, facts: Mapping[str, Any], schema: Schema
    ) -> FoundMasks | EliminationPath:
        if self._is_forward:
            return read_masks(table, schema)
        return read_elimination(table, facts, schema)

    def report(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, Any]:
        return report_masks(table) if self._is_forward else report_removals(table)
