"""An event of OpenLineage: which columns of which table the features of a run come from."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from chaffinch.errors import InputError, UnreachableError
from chaffinch.storage.extras import require
from chaffinch.storage.sources.addresses import check_no_secret
from chaffinch.tasks.results.previous_run import STORE, AnyRun, Former, read_former
from chaffinch.tasks.settings.identity import versions

if TYPE_CHECKING:
    from openlineage.client.event_v2 import InputDataset, OutputDataset, RunEvent

_NAMESPACE = "OPENLINEAGE_NAMESPACE"  # as OpenLineage's own integrations name it
_IDS = uuid.UUID("8a9fbb0c-4f5b-5d0f-9a0e-7f4b9d9c1c55")


def to_openlineage(
    run: AnyRun,
    *,
    name: str | None = None,
    table: str | None = None,
    store: str | Path = STORE,
) -> RunEvent:
    """Return the OpenLineage event of a finished run, with the lineage of each kept feature.

    ``OpenLineageClient().emit(event)`` sends it. Equal runs have one run id.

    Parameters
    ----------
    run, store
        See `to_dbt`.
    name : str, optional
        Name of the data set, as in `to_dbt`. The job is ``feature_selection.orders``, and its
        output ``orders_features``.
    table : str, optional
        Name of the input, such as ``shop.orders``, or its namespace and name, such as
        ``s3://shop/orders.parquet``; by default the data set's name. A run does not keep the
        address of its table.

    Returns
    -------
    openlineage.client.event_v2.RunEvent
        Its namespace is ``OPENLINEAGE_NAMESPACE`` of the environment, or ``default``. A contract
        without its run has the present time.

    Raises
    ------
    InputError
        If openlineage-python is not installed, or there is no such run.
    StorageError
        If the run is damaged.
    """
    require("openlineage", "an event of OpenLineage")
    from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
    from openlineage.client.facet_v2 import processing_engine_run

    exported = read_former(run, store)
    data_set = exported.data_set(name)
    namespace = os.environ.get(_NAMESPACE, "default")
    place = _place(table or data_set, namespace)
    dataset_hash = exported.contract.dataset.hash
    key = f"{namespace}\0{data_set}\0{exported.run}\0{dataset_hash}"
    version = versions()["chaffinch"]
    created = "" if exported.folder is None else exported.in_store.created
    engine = processing_engine_run.ProcessingEngineRunFacet(version=version, name="chaffinch")
    return RunEvent(
        eventType=RunState.COMPLETE,
        eventTime=created or datetime.now(UTC).isoformat(),
        run=Run(str(uuid.uuid5(_IDS, key)), facets={"processing_engine": engine}),
        job=Job(namespace, f"feature_selection.{data_set}"),
        producer=f"https://pypi.org/project/chaffinch/{version}",
        inputs=[_input(exported, place, dataset_hash)],
        outputs=[_output(exported, namespace, f"{data_set}_features", place)],
    )


def send(event: RunEvent) -> str:
    """Send an event as the environment configures it; return it as JSON where nothing does."""
    from openlineage.client import OpenLineageClient

    try:
        client = OpenLineageClient()
        if client.transport.kind == "console":
            return as_json(event)
        client.emit(event)
    except (OSError, RuntimeError, ValueError) as error:
        # without its text, which may hold the address with a password
        kind = UnreachableError if isinstance(error, OSError) else InputError
        raise kind(
            f"the event could not be sent to OpenLineage ({type(error).__name__}); check "
            "OPENLINEAGE_URL and OPENLINEAGE_API_KEY in the environment, or write it to a file"
        ) from None
    return str(event.run.runId)


def as_json(event: RunEvent) -> str:
    from openlineage.client.serde import Serde

    return str(Serde.to_json(event))


def _place(table: str, namespace: str) -> tuple[str, str]:
    """Return the namespace and the name of an input, which may be an address."""
    check_no_secret(table, "the name of a table")
    scheme, _, rest = table.rpartition("://")
    host, _, name = rest.partition("/")
    return (f"{scheme}://{host}", name) if scheme and name else (namespace, table)


def _input(exported: Former, place: tuple[str, str], dataset_hash: str) -> InputDataset:
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import dataset_version_dataset as versions
    from openlineage.client.facet_v2 import schema_dataset as schemas

    fields = [schemas.SchemaDatasetFacetFields(name=name) for name in exported.contract.columns]
    facets = {
        "schema": schemas.SchemaDatasetFacet(fields=fields),
        "version": versions.DatasetVersionDatasetFacet(datasetVersion=dataset_hash),
    }
    return InputDataset(*place, facets=facets)


def _output(exported: Former, namespace: str, name: str, place: tuple[str, str]) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import column_lineage_dataset as lineage
    from openlineage.client.facet_v2 import schema_dataset as schemas

    contract = exported.contract
    fields = [
        schemas.SchemaDatasetFacetFields(name=name, type=kind)
        for name, kind in contract.kinds.items()
    ]
    columns = {}
    for feature, column in contract.origins().items():
        subtype = "IDENTITY" if feature == column else "TRANSFORMATION"
        how = lineage.Transformation(type="DIRECT", subtype=subtype)
        origin = lineage.InputField(*place, column, transformations=[how])
        columns[feature] = lineage.Fields(inputFields=[origin])
    facets = {
        "schema": schemas.SchemaDatasetFacet(fields=fields),
        "columnLineage": lineage.ColumnLineageDatasetFacet(fields=columns),
    }
    return OutputDataset(namespace, name, facets=facets)
