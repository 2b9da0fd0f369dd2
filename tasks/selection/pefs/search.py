"""The search: the network and the distribution of its masks, trained at the same time."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.input_checks import check_count, is_number, is_whole
from chaffinch.tasks.selection.models.runtime import single_torch_thread, torch_by_default
from chaffinch.tasks.selection.pefs.custom_module import ModuleTraining
from chaffinch.tasks.selection.pefs.distribution import Masks, moved, sample, utilities
from chaffinch.tasks.selection.pefs.network import Prepared, Training, check_memory
from chaffinch.tasks.selection.pefs.results import SharedModule, SharedNetwork, Sweep, is_settled

if TYPE_CHECKING:
    import torch

BATCH_SIZE = 128
# A sweep is d iterations, and a step 1/d, but the network needs some to learn from narrow tables.
FEWEST_ITERATIONS = 128
# Steering: where the penalty begins, how far it may go, and how fast.
_FIRST_PENALTY, _LEAST_PENALTY, _MOST_PENALTY, _GAIN = 0.05, 0.001, 1.0, 1.0
_NEAR = 0.05  # of the target number: how far off a search may end before its time is over

# Takes masks (lambda, d) to masks that are allowed.
Repair = Callable[[Masks, Floats, np.random.Generator], Masks]


@dataclass(frozen=True)
class Rules:
    """Settings of a search; InputError if a value is out of its range.

    Either `penalty`, epsilon in 0..1, or `n_features` is set: then the penalty is steered until
    about so many features are expected in a mask. `samples` is lambda. A sweep is d iterations, at
    least 128, and the step of a probability is 1 / that number.
    """

    penalty: float | None = None
    n_features: int | None = None
    samples: int = 2  # at least 2
    hidden_layer_sizes: tuple[int, ...] = (200, 200, 200)
    batch_size: int | None = None
    most_sweeps: int = 60
    early_stopping: bool = True  # it ends when it has settled

    def __post_init__(self) -> None:
        if (self.penalty is None) == (self.n_features is None):
            raise InputError(
                f"penalty and n_features exclude each other but are {self.penalty} and "
                f"{self.n_features}; give one of them"
            )
        if self.penalty is not None and not (is_number(self.penalty) and 0 <= self.penalty <= 1):
            raise InputError(f"penalty must be in 0..1 but is {self.penalty!r}")
        for name, least in (("n_features", 1), ("samples", 2), ("batch_size", 2)):
            value = getattr(self, name)
            if value is not None:
                check_count(name, value, least)
        check_count("most_sweeps", self.most_sweeps, 1)
        sizes = self.hidden_layer_sizes
        if not sizes or not all(is_whole(size) and size >= 1 for size in sizes):
            raise InputError(
                "hidden_layer_sizes must have at least one layer, each of at least 1 unit, a whole "
                f"number, but is {sizes}"
            )

    def rows_of_a_batch(self, n_rows: int) -> int:
        """Return the size of a mini-batch; InputError if there are not as many rows."""
        if n_rows < 2:
            raise InputError(f"pefs needs at least 2 training rows but has {n_rows}; give more")
        if self.batch_size is not None and self.batch_size > n_rows:
            raise InputError(
                f"batch_size must be at most {n_rows}, the number of training rows, but is "
                f"{self.batch_size}; leave it out, or give more rows"
            )
        return self.batch_size or min(BATCH_SIZE, n_rows)


def _diverged(step: int, *, of_module: bool = False) -> InputError:
    """Return the error of a training whose loss became non-finite after so many steps."""
    remedy = "give a network whose outputs stay finite" if of_module else "take another method"
    return InputError(
        f"the training of the network of pefs diverged after {step} steps; "
        f"clip the largest values of the table, or {remedy}"
    )


class Search:
    """A search on its way; `run` takes it to its end.

    Features of `keep` are in every mask; a feature that is the same in all rows takes no part.
    `repair` takes each drawn set of masks to masks that are allowed. `module`, which `checked`
    accepted, is copied and trained in place of the paper's network. InputError if rows, features,
    `keep`, `n_features` or the memory do not fit.
    """

    @torch_by_default()
    def __init__(
        self,
        prepared: Prepared,
        rules: Rules,
        seed: int,
        *,
        keep: Collection[int] = (),
        repair: Repair | None = None,
        module: torch.nn.Module | None = None,
    ) -> None:
        import torch

        d, n_classes = len(prepared.schema.features), prepared.schema.n_classes
        if d < 2:
            raise InputError(f"pefs needs at least 2 features to choose from but has {d}; add one")
        if any(not 0 <= j < d for j in keep):
            raise InputError(f"keep must name features in 0..{d - 1} but is {sorted(keep)}")
        if rules.n_features is not None and rules.n_features > d:
            raise InputError(f"n_features must be in 1..{d} but is {rules.n_features}")
        self.batch_size = rules.rows_of_a_batch(len(prepared))
        self.prepared, self.rules, self.repair = prepared, rules, repair
        self.n_iterations = max(d, FEWEST_ITERATIONS)  # of a sweep
        self._columns = prepared.encoding.feature_of_column
        kept = np.isin(np.arange(d), sorted(keep))
        self.fixed = kept | ~prepared.varying  # (d,), features whose probability never moves
        self.probabilities = np.where(self.fixed, kept.astype(np.float64), 0.5)
        self.penalty = float(_FIRST_PENALTY if rules.penalty is None else rules.penalty)
        self.random = np.random.default_rng(seed)
        seed_of_network = int(self.random.integers(2**63))
        self.training: Training | ModuleTraining
        if module is None:
            sizes = (self.n_inputs, *rules.hidden_layer_sizes, n_classes or 1)
            check_memory(sizes, self.batch_size * rules.samples)
            self.training = Training.begin(sizes, torch.Generator().manual_seed(seed_of_network))
        else:
            self.training = ModuleTraining.begin(module, seed_of_network)
        self.order, self.place = np.arange(0), 0  # rows of this epoch, and how many were used
        self.sweeps: list[Sweep] = []

    @property
    def n_inputs(self) -> int:
        """How many inputs the network has."""
        return len(self._columns)

    @property
    def network(self) -> SharedNetwork | SharedModule:
        """The network as it is now."""
        if isinstance(self.training, ModuleTraining):
            return SharedModule(self.prepared, copy.deepcopy(self.training.module))
        return SharedNetwork(self.prepared, self.training.layers())

    @property
    def is_done(self) -> bool:
        """Whether it has settled, or has made as many sweeps as it may."""
        if not self.sweeps:
            return False
        wanted, n_kept = self.rules.n_features, int(self.sweeps[-1].mask.sum())
        if len(self.sweeps) >= self.rules.most_sweeps or not self.rules.early_stopping:
            return len(self.sweeps) >= self.rules.most_sweeps
        is_near = wanted is None or abs(n_kept - wanted) <= _NEAR * wanted
        return is_near and is_settled(self.sweeps, np.flatnonzero(self.fixed).tolist())

    def run(self, on_sweep: Callable[[], object] = lambda: None) -> None:
        """Make sweeps until it is done; `on_sweep` is called after each."""
        while not self.is_done:
            self.sweep()
            on_sweep()

    @torch_by_default()
    def sweep(self) -> None:
        """Make d iterations, at least 128; InputError if the training diverges."""
        d, total = self.n_iterations, 0.0
        with single_torch_thread():
            tensors = self.prepared.tensors()
            for _ in range(d):
                total += self._iterate(*tensors)
        self.sweeps.append(
            Sweep(self.training.step, total / d, self.penalty, self.probabilities.copy())
        )

    def _iterate(
        self, inputs: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None
    ) -> float:
        """Train on a mini-batch under some masks, and move the distribution by their losses."""
        import torch

        theta, rate = self.probabilities, 1 / self.n_iterations
        batch = torch.from_numpy(self._next_rows())
        masks = sample(theta, self.rules.samples, self.random)
        if self.repair is not None:
            masks = self.repair(masks, theta, self.random)
        of_batch = (
            target.index_select(0, batch),
            None if weight is None else weight.index_select(0, batch),
            torch.from_numpy(masks[:, self._columns].astype(np.float32)),
        )
        if isinstance(self.training, Training) and self.prepared.sparse is not None:
            losses = self.training.train(self.prepared.sparse.take(batch), *of_batch)
        else:
            losses = self.training.train(inputs.index_select(0, batch), *of_batch)
        loss = float(sum(losses)) / len(losses)
        if not math.isfinite(loss):
            raise _diverged(self.training.step, of_module=isinstance(self.training, ModuleTraining))
        worth = utilities(losses)
        self.probabilities = moved(theta, masks, worth, self.fixed, self.penalty, rate)
        if self.rules.n_features is not None:
            excess = (int((self.probabilities >= 0.5).sum()) - self.rules.n_features) / len(theta)
            steered = self.penalty * math.exp(_GAIN * excess * rate)
            self.penalty = min(max(steered, _LEAST_PENALTY), _MOST_PENALTY)
        return loss

    def _next_rows(self) -> NDArray[np.int64]:
        """Draw the rows of the next mini-batch; what is left of an epoch is not used."""
        if self.place + self.batch_size > len(self.order):
            self.order, self.place = self.random.permutation(len(self.prepared)), 0
        rows = self.order[self.place : self.place + self.batch_size]
        self.place += self.batch_size
        return rows
