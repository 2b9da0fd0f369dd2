"""The report's sections on the final model: importance, stand-ins and predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.contract import Contract
from chaffinch.tasks.reporting.charts import (
    ACCENT,
    INK,
    MUTED,
    REFERENCE,
    figure_of,
    markup,
    plain_ticks,
)
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.losses import judged_part
from chaffinch.tasks.reporting.section import (
    Block,
    Figure,
    Kind,
    Link,
    Pair,
    Table,
    folded,
    note,
    numbers,
    paragraph,
)
from chaffinch.tasks.reporting.text import bound_of_share, counted, cut, interval, number
from chaffinch.tasks.selection.losses import loss_in_words

if TYPE_CHECKING:
    from markupsafe import Markup

_FILE = "explanation.json"
_BARS = 20
_LONGEST = 28  # letters of a name in a chart
_LONGEST_CLASS, _SHORT = 14, 6
_NAMED = 3  # features that a cell names
STAND_INS = "Features that stand for others"


def importance(content: ReportContent) -> Iterator[Block]:
    """Return by how much the loss rises without each kept feature; empty if unknown."""
    if content.explanation is None:
        return
    measured, contract = content.explanation["importance"], content.contract
    features = measured["features"]
    if not features:
        if why := measured.get("why_none"):
            yield paragraph(f"It was not measured: {why}.")
        return
    n_shown, n_measured = min(len(features), _BARS), len(features)
    which, refitted, intervals = "", "", ""
    without = "a feature has its baseline value in every row"
    if by_refits := measured.get("refitted", False):  # earlier releases always masked
        without = "models are fitted without a feature"
    are_joint = "price" in features[0]  # earlier releases had one for each feature
    if is_part := n_measured < measured["n_kept"]:
        which = f" of {n_measured} measured, those that the search kept longest"
    if is_part or n_shown < n_measured:
        which = f": the {n_shown} largest{which}"
    if contract.judged_on == "out_of_fold":
        refitted = " The models were refitted on the kept features without the rows that they "
        refitted += "predict."
    if any(feature["interval"] is not None for feature in features):
        together = "; all hold together" * are_joint
        intervals = f" A line is the {measured['confidence']:.0%} interval{together}."
        intervals += _count_undecided(features, is_cross_fitted=content.traits.is_cross_fitted)
    yield Figure(
        _importance_chart(features[:_BARS]),
        f"By how much the loss ({loss_in_words(contract.loss)}) of {number(measured['rows'])} "
        f"{judged_part(contract)} rows rises above {number(measured['loss'])} once "
        f"{without}{which}.{refitted}{intervals}",
    )
    if measured["why_no_interval"]:
        yield note(f"There are no intervals: {measured['why_no_interval']}.")
    has_prices = are_joint and not measured["why_no_interval"]
    if has_prices and all(feature["price"] is None for feature in features):
        yield note("There are no prices: the model is not shown to explain anything.")
    elif has_prices:
        refits = "" if by_refits else " A model that is fitted again without it mostly loses less."
        yield note(
            "The price of a feature is what the model explains less without it, at most: a share "
            f"of what it explains beyond a constant. The prices hold together as well.{refits}"
        )
    if any("together" in feature for feature in features):
        yield note(
            "Features of which all or none are kept are masked or left out together: each has the "
            "rise and the price of all of them."
        )
    alone = "Features that share information can each look unimportant, as the model reads the "
    alone += "others; the figures do not add up. "
    if content.explanation["stand_ins"].get("groups"):
        yield note(alone, "See ", Link(STAND_INS.lower(), STAND_INS), ".")
    else:
        yield note(alone)
    yield folded(_importance_table(features, measured["confidence"]), is_open=False)


def _count_undecided(features: Sequence[Mapping[str, Any]], *, is_cross_fitted: bool) -> str:
    """Return how many intervals do not exclude zero, in a sentence; empty if all do."""
    n = sum(feature["interval"] is not None and feature["interval"][0] <= 0 for feature in features)
    if not n:
        return ""
    kept = ""
    if is_cross_fitted:
        kept = " The number of features was chosen by the losses of whole sets, not by these."
    return (
        f" {n} of the intervals reach{'es' * (n == 1)} zero or below: these rows do not show that "
        f"the model needs such a feature beside the others.{kept}"
    )


def _importance_table(features: Sequence[Mapping[str, Any]], confidence: float) -> Table:
    rows = [
        (
            feature["feature"],
            bound_of_share(feature.get("price")),
            number(feature["rise"], "+"),
            interval(feature["interval"]),
        )
        for feature in features
    ]
    columns: dict[str, Kind] = {"Feature": "name"}
    columns |= numbers("Price", "Loss rises by", f"{confidence:.0%} interval")
    caption = f"Importance of {counted(len(rows), 'feature')}"
    return Table(caption, columns, rows, file=_FILE, is_sortable=True)


def _importance_chart(features: Sequence[Mapping[str, Any]]) -> Markup:
    rises = [feature["rise"] for feature in features]
    first = features[0]
    label = (
        f"Rise of the loss without each of {counted(len(features), 'feature')}, largest "
        f"first: {first['feature']} {number(first['rise'], '+')}"
    )
    with figure_of("importance", 9.0, 0.75 + 0.26 * len(features)) as figure:
        axes = figure.add_subplot()
        places = np.arange(len(features))
        axes.barh(places, rises, color=ACCENT, alpha=0.55, height=0.6)
        for place, feature in zip(places, features, strict=True):
            if feature["interval"] is not None:
                axes.plot(feature["interval"], [place, place], color=INK, linewidth=1.4)
        axes.axvline(0, color=INK, linewidth=0.8)
        names = [cut(feature["feature"], _LONGEST) for feature in features]
        axes.set_yticks(places, names, parse_math=False)
        axes.set_ylim(len(features) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("rise of the loss without the feature")
        plain_ticks(axes.xaxis)
        axes.grid(axis="x")
        return markup(figure, f"{label}.")


def stand_ins(content: ReportContent) -> Iterator[Block]:
    """Return which kept features stand for others; empty where there are none to stand for."""
    explained = (content.explanation or {}).get("stand_ins")
    groups = explained.get("groups", ()) if explained else ()
    if not explained or not (explained["n_dropped"] or groups):
        return
    n_dropped, threshold = explained["n_dropped"], number(explained["threshold"])
    rows = f"in {number(explained['rows'])} training rows"
    standing = sorted(
        (group for group in groups if group["dropped"]), key=lambda group: -group["n_dropped"]
    )
    alike = [group for group in groups if group["kept"]]
    if not n_dropped:
        yield paragraph(
            "Nothing was dropped. Kept features are alike if their association is at least "
            f"{threshold}, {rows}."
        )
    elif standing:
        without = ""
        if n_without := n_dropped - explained["n_with_stand_in"]:
            without = f", and for the other {number(n_without)} no single one does"
        yield paragraph(
            "A kept feature stands for a dropped one if their association is at least "
            f"{threshold}, {rows}. Kept features stand for "
            f"{number(explained['n_with_stand_in'])} of "
            f"the {number(n_dropped)} dropped ones{without}."
        )
        yield _alike_table(STAND_INS, "Stands for", "dropped", standing)
    else:
        yield paragraph(
            f"No kept feature has an association of at least {threshold} with any of the "
            f"{number(n_dropped)} dropped ones, {rows}."
        )
    if alike:
        table = _alike_table(
            "Kept features that are alike", "Other kept features like it", "kept", alike
        )
        yield folded(table, is_open=None if not n_dropped else False)
    yield note(
        "Association is the absolute value of Spearman’s correlation between numbers, the "
        "correlation ratio of ranks between a number and a category, and symmetrical uncertainty "
        "between categories."
    )


def _alike_table(
    caption: str, heading: str, which: str, groups: Sequence[Mapping[str, Any]]
) -> Table:
    rows = []
    for group in groups:
        first = [
            f"{cut(other['feature'], _LONGEST)} ({other['association']:.2f})"
            for other in group[which][:_NAMED]
        ]
        n_more = group[f"n_{which}"] - len(first)
        more = f" and {number(n_more)} more" if n_more else ""
        rows.append((group["feature"], ", ".join(first) + more))
    columns: dict[str, Kind] = {"Kept": "name", heading: "name"}
    return Table(f"{caption} ({number(len(rows))})", columns, rows, file=_FILE)


def predictions(content: ReportContent) -> Iterator[Block]:
    """Return charts of the predictions, or a table; empty in runs of earlier releases."""
    if content.explanation is None:
        return
    figures, contract = content.explanation["predictions"], content.contract
    part = judged_part(contract)
    if "true" in figures:
        n, shown = contract.dataset.rows_by_part[contract.judged_on], len(figures["true"])
        which = f"The {number(n)}" if shown == n else f"{number(shown)} of the {number(n)}"
        caption = f"{which} {part} rows: {contract.target.name} against its prediction with the "
        caption += "selected features. On the line both are equal."
        yield Pair([Figure(_scatter_chart(figures), caption)])
    elif "calibration" in figures:
        yield Pair(_binary_charts(figures, contract, part))
    elif "confusion" in figures:
        caption = (
            f"The {part} rows by their class and the likeliest class of the model with the "
            "selected features. Shading is the share of the class."
        )
        drawn = _confusion_chart(figures["classes"], np.array(figures["confusion"]))
        yield Pair([Figure(drawn, caption)])
    else:
        rows = [
            (pair["true"], pair["predicted"], number(pair["rows"]))
            for pair in figures["most_confused"]
        ]
        columns: dict[str, Kind] = {"Class": "name", "Predicted": "name", "Rows": "number"}
        yield paragraph(
            f"{counted(figures['n_wrong'], 'row')} of the {part} rows got another class. The table "
            "has the most frequent confusions."
        )
        yield Table("Most confused", columns, rows)
    yield note("No decision uses these figures.")


def _scatter_chart(figures: Mapping[str, Any]) -> Markup:
    true, predicted = np.array(figures["true"]), np.array(figures["predicted"])
    with figure_of("scatter", 6.4, 4.2) as figure:
        axes = figure.add_subplot()
        ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
        axes.plot(ends, ends, **REFERENCE)
        axes.plot(predicted, true, "o", color=ACCENT, alpha=0.35, markersize=4, markeredgewidth=0)
        for axis, label in ((axes.xaxis, "predicted"), (axes.yaxis, "true")):
            plain_ticks(axis)
            axis.set_label_text(label)
        axes.grid()
        return markup(figure, f"True against predicted values of {number(len(true))} rows.")


def _binary_charts(figures: Mapping[str, Any], contract: Contract, part: str) -> list[Figure]:
    positive, charts = figures["positive"], []
    if figures["roc"] is not None:
        auc = contract.metrics.get("roc_auc")
        caption = f"ROC curve of the {part} rows for the class {positive}"
        area = f", with an area of {number(auc.selected)}" if auc is not None else ""
        charts.append(
            Figure(_roc_chart(figures["roc"]), f"{caption}{area}. The dashed line is chance.")
        )
    n = max(point["rows"] for point in figures["calibration"])
    charts.append(
        Figure(
            _calibration_chart(figures["calibration"]),
            f"Calibration: the share of the class {positive} among {part} rows of similar "
            f"predicted probability, {counted(n, 'row')} a point. On the dashed line probabilities "
            "are right; with few rows points leave it by chance.",
        )
    )
    return charts


def _roc_chart(roc: Mapping[str, Sequence[float]]) -> Markup:
    names = "false positive rate", "true positive rate"
    label = "ROC curve: true against false positive rate."
    return _square_chart("roc", roc["false_positive"], roc["true_positive"], names, label)


def _calibration_chart(points: Sequence[Mapping[str, float]]) -> Markup:
    predicted, shares = ([point[key] for point in points] for key in ("predicted", "share"))
    names = "mean predicted probability", "share of the class"
    label = "Calibration: share of the class against predicted probability."
    return _square_chart("calibration", predicted, shares, names, label, "o-")


def _square_chart(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    names: tuple[str, str],
    label: str,
    line: str = "-",
) -> Markup:
    """Draw shares against shares, beside the dashed line on which they are equal."""
    with figure_of(name, 4.4, 3.6) as figure:
        axes = figure.add_subplot(xlabel=names[0], ylabel=names[1])
        axes.plot([0, 1], [0, 1], **REFERENCE)
        axes.plot(x, y, line, color=ACCENT, markersize=5)
        axes.grid()
        return markup(figure, label)


def _confusion_chart(classes: Sequence[str], counts: Any) -> Markup:
    from matplotlib.patches import Rectangle

    shares = counts / counts.sum(axis=1, keepdims=True).clip(min=1)
    n = len(classes)
    with figure_of("confusion", 6.4, 1.1 + 0.38 * n) as figure:
        axes = figure.add_subplot()
        for i, j in np.ndindex(n, n):
            shade = (ACCENT, 0.5 * float(shares[i, j]))
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=shade, edgecolor="none"))
            color = INK if counts[i, j] else MUTED
            axes.text(j, i, number(int(counts[i, j])), ha="center", va="center", color=color)
        names = [cut(name, _LONGEST_CLASS) for name in classes]
        is_long = max(map(len, names)) > _SHORT
        turn, at = (45, "left") if is_long else (0, "center")
        axes.set_xticks(range(n), names, rotation=turn, ha=at, parse_math=False)
        axes.set_yticks(range(n), names, parse_math=False)
        axes.set_xlim(-0.5, n - 0.5)
        axes.set_ylim(n - 0.5, -0.5)
        axes.xaxis.tick_top()
        axes.xaxis.set_label_position("top")
        axes.set_xlabel("predicted class")
        axes.set_ylabel("class")
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        return markup(figure, f"Confusion matrix of {number(n)} classes.")
