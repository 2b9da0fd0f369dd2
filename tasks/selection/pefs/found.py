"""What searches by PEFS found: the probability of each feature, and how it came about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.pefs.distribution import entropy, jaccard, margin
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_SETTLED, _STABLE, _SWEEPS_THE_SAME = 0.5, 0.95, 4


@dataclass(frozen=True, eq=False)
class Sweep:
    """Where a search was after a sweep, which is about as many iterations as there are features.

    Attributes
    ----------
    iteration : int
        How many there were from the start.
    loss : float
        Mean over the sweep of the mini-batch losses of all samples; of a regression, half the
        squared error in deviations of the target.
    penalty : float
        epsilon at its end.
    probabilities : ndarray of float64, shape (d,)
        theta at its end.
    """

    iteration: int
    loss: float
    penalty: float
    probabilities: Floats

    @property
    def mask(self) -> Mask:
        """Features that are as probable as not, or more so, shape (d,)."""
        return np.asarray(self.probabilities >= 0.5)

    @property
    def entropy(self) -> float:
        """Mean over the features, in bits."""
        return entropy(self.probabilities)


@dataclass(frozen=True, eq=False)
class ProbabilisticSearch:
    """One search: for one penalty or number of features, with one seed.

    Attributes
    ----------
    asked : float or int
        The penalty (float) that it kept to, or the number of features (int) that it was steered to.
    seed : int
        Which of the searches for that it was, from 0.
    sweeps : tuple of Sweep
        At least one.
    held_out_loss : float or None
        Of its own network under the mask of its last sweep, batch normalisation recalibrated, on
        rows held out; None where there was nothing to search, and no network.
    """

    asked: float | int
    seed: int
    sweeps: tuple[Sweep, ...]
    held_out_loss: float | None

    @property
    def probabilities(self) -> Floats:
        """Those of the last sweep, shape (d,)."""
        return self.sweeps[-1].probabilities

    @property
    def is_made(self) -> bool:
        """Whether there was anything to search; its probabilities are 0 and 1 if not."""
        return self.sweeps[-1].iteration > 0


@dataclass(frozen=True, eq=False)
class ProbabilisticSearches:
    """Searches for several penalties or numbers of features, each with several seeds.

    Attributes
    ----------
    searches : tuple of ProbabilisticSearch
        At least one.
    """

    searches: tuple[ProbabilisticSearch, ...]

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.searches[0].probabilities)

    @property
    def asked(self) -> list[float | int]:
        """What was asked for, each once, in order."""
        return list(dict.fromkeys(one.asked for one in self.searches))

    def probabilities(self, asked: float | int) -> Floats:
        """Return the mean over the seeds, shape (d,)."""
        return np.asarray(np.mean([one.probabilities for one in self._of(asked)], axis=0))

    def mask(self, asked: float | int) -> Mask:
        """Return the mask that was asked for, shape (d,).

        Of a number of features the most probable ones; of a penalty those that are as probable as
        not, or more so, but one at least.
        """
        if isinstance(asked, int):
            return self.most_probable(asked, asked)
        mask = np.asarray(self.probabilities(asked) >= 0.5)
        return mask if mask.any() else self.most_probable(asked, 1)

    def most_probable(self, asked: float | int, n_features: int) -> Mask:
        """Return the mask of the `n_features` most probable.

        Of features that are equally probable at the end, the one that was more so on the way stays.
        """
        on_the_way = np.mean(
            [np.mean([at.probabilities for at in one.sweeps], axis=0) for one in self._of(asked)],
            axis=0,
        )
        return most_probable(self.probabilities(asked), n_features, on_the_way)

    def is_made(self, asked: float | int) -> bool:
        """Return whether there was anything to search."""
        return all(one.is_made for one in self._of(asked))

    def share_of_iterations(self, asked: float | int) -> float:
        """Return which share of all iterations was made for one penalty or number, in 0..1."""
        n_all = sum(one.sweeps[-1].iteration for one in self.searches)
        return sum(one.sweeps[-1].iteration for one in self._of(asked)) / max(n_all, 1)

    def behind(self, mask: Mask) -> float | int:
        """Return what was asked for first that led to a mask.

        Raises
        ------
        ValueError
            If nothing did.
        """
        for asked in self.asked:
            if (self.mask(asked) == mask).all():
                return asked
        raise ValueError("the mask must be one that a search led to but is not")

    def _of(self, asked: float | int) -> list[ProbabilisticSearch]:
        return [one for one in self.searches if one.asked == asked]


def most_probable(probabilities: Floats, n_features: int, on_the_way: Floats) -> Mask:
    """Return the mask of the `n_features` features of the highest probability.

    Parameters
    ----------
    probabilities : ndarray of float64, shape (d,)
    n_features : int in 1..d
    on_the_way : ndarray of float64, shape (d,)
        Decides between equals; after it, the lower index.
    """
    order = np.lexsort((-on_the_way, -probabilities))
    mask = np.zeros(len(probabilities), dtype=bool)
    mask[order[:n_features]] = True
    return mask


def stability(sweeps: Sequence[Sweep]) -> float:
    """Return the least Jaccard index of the last mask with each of the four before; 0 until then.

    Parameters
    ----------
    sweeps : sequence of Sweep
        Up to the one of interest.
    """
    if len(sweeps) <= _SWEEPS_THE_SAME:
        return 0.0
    *before, last = sweeps[-1 - _SWEEPS_THE_SAME :]
    return min(jaccard(one.mask, last.mask) for one in before)


def is_settled(sweeps: Sequence[Sweep], fixed: Collection[int] = ()) -> bool:
    """Return whether a search has come to rest.

    It has once the mean entropy is below half a bit and the mask has been stable for four sweeps.
    Below 24 features the margins leave more entropy than that: there, a third of the way up from
    the least that they leave.

    Parameters
    ----------
    sweeps : sequence of Sweep
        All so far.
    fixed : collection of int
        Features whose probability never moves, and has no entropy.
    """
    last = sweeps[-1].probabilities
    n_free = len(last) - len(fixed)
    if not n_free:
        return True
    least = entropy(np.array([margin(len(last))]))
    highest = max(_SETTLED, least + (1 - least) / 3)
    bits = entropy(last) * len(last) / n_free
    return bits < highest and stability(sweeps) >= _STABLE
