"""The report's section on the search: how the method chose the features and their number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.reporting import charts
from chaffinch.tasks.reporting.content import MaskStep, ReportContent
from chaffinch.tasks.reporting.section import (
    Block,
    Code,
    Definitions,
    Figure,
    Table,
    folded,
    note,
    numbers,
    paragraph,
)
from chaffinch.tasks.reporting.text import (
    bound_of_share,
    counted,
    listed,
    number,
    rounded_share,
    share,
)
from chaffinch.tasks.selection.losses import loss_in_words

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST_PRICES = 8  # sizes of a price list, beside the chosen one
_NORMAL = 1.96  # standard errors that a 95 % interval reaches to each side
_MASK = (
    "is the set of features that the model may see; a masked feature has the same value in every "
    "row."
)


def search_of(content: ReportContent) -> tuple[str, Iterator[Block]]:
    """Return the heading and the blocks of how the method searched."""
    if content.rounds is not None:
        return "The rounds", _rounds(content, content.rounds)
    if content.searches is not None:
        return "The searches", _searches(content)
    if content.traits.is_cross_fitted:
        return "How the number of features was chosen", _number_of_features(content)
    if content.masks is not None:
        return "The masks found", _masks(content, content.masks)
    if content.scores is not None:
        return "The ranking", _ranking(content)
    return "The elimination curve", _elimination(content)


def baseline_in_words(content: ReportContent) -> str:
    """Return the rule for the value of masked features, for a sentence on that value."""
    rule = content.contract.settings.get("baseline")
    of_rule = f", here by the rule “{rule}” over the training rows" if rule else ""
    return f"{of_rule}; for a category it is the most frequent one."


def _rounds(content: ReportContent, rounds: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    yield paragraph(
        "Training and masking took turns. In a round, a model is trained on the features still "
        "kept, and these are masked one after the other on trial, in an order drawn at random: a "
        "feature stays masked if the loss on the mask-validation rows allows it, and is put back "
        "otherwise. Then the next round trains without what was masked. Each slack, with each "
        "number that a round may put back, is such a search of its own, from the same seed."
    )
    yield folded(rounds_of_masking(rounds))
    if forced := forced_by_the_limit(rounds):
        most = content.contract.settings["method"]["n_features"]
        yield note(
            f"No more than {most} features were to be kept. Where a search would have ended with "
            "more, the one that cost least was masked all the same, though the loss did not allow "
            f"it, and even if its round had put it back before: {forced}."
        )
    yield Definitions(
        {
            "Mask": _MASK,
            "Baseline": f"is that value{baseline_in_words(content)}",
            "Slack": "is the share by which the loss may rise with one more feature masked; 0.01 "
            "lets it rise by 1\N{NO-BREAK SPACE}%.",
            "Loss once trained": "is that of the round’s model before anything was masked. It is "
            "trained again only if the round before masked something.",
        }
    )


def _searches(content: ReportContent) -> Iterator[Block]:
    left_out, made = explain_skipped_searches(content), content.searches_made
    if not made:
        yield paragraph(left_out or "")
        return
    is_sized, n_seeds = "n_features" in made[0], content.contract.settings["method"]["seeds"]
    steered = (
        " The penalty was steered towards the number of features asked for, and so many of the "
        "most probable ones make the set."
    )
    networks = (
        f" Each search, for each {'number of features' if is_sized else 'penalty'} and each seed, "
        "has a network of its own."
    )
    yield paragraph(
        "A network and the probability of each feature were trained at the same time: on each "
        "mini-batch of training rows masks were drawn by these probabilities, and those of the "
        f"features of the better mask rose.{steered * is_sized}{networks * (len(made) > 1)}"
    )
    if left_out is not None:
        yield note(left_out)
    if (chart := charts.settling_chart(made)) is not None:
        yield Figure(
            chart,
            "How the probabilities settled. A search ends once its mean entropy is low and its "
            "mask has stayed the same for four sweeps, or when its time is over.",
        )
    if (chart := _score_chart(content)) is not None:
        seeds = ", as the mean over seeds" * (n_seeds > 1)
        yield Figure(
            chart,
            f"The probability of each feature, highest first{seeds}. Kept features stand out.",
        )
    yield folded(searches_by_probabilities(made))
    penalty = {
        "Penalty": "is by how much the masks that have a feature must win, as a share of the "
        "contests, for it to stay."
    }
    yield Definitions(
        ({} if is_sized else penalty)
        | {
            "Entropy": "is the mean over the features, in bits: 1 where nothing is decided.",
            "Stability": "is the least Jaccard index of the mask with those of the four sweeps "
            "before.",
            "Mask-validation loss": "is that of the search’s own network under its mask.",
            "Baseline": f"is the value of a masked feature{baseline_in_words(content)} A missing "
            "value was taken for it as well.",
        }
    )


def _number_of_features(content: ReportContent) -> Iterator[Block]:
    settings, has_folds = content.contract.settings, bool(content.fold_sizes)
    by_error = settings["method"].get("within_one_standard_error", False)
    most, is_exact = (settings["method"].get(name) for name in ("n_features", "exactly"))
    refitted = "a grid of sizes, from the smallest until larger ones were no better"
    rows = "One fold of the training rows was held out."
    if has_folds:
        rows = "The rows were cut into folds, and each fold was held out in turn."
    rule = (
        "A size passes if it is shown to lose no more than "
        f"{share(settings.get('tolerance', 0.0))} of what all features explain beyond a constant, "
        "by a one-sided test at 95\N{NO-BREAK SPACE}%, or if the features that leave are shown to "
        "be of no use to the models and the refits lose no more than it on average. Of the sizes "
        "that pass, the smallest is chosen whose loss exceeds the lowest by at most one standard "
        "error, or by half of that share; where none passes, the largest that is allowed, or the "
        "smallest if all features explain nothing."
    )
    if by_error:
        rule = (
            "The smallest size was chosen whose loss exceeds the lowest by no more than the "
            "standard error of the difference."
        )
    limit = "" if most is None else f" No more than {most} features were allowed"
    if limit:
        limit += f"{', and so many are kept if no smaller size passes' * (not by_error)}."
    if is_exact:
        refitted, rule, limit = "this size", f"Exactly {most} were asked for.", ""
    once_more = " The features were then ordered once more, on all these rows." * has_folds
    yield paragraph(
        f"{rows} Without its rows, the features were ordered and the model was refitted with the "
        f"highest of them for {refitted}; the held-out rows give the loss. {rule}{limit}{once_more}"
    )
    is_judged_by_test, widened = content.contract.judged_on == "test", _widened(content)
    if (chart := elimination_chart_of(content)) is not None:
        yield Figure(
            chart,
            "Mean loss of the held-out rows at each number of features. The band is the "
            "95\N{NO-BREAK SPACE}% interval of the difference from all features, drawn around the "
            f"loss of each size{f', widened {widened}' if widened else ''}.",
        )
    if not is_exact and (chosen := choices_of_folds(content.fold_sizes)):
        judged = (
            "The verdict is about choosing in this way: its loss is that of the folds’ own "
            "choices, not that of one size in the curve."
        )
        if is_judged_by_test:
            judged = (
                "The verdict is of the test rows, which took no part in the choice, and not of "
                "these folds."
            )
        if content.n_kept == content.n_candidates:
            judged = "All are kept, so that nothing is chosen that the verdict could judge."
        yield paragraph(f"{chosen} {judged}")
    tolerance = settings.get("tolerance", 0.0)
    yield folded(sizes_of_the_curve(content.sizes or (), content.n_kept, tolerance))
    bounds = ""
    if widened:
        bounds = (
            f" These bounds are widened {widened}; the test that chose is not, so that the size "
            "chosen may be above the tolerance. The interval of the verdict is "
            f"{'of the test rows, and not widened' if is_judged_by_test else 'widened alike'}."
        )
    yield note(
        "What a size explains less is a share of what all features explain beyond a constant. It "
        "is at most so much with 95\N{NO-BREAK SPACE}% confidence, for a size that was not picked "
        f"by these figures.{bounds} Of a run in a store, ",
        Code(f"chaffinch at {content.run} K"),
        " makes K features the choice.",
    )


def _widened(content: ReportContent) -> str:
    """Return by how much intervals over the folds are widened, and why; empty if they are not."""
    if not (factor := widening_of(content)):
        return ""
    why = "for the choice of the rows that models are fitted on"
    if content.fold_sizes:
        why = "because the folds share the rows that they are fitted on"
    return f"by a factor of {factor} {why}"


def widening_of(content: ReportContent) -> str:
    """Return the factor of intervals over the folds; empty where they are not widened."""
    return "" if content.widen == 1 else number(round(content.widen, 2))


def _masks(content: ReportContent, masks: Sequence[MaskStep]) -> Iterator[Block]:
    yield paragraph(
        "They were found by ",
        Code(content.method),
        f": {content.traits.refits}. Each loss is that of a model fitted on the features of its "
        f"mask alone; with all features it is {number(content.unmasked_loss)}.",
    )
    if content.method == "particle_swarm":
        yield note("A step is a generation, and its mask the best so far.")
    rows = [(number(step), number(size), number(loss)) for step, size, loss in masks]
    yield folded(Table("Masks found", numbers("Step", "Features", "Mask-validation loss"), rows))


def _ranking(content: ReportContent) -> Iterator[Block]:
    method, traits = Code(content.method), content.traits
    lowest = content.contract.settings["method"].get("min_score")
    if traits.refits:
        ranked = f": {traits.refits}. Nothing was masked."
        yield paragraph("The features were ranked by ", method, ranked)
        chart = elimination_chart_of(content)
        if content.sizes is not None and chart is not None:
            where = "on the rows that a fold holds out"
            yield Figure(chart, f"The mean loss of refitted models at each size, {where}.")
            keys = ("n_features", "loss", "standard_error")
            rows = [[number(size[key]) for key in keys] for size in content.sizes]
            headings = numbers("Features", "Mean loss over the folds", "Standard error")
            yield folded(Table("Cross-validated sizes", headings, rows))
    else:
        chosen = ""
        if lowest is not None:
            chosen = f" Those of at least the lowest score asked for, {number(lowest)}, are kept, "
            chosen += "and those on the keep list."
        elif why_one_candidate(content) is None:
            what = "penalty" if asks_for_penalties(content) else "size"
            chosen = f" Models fitted at each {what} asked for chose the {what}, see below."
        yield paragraph(
            "The features were ranked once, by ",
            method,
            ", and the lowest leave first. Nothing was masked, so there is no curve of losses."
            f"{chosen}",
        )
        if (chart := _score_chart(content)) is not None:
            yield Figure(
                chart, "The score of each feature, highest first. Kept features stand out."
            )
    term, order = "Score", "Higher is better; of equal scores, the feature further left in the "
    order += "table ranks lower"
    if traits.score_is_place:
        term, order = "Rank", "1 is the most useful feature"
    asked_for = {"Size": "is the number of features kept, given as a number or as a share of all."}
    if asks_for_penalties(content):
        asked_for = {"Penalty": "is the score that a feature must reach to be kept."}
    elif content.is_sized or lowest is not None:
        asked_for = {}
    yield Definitions({term: f"is {traits.score}. {order}."} | asked_for)


def _elimination(content: ReportContent) -> Iterator[Block]:
    refits, chart = content.traits.refits, elimination_chart_of(content)
    if chart is None:
        yield paragraph(
            "There was nothing that could be removed, so there is no curve. The loss of the base "
            f"model on the mask-validation rows is {number(content.unmasked_loss)}."
        )
    elif refits:
        alone = "Each loss is that of a model fitted on the features left alone."
        yield Figure(chart, f"Read from right to left: {refits}. {alone}")
    else:
        yield Figure(
            chart,
            "Read from right to left: each step masks the one feature that costs least. The base "
            "model is not refitted on the way, so with few features left its loss tends to lie "
            "above that of a model trained on those few.",
        )
    words = (
        {} if refits else {"Mask": _MASK, "Baseline": f"is that value{baseline_in_words(content)}"}
    )
    if content.method == "gbmo":
        words["Slack"] = (
            "is the share by which the loss may rise in one step before elimination stops; 0.01 "
            "lets it rise by 1\N{NO-BREAK SPACE}%."
        )
    else:
        words["Size"] = (
            "is the number of features at which elimination stops, given as a number or as a share "
            "of all."
        )
    yield Definitions(words)


def sizes_of_the_curve(sizes: Sequence[Mapping[str, Any]], chosen: int, tolerance: float) -> Table:
    """Return the sizes of a cross-fitted method, with what each loses beside all features."""
    rows = [
        (
            *(number(size[key]) for key in ("n_features", "loss")),
            number(size["difference"], "+"),
            rounded_share(size.get("share_lost")),
            bound_of_share(size.get("share_lost_at_most")),
            _choice(size, chosen, tolerance),
        )
        for size in sizes
    ]
    sizes_shown = [size["n_features"] for size in sizes]
    at = sizes_shown.index(chosen) if chosen in sizes_shown else None
    columns = numbers("Features", "Mean loss", "Less that of all", "Explains less by", "At most")
    return Table("Price of each number of features", {**columns, "Choice": "text"}, rows, at)


def price_list(curve: Sequence[Mapping[Any, Any]], chosen: int, tolerance: float) -> Table | None:
    """Return about eight sizes of a curve, evenly spaced, as `sizes_of_the_curve` does.

    None where the search knows no prices, or two sizes alone.
    """
    if len(curve) < 3 or "share_lost" not in curve[0]:
        return None
    apart = (len(curve) - 1) / (min(_MOST_PRICES, len(curve)) - 1)
    shown = {round(place * apart) for place in range(_MOST_PRICES)}
    sizes = [s for i, s in enumerate(curve) if i in shown or s["n_features"] == chosen]
    return sizes_of_the_curve(sizes, chosen, tolerance)


def _choice(size: Mapping[str, Any], chosen: int, tolerance: float) -> str:
    if size["n_features"] == chosen:
        return "chosen"
    bound = size.get("share_lost_at_most")
    return f"within {share(tolerance)}" if bound is not None and bound <= tolerance else ""


def rounds_of_masking(rounds: Sequence[Mapping[str, Any]]) -> Table:
    allowed = {masking.get("rejections") for masking in rounds}
    walk = {"Slack": "slack"} | ({"May put back": "rejections"} if len(allowed) > 1 else {})
    rows = [
        (
            *(number(masking[key]) for key in (*walk.values(), "round", "trained_loss")),
            *(number(len(masking[key])) for key in ("tried", "rejected")),
            listed(masking["removed"]),
            *(number(masking[key]) for key in ("loss", "features_left")),
        )
        for masking in rounds
    ]
    return Table(
        "Rounds of training and masking",
        {
            **numbers(*walk, "Round", "Loss once trained", "Tried", "Put back"),
            "Masked for good": "name",
            **numbers("Loss once masked", "Features left"),
        },
        rows,
    )


def forced_by_the_limit(rounds: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the features masked only to meet the limit on their number; None without any."""
    forced = [
        f"{name} (slack {number(masking['slack'])}, round {number(masking['round'])})"
        for masking in rounds
        for name in masking["removed"]
        if name in masking["rejected"] or name not in masking["tried"]
    ]
    return listed(forced) if forced else None


