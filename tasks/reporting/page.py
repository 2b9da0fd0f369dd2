"""The report, whatever its form: its first screen, and its sections."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.storage.files import to_json
from chaffinch.tasks.reporting import changes, explanation, losses, origin
from chaffinch.tasks.reporting.alternatives import alternatives_of
from chaffinch.tasks.reporting.charts import bars_of
from chaffinch.tasks.reporting.content import ReportContent
from chaffinch.tasks.reporting.features import (
    dropped_candidates,
    features,
    kept_as_csv,
    kept_in_order,
)
from chaffinch.tasks.reporting.search import search_of
from chaffinch.tasks.reporting.section import (
    Bars,
    BarsBeside,
    Code,
    Link,
    ReportOf,
    Section,
    anchor_of,
    section,
)
from chaffinch.tasks.reporting.text import (
    costs_in_words,
    counted,
    explained_in_words,
    how_stable,
    made_from,
    number,
    numbers_alike,
    shorten_list,
    title_of,
    visible,
)
from chaffinch.tasks.reporting.why import ColumnReason, columns_of
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.verdict import FEWEST_UNITS

if TYPE_CHECKING:
    from jinja2 import Template

SHARED = Path(__file__).parent / "templates"  # the style, and how a table is set
_TABLES = (SHARED / "tables.js").read_text(encoding="utf-8")
# by which a content security policy allows this script, and no other
TABLES_HASH = f"sha256-{b64encode(sha256(_TABLES.encode()).digest()).decode()}"


@cache
def template(path: Path) -> Template:
    """Return a template, which may include its neighbours and what the reports share."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([path.parent, SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["code"] = lambda part: isinstance(part, Code)
    environment.tests["bars"] = lambda part: isinstance(part, Bars | BarsBeside)
    environment.tests["report"] = lambda part: isinstance(part, ReportOf)
    environment.tests["link"] = lambda part: isinstance(part, Link)
    environment.globals |= {
        "tables_policy": f"; script-src '{TABLES_HASH}'",
        # S704: a file of ours
        "tables_script": Markup(f"<script>{_TABLES}</script>"),  # noqa: S704
    }
    environment.filters |= {"anchor": anchor_of, "drawn": bars_of}
    return environment.get_template(path.name)


def _shown(value: Any) -> Any:
    """Show the control characters of a text; leave markup and all else as it is."""
    return visible(value) if type(value) in (str, Code) else value


