"""Changes of a reselection, and their comparison on the test rows.

The selection is final at this stage: the test rows do not influence it. All sets are refitted on
the training and mask-validation sets of the newer rows, so that only the sets differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from chaffinch.storage.column_names import quoted_with_reasons
from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.tasks.data.reselection_fit import DROPPED, TARGET_NOW, why_gone
from chaffinch.tasks.pipeline.evaluation import leaks_in
from chaffinch.tasks.pipeline.judge import Judge, judge_of, predicted
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.reselection import Reselect
from chaffinch.tasks.statistics.bootstrap import Interval, interval_in_words, signed
from chaffinch.tasks.statistics.verdict import (
    CONFIDENCE,
    is_decisive,
    leaks_in_words,
    too_few_units,
)

CHANGES_FILE = "changes.json"

ChangeVerdict = Literal["change", "keep the former set", "cannot tell"]


@stage(
    "describe", "split", "train_base_model", "optimise_mask", "choose_mask", "retrain", "evaluate"
)
def judge_changes(run: SelectionRun, writer: Writer) -> None:
    """Compare the former set, the new set, all features and each change on the test rows."""
    description, schema, new = run.description, run.schema, run.mask
    method = run.settings.former
    if method is None:
        raise ValueError(f"method {run.settings.method.kind} begins with no former set")
    former = np.isin(schema.features, list(method.former))
    judge = judge_of(run)
    predictions = {"all": judge.with_all_features, "new": judge.with_selected}
    changed = np.flatnonzero(former != new).tolist()
    undone = [new ^ (np.arange(len(new)) == j) for j in changed]
    fitted = run.workers.map(
        predicted,
        judge,
        [former, *(mask for mask in undone if mask.any())],
        partial(run.progress, "judge_changes"),
    )
    predictions["former"] = fitted.pop(0) if len(changed) else predictions["new"]
    tried = run.result("optimise_mask")["trials"]
    made = {trial["feature"]: trial for trial in tried if trial["is_made"]}
    changes = []
    for j, mask in zip(changed, undone, strict=True):
        name = schema.features[j]
        decided = made.get(name)  # None for a keep feature
        without = fitted.pop(0) if mask.any() else None
        changes.append(
            {
                "feature": name,
                "change": _kind_of_change(name, method),
                "difference": None,
                "interval": None,
                **({} if without is None else judge.difference(predictions["new"], without)),
                "mask_validation": decided
                and {"difference": decided["difference"], "highest": decided["highest"]},
            }
        )
    against = judge.difference(predictions["new"], predictions["former"])
    leaks = leaks_in(run, former | new)
    gone = why_gone(
        method, run.settings, description.features, description.excluded, run.dataset.columns
    )
    lost = {name: why for name, why in gone.items() if why not in (DROPPED, TARGET_NOW)}
    verdict = _verdict(against["interval"], judge.n_units, is_same=not len(changed), leaks=leaks)
    is_noise = run.contract.comparison.is_nothing_to_select_from
    # a former set that lost a feature cannot be kept as it was
    if is_noise or (lost and verdict == "keep the former set"):
        verdict = "cannot tell"
    sets = {"former": former, "new": new, "all": np.ones_like(new)}
    scores = {
        name: {"n_features": int(mask.sum()), "test_loss": judge.loss_of(predictions[name])}
        for name, mask in sets.items()
    }
    content = {
        "format_version": FORMAT_VERSION,
        "format": "chaffinch changes",
        "former_run": method.former_run,
        "former": list(method.former),
        "features": [name for name, kept in zip(schema.features, new, strict=True) if kept],
        "gone": [{"feature": name, "reason": reason} for name, reason in gone.items()],
        "changes": changes,
        "n_tried": len(tried),
        "sets": scores,
        "comparisons": [
            {
                "set": name,
                "against": other,
                **judge.difference(predictions[name], predictions[other]),
            }
            for name, other in (("new", "former"), ("new", "all"), ("former", "all"))
        ],
        "confidence": CONFIDENCE,
        "units": judge.n_units,
        "verdict": verdict,
        "sentence": leaks_in_words(leaks)
        + _lost_in_words(lost)
        + ("No model is shown to predict better than a constant. " if is_noise else "")
        + _sentence(verdict, scores, against, judge, len(gone), is_same=not len(changed)),
    }
    writer.write(CHANGES_FILE, to_json(content))
    writer.result = content


def _lost_in_words(lost: Mapping[str, str]) -> str:
    if not lost:
        return ""
    return f"The newer rows lack {quoted_with_reasons(lost)}, which the former run kept. "


def _kind_of_change(name: str, method: Reselect) -> str:
    if name in method.former:
        return "left"
    return "returned" if name in method.known else "new"


def _verdict(
    interval: Interval | None, n_units: int, *, is_same: bool, leaks: Sequence[str]
) -> ChangeVerdict:
    if leaks:  # the loss of a set with a leak is no evidence
        return "cannot tell"
    if is_same:
        return "keep the former set"
    if interval is None or not is_decisive(interval, n_units):
        return "cannot tell"
    return "change" if interval[1] < 0 else "keep the former set"


def _sentence(
    verdict: ChangeVerdict,
    scores: dict[str, dict[str, Any]],
    against: dict[str, Any],
    judge: Judge,
    n_gone: int,
    *,
    is_same: bool,
) -> str:
    new, former = scores["new"], scores["former"]
    n_left = former["n_features"]
    keep, its = "Keep the former set", f"its {_counted(n_left)}"
    the_former = f"the former {n_left}"
    if n_gone:
        n_all = n_left + n_gone
        keep, its = "Keep what is left of the former set", f"the {n_left} left of its {n_all}"
        the_former = f"the {n_left} left of the former {n_all}"
    if is_same:
        start = "Of" if verdict == "cannot tell" else f"{keep}: of"
        return (
            f"{start} all that was tried on the newer rows, nothing was shown to be better than "
            f"{its}."
        )
    interval = interval_in_words(against["interval"], CONFIDENCE)
    measured = (
        f"with the new {_counted(new['n_features'])} the test loss "
        f"({loss_in_words(judge.loss.name)}) is {new['test_loss']:.4g} against "
        f"{former['test_loss']:.4g} with {the_former}; difference "
        f"{signed(against['difference'])}, {interval}."
    )
    if lacking := too_few_units(judge.n_units):
        return f"{lacking}, so that no verdict is possible: {measured}"
    if verdict == "cannot tell" and n_gone and against["interval"][0] > 0:
        return f"The new set is worse than what is left of the former one: {measured}"
    return {
        "change": f"Change to the new set: {measured}",
        "keep the former set": f"{keep}, the new one is worse: {measured}",
        "cannot tell": f"This test part cannot tell which set is better: {measured}",
    }[verdict]


def _counted(number: int) -> str:
    return "1 feature" if number == 1 else f"{number} features"
