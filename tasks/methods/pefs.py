"""PEFS: probabilistic embedded feature selection, with searches distributed to the workers.

Each penalty or size has a search per seed. With checkpoints, each worker saves its search from
time to time, and this process saves the results. After a kill, finished results are read back and
unfinished searches resume.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import product
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field, field_validator, model_validator

from chaffinch.errors import InputError, short_repr
from chaffinch.storage.extras import require
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.methods.protocol import Problem, Seen, requested_sizes, unique_masks
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.models.mlp import NeuralNetwork
from chaffinch.tasks.selection.models.pefs_network import NAME
from chaffinch.tasks.selection.pefs.checkpoint import (
    parameters_from_bytes,
    parameters_to_bytes,
    read_result,
    restore,
    result_to_bytes,
    to_bytes,
)
from chaffinch.tasks.selection.pefs.network import Prepared, Training, check_memory
from chaffinch.tasks.selection.pefs.results import (
    ProbabilisticSearch,
    ProbabilisticSearches,
    SharedNetwork,
    Sweep,
    stability,
)
from chaffinch.tasks.selection.pefs.search import Rules, Search
from chaffinch.tasks.settings.base import SIZES, Count, Sizes, setting
from chaffinch.tasks.settings.method import Method, Traits, numbers_in_words
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

logger = logging.getLogger(__name__)

_PENALTIES = (0.01, 0.02, 0.04, 0.08, 0.15)  # about equidistant logarithms
MOST_UNITS = 65_536  # of a hidden layer

_OF_NETWORKS: tuple[Seen, ...] = ("train", "mask_validation")  # trained for a final model

_Item = tuple[int, float | int, int]  # number, requested penalty or size, seed


class Pefs(Method):
    """Probabilistic embedded feature selection: a network and the probability of each feature.

    Without penalties and without a number of features, a grid of penalties is swept.
    """

    model_config = ConfigDict(title="PEFS")
    declared_traits = Traits(
        parts_used={
            "train": "tuning, fitting, the baseline, the probabilities",
            "mask_validation": "the losses of the networks; then fitting",
        }
    )
    published = MappingProxyType(  # section 3.1
        {
            "method.penalties": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
            "method.early_stopping": False,
            "baseline": "zero",
        }
    )

    kind: Literal["pefs"] = setting(
        "pefs",
        "Probabilistic embedded feature selection trains a network of its own and, at the same "
        "time, the probability of each feature, by which of two random masks has the lower loss.",
    )
    penalties: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=1)] | (
        None
    ) = setting(
        None,
        "A feature stays if masks that have it win by more than this share of the contests. Each "
        "penalty is a search of its own; the one whose mask does best on the model-validation "
        "rows wins. By default 0.01, 0.02, 0.04, 0.08 and 0.15, unless there are sizes.",
    )
    n_features: Sizes | None = setting(
        None,
        f"{SIZES.description} The penalty is steered to each, in place of penalties.",
        title="Sizes",
    )
    seeds: Count = setting(
        1, "Searches for each penalty or size; their probabilities are averaged."
    )
    samples: Annotated[int, Field(ge=2)] = setting(2, "Masks that are compared on each mini-batch.")
    hidden_layer_sizes: tuple[Annotated[int, Field(ge=1, le=MOST_UNITS)], ...] = setting(
        (200, 200, 200), "Units of each hidden layer.", title="Hidden layers", min_length=1
    )
    batch_size: Annotated[int, Field(ge=2)] | None = setting(
        None, "Rows of a mini-batch. By default 128, or all training rows if there are fewer."
    )
    most_sweeps: Count = setting(
        60,
        "A search ends after so many times as many iterations as there are features (of fewer "
        "than 128 features, 128), whether or not its probabilities have settled.",
    )
    early_stopping: bool = setting(
        True,
        "A search ends when its probabilities have settled. Otherwise it makes all its sweeps, as "
        "in the paper, whose 100,000 iterations are that many by the number of features.",
    )

    def check_machine(self) -> None:
        """Raise InputError without torch, or if the hidden layers do not fit into the free memory.

        This is a lower bound; the search checks the network of the actual table.
        """
        require("torch", "method pefs")
        check_memory((1, *self.hidden_layer_sizes, 1), n_rows=2 * self.samples)

    def check_training_rows(self, n_rows: int) -> None:
        """Raise InputError if a mini-batch has more rows than the `n_rows` training rows."""
        if self.batch_size is not None and self.batch_size > n_rows:
            raise InputError(
                f"batch_size must be at most {n_rows}, the number of training rows, but is "
                f"{self.batch_size}; leave it out, or give more rows"
            )

    @field_validator("penalties")
    @classmethod
    def _sorted(cls, penalties: tuple[float, ...] | None) -> tuple[float, ...] | None:
        """Sort penalties, so that their order does not change the identity of settings."""
        return None if penalties is None else tuple(sorted(set(penalties)))

    @model_validator(mode="before")
    @classmethod
    def _without_device(cls, values: Any) -> Any:
        """Accept the setting `device` of earlier releases if it is the CPU."""
        if not isinstance(values, dict) or "device" not in values:
            return values
        if values["device"] != "cpu":
            raise ValueError(
                f"device must be cpu but is {short_repr(values['device'])}; GPUs are not "
                "supported any more, so leave it out and select again"
            )
        return {name: value for name, value in values.items() if name != "device"}

    @model_validator(mode="before")
    @classmethod
    def _penalties_unless_sizes(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        is_set = any(values.get(name) is not None for name in ("penalties", "n_features"))
        return values if is_set else {**values, "penalties": _PENALTIES}

    @model_validator(mode="after")
    def _penalties_or_sizes(self) -> Self:
        if self.penalties is not None and self.n_features is not None:
            penalties, sizes = map(numbers_in_words, (self.penalties, self.n_features))
            raise ValueError(
                f"penalties and n_features exclude each other but are {penalties} and {sizes}; "
                "give one of them"
            )
        return self

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> None:
        """Return None: the search trains networks of its own."""
        return

    def search(self, problem: Problem) -> SearchResult:
        """Search for each penalty or size on the training rows.

        The mask-validation rows measure the loss of each search's network.
        """
        schema, keep = problem.schema, problem.keep
        d, keeps_networks = len(schema.features), problem.recipe.name == NAME
        train = problem.rows(*(_OF_NETWORKS if keeps_networks else _OF_NETWORKS[:1]))
        requests: list[float | int] = list(self.penalties or ())
        requests += requested_sizes(self.n_features or (), d, max(1, len(keep)))
        shared = _Searches(
            self,
            train,
            problem.rows("model_validation" if keeps_networks else "mask_validation"),
            schema,
            problem.baseline,
            problem.loss,
            keep,
            problem.seed,
            problem.checkpoints,
            keeps_networks,
        )
        pairs = product(requests, range(self.seeds))
        items = [(number, *pair) for number, pair in enumerate(pairs)]
        n_missing = int(np.isnan(train.X).any(axis=0).sum())
        if n_missing and not all(_is_trivial(shared, item) for item in items):
            logger.info("pefs takes the baseline for the missing values of %d features", n_missing)
        searches = _run_searches(shared, items, problem)
        if not any(search.probabilities.any() for search in searches):
            raise InputError(
                f"pefs finds no use in any of the {d} features: each is the same in all training "
                "rows; give more rows, or another method"
            )
        return result_of(ProbabilisticSearches(tuple(searches)), schema.features)

    def candidates(self, result: SearchResult) -> list[Candidate]:
        """Return the masks of the penalties or of the requested sizes."""
        searches = searches_of(result)
        settings: dict[float | int, list[float]] = {
            request: [request] for request in searches.asked
        }
        if self.n_features is not None:
            fewest = min(int(request) for request in searches.asked)
            settings.update(requested_sizes(self.n_features, searches.n_features, fewest).items())
        return unique_masks(
            [
                Candidate(
                    searches.mask(request),
                    settings[request],
                    searches.best_first(request),
                    request if isinstance(request, int) else None,
                )
                for request in searches.asked
            ]
        )

    def of_sizes(
        self,
        result: SearchResult,
        sizes: Sequence[int],
        problem: Problem,
        seconds: float,
    ) -> list[tuple[int, Mask, float]]:
        """Return the mask of each size, with further searches for sizes that the result lacks.

        The seconds of a size are its share of iterations.
        """
        own_searches, n_features, n_kept = searches_of(result), result.n_features, len(problem.keep)
        own = requested_sizes(self.n_features or (), n_features, max(1, n_kept))
        possible = [size for size in sizes if n_kept <= size <= n_features]
        further = tuple(size for size in possible if size not in own)
        further_searches, further_seconds = own_searches, 0.0
        if further:
            method = self.model_copy(update={"penalties": None, "n_features": further})
            began = time.perf_counter()
            further_searches = searches_of(method.search(problem))
            further_seconds = time.perf_counter() - began
        by_size = dict.fromkeys((size for size in possible if size in own), (own_searches, seconds))
        by_size |= dict.fromkeys(further, (further_searches, further_seconds))
        return [
            (size, searches.mask(size), taken * searches.share_of_iterations(size))
            for size, (searches, taken) in sorted(by_size.items())
        ]

    @property
    def model_parameters(self) -> Mapping[str, Any]:
        return {"hidden_layer_sizes": list(self.hidden_layer_sizes)}

    def trained_model(
        self, problem: Problem, result: SearchResult, mask: Mask
    ) -> NeuralNetwork | None:
        """Return the network of a search under a mask; of several seeds the best one.

        That is on the model-validation rows. None without networks, or where a mask needed no
        search.
        """
        searches = searches_of(result)
        request = searches.behind(mask)
        names = [
            _file_of(number)
            for number, search in enumerate(searches.searches, 1)
            if search.asked == request
        ]
        if not all(name in result.files for name in names):
            return None
        train, held_out = problem.rows(*_OF_NETWORKS), problem.rows("model_validation")
        prepared = Prepared.of(train, problem.schema, problem.baseline)
        networks = [
            SharedNetwork(prepared, parameters_from_bytes(result.files[name])).under(mask)
            for name in names
        ]
        losses = [
            problem.loss(held_out.y, held_out.predicted_by(network), held_out.weight)
            for network in networks
        ]
        return networks[int(np.argmin(losses))].on(mask)

    def scores(self, result: SearchResult, kept: Sequence[bool]) -> dict[str, float] | None:
        """Return the probabilities of the chosen mask; None if it needed no search."""
        searches = searches_of(result)
        sources = searches.behind(np.array(kept, dtype=bool))
        if not searches.is_made(sources):
            return None
        return dict(zip(result.features, searches.probabilities(sources).tolist(), strict=True))

    def report(self, result: SearchResult) -> dict[str, Any]:
        """Return each search with its curves."""
        searches: list[dict[str, Any]] = [
            {**facts, "iteration": [], "entropy": [], "stability": [], "features_left": []}
            for facts in result.facts["searches"]
        ]
        curves = ("iteration", "entropy", "stability", "features_left")
        for row in result.steps.select(["search", *curves]).to_pylist():
            for name in curves:
                searches[row["search"] - 1][name].append(row[name])
        return {"searches": searches}


@dataclass(frozen=True)
class _Searches:
    """Inputs that all searches share."""

    method: Pefs
    train: Rows
    held_out: Rows
    schema: Schema
    baseline: Floats
    loss: Loss
    keep: tuple[int, ...]
    seed: int
    checkpoints: Checkpoints | None
    keeps_networks: bool


def _run_searches(
    shared: _Searches, items: Sequence[_Item], problem: Problem
) -> list[ProbabilisticSearch]:
    """Return the result of each search; results of an earlier process are read back."""
    checkpoints = shared.checkpoints
    finished: dict[int, ProbabilisticSearch] = {}
    if checkpoints is not None:
        checkpoints.begin()
        finished = _finished_searches(checkpoints, items)
    if finished:
        problem.on_progress(len(finished), len(items))
    left = [item for item in items if item[0] not in finished]
    with closing(problem.workers.as_done(_run_search, shared, left)) as results:
        for position, search in results:
            number = left[position][0]
            finished[number] = search
            _log(search)
            if checkpoints is not None:
                name, of = _checkpoint(checkpoints, number)
                checkpoints.keep(name, partial(result_to_bytes, search, of))
            problem.on_progress(len(finished), len(items))
    return [finished[number] for number, _, _ in items]


def _log(search: ProbabilisticSearch) -> None:
    goal = f"penalty {search.asked:g}"
    if isinstance(search.asked, int):
        goal = f"{search.asked} feature{'s' * (search.asked > 1)}"
    if not search.is_made:
        logger.info("pefs, %s, seed %d: nothing to search, as one set is left", goal, search.seed)
        return
    last = search.sweeps[-1]
    logger.info(
        "pefs, %s, seed %d: %d iterations, entropy %.2f bits, %d of %d features as probable as not",
        goal,
        search.seed,
        last.iteration,
        last.entropy,
        last.mask.sum(),
        len(last.mask),
    )


def _finished_searches(
    checkpoints: Checkpoints, items: Sequence[_Item]
) -> dict[int, ProbabilisticSearch]:
    """Return the results of finished searches by number."""
    finished, n_under_way = {}, 0
    for number, _, _ in items:
        for search in (
            _read(checkpoints, number, lambda content, of: [read_result(content, of)]) or []
        ):
            n_under_way += search is None
            if search is not None:
                finished[number] = search
    if finished or n_under_way:
        logger.info(
            "pefs continues after a stop; searches: %d, ended before: %d, under way: %d",
            len(items),
            len(finished),
            n_under_way,
        )
    return finished


def _checkpoint(checkpoints: Checkpoints, number: int) -> tuple[str, str]:
    """Return the name of a search's checkpoint, and the identity of the search."""
    name = f"search-{number + 1}.safetensors"
    return name, f"{checkpoints.key} {name}"


