"""The last stage: gather what the others recorded into the report."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.ingestion import description_of
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.render import render_report
from chaffinch.tasks.stage import Context, stage


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
) -> None:
    """Write ``report.html``."""
    description = description_of(described)
    steps = pq.read_table(eliminated.path("elimination.parquet")).to_pydict()
    losses = steps.get("loss", [None] * len(steps["step"]))  # a ranking has scores instead
    content = ReportContent(
        title=context.run.name,
        contract=json.loads(evaluated.path("selection.json").read_bytes()),
        unmasked_loss=eliminated.result["unmasked_loss"],
        path=list(
            zip(steps["step"], steps["feature"], losses, steps["features_left"], strict=True)
        ),
        candidates=chosen.result["candidates"],
        tuning=trained.result["candidates"],
        warnings=description.warnings,
        profile=description.profile,
        seconds={
            record.stage: record.seconds
            for record in (
                described,
                divided,
                trained,
                eliminated,
                chosen,
                retrained,
                evaluated,
            )
        },
        scores=eliminated.result.get("scores"),
    )
    writer.write("report.html", render_report(content))