def searches_by_probabilities(searches: Sequence[Mapping[str, Any]]) -> Table:
    is_sized = "n_features" in searches[0]
    rows = [
        (
            *(number(search[key]) for key in ("n_features" if is_sized else "penalty", "seed")),
            *(number(search[key][-1]) for key in ("iteration", "entropy", "stability")),
            *(number(value) for value in (search["features_left"][-1], search["held_out_loss"])),
        )
        for search in searches
    ]
    ends = numbers("Iterations", "Entropy", "Stability", "Features of at least 0.5")
    settings = numbers("Features asked for" if is_sized else "Penalty", "Seed")
    return Table("Searches", {**settings, **ends, **numbers("Mask-validation loss")}, rows)


_SEVERAL = {"slack": "slacks", "penalty": "penalties", "size": "sizes asked for"}


def explain_skipped_searches(content: ReportContent) -> str | None:
    """Return why PEFS left out searches; None where it made all of them."""
    left_out = [search for search in content.searches or () if search not in content.searches_made]
    if not left_out:
        return None
    sizes = sorted({search["n_features"] for search in left_out if "n_features" in search})
    sentence = "Nothing was searched, and no network trained"
    if content.searches_made:
        figures = [*map(number, sizes[:-1]), counted(sizes[-1], "feature")]
        sentence = f"For {' and '.join(figures)} nothing was searched"
    return f"{sentence}: {_why_one_set_is_left(content, sizes)}."


