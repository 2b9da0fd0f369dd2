"""`chaffinch.qualities`: the quality of feature sets, by a table or a trained model.

Each function returns a quality for `chaffinch.find_alternatives`; higher is better. The numbers
are those of the rankings of the same name, see `tasks/selection/README.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from numpy.typing import ArrayLike

from chaffinch.errors import InputError, NotCovered, as_input_error
from chaffinch.tasks.api.masked_loss import evaluator_of
from chaffinch.tasks.data.user_input import check_columns, read_given_table, rows_and_schema
from chaffinch.tasks.selection.alternatives.hill_climbing import MaskedLossQuality
from chaffinch.tasks.selection.alternatives.quality import CFS, FCBF, MRMR, Univariate
from chaffinch.tasks.selection.baselines import filters, importances
from chaffinch.tasks.selection.baselines.columns import (
    FEWEST_BINS,
    binned_information,
    binned_information_of_pairs,
)
from chaffinch.tasks.selection.baselines.filters import relieff as relieff_scores
from chaffinch.tasks.selection.baselines.filters import uncertainties
from chaffinch.tasks.selection.core import MaskedLoss, Rows, Schema, Task
from chaffinch.tasks.selection.input_checks import check_count
from chaffinch.tasks.selection.masked_loss.external_models import read_model
from chaffinch.tasks.selection.models.scikit_learn import importances_of

_LARGEST_SEED = 2**32 - 1


def checked_seed(seed: Any) -> int:
    """Return a seed; InputError if it is out of range."""
    check_count("seed", seed, 0, _LARGEST_SEED)
    return int(seed)


def check_engine(engine: Any) -> None:
    """Raise InputError for an object without the interface of `MaskedLoss`."""
    attributes = (getattr(engine, name, None) for name in ("mask", "loss", "without_each"))
    if not callable(engine) or any(attribute is None for attribute in attributes):
        raise InputError(
            f"engine must be what chaffinch.masked_loss returns but is a {type(engine).__name__}; "
            "give chaffinch.masked_loss(model, X, y, loss=...)"
        )


def read_for_bins(X: Any, y: Any, task: Task | None, bins: int | None) -> tuple[Rows, Schema]:
    """Return `rows_and_schema` after a check of the number of bins."""
    if bins is not None:
        check_count("bins", bins, FEWEST_BINS)
    return rows_and_schema(X, y, task)


def mutual_information(
    X: Any, y: ArrayLike, *, task: Task | None = None, seed: int = 0
) -> Univariate:
    """Return the mutual information of each feature with the target, in nats.

    Parameters
    ----------
    X : array of numbers (K, M) or pandas.DataFrame
        Rows; text and categories are discrete, a missing number is the mean.
    y : array, shape (K,)
        Numbers or classes.
    task : "classification" or "regression", optional
        By default classification for text, true and false, and for whole numbers with at most 20
        different values.
    seed : int in 0..4294967295
        Seed of the noise that is added to equal numbers.

    Raises
    ------
    InputError
        If the table and the target do not fit each other, or the seed is out of its range.
    """
    seed = checked_seed(seed)
    rows, schema = rows_and_schema(X, y, task)
    return Univariate(filters.mutual_information(rows, schema, seed), schema.features)


def binned_mutual_information(
    X: Any, y: ArrayLike, *, task: Task | None = None, bins: int | None = None
) -> Univariate:
    """Return the mutual information of each feature in bins with the target, in nats.

    Parameters
    ----------
    X, y, task
        See `mutual_information`.
    bins : int, at least 2, optional
        Number of bins of equal frequency for numbers; by default the cube root of the
        number of rows, 2 to 10. A missing number is a value of its own.

    Raises
    ------
    InputError
        If the table and the target do not fit each other.
    """
    rows, schema = read_for_bins(X, y, task, bins)
    return Univariate(binned_information(rows, schema, bins), schema.features)


def relieff(X: Any, y: ArrayLike, *, task: Task | None = None, seed: int = 0) -> Univariate:
    """Return how well each feature separates near rows of different targets, by ReliefF.

    The score is the difference between near rows of unlike and of like targets, in -1..1, without
    unit. At most 250 rows are sampled.

    Parameters
    ----------
    X, y, task, seed
        See `mutual_information`.

    Raises
    ------
    InputError
        If the table and the target do not fit each other, or the seed is out of its range.
    """
    seed = checked_seed(seed)
    rows, schema = rows_and_schema(X, y, task)
    return Univariate(relieff_scores(rows, schema, seed), schema.features)


def model_gain(model: Any, X: Any) -> Univariate:
    """Return the importances that a trained model has by itself.

    Parameters
    ----------
    model : fitted model
        LightGBM and XGBoost: the total gain of the splits. Any other: ``feature_importances_``, or
        the sum of absolute coefficients.
    X : array of numbers (K, M) or pandas.DataFrame
        Rows of the features that the model was fitted on, for their names.

    Raises
    ------
    InputError
        If the model has no importance for each feature, or one that is not finite.
    """
    with as_input_error():
        user_model = read_model(model, "squared_error")
        names = read_given_table(X, user_model.categories).names
        check_columns(model, user_model.name, X)
        scores = importances_of(model)
        if user_model.n_features == len(names):
            with suppress(NotCovered):  # of a booster the gains, which its estimator does not show
                scores = user_model.translate(Schema(names, (0,) * len(names))).importances()
        if scores is None or len(scores) != len(names):
            raise InputError(
                f"{user_model.name} must have one importance for each of the {len(names)} features "
                f"but has {'none' if scores is None else len(scores)}; use permutation, or "
                "masked_loss"
            )
        importances.check_finite(scores, user_model.name)
        return Univariate(scores, names)


def permutation(model: Any, X: Any, y: ArrayLike, *, loss: Any, seed: int = 0) -> Univariate:
    """Return how much a trained model's loss rises when a feature's values are shuffled.

    The rise is the mean of five shuffles, in the unit of the loss.

    Parameters
    ----------
    model, X, y, loss
        See `chaffinch.masked_loss`.
    seed : int in 0..4294967295
        Seed of the shuffles.

    Raises
    ------
    InputError
        If the model, the rows and the loss do not fit each other, or the seed is out of its range.
    """
    seed = checked_seed(seed)
    with as_input_error():
        _, evaluator, _ = evaluator_of(model, X, y, loss)
        model, features = evaluator.model, range(evaluator.rows.X.shape[1])
        scores = importances.permutation(model, evaluator.rows, evaluator.loss, features, seed)
        return Univariate(scores, model.schema.features)


def masked_loss_importance(engine: MaskedLoss, *, names: Sequence[str] | None = None) -> Univariate:
    """Return how much a trained model's loss rises when one feature is masked, in its unit.

    Parameters
    ----------
    engine : MaskedLoss
        What `chaffinch.masked_loss` returns, over M features, none of which is masked.
    names : sequence of str, length M, optional

    Raises
    ------
    InputError
        If it is no such engine, a feature is masked, or names do not fit.
    """
    check_engine(engine)
    if not engine.mask.all():
        raise InputError(
            f"the engine must keep all features but has masked {int((~engine.mask).sum())}; make "
            "a fresh one by chaffinch.masked_loss"
        )
    with as_input_error():
        return Univariate(engine.without_each() - engine.loss, names)


def masked_loss(engine: MaskedLoss, *, names: Sequence[str] | None = None) -> MaskedLossQuality:
    """Return the negative loss of a trained model with all but a set masked; nothing is trained.

    Only searched for one set at a time, by swaps: without a bound.

    Parameters
    ----------
    engine : MaskedLoss
        What `chaffinch.masked_loss` returns, over M features.
    names : sequence of str, length M, optional

    Raises
    ------
    InputError
        If it is no such engine, or names do not fit.
    """
    check_engine(engine)
    return MaskedLossQuality(engine, names=names)


def mrmr(
    X: Any, y: ArrayLike, *, task: Task | None = None, seed: int = 0, processes: int = 1
) -> MRMR:
    """Return mean relevance less mean redundancy, both as mutual information in nats.

    Parameters
    ----------
    X, y, task, seed
        See `mutual_information`.
    processes : int, at least 1
        Processes that share the pairs of features; the result is the same for any.

    Raises
    ------
    InputError
        If the table and the target do not fit each other, or a number is out of its range.

    Notes
    -----
    Estimates the mutual information of each pair of M features: minutes for hundreds of them.
    """
    seed = checked_seed(seed)
    check_count("processes", processes, 1)
    rows, schema = rows_and_schema(X, y, task)
    relevance = filters.mutual_information(rows, schema, seed)
    of_pairs = filters.mutual_information_of_pairs(rows, schema, seed, processes=processes)
    return MRMR(relevance, of_pairs, schema.features)


def binned_mrmr(X: Any, y: ArrayLike, *, task: Task | None = None, bins: int | None = None) -> MRMR:
    """Return mean relevance less mean redundancy, as mutual information in bins, in nats.

    Parameters
    ----------
    X, y, task, bins
        See `binned_mutual_information`.

    Raises
    ------
    InputError
        If the table and the target do not fit each other, or `bins` is out of its range.

    Notes
    -----
    Takes one pass through the rows for each of M M / 2 pairs: a second for hundreds of features,
    where `mrmr` takes minutes. All features, and the target, are compared by the same measure.
    """
    rows, schema = read_for_bins(X, y, task, bins)
    relevance = binned_information(rows, schema, bins)
    return MRMR(relevance, binned_information_of_pairs(rows, schema, bins), schema.features)


def fcbf(X: Any, y: ArrayLike, *, task: Task | None = None) -> FCBF:
    """Return the symmetrical uncertainty with the target, of features none of which is redundant.

    Parameters
    ----------
    X, y, task
        See `mutual_information`.

    Raises
    ------
    InputError
        If the table and the target do not fit each other.
    """
    rows, schema = rows_and_schema(X, y, task)
    return FCBF(*uncertainties(rows, schema), schema.features)


def cfs(X: Any, y: ArrayLike, *, task: Task | None = None) -> CFS:
    """Return the ratio of relevance to redundancy, both as symmetrical uncertainty.

    Parameters
    ----------
    X, y, task
        See `mutual_information`.

    Raises
    ------
    InputError
        If the table and the target do not fit each other.
    """
    rows, schema = rows_and_schema(X, y, task)
    return CFS(*uncertainties(rows, schema), schema.features)
