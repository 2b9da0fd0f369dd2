"""The flow of differentiable selection: large files in; a folder with the features chosen out.

It does what `chaffinch shuffle` and `chaffinch descend` do in turn.
"""

# No `from __future__ import annotations` in flow modules: a served run could not resolve them.
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from prefect.artifacts import create_table_artifact

from chaffinch.errors import InputError
from chaffinch.flows.prefect_runtime.artifacts import ProgressArtifact
from chaffinch.flows.prefect_runtime.tasks import (
    NamedText,
    as_task,
    in_form,
    name_in_title,
    table_flow,
)
from chaffinch.storage.files import path_from
from chaffinch.tasks.api.descend import STEPS, Descended, descend
from chaffinch.tasks.api.differentiable_selection import start_from
from chaffinch.tasks.api.shuffle import SHUFFLE, shuffle_files
from chaffinch.tasks.settings.descent import DescentSettings, SharingSettings, ShuffleSettings

PROGRESS, FEATURES = (f"differentiable-selection-{name}" for name in ("progress", "features"))
MOST_ROWS = 1_000  # of the artifact; all are in the file


ShuffledPath = Annotated[
    NamedText,
    in_form(
        "Table",
        "The table in random order, as chaffinch shuffle writes it; or where it is to be.",
    ),
]
Folder = Annotated[
    NamedText,
    in_form(
        "Folder",
        "Where features.json goes, and state.safetensors to go on from; made if need be.",
    ),
]
Start = Annotated[
    NamedText | None,
    in_form(
        "Start",
        "The state.safetensors of an earlier descent, to go on from, of a table with the same "
        "columns in the same order; rows other than it saw last are taken to be newer.",
    ),
]
RawFiles = Annotated[
    list[NamedText] | None,
    in_form(
        "Files",
        "What is written to the table first: Parquet, files or folders, or text in the format of "
        "svmlight, plain or .gz. By default it is there already.",
    ),
]


def descent_title(parameters: Mapping[str, Any]) -> str:
    """Return the name of a flow run: its table, and what it is to reach."""
    settings = parameters["settings"]
    aim = (
        f"penalty {settings.penalty:g}"
        if settings.n_features is None
        else f"{settings.n_features} features"
    )
    return f"{name_in_title(parameters['data'])} {aim}"


def summary_line(descended: Descended) -> str:
    """Return how many features a descent chose."""
    content = descended.content
    return f"{len(content['features']):,} of {content['table']['columns']:,} features"


@table_flow(
    name="differentiable-selection",
    description="A table of any length in; the features for a linear model in a file out.",
    title=descent_title,
    summary_line=summary_line,
)
def differentiable_selection(
    data: ShuffledPath,
    folder: Folder,
    settings: Annotated[DescentSettings, in_form("Settings")],
    start: Start = None,
    files: RawFiles = None,
    shuffle: Annotated[ShuffleSettings, in_form("Shuffle")] = ShuffleSettings(),  # noqa: B008 - frozen
    sharing: Annotated[SharingSettings, in_form("Sharing")] = SharingSettings(),  # noqa: B008 - frozen
) -> Descended:
    """Choose features of a table that is too large for memory; see `chaffinch.tasks.api.descend`.

    Without `files`, `data` exists already, and `shuffle` must have no settings.
    """
    _check_files_for(shuffle, files)
    path_from(folder, "the folder of the features")
    if start is not None:
        start_from(start)
    steps = STEPS if files is None else (SHUFFLE, *STEPS)
    progress = ProgressArtifact(PROGRESS, "Differentiable selection", steps)
    if files is not None:
        as_task(shuffle_files)(files, data, shuffle, on_progress=progress)
    descended: Descended = as_task(descend)(
        data, folder, settings, start=start, sharing=sharing, on_progress=progress
    )
    _publish(descended)
    return descended


def _check_files_for(shuffle: ShuffleSettings, files: list[str] | None) -> None:
    if files is None and shuffle != ShuffleSettings():
        changed = ", ".join(sorted(shuffle.model_dump(exclude_defaults=True)))
        raise InputError(
            "the settings of the shuffle are for files, and there are none to shuffle, but they "
            f"set {changed}; give files, or leave shuffle out"
        )


def _publish(descended: Descended) -> None:
    """Put the features into the UI, the best first."""
    path = Path(descended.folder) / "features.json"
    best_first = sorted(descended.content["features"], key=lambda feature: -feature["score"])
    create_table_artifact(
        [
            {"feature": feature["name"], "score": feature["score"]}
            for feature in best_first[:MOST_ROWS]
        ],
        key=FEATURES,
        description=f"{summary_line(descended)}, the best first: `{path}`",
    )
