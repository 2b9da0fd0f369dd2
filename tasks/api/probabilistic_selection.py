"""`chaffinch.probabilistic_selection`: a search by PEFS of a table."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import ArrayLike

from chaffinch.errors import InputError, StorageError, as_input_error, short_repr
from chaffinch.storage.column_names import check_columns, nearest, quoted_with_reasons
from chaffinch.storage.files import file_to_write, path_from, remove_file, write_file
from chaffinch.tasks.data.arrow import as_numbers
from chaffinch.tasks.data.column_profile import check_magnitude
from chaffinch.tasks.data.matrix import baseline_values
from chaffinch.tasks.data.table_check import CONSTANT
from chaffinch.tasks.data.user_input import (
    GivenTable,
    check_table_finite,
    codes_or_numbers,
    read_rows,
    rows_of,
    with_truths,
)
from chaffinch.tasks.methods.pefs import MOST_UNITS
from chaffinch.tasks.results.model import check_all_within, check_there, warn_if_new
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema, Task
from chaffinch.tasks.selection.input_checks import check_count, check_same_order
from chaffinch.tasks.selection.pefs.checkpoint import fingerprint, restore, to_bytes
from chaffinch.tasks.selection.pefs.custom_module import checked
from chaffinch.tasks.selection.pefs.distance_constraint import Repair
from chaffinch.tasks.selection.pefs.network import Prepared
from chaffinch.tasks.selection.pefs.results import (
    SharedModule,
    SharedNetwork,
    Sweep,
    most_probable,
    predict_averaged,
    stability,
)
from chaffinch.tasks.selection.pefs.search import Rules, Search
from chaffinch.tasks.settings.selection import BaselineKind

if TYPE_CHECKING:
    import torch


def check_values(rows: Rows, schema: Schema) -> None:
    """Refuse a constant target, and numbers that are too large, as `select` does."""
    if schema.n_classes == 1 or (rows.y == rows.y[0]).all():
        raise InputError(
            "y has the same value in every row, so there is nothing to learn: give rows with at "
            "least 2 different values"
        )
    if not schema.n_classes:
        check_magnitude("y", rows.y.astype(np.float64, copy=False))
    for name, n_categories, column in zip(
        schema.features, schema.n_categories, rows.X.T, strict=True
    ):
        if not n_categories and not np.isnan(column).all():
            check_magnitude(f"feature {name!r} of X", column, " or drop it")


def check_varying(prepared: Prepared, n_features: int | None) -> None:
    """Refuse rows of which no feature varies, or fewer than `n_features`; InputError."""
    varying = prepared.varying
    n_varying, names = int(varying.sum()), np.array(prepared.schema.features, dtype=object)
    left_out = "left out: " + quoted_with_reasons(dict.fromkeys(names[~varying], CONSTANT))
    if not n_varying:
        raise InputError(f"X has no feature: {left_out}; give columns that vary")
    if n_features is not None and n_features > n_varying:
        why = "" if varying.all() else f"; {left_out}"
        raise InputError(f"n_features must be in 1..{n_varying} but is {n_features}{why}")


def _read_layers(sizes: Any, *, has_network: bool) -> tuple[int, ...]:
    """Return the units of each hidden layer; those of the paper by default."""
    if sizes is None:
        return (200, 200, 200)
    if has_network:
        raise InputError(
            "hidden_layer_sizes and network exclude each other, as a network has layers of its "
            f"own, but hidden_layer_sizes is {short_repr(sizes)}; leave one of them out"
        )
    if isinstance(sizes, str | bytes | Mapping | Set) or not isinstance(sizes, Iterable):
        raise InputError(
            "hidden_layer_sizes must be a sequence of whole numbers, units of each hidden layer, "
            f"but is {short_repr(sizes)}"
        )
    layers = tuple(sizes)
    if any(isinstance(units, Integral) and int(units) > MOST_UNITS for units in layers):
        raise InputError(
            f"hidden_layer_sizes must have at most {MOST_UNITS:,} units in each layer but is "
            f"{short_repr(sizes)}"
        )
    return layers


def _read_path(path: Any) -> Path | None:
    """Return the path of a checkpoint, behind a symbolic link; InputError if it is no file."""
    return None if path is None else file_to_write(path_from(path, "checkpoint"), "checkpoint")


def check_can_be_written(path: Path) -> None:
    """Try to write a file next to a checkpoint, and remove it; InputError if that cannot be."""
    trial = path.with_name(f".trial-{uuid.uuid4().hex}")
    try:
        write_file(trial, b"")
        remove_file(trial)
    except (InputError, StorageError) as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise InputError(
            f"checkpoint {path} cannot be written: {reason}; name another file"
        ) from error


def _read_sets(previous: Any, names: Sequence[str]) -> list[list[int]]:
    """Return previous sets by the positions of their features, sorted."""
    if isinstance(previous, str) or not isinstance(previous, Iterable):
        raise InputError(
            f"previous must be a sequence of sets of features but is {short_repr(previous)}; "
            "give [[...]]"
        )
    sets = list(previous)
    for features in sets:
        if isinstance(features, str):
            raise InputError(f"previous must hold sets of features but holds the text {features!r}")
        if not isinstance(features, Collection):
            raise InputError(
                f"previous must hold sets of features but one is {short_repr(features)}; give "
                "[[...]]"
            )
    return [sorted({_position(feature, names) for feature in features}) for features in sets]


def _position(feature: Any, names: Sequence[str]) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise InputError(
                f"previous names {feature!r}, which is no feature of X{nearest(feature, names)}"
            )
        return names.index(feature)
    if isinstance(feature, bool) or not isinstance(feature, Integral):
        raise InputError(
            f"previous names {feature!r}, which is neither the name nor the position of a feature; "
            "of a mask give numpy.flatnonzero(mask)"
        )
    return int(feature)


@dataclass(frozen=True)
class SearchedTable:
    """Columns of a searched table: names, categories as text, and whether it had these names."""

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]
    is_frame: bool

    @classmethod
    def of(cls, table: GivenTable) -> Self:
        """Return the columns of a table as it was read for the search."""
        known = (None if names is None else tuple(map(str, names)) for names in table.categories)
        return cls(table.names, tuple(known), table.frame is not None)

    def matrix(self, X: Any, used: Mask) -> Floats:
        """Return a table as the search would have read it; NaN for a new category."""
        if not (self.is_frame and isinstance(X, pd.DataFrame)):
            matrix = self._by_position(X)
            matrix[:, ~used] = np.nan
        else:
            columns = [str(name) for name in X.columns]
            check_columns(columns, "X")
            positions = np.flatnonzero(used).tolist()
            check_there([self.names[j] for j in positions], columns)
            X = with_truths(X)
            matrix = np.full((len(X), len(self.names)), np.nan)
            for j in positions:
                matrix[:, j] = self._values(X.iloc[:, columns.index(self.names[j])], j)
        check_table_finite(matrix, self.names)
        coded = [n for n, known in zip(self.names, self.categories, strict=True) if known]
        check_all_within(matrix, self.names, coded, "feature {!r} of X")
        return matrix

    def _by_position(self, X: Any) -> Floats:
        table = read_rows(X)
        if len(table.names) != len(self.names):
            raise InputError(f"X must have {len(self.names)} features but has {len(table.names)}")
        for name, searched, categories in zip(
            self.names, self.categories, table.categories, strict=True
        ):
            if searched is not None:
                raise InputError(
                    f"X must be a pandas frame, as {name!r} was searched by its categories, but is "
                    f"{type(X).__name__}; give one with the columns that were searched"
                )
            if categories:
                raise InputError(_no_numbers(name))
        return table.matrix

    def _values(self, column: Any, position: int) -> Floats:
        """Return a column of a frame as numbers, or as codes of the searched categories."""
        name, known = self.names[position], self.categories[position]
        if known is None:
            values, categories = codes_or_numbers(column, name, None)
            if categories:
                raise InputError(_no_numbers(name))
            return values
        texts = pa.array(column.astype(object).map(str, na_action="ignore"), from_pandas=True)
        encoded = pa.chunked_array([texts.cast(pa.string()).dictionary_encode()])
        codes = as_numbers(encoded, known)
        warn_if_new(name, encoded, np.isnan(codes), known)
        return codes


def _no_numbers(name: str) -> str:
    return (
        f"column {name!r} of X holds text or categories; the model learnt from numbers in "
        f"{name!r}, so give numbers"
    )


@dataclass(frozen=True, eq=False)
class ProbabilisticSelection:
    """What a search found.

    Attributes
    ----------
    features : tuple of str
        Kept features, in the table's order.
    mask : ndarray of bool, shape (M,)
        Which those are.
    probabilities : ndarray of float64, shape (M,)
        Of each feature.
    sweeps : tuple of Sweep
        How these came about.
    imputed : tuple of str
        Features whose missing values were taken for their baseline.
    """

    features: tuple[str, ...]
    mask: Mask
    probabilities: Floats
    sweeps: tuple[Sweep, ...] = field(repr=False)
    imputed: tuple[str, ...]
    _searched: SearchedTable = field(repr=False)
    _network: SharedNetwork | SharedModule = field(repr=False)
    _seed: int = field(repr=False)

    @property
    def trajectory(self) -> pd.DataFrame:
        """A row per sweep: iteration, loss, penalty, entropy, stability, n_features."""
        return pd.DataFrame(
            {
                "iteration": sweep.iteration,
                "loss": sweep.loss,
                "penalty": sweep.penalty,
                "entropy": sweep.entropy,
                "stability": stability(self.sweeps[: n + 1]),
                "n_features": int(sweep.mask.sum()),
            }
            for n, sweep in enumerate(self.sweeps)
        )

    def predict(self, X: Any) -> Floats:
        """Predict with the network under the mask: values (K,), or probabilities of the classes.

        Parameters
        ----------
        X : array of numbers (K, M) or pandas.DataFrame
            A frame is read by the names of the kept features, if the table that was searched was
            one; other columns are not looked at. A category that was not there in the search
            counts as missing, unless just one was that means the same. Anything else is read by
            position, and holds numbers.

        Raises
        ------
        InputError
            If a kept feature is missing, of another type or infinite, a number is beyond
            -1e30..1e30, or a network of your own returns what is not finite.

        Warns
        -----
        UserWarning
            If nearly all the values of a category are new.
        """
        matrix = self._searched.matrix(X, self.mask)
        return self._network.predict(matrix, self.mask)

    def predict_averaged(self, X: Any, n_samples: int = 20) -> Floats:
        """Predict on the mean over masks drawn by the probabilities; it may use every feature.

        Parameters
        ----------
        X
            See `predict`; it must have every feature.
        n_samples : int, at least 1
            How many masks.

        Raises
        ------
        InputError
            As `predict`, or if `n_samples` is no such number.

        Warns
        -----
        UserWarning
            See `predict`.
        """
        check_count("n_samples", n_samples, 1)
        matrix = self._searched.matrix(X, np.ones_like(self.mask))
        return predict_averaged(self._network, matrix, self.probabilities, n_samples, self._seed)


def probabilistic_selection(
    X: Any,
    y: ArrayLike,
    *,
    penalty: float | None = None,
    n_features: int | None = None,
    previous: Sequence[Collection[int] | Collection[str]] = (),
    tau: float = 0.5,
    dissimilarity: Dissimilarity = "dice",
    samples: int = 2,
    hidden_layer_sizes: Sequence[int] | None = None,
    network: torch.nn.Module | None = None,
    batch_size: int | None = None,
    most_sweeps: int = 60,
    early_stopping: bool = True,
    baseline: BaselineKind = "mean",
    task: Task | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
) -> ProbabilisticSelection:
    """Train a network and, at the same time, the probability of each feature (PEFS).

    Saito, Shirakawa and Akimoto, GECCO '18 Companion (2018). On each mini-batch masks are drawn,
    and the probability of the features of the better one rises.

    Parameters
    ----------
    X : array of numbers (K, M) or pandas.DataFrame
        Rows; a missing value is taken for the baseline.
    y : array, shape (K,)
        Numbers or classes.
    penalty : float in 0..1, optional
        By how much masks that have a feature must win, as a share of the contests, for it to stay.
        By default 0.1, unless there is a number of features.
    n_features : int, optional
        The penalty is steered to it, and exactly as many are kept.
    previous : sequence of collections of int or str
        Sets of positions or names of features. Every mask that is drawn, and the one that is kept,
        is at least `tau` from each. Those of more than `n_features`, or without it of more features
        than a given set has, share no more with it than one of just that size may: else features
        without information would be kept to make room for shared ones. A column that is the same in
        all rows is never kept for the sake of the distance.
    tau : float in 0..1
        See `previous`.
    dissimilarity : "dice" or "jaccard"
        In which `tau` is.
    samples : int, at least 2
        Masks that are compared on each mini-batch.
    hidden_layer_sizes : sequence of int, optional
        Units of each hidden layer of the paper's network: by default three of 200.
    network : torch.nn.Module, optional
        Trained in place of the paper's network, from its weights as they are; it is not changed.
        It takes a float32 tensor (rows, inputs) on the CPU: of a number one input, standardised, of
        a category one for each value that it may have, 1 for the one that is there, and all less
        those of the baseline, so that a masked feature is 0. It returns a score for each class,
        (rows, classes), no probabilities, or one value in standard deviations of y, (rows, 1).
        All that it changes in training must be in its buffers, which keep their names, shapes and
        types. Before a prediction its batch normalisation is recalibrated for the mask. Dropout is
        drawn from the seed: torch's own generator is seeded for each pass, and then given back as
        it was.
    batch_size : int, optional
        By default 128, or all rows if there are fewer.
    most_sweeps : int
        The search ends after so many times M iterations (128 where M is less), settled or not.
    early_stopping : bool
        Whether it ends as soon as its probabilities have settled. The paper's 100,000 iterations
        are without, and with ``most_sweeps=math.ceil(100_000 / max(M, 128))``.
    baseline : "mean", "median", "minimum" or "zero"
        What a masked feature is set to; for a category the most frequent one.
    task : "classification" or "regression", optional
        By default as `chaffinch.qualities.mutual_information` takes it.
    seed : int
        The only source of randomness. Draws go by the order of the columns, so that another order
        is another seed.
    checkpoint : path, optional
        A file that is written after each sweep, behind a symbolic link its target; where it is
        there already, the search resumes from it with the same result. It may do so
        with more `most_sweeps`, or another `early_stopping`, which change when a search ends and
        nothing on its way; all else must be as it was.

    Returns
    -------
    ProbabilisticSelection
        `features` are the kept ones, in the table's order; `mask` and `probabilities` have shape
        (M,). `sweeps` is the course of the search, and `imputed` names the features whose missing
        values were replaced by their baseline. `predict` uses the trained network.

    Raises
    ------
    InputError
        If the table, the target, the network or a number cannot be used, fewer features vary than
        are asked for, no set of features that vary differs by `tau`, the network does not fit into
        the memory that is free, or the checkpoint is none, no regular file, of another search or
        cannot be written.
    StorageError
        If the checkpoint cannot be written any more, as on a disk that is full by then.

    Examples
    --------
    >>> import chaffinch
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> found = chaffinch.probabilistic_selection(X, y, n_features=5)  # doctest: +SKIP
    >>> other = chaffinch.probabilistic_selection(  # doctest: +SKIP
    ...     X, y, n_features=5, previous=[found.features], tau=0.5
    ... )
    """
    check_same_order(X, y)
    table = read_rows(X)
    rows, schema = rows_of(table, y, task)
    searched = SearchedTable.of(table)
    del table  # and with it a copy of the frame
    check_values(rows, schema)
    d = len(schema.features)
    if penalty is None and n_features is None:
        penalty = 0.1
    sets = _read_sets(previous, schema.features)
    check_count("seed", seed, 0)
    seed, path = int(seed), _read_path(checkpoint)
    layers = _read_layers(hidden_layer_sizes, has_network=network is not None)
    rules = Rules(penalty, n_features, samples, layers, batch_size, most_sweeps, early_stopping)
    largest_overlap(1, 1, tau, dissimilarity)  # refuses what is no tau, and no dissimilarity
    # a fraction is a real number as well, but checkpoints are identified by floats
    tau = float(tau)
    if rules.penalty is not None:
        rules = replace(rules, penalty=float(rules.penalty))
    prepared = Prepared.of(rows, schema, baseline_values(rows, schema, baseline))
    check_varying(prepared, n_features)
    settings = {**asdict(rules), "seed": seed, "sets": sets, "tau": tau, "kind": dissimilarity}
    for name in ("most_sweeps", "early_stopping"):
        del settings[name]  # no sweep goes by how many may follow
    if network is not None:
        settings["network"] = checked(network, prepared, rules.rows_of_a_batch(len(rows)))
    repair = None
    if sets:
        varying = prepared.varying
        repair = Repair(d, sets, tau, dissimilarity, n_features, varying=varying)
    if tau == 0:
        repair = None  # the sets are checked all the same, but no mask is too near
    search = Search(prepared, rules, seed, repair=repair, module=network)
    _run(search, path, prepared, settings)
    mask = _final_mask(search, n_features, repair)
    names = np.array(schema.features, dtype=object)
    return ProbabilisticSelection(
        tuple(names[mask]),
        mask,
        search.probabilities,
        tuple(search.sweeps),
        tuple(names[np.isnan(rows.X).any(axis=0)]),
        searched,
        search.network,
        seed,
    )


def _run(search: Search, path: Path | None, prepared: Prepared, settings: dict[str, Any]) -> None:
    """Take a search to its end, by way of its checkpoint."""
    of = None if path is None else fingerprint(prepared, settings)
    if path is not None:
        check_can_be_written(path)
    if path is not None and of is not None and path.exists():
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"checkpoint {path} cannot be read: {error.strerror}; name another file"
            ) from error
        with as_input_error(f"{path}: "):
            restore(search, content, of)

    def keep() -> None:
        if path is not None and of is not None:
            write_file(path, to_bytes(search, of))

    search.run(keep)


def _final_mask(search: Search, n_features: int | None, repair: Repair | None) -> Mask:
    theta = search.probabilities
    if n_features is not None:
        if repair is not None:
            return repair.most_probable(theta, n_features)
        on_the_way = np.mean([sweep.probabilities for sweep in search.sweeps], axis=0)
        return most_probable(theta, n_features, on_the_way)
    mask = np.asarray(theta >= 0.5)
    if not mask.any():
        mask = most_probable(theta, 1, theta)
    return mask if repair is None else repair.final(mask, theta)
