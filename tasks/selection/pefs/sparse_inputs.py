"""Inputs of which most are the commonest value of their column, as counts of words are.

Under a mask a row's first layer is that of a row of commonest values, which all rows of the mask
share, and what the few other values of the row add to it. So it costs what these cost, and not what
the width does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

# As measured on one thread with 200 units: at 3,289 columns of which 1.5 % differ the first layer
# takes .3 of its time, and with fewer columns the rest of an iteration outweighs it.
LEAST_WIDTH, MOST_DENSE = 512, 0.05
_COLUMNS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class SparseInputs:
    """What the inputs of some rows differ from the commonest of their column in.

    Attributes
    ----------
    common : float32 tensor, shape (width,)
        The commonest value of each column, among all rows.
    starts : int64 tensor, shape (n + 1,)
        Where each row's part of `columns` and `excess` begins, and where the last one's ends.
    columns : int64 tensor, shape (k,)
        Row by row, the columns in which it has another value.
    excess : float32 tensor, shape (k,)
        Those values, less the commonest.
    """

    common: torch.Tensor
    starts: torch.Tensor
    columns: torch.Tensor
    excess: torch.Tensor

    @classmethod
    def of(cls, inputs: NDArray[np.float32]) -> SparseInputs | None:
        """Return inputs (n, width) in this form, or None where it does not pay."""
        import torch

        n, width = inputs.shape
        if width < LEAST_WIDTH:
            return None
        common = np.empty(width, dtype=np.float32)
        for start in range(0, width, _COLUMNS_AT_ONCE):
            block = slice(start, start + _COLUMNS_AT_ONCE)
            # a value that most rows have is the middle one of them all
            common[block] = np.partition(inputs[:, block], n // 2, axis=0)[n // 2]
        n_of_each = np.array([np.count_nonzero(row != common) for row in inputs])
        if n_of_each.sum() > MOST_DENSE * inputs.size:
            return None
        columns = np.concatenate([np.flatnonzero(row != common) for row in inputs])
        rows = np.repeat(np.arange(n), n_of_each)
        return cls(
            torch.from_numpy(common),
            torch.from_numpy(np.concatenate([[0], np.cumsum(n_of_each)])),
            torch.from_numpy(columns),
            torch.from_numpy(inputs[rows, columns] - common[columns]),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: torch.Tensor) -> SparseInputs:
        """Return some rows, by their numbers."""
        import torch

        n_of_each = self.starts[rows + 1] - self.starts[rows]
        starts = torch.zeros(len(rows) + 1, dtype=torch.int64)
        torch.cumsum(n_of_each, 0, out=starts[1:])
        shift = torch.repeat_interleave(self.starts[rows] - starts[:-1], n_of_each)
        places = torch.arange(len(shift)) + shift
        return SparseInputs(self.common, starts, self.columns[places], self.excess[places])

    def linear(self, weight: torch.Tensor, bias: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """Return a layer's outputs of each row under each mask, (n, m, units); for autograd too.

        Parameters
        ----------
        weight, bias : float32 tensor, shapes (width, units) and (units,)
        masks : float32 tensor, shape (m, width)
            1 where a column is kept.
        """
        import torch

        n_masks, n_values = len(masks), len(self.columns)
        starts = [self.starts[:-1] + nth * n_values for nth in range(n_masks)]
        differing = torch.nn.functional.embedding_bag(
            self.columns.repeat(n_masks),
            weight,
            torch.cat(starts),
            mode="sum",
            per_sample_weights=(self.excess * masks[:, self.columns]).view(-1),
        )
        of_each = differing.view(n_masks, len(self), -1).transpose(0, 1).contiguous()
        return of_each + torch.addmm(bias, masks * self.common, weight)
