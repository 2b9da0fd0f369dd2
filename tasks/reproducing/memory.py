"""What each part of an experiment gave with each seed, kept for one that goes on or adds seeds."""

from __future__ import annotations

from typing import Any

from joblib import hash as hash_of

from chaffinch.storage.runs import Store
from chaffinch.tasks.reproducing.experiment import Experiment, Measured
from chaffinch.tasks.stage import digest, versions

Item = tuple[int, int]
"""The number of a measure of the experiment, and a seed."""


class Memory:
    """The figures of one experiment on the data at hand.

    Parameters
    ----------
    store : Store or None
        Where they are kept; None keeps and knows nothing.
    experiment : Experiment
        What one of other places has measured is not found.
    shared : Any
        What its `read` returned; figures measured on something else are not found.
    """

    def __init__(self, store: Store | None, experiment: Experiment, shared: Any) -> None:
        self._kept = None if store is None else store.experiments
        self._about = {
            "experiment": experiment.name,
            "places": [figure.place for figure in experiment.figures],
            "data": hash_of(shared),
            "versions": versions(),
        }

    def recall(self, item: Item) -> Measured | None:
        """Return what was measured before; None if it was not, is damaged or of another form."""
        if self._kept is None:
            return None
        key = self._key(item)
        record = self._kept.finished(key, key)
        if record is None:
            return None
        try:
            figures = record.result["figures"]
            return {(str(row), str(column)): float(figure) for row, column, figure in figures}
        except (KeyError, TypeError, ValueError):
            return None

    def keep(self, item: Item, measured: Measured) -> Measured:
        """Keep what was measured, where there is a store, and return it.

        Raises
        ------
        StorageError
            If the device is full or fails.
        """
        if self._kept is not None:
            key = self._key(item)
            with self._kept.stage(key, key) as writer:
                figures = [[*place, float(figure)] for place, figure in measured.items()]
                writer.result = {"figures": figures}
        return measured

    def _key(self, item: Item) -> str:
        measure, seed = item
        return digest({**self._about, "measure": measure, "seed": seed})
