"""Several univariate sets at once, where any features may go together.

Bach, arXiv 2307.11607v3, definition 5 with equations 11, 17 and 18.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chaffinch.tasks.selection.alternatives.best_sets import Limits, share_of_time
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets, Solved
from chaffinch.tasks.selection.alternatives.greedy import (
    best_first,
    greedy_balancing,
    greedy_depth_search,
)
from chaffinch.tasks.selection.alternatives.price_and_enumerate import (
    best_design,
    one_after_another,
)
from chaffinch.tasks.selection.alternatives.quality import Form

_SHARE = 0.25  # of the time


def best_univariate_design(designs: Designs, deadline: float | None) -> Solved:
    """Return the best design of features that may be in any set, or are excluded."""
    order = best_first(designs.form.gains)
    is_open = ~np.isin(order, designs.constraints.excluded)
    kept = order[is_open][: designs.n_sets * designs.k]  # no others are needed (appendix A.4)
    values = designs.form.gains[kept]
    few = replace(
        designs, form=Form(values), limits=Limits.none(len(kept)), constraints=Constraints()
    )
    start = max(_starts(few, deadline), key=lambda sets: few.worth(sets.tolist()), default=None)
    solved = best_design(few, deadline, start)
    if solved.sets is None:
        return solved
    return replace(solved, sets=designs.best_first(kept[solved.sets].astype(np.int32)))


def _starts(designs: Designs, deadline: float | None) -> list[Sets]:
    """Return designs by fast searches, none if these find too few sets."""
    values, k, m, overlap = designs.form.gains, designs.k, designs.n_sets, designs.overlap
    until = share_of_time(deadline, _SHARE)
    starts = [greedy_balancing(values, k, m, overlap), one_after_another(designs, until)]
    starts = [sets for sets in starts if len(sets) == m]
    if not starts:
        starts.append(greedy_depth_search(values, k, m, overlap, deadline=until))
    return [sets for sets in starts if len(sets) == m]
