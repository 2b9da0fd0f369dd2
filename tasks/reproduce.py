"""`chaffinch.reproduce`: a published experiment again, over many seeds instead of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from chaffinch.storage.errors import InputError
from chaffinch.storage.paths import path_from
from chaffinch.storage.runs import Store
from chaffinch.tasks.cluster import open_workers
from chaffinch.tasks.reproducing.experiment import Experiment, Measured, Place
from chaffinch.tasks.reproducing.experiments import experiment_named
from chaffinch.tasks.reproducing.memory import Item, Memory
from chaffinch.tasks.reproducing.outcome import Reproduction, beside
from chaffinch.tasks.selection.errors import in_one_line
from chaffinch.tasks.settings import ExecutionSettings
from chaffinch.tasks.stage import OnProgress, tell_nobody

MEASURE = "measure"
STEPS = (MEASURE,)


def reproduce(
    table: str,
    *,
    seeds: int = 20,
    data: str | Path | None = None,
    cluster: str = "none",
    workers: int | None = None,
    store: str | Path | None = None,
    on_progress: OnProgress = tell_nobody,
) -> Reproduction:
    """Run a published experiment again with many seeds, and set its figures beside ours.

    The protocol is the paper's own, with what its published runs did beyond it; the searches are
    ours. A figure that a paper printed is one draw of a distribution: this shows the distribution.

    Parameters
    ----------
    table : str
        Which: a name of `chaffinch.tasks.reproducing.names`, such as ``"gbmo-table-2"``.
    seeds : int, at least 1
        It is run with the seeds 0, 1, ..., seeds - 1, and with the authors' where that is known.
    data : path, optional
        Folder that holds the real tables which some experiments need; synthetic ones are made.
    cluster : "none", "local" or a scheduler's address
        Who computes; never changes the result.
    workers : int, optional
        Processes of a local cluster; by default one per core.
    store : path, optional
        Folder that keeps what each seed gave as soon as it is there, so that a reproduction that
        was stopped goes on, and one with more seeds measures only these. None keeps nothing.
    on_progress : callable, optional
        Called with a step's name, its items done, and their number in all.

    Returns
    -------
    Reproduction

    Raises
    ------
    InputError
        If there is no such table, its data are not there, there are no seeds, or the store cannot
        be used.
    StorageError
        If the store fails on the way, such as a full disk.

    Examples
    --------
    >>> import chaffinch
    >>> found = chaffinch.reproduce("gbmo-table-2", cluster="local")  # doctest: +SKIP
    >>> found.to_frame()  # doctest: +SKIP
    """
    experiment = experiment_named(table)
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise InputError(f"seeds must be a whole number of at least 1 but is {in_one_line(seeds)}")
    execution = ExecutionSettings(cluster=cluster, workers=workers)
    shared = experiment.read(None if data is None else path_from(data, "data"))
    wanted = list(range(seeds))
    if experiment.authors_seed is not None and experiment.authors_seed not in wanted:
        wanted.append(experiment.authors_seed)
    items = [(number, seed) for number in range(len(experiment.measures)) for seed in wanted]
    memory = Memory(None if store is None else Store.open(store), experiment, shared)
    measured = {item: there for item in items if (there := memory.recall(item)) is not None}
    recalled = set(measured)
    lacking = _to_measure(experiment, items, measured, recalled)
    on_progress(MEASURE, len(items) - len(lacking), len(items))
    while lacking:
        recalled.difference_update(lacking)
        for item in lacking:
            measured.pop(item, None)
        with open_workers(execution.cluster, execution.workers) as those:
            results = those.as_done(partial(_measured, experiment.measures), shared, lacking)
            with closing(results):
                for number, result in results:
                    measured[lacking[number]] = memory.keep(lacking[number], result)
                    on_progress(MEASURE, len(measured), len(items))
        lacking = _to_measure(experiment, items, measured, recalled)
    on_progress(MEASURE, 1, 1)
    by_seed: dict[int, Measured] = {seed: {} for seed in wanted}
    for item in items:
        by_seed[item[1]] = {**by_seed[item[1]], **measured[item]}
    return beside(experiment, by_seed, seeds)


def _to_measure(
    experiment: Experiment,
    items: Sequence[Item],
    measured: Mapping[Item, Measured],
    recalled: Set[Item],
) -> list[Item]:
    """Return what is lacking, and what was recalled of seeds that lack a figure all the same.

    Such is of a version of the experiment whose parts measured other figures than they do now.
    """
    unfinished = {seed for number, seed in items if (number, seed) not in measured}
    found: dict[int, set[Place]] = defaultdict(set)
    for (_, seed), figures in measured.items():
        found[seed].update(figures)
    places = {figure.place for figure in experiment.figures}
    return [
        item
        for item in items
        if item not in measured
        or (item in recalled and item[1] not in unfinished and not places <= found[item[1]])
    ]


def _measured(
    measures: Sequence[Callable[[Any, int], Measured]], shared: Any, item: Item
) -> Measured:
    """Return what a part of a run with one seed gives."""
    number, seed = item
    return measures[number](shared, seed)
