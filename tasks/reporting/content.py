"""What a report is made from: the feature contract and what the stages recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaffinch.tasks.settings.method import Method, declared

PathStep = tuple[int, str, float | None, int]
MaskStep = tuple[int, int, float]


@dataclass(frozen=True)
class ReportContent:
    """The content of a report.

    Attributes
    ----------
    title : str
        Name of the run.
    contract : mapping
        The feature contract, as in ``selection.json``.
    unmasked_loss : float
        Loss of the base model on the mask-validation part with every feature kept.
    path : sequence of (step, feature, loss, features_left)
        The path by which features leave, with the loss on the mask-validation part once `feature`
        is masked too; a ranking masks nothing, and its losses are None.
    candidates : sequence of mapping
        The sizes that stood for choice: ``n_features``, the ``settings`` that led there (slacks,
        a lowest score, or sizes asked for), and the ``model_validation_loss``.
    tuning : sequence of mapping
        The hyper-parameters that were tried: ``parameters``, and the cross-validated ``loss``, or
        None where there was nothing to choose from.
    warnings : sequence of str
        Data-quality warnings.
    profile : sequence of mapping
        A row per column of the table: ``name``, ``role``, ``type``, ``missing``, ``distinct``,
        ``minimum``, ``mean``, ``maximum``, ``standard_deviation``, ``most_frequent``. What does
        not apply to a column may be left out.
    seconds : mapping
        Duration of every stage.
    scores : mapping, optional
        Score of every feature, higher is better, where the method is a ranking.
    sizes : sequence of mapping, optional
        Where cross-validation chose the size: ``n_features``, falling from all, with the mean
        ``loss`` over the folds and its ``standard_error``.
    masks : sequence of (step, number of features, loss), optional
        Where the method found whole masks, in place of a path.
    alternatives : mapping, optional
        As in ``alternatives.json``, where they were asked for.
    rounds : sequence of mapping, optional
        Where the method trains and masks in turn, in place of a path: ``slack``, ``round``,
        ``trained_loss``, ``tried``, ``rejected``, ``removed``, ``loss`` and ``features_left``.
    searches : sequence of mapping, optional
        Where the method searches by probabilities, in place of a path: for each search what was
        asked of it (``penalty`` or ``n_features``), ``seed``, ``held_out_loss`` and, sweep by
        sweep, ``iteration``, ``entropy``, ``stability`` and ``features_left``. The scores are then
        the probabilities behind the chosen mask. A last iteration of 0 is that of a search that
        was not made, as only one set was left; without any there are no scores.
    changes : mapping, optional
        As in ``changes.json``, of a reselection.
    trials : sequence of mapping, optional
        What a reselection tried: ``feature``, ``change`` (return or leave), ``difference``,
        ``highest`` and ``is_made``.
    """

    title: str
    contract: Mapping[str, Any]
    unmasked_loss: float
    candidates: Sequence[Mapping[str, Any]]
    tuning: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]
    profile: Sequence[Mapping[str, Any]]
    seconds: Mapping[str, float]
    path: Sequence[PathStep] = ()
    scores: Mapping[str, float] | None = None
    sizes: Sequence[Mapping[str, Any]] | None = None
    masks: Sequence[MaskStep] | None = None
    alternatives: Mapping[str, Any] | None = None
    rounds: Sequence[Mapping[str, Any]] | None = None
    searches: Sequence[Mapping[str, Any]] | None = None
    changes: Mapping[str, Any] | None = None
    trials: Sequence[Mapping[str, Any]] | None = None

    @property
    def has_steps(self) -> bool:
        """Whether each feature that left did so at a step of its own."""
        return self.masks is None and self.rounds is None and self.searches is None

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.contract["settings"]["method"]["kind"])

    @property
    def declared(self) -> Method:
        """What the method declares about itself."""
        return declared(self.method)

    @property
    def is_sized(self) -> bool:
        """Whether the method found the number of features without the model-validation rows."""
        return self.sizes is not None or self.declared.finds_size

    @property
    def searches_made(self) -> list[Mapping[str, Any]]:
        """The searches by probabilities that had anything to search."""
        return [one for one in self.searches or () if one["iteration"][-1] > 0]

    @property
    def has_one_candidate(self) -> bool:
        """Whether one size, or set, stood for choice, so that none was chosen by its loss."""
        return len(self.candidates) == 1

    @property
    def n_kept(self) -> int:
        """Number of features kept."""
        return len(self.contract["features"])

    @property
    def n_candidates(self) -> int:
        """Number of features that selection could choose from."""
        return len(self.contract["candidates"])
