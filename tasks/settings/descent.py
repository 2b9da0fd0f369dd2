"""Settings of a table in random order, and of a descent through it."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from chaffinch.tasks.selection.dfs.limits import HIGHEST_ORDER, check_one_aim, check_order_is_known
from chaffinch.tasks.settings.base import (
    Cluster,
    Count,
    Settings,
    WorkerCount,
    check_workers_needed,
    setting,
)
from chaffinch.tasks.settings.selection import TaskOrAuto


def _known(order: int) -> int:
    check_order_is_known(order)
    return order


# The form has the limits from here: the limits of a Field would refuse without the reason.
Order = Annotated[
    int,
    AfterValidator(_known),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": HIGHEST_ORDER}),
]
BatchRows = Annotated[int, Field(ge=2)]
_Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class ShuffleSettings(Settings):
    """How files become a table in random order; some of it is for one format alone."""

    target: str | None = setting(
        None, 0, "Target", "Of Parquet: column to predict; svmlight has labels."
    )
    drop: tuple[str, ...] = setting((), 1, "Drop", "Of Parquet: columns that are left out.")
    sparse: bool = setting(
        False,
        2,
        "Sparse",
        "Of Parquet: keep only the values that are not 0; for tables that are wide and mostly "
        "zeros.",
    )
    zero_based: bool | None = setting(
        None,
        3,
        "Zero-based",
        "Of svmlight: whether columns are counted from 0 there, or from 1. It must be given.",
    )
    n_columns: Count | None = setting(
        None,
        4,
        "Columns",
        "Of svmlight: how many. By default up to the last one that has a value; set it where "
        "newer rows are to come.",
    )
    dtype: Literal["float32", "float64"] | None = setting(
        None, 5, "Numbers", "Of svmlight: how values are kept. By default float64."
    )
    seed: _Seed = setting(0, 6, "Seed", "Decides the order of the rows.")
    block_rows: Annotated[int, Field(ge=1000)] | None = setting(
        None,
        7,
        "Rows of a block",
        "At least so many are read at a time. By default about two million values.",
    )


class DescentSettings(Settings):
    """Everything that can change what a descent chooses from a table in random order."""

    n_features: Count | None = setting(
        None,
        0,
        "Number of features",
        "Choose so many; the penalty rises over a grid until no more are left.",
    )
    penalty: Annotated[float, Field(ge=0)] | None = setting(
        None,
        1,
        "Penalty",
        "In place of a number: lambda of the term lambda / D sum s, in units of the target's "
        "variance.",
    )
    order: Order = setting(
        4,
        2,
        "Order",
        "Highest power of the correlations that the estimate looks at. A higher one errs less on "
        "average, but varies more: 4 or less where rows are few.",
    )
    steps: Count = setting(
        1000,
        3,
        "Steps",
        "At most so many. A descent ends earlier when as few features are left as are to be "
        "chosen, or when its loss does not fall any more.",
    )
    batch_rows: BatchRows | None = setting(
        None,
        4,
        "Rows of a batch",
        "At least so many are looked at together; a step takes the mean over batches of 1,000 rows "
        "of each of its blocks. By default 1,000, or all where there are fewer.",
    )
    blocks_per_step: Count = setting(
        1,
        5,
        "Blocks of a step",
        "A step takes the mean over batches of so many blocks, which are in memory together, and "
        "which workers share out.",
    )
    task: TaskOrAuto = setting(
        "auto",
        6,
        "Task",
        "What the target is; auto looks at its type and values, and takes the labels of svmlight "
        "for numbers.",
    )
    seed: _Seed = setting(0, 7, "Seed", "Draws the order of the rows of each round.")
    decay: Annotated[float, Field(gt=0, le=1)] | None = setting(
        None,
        8,
        "Decay",
        "With a start, and rows that are newer: how much of what earlier rows taught is kept, of "
        "means, spreads and the mask. By default all of it, 1.",
    )

    @model_validator(mode="after")
    def _one_aim(self) -> "DescentSettings":
        check_one_aim(self.n_features, self.penalty)
        return self


class SharingSettings(Settings):
    """Who reads and computes; nothing here changes a result."""

    cluster: Cluster = setting(
        "none",
        0,
        "Cluster",
        "none: this process alone; local: worker processes on this machine; or the address of a "
        "Dask scheduler such as tcp://host:8786, whose workers read the file themselves.",
    )
    workers: WorkerCount | None = setting(
        None, 1, "Workers", "Worker processes of a local cluster. By default one per core."
    )

    @model_validator(mode="after")
    def _workers_are_needed(self) -> "SharingSettings":
        check_workers_needed(self.cluster, self.workers)
        return self
