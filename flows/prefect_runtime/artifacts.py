"""Artifacts of a run in the Prefect UI: progress, verdict, tables and charts."""

import base64
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast
from uuid import UUID

from prefect import get_run_logger
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import ArtifactUpdate

from chaffinch.errors import printable
from chaffinch.flows.cli.terminal import Showing
from chaffinch.flows.prefect_runtime.reports import report_in_markdown
from chaffinch.storage.runs.store import Run, Store
from chaffinch.tasks.contract import PartLoss
from chaffinch.tasks.pipeline.progress import STEPS, Estimate, RunProgress
from chaffinch.tasks.pipeline.report import elimination_image, overlap_image
from chaffinch.tasks.promotion.difference import Difference
from chaffinch.tasks.reporting.forms import literal
from chaffinch.tasks.reporting.losses import (
    DIFFERENCE_OF_METRICS,
    class_shares,
    difference_of_metric,
    judged_part,
)
from chaffinch.tasks.reporting.section import Table
from chaffinch.tasks.reporting.text import stability_in_words, summarise_verdict
from chaffinch.tasks.results.history import history_of
from chaffinch.tasks.results.history_page import last_runs
from chaffinch.tasks.results.result import SelectionResult, prices_of
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.stage_titles import title_of
from chaffinch.tasks.statistics.metrics import METRICS
from chaffinch.tasks.statistics.verdict import part_in_words

_NOTHING_SHOWN = Showing()
_shown: ContextVar[Showing] = ContextVar("shown", default=_NOTHING_SHOWN)

_SECONDS_BETWEEN_UPDATES = 1.0
_NIGHTS = 14  # that the history in the UI shows
_MOST_RUNS = 200  # of all data sets, among which they are looked for: 2 ms each


@contextmanager
def watching(shown: Showing) -> Iterator[None]:
    """Forward progress, messages and warnings of flows called in the block to these functions."""
    token = _shown.set(shown)
    try:
        yield
    finally:
        _shown.reset(token)


def say(line: str) -> None:
    """Send a message to the log of the present flow run, and to `watching`."""
    get_run_logger().info(printable(line))
    _shown.get().say(line)


def log_warnings(warnings: Sequence[str]) -> None:
    """Send data-quality warnings to the log of the present flow run."""
    for warning in warnings:
        get_run_logger().warning(printable(warning))


def warn(warnings: Sequence[str]) -> None:
    """Send data-quality warnings to the log of the present flow run, and to `watching`."""
    log_warnings(warnings)
    _shown.get().warn(warnings)


def key_of(data_set: str, kind: str) -> str:
    """Return the key of an artifact, such as ``orders-verdict``: small letters, digits, dashes.

    The UI shows artifacts with the same key as versions: those of a data set, night by night.
    """
    return re.sub(r"[^a-z0-9]+", "-", f"{data_set} {kind}".lower()).strip("-")


class ProgressArtifact(RunProgress):
    """Progress in the flow run's progress artifact, and passed on to `watching`."""

    def __init__(self, key: str, title: str, steps: Sequence[str] = STEPS) -> None:
        super().__init__(steps)
        self._title = title
        self._watching = _shown.get().on_progress
        self._updated = time.monotonic()
        created = create_progress_artifact(progress=0.0, key=key, description=f"{title}: starting")
        self._id = cast(UUID, created)  # a coroutine only with an event loop

    def __call__(self, stage: str, done: int, total: int) -> None:
        self._watching(stage, done, total)
        super().__call__(stage, done, total)

    def end(self, stage: str, seconds: float | None) -> None:
        self._watching.end(stage, seconds)
        super().end(stage, seconds)

    def expect(self, estimate: Estimate, warning: str = "") -> None:
        self._watching.expect(estimate, warning)
        super().expect(estimate, warning)

    def on_warning(self, warning: str) -> None:
        get_run_logger().warning(printable(warning))

    def on_change(self) -> None:
        is_done = self.share == 1
        if not is_done and time.monotonic() - self._updated < _SECONDS_BETWEEN_UPDATES:
            return
        self._updated = time.monotonic()
        words = [title_of(self.now)] if self.now is not None else []
        now = ", ".join(filter(None, [*words, self.items, self.left]))
        update_progress_artifact(
            self._id,
            progress=100 * self.share,
            description=f"{self._title}: {'done' if is_done else now}",
        )


def summary_line(result: SelectionResult) -> str:
    """Return the verdict on a result in a few words."""
    return summarise_verdict(result.contract)


