"""Iterations of several searches at once, on one of torch's devices; see `batched_search.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.tasks.selection.pefs.batched_training import BatchedTraining
from chaffinch.tasks.selection.pefs.captured import Captured
from chaffinch.tasks.selection.pefs.distribution import margin, n_of_the_best
from chaffinch.tasks.selection.pefs.found import Sweep
from chaffinch.tasks.selection.pefs.network import Training
from chaffinch.tasks.selection.pefs.search import (
    GAIN,
    LEAST_PENALTY,
    MOST_PENALTY,
    Search,
    diverged,
)

if TYPE_CHECKING:
    import torch

DRAWN_AT_ONCE = 1 << 26  # bytes


def plain(search: Search) -> Training:
    """Return the training of the paper's network; TypeError if a module is trained."""
    if not isinstance(search.training, Training):
        raise TypeError(f"training must be of the paper's network but is {search.training!r}")
    return search.training


def utilities_of(losses: torch.Tensor) -> torch.Tensor:
    """Return what `distribution.utilities` does, of several searches at once, where the losses are.

    A sample's worth is that of the ranks above the losses that are lower than its own, shared with
    those that are equal to it.

    Parameters
    ----------
    losses : tensor, shape (S, m)

    Returns
    -------
    tensor of float64, shape (S, m)
        NaN where a loss is.
    """
    quarter, n_samples = n_of_the_best(losses.shape[1]), losses.shape[1]
    lower = (losses[:, None, :] < losses[:, :, None]).sum(dim=2)
    equal = (losses[:, None, :] == losses[:, :, None]).sum(dim=2)

    def worth_of_the_first(n: torch.Tensor) -> torch.Tensor:
        """Add up the worth of the n lowest ranks: 1 each, then 0, then -1."""
        return n.clamp(max=quarter) - (n - (n_samples - quarter)).clamp(min=0)

    return (worth_of_the_first(lower + equal) - worth_of_the_first(lower)).double() / equal


class RowsOnDevice:
    """Training rows on a device.

    Parameters
    ----------
    search : Search
        Any of the searches of these rows.
    device : torch.device
    first : torch.dtype
        In what the inputs are held, which is that of the first layer's product.
    """

    def __init__(self, search: Search, device: torch.device, first: torch.dtype) -> None:
        import torch

        inputs, target, weight = search.prepared.tensors()
        self.inputs = inputs.to(device, first)
        self.target = target.to(device)
        self.weight = None if weight is None else weight.to(device)
        columns = search.prepared.reading.feature_of_column
        self.feature_of_column = torch.from_numpy(columns).to(device)