def _why_one_set_is_left(content: ReportContent, sizes: list[int]) -> str:
    kept = set(content.contract.settings["columns"].get("keep", ()))
    n_listed = len(kept & set(content.contract.candidates))
    if content.n_candidates == 1:
        return "there is one feature, and nothing to choose from"
    if n_listed == content.n_candidates:
        return "all features are on the keep list"
    reasons = {
        content.n_candidates: "as many were asked for as there are",
        n_listed: "no more were asked for than are on the keep list",
    }
    return ", or ".join(reasons[size] for size in sizes)


def asks_for_penalties(content: ReportContent) -> bool:
    """Return whether penalties took the place of a number of features."""
    method = content.contract.settings["method"]
    # AFS-BM has one penalty, a number, beside its slacks
    return method.get("penalties") is not None or isinstance(method.get("penalty"), Sequence)


def why_one_candidate(content: ReportContent) -> str | None:
    """Return why there was only one candidate; None where there were several."""
    if not content.has_one_candidate:
        return None
    method, tried = content.contract.settings["method"], content.candidates[0]["settings"]
    is_slack, is_penalty = "slacks" in method, asks_for_penalties(content)
    what = "slack" if is_slack else "penalty" if is_penalty else "size"
    if content.searches is not None and not content.searches_made and is_penalty:
        return "there was one set alone"
    if len(tried) == 1:
        return f"one {what} was asked for"
    most = method.get("n_features") if content.traits.limits_size else None
    limit = "" if most is None else f", with at most {number(most)} asked for"
    return f"all {_SEVERAL[what]} led to the same features{limit}"


