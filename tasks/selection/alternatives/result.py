"""Results of a search for alternatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, dissimilarity
from chaffinch.tasks.selection.core import Floats

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


Status = Literal["optimal", "feasible", "infeasible", "not_solved"]
Aggregate = Literal["sum", "min"]


@dataclass(frozen=True)
class FeatureSet:
    """One feature set.

    Attributes
    ----------
    features : tuple of str, or of int
        Names in the table's order; indices if the quality has no names. Empty for a missing set,
        infeasible or not solved.
    indices : tuple of int
        Sorted.
    quality : float
        -inf for a missing set.
    bound : float
        Upper bound on the quality of any set in its place: after the sets before it, for a
        sequential search; beside all others, for a simultaneous search, the smaller of the bound on
        any set and what the overall bound leaves. inf if unknown.
    status : "optimal", "feasible", "infeasible" or "not_solved"
        The best in its place, up to 1e-9 that rounding may hide; a set with a bound; proven that
        there is none; none found without a proof, because time was over or a heuristic got stuck.
    seconds : float
        Search time; for a simultaneous search, that of all sets.
    """

    features: tuple[str, ...] | tuple[int, ...]
    indices: tuple[int, ...]
    quality: float
    bound: float
    status: Status
    seconds: float

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def gap(self) -> float:
        """Possible improvement as a share of the quality; 0 if it is optimal."""
        return relative_gap(self.quality, self.bound)


@dataclass(frozen=True)
class Alternatives(Sequence[FeatureSet]):
    """Diverse feature sets: a sequence of `FeatureSet`.

    Attributes
    ----------
    sets : tuple of FeatureSet
        In the order of the search; from best to worst for a simultaneous search.
    total : float
        The sum of their qualities, or the smallest; -inf without sets.
    bound : float
        Upper bound on `total`; for a sequential search, each set after those before it. inf if
        unknown.
    status : "optimal", "feasible", "infeasible" or "not_solved"
        All are best, by `total` (if that is the smallest, a better set may be improvable, and is
        then feasible); all were found, with a bound; proven that there are no more sets than these,
        or, for a simultaneous search, not so many at once, so that it has none; not all were found,
        without a proof: time was over or a heuristic got stuck. Greedy searches get stuck when
        features run out, a climb when all sets visited have a quality of -inf, and a simultaneous
        search when there are too many sets to list and none found are diverse enough.
    seconds : float
        Total search time.
    aggregate : "sum" or "min"
        Meaning of `total`.
    dissimilarity : "dice" or "jaccard"
        Measure of diversity.
    """

    sets: tuple[FeatureSet, ...] = field(repr=False)
    total: float
    bound: float
    status: Status
    seconds: float
    aggregate: Aggregate = "sum"
    dissimilarity: Dissimilarity = "dice"

    @overload
    def __getitem__(self, place: int) -> FeatureSet: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[FeatureSet, ...]: ...

    def __getitem__(self, place: int | slice) -> FeatureSet | tuple[FeatureSet, ...]:
        return self.sets[place]

    def __len__(self) -> int:
        return len(self.sets)

    def __iter__(self) -> Iterator[FeatureSet]:
        return iter(self.sets)

    @property
    def gap(self) -> float:
        """Possible improvement as a share of `total`; 0 if it is optimal."""
        return relative_gap(self.total, self.bound)

    def overlap(self) -> NDArray[np.int64]:
        """Return the number of shared features, shape (m, m), with sizes on the diagonal."""
        of_sets = [set(feature_set.indices) for feature_set in self.sets]
        shared = [[len(indices & other) for other in of_sets] for indices in of_sets]
        return np.array(shared, dtype=np.int64).reshape(len(of_sets), len(of_sets))

    def dissimilarities(self) -> Floats:
        """Return the pairwise dissimilarities, shape (m, m), in 0..1."""
        sets = [feature_set.indices for feature_set in self.sets]
        apart = [
            [dissimilarity(indices, other, self.dissimilarity) for other in sets]
            for indices in sets
        ]
        return np.array(apart, dtype=np.float64).reshape(len(sets), len(sets))

    def __str__(self) -> str:
        lines = [f"{_counted(len(self), 'set')}, {self.status}; total quality {self.total:.4g}"]
        lines += [
            f"  {place}: {_in_short(feature_set.features)} "
            f"(quality {feature_set.quality:.4g}, {feature_set.status})"
            for place, feature_set in enumerate(self.sets, 1)
        ]
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw which features each set has, with its quality; those of most sets come first.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InputError
            If there are no sets.
        """
        import matplotlib.pyplot as plt

        drawn = [feature_set for feature_set in self.sets if len(feature_set)]
        if not drawn:
            raise InputError(f"there are no sets to draw ({self.status}); search with a lower tau")
        features = [*dict.fromkeys(name for feature_set in drawn for name in feature_set.features)]
        held = {name: [name in feature_set.features for feature_set in drawn] for name in features}
        features.sort(key=lambda name: (-sum(held[name]), [not has for has in held[name]]))
        if ax is None:
            _, ax = plt.subplots(
                figsize=(2 + 0.3 * len(features), 1.5 + 0.3 * len(drawn)), layout="constrained"
            )
        cells = np.array([held[name] for name in features], dtype=float).T
        ax.imshow(np.where(cells > 0, 0.55, 0), cmap="Blues", vmin=0, vmax=1, aspect="auto")
        ax.set_xticks(range(len(features)), [str(name) for name in features], rotation=90)
        names = [
            f"{i}: quality {feature_set.quality:.4g}" for i, feature_set in enumerate(drawn, 1)
        ]
        ax.set_yticks(range(len(drawn)), names)
        ax.set_xticks(np.arange(0.5, len(features)), minor=True)
        ax.set_yticks(np.arange(0.5, len(drawn)), minor=True)
        ax.grid(which="minor", color="white")
        ax.tick_params(which="both", length=0)
        return ax

    def _repr_html_(self) -> str:
        html: str = self.to_frame().to_html(index=False, border=0)
        return html

    def to_frame(self) -> pd.DataFrame:
        """Return a table with a row per set."""
        import pandas as pd

        columns = ["features", "quality", "bound", "gap", "status", "seconds"]
        return pd.DataFrame(
            [[getattr(feature_set, column) for column in columns] for feature_set in self.sets],
            columns=columns,
        )


_NAMED = 8  # features of a set that are printed


def _in_short(features: Sequence[str | int]) -> str:
    if not features:
        return "none"
    more = len(features) - _NAMED
    text = ", ".join(map(str, features[:_NAMED]))
    return f"{text} and {more} more" if more > 0 else text


def _counted(amount: int, noun: str) -> str:
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def relative_gap(value: float, bound: float) -> float:
    """Return the distance of a bound from a value, as a share of the value."""
    if bound <= value:
        return 0.0
    if not value or not math.isfinite(value):
        return math.inf
    return (bound - value) / abs(value)


def overall_status(sets: Sequence[FeatureSet]) -> Status:
    """Return the status of the sets of a sequential search, the last of which may be missing."""
    if sets and not len(sets[-1]):
        return sets[-1].status
    return "optimal" if all(feature_set.status == "optimal" for feature_set in sets) else "feasible"
