"""Whether a network can be trained in the memory that is free, asked before it is made."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

_STACKS = 4  # parameters, their gradients, and what Adam keeps of each
_PASSES = 4  # copies of a layer's units, there and back
_BYTES = 4  # of a number in float32


def bytes_to_train(sizes: Sequence[int], n_rows: int) -> tuple[int, int]:
    """Return about how many bytes training takes: of the paper's network, and of a mini-batch.

    Parameters
    ----------
    sizes : sequence of int
        Inputs, hidden layers, outputs.
    n_rows : int
        Of a mini-batch, under all of its masks together.
    """
    of_layers = [one * other for one, other in itertools.pairwise(sizes)]
    n_units = sizes[0] + _PASSES * sum(sizes[1:])
    # Adam takes the root of one layer's squares at a time
    return _BYTES * (_STACKS * sum(of_layers) + max(of_layers)), _BYTES * n_rows * n_units


def check_memory(sizes: Sequence[int], n_rows: int, memory: int | None = None) -> None:
    """Refuse a network that does not fit into memory.

    Parameters
    ----------
    sizes, n_rows
        See `bytes_to_train`.
    memory : int, optional
        Bytes that may be used; by default those that are free on this machine.

    Raises
    ------
    ValueError
        If it takes more.
    """
    import psutil

    usable = psutil.virtual_memory().available if memory is None else memory
    of_network, of_batch = bytes_to_train(sizes, n_rows)
    if of_network + of_batch > usable:
        remedy = "smaller hidden_layer_sizes"
        if of_network <= of_batch:
            remedy = "fewer samples, or a smaller batch_size"
        raise ValueError(
            f"the training of pefs may take {usable / 1e9:.3g} GB, the memory that is free, but "
            f"hidden layers of {', '.join(map(str, sizes[1:-1]))} units take "
            f"{of_network / 1e9:.3g} GB, and {n_rows} rows (batch_size x samples) "
            f"{of_batch / 1e9:.3g} GB; give {remedy}"
        )
