"""The report's sections on the final model: importance, stand-ins, predictions, and promotion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.reporting.charts import ACCENT, INK, MUTED, figure_of, markup
from chaffinch.tasks.reporting.tables import Kind, Table, numbers
from chaffinch.tasks.reporting.text import NOTHING, counted, cut, in_brief, interval, number, share
from chaffinch.tasks.selection.losses import loss_in_words

if TYPE_CHECKING:
    from markupsafe import Markup

_FILE = "explanation.json"
_BARS = 20
_LONGEST = 28  # letters of a name in a chart
_LONGEST_CLASS, _SHORT = 14, 6
_NAMED = 3  # features that a cell names
_NAMED_IN_BRIEF = 10
_DASHED = (0, (4, 3))


def importance(found: Mapping[str, Any], part: str) -> dict[str, Any] | None:
    """Return chart, caption and table of the importances; None where there are none."""
    features = found["features"]
    if not features:
        return None
    has_intervals = any(one["interval"] is not None for one in features)
    return {
        "chart": _importance_chart(features[:_BARS]),
        "n_shown": min(len(features), _BARS),
        "n_measured": len(features),
        "is_part": len(features) < found["n_kept"],
        "rows": f"{number(found['rows'])} {part} rows",
        "loss": number(found["loss"]),
        "confidence": f"{found['confidence']:.0%}" if has_intervals else None,
        "why_no_interval": found["why_no_interval"],
        "n_not_shown_to_matter": sum(
            one["interval"] is not None and one["interval"][0] <= 0 for one in features
        ),
        "table": _importance_table(features, found["confidence"]),
    }


def _importance_table(features: Sequence[Mapping[str, Any]], confidence: float) -> Table:
    rows = [
        (one["feature"], number(one["rise"], "+"), interval(one["interval"])) for one in features
    ]
    columns: dict[str, Kind] = {"Feature": "name"}
    columns |= numbers("Loss rises by", f"{confidence:.0%} interval")
    return Table(f"Importance of {counted(len(rows), 'feature')}", columns, rows, file=_FILE)


def _importance_chart(features: Sequence[Mapping[str, Any]]) -> Markup:
    rises = [one["rise"] for one in features]
    first = features[0]
    label = (
        f"Rise of the loss once each of {counted(len(features), 'feature')} is masked, largest "
        f"first: {first['feature']} {number(first['rise'], '+')}"
    )
    with figure_of("importance", 9.0, 0.75 + 0.26 * len(features)) as figure:
        axes = figure.add_subplot()
        places = np.arange(len(features))
        axes.barh(places, rises, color=ACCENT, alpha=0.55, height=0.6)
        for place, one in zip(places, features, strict=True):
            if one["interval"] is not None:
                axes.plot(one["interval"], [place, place], color=INK, linewidth=1.4)
        axes.axvline(0, color=INK, linewidth=0.8)
        names = [cut(one["feature"], _LONGEST) for one in features]
        axes.set_yticks(places, names, parse_math=False)
        axes.set_ylim(len(features) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("rise of the loss once the feature is masked")
        axes.xaxis.set_major_formatter(lambda value, _: number(round(value, 12)))
        axes.grid(axis="x")
        return markup(figure, f"{label}.")


def stand_ins(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return who stands for whom; None where nothing was dropped and no kept ones are alike."""
    groups = found.get("groups", ())
    if not found or not (found["n_dropped"] or groups):
        return None
    standing = [one for one in groups if one["dropped"]]
    standing.sort(key=lambda one: -one["n_dropped"])
    return {
        "threshold": number(found["threshold"]),
        "rows": number(found["rows"]),
        "n_dropped": found["n_dropped"],
        "n_with_stand_in": number(found["n_with_stand_in"]),
        "n_without": found["n_dropped"] - found["n_with_stand_in"],
        "table": _alike_table("Features that stand for others", "Stands for", "dropped", standing),
        "kept": _alike_table(
            "Kept features that are alike",
            "Other kept features like it",
            "kept",
            [one for one in groups if one["kept"]],
        ),
    }


def _alike_table(
    caption: str, heading: str, which: str, groups: Sequence[Mapping[str, Any]]
) -> Table | None:
    if not groups:
        return None
    rows = []
    for one in groups:
        first = [
            f"{cut(each['feature'], _LONGEST)} ({each['association']:.2f})"
            for each in one[which][:_NAMED]
        ]
        n_more = one[f"n_{which}"] - len(first)
        more = f" and {number(n_more)} more" if n_more else ""
        rows.append((one["feature"], ", ".join(first) + more))
    columns: dict[str, Kind] = {"Kept": "name", heading: "name"}
    return Table(f"{caption} ({number(len(rows))})", columns, rows, file=_FILE)