_UNSEEN = {
    "test": "on rows that had no part in the choice",
    "out_of_fold": "on rows that had no part in the model or choice that predicts them",
}
_MEANING = {
    "better": "{dropped} of {all} features may be dropped: without them the model is better, "
    "{unseen}.",
    "as good with fewer columns": "{dropped} of {all} features may be dropped: without them the "
    "model loses no more than is tolerated, {unseen}.",
    "worse": "Keep all {all} features: without the {dropped} dropped ones the model is worse, "
    "{unseen}.",
    "cannot tell": "It is open whether {dropped} of {all} features may be dropped: without them "
    "the model is neither shown to be as good nor shown to be worse, {unseen}.",
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
_FIRST = ("accuracy", "roc_auc", "r2", "rmse")  # metrics of the first screen, besides the loss
_NAMED = 20  # features of the first screen, kept and dropped
_MAY_BE_DROPPED = ("better", "as good with fewer columns")  # verdicts
_CONSTRAINED = (
    "The constraints chose as well: the features were taken best first, each if the groups, the "
    "budget and the number of features still allowed it."
)
_PROMOTES = " puts the contract of a stored run in use."


@dataclass(frozen=True)
class Report:
    """What a report says."""

    run: str  # its name
    title: str
    made_from: str
    verdict: str
    meaning: str  # of the verdict, one of the sentences
    sentences: Sequence[str]
    tiles: Sequence[tuple[str, str, str]]  # name, with the kept features, and with all
    about_the_figures: Sequence[str | Link]
    summary: Sequence[tuple[list[str | Link], list[str]]]  # label and text of each line
    change: Sequence[str | Link] | None  # what a reselection changed
    columns: Sequence[ColumnReason]  # all of the table
    files: Mapping[str, tuple[str, str, bytes]]  # by label: name, kind and content
    sections: Sequence[Section]


def report_of(content: ReportContent) -> Report:
    """Return the report of a run."""
    verdict, part = content.contract.comparison.verdict, content.contract.judged_on
    if verdict not in _MEANING:
        raise ValueError(f"verdict must be one of {', '.join(_MEANING)} but is {verdict!r}")
    since, changed = "Since the former run", content.changes
    contract = to_json(content.contract.to_dict())
    return Report(
        run=content.run,
        title=title_of(content),
        made_from=made_from(content),
        verdict=verdict,
        meaning=_meaning(content, part),
        sentences=_sentences(content, part),
        tiles=_tiles(content),
        about_the_figures=_about_the_figures(content),
        summary=list(_summary(content)),
        change=None if changed is None else [Link(since, since), f": {changed['sentence']}"],
        columns=columns_of(content),
        files={
            "Kept features (CSV)": ("features.csv", "text/csv", kept_as_csv(content).encode()),
            "Contract (JSON)": ("selection.json", "application/json", contract),
        },
        sections=[made for made in _sections(content) if made.blocks],
    )


def _sections(content: ReportContent) -> Iterator[Section]:
    yield section("How sure the verdict is", losses.how_sure(content))
    yield section("Since the last promotion", changes.since_promotion(content))
    yield section("Since the former run", changes.since_the_former_run(content))
    yield section("Features", features(content))
    yield section("Importance of the kept features", explanation.importance(content))
    yield section(explanation.STAND_INS, explanation.stand_ins(content))
    yield section(*search_of(content))
    yield section("Losses", losses.losses(content))
    yield section("Predictions", explanation.predictions(content))
    yield section("How the size was chosen", losses.how_the_size_was_chosen(content))
    yield section("Alternatives", alternatives_of(content))
    yield section("Warnings about the data", origin.warnings(content))
    yield section("The data", origin.data(content))
    yield section("Tuning", origin.how_tuned(content))
    yield section("How to repeat it", origin.how_to_repeat_it(content))
    yield section("Time", origin.time(content))


def _sentences(content: ReportContent, part: str) -> list[str]:
    """Return the verdict and what it means; a leak comes first."""
    comparison = content.contract.comparison
    sentences = [_meaning(content, part), comparison.sentence]
    if comparison.leaks:
        sentences.reverse()
    if costs := costs_in_words(content.contract):
        sentences.append(costs)
    return [*sentences, _CONSTRAINED] if content.is_constrained else sentences


def _about_the_figures(content: ReportContent) -> list[str | Link]:
    part, n_warnings = losses.judged_part(content.contract), len(content.warnings)
    about = f"Figures of the {part} rows with the kept features, and with all. "
    about += how_stable(content.contract)
    if not n_warnings:
        return [about]
    warned = f"{counted(n_warnings, 'warning')} about the data"
    return [f"{about} ", Link(warned, "Warnings about the data"), "."]


def _summary(content: ReportContent) -> Iterator[tuple[list[str | Link], list[str]]]:
    """Yield label and text of the lines on features, the model, and what is promoted."""
    order = "by rank" if content.has_steps else "most probable first" if content.scores else ""
    kept = shorten_list((feature.name for feature in kept_in_order(content)), _NAMED)
    yield [Link("Kept", "Features"), f", {order}" if order else ""], [f"{kept}."]
    if content.n_kept < content.n_candidates:
        label = "May be dropped"
        if content.contract.comparison.verdict not in _MAY_BE_DROPPED:
            label = "Dropped"
        closest = ", closest to being kept first" if order else ""
        dropped = shorten_list(dropped_candidates(content), _NAMED)
        yield [Link(label, "Features"), closest], [f"{dropped}."]
    if explained := explained_in_words(content.contract):
        yield [Link("Explained", "Losses")], [explained]
    if (promoted := content.promoted) is not None:
        since = "Since the last promotion"
        brief, command = changes.summarise_promotion(promoted), []
        if promoted["run"] is None and not (promoted.get("damage") or promoted.get("target")):
            name = "" if promoted["name"] else " --name NAME"
            command = [" ", Code(f"chaffinch promote RUN{name}"), _PROMOTES]
        yield [Link(since, since) if promoted["run"] else since], [brief, *command]


def _tiles(content: ReportContent) -> list[tuple[str, str, str]]:
    """Return the figures of the first screen: name, with the kept features, and with all."""
    contract = content.contract
    metrics = {METRICS[name]: metric for name, metric in contract.metrics.items() if name in _FIRST}
    loss = loss_in_words(contract.loss)
    figures = {**metrics, f"{loss[0].upper()}{loss[1:]}": contract.judged_losses}
    kept = ("Features kept", number(content.n_kept), f"of {number(content.n_candidates)}")
    pairs = {
        name: numbers_alike(figure.selected, figure.all_features)
        for name, figure in figures.items()
    }
    return [
        kept,
        *((name, ours, f"{with_all} with all") for name, (ours, with_all) in pairs.items()),
    ]


def _meaning(content: ReportContent, part: str) -> str:
    comparison, n_all = content.contract.comparison, content.n_candidates
    if comparison.leaks:
        return _RESTS_ON_A_LEAK
    over_constant = comparison.all_features_over_constant
    if over_constant is not None and comparison.is_nothing_to_select_from:
        return _NOT_SHOWN_BETTER if over_constant[0] < 0 else _NO_BETTER_THAN_CONSTANT
    if content.n_kept == n_all:
        return _NOTHING_REMOVED
    if comparison.units < FEWEST_UNITS:
        return _TOO_FEW_UNITS
    if comparison.interval is not None and not any(comparison.interval):
        return _THE_SAME
    numbers = {"dropped": number(n_all - content.n_kept), "all": number(n_all)}
    return _MEANING[comparison.verdict].format(unseen=_UNSEEN[part], **numbers)
