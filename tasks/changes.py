"""What a reselection changed, and whether the test rows say that it should.

Everything is chosen by now, so that a look at the test rows chooses nothing. All sets are refitted
on the newer rows, the training and mask-validation parts, so that the sets alone differ.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.comparison import is_decisive, too_few_units
from chaffinch.tasks.former_fit import why_gone
from chaffinch.tasks.ingestion import description_of
from chaffinch.tasks.judging import CONFIDENCE, Judge, judge_of, predicted
from chaffinch.tasks.masking import mask_of
from chaffinch.tasks.paired_bootstrap import Interval, interval_in_words, signed
from chaffinch.tasks.reselect_settings import Reselect
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.selection.vocabulary import Mask
from chaffinch.tasks.settings import SelectionSettings
from chaffinch.tasks.stage import Context, stage
from chaffinch.tasks.training import read_model

CHANGES_FILE = "changes.json"

ChangeVerdict = Literal["change", "keep the former set", "cannot tell"]


@stage
def judge_changes(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    eliminated: StageRecord,
    chosen: StageRecord,
    retrained: StageRecord,
) -> None:
    """Compare the former set, the new one and all features on the test rows, and each change."""
    description, new = description_of(described), mask_of(chosen)
    schema, method = description.schema, former_of(context.settings)
    former = np.isin(schema.features, list(method.former))
    judge = judge_of(context, described, divided, trained)
    kind, X = retrained.result["kind"], judge.refit.held_out.X
    everything = read_model(context, retrained, "all_features_model", kind, schema)
    selected = read_model(context, retrained, "model", kind, schema.select(new))
    predictions = {"all": everything.predict(X), "new": selected.predict(X[:, new])}
    changed = np.flatnonzero(former != new).tolist()
    undone = [_undone(new, j) for j in changed]
    fitted = context.workers.map(
        predicted,
        judge.refit,
        [former, *(mask for mask in undone if mask.any())],
        lambda done, total: context.on_progress("judge_changes", done, total),
    )
    predictions["former"] = fitted.pop(0) if len(changed) else predictions["new"]
    made = {trial["feature"]: trial for trial in eliminated.result["trials"] if trial["is_made"]}
    changes = []
    for j, mask in zip(changed, undone, strict=True):
        name = schema.features[j]
        without = fitted.pop(0) if mask.any() else None
        changes.append(
            {
                "feature": name,
                "change": _kind_of_change(name, method),
                "difference": None,
                "interval": None,
                **({} if without is None else judge.difference(predictions["new"], without)),
                "mask_validation": _reason(made.get(name)),
            }
        )
    against = judge.difference(predictions["new"], predictions["former"])
    verdict = _verdict(against["interval"], judge.n_units, is_same=not len(changed))
    sets = {"former": former, "new": new, "all": np.ones_like(new)}
    scores = {
        name: {"n_features": int(mask.sum()), "test_loss": judge.loss(predictions[name])}
        for name, mask in sets.items()
    }
    gone = why_gone(method, context.settings, description.features, description.excluded)
    content = {
        "format_version": FORMAT_VERSION,
        "format": "chaffinch changes",
        "former_run": method.former_run,
        "former": list(method.former),
        "features": [name for name, kept in zip(schema.features, new, strict=True) if kept],
        "gone": [{"feature": name, "reason": reason} for name, reason in gone.items()],
        "changes": changes,
        "n_tried": len(eliminated.result["trials"]),
        "sets": scores,
        "comparisons": [
            {"set": one, "against": other, **judge.difference(predictions[one], predictions[other])}
            for one, other in (("new", "former"), ("new", "all"), ("former", "all"))
        ],
        "confidence": CONFIDENCE,
        "units": judge.n_units,
        "verdict": verdict,
        "sentence": _sentence(verdict, scores, against, judge, len(gone), is_same=not len(changed)),
    }
    writer.write(CHANGES_FILE, to_json(content))
    writer.result = content


def former_of(settings: SelectionSettings) -> Reselect:
    """Return what a reselection begins with.

    Raises
    ------
    ValueError
        If the settings are of another method.
    """
    if not isinstance(settings.method, Reselect):
        raise ValueError(f"method {settings.method.kind} begins with no former set")
    return settings.method


def _undone(mask: Mask, feature: int) -> Mask:
    other = mask.copy()
    other[feature] = not other[feature]
    return other


def _kind_of_change(name: str, method: Reselect) -> str:
    if name in method.former:
        return "left"
    return "returned" if name in method.known else "new"


def _reason(trial: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what decided on the mask-validation rows; None of what is kept as asked."""
    return trial and {"difference": trial["difference"], "highest": trial["highest"]}


def _verdict(interval: Interval | None, n_units: int, *, is_same: bool) -> ChangeVerdict:
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
        return (
            f"{keep}: of all that was tried on the newer rows, nothing was shown to be better than "
            f"{its}."
        )
    interval = interval_in_words(against["interval"], CONFIDENCE)
    measured = (
        f"with the new {_counted(new['n_features'])} the test loss "
        f"({loss_in_words(judge.refit.loss.name)}) is {new['test_loss']:.4g} against "
        f"{former['test_loss']:.4g} with {the_former}; difference "
        f"{signed(against['difference'])}, {interval}."
    )
    if lacking := too_few_units(judge.n_units):
        return f"{lacking}, so that no verdict is possible: {measured}"
    return {
        "change": f"Change to the new set: {measured}",
        "keep the former set": f"{keep}, the new one is worse: {measured}",
        "cannot tell": f"This test part cannot tell which set is better: {measured}",
    }[verdict]


def _counted(number: int) -> str:
    return "1 feature" if number == 1 else f"{number} features"
