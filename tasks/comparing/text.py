"""Summary of a comparison in words: sentences of the report, and lines for a terminal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from rich.cells import cell_len

from chaffinch.storage.column_names import quoted
from chaffinch.tasks.comparing.plan import ALL, Contender
from chaffinch.tasks.comparing.summary import (
    ALL_IN_WORDS,
    FEWEST_TABLES,
    Outcome,
    Ranking,
    Summary,
    TableSummary,
    is_ranked,
)
from chaffinch.tasks.reporting.text import (
    NOTHING,
    counted,
    cut,
    interval,
    listed,
    number,
    share,
    visible,
)
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.paired_tests import CONFIDENCE, FEWEST_PAIRS
from chaffinch.tasks.statistics.verdict import VERDICTS, leaks_in_words

# a number by itself; numbers in quotes or words are parts of names
_QUOTED = r"(?<!\w)'[^']*'"
_FIGURE = r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)(?!\w)"
_QUOTED_OR_FIGURE = re.compile(f"({_QUOTED})|{_FIGURE}")
# reasons that are visible in the interval of a difference
_LOWER, _HIGHER, _OPEN = "the loss is lower", "the loss is higher", "the interval holds zero"

_COLUMNS = (
    *("method", "kept", "loss", "deviation", "difference", "95 % interval"),
    *("verdict", "stability", "seconds"),
)
_AS_TEXT = {0, 6}  # left-aligned columns
_LONGEST_NAME = 36


def method_of(contender: Contender) -> str:
    return ALL_IN_WORDS if contender.method == ALL else contender.method


def name_of(contender: Contender, everyone: Iterable[Contender]) -> str:
    """Return the name of a contender: its method and requested size."""
    if contender.size is not None:
        return f"{contender.method}, {counted(contender.size, 'feature')}"
    return f"{method_of(contender)}{', its own size' if _is_sized(contender, everyone) else ''}"


def short_name_of(contender: Contender, everyone: Iterable[Contender], longest: int) -> str:
    """Return the name of a contender, with its method cut to `longest` characters."""
    name = cut(method_of(contender), longest)
    if contender.size is not None:
        return f"{name}, {number(contender.size)}"
    return f"{name}, its own" if _is_sized(contender, everyone) else name


def _is_sized(contender: Contender, everyone: Iterable[Contender]) -> bool:
    return any(o.method == contender.method and o.size is not None for o in everyone)


def without_figures(text: str) -> str:
    """Return a text with a placeholder for each number, to group similar texts."""
    return _QUOTED_OR_FIGURE.sub(lambda match: match[1] or "#", text)


def difference_of(outcome: Outcome) -> tuple[str, str]:
    """Return the difference to all features and its interval."""
    difference = outcome.difference
    if difference is None:
        return NOTHING, NOTHING
    return number(difference.mean, "+"), interval(difference.interval)


def stability_of(outcome: Outcome) -> tuple[str, str]:
    """Return the stability of the sets and its interval."""
    if (stability := outcome.stability) is None:
        return NOTHING, NOTHING
    ends = stability.interval
    shown = NOTHING if ends is None else f"[{ends[0]:.2f}, {ends[1]:.2f}]"
    return f"{stability.value:.2f}", shown


def heading_of(table: TableSummary) -> str:
    return f"{table.table}, {table.model}"


def cells_of(table: TableSummary) -> str:
    """Return the numbers of seeds and folds, and of measured cells if some are missing."""
    sentence = f"{counted(table.n_seeds, 'seed')}, {counted(table.n_folds, 'outer fold')}"
    n_cells = table.n_seeds * table.n_folds
    n_measured = max(outcome.n_scored + outcome.n_failed for outcome in table.outcomes)
    if n_measured < n_cells:
        sentence += f", of which {number(n_measured)} of {counted(n_cells, 'cell')} were measured"
    return sentence


def means_of(table: TableSummary) -> str:
    """Return the sentence on the cells over which losses and differences are averaged."""
    sentence = f"Losses are means over the {counted(table.n_shared, 'cell')} that all compared have"
    alone = [o for o in table.outcomes if o.n_scored and not o.is_compared]
    if alone:
        own = listed(
            f"{name_of(o.contender, table.contenders)} over its own {number(o.n_scored)}"
            for o in alone
        )
        sentence += f", of {own}"
    if not table.has_further_cells:
        return f"{sentence}."
    return f"{sentence}; differences over all cells that the two of them have."


def reason_of(outcome: Outcome, table: TableSummary) -> str:
    difference, over_constant = outcome.difference, outcome.over_constant
    if outcome.leaks:
        return f"it rests on {quoted(outcome.leaks)}"
    if outcome.keeps_all:
        return "it keeps every feature"
    if outcome.verdict == "as good with fewer columns":
        most = f"no more than {share(table.tolerance)}" if table.tolerance else "nothing"
        return f"it loses {most} of what all features explain beyond a constant"
    if over_constant is not None and over_constant.is_no_better:
        return "no better than a constant, which looks at no feature"
    if difference is None:
        return "no cell has both its loss and that with all features"
    if difference.n_pairs < FEWEST_PAIRS:
        return f"{counted(difference.n_pairs, 'pair')} where {FEWEST_PAIRS} are needed"
    if difference.interval is None:
        every = f"in each of {number(difference.n_pairs)} pairs"
        if difference.is_nothing:
            return f"the loss is the same as with all features {every}"
        if difference.mean == 0:
            return f"the score is the same {every}, which may be chance where it counts labels"
        return f"the difference is the same {every}, so its error is not known"
    if outcome.verdict == "better":
        return _LOWER
    if outcome.verdict == "worse":
        return _HIGHER
    low, high = difference.interval
    if low <= 0 <= high:
        return _OPEN
    if high < 0 and outcome.corrected_p is not None and outcome.corrected_p <= 1 - CONFIDENCE:
        return "it may do no better than a constant"
    return f"may be luck among {number(table.n_tested)} that were tested"


def reasons_of(table: TableSummary) -> list[str]:
    """Return the reasons of verdicts that do not follow from an interval, with contenders."""
    everyone = [outcome.contender for outcome in table.rivals]
    alike: dict[tuple[str, str], list[Contender]] = {}
    for outcome in table.rivals:
        reason = reason_of(outcome, table)
        if outcome.difference is not None and reason not in (_LOWER, _HIGHER, _OPEN):
            alike.setdefault((str(outcome.verdict), reason), []).append(outcome.contender)
    return [
        f"{verdict.capitalize()} ({reason}): {grouped(contenders, everyone)}."
        for (verdict, reason), contenders in alike.items()
    ]


def allowance_of(table: TableSummary) -> str:
    """Return the sentence on multiple testing; empty with fewer than two tests."""
    to_all, to_constant = table.n_tested, table.n_tested_to_constant
    if max(to_all, to_constant) < 2:
        return ""
    tested = [f"all {to_all} differences to all features"] if to_all else []
    tested += [f"all {to_constant} to a constant"] if to_constant else []
    return (
        f"Verdicts allow for {' and '.join(tested)} that were tested (Holm); intervals stand for "
        "themselves."
    )


def verdicts_of(table: TableSummary) -> str:
    if not table.rivals:
        return "There is no method to compare to all features."
    if all(outcome.difference is None for outcome in table.rivals):
        return "No method could be compared to all features: no cell has both losses."
    by_verdict: dict[str | None, list[Contender]] = {}
    for outcome in table.rivals:
        by_verdict.setdefault(outcome.verdict, []).append(outcome.contender)
    everyone = [outcome.contender for outcome in table.rivals]
    leaks = _leaks_of([table])
    sentences = [leaks] if leaks else []
    if table.is_nothing_to_select_from:
        sentences.append(
            "All features are not shown to predict better than a constant, so there is nothing to "
            "select from yet."
        )
    subject = "Selection"
    for verdict in VERDICTS[:3]:
        if verdict in by_verdict:
            names = grouped(by_verdict[verdict], everyone)
            sentences.append(f"{subject} is {verdict}: with {names}.")
            subject = "It"
    undecided = len(by_verdict.get("cannot tell", ()))
    if undecided == len(everyone):
        sentences.append("These results cannot tell whether selection is as good.")
    elif undecided:
        others = "one" if undecided == 1 else number(undecided)
        sentences.append(f"For the other {others}, these results cannot tell.")
    return " ".join(sentences)


def recommendation_of(table: TableSummary) -> str:
    """Return which method and size to take, and what it saves; empty where nothing is to be said.

    Of the better ones it is that with the lowest loss, or else, of those that are as good, that
    with the fewest features. The verdicts allow for all of them, so that each holds whichever is
    taken.
    """
    if _leaks_of([table]) or table.is_nothing_to_select_from or not table.rivals:
        return ""
    for verdict in VERDICTS[:2]:
        of_verdict = [o for o in table.rivals if o.verdict == verdict and o.mean_loss is not None]
        if of_verdict:
            break
    else:
        return "No method is recommended: none is shown to be better than all features, or as good."
    if verdict == "better":
        best = min(of_verdict, key=lambda outcome: outcome.mean_loss or 0.0)
        shown, of_all = "is shown to have a lower loss", table.reference.mean_loss
        if best.mean_loss is not None and of_all is not None:
            shown += f", {number(best.mean_loss)} in place of {number(of_all)}"
    else:
        best = min(of_verdict, key=lambda outcome: outcome.n_features or 0.0)
        most = f"no more than {share(table.tolerance)}" if table.tolerance else "nothing"
        shown = f"is shown to lose {most} of what all features explain"
    kept = f"{number(round(best.n_features or 0.0, 1))} of {counted(best.n_total or 0, 'feature')}"
    name = name_of(best.contender, table.contenders)
    seconds = _seconds(best.selection_seconds or 0.0)
    return f"Recommended: {name}. It keeps {kept} and {shown}; to select takes {seconds}."


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{number(round(seconds))} s"


def _leaks_of(tables: Sequence[TableSummary]) -> str:
    leaks = {name for table in tables for outcome in table.rivals for name in outcome.leaks}
    return leaks_in_words(sorted(leaks)).rstrip()


def verdict_over(tables: Sequence[TableSummary]) -> str:
    """Return the sentences on the tables and models where selection is better, or as good.

    Leaks that selections rest on come first.
    """
    over = f"{number(len(tables))} combinations of table and model"
    leaks, sentences = _leaks_of(tables), []
    for verdict in VERDICTS[:2]:
        methods = [
            {o.contender.method for o in table.rivals if o.verdict == verdict} for table in tables
        ]
        often = Counter(method for of_table in methods for method in sorted(of_table))
        if often:
            most = listed(
                f"{method} ({number(often[method])})" for method, _ in often.most_common()
            )
            n_tables = number(sum(map(bool, methods)))
            sentences.append(f"Selection is {verdict} in {n_tables} of {over}: with {most}.")
    if not sentences:
        sentences.append(
            f"No method is shown to be better, or as good with fewer columns, in any of {over}."
        )
    if leaks:
        n_leaking = sum(bool(_leaks_of([table])) for table in tables)
        sentences.insert(0, f"In {number(n_leaking)} of {over} {leaks[0].lower()}{leaks[1:]}")
    return " ".join(sentences)


def choices_of(table: TableSummary) -> list[str]:
    """Return sentences on the loss of a constant and on the best size of each method."""
    sentences = []
    if table.constant_loss is not None:
        sentences.append(
            f"A constant, which looks at no feature, comes to {number(table.constant_loss)}."
        )
    for near_best in table.near_best:
        if near_best.beats_constant is False:
            fewer = "no size does better than a constant"
        elif near_best.best == near_best.fewest:
            fewer = "no fewer were asked for"
        elif near_best.smallest == near_best.best:
            fewer = "none smaller is near it" + (
                " and better than a constant" if near_best.beats_constant else ""
            )
        else:
            fewer = f"with {number(near_best.smallest)} it is within one standard error of that"
        sentences.append(
            f"Of the sizes asked for, {near_best.method} does best with "
            f"{counted(near_best.best, 'feature')}; {fewer}."
        )
    return sentences


def ranks_of(ranking: Ranking) -> str:
    sentence = f"Mean ranks of {counted(len(ranking.methods), 'contender')} over "
    if ranking.over == "cells":
        sentence += (
            f"{counted(ranking.n_blocks, 'cell')} of one table. Cells share their rows, so their "
            "ranks are not independent, and no difference of mean ranks is called critical: that "
            "takes several tables."
        )
    else:
        some = "There is too little to test whether they differ at all."
        if ranking.friedman_p is not None:
            tested = f"(Friedman, p {number(ranking.friedman_p)})"
            some = f"Some are better than others {tested}."
            if ranking.friedman_p > 1 - CONFIDENCE:
                some = f"That any is better than another is not shown {tested}; this holds for "
                some += "every pair."
        sentence += f"{counted(ranking.n_blocks, 'table')}. {some} "
        if ranking.critical_difference is None:
            sentence += f"Which of them differ is tested from {FEWEST_TABLES} tables on."
        else:
            sentence += (
                "At 95 %, mean ranks must differ by "
                f"{number(ranking.critical_difference)} (Nemenyi) for two methods to be "
                "significantly different."
            )
    if ranking.left_out:
        sentence += f" Left out, for too few cells on some table: {listed(ranking.left_out)}."
    return sentence


def sizes_of(ranking: Ranking) -> str:
    """Return the requested sizes of the ranked methods; empty without any."""
    if not ranking.sizes:
        return ""
    fewest, most = min(ranking.sizes), max(ranking.sizes)
    if fewest == most:
        return counted(most, "feature")
    return f"{number(fewest)} to {number(most)} features, by table"


def grouped(contenders: Sequence[Contender], everyone: Sequence[Contender]) -> str:
    """Return the names of contenders, with the sizes of each method grouped."""
    of_all = _sizes_by_method(everyone)
    names = []
    for method, sizes in _sizes_by_method(contenders).items():
        name = ALL_IN_WORDS if method == ALL else method
        if of_all[method] == [None]:
            names.append(name)
        elif len(sizes) > 1 and sizes == of_all[method]:
            names.append(f"{name} (every size)")
        else:
            in_words = ["its own size"] if None in sizes else []
            numbers = [number(size) for size in sizes if size is not None]
            if numbers:
                noun = "feature" if sizes[-1] == 1 else "features"
                in_words.append(f"{', '.join(numbers)} {noun}")
            names.append(f"{name} ({', '.join(in_words)})")
    return listed(names)


def _sizes_by_method(contenders: Iterable[Contender]) -> dict[str, list[int | None]]:
    sizes: dict[str, list[int | None]] = {}
    for contender in contenders:
        sizes.setdefault(contender.method, []).append(contender.size)
    return sizes


def gaps_of(summary: Summary) -> list[str]:
    """Return sentences on missing results and their reasons."""
    sentences = []
    n_lacking = summary.n_missing + summary.n_failed
    if n_lacking:
        sentences.append(
            f"{number(n_lacking)} of {number(summary.n_planned)} losses were not "
            "computed. What is compared is compared over the cells that all concerned have."
        )
    sentences += _not_reached(summary)
    for table in summary.tables:
        everyone = table.contenders
        few = [o.contender for o in table.outcomes if o.n_scored and not o.is_compared]
        if few:
            sentences.append(
                f"{heading_of(table)}: too few cells to be ranked or on the Pareto front: "
                f"{grouped(few, everyone)}."
            )
        if not is_ranked(table) and table.rivals:
            why = "everything failed there" if table.n_failed else "nothing was measured there"
            if alone := [outcome.contender for outcome in table.outcomes if outcome.n_scored]:
                why = f"losses are there of {name_of(alone[0], table.contenders)} alone"
            sentences.append(f"{heading_of(table)}: not in the ranks, since {why}.")
    return sentences


def _not_reached(summary: Summary) -> Iterator[str]:
    """Yield the tables, the models and the pairs without results."""
    planned, lacking = summary.planned, dict.fromkeys(summary.not_reached)
    tables = [t for t in planned.contenders if all((t, m) in lacking for m in planned.models)]
    models = [m for m in planned.models if all((t, m) in lacking for t in planned.contenders)]
    if tables:
        with_any = " with any model" if len(planned.models) > 1 else ""
        yield f"Tables not reached{with_any}: {', '.join(tables)}."
    if models:
        on_any = " on any table" if len(planned.contenders) > 1 else ""
        yield f"Models not reached{on_any}: {', '.join(models)}."
    pairs = [f"{t} with {m}" for t, m in lacking if t not in tables and m not in models]
    if pairs:
        yield f"Tables not reached with some model: {', '.join(pairs)}."


def sizes_left_out(tables: Sequence[TableSummary]) -> Iterator[str]:
    """Yield the methods without requested sizes, and models whose sizes are not ranked."""
    scored = [o.contender for table in tables for o in table.outcomes if o.n_scored]
    sized = {contender.method for contender in scored if contender.size is not None}
    alone = sorted({contender.method for contender in scored} - sized - {ALL})
    if sized and alone:
        find = "finds its number" if len(alone) == 1 else "find their numbers"
        yield f"{listed(alone)} {find} of features without being asked for a size."
    for model in dict.fromkeys(table.model for table in tables):
        n_sizes = {
            len({o.contender.size for o in table.outcomes} - {None})
            for table in tables
            if table.model == model and is_ranked(table)
        }
        if len(n_sizes) > 1:
            yield (
                f"{model}: tables have unlike numbers of sizes "
                f"({listed(map(str, sorted(n_sizes)))}), as where shares of few features come to "
                "one number, so only what chose its own size is ranked."
            )


def errors_of(summary: Summary) -> Iterator[str]:
    """Yield a line for each error on a table with a model.

    Errors that differ only in numbers are grouped, and the first is shown.
    """
    for table in summary.tables:
        everyone = table.contenders
        alike: dict[str, list[tuple[Contender, str, int]]] = {}
        for error in table.errors:
            alike.setdefault(without_figures(error[1]), []).append(error)
        for errors in alike.values():
            n_cells: Counter[Contender] = Counter()
            for contender, _, n in errors:
                n_cells[contender] += n
            others = {error for _, error, _ in errors} - {errors[0][1]}
            such_as = ", for reasons that differ in figures alone, such as" if others else ""
            fewest, most = min(n_cells.values()), max(n_cells.values())
            often = f"{number(fewest)} to " * (fewest < most) + counted(most, "cell")
            often += " each" * (len(n_cells) > 1)
            # without a size the whole method failed, and its sizes are not listed
            whole = {contender.method for contender in n_cells if contender.size is None}
            distinct = [c for c in everyone if c.size is None or c.method not in whole]
            yield (
                f"{heading_of(table)}: {grouped(list(n_cells), distinct)} failed in "
                f"{often}{such_as}: {errors[0][1]}"
            )


@dataclass(frozen=True)
class Section:
    """A part of a summary: a heading, a table with its columns first, and sentences."""

    heading: str
    rows: list[tuple[str, ...]]
    sentences: list[str]


def sections_of(summary: Summary) -> Iterator[Section]:
    """Yield a section for every table and model, then the ranks with each model."""
    yield from map(_of_table, summary.tables)
    for model, rankings in groupby(summary.rankings, attrgetter("model")):
        yield _of_rankings(model, list(rankings))


def notes_of(summary: Summary) -> list[str]:
    """Return the sentences that follow the sections: on sizes, gaps and errors."""
    return [*sizes_left_out(summary.tables), *gaps_of(summary), *errors_of(summary)]


def lines_of(summary: Summary) -> list[str]:
    """Return a compact table for every table and model, then ranks, gaps and errors.

    The lines are plain text: rich would parse square brackets in names as markup.
    """
    lines: list[str] = []
    for section in sections_of(summary):
        lines += [section.heading, *_aligned(section.rows), *section.sentences, ""]
    lines += notes_of(summary)
    lines += summary.remarks
    while lines and not lines[-1]:
        lines.pop()
    return [visible(line) for line in lines]


def _of_table(table: TableSummary) -> Section:
    loss, everyone = loss_in_words(table.loss_name), table.contenders
    sentences = [
        means_of(table) if table.has_further_cells else "",
        allowance_of(table),
        recommendation_of(table),
        verdicts_of(table),
        *reasons_of(table),
        *choices_of(table),
    ]
    return Section(
        f"{heading_of(table)}: {loss}, lower is better; {cells_of(table)}",
        [_COLUMNS, *(_row(outcome, everyone) for outcome in table.outcomes)],
        [sentence for sentence in sentences if sentence],
    )


def _row(outcome: Outcome, everyone: Sequence[Contender]) -> tuple[str, ...]:
    seconds = (outcome.selection_seconds or 0) + (outcome.training_seconds or 0)
    return (
        cut(name_of(outcome.contender, everyone), _LONGEST_NAME),
        number(outcome.n_features),
        number(outcome.mean_loss),
        number(outcome.deviation),
        *difference_of(outcome),
        outcome.verdict or NOTHING,
        stability_of(outcome)[0],
        f"{seconds:,.2f}" if outcome.n_scored else NOTHING,
    )


def _of_rankings(model: str, rankings: Sequence[Ranking]) -> Section:
    """Return the ranks with a model, a column for each size, and their interpretation."""
    by_size = [dict(zip(r.methods, r.mean_ranks, strict=True)) for r in rankings]
    rows = [
        (
            cut(method, _LONGEST_NAME),
            *(f"{ranks[method]:.2f}" if method in ranks else NOTHING for ranks in by_size),
        )
        for method in dict.fromkeys(method for ranks in by_size for method in ranks)
    ]
    sizes = [sizes_of(ranking) for ranking in rankings]
    columns = ("method", *(size or "rank" for size in sizes))
    sentences = [ranks_of(ranking) for ranking in rankings]
    if len(set(sentences)) == 1:
        sentences = sentences[:1]
    else:
        sentences = [f"{size}: {words}" for size, words in zip(sizes, sentences, strict=True)]
    return Section(f"Mean ranks, {model}", [columns, *rows], sentences)


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = []
        for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
            spaces = " " * (width - cell_len(cell))
            padded.append(cell + spaces if place in _AS_TEXT else spaces + cell)
        yield f"  {'  '.join(padded)}".rstrip()
