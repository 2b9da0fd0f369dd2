"""`chaffinch descend`: a table in random order in; a folder with the features chosen out."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from chaffinch.errors import InputError, as_input_error
from chaffinch.storage.files import (
    FORMAT_VERSION,
    file_to_write,
    locked,
    path_from,
    remove_file,
    sealed,
    sweep,
    write_file,
)
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.storage.shuffled.table import ShuffledTable, open_shuffled
from chaffinch.tasks.api.differentiable_selection import (
    sharing_of,
    state_from,
    warn_of_too_few_steps,
)
from chaffinch.tasks.pipeline.progress import OnProgress, as_progress, no_progress
from chaffinch.tasks.selection.checkpoint_file import seal_of
from chaffinch.tasks.selection.dfs.descent import FILE as STATE
from chaffinch.tasks.selection.dfs.descent import (
    Descent,
    DescentState,
    Step,
    to_bytes,
    with_words,
)
from chaffinch.tasks.selection.dfs.search import (
    Aim,
    DifferentiableSelection,
    Rules,
    check_aim,
    select_by_descent,
)
from chaffinch.tasks.settings.descent import DescentSettings, SharingSettings
from chaffinch.tasks.settings.identity import digest, versions

logger = logging.getLogger(__name__)

LOOK, DESCEND = "look_at_all_rows", "descend"
STEPS = (LOOK, DESCEND)
FEATURES = "features.json"
FORMAT = "chaffinch differentiable selection"
_UNFINISHED = ".unfinished"  # folder of descents that are not done
_ENDING = ".safetensors"  # there, by the key of a descent: the state it had, and its way to it
_MOST_OTHERS = 2  # the newest of other descents that are kept for their commands to go on


@dataclass(frozen=True)
class Descended:
    """What a descent left behind: its folder, and the content of ``features.json``."""

    folder: Path
    content: dict[str, Any]

    @property
    def features(self) -> list[str]:
        """Names of the chosen ones in the table's order; of svmlight their numbers there."""
        return [feature["name"] for feature in self.content["features"]]


def descend(
    data: str | Path,
    folder: str | Path,
    settings: DescentSettings,
    *,
    start: str | Path | None = None,
    sharing: SharingSettings | None = None,
    on_progress: OnProgress = no_progress,
) -> Descended:
    """Choose features of a table in random order, and write them to a folder.

    A killed descent resumes from its last checkpoint when it is started again. The files in the
    folder are replaced once the descent is done; `start` may be the state that is replaced.
    `on_progress` takes a step's name, its items done, and their number in all.
    """
    folder = path_from(folder, "the folder of the features")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, but the features go into a folder; name another")
    features_file, state_file = (file_to_write(folder / name, name) for name in (FEATURES, STATE))
    table, sharing = open_shuffled(data), sharing or SharingSettings()
    aim = Aim(settings.n_features, settings.penalty)
    rules = Rules(**settings.model_dump(exclude={"n_features", "penalty"}))
    if settings.task == "auto":
        rules = replace(rules, task=None)
    check_aim(table.shape[1], aim)
    begun = None if start is None else state_from(start)
    description = {
        "table": {"hash": table.hash, "rows": table.shape[0], "columns": table.shape[1]},
        "settings": settings.model_dump(mode="json"),
        "start": None if begun is None else begun[1],
        "versions": versions(),
    }
    unfinished = folder / _UNFINISHED
    with locked(unfinished / ".lock", str(folder)), as_input_error():
        sweep(unfinished)
        # with the names: they are in a state, and equal rows may have others
        checkpoints, key = Checkpoints(unfinished), digest(description | {"names": table.columns})
        _clear_others(unfinished, key)
        state, way = _read_checkpoint(checkpoints, key) or (None if begun is None else begun[0], [])
        n_before, keep = len(way), checkpoints.now_and_then(key + _ENDING)

        def report(descent: Descent, way: Sequence[Step]) -> None:
            if len(way) == n_before:
                progress.end(LOOK, perf_counter() - began)
            progress(DESCEND, len(way), settings.steps)
            keep(lambda: to_bytes(descent.state(), {"way": json.dumps([*map(astuple, way)])}))

        progress, began = as_progress(on_progress), perf_counter()
        progress(LOOK, 0, 1)
        with sharing_of(table, sharing) as shared:
            selection = select_by_descent(
                table, None, aim, rules, shared, state, way=way, on_step=report
            )
        left = to_bytes(selection.state)
        content = _content(table, selection, description, left)
        # the state last: it may be the start, by which one that is killed before knows itself
        write_file(features_file, sealed(content))
        write_file(state_file, left)
        remove_file(unfinished / (key + _ENDING))
    warn_of_too_few_steps(selection)
    if not content["features"]:
        logger.warning("no feature is worth a penalty of %g; give a lower one", settings.penalty)
    progress.end(DESCEND, perf_counter() - began)
    return Descended(folder, content)


def _clear_others(unfinished: Path, key: str) -> None:
    """Remove all but the newest descents that other commands did not finish; warn of these."""
    others = [path for path in unfinished.glob(f"*{_ENDING}") if path.stem != key]
    others.sort(key=lambda path: (path.stat().st_mtime_ns, path.stem))
    for path in others[:-_MOST_OTHERS]:
        remove_file(path)
    if others:
        logger.warning(
            "folder %s has what other commands did not finish, by other rows or settings: the same "
            "command as then continues with it; to be rid of it, remove %s",
            unfinished.parent,
            unfinished,
        )


def _read_checkpoint(checkpoints: Checkpoints, key: str) -> tuple[DescentState, list[Step]] | None:
    """Return the last state of this very descent and its steps; None without a checkpoint."""
    content = checkpoints.read(key + _ENDING)
    if content is None:
        return None
    try:
        state, words = with_words(content)
    except ValueError as error:
        reason, _, _ = str(error).rpartition("; ")  # the remedy after it is one for a start
        checkpoints.discard(key + _ENDING, reason)
        return None
    way = [Step(*step) for step in json.loads(words["way"])]
    logger.info("%d steps were made before", len(way))
    return state, way


def _content(
    table: ShuffledTable,
    selection: DifferentiableSelection,
    description: dict[str, Any],
    state: bytes,
) -> dict[str, Any]:
    features = [
        {
            "position": position,
            "name": table.name_of(position),
            "score": float(selection.scores[position]),
            "kept": float(selection.kept[position]),
        }
        for position in selection.features.tolist()
    ]
    steps = zip(selection.losses, selection.sums, selection.penalties, strict=True)
    return {
        "format_version": FORMAT_VERSION,
        "format": FORMAT,
        "table": description["table"],
        "rows_seen": selection.state.learned.columns.n_rows,
        "features": features,
        "path": [asdict(Step(*map(float, step))) for step in steps],
        "settings": description["settings"],
        "start": description["start"],
        "state": seal_of(state),
        "versions": description["versions"],
    }
