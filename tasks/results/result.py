"""The result of a selection: a frozen record for all methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.column_names import names_in_array, text_of_label
from chaffinch.storage.files import file_to_write, path_from, to_json, write_file
from chaffinch.storage.runs.decisions import needed_decision
from chaffinch.storage.runs.stages import StageRecord
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.memory import computed_by
from chaffinch.storage.sources.source import AllBut
from chaffinch.storage.sources.streams import StreamSource
from chaffinch.tasks.data.date_features import with_date_features
from chaffinch.tasks.data.lag_features import hint_for_missing
from chaffinch.tasks.pipeline.ingestion import parts_in_order
from chaffinch.tasks.pipeline.progress import OnProgress, steps_of
from chaffinch.tasks.pipeline.progress.display import shown
from chaffinch.tasks.pipeline.report import REPORT_FILE, content_of, report_files
from chaffinch.tasks.pipeline.run import select_at
from chaffinch.tasks.pipeline.selection_run import (
    CONTRACT_FILE,
    SelectionRun,
    StageResults,
    model_files,
    part_of_rows,
)
from chaffinch.tasks.reporting import ReportContent
from chaffinch.tasks.reporting.search import price_list
from chaffinch.tasks.reporting.section import Table
from chaffinch.tasks.reporting.why import ColumnReason, columns_of, rank_of_each
from chaffinch.tasks.results.alternatives import ScoredAlternatives
from chaffinch.tasks.results.contract import FeatureContract
from chaffinch.tasks.results.model import SelectedModel, check_there
from chaffinch.tasks.results.notebook import as_html, draw_curve
from chaffinch.tasks.selection.core import Mask
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.method import declared
from chaffinch.tasks.settings.search_result import step_of_each
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.statistics.verdict import judged_on
from chaffinch.tasks.warnings import warn_of_data

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def prices_of(result: SelectionResult) -> Table | None:
    """Return what about eight numbers of features cost; None where the search knows no prices."""
    curve, tolerance = result.curve.to_dict("records"), result.settings.get("tolerance", 0.0)
    return price_list(curve, len(result.features), tolerance)


def summary(run: Run) -> dict[str, Any]:
    """Return a run as a row of a catalog; results of stages that are not finished are None.

    Only manifests, contracts and notes of decisions are read, so that many runs are listed quickly.
    The state is "finished", "refused" (by a stage), "unfinished" (waiting, failed or running), or
    "damaged" if a manifest or the contract is.
    """
    stages, undecided, state = _readable(run)
    try:
        to_do = None if state else next_stage(run, stages)
    except (LookupError, TypeError):  # settings of another form
        stages, to_do, state = {}, None, "damaged"
    results = {name: record.result for name, record in stages.items()}
    evaluated, chosen = results.get("evaluate"), results.get("choose_mask")
    part = judged_on(evaluated) if evaluated else None
    losses = evaluated["losses"][part] if evaluated else {}
    return {
        "run": run.name,
        "created": run.created,
        "target": None if state else run.description["settings"]["target"],
        "state": state or (to_do and ("refused" if run.refusal else "unfinished")) or "finished",
        "next_stage": to_do,
        "kept": sum(chosen["mask"]) if chosen else None,
        "candidates": len(chosen["mask"]) if chosen else None,
        "loss": results["train_base_model"]["loss"] if "train_base_model" in results else None,
        "judged_on": part,
        "loss_all_features": losses.get("all_features"),
        "loss_selected": losses.get("selected"),
        "verdict": evaluated["comparison"]["verdict"] if evaluated else None,
        "needs_decision": undecided or None,
    }


def is_unfinished_comparison(comparison: Run) -> bool:
    """Return whether a comparison has begun but not ended; False if it is damaged."""
    stages, _, state = _readable(comparison)
    return state is None and "conclude" not in stages


def _readable(run: Run) -> tuple[dict[str, StageRecord], str, str | None]:
    """Return a run's records and needed decision, or "damaged": a listing names every run."""
    try:
        _ = run.description
        records = {record.stage: record for record in run.records()}
        if "evaluate" in records:
            records["evaluate"].read(CONTRACT_FILE)
        return records, needed_decision(run), None
    except StorageError:
        return {}, "", "damaged"


