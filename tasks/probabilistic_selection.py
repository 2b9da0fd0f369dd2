"""`chaffinch.probabilistic_selection`: one search by PEFS of a table at hand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.storage.errors import InputError
from chaffinch.storage.files import write_file
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.given_rows import read_rows, rows_of
from chaffinch.tasks.matrix import baseline_values
from chaffinch.tasks.probabilistic_checks import (
    check_can_be_written,
    check_device_takes,
    check_values,
    check_varying,
    device_asked_for,
    layers_asked_for,
    path_asked_for,
    seed_asked_for,
    sets_asked_for,
)
from chaffinch.tasks.probabilistic_result import ProbabilisticSelection
from chaffinch.tasks.searched_table import SearchedTable
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.given_arrays import check_same_order
from chaffinch.tasks.selection.pefs.batched_search import BatchedSearch
from chaffinch.tasks.selection.pefs.checkpoint import fingerprint, restore, to_bytes
from chaffinch.tasks.selection.pefs.found import most_probable
from chaffinch.tasks.selection.pefs.network_check import checked
from chaffinch.tasks.selection.pefs.repair import Repair
from chaffinch.tasks.selection.pefs.rows import Prepared
from chaffinch.tasks.selection.pefs.search import Rules, Search
from chaffinch.tasks.selection.vocabulary import Mask, Task

if TYPE_CHECKING:
    import torch


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
    baseline: Literal["mean", "median", "zero"] = "mean",
    task: Task | None = None,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    device: str = "cpu",
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
        that tell nothing would be kept to make room for shared ones. A column that is the same in
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
        Whatever it changes on its way must be in its buffers, which keep their names, shapes and
        types. Before a prediction its batch normalisation is recalibrated for the mask. Dropout is
        drawn from the seed: torch's own generator is seeded for each pass, and then given back as
        it was.
    batch_size : int, optional
        By default 128, or all rows if there are fewer.
    most_sweeps : int
        The search ends after so many times M iterations (128 where M is less), settled or not.
    baseline : "mean", "median" or "zero"
        What a masked feature is set to; for a category the most frequent one.
    task : "classification" or "regression", optional
        By default as `chaffinch.qualities.mutual_information` takes it.
    seed : int
        The only source of randomness. Draws go by the order of the columns, so that another order
        is another seed.
    checkpoint : path, optional
        A file that is written after each sweep, behind a symbolic link its target; where it is
        there already, the search goes on from it, as if it had never been stopped. It may do so
        with more `most_sweeps`, which change when a search ends and nothing on its way; all else
        must be as it was.
    device : "cpu", "cuda" or "cuda:1", "cuda:2", ...
        Where the network is trained. ``"cuda"`` is torch's present CUDA device: the same draws and
        formulas there, in one CUDA graph, with products that are rounded otherwise; on 1,024 inputs
        and more those of the first layer are bfloat16. It takes neither `network` nor `previous`.

    Returns
    -------
    ProbabilisticSelection

    Raises
    ------
    InputError
        If the table, the target, the network or a number cannot be used, fewer features vary than
        are asked for, no set of features that vary differs by `tau`, the network does not fit into
        the memory that is free, the checkpoint is none, no regular file, of another search or
        cannot be written, or the device is not there, has too little memory, or does not take what
        is asked for.
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
    on_device = device_asked_for(device)
    with said_to_the_user():
        check_same_order(X, y)
    table = read_rows(X)
    rows, schema = rows_of(table, y, task)
    searched = SearchedTable.of(table)
    del table  # and with it a copy of the frame
    check_values(rows, schema)
    d = len(schema.features)
    if penalty is None and n_features is None:
        penalty = 0.1
    sets = sets_asked_for(previous, schema.features)
    check_device_takes(on_device, network=network, previous=sets)
    seed, path = seed_asked_for(seed), path_asked_for(checkpoint)
    layers = layers_asked_for(hidden_layer_sizes, beside_network=network is not None)
    with said_to_the_user():
        rules = Rules(penalty, n_features, samples, layers, batch_size, most_sweeps)
        largest_overlap(1, 1, tau, dissimilarity)  # refuses what is no tau, and no dissimilarity
        # a fraction is a real number as well, but a checkpoint tells searches apart by floats
        tau = float(tau)
        if rules.penalty is not None:
            rules = replace(rules, penalty=float(rules.penalty))
        prepared = Prepared.of(rows, schema, baseline_values(rows, schema, baseline))
        check_varying(prepared, n_features)
        asked = {**asdict(rules), "seed": seed, "sets": sets, "tau": tau, "kind": dissimilarity}
        del asked["most_sweeps"]  # no sweep goes by how many may follow
        if network is not None:
            asked["network"] = checked(network, prepared, rules.rows_of_a_batch(len(rows)))
        if on_device is not None:
            asked["device"] = on_device.type
        repair = None
        if sets:
            varying = prepared.varying
            repair = Repair(d, sets, tau, dissimilarity, n_features, varying=varying)
        if tau == 0:
            repair = None  # the sets are checked all the same, but no mask is too near
        search = Search(prepared, rules, seed, repair=repair, module=network)
        _run(search, path, prepared, asked, on_device)
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


def _run(
    search: Search,
    path: Path | None,
    prepared: Prepared,
    asked: dict[str, Any],
    device: torch.device | None,
) -> None:
    """Take a search to its end, by way of its checkpoint."""
    of = None if path is None else fingerprint(prepared, asked)
    if path is not None:
        check_can_be_written(path)
    if path is not None and of is not None and path.exists():
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"checkpoint {path} cannot be read: {error.strerror}; name another file"
            ) from error
        with said_to_the_user(f"{path}: "):
            restore(search, content, of)
    batch = None if device is None else BatchedSearch([search], device)

    def keep() -> None:
        if path is not None and of is not None:
            if batch is not None:
                batch.bring_back(0)
            write_file(path, to_bytes(search, of))

    if batch is None:
        search.run(keep)
    else:
        list(batch.ended(keep))


def _final_mask(search: Search, n_features: int | None, repair: Repair | None) -> Mask:
    theta = search.probabilities
    if n_features is not None:
        if repair is not None:
            return repair.most_probable(theta, n_features)
        on_the_way = np.mean([one.probabilities for one in search.sweeps], axis=0)
        return most_probable(theta, n_features, on_the_way)
    mask = np.asarray(theta >= 0.5)
    if not mask.any():
        mask = most_probable(theta, 1, theta)
    return mask if repair is None else repair.final(mask, theta)
