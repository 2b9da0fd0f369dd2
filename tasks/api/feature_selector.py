"""`chaffinch.FeatureSelector`: a selection as a scikit-learn transformer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from chaffinch.errors import InputError, as_input_error, short_repr
from chaffinch.storage.column_names import names_in_array
from chaffinch.storage.datasets.date_parts import made_names
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.memory import computed
from chaffinch.tasks.api.arguments import column_settings, refusing_moved_names
from chaffinch.tasks.api.arrays import as_table, with_column
from chaffinch.tasks.api.callbacks import CallbackSupportMixin, in_tasks, with_callbacks
from chaffinch.tasks.api.select import is_splitter, select
from chaffinch.tasks.pipeline.progress import OnProgress
from chaffinch.tasks.results.model import SelectedModel
from chaffinch.tasks.results.result import SelectionResult
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.input_checks import check_same_order, is_whole
from chaffinch.tasks.settings.base import as_name
from chaffinch.tasks.settings.columns import ROW_ROLES, ColumnSettings
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import TOLERANCE, ModelSettings


class FeatureSelector(CallbackSupportMixin, SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Select features with any method of chaffinch, as a step of a scikit-learn pipeline.

    The parameters mean what they mean in `chaffinch.select`; `random_state` is the seed there.
    Columns to drop are left out of ``X``, by a ColumnTransformer for example.

    Parameters
    ----------
    method : str, mapping, or settings such as Gbmo or Rfecv
        See `chaffinch.select`.
    n_features : int, optional
        Number of features to keep, at most or exactly, by method; see `chaffinch.select`.
    model : str, ModelSettings or estimator
        Model that the features are selected for.
    keep : collection of str or int
        Features never removed, by name, or by position in an array.
    constraints : Constraints, optional
        Groups of features, costs and a budget; see `chaffinch.select`.
    columns : ColumnSettings or mapping, optional
        What else features are for: which are categories or numbers, an embargo, what becomes of
        leaks and of dates; see `chaffinch.ColumnSettings`. What describes rows is given to `fit`.
    cv : int, splitter of scikit-learn, or iterable of (train, test), optional
        Folds of the tuning, of ``"auto"`` and of ``"rfecv"``; see `chaffinch.select`.
    loss : str or scorer, optional
        ``"squared_error"``, ``"absolute_error"``, ``"log_loss"``, or what ``scoring`` of
        scikit-learn takes: a scorer's name, or a scorer by ``make_scorer``; it is negated.
    tolerance : float in 0..1
        Share of what all features explain that a smaller set may lose and still be as good.
    settings : mapping, optional
        What is rarely set, by name: ``"task"``, ``"baseline"``, ``"shares"``, ``"search_rows"``,
        ``"mask_rows"``, ``"price_columns"``; see `chaffinch.select`.
    random_state : int, RandomState or None
        Seed; the only source of randomness.
    n_jobs : int, optional
        Worker processes on this machine, as everywhere in scikit-learn: None, which is 1 outside of
        a ``joblib.parallel_config``, is this process alone, and -1 is one for each core. The result
        is the same.
    store : path or address, optional
        Folder, or ``"s3://bucket/prefix"``, that keeps each fit as a run, which
        `chaffinch.load_run` reads without pickle, by the name ``result_.run``. None keeps nothing.
    verbose : bool or callable, optional
        By default a progress bar in a terminal or a notebook, but none in a grid search,
        cross-validation or with callbacks; True: lines elsewhere too; False: nothing. A function is
        called in place of the bar, as in `chaffinch.select`.

    Attributes
    ----------
    result_ : SelectionResult
        Features, verdict, losses, contract and model.
    model_ : SelectedModel
        Model retrained on the selected features, which predicts from tables.
    ranking_ : ndarray of int, shape (d,)
        1 for a selected feature; the others from 2 on, the last removed first. Features that the
        method does not distinguish share a rank.
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of str
        Their names, if all of them are text.

    Examples
    --------
    >>> from chaffinch import FeatureSelector
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> selector = FeatureSelector("gbmo", n_features=5, model="linear")
    >>> pipeline = make_pipeline(selector, StandardScaler(), LogisticRegression()).fit(X, y)
    >>> len(pipeline[0].get_feature_names_out()) <= 5
    True
    """

    @refusing_moved_names
    def __init__(
        self,
        method: str | Mapping[str, Any] | Method = "auto",
        *,
        n_features: int | None = None,
        model: str | ModelSettings | Any = "lightgbm",
        keep: Collection[str | int] = (),
        constraints: Constraints | None = None,
        columns: ColumnSettings | Mapping[str, Any] | None = None,
        cv: Any = None,
        loss: Any = None,
        tolerance: float = TOLERANCE,
        settings: Mapping[str, Any] | None = None,
        random_state: int | RandomState | None = 0,
        n_jobs: int | None = None,
        store: str | Path | None = None,
        verbose: bool | OnProgress | None = None,
    ) -> None:
        self.method = method
        self.n_features = n_features
        self.model = model
        self.keep = keep
        self.constraints = constraints
        self.columns = columns
        self.cv = cv
        self.loss = loss
        self.tolerance = tolerance
        self.settings = settings
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.store = store
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        time: Any = None,
        split: Any = None,
    ) -> Self:
        """Select features and retrain the model on them.

        Parameters
        ----------
        X : array or sparse matrix of numbers, or pandas, polars or Arrow table, shape (n, d)
            Only a table may hold text or categories. Missing values are allowed. A sparse matrix
            must fit into memory as a dense table.
        y : array-like, shape (n,)
            Target.
        sample_weight : array-like, shape (n,), optional
            Weights of the rows; a row of weight 0 is left out.
        groups : array-like, shape (n,), optional
            Rows of a group stay together in every split and fold.
        time : array-like, shape (n,), optional
            Times or numbers: models are judged on rows later than those they are fitted on.
        split : array-like, shape (n,), optional
            Your own parts: the words train, validation and test.

        Returns
        -------
        FeatureSelector

        Raises
        ------
        InputError
            If the data or a parameter cannot be used; it is a ValueError.

        Warns
        -----
        DataQualityWarning
            For each entry of ``result_.warnings``, before training.
        """
        cluster = _cluster_of(self.n_jobs)
        row_roles = {"group": groups, "time": time, "split": split, "weight": sample_weight}
        table = self._validated(X, y)
        for role, values in {"y": y, **row_roles}.items():
            check_same_order(X, values, _ARGUMENTS.get(role, role))
        names = table.column_names
        table, target = with_column(table, "target", y)
        roles: dict[str, Any] = {}
        for role, values in row_roles.items():
            if values is not None:
                table, roles[role] = with_column(table, role, values)
        kind = table[roles["weight"]].type if "weight" in roles else pa.null()
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):  # others are refused later
            weights = table[roles["weight"]].cast(pa.float64(), safe=False)
            kept = pc.fill_null(pc.not_equal(weights, 0), True)
            table = table.filter(kept)
            if not len(table):
                raise InputError("every sample weight is zero; give one above 0")
            by_row = isinstance(self.cv, Iterable) and not is_splitter(self.cv)
            if by_row and len(table) < len(kept):
                raise InputError(
                    "cv has numbers of rows but rows of weight 0 are left out; take them out of "
                    "the rows, or give a splitter"
                )
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        by_position = names == names_in_array(len(names))
        columns, limits = column_settings(
            self.columns,
            self.constraints,
            name_of=partial(_name_of, names=set(names), by_position=by_position),
            keep=self.keep,
        )
        _refuse_roles_of_rows(columns)
        with in_tasks(self, X, y, self.verbose) as verbose:
            self.result_: SelectionResult = select(
                table,
                target,
                method=self.method,
                model=self.model,
                n_features=self.n_features,
                constraints=limits,
                columns=columns.model_copy(update=roles),
                cv=self.cv,
                loss=self.loss,
                tolerance=self.tolerance,
                settings=self.settings,
                seed=int(seed),
                cluster=cluster,
                store=self.store,
                verbose=verbose,
            )
            has_parts = columns.dates == "parts"
            features = [(name, *(made_names([name]) if has_parts else ())) for name in names]
            kept = set(self.result_.features)
            self._support = np.array([not kept.isdisjoint(of_column) for of_column in features])
            self.ranking_ = self._ranking(features)
        return self

    @property
    def model_(self) -> SelectedModel:
        check_is_fitted(self)
        return self.result_.model

    def _validated(self, X: Any, y: Any) -> pa.Table:
        """Return X as a table; an array must hold numbers. Its shape and names are set."""
        if issparse(y):
            raise InputError("y must be no sparse matrix; give y.toarray()")
        if y is not None and np.any(pd.isna(y)):
            raise InputError("y has missing values; fill them, or remove these rows from X and y")
        X = computed(X)
        if not (hasattr(X, "__array__") or issparse(X) or isinstance(X, list | tuple | str)):
            source_of(X).check()  # names the method that makes a table of it
        with as_input_error():  # scikit-learn's reason, without the values that it quotes
            if hasattr(X, "__arrow_c_stream__") or hasattr(X, "iloc"):
                table = as_table(X)
                # scikit-learn 1.8 and earlier do not know the names of every kind of table
                named = X if hasattr(X, "iloc") else pd.DataFrame(columns=table.column_names)
                validate_data(self, named, y, skip_check_array=True)
                return table
            at_least = {"ensure_min_samples": 2, "ensure_min_features": 2}
            accepted = {"accept_sparse": "csc", "ensure_all_finite": "allow-nan"}
            _check_no_text(X)
            return as_table(validate_data(self, X, y, **accepted, **at_least)[0])

    def _ranking(self, features: list[tuple[str, ...]]) -> NDArray[np.int64]:
        """Return the rank of each column, by the features that are made of it."""
        candidates = self.result_.candidates
        steps = dict(zip(candidates, self.result_.steps.tolist(), strict=True))
        last = [max(steps.get(name, 0) for name in of_column) for of_column in features]
        removed = np.array(last)[~self._support]
        ranking = np.ones(len(features), np.int64)
        ranking[~self._support] += 1 + np.unique(-removed, return_inverse=True)[1]
        return ranking

    def transform(self, X: Any) -> Any:
        """Return the selected columns of X, of shape (n, n_selected).

        Parameters
        ----------
        X : array-like or table of shape (n, d)

        Returns
        -------
        ndarray, sparse matrix, or what ``set_output`` asks for
            Columns of a pandas table that are left out may be dates or text. Dates that are
            selected beside numbers give an array of objects.
        """
        is_kept, X = self.get_support(), computed(X)
        if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "iloc"):
            X = as_table(X).to_pandas()  # scikit-learn 1.8 and earlier do not know all names
        if hasattr(X, "iloc") and X.shape[1] == len(is_kept):
            # scikit-learn makes one array of all columns first, of a type that they have in common
            nothing, names = pd.Series(0.0, X.index), X.columns
            X = pd.concat([X.iloc[:, j] if k else nothing for j, k in enumerate(is_kept)], axis=1)
            X.columns = names
        try:
            return super().transform(X)
        except np.exceptions.DTypePromotionError:  # dates and numbers have only this in common
            return super().transform(X.astype(object))

    def _get_support_mask(self) -> NDArray[np.bool_]:
        check_is_fitted(self)
        return self._support

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags


