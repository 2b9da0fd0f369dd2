"""What a report is made from: the feature contract and what the stages recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaffinch.storage.sources.formats.file_name import without_endings
from chaffinch.tasks.contract import Contract
from chaffinch.tasks.settings.method import Traits, declared

PathStep = tuple[int, str, float | None, int]  # step, feature, loss once it is masked too, left
MaskStep = tuple[int, int, float]  # step, number of features, loss


@dataclass(frozen=True)
class ReportContent:
    """The content of a report."""

    run: str  # its name
    contract: Contract
    unmasked_loss: float  # of the base model on the mask-validation part with every feature
    # Each with n_features, the settings that led there, and the model_validation_loss.
    candidates: Sequence[Mapping[str, Any]]
    # Each with parameters, and the cross-validated loss, or None for a single candidate.
    tuning: Sequence[Mapping[str, Any]]
    warnings: Sequence[str]
    # A row per column of the table: name, and what of `tables._PROFILE` applies.
    profile: Sequence[Mapping[str, Any]]
    seconds: Mapping[str, float]  # of every stage
    source: str = ""  # name of the file or table that was read
    created: str = ""  # when the run began, UTC in ISO 8601
    path: Sequence[PathStep] = ()  # a ranking masks nothing, and its losses are None
    # Of every feature, where the method is a ranking; of PEFS, the probabilities behind the mask.
    scores: Mapping[str, float] | None = None
    # Where cross-validation chose the size: n_features, falling from all, loss, standard_error; of
    # auto also the difference from all features, which the standard error is then of.
    sizes: Sequence[Mapping[str, Any]] | None = None
    fold_sizes: Sequence[int] = ()  # of auto: features that each outer fold keeps
    widen: float = 1.0  # of auto: factor of intervals over the folds
    # Of auto: how many features left before the others, as "of_no_use", then as "near_copies" of
    # others, then as they take "nothing_off" the loss.
    left_first: Mapping[str, int] = field(default_factory=dict)
    near_copies: Sequence[Sequence[str]] = ()  # groups of features that are near copies
    masks: Sequence[MaskStep] | None = None  # of a method that searches whole masks
    alternatives: Mapping[str, Any] | None = None  # as in alternatives.json
    # Where the method trains and masks in turn: slack, round, trained_loss, tried, rejected,
    # removed, loss and features_left.
    rounds: Sequence[Mapping[str, Any]] | None = None
    # Where the method searches by probabilities: penalty or n_features, seed, held_out_loss and,
    # sweep by sweep, iteration, entropy, stability and features_left. A last iteration of 0 means
    # that only one set was left, and nothing was searched.
    searches: Sequence[Mapping[str, Any]] | None = None
    changes: Mapping[str, Any] | None = None  # as in changes.json, of a reselection
    # What a reselection tried: feature, change (return or leave), difference, highest, is_made.
    trials: Sequence[Mapping[str, Any]] | None = None
    explanation: Mapping[str, Any] | None = None  # as in explanation.json
    # What changed since the promoted contract: its run, or None for nothing to compare with.
    promoted: Mapping[str, Any] | None = None

    @property
    def has_steps(self) -> bool:
        """Whether each feature that left did so at a step of its own."""
        return self.masks is None and self.rounds is None and self.searches is None

    @property
    def method(self) -> str:
        return str(self.contract.settings["method"]["kind"])

    @property
    def traits(self) -> Traits:
        return declared(self.method).traits

    @property
    def data_set(self) -> str:
        return without_endings(self.source) or self.run

    @property
    def is_sized(self) -> bool:
        """Whether the method chose the number of features without the model-validation rows."""
        return self.sizes is not None or self.traits.finds_size

    @property
    def searches_made(self) -> list[Mapping[str, Any]]:
        """The searches by probabilities that had anything to search."""
        return [search for search in self.searches or () if search["iteration"][-1] > 0]

    @property
    def has_one_candidate(self) -> bool:
        """Whether there was only one candidate."""
        return len(self.candidates) == 1

    @property
    def n_kept(self) -> int:
        return len(self.contract.kept)

    @property
    def is_constrained(self) -> bool:
        """Whether constraints chose among the features, so that the set may be none of the path."""
        limits = self.contract.settings.get("constraints")
        return limits is not None and (bool(limits["groups"]) or limits["budget"] is not None)

    @property
    def n_candidates(self) -> int:
        return len(self.contract.candidates)
