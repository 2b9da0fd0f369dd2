"""The report's sections on losses: how sure the verdict is, each part, metrics, candidate sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from chaffinch.tasks.contract import Contract, Metric
from chaffinch.tasks.reporting import charts
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.search import asks_for_penalties, why_one_candidate, widening_of
from chaffinch.tasks.reporting.section import (
    Block,
    Code,
    Figure,
    Table,
    note,
    numbers,
)
from chaffinch.tasks.reporting.text import (
    NOTHING,
    interval,
    listed,
    number,
    numbers_alike,
    share,
)
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.bootstrap import difference_of
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.verdict import (
    part_in_words,
    signs_in_words,
    units_in_words,
)

_WHAT_THEY_ANSWER = (
    "The verdict is about the mean loss, which a few large losses can decide. A sign test is about "
    "the usual row: it may point the other way, and decides nothing. Against a constant, a model "
    "that only favours the most frequent values can pass it."
)


def how_sure(content: ReportContent) -> Iterator[Block]:
    contract, comparison = content.contract, content.contract.comparison
    if content.n_kept == content.n_candidates:
        yield note("Both models are the same, so there is no difference to be sure of.")
        return
    what = (
        f"Difference of the {judged_part(contract)} losses ({loss_in_words(contract.loss)}, "
        f"lower is better), selected less all: {number(comparison.difference, '+')}"
    )
    if comparison.interval is None:
        yield note(
            f"{what}. The rows belong together, to one group or one block of time, so that nothing "
            "says how far that may be off."
        )
        return
    part, confidence = contract.judged_on, comparison.confidence
    units = units_in_words(comparison.units, contract.dataset.rows_by_part[part])
    widened = ""
    if part == "out_of_fold" and widening_of(content):
        widened = f", widened by a factor of {widening_of(content)} because the folds share the "
        widened += "rows that they are fitted on"
    yield Figure(
        charts.interval_chart(comparison.difference, comparison.interval, confidence),
        f"{what}, {confidence:.0%} interval {interval(comparison.interval)}, by a paired "
        f"bootstrap over {number(comparison.units)} {units}{widened}.",
    )
    if signs := _signs(contract):
        yield note(signs)


def losses(content: ReportContent) -> Iterator[Block]:
    is_out_of_fold = content.contract.judged_on == "out_of_fold"
    table, purpose = losses_by_part(content.contract), purpose_of_each_part(content)
    used = [purpose.get(part, NOTHING) for part in content.contract.losses]
    rows = [(*row, use) for row, use in zip(table.rows, used, strict=True)]
    yield replace(table, columns={**table.columns, "Used for": "text"}, rows=rows)
    if is_out_of_fold:
        judged = (
            "Out-of-fold losses are of models that had not seen the row, with features that were "
            "ordered without it, in a number chosen by the losses of other rows."
        )
    else:
        judged = (
            "The test part was read once, after the choice was made, and never used for choosing."
        )
        if content.alternatives is not None:
            judged += " The alternatives, below, were scored on it once all was chosen."
    fitted = "the training and mask-validation rows, so their losses there flatter them"
    if is_out_of_fold:
        fitted = "all rows, so their losses on the train part flatter them"
    elif content.traits.is_cross_fitted:
        fitted = "all other rows, so their losses there flatter them"
    beyond = beyond_the_search(content.contract)
    yield note(
        " ".join(filter(None, [f"{judged} Both final models were fitted on {fitted}.", beyond]))
    )
    if (of_metrics := metrics(content.contract)).rows:
        yield of_metrics
        models = "the models of the fold" if is_out_of_fold else "the final models"
        shares = class_shares(content.contract)
        yield note(
            "No decision uses these metrics. The constant is the best one of the rows that "
            f"{models} were fitted on. The difference is selected less all features: in per cent "
            "of all features for errors (RMSE, MAE, log loss; lower is better), absolute for R2, "
            f"accuracy and ROC AUC (higher is better).{f' {shares}' if shares else ''}"
        )


def beyond_the_search(contract: Contract) -> str:
    """Return how many rows only the final models were fitted on; empty if none."""
    n_rows = contract.dataset.rows_by_part.get("final")
    if not n_rows:
        return ""
    return f"The rows of the final models include {number(n_rows)} that took no part in the search."


def how_the_size_was_chosen(content: ReportContent) -> Iterator[Block]:
    """Return the candidate sizes with their losses; empty where folds chose the size."""
    if content.traits.is_cross_fitted:
        return
    loss_of = "is that of a model fitted on the training rows with these features alone"
    if content.is_sized:
        yield note(
            "It was found by ",
            Code(content.method),
            " itself, as shown above. The model-validation rows only measure it.",
        )
    elif content.contract.settings["method"].get("min_score") is not None:
        yield note(f"The lowest score asked for set it; the loss {loss_of}.")
    elif why := why_one_candidate(content):
        why = f"Nothing was to be chosen, as {why}."
        yield note(f"{why} The loss, on the model-validation rows, {loss_of}.")
    else:
        yield note(
            "A model was fitted on the training rows with each candidate’s features alone and "
            "scored on the model-validation rows. The lowest loss won; of equals, the smaller set."
        )
    yield candidate_sizes(content)


def _signs(contract: Contract) -> str | None:
    """Return the sign tests and what they answer; None in runs from before there were any."""
    comparison, n_rows = contract.comparison, contract.dataset.rows_by_part[contract.judged_on]
    against = {
        "all features": comparison.sign_test,
        "a constant": comparison.sign_test_over_constant,
    }
    sentences = [
        f"The loss of the selected features, against {other}, is "
        f"{signs_in_words(test, comparison.units, n_rows)}."
        for other, test in against.items()
        if test
    ]
    return " ".join([_WHAT_THEY_ANSWER, *sentences]) if sentences else None


def judged_part(contract: Contract) -> str:
    return part_in_words(contract.judged_on)


def class_shares(contract: Contract) -> str | None:
    """Return the shares of the classes in words; None for a regression."""
    if not contract.class_shares:
        return None
    shares = listed(f"{name} ({share(of)})" for name, of in contract.class_shares.items())
    return f"Classes of the {judged_part(contract)} rows: {shares}."


DIFFERENCE_OF_METRICS = "Selected less all"  # each cell has its own unit


def difference_of_metric(metric: Metric) -> str:
    """Return selected less all features; of an error in per cent of that with all features."""
    percent = metric.difference_percent
    return number(metric.difference, "+") if percent is None else f"{number(percent, '+')} %"


Heads = tuple[str, str]  # of the figures with all features, and with the kept ones
_HEADS = ("All features", "Selected")


def losses_by_part(contract: Contract, heads: Heads = _HEADS) -> Table:
    """Return the losses of both final models on each part of the rows."""
    rows, by_part = [], contract.dataset.rows_by_part
    for part, losses in contract.losses.items():
        every, selected = losses.all_features, losses.selected
        difference = number(difference_of(selected, every), "+")
        figures = *numbers_alike(every, selected), difference
        rows.append((part_in_words(part), number(by_part[part]), *figures))
    whose = "two final models"
    if contract.judged_on == "out_of_fold":
        whose = "final models and those of the folds"
    caption = f"Losses of the {whose} ({loss_in_words(contract.loss)})"
    judged = [*contract.losses].index(contract.judged_on)
    return Table(caption, {"Part": "text", **numbers("Rows", *heads, "Difference")}, rows, judged)


def metrics(contract: Contract, name: str = "Metric", heads: Heads = _HEADS) -> Table:
    """Return the metrics of the final models and of a constant, on the rows of the verdict."""
    rows = []
    for key, metric in contract.metrics.items():
        values = metric.all_features, metric.selected, metric.constant
        figures = *numbers_alike(*values), difference_of_metric(metric)
        rows.append((METRICS.get(key, key), *figures))
    columns = numbers(*heads, "Constant", DIFFERENCE_OF_METRICS)
    return Table(f"Metrics of the {judged_part(contract)} rows", {name: "text", **columns}, rows)


def candidate_sizes(content: ReportContent) -> Table:
    method = content.contract.settings["method"]
    is_slack, is_score = "slacks" in method, method.get("min_score") is not None
    is_penalty = asks_for_penalties(content)
    asked_for = "Slack" if is_slack else "Lowest score" if is_score else "Size asked for"
    asked_for = "Penalty" if is_penalty else asked_for
    written = number if is_slack or is_score or is_penalty else _size
    losses = [candidate["model_validation_loss"] for candidate in content.candidates]
    chosen = min(range(len(losses)), key=losses.__getitem__, default=None)
    rows = [
        (
            number(candidate["n_features"]),
            ", ".join(written(s) for s in candidate["settings"]) or NOTHING,
            number(candidate["model_validation_loss"]),
            "chosen" if i == chosen else "",
        )
        for i, candidate in enumerate(content.candidates)
    ]
    columns = numbers("Features", asked_for, "Model-validation loss")
    return Table("Candidate sizes", {**columns, "Choice": "text"}, rows, chosen)


def _size(size: float) -> str:
    return number(size) if isinstance(size, int) else share(size)


_PURPOSE = {
    "train": "tuning, fitting, the baseline",
    "mask_validation": "which feature to mask next; then fitting",
    "model_validation": "how many features to keep",
    "test": "the verdict; nothing is chosen by it",
}


def purpose_of_each_part(content: ReportContent) -> dict[str, str]:
    """Return what each part was used for by the method."""
    purpose = _PURPOSE | dict(content.traits.parts_used)
    if content.traits.is_cross_fitted:
        return purpose
    if content.searches is not None and not content.searches_made:
        purpose |= {"train": _PURPOSE["train"], "mask_validation": "fitting alone"}
    if content.contract.settings["method"].get("min_score") is not None:
        purpose["model_validation"] = "nothing: the lowest score set the size"
    elif content.is_sized or content.has_one_candidate:
        purpose["model_validation"] = "the loss of the one candidate"
    return purpose
