"""What each part of the rows was used for: no method uses all of them for the same."""

from __future__ import annotations

from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.selection.reselection import RESELECT
from chaffinch.tasks.selection.rivals.names import OF_ROWS_HELD_OUT
from chaffinch.tasks.selection.rivals.refit_names import MASKING, REFITTING

_PURPOSE = {
    "train": "tuning, fitting, the baseline",
    "mask_validation": "which feature to mask next; then fitting",
    "model_validation": "how many features to keep",
    "test": "the verdict; nothing is chosen by it",
}
_PURPOSE_IN_A_RANKING = {
    "train": "tuning, fitting, the ranking",
    "mask_validation": "fitting alone",
}
_PURPOSE_IN_A_RANKING_OF_ROWS_HELD_OUT = {
    "train": "tuning, fitting",
    "mask_validation": "the ranking; then fitting",
}
_PURPOSE_IN_REFITS = {
    "train": "tuning, fitting",
    "mask_validation": "the losses of the refits; then fitting",
}
_PURPOSE_IN_FOLDS = {
    "train": "tuning, the folds of the search, fitting",
    "mask_validation": "the folds of the search; then fitting",
}
_PURPOSE_IN_SEARCHES_BY_PROBABILITIES = {
    "train": "tuning, fitting, the baseline, the probabilities",
    "mask_validation": "the losses of the networks; then fitting",
}
_PURPOSE_WITHOUT_A_SEARCH = {"mask_validation": "fitting alone"}
_PURPOSE_BESIDE_A_LOWEST_SCORE = {"model_validation": "nothing: the lowest score set the size"}
_PURPOSE_OF_A_SIZE_THAT_STANDS = {"model_validation": "the loss of the one candidate"}


def purpose_of_each_part(content: ReportContent) -> dict[str, str]:
    """Return what each part was used for by the method.

    Returns
    -------
    dict
        Part -> purpose, in a few words.
    """
    purpose = _PURPOSE
    if content.method in OF_ROWS_HELD_OUT:
        purpose = _PURPOSE | _PURPOSE_IN_A_RANKING_OF_ROWS_HELD_OUT
    elif content.method in MASKING:
        purpose = _PURPOSE | _PURPOSE_IN_FOLDS
    elif content.searches_made:
        purpose = _PURPOSE | _PURPOSE_IN_SEARCHES_BY_PROBABILITIES
    elif content.searches is not None:
        purpose = _PURPOSE | _PURPOSE_WITHOUT_A_SEARCH
    elif content.scores is not None:
        purpose = _PURPOSE | _PURPOSE_IN_A_RANKING
    elif content.method in (*REFITTING, RESELECT):
        purpose = _PURPOSE | _PURPOSE_IN_REFITS
    if content.contract["settings"]["method"].get("min_score") is not None:
        return purpose | _PURPOSE_BESIDE_A_LOWEST_SCORE
    if content.is_sized or content.has_one_candidate:
        return purpose | _PURPOSE_OF_A_SIZE_THAT_STANDS
    return purpose
