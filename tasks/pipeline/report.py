"""The last stage of a run: its report, with the changes since the promoted contract."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.runs.promotions import Promotion
from chaffinch.storage.runs.stages import now
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources.data_set_name import name_of_table
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.pipeline.selection_run import SelectionRun, StageResults
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.reporting.changes import moved_columns
from chaffinch.tasks.reporting.charts import overlap_chart, standing_alone
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.forms import as_html, as_json, as_markdown
from chaffinch.tasks.reporting.page import report_of
from chaffinch.tasks.reporting.search import elimination_chart_of
from chaffinch.tasks.settings.method import declared
from chaffinch.tasks.statistics.drift import (
    FeatureDrift,
    drift_between,
    emptyings,
    rescalings,
    unseen_categories,
)

if TYPE_CHECKING:
    from markupsafe import Markup

REPORT_FILE = "report.html"


@stage(
    "describe",
    "split",
    "train_base_model",
    "optimise_mask",
    "choose_mask",
    "retrain",
    "evaluate",
    "judge_changes",
    "search_alternatives",
    "score_alternatives",
)
def write_report(run: SelectionRun, writer: Writer) -> None:
    """Collect the content of the report, and write its forms if the run has a folder."""
    created = now() if run.stored is None else run.stored.created
    run.report = replace(
        content_of(run), source=run.source, created=created, promoted=since_promotion(run)
    )
    # of files that are named by their night, the name of the promotion alone says what they are
    writer.result = {} if run.promoted_as is None else {"data_set": run.promoted_as}
    if (promoted := run.report.promoted) is not None and promoted["run"] is not None:
        moved = moved_columns(promoted["drift"])
        writer.result = {"compared_with": promoted["run"], "moved": moved}
        writer.result["data_set"] = promoted["name"]
    if run.stored is not None:  # otherwise the page is rendered on demand
        for name, form in report_files(run.report).items():
            writer.write(name, form)


def report_files(content: ReportContent) -> dict[str, bytes]:
    """Return the forms of a report by the names of their files."""
    report = report_of(content)
    forms = {REPORT_FILE: as_html, "report.json": as_json, "report.md": as_markdown}
    return {name: form(report) for name, form in forms.items()}


def content_of(run: StageResults) -> ReportContent:
    """Return the content of a run's report."""
    results = {name: record.result for name, record in run.records.items()}
    search = results["optimise_mask"]
    # only the kind: settings of an earlier release may be invalid
    method = declared(run.contract.settings["method"]["kind"])
    return ReportContent(
        run=run.name,
        contract=run.contract,
        unmasked_loss=search["unmasked_loss"],
        candidates=results["choose_mask"]["candidates"],
        tuning=results["train_base_model"]["candidates"],
        warnings=run.description.warnings,
        profile=run.description.profile,
        seconds=run.seconds,
        alternatives=results.get("score_alternatives"),
        changes=results.get("judge_changes"),
        explanation=run.explanation,
        scores=method.scores(run.search_result, run.mask.tolist()),
        near_copies=search.get("near_copies", ()),
        **method.report(run.search_result),
    )


def elimination_image(run: Run) -> bytes | None:
    """Return the report's elimination curve as SVG; None if the method has none."""
    content = content_of(StageResults(run.name, run.records()))
    drawn: Markup | None = elimination_chart_of(content)
    return None if drawn is None else standing_alone(drawn)


def overlap_image(sets: Mapping[str, Collection[str]]) -> bytes | None:
    """Return a chart of the overlap of feature sets as SVG; None for fewer than two sets."""
    return standing_alone(overlap_chart(sets)) if len(sets) > 1 and any(sets.values()) else None


_MOST_FEATURES = 200
_LEVEL = 0.05  # significance level of the distances of all features together


def since_promotion(run: SelectionRun) -> dict[str, Any]:
    """Return the difference of a run from its table's promoted run; `run` is None without one."""
    try:
        name = run.promoted_as or name_of_table(run.source, "--name")
    except InputError:  # a table in memory has no name
        return {"name": None, "run": None}
    if run.store is None:
        return {"name": name, "run": None}
    promotions = run.store.promotions
    try:
        history = promotions.history(name)
        if not history:
            return {"name": name, "run": None}
        content = promotions.contract(history[-1])
        contract = Contract.read(content, promotions.path(history[-1]))
    except StorageError as error:
        return {"name": name, "run": None, "damage": str(error).rpartition("; ")[0] or str(error)}
    if contract.target.name != run.contract.target.name:
        return {"name": name, "run": None, "target": contract.target.name}
    return {"name": name, **_difference(run, run.store, contract, history[-1])}


