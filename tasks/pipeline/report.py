"""Last stage of a run: the report, from the records of the other stages."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from chaffinch.storage.runs.stages import StageRecord, StageWriter
from chaffinch.storage.runs.store import Run
from chaffinch.tasks.methods.protocol import as_search
from chaffinch.tasks.pipeline.ingestion import description_of
from chaffinch.tasks.pipeline.search import PATH_FILE, mask_of
from chaffinch.tasks.pipeline.stage import Context, stage
from chaffinch.tasks.reporting.charts import overlap_chart, standing_alone
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.page import elimination_chart_of, render_report
from chaffinch.tasks.settings.method import declared

if TYPE_CHECKING:
    from markupsafe import Markup


_PAGE, _CONTENT = "report.html", "report.json"


@stage
def write_report(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    eliminated: StageRecord,
    chosen: StageRecord,
    retrained: StageRecord,
    evaluated: StageRecord,
    *further: StageRecord,
) -> None:
    """Write ``report.html``; for a run that is not kept, write only the content."""
    records = (described, divided, trained, eliminated, chosen, retrained, evaluated, *further)
    content = content_of(context.run.name, records)
    if context.is_kept:
        writer.write(_PAGE, render_report(content))
    else:
        writer.write(_CONTENT, content.to_json())


def report_of(written: StageRecord) -> bytes | ReportContent:
    """Return the page of a finished run, or its content if the page was not rendered."""
    if _PAGE in written.files:
        return written.read(_PAGE)
    return ReportContent.from_json(written.read(_CONTENT))


def content_of(title: str, records: Sequence[StageRecord]) -> ReportContent:
    """Return the content of a run's report."""
    stages = {record.stage: record for record in records}
    found = {record.stage: record.result for record in records}
    description, eliminated = description_of(stages["describe"]), found["optimise_mask"]
    table = stages["optimise_mask"].read_table(PATH_FILE)
    contract = json.loads(stages["evaluate"].read("selection.json"))
    # only the kind: settings of an earlier release may be invalid
    method = as_search(declared(contract["settings"]["method"]["kind"]))
    shown = (table, eliminated, description.features, mask_of(stages["choose_mask"]).tolist())
    return ReportContent(
        title=title,
        contract=contract,
        unmasked_loss=eliminated["unmasked_loss"],
        candidates=found["choose_mask"]["candidates"],
        tuning=found["train_base_model"]["candidates"],
        warnings=description.warnings,
        profile=description.profile,
        seconds={record.stage: record.seconds for record in records},
        alternatives=found.get("score_alternatives"),
        changes=found.get("judge_changes"),
        scores=method.scores(*shown),
        **method.report(*shown),
    )


def elimination_image(run: Run) -> bytes | None:
    """Return the report's elimination curve as SVG; None if the method has none."""
    drawn: Markup | None = elimination_chart_of(content_of(run.name, run.records()))
    return None if drawn is None else standing_alone(drawn)


def overlap_image(sets: Mapping[str, Collection[str]]) -> bytes | None:
    """Return a chart of the overlap of feature sets as SVG; None for fewer than two sets."""
    return standing_alone(overlap_chart(sets)) if len(sets) > 1 and any(sets.values()) else None