def predictions(
    found: Mapping[str, Any], contract: Mapping[str, Any], part: str
) -> dict[str, Any] | None:
    """Return charts and their captions, or a table, of the predictions."""
    if "true" in found:
        return {
            "figures": [(_scatter_chart(found), _scatter_caption(found, contract, part))],
            "table": None,
            "note": None,
        }
    if "calibration" in found:
        return {"figures": _of_two_classes(found, contract, part), "table": None, "note": None}
    if "confusion" in found:
        caption = (
            f"The {part} rows by their class and the likeliest class of the model with the "
            "selected features. Shading is the share of the class."
        )
        drawn = _confusion_chart(found["classes"], np.array(found["confusion"]))
        return {"figures": [(drawn, caption)], "table": None, "note": None}
    rows = [(one["true"], one["predicted"], number(one["rows"])) for one in found["most_confused"]]
    columns: dict[str, Kind] = {"Class": "name", "Predicted": "name", "Rows": "number"}
    note = (
        f"{counted(found['n_wrong'], 'row')} of the {part} rows got another class. The table has "
        "the most frequent confusions."
    )
    return {"figures": [], "table": Table("Most confused", columns, rows), "note": note}


def _scatter_caption(found: Mapping[str, Any], contract: Mapping[str, Any], part: str) -> str:
    n = contract["dataset"]["rows_by_part"][contract.get("judged_on", "test")]
    shown = len(found["true"])
    which = f"The {number(n)}" if shown == n else f"{number(shown)} of the {number(n)}"
    return (
        f"{which} {part} rows: {contract['target']['name']} against its prediction with the "
        "selected features. On the line both are equal."
    )


def _scatter_chart(found: Mapping[str, Any]) -> Markup:
    true, predicted = np.array(found["true"]), np.array(found["predicted"])
    with figure_of("scatter", 6.4, 4.2) as figure:
        axes = figure.add_subplot()
        ends = [min(true.min(), predicted.min()), max(true.max(), predicted.max())]
        axes.plot(ends, ends, color=INK, linewidth=1, linestyle=_DASHED)
        axes.plot(predicted, true, "o", color=ACCENT, alpha=0.35, markersize=4, markeredgewidth=0)
        for axis, label in ((axes.xaxis, "predicted"), (axes.yaxis, "true")):
            axis.set_major_formatter(lambda value, _: number(round(value, 12)))
            axis.set_label_text(label)
        axes.grid()
        return markup(figure, f"True against predicted values of {number(len(true))} rows.")


def _of_two_classes(
    found: Mapping[str, Any], contract: Mapping[str, Any], part: str
) -> list[tuple[Markup, str]]:
    positive, figures = found["positive"], []
    if found["roc"] is not None:
        auc = contract.get("metrics", {}).get("roc_auc", {}).get("selected")
        caption = f"ROC curve of the {part} rows for the class {positive}"
        area = f", with an area of {number(auc)}" if auc is not None else ""
        figures.append((_roc_chart(found["roc"]), f"{caption}{area}. The dashed line is chance."))
    n = max(one["rows"] for one in found["calibration"])
    figures.append(
        (
            _calibration_chart(found["calibration"]),
            f"Calibration: the share of the class {positive} among {part} rows of similar "
            f"predicted probability, {counted(n, 'row')} a point. On the dashed line probabilities "
            "are right; with few rows points leave it by chance.",
        )
    )
    return figures


def _roc_chart(roc: Mapping[str, Sequence[float]]) -> Markup:
    with figure_of("roc", 4.4, 3.6) as figure:
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=_DASHED)
        axes.plot(roc["false_positive"], roc["true_positive"], color=ACCENT)
        axes.set_xlabel("false positive rate")
        axes.set_ylabel("true positive rate")
        axes.grid()
        return markup(figure, "ROC curve: true against false positive rate.")


def _calibration_chart(points: Sequence[Mapping[str, float]]) -> Markup:
    with figure_of("calibration", 4.4, 3.6) as figure:
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=_DASHED)
        predicted, shares = ([one[key] for one in points] for key in ("predicted", "share"))
        axes.plot(predicted, shares, "o-", color=ACCENT, markersize=5)
        axes.set_xlabel("mean predicted probability")
        axes.set_ylabel("share of the class")
        axes.grid()
        return markup(figure, "Calibration: share of the class against predicted probability.")


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


