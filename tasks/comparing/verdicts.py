"""Whether a method helps: against all features and a constant, with all that is tested allowed for.

A verdict hangs on three tests of each contender: does its loss differ from that with all features,
does it differ from that of a constant, which looks at no feature, and does it save no more than
`NEGLIGIBLE` of the constant's. Each is corrected by Holm over all contenders of a table and model,
at 5 % for both ends of an interval together. Three corrections of 5 % each make no 15 % of wrong
verdicts: "helps" is wrong only by an error at the lower end of the first or the second where either
is no gain, "does not help" by one at the upper end of the first or at the lower end of the third
where both are gains. So the errors that can make a verdict wrong share two ends of 2.5 % each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.comparing.statistics import CONFIDENCE, ROUNDING, PairedDifference, holm
from chaffinch.tasks.comparison import Verdict

NEGLIGIBLE = 0.05  # of a constant's loss: what explains no more than that, if any, is no use


@dataclass(frozen=True)
class OverConstant(PairedDifference):
    """A loss less that of a constant, as in `PairedDifference`, with all that were tested.

    Attributes
    ----------
    corrected_p : float or None
        Its p value, corrected for all contenders that were tested; None untested.
    corrected_saving_p : float or None
        How likely it is to save as little as this, or less, if it truly saves `NEGLIGIBLE` of the
        constant's mean loss, taken as it is: doubled, as for two sides, and corrected likewise.
    """

    corrected_p: float | None
    corrected_saving_p: float | None

    @property
    def is_better(self) -> bool:
        """Whether the loss is shown to be lower than the constant's."""
        return self.mean < 0 and _is_small(self.corrected_p)

    @property
    def is_no_better(self) -> bool:
        """Whether the loss is shown to be no lower than the constant's, or is the very same."""
        return self.is_nothing or (self.mean >= 0 and _is_small(self.corrected_p))

    @property
    def is_hardly_better(self) -> bool:
        """Whether it is not shown to be lower, and shown to be at best a little lower.

        With labels that mean nothing a frugal model does next to no harm, which no number of rows
        shows to be more than none. So it counts that it saves no more than `NEGLIGIBLE`.
        """
        return not self.is_better and _is_small(self.corrected_saving_p)


def over_constants(differences: Sequence[PairedDifference | None]) -> list[OverConstant | None]:
    """Return differences to a constant with the p values that allow for all of them.

    Parameters
    ----------
    differences : sequence of PairedDifference or None
        Of the loss of each contender to the constant's; None of one that is not tested.
    """
    of_mean = _corrected([None if d is None else d.p_value for d in differences])
    of_saving = _corrected([None if d is None else _saving_p(d) for d in differences])
    return [
        None if d is None else OverConstant(**vars(d), corrected_p=p, corrected_saving_p=saving)
        for d, p, saving in zip(differences, of_mean, of_saving, strict=True)
    ]


def _saving_p(difference: PairedDifference) -> float | None:
    from scipy import stats

    if difference.standard_error is None:
        return None
    beyond = difference.mean + NEGLIGIBLE * abs(difference.other_mean)
    one_sided = float(stats.t.sf(beyond / difference.standard_error, difference.n_pairs - 1))
    return min(1.0, 2 * one_sided)


def _corrected(p_values: Sequence[float | None]) -> list[float | None]:
    known = np.array([np.nan if p is None else p for p in p_values])
    return [float(p) if np.isfinite(p) else None for p in holm(known)]


def _is_small(corrected_p: float | None) -> bool:
    return corrected_p is not None and corrected_p <= 1 - CONFIDENCE + ROUNDING


def verdict_on(
    difference: PairedDifference | None,
    corrected_p: float | None,
    *,
    is_all: bool,
    over_constant: OverConstant | None = None,
) -> Verdict:
    """Return whether a method helps, in the words of `chaffinch.tasks.comparison`.

    Fewer features have a lower loss than all of them also where none has anything to tell; so it
    has to beat the constant that looks at none as well. Where the loss is the very same as with all
    features, selection changes nothing, and so does not help.

    Parameters
    ----------
    difference : PairedDifference or None
        Of its loss to that with all features.
    corrected_p : float or None
        From `holm`; None where nothing was tested, which decides nothing.
    is_all : bool
        Whether the method kept every feature, always; then it does not help.
    over_constant : OverConstant, optional
        Of its loss to that of a constant; without it, it is not asked to beat that.
    """
    if is_all or (difference is not None and difference.is_nothing):
        return "does not help"
    if over_constant is not None and (over_constant.is_no_better or over_constant.is_hardly_better):
        return "does not help"
    if difference is None or not _is_small(corrected_p):
        return "cannot tell"
    if difference.mean >= 0:
        return "does not help"
    return "helps" if over_constant is None or over_constant.is_better else "cannot tell"
