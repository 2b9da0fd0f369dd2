"""The feature-selection flow: ingest, train, optimise the mask, retrain, report.

The steps are told once, in `chaffinch.tasks.story`; here each becomes a Prefect task, so that a
person sees them in the UI, with progress and the result as artifacts.
"""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
from prefect import runtime

from chaffinch.flows.artifacts import ProgressArtifact
from chaffinch.flows.governance import check_promotion, conclude
from chaffinch.flows.limits import within_limits
from chaffinch.flows.step_tasks import say_where
from chaffinch.flows.table_flow import TablePath, from_block, table_flow
from chaffinch.storage.credentials import looked_up_too
from chaffinch.storage.sources import source_name
from chaffinch.tasks.limit_settings import LimitSettings
from chaffinch.tasks.promotion_settings import PromotionSettings
from chaffinch.tasks.result import SelectionResult, load_result
from chaffinch.tasks.settings import ExecutionSettings, SelectionSettings
from chaffinch.tasks.steps import steps_of
from chaffinch.tasks.story import select_features


def run_title() -> str:
    """Return the name of the present flow run: its table, method and model."""
    parameters = runtime.flow_run.parameters
    settings = parameters["settings"]
    return f"{source_name(parameters['data'])} {settings.method.kind} {settings.model.name}"


@table_flow(
    name="feature-selection",
    description="A table in; the features worth keeping, a model retrained on them, a report out.",
    title=run_title,
)
def feature_selection(
    data: TablePath,
    settings: SelectionSettings,
    execution: ExecutionSettings = ExecutionSettings(),  # noqa: B008 - frozen
    promotion: PromotionSettings | None = None,
    limits: LimitSettings | None = None,
) -> SelectionResult:
    """Select the features of a table that are worth keeping, and retrain a model on them.

    Parameters
    ----------
    data : str
        Path or address; see `chaffinch.select`.
    settings : SelectionSettings
        Everything that can change the result.
    execution : ExecutionSettings
        Store, cluster and workers.
    promotion : PromotionSettings, optional
        When the contract is promoted. Without, the run is compared with the promoted contract of
        its table, if there is one, and nothing is promoted.
    limits : LimitSettings, optional
        Further tries, timeouts, and which runs this one waits for. Without, there are none.

    Returns
    -------
    SelectionResult
        The same as `chaffinch.select` gives.

    Raises
    ------
    InputError
        If the table or a setting cannot be used, or another target was promoted under its name.
    TimeLimitError
        If it takes longer than its limits allow.
    """
    check_promotion(data, settings.target, execution.store, promotion)
    say_where()
    within = within_limits(limits, [data], execution.store, promotion)
    with within as through, looked_up_too(from_block):
        run = select_features(
            data,
            settings,
            execution,
            through=through,
            on_progress=ProgressArtifact(
                steps=steps_of(
                    with_alternatives=settings.alternatives is not None,
                    with_changes=settings.method.kind == "reselect",
                )
            ),
        )
    result = load_result(run)
    conclude(result, promotion)
    return result
