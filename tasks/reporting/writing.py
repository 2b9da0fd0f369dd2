"""The last stage: gather what the others recorded into the report."""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.ingestion import description_of
from chaffinch.tasks.recorded_path import PATH_FILE
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
    *further: StageRecord,
) -> None:
    """Write ``report.html``."""
    description = description_of(described)
    found = {record.stage: record.result for record in further}
    table = pq.read_table(eliminated.path(PATH_FILE))
    steps = table.to_pydict()
    has_rounds = "round" in steps
    numbers, left = steps["step"], steps["features_left"]
    losses = steps.get("loss", [None] * len(numbers))  # a ranking has scores instead
    features = steps.get("feature")  # whole masks have several
    content = ReportContent(
        title=context.run.name,
        contract=json.loads(evaluated.path("selection.json").read_bytes()),
        unmasked_loss=eliminated.result["unmasked_loss"],
        path=[] if features is None else list(zip(numbers, features, losses, left, strict=True)),
        masks=None if features or has_rounds else list(zip(numbers, left, losses, strict=True)),
        rounds=table.to_pylist() if has_rounds else None,
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
                *further,
            )
        },
        alternatives=found.get("score_alternatives"),
        changes=found.get("judge_changes"),
        trials=eliminated.result.get("trials"),
        scores=eliminated.result.get("scores"),
        sizes=eliminated.result.get("sizes"),
    )
    writer.write("report.html", render_report(content))
