"""The rank of each candidate, which orders features wherever a result is shown."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def rank_of_each(
    candidates: Sequence[Name],
    kept: Sequence[bool],
    step_of: Mapping[Name, int],
    scores: Mapping[Name, float] | None,
) -> dict[Name, int]:
    """Return the rank of each candidate, from 1 for the most useful to d.

    The later the search removes a feature, the better its rank; what it never removes is best.
    Without steps, the higher score is better. Of features that these do not order, the kept ones
    come first, then those with the higher score, then those named first in `candidates`.
    """
    is_kept = dict(zip(candidates, kept, strict=True))

    def key(name: Name) -> tuple[float, bool, float]:
        score = -scores[name] if scores is not None else 0.0
        if step_of:
            return -step_of.get(name, math.inf), not is_kept[name], score
        return score, not is_kept[name], 0.0

    return {name: rank for rank, name in enumerate(sorted(candidates, key=key), 1)}