def _difference(
    run: SelectionRun, store: Store, before: Contract, promotion: Promotion
) -> dict[str, Any]:
    after = run.contract
    first, second = before.types, after.types
    either = list(dict.fromkeys([*second, *first]))[:_MOST_FEATURES]
    is_same_table = before.dataset.hash == after.dataset.hash
    drift: list[dict[str, Any]] = []
    misfits = {"Gone": before.gone_from(after, run.kinds, run.description.categories)}
    why_no_drift = "both runs have the same table" if is_same_table else ""
    if not is_same_table:
        try:
            older = Dataset.open(store.datasets, before.dataset.hash)
        except StorageError:
            why_no_drift = "the table of the promoted run is no longer in the store"
        else:
            categories = run.description.categories
            target = after.target.name
            names = (*either, target)
            moved = [*filter(None, (drift_between(older, run.dataset, name) for name in names))]
            of_former = {*first, target}
            misfits["Mostly missing now"] = emptyings(moved, of_former)
            misfits["Another scale, perhaps another unit"] = rescalings(moved, of_former)
            misfits["New categories"] = unseen_categories(moved, of_former)
            drift = _drift_rows(
                moved,
                {name: len(known) for name, known in categories.items()}
                | {target: len(after.target.classes)},
                (older.n_rows, run.dataset.n_rows),
            )
    return {
        "run": promotion.run,
        "is_same_table": is_same_table,
        "promoted": promotion.promoted,
        "entered": [feature for feature in second if feature not in first],
        "left": [feature for feature in first if feature not in second],
        "then": _figures(before),
        "now": _figures(after),
        "drift": drift,
        "rises": _rises(run, store.named(promotion.run), before.loss),
        "misfits": {what: columns for what, columns in misfits.items() if columns},
        "why_no_drift": why_no_drift,
    }


def _rises(run: SelectionRun, promoted: Run, loss: str) -> dict[str, dict[str, float]]:
    """Return by how much the loss rises without each feature, then and now.

    Empty where that is not known of the promoted run, of another loss, or measured otherwise.
    """
    if loss != run.contract.loss or not promoted.exists:
        return {}
    try:
        results = StageResults(promoted.name, promoted.records())
        explained = results.explanation if "evaluate" in results.records else None
    except StorageError:  # a damaged run is no reason to lose this one's report
        return {}
    if explained is None or run.explanation is None:
        return {}
    both = explained["importance"], run.explanation["importance"]
    if len({measured.get("refitted", False) for measured in both}) > 1:
        return {}
    then, now = ({rise["feature"]: rise["rise"] for rise in known["features"]} for known in both)
    return {"then": then, "now": now} if then and now else {}


def _figures(contract: Contract) -> dict[str, Any]:
    return {
        "n_features": len(contract.kept),
        "rows": contract.dataset.rows,
        "loss_name": contract.loss,
        "judged_on": contract.judged_on,
        "loss": contract.judged_losses.selected,
        "explained": contract.comparison.explained,
    }


def _drift_rows(
    drifts: list[FeatureDrift], n_categories: Mapping[str, int], n_rows: tuple[int, int]
) -> list[dict[str, Any]]:
    """Return drift, largest first, with the distances that chance explains if nothing changed.

    Each distance is the largest difference in probability over some events: values up to a
    threshold (Kolmogorov and Smirnov), any set of categories, or a missing value. By
    Hoeffding's inequality it stays below sqrt(log(events / level) / 2 (1 / n + 1 / m)) for all
    events together, with n and m independent rows.
    """
    level = _LEVEL / (2 * max(1, len(drifts)))  # of a distance and a share of missing values each

    def by_chance(log_events: float, n: int, m: int) -> float | None:
        if not (n and m):
            return None
        return min(1.0, math.sqrt((log_events - math.log(level)) / 2 * (1 / n + 1 / m)))

    rows = []
    for drift in drifts:
        log_events = math.log(2) * max(1, n_categories.get(drift.feature, 1))
        values = drift.values_before, drift.values_after
        chances = {
            "by_chance": by_chance(log_events, *values),
            "missing_by_chance": by_chance(math.log(2), *n_rows),
        }
        rows.append({**asdict(drift), **chances})
    return sorted(rows, key=_change_of, reverse=True)


def _change_of(row: Mapping[str, Any]) -> float:
    return float(max(row["distance"] or 0.0, abs(row["missing_after"] - row["missing_before"])))
