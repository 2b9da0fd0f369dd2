"""How a page is made: a template that escapes every value."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.storage.files import to_json
from chaffinch.tasks.reporting import charts, explanation, sections, tables
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.text import (
    choices_of_folds,
    costs_in_words,
    how_stable,
    in_brief,
    interval,
    made_from,
    made_of_earlier_rows,
    not_searched,
    number,
    numbers_alike,
    share,
    title_of,
    visible,
    why_one_candidate,
)
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.verdict import (
    FEWEST_UNITS,
    is_nothing_to_select_from,
    judged_on,
    part_in_words,
    signs_in_words,
    units_in_words,
)

if TYPE_CHECKING:
    from jinja2 import Template


_SHARED = Path(__file__).parent  # the style, and how a table is set


@cache
def template(path: Path) -> Template:
    """Return a template, which may include its neighbours and what the reports share."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([path.parent, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def _shown(value: Any) -> Any:
    """Show the control characters of a text; leave markup and all else as it is."""
    return visible(value) if type(value) is str else value


_TEMPLATE = Path(__file__).parent / "report.html"
_UNSEEN = {
    "test": "on rows that had no part in the choice",
    "out_of_fold": "on rows that had no part in the model or choice that predicts them",
}
_MEANING = {
    "better": "{dropped} of {all} columns may be dropped: without them the model is better, "
    "{unseen}.",
    "as good with fewer columns": "{dropped} of {all} columns may be dropped: without them the "
    "model loses no more than is tolerated, {unseen}.",
    "worse": "Keep all {all} columns: without the {dropped} dropped ones the model is worse, "
    "{unseen}.",
    "cannot tell": "It is open whether {dropped} of {all} columns may be dropped: without them the "
    "model is neither shown to be as good nor shown to be worse, {unseen}.",
}
_NOTHING_REMOVED = "Every feature was kept, so both models are the same and nothing is saved."
_THE_SAME = "Both models have the same loss on these rows. The smaller one is cheaper to feed."
_TOO_FEW_UNITS = (
    "An interval over so few of them is wrong too often to decide by, wherever it lies; with more "
    "rows, groups or time there would be a verdict."
)
_NO_BETTER_THAN_CONSTANT = (
    "On these rows the mean loss of a constant, which always predicts the same, is as low or lower."
)
_NOT_SHOWN_BETTER = (
    "The interval of the difference to the constant holds zero: these rows neither show nor rule "
    "out that the model is better. With few rows, or a few large losses, it is wide."
)
_RESTS_ON_A_LEAK = (
    "These figures are worth nothing if that is not known before the target is. A person has to "
    "decide; until then there is no verdict."
)
_WHAT_THEY_ANSWER = (
    "The verdict is about the mean loss, which a few large losses can decide. A sign test is about "
    "the usual row: it may point the other way, and decides nothing. Against a constant, a model "
    "that only favours the most frequent values can pass it."
)
_NORMAL = 1.96  # standard errors that a 95 % interval reaches to each side
_FIRST = ("accuracy", "roc_auc", "r2", "rmse")  # metrics of the first screen, besides the loss
_NAMED = 20  # features of the first screen, kept and dropped
_MAY_BE_DROPPED = ("better", "as good with fewer columns")  # verdicts
_MOST_BYTES = 200_000  # of a download inside of the page


def render_report(content: ReportContent) -> bytes:
    """Return the report as one HTML file in UTF-8, without scripts; equal content, equal bytes."""
    verdict = content.contract["comparison"]["verdict"]
    if verdict not in _MEANING:
        raise ValueError(f"verdict must be one of {', '.join(_MEANING)} but is {verdict!r}")
    return template(_TEMPLATE).render(_view(content)).encode()


