"""Sequential selection: add or remove single features by refits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import ConfigDict

from chaffinch.tasks.methods.paths import of_elimination
from chaffinch.tasks.methods.protocol import Problem, masks_of_sizes, requested_sizes
from chaffinch.tasks.methods.refits import PARTS_OF_REFITS, RefitLosses, log_refits
from chaffinch.tasks.selection.baselines.wrappers import (
    n_refits_backward,
    n_refits_forward,
    sequential_backward,
    sequential_forward,
)
from chaffinch.tasks.settings.base import SIZES, Sizes, setting
from chaffinch.tasks.settings.method import Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

SequentialName = Literal["sequential_forward", "sequential_backward"]

_KINDS: dict[SequentialName, str] = {
    "sequential_forward": "the feature whose refit has the lowest loss on the mask-validation rows "
    "is added, and so on",
    "sequential_backward": "the feature without which the refit has the lowest loss on the "
    "mask-validation rows is removed, and so on",
}
_TRAITS = {
    kind: Traits(refits=words, score_is_place=True, parts_used=PARTS_OF_REFITS)
    for kind, words in _KINDS.items()
}


class Sequential(Method):
    """Sequential selection: add or remove one feature at a time, each by a refit."""

    model_config = ConfigDict(title="Sequential")

    kind: SequentialName = setting(
        "sequential_forward", "; ".join(f"{kind}: {words}" for kind, words in _KINDS.items()) + "."
    )
    n_features: Sizes = SIZES

    @property
    def traits(self) -> Traits:
        return _TRAITS[self.kind]

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        sizes = np.array([*requested_sizes(self.n_features, n_features, 1)])
        forward, backward = np.arange(1, sizes.max() + 1), np.arange(sizes.min(), n_features)
        size = forward if self._is_forward else backward
        tried = n_features - size + 1 if self._is_forward else size + 1
        return np.repeat(size, tried).tolist()

    def search(self, problem: Problem) -> SearchResult:
        """Add or remove features in single steps."""
        schema, keep, n_features = problem.schema, problem.keep, len(problem.schema.features)
        sizes = requested_sizes(self.n_features, n_features, max(1, len(keep)))
        limit = max(sizes) if self._is_forward else min(sizes)
        count = n_refits_forward if self._is_forward else n_refits_backward
        n_refits = count(n_features, limit, len(keep))
        log_refits(self.kind, problem, n_refits)
        losses = RefitLosses(problem, n_refits)
        if self._is_forward:
            added = sequential_forward(losses, n_features, largest=limit, keep=keep)
            result = SearchResult.of_masks(schema.features, added.masks, added.losses)
        else:
            path = sequential_backward(losses, n_features, smallest=limit, keep=keep)
            result = of_elimination(path, schema)
        losses.check_that_features_matter()
        return result

    def candidates(self, result: SearchResult) -> list[Candidate]:
        if not self._is_forward:
            return masks_of_sizes(result, self.n_features)
        masks = {int(mask.sum()): mask for mask in result.masks}
        sizes = requested_sizes(self.n_features, result.n_features, min(masks))
        n_masks = np.sum(result.masks, axis=0)  # a feature that was added earlier is in more masks
        order: list[int] = np.argsort(-n_masks, kind="stable").tolist()
        return [Candidate(masks[size], sizes[size], order, size) for size in sorted(sizes)]

    def reaching(self, sizes: Sequence[int]) -> Sequential:
        return self.model_copy(update={"n_features": (*self.n_features, *sizes)})

    @property
    def _is_forward(self) -> bool:
        return self.kind == "sequential_forward"
