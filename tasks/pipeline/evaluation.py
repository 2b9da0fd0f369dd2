"""Final models, their evaluation on the rows that judge, and the changes of a reselection."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

import numpy as np

from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.tasks.data.arrow import as_numbers
from chaffinch.tasks.data.column_profile import QUANTILES
from chaffinch.tasks.data.reselection_fit import why_gone
from chaffinch.tasks.data.roles import target_type
from chaffinch.tasks.data.splits import PARTS
from chaffinch.tasks.methods.removals import step_of_each
from chaffinch.tasks.pipeline.explanation import explanation_of, stand_ins_of
from chaffinch.tasks.pipeline.judge import CONFIDENCE, Judge, judge_of, predicted
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE, EXPLANATION_FILE, SelectionRun
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.selection.core import Mask
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.identity import versions
from chaffinch.tasks.settings.reselection import Reselect
from chaffinch.tasks.statistics.bootstrap import (
    Interval,
    interval_in_words,
    signed,
)
from chaffinch.tasks.statistics.metrics import compare_metrics, shares_of_classes
from chaffinch.tasks.statistics.verdict import (
    compare,
    is_decisive,
    leaks_in_words,
    too_few_units,
)


@stage("describe", "split", "train_base_model", "choose_mask")
def retrain(run: SelectionRun, writer: Writer) -> None:
    """Fit the final model on the kept features, and a model on all features for comparison.

    Both use the training and mask-validation rows, because the mask is already fixed; of a
    cross-fitted method all rows but the test set. The published runs used the training rows only.
    """
    schema, mask, rows = run.schema, run.mask, run.rows(*run.fitted_parts)
    # of a cross-fitted method the base model has seen the same rows
    fitted_before = not len(run.splits.mask_validation)
    run.all_features_model = run.base_model if fitted_before else run.recipe.fit(rows, schema)
    writer.write_all("all_features_model", run.all_features_model.to_files)
    run.progress("retrain", 1, 2)
    n_rows = len(rows)
    del rows  # read again, for the kept columns alone, so that none is in memory twice
    rows = run.rows(*run.fitted_parts, mask=mask)
    run.selected_model = run.recipe.fit(rows, schema.select(mask))
    writer.write_all("model", run.selected_model.to_files)
    writer.result = {"kind": run.selected_model.kind, "rows": n_rows}


@stage("describe", "split", "train_base_model", "optimise_mask", "choose_mask", "retrain")
def evaluate(run: SelectionRun, writer: Writer) -> None:
    """Score both final models on every set, compare on the rows that judge, write the contract."""
    mask, loss = run.mask, run.loss
    losses: dict[str, dict[str, float]] = {}
    standing: dict[str, Any] = {}
    parts = [part for part in PARTS if len(getattr(run.splits, part))]
    for done, part in enumerate(parts):
        if part == "test":
            continue
        rows = run.rows(part)
        losses[part] = {
            "all_features": loss(rows.y, run.all_features_model.predict(rows.X), rows.weight),
            "selected": loss(rows.y, run.selected_model.predict(rows.select(mask).X), rows.weight),
        }
        if part == "train":
            standing = stand_ins_of(run, rows)
        run.progress("evaluate", done + 1, len(parts))
        del rows  # before the rows that judge are read
    judge = judge_of(run)
    before, after = judge.with_all_features, judge.with_selected
    losses[judge.part] = {"all_features": judge.loss(before), "selected": judge.loss(after)}
    comparison = compare(
        loss,
        judge.rows,
        before,
        after,
        judge.constant,
        mask,
        judge.units,
        seed=run.settings.seed,
        tolerance=run.settings.tolerance,
        widen=judge.widen,
        judged_on=judge.part,
        why_all=run.method.why_all if len(mask) > max(1, len(run.settings.columns.keep)) else "",
        fold_sizes=[len(fold) for fold in run.result("optimise_mask").get("folds", ())]
        if judge.part == "out_of_fold"
        else (),
        leaks=_leaks_in(run, run.mask),
    )
    scores = {
        "judged_on": judge.part,
        "losses": losses,
        "comparison": asdict(comparison),
        **_metrics(run, judge),
    }
    costs = _costs(run, losses[judge.part])
    contract = to_json({**_contract(run), **costs, **scores})
    run.contract = json.loads(contract)
    writer.write(CONTRACT_FILE, contract)
    explanation = to_json(
        {
            "format_version": FORMAT_VERSION,
            "format": "chaffinch explanation",
            "stand_ins": standing,
            **explanation_of(run, judge),
        }
    )
    run.explanation = json.loads(explanation)
    writer.write(EXPLANATION_FILE, explanation)
    measured = {
        **scores,
        "mask_validation_loss_unmasked": run.result("optimise_mask")["unmasked_loss"],
        "candidates": run.result("choose_mask")["candidates"],
        "tuning": run.result("train_base_model")["candidates"],
        "seconds": run.seconds,
    }
    writer.write("metrics.json", to_json({"format_version": FORMAT_VERSION, **measured}))
    writer.result = scores


def _leaks_in(run: SelectionRun, mask: Mask) -> list[str]:
    kept = {name for name, is_kept in zip(run.schema.features, mask, strict=True) if is_kept}
    return [name for name in run.description.leaks if name in kept]


def _costs(run: SelectionRun, losses: dict[str, float]) -> dict[str, Any]:
    """Return the costs of the kept and of all features; empty without costs."""
    asked = run.settings.constraints
    if asked is None or not asked.has_costs:
        return {}
    masks = (run.mask, np.ones_like(run.mask))
    kept, of_all = (float(f"{run.feasible.cost(mask):.12g}") for mask in masks)  # .1 + .2 = .3
    rise = losses["selected"] - losses["all_features"]
    per_cost = rise / (of_all - kept) if of_all > kept else None
    return {"costs": {"kept": kept, "all": of_all, "loss_per_cost_saved": per_cost}}


def _metrics(run: SelectionRun, judge: Judge) -> dict[str, Any]:
    rows = judge.rows
    found: dict[str, Any] = {
        "metrics": compare_metrics(
            rows.y,
            rows.weight,
            all_features=judge.with_all_features,
            selected=judge.with_selected,
            constant=judge.constant,
        )
    }
    if classes := run.description.classes:
        shares = shares_of_classes(rows.y, rows.weight, len(classes))
        found["class_shares"] = dict(zip(classes, shares, strict=True))
    return found


def _contract(run: SelectionRun) -> dict[str, Any]:
    """Return the feature contract without the losses."""
    description, settings, dataset = run.description, run.settings, run.dataset
    schema, mask, trained = run.schema, run.mask, run.result("train_base_model")
    step_of = step_of_each(run.path)
    kept = [(j, name) for j, name in enumerate(schema.features) if mask[j]]
    kept_names = {name for _, name in kept}
    method = settings.method.kind
    dropped: list[dict[str, Any]] = [
        {"name": name, "reason": f"removed by {method}", "step": step_of[name]}
        if name in step_of
        else {"name": name, "reason": f"not chosen by {method}"}
        for j, name in enumerate(schema.features)
        if not mask[j]
    ]
    dropped += [{"name": n, "reason": why} for n, why in description.excluded.items()]
    dropped += [{"name": name, "reason": "left out as asked"} for name in settings.columns.drop]
    file = run.settings_file
    return {
        "format_version": FORMAT_VERSION,
        "format": "chaffinch feature contract",
        "dataset": {
            "hash": dataset.hash,
            "rows": dataset.n_rows,
            "rows_by_part": _rows_by_part(run),
        },
        "target": {
            "name": settings.target,
            "task": schema.task,
            "type": target_type(dataset.columns[settings.target]),
            "classes": list(description.classes),
        },
        "features": [
            _feature(run, name, trained["baseline"][j], step_of.get(name)) for j, name in kept
        ],
        "table_order": [name for name in dataset.columns if name in kept_names],
        "dropped": dropped,
        "candidates": list(schema.features),
        **_stability(run),
        "model": {
            "kind": trained["kind"],
            "name": settings.model.name,
            "parameters": trained["parameters"],
        },
        "loss": trained["loss"],
        "warnings": list(description.warnings),
        "notes": list(description.notes),
        "settings": settings.model_dump(mode="json"),
        **({} if file is None else {"settings_file": file.model_dump()}),
        "seed": settings.seed,
        "versions": versions(),
    }


def _stability(run: SelectionRun) -> dict[str, Any]:
    """Return how far the choices of the folds agree; empty unless each fold made its own."""
    found = run.result("optimise_mask")
    folds = found.get("folds")
    if not folds:
        return {}
    counts = Counter(name for fold in folds for name in fold)
    shares = {name: counts[name] / len(folds) for name in run.schema.features}
    index = found["stability"]
    return {"stability": {"index": index, "n_folds": len(folds), "share_of_folds": shares}}


def _rows_by_part(run: SelectionRun) -> dict[str, int]:
    parts = {part: n_rows for part, n_rows in run.result("split")["rows"].items() if n_rows}
    if "test" not in parts and run.out_of_fold is not None:
        parts["out_of_fold"] = run.out_of_fold.num_rows
    return parts


def _quantiles(run: SelectionRun, name: str) -> list[float]:
    """Return the 5, 50 and 95 % quantiles of a feature."""
    values = as_numbers(run.dataset.read([name]).column(0))
    return [float(value) for value in np.quantile(values[~np.isnan(values)], QUANTILES)]


def _feature(run: SelectionRun, name: str, baseline: float, step: int | None) -> dict[str, Any]:
    known = list(run.description.categories.get(name, ()))
    if not known:
        return {
            "name": name,
            "type": "number",
            "values": "boolean" if run.dataset.columns[name] == "bool" else "number",
            "quantiles": _quantiles(run, name),
            "baseline": baseline,
            "step": step,
        }
    return {
        "name": name,
        "type": "category",
        "baseline": known[int(baseline)],
        "step": step,
        "categories": known,
    }


# Changes of a reselection, and their comparison on the test rows.
#
# The selection is final at this stage: the test rows do not influence it. All sets are refitted on
# the training and mask-validation sets of the newer rows, so that only the sets differ.

CHANGES_FILE = "changes.json"

ChangeVerdict = Literal["change", "keep the former set", "cannot tell"]


@stage("describe", "split", "train_base_model", "optimise_mask", "choose_mask", "retrain")
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
    leaks = _leaks_in(run, former | new)
    verdict = _verdict(against["interval"], judge.n_units, is_same=not len(changed), leaks=leaks)
    sets = {"former": former, "new": new, "all": np.ones_like(new)}
    scores = {
        name: {"n_features": int(mask.sum()), "test_loss": judge.loss(predictions[name])}
        for name, mask in sets.items()
    }
    gone = why_gone(method, run.settings, description.features, description.excluded)
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
            {"set": one, "against": other, **judge.difference(predictions[one], predictions[other])}
            for one, other in (("new", "former"), ("new", "all"), ("former", "all"))
        ],
        "confidence": CONFIDENCE,
        "units": judge.n_units,
        "verdict": verdict,
        "sentence": leaks_in_words(leaks)
        + _sentence(verdict, scores, against, judge, len(gone), is_same=not len(changed)),
    }
    writer.write(CHANGES_FILE, to_json(content))
    writer.result = content


def _kind_of_change(name: str, method: Reselect) -> str:
    if name in method.former:
        return "left"
    return "returned" if name in method.known else "new"


def _verdict(
    interval: Interval | None, n_units: int, *, is_same: bool, leaks: Sequence[str]
) -> ChangeVerdict:
    if leaks:  # of either set: its loss is no evidence
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
