"""Last stage of a run: the report, from the results of the other stages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from chaffinch.storage.runs.stages import now
from chaffinch.storage.runs.store import Run
from chaffinch.tasks.methods.protocol import as_search
from chaffinch.tasks.pipeline.selection_run import SelectionRun, StageResults
from chaffinch.tasks.pipeline.since_promotion import since_promotion
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.reporting.charts import overlap_chart, standing_alone
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.page import elimination_chart_of, render_report
from chaffinch.tasks.settings.method import declared

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
    """Collect the content of the report, and write ``report.html`` if the run has a folder."""
    created = now() if run.stored is None else run.stored.created
    run.report = replace(
        content_of(run), source=run.source, created=created, promoted=since_promotion(run)
    )
    if run.stored is not None:  # otherwise the page is rendered when it is asked for
        writer.write(REPORT_FILE, render_report(run.report))


def content_of(run: StageResults) -> ReportContent:
    """Return the content of a run's report."""
    found = {name: record.result for name, record in run.records.items()}
    searched = found["optimise_mask"]
    # only the kind: settings of an earlier release may be invalid
    method = as_search(declared(run.contract["settings"]["method"]["kind"]))
    shown = (run.path, searched, run.description.features, run.mask.tolist())
    return ReportContent(
        run=run.name,
        contract=run.contract,
        unmasked_loss=searched["unmasked_loss"],
        candidates=found["choose_mask"]["candidates"],
        tuning=found["train_base_model"]["candidates"],
        warnings=run.description.warnings,
        profile=run.description.profile,
        seconds=run.seconds,
        alternatives=found.get("score_alternatives"),
        changes=found.get("judge_changes"),
        explanation=run.explanation,
        scores=method.scores(*shown),
        **method.report(*shown),
    )


def elimination_image(run: Run) -> bytes | None:
    """Return the report's elimination curve as SVG; None if the method has none."""
    content = content_of(StageResults(run.name, run.records()))
    drawn: Markup | None = elimination_chart_of(content)
    return None if drawn is None else standing_alone(drawn)


def overlap_image(sets: Mapping[str, Collection[str]]) -> bytes | None:
    """Return a chart of the overlap of feature sets as SVG; None for fewer than two sets."""
    return standing_alone(overlap_chart(sets)) if len(sets) > 1 and any(sets.values()) else None
