"""The feature-selection flow: the steps of `chaffinch.tasks.pipeline.run` as Prefect tasks.

The UI shows the progress and the result as artifacts.
"""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
from collections.abc import Mapping
from typing import Annotated, Any, cast

from chaffinch.flows.prefect_runtime.artifacts import (
    ProgressArtifact,
    key_of,
    log_warnings,
    summary_line,
)
from chaffinch.flows.prefect_runtime.limits import within_limits
from chaffinch.flows.prefect_runtime.promotion import check_promotion, conclude, ended
from chaffinch.flows.prefect_runtime.tasks import (
    ExecutionForm,
    LimitsForm,
    PromotionForm,
    TablePath,
    from_block,
    in_form,
    name_in_title,
    shown_as,
    table_flow,
)
from chaffinch.storage.runs.refusals import noting_refusals
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.addresses import extra_credentials
from chaffinch.tasks.pipeline.progress import steps_of
from chaffinch.tasks.pipeline.run import check_settings, select_features
from chaffinch.tasks.results.result import SelectionResult, load_result
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings


def run_title(parameters: Mapping[str, Any]) -> str:
    """Return the name of a flow run: its data set, method and model."""
    settings, data_set = parameters["settings"], data_set_in_title(parameters)
    return f"{data_set} {settings.method.kind} {settings.model.name}"


def data_set_in_title(parameters: Mapping[str, Any]) -> str:
    """Return the name of a run's data set, by default the table's."""
    promotion, limits = parameters["promotion"], parameters["limits"]
    name = (promotion and promotion.name) or (limits and limits.data_set)
    return name or name_in_title(parameters["data"])


@table_flow(
    name="feature-selection",
    description="A table in; the features worth keeping, a model retrained on them, a report out.",
    title=run_title,
    summary_line=summary_line,
)
def feature_selection(
    data: TablePath,
    settings: Annotated[SelectionSettings, in_form("Settings")],
    execution: ExecutionForm = ExecutionSettings(),  # noqa: B008 - frozen
    promotion: PromotionForm = None,
    limits: LimitsForm = None,
) -> SelectionResult:
    """Select the features of a table that are worth keeping, and retrain a model on them.

    Parameters
    ----------
    data : str or path
        Path or address; see `chaffinch.select`.
    settings : SelectionSettings
        Everything that can change the result.
    execution : ExecutionSettings
        Store, cluster and workers.
    promotion : PromotionSettings, optional
        When the contract is promoted. By default the run is compared with the promoted contract of
        its table, if there is one, and nothing is promoted.
    limits : LimitSettings, optional
        Retries, timeouts, and the runs that this one waits for. By default there are none.

    Returns
    -------
    SelectionResult
        The same as `chaffinch.select` gives.

    Raises
    ------
    InputError
        If the table or a setting cannot be used, or another target or task was promoted under its
        name.
    TimeLimitError
        If it takes longer than its limits allow.
    """
    return selected(data, settings, execution, promotion, limits)


def selected(
    data: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    promotion: PromotionSettings | None,
    limits: LimitSettings | None,
    promoted_as: str | None = None,
) -> SelectionResult:
    """Select features in the present flow run, publish the result, and promote it or not.

    `promoted_as` is the promoted contract to compare with, by default that of the table.
    """
    source = source_of(data)
    promoted_as = promoted_as if promotion is None else promotion.name
    data_set = shown_as(source, promotion)
    with noting_refusals(execution.store, source, promoted_as):
        source.check()
        check_settings(settings)
    with extra_credentials(from_block):
        check_promotion(source, settings, execution.store, promotion)
    within = within_limits(limits, [source], execution.store, promotion)
    with extra_credentials(from_block), within as wrap_step:
        run = select_features(
            source,
            settings,
            execution,
            wrap_step=wrap_step,
            notes_decision=True,
            on_progress=ProgressArtifact(
                key_of(data_set, "progress"),
                "Feature selection",
                steps_of(
                    with_alternatives=settings.alternatives is not None,
                    with_changes=settings.method.kind == "reselect",
                ),
            ),
            warn=log_warnings,  # the command line has shown them before the server started
            promoted_as=promoted_as,
        )
    result = load_result(run)
    undecided = conclude(result, data_set, promotion, promoted_as)
    # the flow returns the state, and calling the flow the result
    return cast(SelectionResult, ended(result, undecided, promotion))