def _read(checkpoints: Checkpoints, number: int, use: Callable[[bytes, str], Any]) -> Any:
    """Use the checkpoint of a search, if any; remove it if it is unusable."""
    name, of = _checkpoint(checkpoints, number)
    content = checkpoints.read(name)
    if content is None:
        return None
    try:
        return use(content, of)
    except ValueError as error:
        reason, _, _ = str(error).partition(";")  # without the remedy: the checkpoint is discarded
        checkpoints.discard(name, reason)
        return None


def _run_search(shared: _Searches, item: _Item) -> ProbabilisticSearch:
    """Run a search, or resume it, and measure the held-out loss of its network."""
    number, request, nth_seed = item
    if _is_trivial(shared, item):
        probabilities = np.ones(len(shared.schema.features))  # the only possible mask
        if request == len(shared.keep):
            probabilities = np.isin(np.arange(len(probabilities)), shared.keep).astype(np.float64)
        sweeps = (Sweep(0, math.nan, 0.0, probabilities),)
        return ProbabilisticSearch(request, nth_seed, sweeps, None)
    search, checkpoints = _new_search(shared, item), shared.checkpoints
    if checkpoints is None:
        search.run()
    else:
        _read(checkpoints, number, partial(restore, search))
        name, of = _checkpoint(checkpoints, number)
        keep = checkpoints.now_and_then(name)
        search.run(lambda: keep(partial(to_bytes, search, of)))
    held_out = shared.held_out
    prediction = search.network.predict(held_out.X, search.sweeps[-1].mask)
    loss = shared.loss(held_out.y, prediction, held_out.weight)
    training, parameters = search.training, None
    if shared.keeps_networks and isinstance(training, Training):
        parameters = tuple(training.layers())
    return ProbabilisticSearch(request, nth_seed, tuple(search.sweeps), loss, parameters)


