"""How what a comparison found is put into words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chaffinch.tasks.comparing.outcomes import Outcome, TableSummary
from chaffinch.tasks.comparing.ranking import Ranking
from chaffinch.tasks.comparing.scores import ALL_FEATURES, ALL_IN_WORDS, Contender
from chaffinch.tasks.comparing.statistics import CONFIDENCE, FEWEST_PAIRS
from chaffinch.tasks.comparing.summary import Summary
from chaffinch.tasks.reporting.wording import listed, number, visible


def name_of(contender: Contender) -> str:
    """Return a method and what it was asked for."""
    if contender.method == ALL_FEATURES:
        return ALL_IN_WORDS
    if contender.size is None:
        return contender.method
    return f"{contender.method}, {counted(contender.size, 'feature')}"


def counted(amount: int, thing: str) -> str:
    """Return how many there are of a thing whose plural takes an s."""
    return f"{number(amount)} {thing}" if amount == 1 else f"{number(amount)} {thing}s"


def cut(text: str, longest: int) -> str:
    """Return a text on one line, cut where it is longer than it may be."""
    text = visible(text)
    return text if len(text) <= longest else f"{text[: longest - 1]}\N{HORIZONTAL ELLIPSIS}"


def heading_of(table: TableSummary) -> str:
    """Return which table and model it is of."""
    return f"{table.table}, {table.model}"


def reason_of(outcome: Outcome, n_tested: int) -> str:
    """Return why the verdict on a contender is what it is.

    Parameters
    ----------
    outcome : Outcome
        Of any contender but all features.
    n_tested : int
        How many differences were tested with its own.
    """
    difference = outcome.difference
    if outcome.keeps_all:
        return "it keeps every feature"
    if difference is None:
        return "no cell has both its loss and that with all features"
    if difference.n_pairs < FEWEST_PAIRS:
        return f"{counted(difference.n_pairs, 'pair')} where {FEWEST_PAIRS} are needed"
    if difference.interval is None:
        every = f"in each of {number(difference.n_pairs)} pairs"
        if difference.mean == 0:
            return f"the loss is the same as with all features {every}"
        return f"the difference is the same {every}, so nothing says how far off it may be"
    if outcome.verdict == "helps":
        return "the loss is lower than with all features"
    if outcome.verdict == "does not help":
        return "the loss is higher than with all features"
    low, high = difference.interval
    if low <= 0 <= high:
        return "the interval holds zero"
    return (
        f"the interval leaves zero, but one of {number(n_tested)} may do so by luck "
        f"(corrected p {number(outcome.corrected_p)})"
    )


def verdicts_of(table: TableSummary) -> str:
    """Return which methods help on a table, do not help, or cannot be told."""
    if not table.rivals:
        return "There is no method to compare to all features."
    if all(outcome.difference is None for outcome in table.rivals):
        return "No method could be compared to all features: no cell has both losses."
    by_verdict: dict[str | None, list[Contender]] = {}
    for outcome in table.rivals:
        by_verdict.setdefault(outcome.verdict, []).append(outcome.contender)
    sentences = []
    if "helps" in by_verdict:
        sentences.append(f"Selection helps with {_grouped(by_verdict['helps'])}.")
    if "does not help" in by_verdict:
        start = "It" if sentences else "Selection"
        sentences.append(f"{start} does not help with {_grouped(by_verdict['does not help'])}.")
    if "cannot tell" in by_verdict:
        undecided = f"For {_grouped(by_verdict['cannot tell'])}, these results cannot tell."
        whether = "These results cannot tell whether selection helps."
        sentences.append(undecided if sentences else whether)
    return " ".join(sentences)


def choices_of(table: TableSummary) -> list[str]:
    """Return for each method with several sizes which is best, and which smaller one would do."""
    said = []
    for found in table.near_best:
        best = counted(found.best, "feature")
        if found.smallest == found.best:
            said.append(f"{found.method} does best with {best}; none smaller is near it.")
        else:
            said.append(
                f"{found.method} does best with {best}; "
                f"{number(found.smallest)} come within one standard error of it."
            )
    return said


def ranks_of(ranking: Ranking) -> str:
    """Return what a ranking is over and what it can tell."""
    n_methods = counted(len(ranking.methods), "method")
    if ranking.over == "cells":
        said = (
            f"Mean ranks of {n_methods} over {counted(ranking.n_blocks, 'cell')} of one table. "
            "Cells share their rows, so their ranks are not independent, and no difference of mean "
            "ranks is called critical: that takes several tables."
        )
    else:
        said = f"Mean ranks of {n_methods} over {counted(ranking.n_blocks, 'table')}. "
        said += _friedman(ranking)
        said += (
            " At 95 %, mean ranks must differ by "
            f"{number(ranking.critical_difference)} (Nemenyi) for two methods to be told apart."
        )
    if ranking.left_out:
        said += f" Left out, for too few cells on some table: {listed(ranking.left_out)}."
    return said


def sizes_of(ranking: Ranking) -> str:
    """Return what the ranked methods were asked for; nothing where they were not asked."""
    if not ranking.sizes:
        return ""
    fewest, most = min(ranking.sizes), max(ranking.sizes)
    if fewest == most:
        return counted(most, "feature")
    return f"{number(fewest)} to {number(most)} features, by table"


def gaps_of(summary: Summary) -> list[str]:
    """Return what is not there, and why as far as the results say."""
    said = []
    if summary.n_missing:
        said.append(
            f"{number(summary.n_missing)} of {counted(summary.n_planned, 'cell')} were not "
            "computed. What is compared is compared over the cells that all concerned have."
        )
    for table in summary.tables:
        few = [
            outcome.contender
            for outcome in table.outcomes
            if outcome.n_scored and not outcome.is_compared
        ]
        if few:
            said.append(
                f"{heading_of(table)}: too few cells to be ranked or on the Pareto front: "
                f"{_grouped(few)}."
            )
    return said


def errors_of(summary: Summary) -> Iterator[str]:
    """Yield what went wrong, one line for each contender and error."""
    for table in summary.tables:
        for contender, error, n_cells in table.errors:
            cells = counted(n_cells, "cell")
            yield f"{heading_of(table)}: {name_of(contender)} failed in {cells}: {error}"


def _friedman(ranking: Ranking) -> str:
    p_value = ranking.friedman_p
    if p_value is None:
        return "There is too little to test whether they differ at all."
    said = f"(Friedman, p {number(p_value)})"
    if p_value <= 1 - CONFIDENCE:
        return f"Some are better than others {said}."
    return f"That any is better than another is not shown {said}, so no pair is to be told apart."


def _grouped(contenders: Iterable[Contender]) -> str:
    """Return contenders with the sizes of each method together."""
    sizes: dict[str, list[int | None]] = {}
    for contender in contenders:
        sizes.setdefault(contender.method, []).append(contender.size)
    return listed(
        _with_sizes(ALL_IN_WORDS if method == ALL_FEATURES else method, asked)
        for method, asked in sizes.items()
    )


def _with_sizes(method: str, sizes: list[int | None]) -> str:
    if sizes == [None]:
        return method
    said = ["its own size" if size is None else number(size) for size in sizes]
    unit = " feature" if sizes[-1] == 1 else " features"
    return f"{method} ({', '.join(said)}{unit})"
