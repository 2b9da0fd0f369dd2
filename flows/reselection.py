"""The reselection flow: the steps of `feature_selection`, and the step that judges the changes."""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import WithJsonSchema

from chaffinch.flows.feature_selection import data_set_in_title, selected
from chaffinch.flows.prefect_runtime.artifacts import summary_line
from chaffinch.flows.prefect_runtime.tasks import (
    NAMED,
    ExecutionForm,
    LimitsForm,
    PathText,
    PromotionForm,
    TablePath,
    from_block,
    in_form,
    name_in_title,
    table_flow,
)
from chaffinch.storage.sources.addresses import extra_credentials
from chaffinch.tasks.promotion.promote import promoted_name
from chaffinch.tasks.results.previous_run import read_former, settings_of
from chaffinch.tasks.results.result import SelectionResult
from chaffinch.tasks.settings.reselection import ReselectionSettings
from chaffinch.tasks.settings.selection import ExecutionSettings

FormerRun = Annotated[
    PathText,
    WithJsonSchema(
        NAMED
        | {
            "description": "The run to begin with: its name in the store, its folder, or its "
            "selection.json.",
        }
    ),
    in_form("Former run"),
]


def reselection_title(parameters: Mapping[str, Any]) -> str:
    """Return the name of a flow run: its data set and the former run."""
    return f"{data_set_in_title(parameters)} after {name_in_title(parameters['former'])}"


@table_flow(
    name="reselection",
    description="Newer rows and a former run in; which features leave or return, and why.",
    title=reselection_title,
    summary_line=summary_line,
)
def reselection(
    former: FormerRun,
    data: TablePath,
    settings: Annotated[ReselectionSettings, in_form("Settings")] = ReselectionSettings(),  # noqa: B008 - frozen
    execution: ExecutionForm = ExecutionSettings(),  # noqa: B008 - frozen
    promotion: PromotionForm = None,
    limits: LimitsForm = None,
) -> SelectionResult:
    """Start from the features of a former run, and change them where newer rows show a reason.

    Parameters
    ----------
    former : str or path
        Name of a run in the store, its folder, or its ``selection.json``.
    data : str or path
        Path or address of the newer rows; see `chaffinch.select`.
    settings : ReselectionSettings
        Settings that differ from the former run.
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
        The same as `chaffinch.reselect` gives.

    Raises
    ------
    InputError
        If there is no such run, the newer rows do not fit it, a setting cannot be used, or another
        target or task was promoted under the table's name.
    TimeLimitError
        If it takes longer than its limits allow.
    """
    with extra_credentials(from_block):
        selection = settings_of(read_former(former, execution.store), settings)
        promoted_as = promoted_name(former, execution.store)
    return selected(data, selection, execution, promotion, limits, promoted_as)
