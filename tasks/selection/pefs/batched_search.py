"""Searches on one of torch's devices, such as a GPU: all of them make their iterations together.

Each is the search that `Search` would make. It draws its first weights, its mini-batches and what
its masks are drawn by as `Search` does, from its own seed alone and in the same order, on the CPU;
none of it depends on what was found, so that it is drawn ahead, for many iterations at a time.
Network and distribution move on the device by the same formulas: theta in float64, which gives the
same masks, and the network in float32, whose products are rounded otherwise there. Where two masks
are so near in loss that rounding says which is better, the ways part. Who else is in the batch
matters to a search by such rounding alone.

The host looks at what was found once a sweep. A search that is done leaves then. Between sweeps
`Search` is where a search is kept, so that it can be kept as a checkpoint, and go on from one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from chaffinch.tasks.selection.masked_loss.devices import usable_memory, whole_float32
from chaffinch.tasks.selection.models.threads import single_torch_thread
from chaffinch.tasks.selection.models.torch_defaults import torch_by_default
from chaffinch.tasks.selection.pefs.batched_training import number_type
from chaffinch.tasks.selection.pefs.network import Training
from chaffinch.tasks.selection.pefs.search import Search
from chaffinch.tasks.selection.pefs.together import DRAWN_AT_ONCE, RowsOnDevice, Together, plain

if TYPE_CHECKING:
    import torch

_STACKS = 9  # parameters, Adam's two, gradients, four on the way, and the first layer's once more
_PASSES = 6  # of hidden units: linear, ReLU, normal, and the gradient of each


class BatchedSearch:
    """Searches of the same rows, made at the same time on a device.

    Parameters
    ----------
    searches : sequence of Search, at least one
        Fresh, or from checkpoints; of the same rows, and of rules and features to keep that differ
        in `penalty` and `n_features` alone. They are taken to their ends.
    device : torch.device
    first : torch.dtype, optional
        In what the product of the first layer is taken; by default see `number_type`.
    memory : int, optional
        How many bytes may be used there, by default most of what is free.

    Raises
    ------
    ValueError
        If they do not go together, have a repair or a module, or do not fit into the memory.
    """

    def __init__(
        self,
        searches: Sequence[Search],
        device: torch.device,
        *,
        first: torch.dtype | None = None,
        memory: int | None = None,
    ) -> None:
        _check_that_they_go_together(searches, device)
        self._searches, self._device = list(searches), device
        self._first = number_type(device, searches[0].n_inputs) if first is None else first
        _check_fits(searches, device, self._first, memory)
        with torch_by_default():
            self._rows = RowsOnDevice(searches[0], device, self._first)
        self._together: Together | None = None
        self.under_way = [n for n, one in enumerate(searches) if not one.is_done]

    def ended(self, on_sweep: Callable[[], object] = lambda: None) -> Iterator[int]:
        """Make sweeps, and yield the number of each search as it is done.

        Parameters
        ----------
        on_sweep : callable
            Called after each sweep, before those that are done leave. `under_way` has the numbers
            of those that made it.

        Raises
        ------
        UnusableError
            If the training of one diverges.
        """
        yield from (n for n in range(len(self._searches)) if n not in self.under_way)
        while self.under_way:
            some = [self._searches[n] for n in self.under_way]
            with _at(self._device):
                self._together = Together(some, self._rows, self._device, self._first)
            while not any(one.is_done for one in some):
                with _at(self._device):
                    self._together.sweep()
                on_sweep()
            for n in self.under_way:
                self.bring_back(n)
            self._together = None  # its memory is free before the next one takes some
            done = [n for n in self.under_way if self._searches[n].is_done]
            self.under_way = [n for n in self.under_way if n not in done]
            yield from done

    def bring_back(self, number: int) -> None:
        """Copy the network of a search under way into it; all else is there after each sweep.

        Parameters
        ----------
        number : int
            Of the search, from 0. Of one that is done it is there already.
        """
        if self._together is not None and number in self.under_way:
            self._together.bring_back(self.under_way.index(number))


@contextmanager
def _at(device: torch.device) -> Iterator[None]:
    """Make a device torch's present one, keep float32 whole, and the CPU to one thread."""
    import torch

    present = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with single_torch_thread(), torch_by_default(), whole_float32(), present:
        yield


def _check_that_they_go_together(searches: Sequence[Search], device: torch.device) -> None:
    first = searches[0]

    def in_common(search: Search) -> object:
        return replace(search.rules, penalty=0.0, n_features=None)

    for one in searches:
        if one.repair is not None or not isinstance(one.training, Training):
            what = "a module" if one.repair is None else "masks that are repaired"
            raise ValueError(
                f"{what} cannot be searched with on {device}: it takes the paper's network and any "
                "mask; use device='cpu'"
            )
        if one.prepared is not first.prepared or in_common(one) != in_common(first):
            raise ValueError(
                "searches that go together must be of the same rows, and of rules that differ in "
                "penalty and n_features alone"
            )


def _check_fits(
    searches: Sequence[Search], device: torch.device, first: torch.dtype, memory: int | None
) -> None:
    """Refuse what does not fit into a device's memory; ValueError."""
    one, n = searches[0], len(searches)
    usable = usable_memory(device) if memory is None else memory
    n_parameters = sum(each.numel() for each in plain(one).parameters)
    n_rows = one.batch_size * one.rules.samples  # under a mask each
    n_outputs = one.prepared.schema.n_classes or 1
    units = _PASSES * (sum(one.rules.hidden_layer_sizes) + n_outputs)
    of_each = 4 * _STACKS * n_parameters + n_rows * (4 * units + 2 * first.itemsize * one.n_inputs)
    drawn = 8 * (one.batch_size + one.rules.samples * len(one.probabilities))
    table = one.prepared.inputs.size * first.itemsize + 16 * len(one.prepared)
    needed = table + n * (of_each + drawn) + min(DRAWN_AT_ONCE, n * drawn * one.n_iterations)
    if needed > usable:
        raise ValueError(
            f"{n} searches of {len(one.prepared)} rows and {one.n_inputs} inputs take "
            f"{needed / 1e9:.4g} GB on {device} but it has {usable / 1e9:.4g} GB for them; ask for "
            "fewer penalties, sizes or seeds at a time, or use device='cpu'"
        )
