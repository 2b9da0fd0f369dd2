"""The comparison flow: read the tables, measure every cell, conclude.

The steps are told once, in `chaffinch.tasks.comparing.story`; here each becomes a Prefect task.
"""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
from typing import Annotated

from prefect import runtime
from prefect.artifacts import create_markdown_artifact
from pydantic import Field

from chaffinch.flows.artifacts import ProgressArtifact, say
from chaffinch.flows.limits import within_limits
from chaffinch.flows.step_tasks import say_where
from chaffinch.flows.table_flow import TablePath, from_block, table_flow
from chaffinch.storage.credentials import looked_up_too
from chaffinch.storage.sources import source_name
from chaffinch.tasks.comparing.result import ComparisonResult, load_comparison
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.comparing.story import STEPS, compare_methods
from chaffinch.tasks.limit_settings import LimitSettings
from chaffinch.tasks.settings import ExecutionSettings

PROGRESS, VERDICTS = (f"comparison-{name}" for name in ("progress", "verdicts"))

Minutes = Annotated[
    float, Field(gt=0, description="Minutes after which what is done by then is concluded from.")
]


def comparison_title() -> str:
    """Return the name of the present flow run: its tables, and how many methods and models."""
    parameters = runtime.flow_run.parameters
    settings = parameters["settings"]
    tables = ", ".join(source_name(source) for source in parameters["data"][:3])
    return f"{tables}: {len(settings.methods)} methods, {len(settings.models)} models"


@table_flow(
    name="comparison",
    description="Tables in; which methods of selection help on them, over folds and seeds.",
    title=comparison_title,
)
def comparison(
    data: list[TablePath],
    settings: ComparisonSettings,
    execution: ExecutionSettings = ExecutionSettings(),  # noqa: B008 - frozen
    time_budget: Minutes | None = None,
    limits: LimitSettings | None = None,
) -> ComparisonResult:
    """Compare methods of feature selection on tables, by nested folds and over seeds.

    Parameters
    ----------
    data : list of str
        Tables: paths or addresses; see `chaffinch.select`.
    settings : ComparisonSettings
        Everything that can change the result.
    execution : ExecutionSettings
        Store, cluster and workers.
    time_budget : float, optional
        Minutes of measuring after which what is done by then is concluded from.
    limits : LimitSettings, optional
        Further tries, timeouts, and which runs this one waits for. Without, there are none.

    Returns
    -------
    ComparisonResult

    Raises
    ------
    InputError
        If a table or a setting cannot be used.
    TimeLimitError
        If it takes longer than its limits allow.
    """
    say_where()
    within = within_limits(limits, data, execution.store)
    with within as through, looked_up_too(from_block):
        run = compare_methods(
            data,
            settings,
            execution,
            time_budget=None if time_budget is None else 60 * time_budget,
            through=through,
            on_progress=ProgressArtifact(PROGRESS, "Comparison", STEPS),
            say=say,
        )
    result = load_comparison(run)
    lines = "\n".join(f"    {line}" for line in result.lines)
    create_markdown_artifact(
        f"{lines}\n\nReport: `{run.folder / 'report.html'}`",
        key=VERDICTS,
        description="What helps, what does not, and what these rows cannot tell",
    )
    return result