def _view(content: ReportContent) -> dict[str, Any]:
    contract, method = content.contract, content.contract["settings"]["method"]
    comparison, part = contract["comparison"], judged_on(contract)
    judged = contract["losses"][part]
    verdict = comparison["verdict"]
    is_all = content.n_kept == content.n_candidates
    return {
        "title": title_of(content),
        "made_from": made_from(content),
        "run": content.run,
        "contents": [],  # headings, which the template collects
        "downloads": _downloads(content),
        "tiles": _tiles(content),
        "verdict": verdict,
        "sentence": comparison["sentence"],
        "rests_on_leaks": bool(comparison.get("leaks")),
        "costs": costs_in_words(contract),
        "is_constrained": content.is_constrained,
        "made_of_earlier_rows": made_of_earlier_rows(contract["settings"]),
        "meaning": _meaning(content, part),
        "is_all": is_all,
        "n_kept": number(content.n_kept),
        "n_candidates": number(content.n_candidates),
        "part": part_in_words(part),
        "is_out_of_fold": part == "out_of_fold",
        "loss_name": loss_in_words(contract["loss"]),
        "difference": number(comparison["difference"], "+"),
        "interval": comparison["interval"] and interval(comparison["interval"]),
        "confidence": f"{comparison['confidence']:.0%}",
        "units": f"{number(comparison['units'])} "
        f"{units_in_words(comparison['units'], contract['dataset']['rows_by_part'][part])}",
        "signs": _signs(contract),
        "interval_chart": comparison["interval"]
        and charts.interval_chart(
            comparison["difference"], comparison["interval"], comparison["confidence"]
        ),
        "elimination_chart": elimination_chart_of(content),
        "has_scores": content.scores is not None,
        "score": content.declared.score if content.scores is not None else None,
        "score_is_place": content.declared.score_is_place,
        "score_chart": _score_chart(content),
        "lowest_score": None if method.get("min_score") is None else number(method["min_score"]),
        "refits": content.declared.refits,
        "is_masked": content.declared.masks_rows,
        "is_sized": content.is_sized,
        "is_cross_fitted": content.declared.is_cross_fitted,
        "n_folds": len(content.fold_sizes),
        "widen": None if content.widen == 1 else number(round(content.widen, 2)),
        "tolerance": share(contract["settings"].get("tolerance", 0.0)),
        "is_within_one_standard_error": method.get("within_one_standard_error", False),
        "choices_of_folds": choices_of_folds(content.fold_sizes),
        "how_stable": how_stable(contract),
        "sizes": _sizes(content),
        "masks": None if content.masks is None else tables.masks_found(content.masks),
        "rounds": None if content.rounds is None else tables.rounds_of_masking(content.rounds),
        "forced": None if content.rounds is None else tables.forced_by_the_limit(content.rounds),
        "most_features": method.get("n_features"),
        "is_search": content.searches is not None,
        "n_searches": len(content.searches_made),
        "n_seeds": method.get("seeds"),
        "searches": tables.searches_by_probabilities(content.searches_made)
        if content.searches_made
        else None,
        "settling_chart": charts.settling_chart(content.searches_made),
        "not_searched": not_searched(content),
        "why_one_candidate": why_one_candidate(content),
        "alternatives": None
        if content.alternatives is None
        else _alternatives(content.alternatives, judged["selected"], comparison["units"]),
        "changes": None if content.changes is None else _changes(content),
        "unmasked_loss": number(content.unmasked_loss),
        "baseline": contract["settings"].get("baseline"),
        "method": content.method,
        **_explanation(content, part_in_words(part)),
        "promoted": None
        if content.promoted is None
        else explanation.since_promotion(content.promoted),
        "losses_by_part": tables.losses_by_part(content),
        "metrics": tables.metrics(content),
        "class_shares": tables.class_shares(contract),
        "kept": tables.kept_features(content),
        "kept_names": in_brief((one["name"] for one in tables.kept_in_order(content)), _NAMED),
        "kept_order": "by rank" if content.has_steps else content.scores and "most probable first",
        "dropped": tables.dropped_features(content),
        "dropped_names": in_brief(tables.dropped_candidates(content), _NAMED),
        "may_be_dropped": verdict in _MAY_BE_DROPPED,
        "candidates": tables.candidate_sizes(content),
        "warnings": content.warnings,
        "notes": contract.get("notes", ()),
        "profile": tables.profile(content),
        "tuning": tables.tuning(content),
        "origins": tables.origins(content),
        "settings": tables.settings(content),
        "versions": tables.versions(content),
        "seconds": tables.seconds(content),
    }


def _explanation(content: ReportContent, part: str) -> dict[str, Any]:
    """Return the sections on the final model; None each in reports of earlier releases."""
    found = content.explanation
    if found is None:
        return dict.fromkeys(("importance", "why_no_importance", "stand_ins", "predictions"))
    return {
        "importance": explanation.importance(found["importance"], part),
        "why_no_importance": found["importance"].get("why_none"),
        "stand_ins": explanation.stand_ins(found["stand_ins"]),
        "predictions": explanation.predictions(found["predictions"], content.contract, part),
    }


def _tiles(content: ReportContent) -> list[tuple[str, str, str]]:
    """Return the figures of the first screen: name, with the kept features, and with all."""
    contract = content.contract
    losses = contract["losses"][judged_on(contract)]
    found = {
        METRICS[name]: one for name, one in contract.get("metrics", {}).items() if name in _FIRST
    }
    loss = loss_in_words(contract["loss"])
    figures = {**found, f"{loss[0].upper()}{loss[1:]}": losses}
    kept = ("Features kept", number(content.n_kept), f"of {number(content.n_candidates)}")
    pairs = {
        name: numbers_alike(one["selected"], one["all_features"]) for name, one in figures.items()
    }
    return [
        kept,
        *((name, ours, f"{with_all} with all") for name, (ours, with_all) in pairs.items()),
    ]


def _downloads(content: ReportContent) -> dict[str, tuple[str, str]]:
    """Return label -> name of the file, and its content as a data: address; none that is large."""
    files = {
        "Kept features (CSV)": ("features.csv", "text/csv", tables.kept_as_csv(content).encode()),
        "Contract (JSON)": ("selection.json", "application/json", to_json(dict(content.contract))),
    }
    return {
        label: (name, f"data:{kind};base64,{base64.b64encode(data).decode()}")
        for label, (name, kind, data) in files.items()
        if len(data) <= _MOST_BYTES
    }