def next_stage(run: Run, stages: Mapping[str, StageRecord]) -> str | None:
    """Return the first stage of a run that is not recorded; None if the run is finished."""
    settings = run.description["settings"]
    steps = steps_of(
        with_alternatives=settings.get("alternatives") is not None,
        with_changes=settings["method"]["kind"] == "reselect",
    )
    # ingestion is no stage: the dataset is its record
    return next((step for step in steps[1:] if step not in stages), None)


@dataclass(frozen=True, repr=False)
class SelectionResult:
    """The features worth keeping, the model retrained on them, and the evidence for them.

    Attributes
    ----------
    features : list of str
        Kept features, in the table's order; a new list each time. After `select` and `reselect` of
        a pandas table they are its own labels, also numbers; a run that is loaded, and everything
        else but `candidates` and `scores`, names columns by text.
    candidates : list of str, length d
        All candidate features, sorted by name; likewise.
    mask : ndarray of bool, shape (d,)
        Which of `candidates` are kept.
    steps : ndarray of int, shape (d,)
        Step of the elimination path at which each candidate is removed, from 1; 0 for those that
        outlast the path, and for all if the path has no single features. The later, the more
        useful.
    path : pandas.DataFrame
        One row per step: step, feature, loss, features_left. A ranking has the feature's score in
        place of the loss. A search that finds whole masks has one row per mask, with all features
        of the mask. AFS-BM has one row per round, with the features tried, put back and masked for
        good, and the losses; a limit on the number of features can mask features put back. PEFS has
        one row per sweep of each search, with the probability of every feature.
    scores : dict or None
        Score of each candidate for a ranking, higher is better; for PEFS its probability, unless
        nothing was searched.
    losses : dict
        Part -> ``{"all_features": loss, "selected": loss}``, of models fitted on the training and
        mask-validation parts.
    comparison : dict
        Difference of the two losses on the rows that judge, its interval, and the verdict: one of
        ``"better"``, ``"as good with fewer columns"``, ``"worse"`` and ``"cannot tell"``, and a
        sentence.
    alternatives : ScoredAlternatives or None
        The content of ``alternatives.json``, a dictionary, if alternatives were requested:
        ``"sets"`` has the features, quality, proof and test loss of each. Shown as a table.
    changes : dict or None
        The content of ``changes.json``, of a reselection: the features that left or returned, their
        effect on the test loss, and whether to change.
    warnings : tuple of str
        Data-quality warnings, one sentence each: a feature that predicts the target alone, rows
        that occur twice.
    notes : tuple of str
        What the settings did as intended: the leaks that ``drop_leaks`` left out, or that the keep
        list vouches for. Also a feature that alone explains more than 99 % of what all explain,
        where that is nearly everything.
    seconds : float
        Total duration of the stages, in all processes.
    seed : int
        The random seed.
    settings : dict
        All settings that can change the result.
    versions : dict
        Versions of the libraries that compute.
    contract : FeatureContract
        The content of ``selection.json``; lists the columns a source must give, and checks tables.
    run : str
        Name of the run.
    folder : Path or None
        Folder of the run; None without a store.
    """

    mask: Mask
    steps: np.ndarray[Any, np.dtype[np.int64]]
    path: pd.DataFrame
    scores: dict[str, float] | None
    losses: dict[str, dict[str, float]]
    comparison: dict[str, Any]
    alternatives: ScoredAlternatives | None
    changes: dict[str, Any] | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    seed: int
    settings: dict[str, Any]
    versions: dict[str, str]
    contract: FeatureContract
    run: str
    folder: Path | None
    _features: tuple[Any, ...]
    _candidates: tuple[Any, ...]
    _model: SelectedModel | Mapping[str, bytes]
    _report: Mapping[str, bytes] | ReportContent  # forms by the names of their files
    _part: pa.Array | StageRecord
    _curve: tuple[Mapping[str, Any], ...]
    _trusted: tuple[str, ...] = ()
    _explanation: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        warned = f", warnings={list(self.warnings)!r}" if self.warnings else ""
        noted = f", notes={list(self.notes)!r}" if self.notes else ""
        metrics = {key: float(f"{metric['selected']:.4g}") for key, metric in self.metrics.items()}
        return (
            f"SelectionResult(run={self.run!r}, features={self.features!r}, "
            f"metrics={metrics}, verdict={self.verdict!r}{warned}{noted})"
        )

    def _repr_html_(self) -> str:
        import pandas as pd

        kept = f"{len(self.features)} of {len(self.candidates)} features kept"
        tables, names = [], ("all_features", "selected", "constant")
        if self.metrics:
            rows = [(name, *map(metric.get, names)) for name, metric in self.metrics.items()]
            tables.append(pd.DataFrame(rows, columns=["metric", *names]))
        table = self.to_frame()
        table = table[table["kept"]].drop(columns="kept")
        if (importance := self.importance) is not None:
            price = importance.set_index("feature")["price"]
            table.insert(1, "price", table["feature"].map(price))
        tables.append(table.sort_values("rank"))
        if prices := prices_of(self):
            tables.append(pd.DataFrame(prices.rows, columns=[*prices.columns]))
        return as_html(kept, [self.verdict], *tables, warnings=self.warnings, notes=self.notes)

    # New lists: pandas takes a tuple for a single name, and a user may change a list.
    @property
    def features(self) -> list[Any]:
        """Kept features, in the table's order."""
        return list(self._features)

    @property
    def candidates(self) -> list[Any]:
        """All candidate features, sorted by name."""
        return list(self._candidates)

    def parts(self, data: Any) -> pd.Series[str]:
        """Return which part each row of the run's table was in, by the table's own index.

        Parameters
        ----------
        data : path or address, or pandas, polars or Arrow table
            The table that the features were selected from, with its rows in any order.

        Returns
        -------
        pandas.Series, shape (n,)
            ``"train"``, ``"mask_validation"``, ``"model_validation"`` or ``"test"``; missing for
            rows that an embargo leaves out.

        Raises
        ------
        InputError
            If the table has other rows or columns.
        """
        import pandas as pd

        part = self._part if isinstance(self._part, pa.Array) else part_of_rows(self._part)
        settings = SelectionSettings(**self.settings)
        parts = parts_in_order(source_of(data), settings, self.contract.dataset.hash, part)
        index = data.index if isinstance(data, pd.DataFrame) else None
        return pd.Series(parts.cast(pa.string()).to_pandas().to_numpy(), index, name="part")

    @property
    def verdict(self) -> str:
        """The verdict in a sentence with figures."""
        return str(self.comparison["sentence"])

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Metrics of the rows that judge, in addition to the loss; no decision uses them.

        Returns
        -------
        dict
            ``"r2"``, ``"rmse"`` and ``"mae"`` of a regression; ``"accuracy"``,
            ``"balanced_accuracy"``, ``"roc_auc"`` and ``"log_loss"`` of a classification. Each has
            the value with ``"all_features"``, of the ``"selected"`` ones and of a ``"constant"``
            prediction, the ``"difference"`` of selected less all, and for errors the
            ``"difference_percent"`` of that with all features. Undefined metrics are left out;
            contracts of earlier releases have none.
        """
        return {name: metric.model_dump() for name, metric in self.contract.metrics.items()}

    @property
    def class_shares(self) -> dict[str, float]:
        """Share of each class in the rows that judge; empty for a regression."""
        return dict(self.contract.class_shares)

    @property
    def stability(self) -> dict[str, Any] | None:
        """How far the outer folds of method ``auto`` agree on the features.

        Returns
        -------
        dict or None
            ``"index"``, Nogueira's index of stability: 1 if all folds keep the same features, 0 as
            by chance, None where it is undefined, as for folds that all keep every feature;
            ``"n_folds"``; and ``"share_of_folds"``, the share of the folds that keep each
            candidate. Folds share rows, so that sets of other rows may agree less. None where
            folds did not choose, and in contracts of earlier releases.
        """
        stability = self.contract.stability
        return None if stability is None else stability.model_dump()

    @property
    def importance(self) -> pd.DataFrame | None:
        """How much the loss rises without a kept feature, on rows that judge.

        The feature is masked or, with ``price_columns``, models are fitted without it.

        Returns
        -------
        pandas.DataFrame or None
            ``feature``, its ``price``, the upper bound of what the model then explains less, as a
            share of what it explains beyond a constant; the ``rise`` of the loss, and the ends
            ``low`` and ``high`` of its interval; largest rise first. At most 200 features, on at
            most 2,000 rows if masked. Intervals and prices hold for all features together, at
            95 %; they are missing where the loss is a scorer or rows are few. Without a test part
            they are widened as the verdict's interval is, by 1.5 for five folds, because the folds
            share the rows that their models are fitted on (Nadeau and Bengio 2003). Features of a
            group with ``all_or_none`` each have the figures of the group. A model fitted
            without a feature mostly loses less than with it masked. Features that share
            information can each have a small rise. None in runs of earlier releases.
        """
        import pandas as pd

        if self._explanation is None:
            return None
        known = {text_of_label(name): name for name in self._features}
        rows = [
            (
                known[rise["feature"]],
                rise.get("price"),
                rise["rise"],
                *(rise["interval"] or (None, None)),
            )
            for rise in self._explanation["importance"]["features"]
        ]
        columns = dict.fromkeys(("price", "rise", "low", "high"), float)
        return pd.DataFrame(rows, columns=["feature", *columns]).astype(columns)

    @property
    def ranks(self) -> dict[Any, int]:
        """Rank of each candidate, from 1 for the most useful to d.

        The later the search removes a feature, the better its rank; what it never removes is best.
        Without steps, the higher score is better. Candidates that these do not order stand kept
        ones first, then by name. Those of the keep list stand after the others that are kept.
        """
        step_of = {
            name: int(step) for name, step in zip(self._candidates, self.steps, strict=True) if step
        }
        listed = self.settings["columns"].get("keep", ())
        return rank_of_each(self._candidates, self.mask.tolist(), step_of, self.scores, listed)

    @property
    def costs(self) -> dict[str, Any] | None:
        """What the features cost, by the costs of the constraints.

        Returns
        -------
        dict or None
            ``"kept"`` and ``"all"``, the costs of the kept and of all features, and
            ``"loss_per_cost_saved"``, by how much the loss on the rows that judge rises for each
            unit of cost saved: below 0 if it falls, None if nothing is saved. None without costs.
        """
        costs = self.contract.costs
        return None if costs is None else costs.model_dump()

    @cached_property
    def model(self) -> SelectedModel:
        """The model retrained on the kept features; predicts from tables."""
        if isinstance(self._model, SelectedModel):
            return self._model
        return SelectedModel.from_contract(self.contract, self._model, self._trusted)

    def transform(self, table: Any) -> Any:
        """Return the kept columns of a table, as the same kind of table.

        Parameters
        ----------
        table : pandas, polars or Arrow table, or array
            Must have every kept feature, or the dates that it is a part of; other columns are left
            out. The columns of an array are named x0, x1, ... A lazy table stays lazy; the rows of
            a reader of batches, a data set or a relation of DuckDB are returned as an Arrow table.

        Raises
        ------
        InputError
            If a kept feature is missing, or the table is of another kind; and if a lazy table has
            dates of which a kept feature is a part.
        """
        features = tuple(map(text_of_label, self._features))
        if isinstance(table, np.ndarray) and table.ndim == 2:
            names = names_in_array(table.shape[1])
            check_there(features, names)
            return table[:, np.isin(names, features)]
        return kept_columns(table, features, self.contract.made_of, self.contract.zones)

    def report(self, path: str | Path) -> Path:
        """Write the report, and return its path.

        It is one self-contained HTML file; JSON for programs if the path ends with ``.json``, and
        Markdown for tickets if it ends with ``.md``.

        Raises
        ------
        InputError
            If the run is of an earlier release, which wrote HTML alone, or the path cannot be
            written.
        """
        destination, report = path_from(path, "the report"), self._report
        file = file_to_write(destination, "the report")
        forms = report_files(report) if isinstance(report, ReportContent) else report
        form = f"report{destination.suffix.lower()}"
        name = form if form in ("report.json", "report.md") else REPORT_FILE
        if name not in forms:
            raise InputError(
                f"run {self.run!r} is of an earlier release, which wrote no {name}; give a path "
                "that ends with .html, or select again"
            )
        write_file(file, forms[name])
        return destination

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate: feature, kept, rank, step, and score if there are any."""
        import pandas as pd

        ranks = self.ranks
        columns = {
            "feature": self.candidates,
            "kept": self.mask,
            "rank": [ranks[name] for name in self.candidates],
            "step": self.steps,
        }
        if self.scores is not None:
            columns["score"] = [self.scores[name] for name in self.candidates]
        return pd.DataFrame(columns)

    def why(self) -> pd.DataFrame:
        """Say of every column of the table why it was kept, dropped or left out.

        Returns
        -------
        pandas.DataFrame
            ``column``, named by text; ``state``, ``"kept"``, ``"dropped"`` (it took part in the
            search), ``"left out"`` (it did not) or another role, such as ``"target"``; ``why``, a
            sentence; and what is known of ``type``, ``distinct`` values, the share that is
            ``missing``, ``minimum``, ``mean``, ``maximum``, the ``most_frequent`` category,
            ``counts`` of rows (in 12 intervals of equal width, or of the most frequent
            categories), ``association`` with the target alone (0 to 1), the ``group`` of near
            copies, named by the column that stands for it, ``rank``, ``share_of_folds``; and of
            kept columns the ``price``, ``price_by`` (``"masking"`` or ``"refits"``), ``loss_rise``
            and ``loss_rise_interval``, as in `importance`, and ``price_together``, the columns of
            a group with ``all_or_none`` that they are of. Kept columns come first, each kind by
            rank.
        """
        import pandas as pd

        if isinstance(self._report, ReportContent):
            columns = columns_of(self._report)
        else:
            columns = reasons_of(Run(cast(Path, self.folder)))  # a kept run has one
        return pd.DataFrame([asdict(column) for column in columns])

    @property
    def curve(self) -> pd.DataFrame:
        """The loss at each number of features that was tried, from all features down.

        Returns
        -------
        pandas.DataFrame
            ``n_features`` and ``loss``. For methods with folds it is the mean over the folds, with
            its ``standard_error``; for a walk of removals, the loss of the masks on the way; for
            other methods, the model-validation loss of the candidates. Method ``auto`` has the
            price of each size, beside all features: the ``difference`` of the losses, which the
            standard error is of; the ``share_lost`` of what all features explain beyond a constant;
            and ``share_lost_at_most``, its upper bound at 95 %, for a size that was not picked by
            these figures. NaN where all features explain nothing. `at` makes any size the choice.
        """
        import pandas as pd

        return pd.DataFrame(self._curve).sort_values("n_features", ascending=False)

    def at(self, n_features: int, *, verbose: bool | OnProgress | None = None) -> SelectionResult:
        """Make another size of the `curve` the choice, with its own verdict and contract.

        The folds order the features as before, each cut at this size. The models have the tuned
        hyper-parameters of this result. The run is kept in the store, beside that of this result,
        and can be promoted.

        Parameters
        ----------
        n_features : int in 1..d
            How many features to keep; any size, also one that is not in the curve.
        verbose : bool or callable, optional
            As in `select`.

        Returns
        -------
        SelectionResult

        Raises
        ------
        InputError
            If the result is not of method ``auto`` or without a store, its model is an estimator of
            your own, or so many features cannot be kept.

        Warns
        -----
        DataQualityWarning
            For each entry of the result's `warnings`.

        Examples
        --------
        >>> import chaffinch
        >>> from sklearn.datasets import load_diabetes
        >>> table = load_diabetes(as_frame=True).frame
        >>> result = chaffinch.select(table, "target", model="linear", store="store")
        >>> [len(result.at(k).features) for k in (2, 3)]
        [2, 3]
        """
        if self.folder is None:
            raise InputError(
                "the result is in memory only, without its rows; give select a store, or select "
                f"again with method=Auto(n_features={n_features}, exactly=True)"
            )
        with shown(steps_of(), verbose) as progress:
            run = select_at(
                Run(self.folder),
                n_features,
                ExecutionSettings(cluster="none"),
                on_progress=progress,
                warn=warn_of_data,
            )
        labels = dict(zip(self.contract.candidates, self._candidates, strict=True))
        return load_result(run, self._trusted, labels)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the `curve`, and the number of features kept.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.

        Returns
        -------
        matplotlib.axes.Axes
        """
        return draw_curve(self.curve, len(self.features), loss_in_words(self.contract.loss), ax)


def _curve(
    path: pa.Table, results: Mapping[str, Mapping[str, Any]], n_candidates: int
) -> Iterator[dict[str, Any]]:
    """Yield numbers of features with their losses; see `SelectionResult.curve`."""
    searched = results["optimise_mask"]
    is_walk = {"feature", "loss", "features_left"} <= {*path.column_names}
    if "sizes" in searched:
        yield from searched["sizes"]
    elif is_walk:
        yield {"n_features": n_candidates, "loss": searched["unmasked_loss"]}
        for step in path.select(["features_left", "loss"]).to_pylist():
            yield {"n_features": step["features_left"], "loss": step["loss"]}
    else:
        for candidate in results["choose_mask"]["candidates"]:
            yield {
                "n_features": candidate["n_features"],
                "loss": candidate["model_validation_loss"],
            }


def kept_columns(
    table: Any,
    features: tuple[str, ...],
    made_of: Mapping[str, str],
    zones: Mapping[str, bool],
) -> Any:
    """Return the kept columns of a table; see `SelectionResult.transform`."""
    if hasattr(table, "collect_schema"):  # of polars, whose lazy tables warn of `columns`
        columns = table.collect_schema().names()
    else:
        if (stream := StreamSource.of(table, None)) is not None:
            table = stream.load((), ())
        columns = getattr(table, "column_names", None) or getattr(table, "columns", None)
    if columns is None or not hasattr(table, "__getitem__"):
        raise InputError(
            f"a table must be a pandas, polars or Arrow one but is a {type(table).__name__}"
        )
    # pandas has labels that are no text
    place = {text_of_label(label): at for at, label in enumerate(columns)}
    levels = list(getattr(getattr(table, "index", None), "names", ()))
    from_index = [name for name in features if name in levels and name not in place]
    if from_index:
        table = table.reset_index([levels.index(name) for name in from_index])
        place = {text_of_label(label): at for at, label in enumerate(table.columns)}
    dates = {n: c for n, c in made_of.items() if n not in place and c in place}
    if dates:
        table = _with_dates(table, dates, zones)
        place |= {name: at for at, name in enumerate(dates, start=len(place))}
    missing = [name for name in features if name not in place]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"the table lacks the kept feature {missing[0]!r}{more}; "
            "give one with the columns that the selection was made from"
            f"{hint_for_missing(missing)}"
        )
    if hasattr(table, "iloc"):
        return table.iloc[:, [place[name] for name in features]]
    return table.select(list(features)) if hasattr(table, "select") else table[list(features)]


def _with_dates(table: Any, dates: Mapping[str, str], zones: Mapping[str, bool]) -> Any:
    """Return a table of pandas, polars or Arrow with the parts of its dates."""
    if (method := computed_by(table)) is not None:
        raise InputError(
            f"parts of dates are made of a table in memory but this is a {type(table).__name__}; "
            f"give its .{method}()"
        )
    held = source_of(table).read(drop=AllBut({*dates.values()}), may_be_empty=True)
    parts = with_date_features(held, dates, zones).select(list(dates))
    if hasattr(table, "assign"):
        return table.assign(**{name: parts[name].to_numpy() for name in dates})
    if hasattr(table, "hstack"):
        return table.hstack(type(table)(parts))
    for name in dates:
        table = table.append_column(name, parts[name])
    return table


def load_run(
    name: str, *, store: str | Path = "chaffinch-store", trusted: Sequence[str] = ()
) -> SelectionResult:
    """Read a finished run back.

    Parameters
    ----------
    name : str
        Name of the run, as in ``chaffinch runs`` and `SelectionResult.run`.
    store : path or address
        The store of the run; by default that of the command line.
    trusted : sequence of str
        Packages besides scikit-learn whose estimators may be loaded. Name them only if you know
        where the store comes from.

    Returns
    -------
    SelectionResult
        As `select` returned it; columns are named by text.

    Raises
    ------
    InputError
        If there is no such store or run, or the run is not finished.
    StorageError
        If a file of the result has changed since it was written, or a later release wrote it. The
        message names the file and the remedy.
    """
    return load_result(Store.find(store).existing(name), trusted=trusted)


def load_result(
    run: Run, trusted: Sequence[str] = (), labels: Mapping[str, Any] = MappingProxyType({})
) -> SelectionResult:
    """Read a finished run back.

    Only files that a manifest names are read, and only with the manifest's SHA-256.
    """
    results = _finished(run)
    try:
        return _result(
            results,
            labels,
            folder=run.folder,
            _model=model_files(results.records["retrain"], "model"),
            _report=_forms(results.records["write_report"]),
            _part=results.records["split"],
            _trusted=tuple(trusted),
        )
    except (AttributeError, LookupError, TypeError) as error:  # results of another form
        raise _damage(run, error) from error


def reasons_of(run: Run) -> list[ColumnReason]:
    """Return why each column was kept, dropped or left out of a finished run; see `columns_of`."""
    return columns_of(content_of(_finished(run)))


def _finished(run: Run) -> StageResults:
    results = StageResults(run.name, run.records())
    try:
        to_do = next_stage(run, results.records)
    except (LookupError, TypeError) as error:  # settings of another form
        raise _damage(run, error) from error
    if to_do:
        if run.refusal:
            raise InputError(f"run {run.name!r} was refused: {run.refusal}")
        raise InputError(f"run {run.name!r} is not finished; run it again to continue it")
    return results


def _damage(run: Run, error: Exception) -> StorageError:
    return StorageError(f"run {run.name!r} is damaged ({error!r}); remove its folder and run again")


def _forms(record: StageRecord) -> dict[str, bytes]:
    """Return the forms of a report; runs of earlier releases have HTML alone."""
    return {name: record.read(name) for name in {REPORT_FILE: "", **record.files}}


def result_in_memory(run: SelectionRun, labels: Mapping[str, Any]) -> SelectionResult:
    """Return the result of a finished run without a folder."""
    model = SelectedModel.of_contract(run.contract, run.selected_model)
    return _result(run, labels, folder=None, _model=model, _report=run.report, _part=run.part)


def _result(run: StageResults, labels: Mapping[str, Any], **fields: Any) -> SelectionResult:
    """Return the result of a finished run; `labels` maps names to those of the user's table."""
    results = {name: record.result for name, record in run.records.items()}
    content = run.contract.to_dict()
    contract = FeatureContract.parse(to_json(content))
    features, candidates = tuple(contract.features), tuple(contract.candidates)
    scored = results.get("score_alternatives")
    step_of, kept = step_of_each(run.path), set(features)
    mask = np.array([name in kept for name in candidates])
    method = declared(contract.settings["method"]["kind"])
    scores = method.scores(run.search_result, mask.tolist())
    return SelectionResult(
        mask=mask,
        steps=np.array([step_of.get(name, 0) for name in candidates]),
        path=run.path.to_pandas(),
        scores=scores and {labels.get(name, name): scores[name] for name in candidates},
        losses=content["losses"],
        comparison=content["comparison"],
        alternatives=None if scored is None else ScoredAlternatives(scored),
        changes=results.get("judge_changes"),
        warnings=tuple(contract.warnings),
        notes=tuple(contract.notes),
        seconds=sum(run.seconds.values()),
        seed=contract.seed,
        settings=contract.settings,
        versions=contract.versions,
        contract=contract,
        run=run.name,
        _curve=tuple(_curve(run.path, results, len(candidates))),
        _explanation=run.explanation,
        _features=tuple(labels.get(name, name) for name in features),
        _candidates=tuple(labels.get(name, name) for name in candidates),
        **fields,
    )