def publish(
    run: Run,
    result: SelectionResult,
    data_set: str,
    governance: Sequence[str] = (),
    difference: Difference | None = None,
) -> UUID:
    """Publish a result in the UI: the verdict, losses, metrics, features and charts."""
    verdict = create_markdown_artifact(
        _verdict(result, governance),
        key=key_of(data_set, "verdict"),
        description=summary_line(result),
    )

    def rounded(losses: PartLoss) -> dict[str, float]:  # selection.json has all digits
        figures = {"all features": losses.all_features, "selected": losses.selected}
        return {name: float(f"{figure:.6g}") for name, figure in figures.items()}

    contract = result.contract
    of_parts = contract.losses.items()
    create_table_artifact(
        [{"part": part_in_words(part), **rounded(losses)} for part, losses in of_parts],
        key=key_of(data_set, "losses"),
        description=f"Loss ({loss_in_words(contract.loss)}) of each part of the rows",
    )
    metrics = [
        {
            "metric": METRICS.get(name, name),
            **rounded(metric),
            "constant": float(f"{metric.constant:.6g}"),
            DIFFERENCE_OF_METRICS.lower(): difference_of_metric(metric),
        }
        for name, metric in contract.metrics.items()
    ]
    about = f"Metrics of the {judged_part(contract)} rows"
    if shares := class_shares(contract):
        about += f". {literal(shares)}"
    create_table_artifact(metrics, key=key_of(data_set, "metrics"), description=about)
    shares = None if result.stability is None else result.stability["share_of_folds"]
    ranked = result.to_frame().sort_values(["kept", "rank"], ascending=[False, True])
    features = [
        {
            "feature": feature["feature"],
            "rank": int(feature["rank"]),
            "kept": bool(feature["kept"]),
            "removed at step": int(feature["step"])
            if feature["step"] and not feature["kept"]
            else None,
            **({} if shares is None else {"share of folds": shares[feature["feature"]]}),
        }
        for feature in ranked.to_dict("records")
    ]
    create_table_artifact(
        features,
        key=key_of(data_set, "features"),
        description="Every feature, the kept ones first, each by rank",
    )
    if (prices := prices_of(result)) is not None:
        about = "What other numbers of features lose, beside all of them; `chaffinch at "
        about += f"{result.run} K` makes K features the choice"
        _publish_table(prices, key_of(data_set, "prices"), about)
    _publish_charts(run, result, data_set, difference)
    return cast(UUID, verdict)  # a coroutine only with an event loop


def _publish_table(table: Table, key: str, about: str) -> None:
    rows = [dict(zip(table.columns, map(str, row), strict=True)) for row in table.rows]
    create_table_artifact(rows, key=key, description=about)


def _publish_charts(
    run: Run, result: SelectionResult, data_set: str, difference: Difference | None
) -> None:
    charts = {
        "elimination curve": (
            elimination_image(run),
            "Loss by the number of features left; the axis names the rows",
        ),
        "set overlap": (
            overlap_image(_sets(result, difference)),
            "Which features the chosen set shares with what is promoted, and with alternatives",
        ),
    }
    for kind, (image, description) in charts.items():
        if image is not None:
            coded = base64.b64encode(image).decode()
            # as markdown, since the UI prints the whole data URL of an image artifact
            image_in_markdown = f"![{kind}](data:image/svg+xml;base64,{coded})"
            create_markdown_artifact(
                image_in_markdown, key=key_of(data_set, kind), description=description
            )


def _sets(result: SelectionResult, difference: Difference | None) -> dict[str, list[str]]:
    """Return the chosen feature set and those to compare it with."""
    sets = {"chosen": result.features}
    if difference is not None:
        stayed = [name for name in result.features if name not in difference.gained]
        sets["promoted"] = [*stayed, *difference.lost]
    others = () if result.alternatives is None else result.alternatives["sets"]
    numbered = enumerate(others, start=1)
    return sets | {
        f"alternative {place}": alternative["features"] for place, alternative in numbered
    }


def publish_history(run: Run, data_set: str) -> None:
    """Publish the last runs of a run's data set in the UI: what each night found and needed."""
    history = history_of(Store.of(run.folder), _MOST_RUNS)
    # none for a run that was started again, and is older than these
    for name in {row.data_set for row in history.rows if row.run == run.name}:
        about = "The last runs of this data set, newest first, and what changed between "
        about += f"them; `chaffinch history {name}` has all"
        _publish_table(last_runs(history, name, _NIGHTS), key_of(data_set, "history"), about)


def publish_again(artifact: UUID, result: SelectionResult, governance: Sequence[str]) -> None:
    """Update the governance lines of the verdict that `publish` returned."""
    with get_client(sync_client=True) as client:
        client.update_artifact(artifact, ArtifactUpdate(data=_verdict(result, governance)))


def _verdict(result: SelectionResult, governance: Sequence[str]) -> str:
    changes = [] if result.changes is None else [result.changes["sentence"]]
    compared = [literal(line) for line in governance]
    warnings = warnings_in_markdown(result.warnings)
    report = [] if result.folder is None else [report_in_markdown(result.folder)]
    stability = stability_in_words(result.contract)
    stable = [] if stability is None else [stability]
    return "\n\n".join([*changes, result.verdict, *stable, *compared, *warnings, *report])


def warnings_in_markdown(warnings: Sequence[str]) -> list[str]:
    return [f"**Warning:** {literal(warning)}" for warning in warnings]
