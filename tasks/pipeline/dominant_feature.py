"""A feature that alone explains nearly all that all features explain, as a leak does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from chaffinch.storage.column_names import quoted
from chaffinch.tasks.data.lag_features import lag_feature_names
from chaffinch.tasks.pipeline.judge import Judge, predicted
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.statistics.verdict import loss_if_any

_OF_CONSTANT = 0.9  # of a constant's loss; where less is explained, one feature is no leak
_ALONE = 0.99  # of what all features explain


def dominant_feature(
    run: SelectionRun, judge: Judge, explanation: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a note if the most important feature alone explains nearly everything.

    It may be a near copy of the target, though less near than what counts as a leak. What is on the
    keep list, or made of earlier rows, is known before the target.
    """
    loss, names = judge.loss, run.schema.features
    constant = loss_if_any(loss, judge.rows.y, judge.constant, judge.rows.weight)
    important = explanation["importance"]["features"]
    if constant is None or not important or not loss.is_mean_over_rows or len(names) == 1:
        return
    first = important[0].get("together", [important[0]["feature"]])
    known = {*run.settings.columns.keep, *run.description.leaks, *lag_feature_names(run.settings)}
    explained = constant - judge.loss_of(judge.with_all_features)
    if known.issuperset(first) or explained < _OF_CONSTANT * constant or constant <= 0:
        return
    mask = np.isin(names, first)
    is_alone = bool((mask == run.mask).all())
    prediction = judge.with_selected if is_alone else predicted(judge, mask)
    share = (constant - judge.loss_of(prediction)) / explained
    if share > _ALONE:
        explains, it_is = ("explains", "it is") if len(first) == 1 else ("explain", "they are")
        yield (
            f"{quoted(first)} alone {explains} {min(share, 1):.1%} of what all features explain; "
            f"make sure that {it_is} known before the target is"
        )