class Together:
    """Searches of which none has left: what moves at each iteration, in tensors that stay.

    Parameters
    ----------
    searches : sequence of Search
        Those of `BatchedSearch` that are under way. After a sweep they are told all but their
        networks, which `bring_back` brings.
    rows : RowsOnDevice
    device : torch.device
    first : torch.dtype
        See `RowsOnDevice`.

    Attributes
    ----------
    captured : Captured, optional
        The iteration as a CUDA graph; None where each is made by itself.
    """

    def __init__(
        self,
        searches: Sequence[Search],
        rows: RowsOnDevice,
        device: torch.device,
        first: torch.dtype,
    ) -> None:
        import torch

        self._searches, self._of_all, self._first = searches, rows, first
        one, n_searches = searches[0], len(searches)
        self._n_iterations, self._n_samples = one.n_iterations, one.rules.samples
        self._training = BatchedTraining([plain(each) for each in searches], device, first)

        def put(values: object) -> torch.Tensor:
            return torch.tensor(np.array(values), device=device)

        d = len(one.probabilities)
        self._theta = put([each.probabilities for each in searches])
        self._fixed = put([each.fixed for each in searches])
        self._penalty = put([[float(each.penalty)] for each in searches])
        self._is_steered = put([[each.rules.n_features is not None] for each in searches])
        self._wanted = put([[each.rules.n_features or 0] for each in searches])
        # of this sweep, and of what was drawn ahead
        self._total, self._n_finite = put(np.zeros(n_searches)), put([0] * n_searches)
        self._is_finite, self._place = put([True] * n_searches), put([0])
        shapes = (n_searches, one.batch_size), (n_searches, self._n_samples, d)
        n_ahead = max(1, DRAWN_AT_ONCE // (8 * sum(map(math.prod, shapes))))
        n_ahead = min(n_ahead, self._n_iterations)
        self._drawn_rows = np.empty((n_ahead, *shapes[0]), dtype=np.int64)
        self._drawn = np.empty((n_ahead, *shapes[1]))
        self._next_rows, self._next = put(self._drawn_rows), put(self._drawn)
        self.captured = Captured(device) if device.type == "cuda" else None

    def sweep(self) -> None:
        """Do what `Search.sweep` does, for each search.

        Raises
        ------
        UnusableError
            If the training of one diverges, which is looked at when the sweep is over.
        """
        for of_the_sweep in (self._total, self._n_finite):
            of_the_sweep.zero_()
        left, d = self._n_iterations, self._n_iterations
        while left:
            n = min(left, len(self._drawn))
            self.draw(n)
            for _ in range(n):
                self.step()
            left -= n
        n_finite = self._n_finite.cpu().numpy()
        if n_finite.min() < d:
            diverging = int(n_finite.argmin())
            step = self._searches[diverging].training.step + int(n_finite[diverging]) + 1
            raise diverged(step)
        figures = [one.cpu().numpy() for one in (self._total, self._penalty[:, 0], self._theta)]
        for search, total, penalty, theta in zip(self._searches, *figures, strict=True):
            search.training.step += d
            search.penalty, search.probabilities = float(penalty), theta.copy()
            sweep = Sweep(search.training.step, float(total) / d, search.penalty, theta.copy())
            search.sweeps.append(sweep)

    def bring_back(self, number: int) -> None:
        """See `BatchedSearch.bring_back`."""
        self._training.write_to(plain(self._searches[number]), number)

    def draw(self, n: int) -> None:
        """Draw for the next n iterations as each search does, and send it to the device.

        While this draws, the device may be at what was drawn before; the copies come after that.

        Parameters
        ----------
        n : int
            At most so many as there is room for, about 64 MB.
        """
        import torch

        for number, search in enumerate(self._searches):
            for i in range(n):
                self._drawn_rows[i, number] = search.next_rows()
                search.random.random(out=self._drawn[i, number])
        self._next_rows[:n].copy_(torch.from_numpy(self._drawn_rows[:n]))
        self._next[:n].copy_(torch.from_numpy(self._drawn[:n]))
        self._place.zero_()

    def step(self) -> None:
        """Make the next iteration that was drawn."""
        if self.captured is None:
            self.iterate()
        else:
            self.captured(self.iterate)

    def iterate(self) -> None:
        """Do what `Search._iterate` does, for each search; the device is never waited for."""
        import torch

        rows, weight = self._next_rows.index_select(0, self._place)[0], self._of_all.weight
        masks = self._next.index_select(0, self._place)[0] < self._theta[:, None]
        every = rows.view(-1)
        losses = self._training.train(
            self._of_all.inputs.index_select(0, every).view(*rows.shape, -1),
            self._of_all.target.index_select(0, every).view(rows.shape),
            None if weight is None else weight.index_select(0, every).view(rows.shape),
            masks.index_select(2, self._of_all.feature_of_column).to(self._first),
        )
        loss = losses.double().mean(dim=1)
        self._total.add_(loss)
        self._is_finite.logical_and_(torch.isfinite(loss))
        self._n_finite.add_(self._is_finite)
        self._move(masks, utilities_of(losses))
        self._place.add_(1)

    def _move(self, masks: torch.Tensor, worth: torch.Tensor) -> None:
        """Do what `distribution.moved` does, and steer the penalty."""
        import torch

        theta, rate, d = self._theta, 1 / self._n_iterations, self._theta.shape[1]
        gradient = (worth[:, :, None] * (masks.double() - theta[:, None])).sum(dim=1)
        gradient /= self._n_samples
        after = theta + rate * (gradient - self._penalty * theta * (1 - theta))
        near = margin(d)
        theta.copy_(torch.where(self._fixed, theta, after.clamp_(near, 1 - near)))
        excess = ((theta >= 0.5).sum(dim=1, keepdim=True) - self._wanted).double() / d
        steered = self._penalty * torch.exp(GAIN * excess * rate)
        steered.clamp_(LEAST_PENALTY, MOST_PENALTY)
        self._penalty.copy_(torch.where(self._is_steered, steered, self._penalty))
