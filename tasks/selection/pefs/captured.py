"""A step that a GPU repeats by itself: a CUDA graph of it, recorded once and then replayed.

As torch's notes on CUDA graphs have it: some steps are made on a side stream first, so that
libraries are loaded and their choices made; one is recorded, which makes none; from there on each
is a replay on the memory that was recorded. Never run without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_MADE_BEFORE = 3  # as in torch's own examples


class Captured:
    """A step as a CUDA graph; it is called as the step itself is.

    Parameters
    ----------
    step : callable
        Reads from and writes to tensors that stay where they are, and never waits for the device.
    device : torch.device
        A CUDA device, and the present one whenever this is called.
    """

    def __init__(self, step: Callable[[], None], device: torch.device) -> None:
        import torch

        self._step, self._n_before = step, 0
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Make the step once."""
        import torch

        if self._n_before < _MADE_BEFORE:
            here = torch.cuda.current_stream()
            self._side.wait_stream(here)
            with torch.cuda.stream(self._side):
                self._step()
            here.wait_stream(self._side)
            self._n_before += 1
            return
        if self._graph is None:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=self._side):
                self._step()
        self._graph.replay()
