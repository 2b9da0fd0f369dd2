"""What a comparison lacks, and why, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaffinch.tasks.comparing.outcomes import TableSummary
from chaffinch.tasks.comparing.planned import Contender
from chaffinch.tasks.comparing.ranking import is_ranked
from chaffinch.tasks.comparing.results import ALL
from chaffinch.tasks.comparing.summary import Summary
from chaffinch.tasks.comparing.wording import grouped, heading_of, name_of, without_figures
from chaffinch.tasks.reporting.wording import counted, listed, number


def gaps_of(summary: Summary) -> list[str]:
    """Return what is not there, and why as far as the results say."""
    said = []
    n_lacking = summary.n_missing + summary.n_failed
    if n_lacking:
        said.append(
            f"{number(n_lacking)} of {number(summary.n_planned)} losses were not "
            "computed. What is compared is compared over the cells that all concerned have."
        )
    said += _not_reached(summary)
    for table in summary.tables:
        everyone = table.contenders
        few = [
            outcome.contender
            for outcome in table.outcomes
            if outcome.n_scored and not outcome.is_compared
        ]
        if few:
            said.append(
                f"{heading_of(table)}: too few cells to be ranked or on the Pareto front: "
                f"{grouped(few, everyone)}."
            )
        if not is_ranked(table) and table.rivals:
            said.append(f"{heading_of(table)}: not in the ranks, {_why_not_ranked(table)}.")
    return said


def _why_not_ranked(table: TableSummary) -> str:
    """Return why a table has no part in the ranks."""
    alone = [outcome.contender for outcome in table.outcomes if outcome.n_scored]
    if alone:
        return f"since losses are there of {name_of(alone[0], table.contenders)} alone"
    return "since everything failed there" if table.n_failed else "since nothing was measured there"


def _not_reached(summary: Summary) -> Iterator[str]:
    """Yield which tables and models nothing was measured of: each by itself, then in pairs."""
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
    """Yield who was not asked for sizes, and with which models those who were are not ranked."""
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
    """Yield what went wrong, one line for each error on a table with a model.

    Errors that differ in their figures alone are one, of which the first is shown.
    """
    for table in summary.tables:
        everyone = table.contenders
        alike: dict[str, list[tuple[Contender, str, int]]] = {}
        for found in table.errors:
            alike.setdefault(without_figures(found[1]), []).append(found)
        for errors in alike.values():
            n_cells: dict[Contender, int] = {}
            for contender, _, n in errors:
                n_cells[contender] = n_cells.get(contender, 0) + n
            others = {said for _, said, _ in errors} - {errors[0][1]}
            such_as = ", for reasons that differ in figures alone, such as" if others else ""
            # without a size it is the whole method that failed, and no size of it is told apart
            whole = {contender.method for contender in n_cells if contender.size is None}
            told_apart = [c for c in everyone if c.size is None or c.method not in whole]
            yield (
                f"{heading_of(table)}: {grouped(list(n_cells), told_apart)} failed in "
                f"{_cells_each(list(n_cells.values()))}{such_as}: {errors[0][1]}"
            )


def _cells_each(n_cells: Sequence[int]) -> str:
    """Return in how many cells each of some contenders failed."""
    fewest, most = min(n_cells), max(n_cells)
    if fewest < most:
        return f"{number(fewest)} to {counted(most, 'cell')} each"
    return counted(most, "cell") + (" each" if len(n_cells) > 1 else "")