def _signs(contract: Mapping[str, Any]) -> str | None:
    """Return the sign tests and what they answer; None in runs from before there were any."""
    comparison, part = contract["comparison"], judged_on(contract)
    n_rows = contract["dataset"]["rows_by_part"][part]
    against = {"sign_test": "all features", "sign_test_over_constant": "a constant"}
    sentences = [
        f"The loss of the selected features, against {other}, is "
        f"{signs_in_words(comparison[key], comparison['units'], n_rows)}."
        for key, other in against.items()
        if comparison.get(key)
    ]
    return " ".join([_WHAT_THEY_ANSWER, *sentences]) if sentences else None


def _meaning(content: ReportContent, part: str) -> str:
    comparison, n_all = content.contract["comparison"], content.n_candidates
    if comparison.get("leaks"):
        return _RESTS_ON_A_LEAK
    if is_nothing_to_select_from(comparison):
        low = comparison["all_features_over_constant"][0]
        return _NOT_SHOWN_BETTER if low < 0 else _NO_BETTER_THAN_CONSTANT
    if content.n_kept == n_all:
        return _NOTHING_REMOVED
    if comparison["units"] < FEWEST_UNITS:
        return _TOO_FEW_UNITS
    same = comparison["interval"] is not None and not any(comparison["interval"])
    if same:
        return _THE_SAME
    numbers = {"dropped": number(n_all - content.n_kept), "all": number(n_all)}
    return _MEANING[comparison["verdict"]].format(unseen=_UNSEEN[part], **numbers)


def _alternatives(found: Mapping[str, Any], chosen_loss: float, n_units: int) -> dict[str, Any]:
    settings = found["settings"]
    n_missing = settings["number"] - len(found["sets"])
    return {
        "tau": number(settings["tau"]),
        "dissimilarity": settings["dissimilarity"].capitalize(),
        "quality": settings["quality"],
        "sets": sections.sets_found(found, chosen_loss),
        "is_out_of_fold": judged_on(found) == "out_of_fold",
        "features": sections.features_of_sets(found),
        "why_undecided": sections.why_undecided(found, n_units),
        "n_missing": n_missing,
        "proof_of_all": sections.proof_of_all(found),
        "nothing": None if found["sets"] else sections.nothing_found(found),
        "why_missing": sections.why_missing(found) if n_missing else None,
        "what_makes_room": sections.what_makes_room(found) if n_missing else None,
        "why_worthless": sections.why_worthless(found),
        "overlaps": sections.overlaps(found),
        "chart": sections.price_chart(found),
        "chart_caption": sections.price_caption(found),
    }


def _changes(content: ReportContent) -> dict[str, Any]:
    found: Mapping[str, Any] = content.changes or {}
    return {
        "former_run": found["former_run"],
        "sentence": found["sentence"],
        "has_changes": bool(found["changes"] or found["gone"]),
        "each": sections.each_change(found),
        "sets": sections.each_set(found),
        "trials": sections.trials(content.trials or ()),
    }


def _sizes(content: ReportContent) -> tables.Table | None:
    if content.sizes is None:
        return None
    if content.declared.is_cross_fitted:
        return tables.sizes_of_the_curve(content)
    return tables.cross_validated(content.sizes)


def _score_chart(content: ReportContent) -> Any:
    """Return the chart of scores, or None where there are none or they are places alone."""
    scores = content.scores or {}
    if content.declared.score_is_place or not np.isfinite(list(scores.values())).any():
        return None
    kept = [feature["name"] for feature in content.contract["features"]]
    name = "score" if content.searches is None else "probability"
    return charts.score_chart(scores, kept, name)


def elimination_chart_of(content: ReportContent) -> Any:
    """Return the curve, or None where nothing could be removed, or no loss was measured."""
    if content.sizes is not None:
        curve = [(size["n_features"], size["loss"]) for size in content.sizes]
        rows = "held-out rows" if content.declared.is_cross_fitted else "cross-validated"
    else:
        curve = [(left, loss) for _, _, loss, left in content.path if loss is not None]
        curve = [(content.n_candidates, content.unmasked_loss), *curve]
        rows = "mask-validation rows"
    if len(curve) < 2:
        return None
    is_on_curve = content.declared.is_cross_fitted or not content.is_constrained
    return charts.elimination_chart(
        [left for left, _ in curve],
        [loss for _, loss in curve],
        candidates=[one["n_features"] for one in content.candidates] if is_on_curve else [],
        chosen=content.size_on_curve if is_on_curve else None,
        loss_name=f"{loss_in_words(content.contract['loss'])}, {rows}",
        margins=_margins(content),
    )


def _margins(content: ReportContent) -> list[float] | None:
    """Return the half-width of the band at each size; None without a cross-fitted curve."""
    if content.sizes is None or not content.declared.is_cross_fitted:
        return None
    return [_NORMAL * content.widen * size["standard_error"] for size in content.sizes]
