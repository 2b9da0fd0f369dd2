"""Final models, and their evaluation on the rows that judge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from chaffinch.storage.column_names import quoted
from chaffinch.storage.datasets.date_parts import made_names
from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.data.arrow import as_numbers
from chaffinch.tasks.data.column_profile import QUANTILES
from chaffinch.tasks.data.roles import target_type
from chaffinch.tasks.data.splitting.splits import PARTS
from chaffinch.tasks.data.table_check import DATE_PARTS
from chaffinch.tasks.pipeline.dominant_feature import dominant_feature
from chaffinch.tasks.pipeline.explanation import associations_of, explanation_of
from chaffinch.tasks.pipeline.judge import Judge, judge_of
from chaffinch.tasks.pipeline.selection_run import CONTRACT_FILE, EXPLANATION_FILE, SelectionRun
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.selection.core import Mask
from chaffinch.tasks.settings.identity import versions
from chaffinch.tasks.settings.search_result import step_of_each
from chaffinch.tasks.statistics.metrics import compare_metrics, shares_of_classes
from chaffinch.tasks.statistics.verdict import compare

_MOST_GROUPS = 3  # of near copies, in a note


@stage("describe", "split", "train_base_model", "optimise_mask", "choose_mask")
def retrain(run: SelectionRun, writer: Writer) -> None:
    """Fit the final model on the kept features, and a model on all features for comparison.

    Both use the training and mask-validation rows, because the mask is already fixed; of a
    cross-fitted method all rows but the test set. The published runs used the training rows only.
    A model that the search trained on these rows is not fitted again.
    """
    every, report = np.ones_like(run.mask), partial(run.progress, "retrain")
    (trained,) = run.trained_models("retrain", [run.mask])
    if trained is not None:
        (run.all_features_model,) = run.final_models([every], report)
        run.selected_model = trained
    else:
        # a cross-fitted method fits the base model on the same rows
        made = {every.tobytes(): run.base_model} if run.is_base_model_final else {}
        masks = {mask.tobytes(): mask for mask in (every, run.mask)}
        left = [mask for key, mask in masks.items() if key not in made]
        for mask, model in zip(left, run.final_models(left, report), strict=True):
            made[mask.tobytes()] = model
        run.all_features_model, run.selected_model = (
            made[mask.tobytes()] for mask in (every, run.mask)
        )
    writer.write_all("all_features_model", run.all_features_model.to_files)
    writer.write_all("model", run.selected_model.to_files)
    n_rows = sum(len(getattr(run.splits, part)) for part in run.fitted_parts)
    writer.result = {"kind": run.selected_model.kind, "rows": n_rows}


@stage("describe", "split", "train_base_model", "optimise_mask", "choose_mask", "retrain")
def evaluate(run: SelectionRun, writer: Writer) -> None:
    """Score both final models on every set, compare on the rows that judge, write the contract."""
    mask, loss = run.mask, run.loss
    losses: dict[str, dict[str, float]] = {}
    associated: dict[str, Any] = {"stand_ins": {}}
    parts = [part for part in PARTS if len(getattr(run.splits, part))]
    for done, part in enumerate(parts):
        if part == "test":
            continue
        rows = run.rows(part)
        before, after = run.predictions(
            (run.all_features_model, rows), (run.selected_model, rows.select(mask))
        )
        losses[part] = {
            "all_features": loss(rows.y, before, rows.weight),
            "selected": loss(rows.y, after, rows.weight),
        }
        if part == "train":
            associated = associations_of(run, rows)
        run.progress("evaluate", done + 1, len(parts))
        del rows  # before the rows that judge are read
    judge = judge_of(run)
    before, after = judge.with_all_features, judge.with_selected
    losses[judge.part] = {"all_features": judge.loss_of(before), "selected": judge.loss_of(after)}
    facts, n_listed = run.result("optimise_mask"), len(run.settings.columns.keep)
    comparison = compare(
        judge,
        before,
        after,
        judge.constant,
        mask,
        tolerance=run.settings.tolerance,
        judged_on=judge.part,
        why_all=run.method.why_all(facts) if len(mask) > max(1, n_listed) else "",
        fold_sizes=[len(fold) for fold in facts.get("folds", ())]
        if judge.part == "out_of_fold"
        else (),
        leaks=leaks_in(run, run.mask),
        caveat=run.method.caveat(facts),
    )
    scores = {
        "judged_on": judge.part,
        "losses": losses,
        "comparison": asdict(comparison),
        **_metrics(run, judge),
    }
    costs = _costs(run, losses[judge.part])
    explained = explanation_of(run, judge)
    notes = [*run.description.notes, *_kept_copies(run), *dominant_feature(run, judge, explained)]
    contract = to_json({**_contract(run, notes), **costs, **scores})
    run.contract = Contract.parse(contract)
    writer.write(CONTRACT_FILE, contract)
    explanation = to_json(
        {
            "format_version": FORMAT_VERSION,
            "format": "chaffinch explanation",
            **associated,
            **explained,
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


def leaks_in(run: SelectionRun, mask: Mask) -> list[str]:
    kept = {name for name, is_kept in zip(run.schema.features, mask, strict=True) if is_kept}
    return [name for name in run.description.leaks if name in kept]


def _costs(run: SelectionRun, losses: dict[str, float]) -> dict[str, Any]:
    """Return the costs of the kept and of all features; empty without costs."""
    constraints = run.settings.constraints
    if constraints is None or not constraints.has_costs:
        return {}
    masks = (run.mask, np.ones_like(run.mask))
    kept, of_all = (float(f"{run.feasible.cost(mask):.12g}") for mask in masks)  # .1 + .2 = .3
    rise = losses["selected"] - losses["all_features"]
    per_cost = rise / (of_all - kept) if of_all > kept else None
    return {"costs": {"kept": kept, "all": of_all, "loss_per_cost_saved": per_cost}}


def _metrics(run: SelectionRun, judge: Judge) -> dict[str, Any]:
    rows = judge.rows
    metrics: dict[str, Any] = {
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
        metrics["class_shares"] = dict(zip(classes, shares, strict=True))
    return metrics


def _contract(run: SelectionRun, notes: list[str]) -> dict[str, Any]:
    """Return the feature contract without the losses."""
    description, settings, dataset = run.description, run.settings, run.dataset
    schema, mask, trained = run.schema, run.mask, run.result("train_base_model")
    step_of = step_of_each(run.path)
    kept = [(j, name) for j, name in enumerate(schema.features) if mask[j]]
    kept_names = {name for _, name in kept}
    method = settings.method.kind
    copies = {name: kept for group, kept in _copies(run) for name in group if kept}
    dropped: list[dict[str, Any]] = [
        {
            "name": name,
            "reason": f"near copy of {quoted(copies[name])}"
            if name in copies
            else f"{'removed' if name in step_of else 'not chosen'} by {method}",
            **({"step": step_of[name]} if name in step_of else {}),
        }
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
        **_zoned(run),
        "dropped": dropped,
        "candidates": list(schema.features),
        **_stability(run),
        "model": {
            "kind": trained.get("kind", run.result("retrain")["kind"]),
            "name": settings.model.name,
            "parameters": trained["parameters"],
        },
        "loss": trained["loss"],
        "warnings": list(description.warnings),
        "notes": notes,
        "settings": settings.model_dump(mode="json"),
        **({} if file is None else {"settings_file": file.model_dump()}),
        "seed": settings.seed,
        "versions": versions(),
    }


def _copies(run: SelectionRun) -> list[tuple[list[str], list[str]]]:
    """Return each group of near copies, and those of them that are kept."""
    kept = dict(zip(run.schema.features, run.mask, strict=True))
    groups = run.result("optimise_mask").get("near_copies", ())
    return [(group, [name for name in group if kept[name]]) for group in groups]


def _kept_copies(run: SelectionRun) -> Iterator[str]:
    """Yield a note if near copies are kept beside each other, unless the user asks for them."""
    keep = {*run.settings.columns.keep}
    beside = [kept for _, kept in _copies(run) if len(kept) > 1 and not keep.issuperset(kept)]
    if beside:
        groups = [quoted(kept) for kept in beside[:_MOST_GROUPS]]
        if len(beside) > _MOST_GROUPS:
            groups.append(f"and {len(beside) - _MOST_GROUPS} more")
        advice = "; method auto keeps one of a group, unless more are needed"
        yield (
            f"near copies of each other are kept: {'; '.join(groups)}"
            f"{'' if run.method.kind == 'auto' else advice}"
        )


def _stability(run: SelectionRun) -> dict[str, Any]:
    """Return the stability of the folds' selections; empty unless each fold made its own."""
    search = run.result("optimise_mask")
    folds = search.get("folds")
    if not folds:
        return {}
    counts = Counter(name for fold in folds for name in fold)
    shares = {name: counts[name] / len(folds) for name in run.schema.features}
    index = search["stability"]
    return {"stability": {"index": index, "n_folds": len(folds), "share_of_folds": shares}}


def _zoned(run: SelectionRun) -> dict[str, Any]:
    """Return the columns whose times have a zone; empty without times, or if that is not known."""
    zoned, kinds = run.dataset.zoned, run.dataset.columns
    if zoned is None or "timestamp" not in kinds.values():
        return {}
    return {"zoned": sorted(zoned.intersection(kinds))}


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
    column = next(row for row in run.description.profile if row["name"] == name)
    missing = column["missing"] / column["rows"]
    known = list(run.description.categories.get(name, ()))
    if not known:
        dates = (column for column, why in run.description.excluded.items() if why == DATE_PARTS)
        origin = {made: column for column in dates for made in made_names([column])}
        return {
            "name": name,
            "type": "number",
            "values": "boolean" if run.dataset.columns[name] == "bool" else "number",
            "missing": missing,
            "quantiles": _quantiles(run, name),
            "baseline": baseline,
            "step": step,
            **({"made_of": origin[name]} if name in origin else {}),
        }
    return {
        "name": name,
        "type": "category",
        "missing": missing,
        "baseline": known[int(baseline)],
        "step": step,
        "categories": known,
    }