def promotion_in_brief(found: Mapping[str, Any]) -> str:
    """Return what changed since the last promotion, in one or two sentences."""
    name = found["name"]
    under = f"as {name}" if name else "for this table"
    if found.get("damage"):
        return f"What is promoted {under} cannot be read: {found['damage']}."
    if found.get("target"):
        return f"What is promoted {under} predicts another target, {found['target']}."
    if found["run"] is None:
        return f"Nothing to compare with: nothing was promoted {under}."
    then, now = found["then"], found["now"]
    where = "on the same table" if found["is_same_table"] else "on other rows, not comparable"
    sentences = [*_features_in_words(found), f"{_losses_in_words(then, now)}, {where}"]
    if found["drift"]:
        sentences.append(_drift_in_words(found["drift"]))
    elif found["why_no_drift"]:
        sentences.append(f"Drift was not measured: {found['why_no_drift']}")
    return " ".join(f"{sentence}." for sentence in sentences)


def _features_in_words(found: Mapping[str, Any]) -> list[str]:
    changes = {"Entered": found["entered"], "Left": found["left"]}
    named = {change: in_brief(names, _NAMED_IN_BRIEF) for change, names in changes.items() if names}
    n_features = counted(found["now"]["n_features"], "feature")
    if not named:
        return [f"The same {n_features} as in use"]
    before = number(found["then"]["n_features"])
    return [
        f"{n_features} in place of {before}",
        *(f"{change}: {names}" for change, names in named.items()),
    ]


def _losses_in_words(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    name, before = (loss_in_words(one["loss_name"]) for one in (now, then))
    of_then = "" if name == before else f" by {before}"
    return (
        f"{name[0].upper()}{name[1:]} is {number(now['loss'])} and was {number(then['loss'])}"
        f"{of_then}"
    )


def _drift_in_words(drift: Sequence[Mapping[str, Any]]) -> str:
    moved = [one["feature"] for one in drift if _has_moved(one)]
    if not moved:
        return f"The distribution changed of none of {counted(len(drift), 'column')}"
    return f"The distribution changed of {in_brief(moved, _NAMED_IN_BRIEF)}"


def _has_moved(one: Mapping[str, Any]) -> bool:
    has_other_values = one["by_chance"] is not None and one["distance"] > one["by_chance"]
    missing = abs(one["missing_after"] - one["missing_before"])
    return bool(has_other_values or missing > one["missing_by_chance"])


def since_promotion(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section on what changed; `tables` is empty without a promoted contract."""
    brief = promotion_in_brief(found)
    if found["run"] is None:
        is_first = not (found.get("damage") or found.get("target"))
        name = "" if found["name"] else " --name NAME"
        command = f"chaffinch promote RUN{name}" if is_first else None
        return {"brief": brief, "run": None, "command": command}
    then, now = found["then"], found["now"]
    figures = [
        ("Features", *(number(one["n_features"]) for one in (then, now))),
        ("Rows of the table", *(number(one["rows"]) for one in (then, now))),
        *(
            (f"Loss ({loss_in_words(one['loss_name'])})", *cells)
            for one, cells in _loss_rows(then, now)
        ),
    ]
    columns: dict[str, Kind] = {"Figure": "text", **numbers("Promoted run", "This run")}
    rows = [(name, "entered") for name in found["entered"]]
    rows += [(name, "left") for name in found["left"]]
    changes: dict[str, Kind] = {"Feature": "name", "Change": "text"}
    return {
        "brief": brief,
        "run": found["run"],
        "name": found["name"],
        "is_same_table": found["is_same_table"],
        "promoted": f"{datetime.fromisoformat(found['promoted']):%-d %B %Y, %H:%M} UTC",
        "figures": Table("Then and now", columns, figures),
        "changes": Table(
            f"Features that changed ({number(len(rows))})", changes, rows, file="selection.json"
        ),
        "drift": _drift_table(found["drift"]),
        "why_no_drift": found["why_no_drift"],
    }


def _loss_rows(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> list[tuple[Mapping[str, Any], tuple[str, str]]]:
    if then["loss_name"] == now["loss_name"]:
        return [(now, (number(then["loss"]), number(now["loss"])))]
    return [(then, (number(then["loss"]), NOTHING)), (now, (NOTHING, number(now["loss"])))]


def _drift_table(drift: Sequence[Mapping[str, Any]]) -> Table | None:
    if not drift:
        return None
    rows = [
        (
            one["feature"],
            "moved" if _has_moved(one) else "",
            NOTHING if one["distance"] is None else number(round(one["distance"], 3)),
            NOTHING if one["by_chance"] is None else number(round(one["by_chance"], 3)),
            share(round(one["missing_before"], 4)),
            share(round(one["missing_after"], 4)),
        )
        for one in drift
    ]
    columns: dict[str, Kind] = {"Feature": "name", "Beyond chance": "text"}
    columns |= numbers("Distance", "By chance up to", "Missing then", "Missing now")
    return Table(f"Drift of {counted(len(rows), 'column')} kept then or now", columns, rows)
