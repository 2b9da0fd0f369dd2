"""The report's section on features: which were kept and dropped, and what the run knows of each."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from chaffinch.tasks.contract import KeptFeature
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.search import baseline_in_words
from chaffinch.tasks.reporting.section import (
    Block,
    Definitions,
    Kind,
    Table,
    folded,
    note,
    numbers,
    paragraph,
    section,
)
from chaffinch.tasks.reporting.text import number, plain

Name = TypeVar("Name", bound=Hashable)


@section("Features")
def features(content: ReportContent) -> Iterator[Block]:
    yield _how_to_read(content)
    yield folded(kept_features(content), is_open=True)
    if (dropped := dropped_features(content)).rows:
        yield folded(dropped)
    else:
        yield paragraph("No column was dropped.")


def _how_to_read(content: ReportContent) -> Block:
    traits, usual = content.traits, "Baseline is its usual value in the training rows;"
    if content.rounds is not None:
        return note(
            "In the table’s order: features left in rounds, above, and not at steps of their own."
        )
    if content.searches is not None and content.scores is None:
        return note(
            "In the table’s order: nothing was searched for these, so that no feature is more "
            "probable than another."
        )
    if content.searches is not None:
        several = content.contract.settings["method"]["seeds"] > 1
        mean = " The probability is the mean over the seeds." * several
        return note(f"Most probable first.{mean}")
    if content.changes is not None:
        return note(
            "In the table’s order: features left and returned one at a time, below, as refitted "
            "models decided. Baseline is a feature’s usual value in the training rows, and stands "
            "for it where the search orders what to try."
        )
    if content.masks is not None:
        return note(
            "In the table’s order: whole masks were judged, so that no feature left at a step of "
            f"its own. {usual} the search makes no use of it."
        )
    if traits.is_cross_fitted:
        folds = (
            "are those that keep the feature, each by its own order and number of features. Folds "
            "share rows, so that other rows may agree less."
        )
        return Definitions(
            {"Rank": f"is {traits.score}. 1 is the most useful feature."}
            | ({"Folds": folds} if content.fold_sizes else {})
            | {
                "Baseline": "is the value that a masked feature has in every row"
                f"{baseline_in_words(content)}"
            }
        )
    if content.scores is not None:
        use = "the ranking makes no use of it"
        if traits.masks_rows:
            use = "a masked feature has it in every row"
        return note(f"Rank 1 is the most useful feature. {usual} {use}.")
    if traits.refits:
        return note(
            "Rank 1 is the feature that a refitted model can spare least, which would be removed "
            "last. The loss is that of the mask-validation rows once it is removed along with all "
            f"before it. {usual} the search makes no use of it."
        )
    return note(
        "Rank 1 is the feature that the model can spare least, which would be masked last. The "
        "loss is that of the mask-validation rows once it is masked along with all before it."
    )


_CONTRACT = "selection.json"


def kept_features(content: ReportContent) -> Table:
    """Return the kept features, those that the model can spare least first."""
    evidence = evidence_of(content)
    rows = [
        (
            feature.name,
            *(_figure(of.get(feature.name)) for of in evidence.values()),
            _type(feature),
            plain(feature.baseline),
        )
        for feature in kept_in_order(content)
    ]
    columns: dict[str, Kind] = {"Feature": "name", **numbers(*evidence)}
    columns |= {"Type": "text", "Baseline": "name"}
    return Table(f"Kept features ({number(len(rows))})", columns, rows, file=_CONTRACT)


def dropped_features(content: ReportContent) -> Table:
    """Return the dropped columns, those that came closest to being kept first."""
    evidence = evidence_of(content)
    dropped = content.contract.dropped
    rank = ranks_of(content)
    removed = sorted(
        (d for d in dropped if d.step is not None), key=lambda feature: rank[feature.name]
    )
    others = [d for d in dropped if d.step is None]
    others.sort(key=lambda feature: rank.get(feature.name, len(rank) + 1))
    rows = [
        (d.name, *(_figure(of.get(d.name)) for of in evidence.values()), d.reason)
        for d in [*removed, *others]
    ]
    columns: dict[str, Kind] = {"Column": "name", **numbers(*evidence)}
    if {d.reason for d in dropped} == {f"removed by {content.method}"}:
        rows = [row[:-1] for row in rows]
    else:
        columns["Reason"] = "text"
    return Table(f"Dropped columns ({number(len(rows))})", columns, rows, file=_CONTRACT)


def dropped_candidates(content: ReportContent) -> list[str]:
    """Return the features that were searched and dropped, the closest to being kept first."""
    candidates = {*content.contract.candidates}
    return [row[0] for row in dropped_features(content).rows if row[0] in candidates]


def kept_as_csv(content: ReportContent) -> str:
    """Return the kept features with what the run knows of each, sorted by name."""
    evidence, text = dict(evidence_of(content)), io.StringIO()
    if content.explanation is not None:
        measured = content.explanation["importance"]["features"]
        evidence["Importance"] = {rise["feature"]: rise["rise"] for rise in measured}
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["feature", "type", *(heading.lower() for heading in evidence)])
    for feature in kept_in_order(content):
        writer.writerow(
            [feature.name, feature.type, *(of.get(feature.name) for of in evidence.values())]
        )
    return text.getvalue()


def kept_in_order(content: ReportContent) -> list[KeptFeature]:
    """Return the kept features, most useful first; sorted by name if none is known."""
    rank = ranks_of(content)
    return sorted(content.contract.kept, key=lambda feature: rank[feature.name])


def ranks_of(content: ReportContent) -> dict[str, int]:
    """Return the rank of each candidate, as in the frame of the result."""
    contract = content.contract
    kept = contract.types
    is_kept = [name in kept for name in contract.candidates]
    return rank_of_each(contract.candidates, is_kept, contract.steps, content.scores)


def evidence_of(content: ReportContent) -> dict[str, Mapping[str, Any]]:
    """Return what the run knows of single features: by heading, the figure of each."""
    evidence: dict[str, Mapping[str, Any]] = {}
    if content.has_steps:
        evidence["Rank"] = _ranks(content)
    if content.scores is not None:
        if not content.traits.score_is_place:
            evidence["Score" if content.searches is None else "Probability"] = content.scores
    elif content.has_steps:
        heading = "Loss once removed" if content.traits.refits else "Loss once masked"
        evidence[heading] = {feature: loss for _, feature, loss, _ in content.path}
    if (stability := content.contract.stability) is not None:
        shares, n_folds = stability.share_of_folds, stability.n_folds
        evidence["Folds"] = {
            name: f"{round(held * n_folds)} of {n_folds}" for name, held in shares.items()
        }
    return evidence


def _ranks(content: ReportContent) -> dict[str, str]:
    """Return the rank of each candidate by when it leaves, 1 for the last."""
    contract = content.contract
    keep_list = set(contract.settings["columns"].get("keep", ()))
    steps = contract.steps
    last = [name for name in contract.candidates if name not in steps]
    first = "1" if len(last) == 1 else f"1 to {number(len(last))}"  # no step orders these
    ranks = {name: "kept as asked" if name in keep_list else first for name in last}
    of_removed = {name: rank for name, rank in ranks_of(content).items() if name not in ranks}
    return ranks | {name: number(rank) for name, rank in of_removed.items()}


def _figure(value: str | float | None) -> str:
    return value if isinstance(value, str) else number(value)


def _type(feature: KeptFeature) -> str:
    if not feature.categories:
        return feature.type
    return f"{feature.type} ({number(len(feature.categories))} values)"


def rank_of_each(
    candidates: Sequence[Name],
    kept: Sequence[bool],
    step_of: Mapping[Name, int],
    scores: Mapping[Name, float] | None,
) -> dict[Name, int]:
    """Return the rank of each candidate, from 1 for the most useful to d.

    The later the search removes a feature, the better its rank; what it never removes is best.
    Without steps, the higher score is better. Of features that these do not order, the kept ones
    come first, then those with the higher score, then those named first in `candidates`.
    """
    is_kept = dict(zip(candidates, kept, strict=True))

    def key(name: Name) -> tuple[float, bool, float]:
        score = -scores[name] if scores is not None else 0.0
        if step_of:
            return -step_of.get(name, math.inf), not is_kept[name], score
        return score, not is_kept[name], 0.0

    return {name: rank for rank, name in enumerate(sorted(candidates, key=key), 1)}
