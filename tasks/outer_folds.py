"""The outer folds of a comparison, and the parts of the rows that each leaves to select by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from chaffinch.storage.errors import InputError
from chaffinch.tasks.dealing import Index
from chaffinch.tasks.part_needs import TooFewError
from chaffinch.tasks.selection.vocabulary import Floats
from chaffinch.tasks.setting_fields import FEWEST_OUTER_FOLDS, MOST_OUTER_FOLDS
from chaffinch.tasks.settings import SelectionSettings
from chaffinch.tasks.splits import Keys, Splits, fold_indices, split_around


@dataclass(frozen=True)
class OuterFolds:
    """How the rows of a table are dealt out to outer folds.

    Attributes
    ----------
    n_folds : int in 2..20
    n_seeds : int
        How often they are dealt anew, with the seeds from 0 on.
    """

    n_folds: int
    n_seeds: int

    def splits(
        self,
        fold: int,
        y: Floats | Index,
        settings: SelectionSettings,
        *,
        groups: Keys | None = None,
        times: Keys | None = None,
        classes: Sequence[str] = (),
    ) -> Splits:
        """Part the rows around an outer fold, which is the test part.

        Parameters
        ----------
        fold : int
            Its number, from 0 on.
        y, settings, groups, times, classes
            As in `splits.split_rows`; `settings` give the seed, and the folds inside.

        Raises
        ------
        InputError
            If rows, groups or times, or the rows of a class, are too few for the outer folds, or
            for the parts and the folds inside them.
        """
        dealt = settings.model_copy(
            update={"model": settings.model.model_copy(update={"folds": self.n_folds})}
        )
        test = fold_indices(y, dealt, groups=groups, times=times, anew=True)[fold][1]
        return split_around(test, y, settings, groups=groups, times=times, classes=classes)

    def check(
        self,
        y: Floats | Index,
        settings: SelectionSettings,
        *,
        groups: Keys | None = None,
        times: Keys | None = None,
        classes: Sequence[str] = (),
    ) -> None:
        """Part the rows around every outer fold of every seed, on trial.

        Parameters
        ----------
        y, settings, groups, times, classes
            As in `splits.split_rows`.

        Raises
        ------
        InputError
            As `splits`; the line names the nearest number of outer folds that is enough, if any is.
        """
        try:
            self._split_all(y, settings, groups, times, classes)
        except TooFewError as error:
            for n_folds in self._nearest():
                try:
                    replace(self, n_folds=n_folds)._split_all(y, settings, groups, times, classes)
                except InputError:
                    continue
                enough = f"use {n_folds} outer folds"
                raise error.without_fewer_folds(enough) from error
            raise error.without_fewer_folds() from error

    def _split_all(
        self,
        y: Floats | Index,
        settings: SelectionSettings,
        groups: Keys | None,
        times: Keys | None,
        classes: Sequence[str],
    ) -> None:
        for seed in range(self.n_seeds):
            seeded = settings.model_copy(update={"seed": seed})
            for fold in range(self.n_folds):
                self.splits(fold, y, seeded, groups=groups, times=times, classes=classes)

    def _nearest(self) -> list[int]:
        """Return the other numbers of folds, the nearest first."""
        numbers = range(FEWEST_OUTER_FOLDS, MOST_OUTER_FOLDS + 1)
        return sorted(set(numbers) - {self.n_folds}, key=lambda n: (abs(n - self.n_folds), -n))
