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
    """A step as a CUDA graph.

    Parameters
    ----------
    device : torch.device
        A CUDA device, and the present one whenever this is called.
    """

    def __init__(self, device: torch.device) -> None:
        import torch

        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._n_before = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, step: Callable[[], None]) -> None:
        """Make the step once.

        Parameters
        ----------
        step : callable
            The same at each call. It reads from and writes to tensors that stay where they are, and
            never waits for the device.
        """
        import torch

        if self._n_before < _MADE_BEFORE:
            here = torch.cuda.current_stream()
            self._side.wait_stream(here)
            with torch.cuda.stream(self._side):
                step()
            here.wait_stream(self._side)
            self._n_before += 1
            return
        if self._graph is None:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self._side):
                step()
            self._graph = graph
        self._graph.replay()
