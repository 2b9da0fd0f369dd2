"""The reselection flow: newer rows and a former run in; what should change, and why.

Its steps are those of `chaffinch.flows.feature_selection`, and one that judges the changes.
"""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
from typing import Annotated

from prefect import runtime
from pydantic import WithJsonSchema

from chaffinch.flows.prefect_runtime.artifacts import ProgressArtifact, key_of
from chaffinch.flows.prefect_runtime.limits import within_limits
from chaffinch.flows.prefect_runtime.promotion import check_promotion, conclude, shown_as
from chaffinch.flows.prefect_runtime.tasks import (
    NAMED,
    ExecutionForm,
    LimitsForm,
    PromotionForm,
    TablePath,
    from_block,
    in_form,
    name_in_title,
    prepare_logs,
    table_flow,
)
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.addresses import looked_up_too
from chaffinch.tasks.pipeline.progress import steps_of
from chaffinch.tasks.pipeline.run import check_settings, select_features
from chaffinch.tasks.results.previous_run import read_former, settings_of
from chaffinch.tasks.results.result import SelectionResult, load_result
from chaffinch.tasks.settings.reselection import ReselectionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings

FormerRun = Annotated[
    str,
    WithJsonSchema(
        NAMED
        | {
            "description": "The run to begin with: its name in the store, its folder, or its "
            "selection.json.",
        }
    ),
    in_form("Former run"),
]


def reselection_title() -> str:
    """Return the name of the present flow run: its table and the former run."""
    parameters = runtime.flow_run.parameters
    return f"{name_in_title(parameters['data'])} after {name_in_title(parameters['former'])}"


@table_flow(
    name="reselection",
    description="Newer rows and a former run in; which features leave or return, and why.",
    title=reselection_title,
)
def reselection(
    former: FormerRun,
    data: TablePath,
    settings: Annotated[ReselectionSettings, in_form("Settings")] = ReselectionSettings(),  # noqa: B008 - frozen
    execution: ExecutionForm = ExecutionSettings(),  # noqa: B008 - frozen
    promotion: PromotionForm = None,
    limits: LimitsForm = None,
) -> SelectionResult:
    """Begin with the features of a former run, and change them where newer rows say so.

    Parameters
    ----------
    former : str
        Name of a run in the store, its folder, or its ``selection.json``.
    data : str
        The newer rows: Path or address; see `chaffinch.select`.
    settings : ReselectionSettings
        What is to be otherwise than in the former run.
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
        The same as `chaffinch.reselect` gives.

    Raises
    ------
    InputError
        If there is no such run, the newer rows do not fit it, a setting cannot be used, or another
        target or task was promoted under the table's name.
    TimeLimitError
        If it takes longer than its limits allow.
    """
    selection = settings_of(read_former(former, execution.store), settings)
    source = source_of(data)
    data_set = shown_as(source, promotion)
    source.check()
    check_settings(selection)
    check_promotion(source, selection, execution.store, promotion)
    prepare_logs()
    within = within_limits(limits, [source], execution.store, promotion)
    with within as wrap_step, looked_up_too(from_block):
        run = select_features(
            source,
            selection,
            execution,
            wrap_step=wrap_step,
            on_progress=ProgressArtifact(
                key_of(data_set, "progress"), "Feature selection", steps_of(with_changes=True)
            ),
        )
    result = load_result(run)
    conclude(result, data_set, promotion)
    return result
