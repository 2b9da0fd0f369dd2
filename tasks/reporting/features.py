"""The report's section on features: which were kept and dropped, and what the run knows of each."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chaffinch.tasks.contract import KeptFeature
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.search import baseline_in_words
from chaffinch.tasks.reporting.section import (
    Bars,
    Block,
    Definitions,
    Kind,
    Table,
    folded,
    note,
    numbers,
    paragraph,
)
from chaffinch.tasks.reporting.text import (
    NOTHING,
    bound_of_share,
    cut,
    listed,
    number,
    plain,
    rounded_share,
)
from chaffinch.tasks.reporting.why import ColumnReason, columns_of, ranks_of


def features(content: ReportContent) -> Iterator[Block]:
    columns = columns_of(content)
    kept = [column for column in columns if column.state == "kept"]
    dropped = [column for column in columns if column.state in ("dropped", "left out")]
    how, terms = _how_to_read(content), _terms_of_values(content, columns)
    if isinstance(how, Definitions):
        terms = {**how.terms, **terms}
    else:
        yield how
    if terms:
        yield Definitions(terms, caption="How to read the columns")
    yield folded(_table_of(content, "Kept features", kept), is_open=True)
    if dropped:
        yield folded(_table_of(content, "Dropped columns", dropped))
    else:
        yield paragraph("No column was dropped.")


_PRICE = (
    "is what the model explains less, at most, without the column alone: a share of what it "
    "explains beyond a constant. The section on importance has the rise of the loss, its interval, "
    "and whether the column was masked or models were fitted without it."
)
_TOGETHER = " Columns of which all or none are kept have the price of all of them together."
_GROUP = (
    "is the column that stands for its near copies: a kept one, or else the one of the best rank. "
    "Near copies order the rows almost alike, and categories part them alike."
)


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
        no_use = "the ranking makes no use of it"
        return note(f"Rank 1 is the most useful feature. {usual} {no_use}.")
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


def _terms_of_values(content: ReportContent, columns: Sequence[ColumnReason]) -> dict[str, str]:
    """Return what the figures mean that are known of a column without the search."""
    terms = {"Group": _GROUP} if any(column.group is not None for column in columns) else {}
    if any(column.price is not None for column in columns):
        terms["Price"] = _PRICE + _TOGETHER * any(column.price_together for column in columns)
    if (with_target := (content.explanation or {}).get("with_target")) is not None:
        terms["Association"] = (
            f"is that of the column alone with {content.contract.target.name}, from 0 to 1, in "
            f"{number(with_target['rows'])} training rows: Spearman’s correlation without its "
            "sign, with missing values at the middle rank; of a number with classes, the "
            "correlation ratio of the ranks, adjusted for the number of classes; of two "
            "categories, symmetrical uncertainty. A column of little association may help beside "
            "others."
        )
    if any(column.counts for column in columns):
        terms["Values"] = (
            "are the least and the largest number, or the most frequent category. Bars are the "
            "rows in twelve intervals of equal width, or of each category, the most frequent first "
            "and the last of twelve all others."
        )
    return terms


_ALL_ROWS = "report.json"
_LONGEST_CATEGORY = 20  # letters


def _table_of(content: ReportContent, caption: str, columns: Sequence[ColumnReason]) -> Table:
    evidence = evidence_of(content)
    has_groups = any(column.group is not None for column in columns)
    has_prices = any(column.price is not None for column in columns)
    has_associations = any(column.association is not None for column in columns)
    has_values = any(column.counts for column in columns)
    baselines = {feature.name: feature.baseline for feature in content.contract.kept}
    rows = [
        (
            column.column,
            column.why,
            *([plain(column.group)] if has_groups else ()),
            *([bound_of_share(column.price)] if has_prices else ()),
            *(plain(of.get(column.column)) for of in evidence.values()),
            *([number(column.association)] if has_associations else ()),
            *([_values(column)] if has_values else ()),
            _type(column),
            rounded_share(column.missing),
            *([plain(baselines[column.column])] if column.state == "kept" else ()),
        )
        for column in columns
    ]
    is_kept = columns[0].state == "kept"
    headings: dict[str, Kind] = {"Feature" if is_kept else "Column": "name", "Why": "why"}
    if has_groups:
        headings["Group"] = "group"
    headings |= numbers(*["Price"] * has_prices, *evidence)
    headings |= numbers(*["Association"] * has_associations)
    if has_values:
        headings["Values"] = "text"
    headings |= {"Type": "text", "Missing": "number"}
    if is_kept:
        headings["Baseline"] = "name"
    return Table(
        f"{caption} ({number(len(rows))})", headings, rows, file=_ALL_ROWS, is_sortable=True
    )


def dropped_candidates(content: ReportContent) -> list[str]:
    """Return the features that were searched and dropped, the closest to being kept first."""
    return [column.column for column in columns_of(content) if column.state == "dropped"]


def kept_as_csv(content: ReportContent) -> str:
    """Return the kept features with what the run knows of each, sorted by name."""
    evidence, text = dict(evidence_of(content)), io.StringIO()
    if content.explanation is not None:
        measured = content.explanation["importance"]["features"]
        figures = {
            name: {feature["feature"]: feature.get(key) for feature in measured}
            for name, key in (("Price", "price"), ("Loss rise", "rise"))
        }
        evidence = {**figures, **evidence}
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


def _values(column: ColumnReason) -> str:
    """Return the ends of a column's numbers or its most frequent category, with its bars."""
    counts, low, high = column.counts, column.minimum, column.maximum
    if not counts:
        return NOTHING
    if low is None or high is None:  # the last of twelve bars is all others
        shares = [rounded_share(count / sum(counts)) for count in counts]
        name = cut(column.most_frequent or "", _LONGEST_CATEGORY)
        return Bars(f"{name} {shares[0]}", counts, f"Shares: {listed(shares)}.")
    if low == high:
        return Bars(number(low), counts, "All values are the same.")
    most = max(counts)
    at = [(counts.index(most) + end) / len(counts) for end in range(2)]
    first, last = (number(low * (1 - place) + high * place) for place in at)
    most_are = f"Most, {rounded_share(most / sum(counts))}, are from {first} to {last}."
    return Bars(f"{number(low)} to {number(high)}", counts, most_are)


def _type(column: ColumnReason) -> str:
    if column.type != "category" or column.distinct is None:
        return column.type or NOTHING
    return f"{column.type} ({number(column.distinct)} values)"