def _cluster_of(n_jobs: object) -> str | int | None:
    """Return what computes for scikit-learn's `n_jobs`; all cores as many as fit into memory."""
    if n_jobs == 0 or not (n_jobs is None or is_whole(n_jobs)):
        raise InputError(
            f"n_jobs must be a whole number other than 0, or None, but is {short_repr(n_jobs)}"
        )
    n_workers = int(effective_n_jobs(n_jobs))
    if n_workers == 1:
        return None
    return "local" if n_jobs == -1 else n_workers


def _refuse_roles_of_rows(columns: ColumnSettings) -> None:
    if columns.drop_rows_without_target:
        raise InputError(
            "FeatureSelector takes no drop_rows_without_target in columns; leave rows without a "
            "target out of X and y"
        )
    for role in ROW_ROLES:
        if getattr(columns, role) is not None:
            raise InputError(
                f"FeatureSelector takes no {role} in columns; give fit its values, as "
                f"{_ARGUMENTS.get(role, role)}"
            )


def _check_no_text(X: Any) -> None:
    """Raise InputError for the first column of an array that holds text which is no number."""
    cells = np.empty(0) if issparse(X) else np.asarray(X)
    for j, column in enumerate(cells.T if cells.ndim == 2 and cells.dtype.kind in "OU" else ()):
        try:
            column.astype(np.float64)
        except ValueError as error:
            raise InputError(
                f"column {j} of X (x{j}) must hold numbers, as X is an array ({error})",
                "give a data frame, whose columns of text are categories",
            ) from error


_ARGUMENTS = {"group": "groups", "weight": "sample_weight"}  # that are not called as the role is


def _name_of(feature: Any, names: Collection[str], *, by_position: bool) -> Any:
    """Return the name of a feature from its name or label; of an array also from its position."""
    name = as_name(feature)
    return f"x{name}" if by_position and name not in names and f"x{name}" in names else name