def _is_trivial(shared: _Searches, item: _Item) -> bool:
    """Return whether only one mask is possible: every feature, or the keep features."""
    _, request, _ = item
    d, n_kept = len(shared.schema.features), len(shared.keep)
    return d == max(1, n_kept) or (isinstance(request, int) and request in (n_kept, d))


def _new_search(shared: _Searches, item: _Item) -> Search:
    _, request, nth_seed = item
    method, is_sized = shared.method, isinstance(request, int)
    rules = Rules(
        penalty=None if is_sized else request,
        n_features=int(request) if is_sized else None,
        samples=method.samples,
        hidden_layer_sizes=method.hidden_layer_sizes,
        batch_size=method.batch_size,
        most_sweeps=method.most_sweeps,
        early_stopping=method.early_stopping,
    )
    (seed,) = np.random.SeedSequence([shared.seed, nth_seed]).generate_state(1, np.uint64)
    prepared = Prepared.of(shared.train, shared.schema, shared.baseline)
    return Search(prepared, rules, int(seed), keep=shared.keep)


def result_of(searches: ProbabilisticSearches, features: Sequence[str]) -> SearchResult:
    """Return each sweep of each search, search by search."""
    rows = [
        (number, sweep, stability(search.sweeps[: n + 1]))
        for number, search in enumerate(searches.searches, 1)
        for n, sweep in enumerate(search.sweeps)
    ]
    sweeps = [sweep for _, sweep, _ in rows]
    columns = {
        "search": pa.array([number for number, _, _ in rows], pa.int64()),
        "iteration": pa.array([sweep.iteration for sweep in sweeps], pa.int64()),
        "penalty": pa.array([sweep.penalty for sweep in sweeps], pa.float64()),
        "loss": pa.array([sweep.loss for sweep in sweeps], pa.float64()),
        "entropy": pa.array([sweep.entropy for sweep in sweeps], pa.float64()),
        "stability": pa.array([share for _, _, share in rows], pa.float64()),
        "probabilities": pa.array(
            [sweep.probabilities for sweep in sweeps], pa.list_(pa.float64())
        ),
    }
    facts = [
        {
            "n_features" if isinstance(search.asked, int) else "penalty": search.asked,
            "seed": search.seed,
            "held_out_loss": search.held_out_loss,
        }
        for search in searches.searches
    ]
    masks = [sweep.mask for sweep in sweeps]
    files = {
        _file_of(number): parameters_to_bytes(search.parameters)
        for number, search in enumerate(searches.searches, 1)
        if search.parameters is not None
    }
    return SearchResult.of_masks(
        features, masks, columns=columns, facts={"searches": facts}, files=files
    )


def _file_of(number: int) -> str:
    """Return the name of the file of the network of a search, by its number from 1."""
    return f"network_{number}.safetensors"


def searches_of(result: SearchResult) -> ProbabilisticSearches:
    """Return the searches of `result_of`."""
    steps, facts = result.steps, result.facts["searches"]
    sweeps: dict[int, list[Sweep]] = {number: [] for number in range(1, len(facts) + 1)}
    names = ("search", "iteration", "loss", "penalty", "probabilities")
    for row in zip(*(steps[name].to_pylist() for name in names), strict=True):
        number, iteration, loss, penalty, probabilities = row
        sweeps[number].append(Sweep(iteration, loss, penalty, np.array(probabilities)))
    return ProbabilisticSearches(
        tuple(
            ProbabilisticSearch(
                search["n_features"] if "n_features" in search else search["penalty"],
                search["seed"],
                tuple(sweeps[number]),
                search["held_out_loss"],
            )
            for number, search in enumerate(facts, 1)
        )
    )