def choices_of_folds(sizes: Sequence[int]) -> str | None:
    """Return how many features each fold chose; None where folds did not choose."""
    if not sizes:
        return None
    last = counted(sizes[-1], "feature")
    if len(sizes) == 1:
        return f"The one fold chose {last}."
    return f"The {len(sizes)} folds chose {', '.join(map(number, sizes[:-1]))} and {last}."


def _score_chart(content: ReportContent) -> Markup | None:
    """Return the chart of scores, or None where there are none or they are places alone."""
    scores = content.scores or {}
    if content.traits.score_is_place or not np.isfinite(list(scores.values())).any():
        return None
    name = "score" if content.searches is None else "probability"
    return charts.score_chart(scores, list(content.contract.types), name)


def elimination_chart_of(content: ReportContent) -> Markup | None:
    """Return the curve, or None where nothing could be removed, or no loss was measured."""
    if content.sizes is not None:
        curve = [(size["n_features"], size["loss"]) for size in content.sizes]
        rows = "held-out rows" if content.traits.is_cross_fitted else "cross-validated"
    else:
        curve = [(left, loss) for _, _, loss, left in content.path if loss is not None]
        curve = [(content.n_candidates, content.unmasked_loss), *curve]
        rows = "mask-validation rows"
    if len(curve) < 2:
        return None
    is_on_curve = content.traits.is_cross_fitted or not content.is_constrained
    return charts.elimination_chart(
        [left for left, _ in curve],
        [loss for _, loss in curve],
        candidates=[candidate["n_features"] for candidate in content.candidates]
        if is_on_curve
        else [],
        chosen=content.n_kept if is_on_curve else None,
        loss_name=f"{loss_in_words(content.contract.loss)}, {rows}",
        margins=_margins(content),
    )


def _margins(content: ReportContent) -> list[float] | None:
    """Return the half-width of the band at each size; None without a cross-fitted curve."""
    if content.sizes is None or not content.traits.is_cross_fitted:
        return None
    return [_NORMAL * content.widen * size["standard_error"] for size in content.sizes]
