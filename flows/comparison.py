"""The comparison flow: the steps of `chaffinch.tasks.comparing.run` as Prefect tasks."""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from prefect.artifacts import create_markdown_artifact
from pydantic import BeforeValidator, Field

from chaffinch.flows.prefect_runtime.artifacts import (
    ProgressArtifact,
    key_of,
    say,
    warn,
    warnings_in_markdown,
)
from chaffinch.flows.prefect_runtime.limits import within_limits
from chaffinch.flows.prefect_runtime.reports import report_in_markdown
from chaffinch.flows.prefect_runtime.tasks import (
    ExecutionForm,
    LimitsForm,
    TablePath,
    from_block,
    in_form,
    name_in_title,
    one_or_several,
    table_flow,
)
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.addresses import extra_credentials
from chaffinch.tasks.comparing.plan import ALL
from chaffinch.tasks.comparing.run import STEPS, ComparisonResult, compare_methods, load_comparison
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.pipeline.run import check_settings
from chaffinch.tasks.reporting.text import counted
from chaffinch.tasks.settings.selection import ExecutionSettings
from chaffinch.tasks.statistics.verdict import VERDICTS

Minutes = Annotated[float, Field(gt=0, title="Minutes")]


def comparison_title(parameters: Mapping[str, Any]) -> str:
    """Return the name of a flow run: its tables, and the numbers of methods and models."""
    settings = parameters["settings"]
    counts = counted(len(settings.methods), "method"), counted(len(settings.models), "model")
    return f"{_tables(parameters['data'])}: {', '.join(counts)},"


def verdicts_line(result: ComparisonResult) -> str:
    """Return how many of the methods have each verdict against all features."""
    outcomes = [outcome for table in result.summary.tables for outcome in table.outcomes]
    counts = Counter(outcome.verdict for outcome in outcomes if outcome.contender.method != ALL)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])


def _tables(data: Sequence[str]) -> str:
    return ", ".join(name_in_title(source) for source in data[:3]) or "no tables"


@table_flow(
    name="comparison",
    description="Tables in; verdicts on methods of selection out, over folds and seeds.",
    title=comparison_title,
    summary_line=verdicts_line,
)
def comparison(
    data: Annotated[
        list[TablePath],
        BeforeValidator(one_or_several),
        in_form("Tables", "What the methods are compared on."),
    ],
    settings: Annotated[ComparisonSettings, in_form("Settings")],
    execution: ExecutionForm = ExecutionSettings(),  # noqa: B008 - frozen
    time_budget: Annotated[
        Minutes | None,
        in_form(
            "Time budget",
            "Minutes of measuring after which what is done by then is concluded from. By default "
            "there is no end to it.",
        ),
    ] = None,
    limits: LimitsForm = None,
) -> ComparisonResult:
    """Compare methods of feature selection on tables, by nested folds and over seeds.

    Parameters
    ----------
    data : list of str or paths
        Paths or addresses of tables; see `chaffinch.select`.
    settings : ComparisonSettings
        Everything that can change the result.
    execution : ExecutionSettings
        Store, cluster and workers.
    time_budget : float, optional
        Minutes of measuring after which the results so far are concluded from.
    limits : LimitSettings, optional
        Retries, timeouts, and the runs that this one waits for. By default there are none.

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
    sources = [source_of(table) for table in data]
    for source in sources:
        source.check()
    for model in settings.models:
        check_settings(settings.selection(model, 0))
    within = within_limits(limits, sources, execution.store)
    with extra_credentials(from_block), within as wrap_step:
        run = compare_methods(
            sources,
            settings,
            execution,
            time_budget=None if time_budget is None else 60 * time_budget,
            wrap_step=wrap_step,
            on_progress=ProgressArtifact(
                key_of(_tables(data), "comparison progress"), "Comparison", STEPS
            ),
            say=say,
            warn=warn,
        )
    result = load_comparison(run)
    lines = "\n".join(f"    {line}" for line in result.lines)
    warnings = warnings_in_markdown(result.warnings)
    create_markdown_artifact(
        "\n\n".join([lines, *warnings, report_in_markdown(run.folder)]),
        key=key_of(_tables(data), "comparison verdicts"),
        description=verdicts_line(result),
    )
    return result
